//! A minimal fetch: which objects of a cube an append needs, and whether it is safe to
//! leave the others where they are.

use serde::Serialize;

use super::layout::{Array, TIME};
use super::tree::{Class, Tree};

/// An array that an append could damage when its objects were not fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Offending {
    /// Path of the array below the root.
    pub array: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Why.
    pub why: Unsafe,
    /// Position of its dimension `time`.
    pub time_axis: Option<usize>,
    /// How many times one of its stored objects spans.
    pub object_time_extent: Option<u64>,
}

/// Why an array is no array for a minimal fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unsafe {
    /// A stored object of it spans several times: an append would write a new object over
    /// one that was not fetched, and lose what is in it.
    #[serde(rename = "time extent")]
    TimeExtent,
    /// Which of its dimensions is `time` is not known.
    #[serde(rename = "no dimension names")]
    NoDimensionNames,
    /// What a stored object of it spans is not known.
    #[serde(rename = "irregular chunk grid")]
    IrregularGrid,
}

impl std::fmt::Display for Offending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { array, shape, .. } = self;
        write!(f, "`{array}` of shape {shape:?} ")?;
        match (self.why, self.object_time_extent) {
            (Unsafe::TimeExtent, Some(extent)) => write!(f, "stores {extent} times in one object"),
            (Unsafe::TimeExtent, None) => f.write_str("stores several times in one object"),
            (Unsafe::NoDimensionNames, _) => write!(f, "does not say which dimension is `{TIME}`"),
            (Unsafe::IrregularGrid, _) => f.write_str("has no regular chunk grid"),
        }
    }
}

/// The arrays of a cube for which a minimal fetch is not safe. Whatever the present length:
/// one that ends at the border of an object only puts the damage off.
pub(crate) fn offending(tree: &Tree) -> Vec<Offending> {
    tree.arrays()
        .filter(|(_, array)| !array.is_coordinate())
        .filter_map(|(path, array)| {
            let (why, extent) = judge(array)?;
            Some(Offending {
                array: path.to_owned(),
                shape: array.shape.clone(),
                why,
                time_axis: array.time_axis(),
                object_time_extent: extent,
            })
        })
        .collect()
}

fn judge(array: &Array) -> Option<(Unsafe, Option<u64>)> {
    if array.dimensions.is_none() {
        return Some((Unsafe::NoDimensionNames, None));
    }
    let Some(object) = &array.object_shape else {
        return Some((Unsafe::IrregularGrid, None));
    };
    let extent = *object.get(array.time_axis()?)?;
    (extent != 1).then_some((Unsafe::TimeExtent, Some(extent)))
}

/// The keys a fetch transfers: all of them, or every document and every object below an
/// array of at most one dimension.
pub(crate) fn selected(tree: &Tree, full: bool) -> Vec<&str> {
    let keys = tree.objects.keys().map(String::as_str);
    let travels = |class| matches!(class, Class::Metadata | Class::Coordinate | Class::Stray);
    keys.filter(|key| full || travels(tree.class(key)))
        .collect()
}
