//! The plan of an upgrade against the upgrade: what was planned is what is then done, and
//! planning writes nothing.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::common::binary::{Output, Zagg};
use crate::common::cases::{Case, Law, MANIFEST};
use crate::common::faults::{Failure, FaultStore, Op, Rule};
use crate::common::http::WebServer;
use crate::common::library::{LEASE, in_memory, settings, tree_in};
use crate::common::many::Many;
use crate::common::published::Published;
use crate::common::stores::{TestStore, Tree, differences};
use crate::common::times::iso_ago;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};
use zagg_stream::{
    Cost, Declare, Lever, Plan, Planned, Report, Root, Settings, Tally, Upgrade, Work,
};

/// How many times the PUTs of an upgrade its plan may name. Golden leaves have empty cells,
/// so whole arrays of theirs are fill and not written.
const MOST_PUTS: f64 = 1.05;

/// How far the GETs of a plan may be from those of the upgrade, either way.
const GETS_WITHIN: f64 = 1.05;

/// The same of the bytes read.
const READ_WITHIN: f64 = 1.2;

/// The same of the bytes written, which are reckoned by a rule.
const WRITTEN_WITHIN: f64 = 1.35;

/// The same of every request and byte of a store whose leaves are listed in part.
const SAMPLED_WITHIN: f64 = 1.15;

/// Later than every leaf's stamp, earlier than any run of a test.
const EARLIER_RUN: &str = "2021-01-01T00:00:00+00:00";

/// Long after every run of a test.
const LATER: &str = "2099-01-01T00:00:00+00:00";

/// A store to be upgraded, and how.
struct Setup {
    store: Arc<dyn ObjectStore>,
    law: Law,
    /// Config and schedule, when they are declared first.
    declare: Option<(String, Vec<u8>)>,
}

/// What was planned and what came of it.
struct Done {
    planned: Planned,
    report: Report,
}

impl Setup {
    async fn of(tree: &Tree, law: Law) -> Self {
        Self {
            store: in_memory(tree).await,
            law,
            declare: None,
        }
    }

    async fn declared(name: &str, law: Law) -> Self {
        Self::of(&Case::load(name).declared(law), law).await
    }

    async fn published(name: &str, law: Law) -> Self {
        let case = Case::load(name);
        let config = String::from_utf8(case.file("config.yaml").to_vec()).unwrap();
        let facts: Value = serde_json::from_slice(case.file("case.json")).unwrap();
        let overviews = serde_json::from_value(facts["overviews"].clone()).unwrap();
        Self {
            declare: Some((config, overviews)),
            ..Self::of(&case.published(), law).await
        }
    }

    fn settings(&self) -> Settings {
        settings(&format!("fold_law = \"{}\"", self.law))
    }

    fn root(&self, store: &FaultStore) -> Root {
        Root::new(Arc::new(store.clone()), "memory://planned")
    }

    fn declare(&self, root: &Root) -> Option<Declare> {
        let (config, overviews) = self.declare.as_ref()?;
        let declare = Declare::new(root.clone(), config).unwrap();
        Some(declare.lever(Some(Lever::Overviews(overviews.clone()))))
    }

    /// The plan, which writes nothing.
    async fn plan(&self) -> Planned {
        let counted = FaultStore::new(self.store.clone(), []);
        let root = self.root(&counted);
        let before = tree_in(&*self.store).await;
        let plan = Plan::new(root.clone())
            .settings(self.settings())
            .declare(self.declare(&root));
        let planned = plan.make().await;
        for op in Op::WRITES {
            assert_eq!(counted.calls(op), 0, "{op:?} by a plan");
        }
        let after = tree_in(&*self.store).await;
        assert_eq!(differences(&before, &after), Vec::<String>::new());
        planned
    }

    /// The upgrade.
    async fn upgrade(&self, limit: Option<u64>) -> Report {
        let counted = FaultStore::new(self.store.clone(), []);
        let root = self.root(&counted);
        if let Some(declare) = self.declare(&root) {
            declare.run().await.unwrap();
        }
        // Of the same store, with a tally of its own.
        let root = self.root(&counted);
        let mut settings = self.settings();
        settings.max_leaves = limit;
        let upgrade = Upgrade::new(root).settings(settings);
        upgrade.start().await.unwrap().join().await.unwrap()
    }

    async fn plan_and_upgrade(&self) -> Done {
        let planned = self.plan().await;
        assert!(!planned.is_blocked, "{:?}", planned.obstacles);
        assert_eq!(planned.exit_code, 0);
        let report = self.upgrade(None).await;
        assert_eq!(report.exit_code, 0, "{:?}", report.error);
        Done { planned, report }
    }

    /// Sets back what earlier runs have stamped: stamps have whole seconds, and what is
    /// written anew within one looks the same to the ladder.
    async fn set_back_what_was_stamped(&self) {
        for (key, bytes) in tree_in(&*self.store).await {
            let Ok(mut text) = String::from_utf8(bytes) else {
                continue;
            };
            for stamped in ["\"written_at\": \"", "\"max_leaf_timestamp\": \""] {
                let starts: Vec<usize> = text
                    .match_indices(stamped)
                    .map(|(at, _)| at + stamped.len())
                    .collect();
                for start in starts {
                    text.replace_range(start..start + EARLIER_RUN.len(), EARLIER_RUN);
                }
            }
            let path = object_store::path::Path::from(key);
            self.store
                .put(&path, text.into_bytes().into())
                .await
                .unwrap();
        }
    }

    async fn edit(&self, key: &str, edit: impl FnOnce(&mut Value)) {
        let path = object_store::path::Path::from(key);
        let bytes = self.store.get(&path).await.unwrap().bytes().await.unwrap();
        let mut document: Value = serde_json::from_slice(&bytes).unwrap();
        edit(&mut document);
        let bytes = serde_json::to_vec(&document).unwrap();
        self.store.put(&path, bytes.into()).await.unwrap();
    }
}

/// What the steps that `Upgrade` takes are planned to cost.
fn run_cost(planned: &Planned) -> Cost {
    let mut cost = Cost::default();
    for step in &planned.steps {
        if matches!(step.work, Work::Columns(_) | Work::Ladder(_)) {
            cost += step.cost;
        }
    }
    cost
}

#[track_caller]
fn assert_within(what: &str, planned: u64, real: u64, factor: f64) {
    let ratio = planned as f64 / real as f64;
    assert!(
        planned == real || (1.0 / factor..=factor).contains(&ratio),
        "{what}: {planned} planned, {real} in fact"
    );
}

impl Done {
    /// The leaves and the artifacts of every level came to what was planned.
    #[track_caller]
    fn assert_outcomes(&self) {
        let (planned, report) = (&self.planned, &self.report);
        let columns = planned.columns().unwrap();
        assert_eq!(columns.counts.planned, report.counts.written);
        assert_eq!(columns.counts.current, report.counts.current);
        assert_eq!(columns.counts.empty, report.counts.empty);
        assert_eq!(columns.counts.skipped, report.counts.skipped);
        assert_eq!(columns.verdicts, report.verdicts);
        let ladder = planned.ladder().unwrap();
        let done = report.ladder.as_ref().unwrap();
        let levels = ladder.levels.iter();
        let planned: Vec<_> = levels
            .map(|level| {
                (
                    level.order,
                    level.cells,
                    level.regime,
                    level.due,
                    level.current,
                )
            })
            .collect();
        let levels = done.levels.iter();
        let real: Vec<_> = levels
            .map(|level| {
                (
                    level.order,
                    level.cells,
                    level.regime,
                    level.written,
                    level.current,
                )
            })
            .collect();
        assert_eq!(planned, real);
        let empty: u64 = ladder.levels.iter().map(|level| level.empty).sum();
        assert_eq!(empty, done.counts.empty);
        assert_eq!(ladder.finishes, done.record.is_some());
    }

    #[track_caller]
    fn assert_costs(&self) {
        let (cost, real): (Cost, Tally) = (run_cost(&self.planned), self.report.requests);
        assert!(
            cost.put >= real.put,
            "{} PUTs planned, {} made",
            cost.put,
            real.put
        );
        assert!(
            cost.put as f64 <= real.put as f64 * MOST_PUTS,
            "{} PUTs planned, {} made",
            cost.put,
            real.put
        );
        assert_within("GET", cost.get, real.get + real.head, GETS_WITHIN);
        assert_within("bytes read", cost.bytes_read, real.bytes_read, READ_WITHIN);
        let written = (cost.bytes_written, real.bytes_written);
        assert_within("bytes written", written.0, written.1, WRITTEN_WITHIN);
        assert_eq!(cost.list, real.list, "LIST");
        assert_eq!(cost.delete, real.delete, "DELETE");
    }
}

#[tokio::test]
async fn published_stores_are_upgraded_as_planned() {
    for name in ["plain", "strata", "windowed", "deep", "fine"] {
        for law in Law::ALL {
            println!("{name}, {law}");
            let setup = Setup::published(name, law).await;
            let done = setup.plan_and_upgrade().await;
            let columns = done.planned.columns().unwrap();
            assert!(columns.counts.planned > 0);
            assert_eq!(columns.listed, columns.counts.planned);
            done.assert_outcomes();
            done.assert_costs();
        }
    }
}

#[tokio::test]
async fn declared_stores_are_upgraded_as_planned() {
    for name in ["flux", "temporal", "windowed_all", "deep_strata"] {
        for law in Law::ALL {
            println!("{name}, {law}");
            let done = Setup::declared(name, law).await.plan_and_upgrade().await;
            done.assert_outcomes();
            done.assert_costs();
            let Work::Declare(declaration) = &done.planned.steps[0].work else {
                panic!("{:?}", done.planned.steps[0]);
            };
            assert!(!declaration.would_update);
            assert!(!declaration.overviews.as_array().unwrap().is_empty());
        }
    }
}

#[tokio::test]
async fn what_an_earlier_run_has_written_is_not_planned_again() {
    let setup = Setup::declared("deep", Law::Boundary).await;
    assert_eq!(setup.upgrade(Some(1)).await.counts.written, 1);
    let half = setup.plan_and_upgrade().await;
    assert_eq!(half.planned.columns().unwrap().counts.current, 1);
    half.assert_outcomes();
    half.assert_costs();

    let complete = setup.plan_and_upgrade().await;
    complete.assert_outcomes();
    complete.assert_costs();
    assert!(!complete.planned.is_anything_due());
    assert_eq!(complete.report.requests.put, 0);
    assert_eq!(complete.planned.memory, None);
}

#[tokio::test]
async fn a_leaf_written_anew_takes_only_its_ancestors_along() {
    for name in ["plain", "windowed_all"] {
        let setup = Setup::declared(name, Law::Boundary).await;
        setup.upgrade(None).await;
        setup.set_back_what_was_stamped().await;
        let leaf = Case::load(name).leaves().remove(0);
        let stamp = |root: &mut Value| {
            root["attributes"]["morton_hive_commit"]["written_at"] = json!(LATER);
        };
        setup.edit(&format!("{leaf}/zarr.json"), stamp).await;
        let done = setup.plan_and_upgrade().await;
        assert_eq!(done.planned.columns().unwrap().counts.planned, 1);
        let ladder = done.planned.ladder().unwrap();
        assert!(ladder.current() > 0 && ladder.due() > 0);
        done.assert_outcomes();
        done.assert_costs();
    }
}

#[tokio::test]
async fn a_finisher_that_did_not_come_to_its_end_is_planned() {
    let setup = Setup::declared("plain", Law::Boundary).await;
    setup.upgrade(None).await;
    let forget = |manifest: &mut Value| {
        let entries = manifest["pyramid"]["overviews"].as_array_mut().unwrap();
        entries[0].as_object_mut().unwrap().shift_remove("actuals");
    };
    setup.edit(MANIFEST, forget).await;
    let done = setup.plan_and_upgrade().await;
    let ladder = done.planned.ladder().unwrap();
    assert!(ladder.finishes && ladder.due() == 0);
    done.assert_outcomes();
    assert!(run_cost(&done.planned).put >= done.report.requests.put);
}

#[tokio::test]
async fn a_large_store_is_reckoned_from_a_part_of_its_leaves() {
    const LEAVES: usize = 200;
    let setup = Setup::of(&Many::leaves(LEAVES).tree, Law::Boundary).await;
    let done = setup.plan_and_upgrade().await;
    let columns = done.planned.columns().unwrap();
    assert_eq!(columns.counts.planned, LEAVES as u64);
    assert!(columns.listed < columns.counts.planned);
    done.assert_outcomes();
    let (cost, real) = (run_cost(&done.planned), done.report.requests);
    assert!(cost.put >= real.put);
    for (what, planned, real) in [
        ("PUT", cost.put, real.put),
        ("GET", cost.get, real.get),
        ("LIST", cost.list, real.list),
        ("DELETE", cost.delete, real.delete),
        ("bytes read", cost.bytes_read, real.bytes_read),
    ] {
        assert_within(what, planned, real, SAMPLED_WITHIN);
    }
}

#[tokio::test]
async fn memory_is_the_budget_and_what_may_come_on_top() {
    let setup = Setup::declared("deep", Law::Boundary).await;
    let memory = setup.plan().await.memory.unwrap();
    assert_eq!(memory.budget, setup.settings().memory_budget);
    assert!(memory.block > 0 && memory.columns > 0);
    assert_eq!(
        memory.total(),
        memory.budget + memory.block + memory.columns
    );
    // Without a boundary the block is the whole leaf.
    let raw = Setup::declared("deep", Law::Raw).await;
    assert!(raw.plan().await.memory.unwrap().block > 4 * memory.block);
}

// The program.

fn plan(root: &Path) -> Zagg {
    Zagg::new("plan").arg(root).arg("--json")
}

/// Runs a plan, which writes nothing.
#[track_caller]
fn planned(store: &TestStore, run: Zagg, code: i32) -> Output {
    let before = store.surroundings();
    let output = run.run().expect_code(code);
    let after = store.surroundings();
    assert_eq!(differences(&before, &after), Vec::<String>::new());
    output
}

/// The one obstacle of this severity, by what it is about; its problem and cure.
#[track_caller]
fn obstacle(output: &Output, severity: &str, about: &str) -> String {
    let document = output.json();
    let obstacles = document["obstacles"].as_array().unwrap();
    let found: Vec<_> = obstacles
        .iter()
        .filter(|found| found["severity"] == severity && found["about"] == about)
        .collect();
    assert_eq!(found.len(), 1, "{severity} {about} of {document:#}");
    let text = |key: &str| found[0][key].as_str().unwrap().to_owned();
    assert!(text("cure").split_whitespace().count() >= 3, "{document:#}");
    format!("{}; {}", text("problem"), text("cure"))
}

#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in `{text}`");
    }
}

fn live_lease() -> String {
    let lease = json!({
        "spec": "zagg-sweep-lease/1", "run_id": "other-run-7", "scope": null,
        "acquired_at": iso_ago(60), "heartbeat_at": iso_ago(30), "ttl_s": 900,
    });
    lease.to_string()
}

#[test]
fn whatever_refuses_an_upgrade_blocks_its_plan() {
    type Spoil = dyn Fn(&TestStore);
    let cases: [(&str, &Spoil, &[&str]); 5] = [
        (
            "manifest",
            &|store| store.remove(MANIFEST),
            &["does not exist"],
        ),
        (
            "declaration",
            &|store| store.write(MANIFEST, Case::load("plain").file("input/morton_hive.json")),
            &["declared off", "--config FILE"],
        ),
        (
            "lease",
            &|store| store.write(LEASE, live_lease()),
            &["other-run-7", "after 20"],
        ),
        (
            "lease",
            &|store| store.write(LEASE, r#"{"spec": "zagg-sweep-lease/9"}"#),
            &["zagg-sweep-lease/9"],
        ),
        (
            "leaves",
            &|store| {
                for leaf in Case::load("plain").leaves() {
                    store.write(&format!("{leaf}/zarr.json"), "no JSON");
                }
            },
            &["not a Zarr v3 document"],
        ),
    ];
    for (about, spoil, parts) in cases {
        let store = Case::load("plain").declared_store(Law::Boundary);
        spoil(&store);
        let output = planned(&store, plan(&store.root()), 3);
        assert_contains(&obstacle(&output, "blocking", about), parts);
        assert_eq!(output.number("/exit_code"), 3);
        let upgrade = Zagg::new("upgrade").arg(store.root()).arg("--json").run();
        assert_ne!(upgrade.code, Some(0), "{about}");
    }
    let absent = TestStore::empty().parent().join("nowhere");
    Zagg::new("plan").arg(absent).run().expect_code(3);
}

#[test]
fn another_config_blocks_and_the_rest_is_planned_all_the_same() {
    let mut published = Published::load("strata");
    published.edit_config("function: len", "function: sum");
    let run = published.command("plan").args(&["--overviews", "5"]);
    let output = planned(&published.store, run, 3);
    let text = obstacle(&output, "blocking", "declaration");
    assert_contains(&text, &["9e4d65282c94", "another config"]);
    assert_eq!(output.json()["steps"][1]["counts"]["planned"], 4);

    let gap = published.command("plan").args(&["--overviews", "5,4"]);
    planned(&published.store, gap, 3);
    let no_config = plan(&published.store.root()).args(&["--overviews", "5"]);
    planned(&published.store, no_config, 2);
    published.config = "aggregation: [".to_owned();
    published.write_config();
    planned(&published.store, published.command("plan"), 2);
}

#[test]
fn what_an_upgrade_begins_in_spite_of_is_a_warning() {
    let case = Case::load("plain");
    let store = case.declared_store(Law::Boundary);
    let expired = json!({
        "spec": "zagg-sweep-lease/1", "run_id": "dead-run", "scope": null,
        "acquired_at": iso_ago(9000), "heartbeat_at": iso_ago(5000), "ttl_s": 900,
    });
    store.write(LEASE, expired.to_string());
    store.write("stats_20260101T000000Z_broken.parquet", "no parquet");
    let report = store.parent().join("store.status/run-busy/shard-1.json");
    fs::create_dir_all(report.parent().unwrap()).unwrap();
    fs::write(report, "{}").unwrap();
    let leaf = &case.leaves()[0];
    store.write(&format!("{leaf}/zarr.json"), "no JSON");

    let output = planned(&store, plan(&store.root()), 0);
    let warnings = [
        ("lease", "dead-run"),
        ("records", "broken.parquet"),
        ("runs", "busy"),
        ("leaves", leaf.as_str()),
    ];
    for (about, names) in warnings {
        assert_contains(&obstacle(&output, "warning", about), &[names]);
    }
    let document = output.json();
    for (ability, answer) in [
        ("list", "yes"),
        ("read", "yes"),
        ("create", "not-tried"),
        ("replace", "not-tried"),
        ("delete", "not-tried"),
    ] {
        assert_eq!(document["store"][ability]["answer"], answer, "{ability}");
    }
    assert_eq!(document["store"]["clock_skew_s"], Value::Null);
    assert_eq!(document["steps"][1]["counts"]["failed"], 1);
    assert_contains(
        document["steps"][2]["waits"].as_str().unwrap(),
        &["1 leaves"],
    );
}

#[test]
fn a_store_without_leaves_has_nothing_to_do() {
    let store = TestStore::empty();
    let declared = Case::load("plain").declared(Law::Boundary);
    store.write(MANIFEST, &declared[MANIFEST]);
    let output = planned(&store, plan(&store.root()), 0);
    assert_contains(&obstacle(&output, "warning", "leaves"), &["nothing to do"]);
    assert_eq!(output.number("/total/put"), 0);
}

#[test]
fn an_http_root_is_planned_for_as_far_as_it_can_be_read() {
    let store = TestStore::empty();
    let settings = store.parent().join("settings.toml");
    fs::write(&settings, "[retry]\nmax_attempts = 1").unwrap();
    let output = plan(Path::new("http://127.0.0.1:1/hive"))
        .arg("--settings")
        .arg(settings)
        .run()
        .expect_code(3);
    assert_contains(&obstacle(&output, "blocking", "root"), &["s3://"]);
}

#[test]
fn an_http_root_is_said_to_be_read_only() {
    let store = Case::load("plain").declared_store(Law::Boundary);
    let server = WebServer::over(&store.root());
    let output = plan(Path::new(&server.url)).run().expect_code(3);
    assert_contains(&obstacle(&output, "blocking", "root"), &["read-only"]);
    let document = output.json();
    assert_eq!(document["store"]["list"]["answer"], "no");
    assert_eq!(document["store"]["read"]["answer"], "yes");
    for ability in ["create", "replace", "delete"] {
        let found = &document["store"][ability];
        assert_eq!(found["detail"], "an http root is read-only", "{ability}");
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_listed_blocks() {
    let tree = Case::load("plain").declared(Law::Boundary);
    let denied = Rule::on([Op::List]).fail(Failure::Denied);
    let store = FaultStore::new(in_memory(&tree).await, [denied]);
    let root = Root::new(Arc::new(store.clone()), "memory://planned");
    let planned = Plan::new(root).settings(settings("")).make().await;
    assert!(store.fired() > 0);
    assert!(planned.is_blocked && planned.store.is_none());
    let obstacle = &planned.obstacles[0];
    assert_eq!(obstacle.about, "store");
    assert_contains(&obstacle.cure, &["the right to list"]);
}

#[test]
fn a_person_gets_one_screen_that_ends_with_the_command() {
    const SCREEN: usize = 24;
    let published = Published::load("plain");
    let dir = published.store.parent().join("a b");
    fs::create_dir(&dir).unwrap();
    let config = dir.join("it's.yaml");
    fs::write(&config, &published.config).unwrap();
    let run = |command: &str| Zagg::new(command).arg(published.store.root());
    let zagg = run("plan").arg("--config").arg(&config).args(&[
        "--overviews",
        "5",
        "--memory-budget",
        "64MiB",
        "--max-in-flight",
        "4",
    ]);
    let output = planned(&published.store, zagg, 0);
    let text = output.stdout.trim_end();
    assert!(text.lines().count() <= SCREEN, "{text}");
    let root = published.store.root();
    let config = config.display().to_string().replace('\'', r"'\''");
    let next = format!(
        "next: zagg-stream upgrade {} --config '{config}' --overviews 5 --memory-budget 67108864 --max-in-flight 4",
        root.display()
    );
    assert_eq!(text.lines().last(), Some(next.as_str()));
    assert_contains(
        text,
        &[
            "manifest rewritten",
            "4 due, 0 current",
            "ladder order  3",
            "store: list yes; read yes; create, replace, delete: tried when a run begins",
        ],
    );

    run("upgrade")
        .arg("--config")
        .arg(published.config_path())
        .args(&["--overviews", "5"])
        .run()
        .expect_code(0);
    let output = planned(&published.store, run("plan"), 0);
    assert_contains(
        &output.stdout,
        &["everything is current", "0 due, 4 current"],
    );
    let help = Zagg::new("plan").arg("--help").run().expect_code(0);
    assert_contains(&help.stdout, &["Usage", "Example"]);
}
