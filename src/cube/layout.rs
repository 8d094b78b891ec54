//! The metadata documents of a cube, read as what they say about nodes: Zarr format 3, and
//! nothing taken for granted that a document does not say.

use serde_json::{Map, Value};

use crate::store::METADATA;

/// Name of the dimension slices are appended along, and of its coordinate array.
pub(crate) const TIME: &str = "time";

/// The finest level, whose `time` every other level's is a copy of.
pub(crate) const FINEST: &str = "r10m";

/// Orbit groups that are looked at whether they declare levels or not.
pub(crate) const ORBITS: [&str; 2] = ["ascending", "descending"];

/// Keys, or the like, that a message names.
const NAMED: usize = 5;

/// Where a group repeats the documents below it.
pub(crate) const CONSOLIDATED: &str = "consolidated_metadata";

/// A node, as its document describes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Group(Group),
    Array(Array),
}

/// A group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    /// The levels its multiscales layout names, in its order; `None` without a layout.
    pub declared: Option<Vec<String>>,
    /// The documents it repeats, by path below it.
    pub consolidated: Option<Map<String, Value>>,
}

/// An array.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Array {
    pub shape: Vec<u64>,
    pub data_type: Value,
    /// Shape of one stored object, the shard of a sharded array; `None` when the grid is
    /// not regular.
    pub object_shape: Option<Vec<u64>>,
    /// Names of all dimensions; `None` when one of them has none.
    pub dimensions: Option<Vec<String>>,
    pub has_storage_transformers: bool,
    keys: Option<ChunkKeys>,
}

/// How the objects of an array are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChunkKeys {
    /// Whether the indices stand below `c`.
    prefixed: bool,
    separator: char,
}

impl Node {
    /// Reads a document.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(document: &Value) -> Result<Self, String> {
        let member = |name: &str| document.get(name);
        if member("zarr_format").and_then(Value::as_u64) != Some(3) {
            return Err("its `zarr_format` is not 3".to_owned());
        }
        match member("node_type").and_then(Value::as_str) {
            Some("group") => Ok(Self::Group(Group::parse(document))),
            Some("array") => Ok(Self::Array(Array::parse(document)?)),
            _ => Err("its `node_type` is neither group nor array".to_owned()),
        }
    }
}

impl Group {
    fn parse(document: &Value) -> Self {
        let layout = document
            .pointer("/attributes/multiscales/layout")
            .and_then(Value::as_array);
        let asset = |level: &Value| Some(level.get("asset")?.as_str()?.to_owned());
        Self {
            declared: layout.map(|levels| levels.iter().filter_map(asset).collect()),
            consolidated: block_of(document).map(|block| match block.get("metadata") {
                Some(Value::Object(documents)) => documents.clone(),
                _ => Map::new(),
            }),
        }
    }
}

impl Array {
    fn parse(document: &Value) -> Result<Self, String> {
        let shape = document
            .get("shape")
            .and_then(numbers)
            .ok_or("its `shape` is no list of lengths")?;
        let rank = shape.len();
        let grid = document.get("chunk_grid");
        let regular = grid.filter(|grid| grid["name"] == "regular");
        let object_shape = regular
            .and_then(|grid| numbers(grid.pointer("/configuration/chunk_shape")?))
            .filter(|object| object.len() == rank && !object.contains(&0));
        let dimensions = document
            .get("dimension_names")
            .and_then(texts)
            .filter(|names| names.len() == rank);
        let transformers = document
            .get("storage_transformers")
            .and_then(Value::as_array);
        Ok(Self {
            shape,
            data_type: document.get("data_type").cloned().unwrap_or_default(),
            object_shape,
            dimensions,
            has_storage_transformers: transformers.is_some_and(|all| !all.is_empty()),
            keys: document
                .get("chunk_key_encoding")
                .and_then(ChunkKeys::parse),
        })
    }

    /// Whether its objects are few and small whatever the number of slices: it has at most
    /// one dimension.
    pub(crate) fn is_coordinate(&self) -> bool {
        self.shape.len() <= 1
    }

    /// Position of the dimension `time`.
    pub(crate) fn time_axis(&self) -> Option<usize> {
        self.dimensions
            .as_ref()?
            .iter()
            .position(|name| name == TIME)
    }

    /// How many slices it has, if it has any along `time`.
    pub(crate) fn slices(&self) -> Option<u64> {
        self.shape.get(self.time_axis()?).copied()
    }

    /// Whether `key`, below the array, can be one of its chunks or shards. True of every
    /// key when it names them in a way that is not known here.
    pub(crate) fn owns(&self, key: &str) -> bool {
        self.keys
            .is_none_or(|keys| keys.fits(key, self.shape.len()))
    }

    /// Whether `key`, below the array, is an object of it that its shape does not reach.
    pub(crate) fn is_past_end(&self, key: &str) -> bool {
        let (Some(keys), Some(object)) = (self.keys, &self.object_shape) else {
            return false;
        };
        let Some(indices) = keys.indices(key) else {
            return false;
        };
        let begins = indices
            .iter()
            .zip(object)
            .map(|(index, length)| index.saturating_mul(*length));
        indices.len() == self.shape.len()
            && begins.zip(&self.shape).any(|(begins, end)| begins >= *end)
    }

    /// Whether it says how its objects are named.
    pub(crate) fn names_its_objects(&self) -> bool {
        self.keys.is_some()
    }

    /// The key, below a one-dimensional array, of its object `index`.
    pub(crate) fn object_key(&self, index: u64) -> Option<String> {
        let keys = self.keys?;
        Some(match keys.prefixed {
            true => format!("c{}{index}", keys.separator),
            false => index.to_string(),
        })
    }

    /// Which object of a one-dimensional array `key`, below it, is, if its shape reaches it.
    pub(crate) fn object_index(&self, key: &str) -> Option<u64> {
        let &[index] = self.keys?.indices(key)?.as_slice() else {
            return None;
        };
        let is_it = self.object_key(index).as_deref() == Some(key);
        (is_it && index < self.objects()?).then_some(index)
    }

    /// How many objects a one-dimensional array is cut into.
    pub(crate) fn objects(&self) -> Option<u64> {
        match (self.shape.as_slice(), self.object_shape.as_deref()?) {
            ([length], [object]) => Some(length.div_ceil(*object)),
            _ => None,
        }
    }
}

impl ChunkKeys {
    fn parse(encoding: &Value) -> Option<Self> {
        let name = encoding.get("name").or(Some(encoding))?.as_str()?;
        let (prefixed, usual) = match name {
            "default" => (true, "/"),
            "v2" => (false, "."),
            _ => return None,
        };
        let separator = encoding.pointer("/configuration/separator");
        let separator = match separator.map_or(Some(usual), Value::as_str)? {
            "/" => '/',
            "." => '.',
            _ => return None,
        };
        Some(Self {
            prefixed,
            separator,
        })
    }

    fn fits(self, key: &str, rank: usize) -> bool {
        match self.indices(key) {
            // The one chunk of a scalar is called `0` when nothing is before the indices.
            Some(_) if rank == 0 && !self.prefixed => key == "0",
            Some(indices) => indices.len() == rank,
            None => false,
        }
    }

    /// The indices a key is made of.
    fn indices(self, key: &str) -> Option<Vec<u64>> {
        let indices = match (self.prefixed, key.strip_prefix('c')) {
            (true, Some("")) => return Some(Vec::new()),
            (true, rest) => rest?.strip_prefix(self.separator)?,
            (false, _) => key,
        };
        let number = |index: &str| {
            let digits = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
            if digits { index.parse().ok() } else { None }
        };
        indices.split(self.separator).map(number).collect()
    }
}

fn numbers(list: &Value) -> Option<Vec<u64>> {
    list.as_array()?.iter().map(Value::as_u64).collect()
}

fn texts(list: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| Some(value.as_str()?.to_owned());
    list.as_array()?.iter().map(text).collect()
}

/// What a document repeats of the documents below it; `null` is nothing.
pub(crate) fn block_of(document: &Value) -> Option<&Value> {
    document.get(CONSOLIDATED).filter(|block| !block.is_null())
}

/// A document without what it repeats of the documents below it.
pub(crate) fn bare(document: &Value) -> Value {
    let mut bare = document.clone();
    if let Some(members) = bare.as_object_mut() {
        members.shift_remove(CONSOLIDATED);
    }
    bare
}

/// The path of the node whose document `key` is, if it is one; the root's is empty.
pub(crate) fn node_of(key: &str) -> Option<&str> {
    match key.strip_suffix(METADATA)? {
        "" => Some(""),
        path => path.strip_suffix('/'),
    }
}

/// The key of the document of the node at `path`.
pub(crate) fn document_of(path: &str) -> String {
    join(path, METADATA)
}

/// A path or key one part below `path`.
pub(crate) fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}/{name}"),
    }
}

/// The path of the `time` that those of all levels of an orbit are copies of.
pub(crate) fn source_of(orbit: &str) -> String {
    join(&join(orbit, FINEST), TIME)
}

/// The path of the array that `key` would be a chunk of by its name alone.
pub(crate) fn array_by_name(key: &str) -> Option<&str> {
    let (path, indices) = key.rsplit_once("/c/")?;
    let is_index = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    indices.split('/').all(is_index).then_some(path)
}

/// The path above `path`, and its last part; `None` for the root.
pub(crate) fn split(path: &str) -> Option<(&str, &str)> {
    match path.rsplit_once('/') {
        Some(split) => Some(split),
        None if path.is_empty() => None,
        None => Some(("", path)),
    }
}

/// The paths above `path`, the nearest first and the root last.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(split(path), |(above, _)| split(above)).map(|(above, _)| above)
}

/// What `key` is called below `path`, if it is below it.
pub(crate) fn below<'a>(key: &'a str, path: &str) -> Option<&'a str> {
    match path {
        "" => Some(key),
        path => key.strip_prefix(path)?.strip_prefix('/'),
    }
}

/// The first of some keys, for a message.
pub(crate) fn named(keys: &[String]) -> String {
    let names: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    first(&names)
}

/// The first of some texts, for a message.
pub(crate) fn first(texts: &[String]) -> String {
    let some = texts[..texts.len().min(NAMED)].join(", ");
    match texts.len().saturating_sub(NAMED) {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn array(document: Value) -> Array {
        let mut whole = json!({"zarr_format": 3, "node_type": "array"});
        whole
            .as_object_mut()
            .unwrap()
            .extend(document.as_object().unwrap().clone());
        match Node::parse(&whole) {
            Ok(Node::Array(array)) => array,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn chunk_keys_follow_the_encoding() {
        let with = |encoding: Value, shape: Value| {
            array(json!({"shape": shape, "chunk_key_encoding": encoding}))
        };
        let default = json!({"name": "default", "configuration": {"separator": "/"}});
        let cube = with(default.clone(), json!([3, 4, 4]));
        assert!(cube.owns("c/0/12/3"));
        for key in [
            "c/0/1",
            "c/0/1/2/3",
            "c/0/1/2.part",
            "c.0.1.2",
            "c",
            "d/0/1/2",
            "c/0//2",
        ] {
            assert!(!cube.owns(key), "{key}");
        }
        let scalar = with(default, json!([]));
        assert!(scalar.owns("c") && !scalar.owns("c/0"));
        let old = with(json!({"name": "v2"}), json!([3, 4]));
        assert!(old.owns("0.1") && !old.owns("c.0.1") && !old.owns("0/1"));
        assert_eq!(
            with(json!("default"), json!([3])).object_key(7).unwrap(),
            "c/7"
        );
        let unknown = with(json!({"name": "fancy"}), json!([3]));
        assert!(unknown.owns("anything") && !unknown.names_its_objects());
    }

    #[test]
    fn what_a_document_does_not_say_is_not_known() {
        let nameless = array(json!({"shape": [3, 4], "dimension_names": ["time", null]}));
        assert_eq!((nameless.time_axis(), nameless.object_shape), (None, None));
        let short = array(json!({"shape": [3, 4], "dimension_names": ["time"]}));
        assert_eq!(short.time_axis(), None);
        let inner = array(json!({"shape": [4, 3], "dimension_names": ["y", "time"]}));
        assert_eq!((inner.time_axis(), inner.slices()), (Some(1), Some(3)));
        for document in [
            json!([]),
            json!({"zarr_format": 2}),
            json!({"zarr_format": 3}),
            json!({"zarr_format": 3, "node_type": "array"}),
            json!({"zarr_format": 3, "node_type": "array", "shape": [-1]}),
        ] {
            assert!(Node::parse(&document).is_err(), "{document}");
        }
    }

    #[test]
    fn a_block_that_is_null_is_none() {
        for (block, is_some) in [(Value::Null, false), (json!({"metadata": {}}), true)] {
            let document = json!({
                "zarr_format": 3, "node_type": "group", "consolidated_metadata": block,
            });
            let Ok(Node::Group(group)) = Node::parse(&document) else {
                panic!("{document} is no group");
            };
            assert_eq!(group.consolidated.is_some(), is_some, "{document}");
        }
    }

    #[test]
    fn objects_are_told_by_their_names() {
        let time = array(json!({
            "shape": [1_000_000_000_000_u64], "chunk_key_encoding": "default",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [512]}},
        }));
        assert_eq!(time.object_index("c/7"), Some(7));
        for key in ["c/07", "c/1953125000", "c/7/0", "c", "7"] {
            assert_eq!(time.object_index(key), None, "{key}");
        }
        assert_eq!(array_by_name("a/vv/c/0/12"), Some("a/vv"));
        for key in ["a/c", "a/c/", "a/c/0.part", "c/0", "a/0/1", "a/c/0//1"] {
            assert_eq!(array_by_name(key), None, "{key}");
        }
    }

    #[test]
    fn paths_come_apart_and_together() {
        assert_eq!(node_of("zarr.json"), Some(""));
        assert_eq!(node_of("a/b/zarr.json"), Some("a/b"));
        assert_eq!(node_of("a/bzarr.json"), None);
        assert_eq!(document_of(""), "zarr.json");
        assert_eq!(ancestors("a/b/c").collect::<Vec<_>>(), ["a/b", "a", ""]);
        assert_eq!(ancestors("").count(), 0);
        assert_eq!(below("a/b/c", "a"), Some("b/c"));
        assert_eq!(below("ab/c", "a"), None);
        assert_eq!(below("c", ""), Some("c"));
    }
}
