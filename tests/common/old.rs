//! What a `/1` pyramid left behind, made of the overviews of a golden ladder.

use serde_json::{Value, json};

use crate::common::stores::Tree;

/// An overview in a store.
#[derive(Debug, Clone)]
pub(crate) struct Old {
    /// Directory of its node, such as `1/1`.
    pub(crate) node: String,
    /// Its name without `.zarr`.
    pub(crate) stem: String,
}

impl Old {
    /// Adds to `tree` a `/1` overview and its sidecar: the bytes of the `/2` overview `like`,
    /// such as `1/1/all.zarr`, with its own record.
    pub(crate) fn add(tree: &mut Tree, like: &str, stem: &str) -> Self {
        let (node, name) = like.rsplit_once('/').unwrap();
        let old = Self {
            node: node.to_owned(),
            stem: stem.to_owned(),
        };
        let objects: Vec<_> = tree
            .iter()
            .filter_map(|(key, bytes)| Some((key.strip_prefix(like)?.to_owned(), bytes.clone())))
            .filter(|(below, _)| below.starts_with('/'))
            .collect();
        assert!(objects.len() > 3, "no overview at `{like}`");
        for (below, bytes) in objects {
            tree.insert(format!("{}{below}", old.path()), bytes);
        }
        let sidecar = format!("{node}/{}", name.replace(".zarr", ".stats.json"));
        tree.insert(old.sidecar(), tree[&sidecar].clone());
        old.edit(tree, |record| {
            let record = record.as_object_mut().unwrap();
            record.insert("spec".to_owned(), json!("zagg-overview/1"));
            record.insert("window".to_owned(), json!(stem));
            record.shift_remove("regime");
            record.shift_remove("generation");
        });
        old
    }

    /// Changes its record.
    pub(crate) fn edit(&self, tree: &mut Tree, edit: impl FnOnce(&mut Value)) {
        self.edit_root(tree, |root| edit(&mut root["attributes"]["zagg_overview"]));
    }

    /// Changes its root document.
    pub(crate) fn edit_root(&self, tree: &mut Tree, edit: impl FnOnce(&mut Value)) {
        let key = self.root_document();
        let mut document: Value = serde_json::from_slice(&tree[&key]).unwrap();
        edit(&mut document);
        let bytes = serde_json::to_vec_pretty(&document).unwrap();
        assert_ne!(
            tree.insert(key.clone(), bytes.clone()),
            Some(bytes),
            "{key}"
        );
    }

    /// Its path.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}.zarr", self.node, self.stem)
    }

    /// Key of its sidecar.
    pub(crate) fn sidecar(&self) -> String {
        format!("{}/{}.stats.json", self.node, self.stem)
    }

    /// Key of its root document.
    pub(crate) fn root_document(&self) -> String {
        format!("{}/zarr.json", self.path())
    }

    /// Whether `key` is one of its objects, or its sidecar.
    pub(crate) fn has(&self, key: &str) -> bool {
        key.starts_with(&format!("{}/", self.path())) || key == self.sidecar()
    }
}
