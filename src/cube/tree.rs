//! What stands in a cube: its nodes, by their own documents, and what every object is to
//! them. Consolidated blocks are never read as nodes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use serde_json::Value;

use super::error::CubeError;
use super::layout::{Array, Group, Node, ancestors, below, document_of, join, node_of};
use crate::store::json;
use crate::store::root::{Entry, Version, Versioned};
use crate::store::{Root, StoreError};

/// A metadata document as it was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Document {
    pub bytes: Bytes,
    /// Which writing of it.
    pub version: Version,
    /// What it says; `None` when it is not JSON.
    pub value: Option<Value>,
}

impl From<Versioned> for Document {
    fn from(read: Versioned) -> Self {
        Self {
            value: json::parse(&read.bytes).ok(),
            bytes: read.bytes,
            version: read.version,
        }
    }
}

/// What an object is to the nodes of its cube. Told by directory and number of dimensions,
/// never by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Class {
    /// The document of a node.
    Metadata,
    /// Of an array of at most one dimension.
    Coordinate,
    /// Below an array of at most one dimension, and none of its chunks.
    Stray,
    /// Of an array of two or more dimensions.
    Bulk,
    /// Below no array, or below one of two or more dimensions and none of its chunks.
    Foreign,
}

impl Class {
    /// Whether no node owns the object.
    pub(crate) fn is_foreign(self) -> bool {
        matches!(self, Self::Stray | Self::Foreign)
    }
}

/// A document that describes no node, or one that cannot be where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Path of the node.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Everything that is known of a cube from one listing and its metadata documents.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tree {
    /// Every object, by key.
    pub objects: BTreeMap<String, Entry>,
    /// Every metadata document, by path of its node.
    pub documents: BTreeMap<String, Document>,
    /// Documents that cannot be worked with.
    pub malformed: Vec<Malformed>,
    nodes: BTreeMap<String, Node>,
}

impl Tree {
    /// Reads the cube at `root`: one listing, and its documents, `at_once` at a time.
    ///
    /// # Errors
    /// Any failed request, also of a document that is gone since it was listed.
    pub(crate) async fn read(root: &Root, at_once: usize) -> Result<Self, StoreError> {
        let objects = list(root).await?;
        let keys: Vec<String> = objects
            .keys()
            .filter(|key| node_of(key).is_some())
            .cloned()
            .collect();
        let documents = futures::stream::iter(keys)
            .map(|key| async move {
                let read = root.get_with_version(&key).await?;
                let path = node_of(&key).unwrap_or_default().to_owned();
                Ok::<_, StoreError>((path, Document::from(read)))
            })
            .buffer_unordered(at_once.max(1))
            .try_collect()
            .await?;
        Ok(Self::of(objects, documents))
    }

    /// The cube that these objects and documents are.
    pub(crate) fn of(
        objects: BTreeMap<String, Entry>,
        documents: BTreeMap<String, Document>,
    ) -> Self {
        let (mut nodes, mut malformed) = (BTreeMap::new(), Vec::new());
        for (path, document) in &documents {
            let parsed = match &document.value {
                Some(value) => Node::parse(value),
                None => Err("it is not JSON".to_owned()),
            };
            match parsed {
                Ok(node) => {
                    nodes.insert(path.clone(), node);
                }
                Err(reason) => malformed.push(Malformed {
                    path: path.clone(),
                    reason,
                }),
            }
        }
        for path in nodes.keys() {
            let array =
                ancestors(path).find(|above| matches!(nodes.get(*above), Some(Node::Array(_))));
            if let Some(array) = array {
                malformed.push(Malformed {
                    path: path.clone(),
                    reason: format!("it stands below `{array}`, which is an array"),
                });
            }
        }
        Self {
            objects,
            documents,
            malformed,
            nodes,
        }
    }

    /// Refuses documents that cannot be worked with.
    ///
    /// # Errors
    /// [`CubeError::Malformed`].
    pub(crate) fn require_whole(&self, root: &Root) -> Result<(), CubeError> {
        if self.malformed.is_empty() {
            return Ok(());
        }
        let reason = |of: &Malformed| format!("`{}`: {}", document_of(&of.path), of.reason);
        Err(CubeError::Malformed {
            root: root.url().to_owned(),
            reasons: self.malformed.iter().map(reason).collect(),
        })
    }

    /// Whether there is nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    pub(crate) fn node(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    pub(crate) fn array(&self, path: &str) -> Option<&Array> {
        match self.nodes.get(path)? {
            Node::Array(array) => Some(array),
            Node::Group(_) => None,
        }
    }

    pub(crate) fn group(&self, path: &str) -> Option<&Group> {
        match self.nodes.get(path)? {
            Node::Group(group) => Some(group),
            Node::Array(_) => None,
        }
    }

    /// Every array, by path.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = (&str, &Array)> {
        self.nodes.iter().filter_map(|(path, node)| match node {
            Node::Array(array) => Some((path.as_str(), array)),
            Node::Group(_) => None,
        })
    }

    /// Every group, by path.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&str, &Group)> {
        self.nodes.iter().filter_map(|(path, node)| match node {
            Node::Group(group) => Some((path.as_str(), group)),
            Node::Array(_) => None,
        })
    }

    /// The nodes directly below `path`, by name.
    pub(crate) fn children<'a>(
        &'a self,
        path: &str,
    ) -> impl Iterator<Item = (&'a str, &'a Node)> + use<'a> {
        let prefix = join(path, "");
        let start = prefix.clone();
        self.nodes
            .range(start..)
            .take_while(move |(node, _)| node.starts_with(&prefix))
            .filter_map({
                let path = path.to_owned();
                move |(node, what)| {
                    let name = below(node, &path)?;
                    let direct = !name.is_empty() && !name.contains('/');
                    direct.then_some((name, what))
                }
            })
    }

    /// The nodes below `path`, at any depth, by path below it.
    pub(crate) fn descendants(&self, path: &str) -> BTreeSet<&str> {
        self.nodes
            .keys()
            .filter_map(|node| below(node, path))
            .filter(|name| !name.is_empty())
            .collect()
    }

    /// The array `key` is below, a bulk one before any other.
    pub(crate) fn array_above<'a>(&self, key: &'a str) -> Option<(&'a str, &Array)> {
        let mut found = None;
        for above in ancestors(key) {
            match self.array(above) {
                Some(array) if !array.is_coordinate() => return Some((above, array)),
                Some(array) => found = found.or(Some((above, array))),
                None => {}
            }
        }
        found
    }

    /// What the object at `key` is.
    pub(crate) fn class(&self, key: &str) -> Class {
        if node_of(key).is_some() {
            return Class::Metadata;
        }
        let Some((path, array)) = self.array_above(key) else {
            return Class::Foreign;
        };
        let owned = below(key, path).is_some_and(|name| array.owns(name));
        match (array.is_coordinate(), owned) {
            (true, true) => Class::Coordinate,
            (true, false) => Class::Stray,
            (false, true) => Class::Bulk,
            (false, false) => Class::Foreign,
        }
    }

    /// Whether the object at `key` is of a bulk array and holds nothing that its shape shows.
    pub(crate) fn is_past_end(&self, key: &str) -> bool {
        let of_bulk = self
            .array_above(key)
            .filter(|(_, array)| !array.is_coordinate());
        of_bulk.is_some_and(|(path, array)| {
            below(key, path).is_some_and(|name| array.is_past_end(name))
        })
    }

    /// Whether the object at `key` is one that its array shows.
    pub(crate) fn shows(&self, key: &str) -> bool {
        self.array_above(key).is_some_and(|(path, array)| {
            below(key, path).is_some_and(|name| array.owns(name) && !array.is_past_end(name))
        })
    }

    /// Keys of the objects below `path`.
    pub(crate) fn keys_below<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let prefix = join(path, "");
        let from = self.objects.range(prefix.clone()..);
        from.map(|(key, _)| key.as_str())
            .take_while(move |key| key.starts_with(&prefix))
    }

    /// Keys of the objects that no node owns.
    pub(crate) fn foreign(&self) -> impl Iterator<Item = &str> {
        let keys = self.objects.keys().map(String::as_str);
        keys.filter(|key| self.class(key).is_foreign())
    }
}

/// Every object of the cube at `root`, by key.
///
/// # Errors
/// A listing that fails.
pub(crate) async fn list(root: &Root) -> Result<BTreeMap<String, Entry>, StoreError> {
    root.list("")
        .map_ok(|entry| (entry.key.clone(), entry))
        .try_collect()
        .await
}
