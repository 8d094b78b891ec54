//! The golden cubes of `tests/data/cube`, and what is to come of them.

use std::fs::File;
use std::io::Read;

use serde_json::Value;

use crate::common::cases::data_dir;
use crate::common::stores::Tree;

/// Every golden cube.
pub(crate) struct Cubes {
    files: Tree,
    cases: Value,
}

impl Cubes {
    /// Unpacks them into memory.
    pub(crate) fn load() -> Self {
        let path = data_dir().join("cube/cubes.tar.zst");
        let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut archive = tar::Archive::new(zstd::Decoder::new(file).unwrap());
        let mut files = Tree::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let key = entry.path().unwrap().to_str().unwrap().to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            files.insert(key, bytes);
        }
        let mut cases: Value = serde_json::from_slice(&files["cases.json"]).unwrap();
        Self {
            files,
            cases: cases["cubes"].take(),
        }
    }

    /// The names of the cubes that have a case of this kind: `heal`, `fetch` or `sync`.
    pub(crate) fn with(&self, kind: &str) -> Vec<String> {
        let cases = self.cases.as_object().unwrap().iter();
        let has = cases.filter(|(_, case)| case.get(kind).is_some());
        has.map(|(name, _)| name.clone()).collect()
    }

    /// The case of this kind of a cube.
    pub(crate) fn case(&self, name: &str, kind: &str) -> &Value {
        &self.cases[name][kind]
    }

    /// A cube.
    pub(crate) fn tree(&self, name: &str) -> Tree {
        let below = |(key, bytes): (&String, &Vec<u8>)| {
            let key = key.strip_prefix(name)?.strip_prefix('/')?;
            Some((key.to_owned(), bytes.clone()))
        };
        self.files.iter().filter_map(below).collect()
    }

    /// What a heal adds to a cube or rewrites in it.
    pub(crate) fn expected(&self, name: &str) -> Tree {
        self.tree(&format!("{name}.expected"))
    }

    /// A cube once it is healed.
    pub(crate) fn healed(&self, name: &str) -> Tree {
        let mut tree = self.tree(name);
        tree.extend(self.expected(name));
        tree
    }
}

/// The texts of a list.
pub(crate) fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
    let mut texts: Vec<String> = list
        .iter()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect();
    texts.sort();
    texts
}

/// Keys below an array of two or more dimensions, told by the documents of `tree` alone.
pub(crate) fn bulk_keys(tree: &Tree) -> Vec<String> {
    let is_bulk = |document: &[u8]| {
        let document: Value = serde_json::from_slice(document).unwrap();
        document["shape"]
            .as_array()
            .is_some_and(|shape| shape.len() > 1)
    };
    let arrays: Vec<&str> = tree
        .iter()
        .filter(|(key, bytes)| key.ends_with("/zarr.json") && is_bulk(bytes))
        .map(|(key, _)| key.strip_suffix("zarr.json").unwrap())
        .collect();
    let below = |key: &&String| {
        !key.ends_with("/zarr.json") && arrays.iter().any(|array| key.starts_with(array))
    };
    tree.keys().filter(below).cloned().collect()
}
