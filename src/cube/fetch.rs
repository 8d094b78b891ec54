//! A minimal fetch: which objects of a cube an append needs, and whether it is safe to
//! leave the others where they are.

use serde::Serialize;

use super::layout::{Array, TIME, ancestors, split};
use super::tree::{Class, Tree};

/// Bytes of the longest name a file can have.
const MOST_OF_A_NAME: usize = 255;

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

/// What a fetch does with the objects of a cube.
#[derive(Debug, Default)]
pub(crate) struct Selected<'a> {
    /// Keys it transfers.
    pub wanted: Vec<&'a str>,
    /// Keys it would transfer if there could be such files.
    pub left_out: Vec<String>,
}

/// Selects everything, or every document and every object below an array of at most one
/// dimension. What no node owns and no file can be called is left out.
pub(crate) fn selected(tree: &Tree, full: bool) -> Selected<'_> {
    let mut selected = Selected::default();
    for key in tree.objects.keys() {
        let class = tree.class(key);
        let travels = matches!(class, Class::Metadata | Class::Coordinate | Class::Stray);
        if class.is_foreign() && (full || travels) && !can_be_a_file(tree, key) {
            selected.left_out.push(key.clone());
        } else if full || travels {
            selected.wanted.push(key);
        }
    }
    selected
}

/// Whether a file can be called `key` beside the others: it is no directory of theirs, as
/// the markers are that some programs leave for folders, nor below one of them, and each of
/// its names is one that a disk takes and a listing of it shows.
fn can_be_a_file(tree: &Tree, key: &str) -> bool {
    let fits =
        |name: &str| !name.is_empty() && name.len() <= MOST_OF_A_NAME && !name.contains('\0');
    // How the client names a file whose write is under way.
    let is_staged = |name: &str| {
        let number = name.split_once('#').map(|(_, number)| number);
        number.is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let is_file = |path: &str| tree.objects.contains_key(path) && !tree.class(path).is_foreign();
    key.split('/').all(fits)
        && !split(key).is_some_and(|(_, name)| is_staged(name))
        && tree.keys_below(key).next().is_none()
        && !ancestors(key).any(is_file)
}
