//! The skip gate: each way a column can be out of date has its verdict, and the pass
//! that finds it restores the expected bytes.

use crate::common::binary::{Output, Zagg};
use crate::common::cases::{Case, Expected, LEAF_WRITTEN_AT, Law, MANIFEST};
use crate::common::compare::{assert_expected, compare};
use crate::common::stores::{TestStore, differences};
use serde_json::{Value, json};

/// Later than every leaf's stamp, earlier than any run of a test.
const EARLIER_PASS: &str = "2021-01-01T00:00:00+00:00";
const AFTER_THAT_PASS: &str = "2021-01-01T00:00:01+00:00";

/// A case whose columns are all written.
struct Upgraded {
    case: Case,
    store: TestStore,
    /// What the next pass must leave behind.
    expected: Expected,
}

impl Upgraded {
    fn new(name: &str) -> Self {
        let case = Case::load(name);
        let store = case.declared_store(Law::Boundary);
        let expected = case.expected(Law::Boundary);
        let upgraded = Self {
            case,
            store,
            expected,
        };
        let first = upgraded.backfill(&[]);
        assert_eq!(first.number("/counts/written"), upgraded.number());
        assert_expected(&upgraded.expected, &upgraded.store.root());
        upgraded
    }

    fn number(&self) -> u64 {
        u64::try_from(self.case.leaves().len()).unwrap()
    }

    /// The first leaf, such as `1/1/2/1/3/11213.zarr`.
    fn leaf_root(&self) -> String {
        format!("{}/zarr.json", self.case.leaves()[0])
    }

    /// An object of the first leaf's column.
    fn column(&self, path: &str) -> String {
        format!("{}/{path}", self.case.columns(Law::Boundary)[0])
    }

    fn sidecar(&self) -> String {
        self.case.columns(Law::Boundary)[0].replace(".zarr", ".stats.json")
    }

    fn backfill(&self, options: &[&str]) -> Output {
        Zagg::backfill(&self.store.root())
            .args(options)
            .run()
            .expect_code(0)
    }

    /// Runs a pass that finds `leaves` columns out of date by this verdict and no
    /// other, and restores them; then a pass that finds nothing to do.
    #[track_caller]
    fn expect_verdict(&self, verdict: &str, leaves: u64) {
        let spoilt = self.store.tree();
        let tried = self.backfill(&["--dry-run"]);
        self.check_verdict(&tried, verdict, leaves);
        assert_eq!(
            differences(&spoilt, &self.store.tree()),
            Vec::<String>::new()
        );

        let run = self.backfill(&[]);
        self.check_verdict(&run, verdict, leaves);
        assert_eq!(run.number("/counts/written"), leaves);
        assert_eq!(run.number("/counts/current"), self.number() - leaves);
        assert_expected(&self.expected, &self.store.root());

        let again = self.backfill(&[]);
        assert_eq!(again.number("/counts/current"), self.number());
        assert_expected(&self.expected, &self.store.root());
    }

    #[track_caller]
    fn check_verdict(&self, run: &Output, verdict: &str, leaves: u64) {
        let document = run.json();
        let verdicts = document["verdicts"].as_object().unwrap();
        for (name, count) in verdicts {
            let due = if name == verdict { leaves } else { 0 };
            assert_eq!(count.as_u64(), Some(due), "verdict {name} of {document:#}");
        }
        assert!(verdicts.contains_key(verdict), "{document:#}");
    }

    /// The store no longer is what the pass must leave behind.
    #[track_caller]
    fn assert_spoilt(&self) {
        assert_ne!(
            compare(&self.expected, &self.store.tree()),
            Vec::<String>::new()
        );
    }

    /// Changes the first leaf's stamp, in the store and in what is expected of it.
    fn restamp_leaf(&mut self, key: &str, value: Value) {
        let leaf = self.leaf_root();
        self.store.edit_json(&leaf, |root| {
            root["attributes"]["morton_hive_commit"][key] = value;
        });
        self.expected
            .input
            .insert(leaf.clone(), self.store.read(&leaf));
    }
}

fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_first_pass_finds_every_column_absent() {
    for name in ["strata", "fine"] {
        let case = Case::load(name);
        let store = case.declared_store(Law::Boundary);
        let run = Zagg::backfill(&store.root()).run().expect_code(0);
        let leaves = u64::try_from(case.leaves().len()).unwrap();
        assert_eq!(
            run.number("/verdicts/absent-or-unstamped"),
            leaves,
            "{name}"
        );
    }
}

#[test]
fn a_touched_declaration_is_declaration_drift() {
    for (name, digest) in [("strata", "h_tdigest_signal"), ("fine", "h_tdigest")] {
        let case = Case::load(name);
        let store = case.declared_store(Law::Boundary);
        store.edit_json(MANIFEST, |manifest| {
            let field = &mut manifest["pyramid"]["overview"]["fields"][digest];
            field["delta"] = json!(4);
            field["overview_delta"] = json!(4);
        });
        Zagg::backfill(&store.root()).run().expect_code(0);
        let expected = case.expected(Law::Boundary);
        store.write(MANIFEST, &expected.input[MANIFEST]);
        let upgraded = Upgraded {
            case,
            store,
            expected,
        };
        // The columns of the other declaration differ in their data, not only in what
        // their roots say.
        let lines = compare(&upgraded.expected, &upgraded.store.tree());
        let data = format!("{digest}/c/0: bytes differ");
        assert!(lines.iter().any(|line| line.contains(&data)), "{lines:?}");
        upgraded.expect_verdict("declaration-drift", upgraded.number());
    }
}

#[test]
fn a_column_of_the_other_law_is_declaration_drift() {
    let case = Case::load("fine");
    let store = case.declared_store(Law::Boundary);
    Zagg::backfill(&store.root())
        .args(&["--fold-law", "raw"])
        .run()
        .expect_code(0);
    let expected = case.expected(Law::Boundary);
    let upgraded = Upgraded {
        case,
        store,
        expected,
    };
    upgraded.assert_spoilt();
    upgraded.expect_verdict("declaration-drift", upgraded.number());
}

#[test]
fn each_part_of_the_column_record_is_compared() {
    let upgraded = Upgraded::new("strata");
    for (pointer, value) in [
        ("/spec", json!("zagg-column/0")),
        ("/order", json!(3)),
        ("/source_cell_order", json!(7)),
        ("/groups/5/merges_from_raw", json!(2)),
        (
            "/groups/6",
            json!({"regime": "leaf-column", "merges_from_raw": 1, "n_cells": 16}),
        ),
        ("/fields/count/method", json!("max")),
        (
            "/fields/extra",
            json!({"class": "exact", "method": "sum", "nan_policy": "skip"}),
        ),
    ] {
        upgraded
            .store
            .edit_json(&upgraded.column("zarr.json"), |root| {
                let record = &mut root["attributes"]["zagg_column"];
                match record.pointer_mut(pointer) {
                    Some(old) => *old = value,
                    None => {
                        let (parent, name) = pointer.rsplit_once('/').unwrap();
                        record.pointer_mut(parent).unwrap()[name] = value;
                    }
                }
            });
        upgraded.expect_verdict("declaration-drift", 1);
    }
}

#[test]
fn a_leaf_stamped_after_its_column_makes_it_stale() {
    let mut upgraded = Upgraded::new("strata");
    upgraded
        .store
        .edit_json(&upgraded.column("zarr.json"), |root| {
            root["attributes"]["morton_hive_commit"]["written_at"] = json!(EARLIER_PASS);
        });
    let again = upgraded.backfill(&[]);
    assert_eq!(
        again.number("/counts/current"),
        upgraded.number(),
        "a column later than its leaf, stamped {LEAF_WRITTEN_AT}, is current"
    );
    upgraded.restamp_leaf("written_at", json!(EARLIER_PASS));
    let again = upgraded.backfill(&[]);
    assert_eq!(
        again.number("/counts/current"),
        upgraded.number(),
        "a column of the same second is current"
    );
    upgraded.restamp_leaf("written_at", json!(AFTER_THAT_PASS));
    upgraded.expect_verdict("stale", 1);
}

#[test]
fn another_granule_count_is_granule_drift() {
    for name in ["strata", "fine"] {
        let mut upgraded = Upgraded::new(name);
        let leaf: Value =
            serde_json::from_slice(&upgraded.store.read(&upgraded.leaf_root())).unwrap();
        let count = leaf["attributes"]["morton_hive_commit"]["granule_count"]
            .as_u64()
            .unwrap();
        upgraded.restamp_leaf("granule_count", json!(count + 1));
        // The column takes the new count over, and nothing else of it changes.
        for (key, field) in [
            (upgraded.column("zarr.json"), "granule_count"),
            (upgraded.sidecar(), "n_granules"),
        ] {
            let document = upgraded.expected.columns.get_mut(&key).unwrap();
            let (old, new) = (
                format!("\"{field}\": {count},"),
                format!("\"{field}\": {},", count + 1),
            );
            assert_eq!(text_of(document).matches(&old).count(), 1, "{key}");
            *document = text_of(document).replace(&old, &new).into_bytes();
        }
        upgraded.expect_verdict("granule-drift", 1);
    }
}

#[test]
fn a_leaf_without_a_count_of_granules_has_a_current_column_after_one_pass() {
    for count in [None, Some(Value::Null)] {
        let upgraded = Upgraded::new("strata");
        upgraded.store.edit_json(&upgraded.leaf_root(), |root| {
            let stamp = root["attributes"]["morton_hive_commit"].as_object_mut();
            let stamp = stamp.unwrap();
            match &count {
                None => stamp.shift_remove("granule_count"),
                Some(count) => stamp.insert("granule_count".to_owned(), count.clone()),
            };
        });
        let drifted = upgraded.backfill(&[]);
        upgraded.check_verdict(&drifted, "granule-drift", 1);
        for (key, pointer) in [
            (
                upgraded.column("zarr.json"),
                "/attributes/morton_hive_commit/granule_count",
            ),
            (upgraded.sidecar(), "/n_granules"),
        ] {
            let document: Value = serde_json::from_slice(&upgraded.store.read(&key)).unwrap();
            assert_eq!(document.pointer(pointer), Some(&json!(0)), "{key}");
        }
        let again = upgraded.backfill(&[]);
        assert_eq!(again.number("/counts/current"), upgraded.number());
    }
}

#[test]
fn a_count_of_granules_with_a_fraction_of_zero_is_the_same_count() {
    let mut upgraded = Upgraded::new("strata");
    let root: Value = serde_json::from_slice(&upgraded.store.read(&upgraded.leaf_root())).unwrap();
    let count = root["attributes"]["morton_hive_commit"]["granule_count"].as_f64();
    upgraded.restamp_leaf("granule_count", json!(count.unwrap()));
    let again = upgraded.backfill(&[]);
    assert_eq!(again.number("/counts/current"), upgraded.number());
    let forced = upgraded.backfill(&["--force"]);
    assert_eq!(forced.number("/counts/written"), upgraded.number());
    assert_expected(&upgraded.expected, &upgraded.store.root());
}

#[test]
fn a_removed_member_is_structure_drift() {
    let upgraded = Upgraded::new("strata");
    for member in [
        "5/count/zarr.json",
        "4/morton/zarr.json",
        "5/composition/zarr.json",
        "4/h_tdigest_signal/zarr.json",
        "5/h_tdigest_noise_locations/zarr.json",
    ] {
        upgraded.store.remove(&upgraded.column(member));
        upgraded.expect_verdict("structure-drift", 1);
    }
    let temporal = Upgraded::new("temporal");
    let times = temporal
        .expected
        .columns
        .keys()
        .find(|key| key.starts_with(&temporal.column("")) && key.ends_with("_times/zarr.json"))
        .unwrap();
    temporal.store.remove(times);
    temporal.expect_verdict("structure-drift", 1);
}

#[test]
fn an_edited_member_is_structure_drift() {
    let upgraded = Upgraded::new("strata");
    for (member, pointer, value) in [
        ("5/count", "/data_type", json!("int64")),
        ("5/count", "/fill_value", json!(1)),
        ("5/count", "/shape", json!([16])),
        (
            "5/count",
            "/chunk_grid/configuration/chunk_shape",
            json!([2]),
        ),
        ("4/morton", "/data_type", json!("int64")),
        (
            "5/h_tdigest_noise",
            "/attributes/ragged/element/dtype",
            json!("float64"),
        ),
        (
            "5/h_tdigest_noise",
            "/attributes/ragged/locations",
            json!("elsewhere"),
        ),
        (
            "5/composition",
            "/attributes/composition/of",
            json!("h_tdigest_noise"),
        ),
    ] {
        edit_member(&upgraded, member, pointer, value);
        upgraded.expect_verdict("structure-drift", 1);
    }
}

#[test]
fn an_edited_chunking_of_a_sharded_member_is_structure_drift() {
    let upgraded = Upgraded::new("fine");
    let metadata = upgraded
        .store
        .read(&upgraded.column("6/h_tdigest/zarr.json"));
    assert!(text_of(&metadata).contains("sharding_indexed"));
    for (pointer, value) in [
        ("/codecs/0/configuration/chunk_shape", json!([128])),
        ("/codecs/0/configuration/index_location", json!("start")),
        (
            "/codecs/0/configuration/codecs/1/configuration/level",
            json!(4),
        ),
        ("/chunk_grid/configuration/chunk_shape", json!([512])),
    ] {
        edit_member(&upgraded, "6/h_tdigest", pointer, value);
        upgraded.expect_verdict("structure-drift", 1);
    }
}

#[track_caller]
fn edit_member(upgraded: &Upgraded, member: &str, pointer: &str, value: Value) {
    let key = upgraded.column(&format!("{member}/zarr.json"));
    upgraded.store.edit_json(&key, |metadata| {
        *metadata
            .pointer_mut(pointer)
            .unwrap_or_else(|| panic!("no {pointer} in {key}")) = value;
    });
}

#[test]
fn a_column_without_its_stamp_is_cleared_and_written_anew() {
    let upgraded = Upgraded::new("strata");
    let root = upgraded.column("zarr.json");
    upgraded.store.edit_json(&root, |document| {
        let attributes = document["attributes"].as_object_mut().unwrap();
        attributes.shift_remove("morton_hive_commit").unwrap();
    });
    upgraded.expect_verdict("absent-or-unstamped", 1);

    upgraded.store.edit_json(&root, |document| {
        document["attributes"]["morton_hive_commit"] = json!("done");
    });
    upgraded.expect_verdict("absent-or-unstamped", 1);

    // What an interrupted pass of other arrays left lying about goes with it.
    upgraded.store.remove(&root);
    upgraded
        .store
        .write(&upgraded.column("5/debris/c/0"), "debris");
    upgraded.expect_verdict("absent-or-unstamped", 1);
}

#[test]
fn force_rewrites_every_column() {
    for name in ["strata", "fine"] {
        let upgraded = Upgraded::new(name);
        // Damage of which no document tells is what --force is for.
        let chunk = upgraded.column("5/count/c/0");
        upgraded.store.write(&chunk, "damage");
        let overlooked = upgraded.backfill(&[]);
        assert_eq!(
            overlooked.number("/counts/current"),
            upgraded.number(),
            "{name}"
        );
        upgraded.assert_spoilt();

        let forced = upgraded.backfill(&["--force"]);
        upgraded.check_verdict(&forced, "forced", upgraded.number());
        assert_eq!(
            forced.number("/counts/written"),
            upgraded.number(),
            "{name}"
        );
        assert_expected(&upgraded.expected, &upgraded.store.root());
    }
}
