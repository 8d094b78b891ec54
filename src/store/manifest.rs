//! The manifest, `morton_hive.json` (`format.md` section 1).

use serde_json::{Map, Value};

use super::root::{Root, StoreError};
use crate::error::FaultKind;
use crate::kernels::words::morton;

/// Key of the manifest.
pub(crate) const MANIFEST_KEY: &str = "morton_hive.json";

/// Why a manifest cannot be worked from. Each message names the file and the cure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// There is none.
    #[error(
        "`{path}` does not exist; `{root}` is not the root of a morton-hive store, give the directory or \
         prefix that holds `morton_hive.json`"
    )]
    Absent {
        /// Full address of the manifest.
        path: String,
        /// The root.
        root: String,
    },
    /// The file is not JSON.
    #[error("`{path}` is not JSON: {reason}; restore it from a backup or the run that wrote it")]
    NotJson {
        /// Full address of the manifest.
        path: String,
        /// What the parser said, with line and column.
        reason: String,
    },
    /// The file is JSON, but no mapping.
    #[error(
        "`{path}` holds {found}, not a mapping; restore it from a backup or the run that wrote it"
    )]
    NotAMapping {
        /// Full address of the manifest.
        path: String,
        /// What it holds instead.
        found: &'static str,
    },
    /// The store is of a kind this program does not know.
    #[error(
        "`{path}` has the spec {found}, this program upgrades morton-hive/1 and morton-hive/2; use a \
         program that knows that spec"
    )]
    UnknownSpec {
        /// Full address of the manifest.
        path: String,
        /// What stands under `spec`, as JSON.
        found: String,
    },
    /// `cell_order` or `shard_order` is missing or not a whole number.
    #[error(
        "`{path}` has no usable `{key}`: {found}; it must be a whole number from 0 to 29, restore the \
         manifest the store was written with"
    )]
    BadOrder {
        /// Full address of the manifest.
        path: String,
        /// Which of the two.
        key: &'static str,
        /// What stands there, as JSON, or `absent`.
        found: String,
    },
    /// The orders do not fit each other.
    #[error(
        "`{path}` has shard_order {shard_order} and cell_order {cell_order}; a shard must be coarser than \
         its cells, restore the manifest the store was written with"
    )]
    OrdersCross {
        /// Full address of the manifest.
        path: String,
        /// Order of the shards.
        shard_order: u8,
        /// Order of the cells.
        cell_order: u8,
    },
    /// The tree has another layout than one directory per digit.
    #[error(
        "`{path}` has path_grouping {found}; only path_grouping 1, one directory per digit, can be \
         upgraded, so leave this store to the program that wrote it"
    )]
    PathGrouping {
        /// Full address of the manifest.
        path: String,
        /// What stands there, as JSON.
        found: String,
    },
    /// Reading it failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ManifestError {
    /// What kind of fault this is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Absent { .. } => FaultKind::NotFound,
            Self::Store(error) => error.kind(),
            _ => FaultKind::Declaration,
        }
    }
}

/// A manifest this program can work from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Manifest {
    raw: Map<String, Value>,
    cell_order: u8,
    shard_order: u8,
}

impl Manifest {
    /// Reads the manifest of the store at `root`.
    ///
    /// # Errors
    /// A failed read, and every refusal of [`Manifest::parse`].
    pub(crate) async fn read(root: &Root) -> Result<Self, ManifestError> {
        let path = format!("{}/{MANIFEST_KEY}", root.url().trim_end_matches('/'));
        let bytes = match root.get(MANIFEST_KEY).await {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == FaultKind::NotFound => {
                return Err(ManifestError::Absent {
                    path,
                    root: root.url().to_owned(),
                });
            }
            Err(error) => return Err(error.into()),
        };
        Self::parse(&bytes, &path)
    }

    /// The manifest in `bytes`; `path` is what messages call it.
    ///
    /// # Errors
    /// When the bytes are not JSON or no mapping, the spec is unknown, the orders are
    /// missing, ill-typed or cross, or `path_grouping` is not 1.
    pub(crate) fn parse(bytes: &[u8], path: &str) -> Result<Self, ManifestError> {
        let path = || path.to_owned();
        let value = serde_json::from_slice(bytes).map_err(|error| ManifestError::NotJson {
            path: path(),
            reason: error.to_string(),
        })?;
        let Value::Object(raw) = value else {
            return Err(ManifestError::NotAMapping {
                path: path(),
                found: kind_of(&value),
            });
        };
        let found = |key: &str| raw.get(key).map_or("absent".to_owned(), Value::to_string);
        if !matches!(
            raw.get("spec").and_then(Value::as_str),
            Some("morton-hive/1" | "morton-hive/2")
        ) {
            return Err(ManifestError::UnknownSpec {
                path: path(),
                found: found("spec"),
            });
        }
        let order = |key: &'static str| {
            raw.get(key)
                .and_then(Value::as_u64)
                .and_then(|order| u8::try_from(order).ok())
                .filter(|order| *order <= morton::MAX_ORDER)
                .ok_or_else(|| ManifestError::BadOrder {
                    path: path(),
                    key,
                    found: found(key),
                })
        };
        let (cell_order, shard_order) = (order("cell_order")?, order("shard_order")?);
        if shard_order >= cell_order {
            return Err(ManifestError::OrdersCross {
                path: path(),
                shard_order,
                cell_order,
            });
        }
        // Absent means 1; a null is a value, and not that one.
        if raw
            .get("path_grouping")
            .is_some_and(|value| value.as_u64() != Some(1))
        {
            return Err(ManifestError::PathGrouping {
                path: path(),
                found: found("path_grouping"),
            });
        }
        Ok(Self {
            raw,
            cell_order,
            shard_order,
        })
    }

    /// Order of the cells, 1 to 29.
    pub(crate) fn cell_order(&self) -> u8 {
        self.cell_order
    }

    /// Order of the shards, 0 to 28 and below that of the cells.
    pub(crate) fn shard_order(&self) -> u8 {
        self.shard_order
    }

    /// Whether leaves are named `{id}_{window}.zarr`: the manifest has a `temporal` block.
    pub(crate) fn is_windowed(&self) -> bool {
        self.raw
            .get("temporal")
            .is_some_and(|value| !value.is_null())
    }

    /// The `pyramid` block, unread.
    pub(crate) fn pyramid(&self) -> Option<&Value> {
        self.raw.get("pyramid")
    }

    /// The hash of the configuration the store was written with.
    pub(crate) fn semantic_hash(&self) -> Option<&str> {
        self.raw.get("semantic_hash")?.as_str()
    }

    /// Every key, in order.
    pub(crate) fn document(&self) -> &Map<String, Value> {
        &self.raw
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;

    const GOOD: &str = r#"{
 "spec": "morton-hive/1",
 "dataset": {
  "short_name": "PLAIN",
  "version": "1"
 },
 "mystery": [
  1.0
 ],
 "cell_order": 6,
 "shard_order": 4,
 "path_grouping": 1,
 "pyramid": {}
}"#;

    fn parse(text: &str) -> Result<Manifest, ManifestError> {
        Manifest::parse(text.as_bytes(), "s3://b/x/morton_hive.json")
    }

    #[test]
    fn a_manifest_is_read() {
        let manifest = parse(GOOD).unwrap();
        assert_eq!((manifest.cell_order(), manifest.shard_order()), (6, 4));
        assert!(!manifest.is_windowed());
        let windowed = GOOD.replace("\"mystery\"", "\"temporal\"");
        assert!(parse(&windowed).unwrap().is_windowed());
        let null = GOOD.replace("\"pyramid\": {}", "\"temporal\": null");
        assert!(!parse(&null).unwrap().is_windowed());
        assert!(parse(&GOOD.replace(" \"path_grouping\": 1,\n", "")).is_ok());
    }

    #[test]
    fn every_refusal_names_the_file_and_a_cure() {
        let cases = [
            ("".to_owned(), "not JSON"),
            ("{\"spec\":".to_owned(), "not JSON"),
            ("[1]".to_owned(), "a list, not a mapping"),
            ("null".to_owned(), "null, not a mapping"),
            (GOOD.replace("hive/1", "hive/9"), "morton-hive/9"),
            (GOOD.replace("\"spec\"", "\"sp\""), "absent"),
            (
                GOOD.replace("\"cell_order\": 6", "\"c\": 6"),
                "`cell_order`: absent",
            ),
            (
                GOOD.replace("\"cell_order\": 6", "\"cell_order\": \"6\""),
                "`cell_order`: \"6\"",
            ),
            (
                GOOD.replace("\"cell_order\": 6", "\"cell_order\": 6.5"),
                "6.5",
            ),
            (
                GOOD.replace("\"cell_order\": 6", "\"cell_order\": 30"),
                "30",
            ),
            (
                GOOD.replace("\"shard_order\": 4", "\"shard_order\": true"),
                "`shard_order`: true",
            ),
            (
                GOOD.replace("\"shard_order\": 4", "\"shard_order\": -1"),
                "-1",
            ),
            (
                GOOD.replace("\"shard_order\": 4", "\"shard_order\": 6"),
                "shard_order 6 and cell_order 6",
            ),
            (
                GOOD.replace("\"path_grouping\": 1", "\"path_grouping\": 2"),
                "path_grouping 2",
            ),
            (
                GOOD.replace("\"path_grouping\": 1", "\"path_grouping\": null"),
                "path_grouping null",
            ),
        ];
        for (text, expected) in cases {
            let message = parse(&text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message} lacks {expected}");
            assert!(message.contains("`s3://b/x/morton_hive.json`"), "{message}");
            assert!(
                message.contains("; ") || message.contains(", so "),
                "{message}"
            );
        }
    }

    #[tokio::test]
    async fn an_absent_manifest_is_told_from_a_failed_read() {
        let root = Root::new(Arc::new(InMemory::new()), "memory://x");
        let error = Manifest::read(&root).await.unwrap_err();
        assert!(matches!(error, ManifestError::Absent { .. }));
        assert_eq!(error.kind(), FaultKind::NotFound);
        root.put(MANIFEST_KEY, GOOD).await.unwrap();
        assert!(Manifest::read(&root).await.is_ok());
    }
}
