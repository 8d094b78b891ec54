//! A demo store through the program, and through a reader of Zarr v3 that knows nothing
//! of this crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tempfile::TempDir;
use zagg_stream::kernels::words::{decimal, morton};
use zarrs::array::{Array, ElementOwned};
use zarrs::storage::byte_range::ByteRangeIterator;
use zarrs::storage::{MaybeBytesIterator, ReadableStorageTraits, StorageError, StoreKey};

use crate::common::binary::Zagg;
use crate::common::cases::{Case, Law, MANIFEST};
use crate::common::stores::{TestStore, Tree};

const FIELD_SETS: [&str; 3] = ["plain", "strata", "temporal"];
const CELL_ORDER: u8 = 8;

/// Makes a store of three leaves, and reads what the program says of it.
fn demo(dir: &Path, fields: &str, more: &[&str]) -> Value {
    Zagg::new("demo")
        .arg(dir)
        .args(&["--fields", fields, "--leaves", "3", "--json"])
        .args(more)
        .run()
        .expect_code(0)
        .json()
}

fn demo_of_many_chunks(dir: &Path, fields: &str) -> Value {
    demo(dir, fields, &["--cell-order", &CELL_ORDER.to_string()])
}

#[test]
fn a_demo_store_upgrades_and_is_then_current() {
    for fields in FIELD_SETS {
        let dir = TempDir::new().unwrap();
        let store = demo_of_many_chunks(dir.path(), fields);
        assert_eq!(store["command"], "demo");
        assert_eq!(store["leaves"], 3);
        let upgrade = || Zagg::new("upgrade").arg(dir.path()).args(&["--json"]).run();
        let first = upgrade().expect_code(0);
        assert_eq!(first.number("/counts/written"), 3, "{fields}");
        let second = upgrade().expect_code(0);
        assert_eq!(second.number("/counts/written"), 0, "{fields}");
        assert_eq!(second.number("/counts/current"), 3, "{fields}");
    }
}

#[test]
fn the_summary_says_what_to_type_next() {
    let dir = TempDir::new().unwrap();
    let store = dir.path().join("my store");
    let run = Zagg::new("demo")
        .arg(&store)
        .args(&["--cell-order", "6"])
        .run()
        .expect_code(0);
    assert!(run.stdout.contains("4 leaves at order 4"), "{}", run.stdout);
    let next = format!("next: zagg-stream upgrade '{}'", store.display());
    assert!(run.stdout.contains(&next), "{}", run.stdout);
}

#[test]
fn an_occupied_directory_and_impossible_numbers_have_their_exit_codes() {
    let dir = TempDir::new().unwrap();
    let demo = |args: &[&str]| Zagg::new("demo").arg(dir.path()).args(args).run();
    demo(&["--cell-order", "5"]).expect_code(2);
    let run = demo(&["--centroids", "9999", "--json"]).expect_code(2);
    assert!(run.text("/error").contains("4096"));
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let run = demo(&["--json"]).expect_code(3);
    assert!(run.text("/error").contains(dir.path().to_str().unwrap()));
}

/// Documents of a leaf, by their path below it; those of the last one, as all are equal.
fn leaf_documents(files: &Tree) -> BTreeMap<&str, &str> {
    let documents = files.iter().filter_map(|(key, bytes)| {
        let (_, below) = key.split_once(".zarr/")?;
        let text = below
            .ends_with("zarr.json")
            .then(|| std::str::from_utf8(bytes));
        Some((below, text?.unwrap()))
    });
    documents.collect()
}

#[test]
fn documents_are_those_of_a_published_store() {
    for fields in FIELD_SETS {
        let published = Case::load(fields).declared(Law::Boundary);
        let store = TestStore::empty();
        // The published cases have a compression of 16.
        let args = ["--cell-order", "6", "--centroids", "8"];
        demo(&store.root(), fields, &args);
        let made = store.tree();

        let mut expected = leaf_documents(&published);
        let mut actual = leaf_documents(&made);
        let roots = [&mut expected, &mut actual].map(|documents| documents.remove("zarr.json"));
        assert_eq!(actual, expected, "{fields}");
        // A demo leaf carries no coverage, which is a cache.
        let stamps = roots.map(|root| {
            let root: Value = serde_json::from_str(root.unwrap()).unwrap();
            let mut stamp = root["attributes"]["morton_hive_commit"].clone();
            stamp.as_object_mut().unwrap().shift_remove("coverage");
            stamp
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<Vec<_>>()
        });
        assert_eq!(stamps[0], stamps[1], "{fields}");

        assert_eq!(
            made["aggregation.yaml"], published["aggregation.yaml"],
            "{fields}"
        );
        let [mut expected, actual] = [&published, &made]
            .map(|files| -> Value { serde_json::from_slice(&files[MANIFEST]).unwrap() });
        expected["dataset"]["short_name"] = json!(format!("DEMO_{}", fields.to_uppercase()));
        expected["generated_at"] = actual["generated_at"].clone();
        // The published stores were declared before manifests had this mirror of the block.
        expected["multiscales"] = actual["multiscales"].clone();
        assert_eq!(actual["multiscales"][0]["spec"], "zagg-multiscales/1");
        assert_eq!(actual.to_string(), expected.to_string(), "{fields}");
    }
}

/// Files of a directory, read as any Zarr reader would.
#[derive(Debug)]
struct Files(PathBuf);

impl ReadableStorageTraits for Files {
    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        let bytes = match fs::read(self.0.join(key.as_str())) {
            Ok(bytes) => Bytes::from(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let num_bytes = bytes.len() as u64;
        Ok(Some(Box::new(ranges.map(move |range| {
            Ok(bytes.slice(range.to_range_usize(num_bytes)))
        }))))
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        Ok(fs::metadata(self.0.join(key.as_str()))
            .ok()
            .map(|file| file.len()))
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

/// The cells of one leaf.
struct Leaf {
    files: Arc<Files>,
    group: String,
}

impl Leaf {
    fn read<T: ElementOwned>(&self, name: &str) -> Vec<T> {
        let array = Array::open(self.files.clone(), &format!("/{}/{name}", self.group)).unwrap();
        array.retrieve_array_subset(&array.subset_all()).unwrap()
    }

    fn words(&self, name: &str) -> Vec<Vec<u64>> {
        let cells = self.read::<Vec<u8>>(name);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        cells
            .iter()
            .map(|cell| cell.chunks_exact(8).map(word).collect())
            .collect()
    }

    /// Sum of the weights of each cell, once every digest is found lawful.
    fn weights(&self, name: &str) -> Vec<f64> {
        let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
        let cells = self.read::<Vec<u8>>(name);
        let weights = cells.iter().map(|cell| {
            assert_eq!(cell.len() % 8, 0);
            let rows: Vec<_> = cell
                .chunks_exact(8)
                .map(|row| (number(&row[..4]), number(&row[4..])))
                .collect();
            assert!(rows.is_sorted_by(|a, b| a.0 <= b.0));
            assert!(
                rows.iter()
                    .all(|row| row.0.is_finite() && row.1 >= 1.0 && row.1.fract() == 0.0)
            );
            rows.iter().map(|row| f64::from(row.1)).sum()
        });
        weights.collect()
    }
}

fn leaves(dir: &Path, store: &Value) -> Vec<(u64, Leaf)> {
    let files = Arc::new(Files(dir.to_owned()));
    let shards = store["shards"].as_array().unwrap().iter();
    shards
        .map(|id| {
            let shard = decimal::parse(id.as_str().unwrap()).unwrap();
            let group = format!("{}/{CELL_ORDER}", decimal::leaf_path(shard, None).unwrap());
            (
                shard,
                Leaf {
                    files: files.clone(),
                    group,
                },
            )
        })
        .collect()
}

#[test]
fn another_reader_finds_what_the_law_says() {
    for (fields, digests) in [
        ("plain", ["h_tdigest"].as_slice()),
        ("strata", &["h_tdigest_signal", "h_tdigest_noise"]),
        ("temporal", &["h_tdigest"]),
    ] {
        let dir = TempDir::new().unwrap();
        let store = demo_of_many_chunks(dir.path(), fields);
        let mut cells_with_data = 0;
        for (shard, leaf) in leaves(dir.path(), &store) {
            let mut totals = vec![0.0; 4usize.pow(u32::from(CELL_ORDER - 4))];
            for digest in digests {
                let weights = leaf.weights(digest);
                totals
                    .iter_mut()
                    .zip(weights)
                    .for_each(|(total, weight)| *total += weight);
            }
            let count = leaf.read::<i32>("count");
            assert!(count.iter().map(|n| f64::from(*n)).eq(totals));
            check_words(shard, &leaf, &count);
            cells_with_data += count.iter().filter(|n| **n > 0).count();
            assert!(count.contains(&0), "some cells are empty");
        }
        assert_eq!(store["cells_with_data"], cells_with_data);
    }
}

/// The stored words are the shard's cells; a chunk without data stores none.
fn check_words(shard: u64, leaf: &Leaf, count: &[i32]) {
    let stored = leaf.read::<u64>("morton");
    let expected = morton::children(shard, CELL_ORDER).unwrap();
    let mut gaps = 0;
    for ((stored, expected), count) in stored.iter().zip(expected).zip(count) {
        if *stored == 0 {
            assert_eq!(*count, 0);
            gaps += 1;
        } else {
            assert_eq!(*stored, expected);
        }
    }
    assert!(gaps > 0 && gaps < stored.len(), "some chunks are empty");
}

#[test]
fn another_reader_finds_a_word_for_every_centroid() {
    let dir = TempDir::new().unwrap();
    let store = demo_of_many_chunks(dir.path(), "temporal");
    for (shard, leaf) in leaves(dir.path(), &store) {
        let payload = leaf.read::<Vec<u8>>("h_tdigest");
        let locations = leaf.words("h_tdigest_locations");
        let times = leaf.words("h_tdigest_times");
        let observed = leaf.read::<u64>("observed");
        for (i, cell) in morton::children(shard, CELL_ORDER).unwrap().enumerate() {
            let rows = payload[i].len() / 8;
            assert_eq!((locations[i].len(), times[i].len()), (rows, rows));
            let cell_of = |place: &u64| morton::coarsen(*place, CELL_ORDER).unwrap();
            assert!(locations[i].iter().all(|place| cell_of(place) == cell));
            assert!(times[i].iter().all(|time| *time != 0));
            assert_eq!(observed[i] != 0, rows > 0);
        }
    }
}

#[test]
fn another_reader_finds_lanes_only_where_there_is_signal() {
    let dir = TempDir::new().unwrap();
    let store = demo_of_many_chunks(dir.path(), "strata");
    for (_, leaf) in leaves(dir.path(), &store) {
        let signal = leaf.weights("h_tdigest_signal");
        let composition = leaf.read::<u64>("composition");
        assert!(composition.iter().any(|lanes| *lanes != 0));
        let pairs = composition.iter().zip(signal);
        assert!(
            pairs
                .into_iter()
                .all(|(lanes, weight)| *lanes == 0 || weight > 0.0)
        );
    }
}
