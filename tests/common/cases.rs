//! The golden cases of `tests/data`: stores, and what an upgrade makes of them.

#![allow(
    unused_imports,
    unused_macros,
    reason = "not every test crate tests every case"
)]

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::stores::{TestStore, Tree};

/// Key of the manifest.
pub(crate) const MANIFEST: &str = "morton_hive.json";

/// Calls a macro with what it is given and the names of all cases: the one list of them.
macro_rules! with_every_case {
    ($then:ident $(: $given:ident)?) => {
        $then! {
            $($given:)? plain strata flux temporal windowed windowed_all deep deep_strata fine
        }
    };
}

macro_rules! names {
    ($($case:ident)+) => {
        /// Every case.
        pub(crate) const NAMES: [&str; [$(stringify!($case)),+].len()] = [$(stringify!($case)),+];
    };
}

with_every_case!(names);

/// A test for each case, which calls a function with the case's name.
macro_rules! test_each_case {
    ($check:ident) => {
        $crate::common::cases::with_every_case!(test_each_case: $check);
    };
    ($check:ident: $($case:ident)+) => {
        $(
            #[test]
            fn $case() {
                $check(stringify!($case));
            }
        )+
    };
}

/// A test for each case and law, which calls a function with both.
macro_rules! test_each_case_and_law {
    ($check:ident) => {
        $crate::common::cases::with_every_case!(test_each_case_and_law: $check);
    };
    ($check:ident: $($case:ident)+) => {
        $(
            mod $case {
                use $crate::common::cases::Law;

                #[test]
                fn boundary() {
                    super::$check(stringify!($case), Law::Boundary);
                }

                #[test]
                fn raw() {
                    super::$check(stringify!($case), Law::Raw);
                }
            }
        )+
    };
}

pub(crate) use {test_each_case, test_each_case_and_law, with_every_case};

/// The stamps of the leaves are set back to this moment, or a machine whose clock runs
/// behind the one that made the cases would find every column older than its leaf.
pub(crate) const LEAF_WRITTEN_AT: &str = "2020-01-01T00:00:00+00:00";

/// A fold law.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Law {
    /// The published law.
    Boundary,
    /// The law of older stores.
    Raw,
}

impl Law {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Boundary, Self::Raw];

    /// As the command line and the archives spell it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Boundary => "boundary",
            Self::Raw => "raw",
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A golden case, unpacked into memory.
pub(crate) struct Case {
    name: String,
    files: Tree,
}

/// What a pass must leave behind.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    /// What was there before and must not have changed; the manifest too, unless it is
    /// rewritten.
    pub(crate) input: Tree,
    /// The objects that are written: those of the leaf columns and their sidecars, and
    /// after a whole upgrade those of the ladder and the root.
    pub(crate) columns: Tree,
}

impl Case {
    /// Unpacks a case.
    pub(crate) fn load(name: &str) -> Self {
        let path = data_dir().join(format!("{name}.tar.zst"));
        let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut archive = tar::Archive::new(zstd::Decoder::new(file).unwrap());
        let mut files = Tree::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let key = entry.path().unwrap().to_str().unwrap().to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            if key.starts_with("input/") && key.ends_with(".zarr/zarr.json") {
                bytes = set_back(&bytes);
            }
            files.insert(key, bytes);
        }
        Self {
            name: name.to_owned(),
            files,
        }
    }

    /// The name of the case.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// One file of the archive.
    pub(crate) fn file(&self, path: &str) -> &[u8] {
        self.files
            .get(path)
            .unwrap_or_else(|| panic!("case `{}` has no `{path}`", self.name))
    }

    /// The store as published, whose pyramid is declared off.
    pub(crate) fn published(&self) -> Tree {
        self.below("input/")
    }

    /// The store once its pyramid is declared.
    pub(crate) fn declared(&self, law: Law) -> Tree {
        let mut tree = self.published();
        let manifest = self.file(&format!("declared.{law}.json")).to_vec();
        assert!(tree.insert(MANIFEST.to_owned(), manifest).is_some());
        tree
    }

    /// The store once it is upgraded: its leaves, and the whole `/2` pyramid of the case.
    pub(crate) fn upgraded_tree(&self, law: Law) -> Tree {
        let mut tree = self.published();
        tree.extend(self.below(&format!("expected.{law}/")));
        tree
    }

    /// A store on disk that holds [`Case::declared`].
    pub(crate) fn declared_store(&self, law: Law) -> TestStore {
        TestStore::of(&self.declared(law))
    }

    /// What a column pass must leave behind.
    pub(crate) fn expected(&self, law: Law) -> Expected {
        let shard_order = self.shard_order();
        let mut columns = self.below(&format!("expected.{law}/"));
        columns.retain(|key, _| is_leaf_column(key, shard_order));
        Expected {
            input: self.declared(law),
            columns,
        }
    }

    /// What a whole upgrade must leave behind.
    pub(crate) fn upgraded(&self, law: Law) -> Expected {
        let mut input = self.published();
        input.remove(MANIFEST);
        Expected {
            input,
            columns: self.below(&format!("expected.{law}/")),
        }
    }

    /// The order of the shards.
    pub(crate) fn shard_order(&self) -> usize {
        let manifest: Value = serde_json::from_slice(self.file("input/morton_hive.json")).unwrap();
        usize::try_from(manifest["shard_order"].as_u64().unwrap()).unwrap()
    }

    /// Prefixes of the committed leaves, such as `1/1/2/1/3/11213.zarr`.
    pub(crate) fn leaves(&self) -> Vec<String> {
        self.published()
            .iter()
            .filter_map(|(key, bytes)| {
                let leaf = key
                    .strip_suffix("/zarr.json")
                    .filter(|leaf| leaf.ends_with(".zarr"))?;
                let root: Value = serde_json::from_slice(bytes).unwrap();
                root["attributes"]["morton_hive_commit"]
                    .is_object()
                    .then(|| leaf.to_owned())
            })
            .collect()
    }

    /// Prefixes of the leaf columns, such as `1/1/2/1/3/all.pyramid.zarr`.
    pub(crate) fn columns(&self, law: Law) -> Vec<String> {
        self.expected(law)
            .columns
            .keys()
            .filter_map(|key| key.strip_suffix(".pyramid.zarr/zarr.json"))
            .map(|stem| format!("{stem}.pyramid.zarr"))
            .collect()
    }

    fn below(&self, prefix: &str) -> Tree {
        self.files
            .iter()
            .filter_map(|(key, bytes)| Some((key.strip_prefix(prefix)?.to_owned(), bytes.clone())))
            .collect()
    }
}

/// Where the archives are.
pub(crate) fn data_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// Whether an object belongs to a column, or its sidecar, at a node of the shard order.
fn is_leaf_column(key: &str, shard_order: usize) -> bool {
    let parts: Vec<&str> = key.split('/').collect();
    let Some((node, rest)) = parts.split_at_checked(shard_order + 1) else {
        return false;
    };
    let of_a_column = match rest {
        [sidecar] => sidecar.ends_with(".pyramid.stats.json"),
        [artifact, ..] => artifact.ends_with(".pyramid.zarr"),
        [] => false,
    };
    of_a_column
        && node
            .iter()
            .all(|digit| digit.trim_start_matches('-').len() == 1)
}

fn set_back(leaf_root: &[u8]) -> Vec<u8> {
    const KEY: &str = "\"written_at\": \"";
    let text = std::str::from_utf8(leaf_root).unwrap();
    let start = text.find(KEY).unwrap() + KEY.len();
    let end = start + LEAF_WRITTEN_AT.len();
    assert_eq!(&text[end..=end], "\"");
    format!("{}{LEAF_WRITTEN_AT}{}", &text[..start], &text[end..]).into_bytes()
}
