//! The golden cubes, through the real program.

use std::path::Path;

use crate::common::binary::{Output, Zagg};
use crate::common::cubes::{Cubes, bulk_keys, texts};
use crate::common::stores::{TestStore, Tree, differences};
use serde_json::Value;

/// `cube COMMAND ARGS --json`.
fn cube(command: &str, args: &[&Path]) -> Zagg {
    let zagg = Zagg::new("cube").arg(command).arg("--json");
    args.iter().fold(zagg, |zagg, arg| zagg.arg(arg))
}

fn exit_code(case: &Value) -> i32 {
    match case["exit"].as_str().unwrap() {
        "ok" => 0,
        "refuse" => 3,
        other => panic!("{other}"),
    }
}

fn keys(output: &Output, pointer: &str) -> Vec<String> {
    texts(output.json().pointer(pointer).unwrap())
}

#[track_caller]
fn assert_same(before: &Tree, after: &Tree) {
    let lines = differences(before, after);
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

#[test]
fn every_cube_is_healed_or_refused() {
    let cubes = Cubes::load();
    let names = cubes.with("heal");
    assert_eq!(names.len(), 16);
    for name in names {
        let (case, before) = (cubes.case(&name, "heal"), cubes.tree(&name));
        let store = TestStore::of(&before);
        let planned = cube("heal", &[&store.root()]).arg("--dry-run").run();
        assert_same(&before, &store.tree());
        let healed = cube("heal", &[&store.root()])
            .run()
            .expect_code(exit_code(case));
        for (pointer, expected) in [
            ("/healed", &case["healed"]),
            ("/added", &case["added"]),
            ("/rewritten", &case["rewritten"]),
        ] {
            assert_eq!(keys(&healed, pointer), texts(expected), "{name} {pointer}");
            assert_eq!(keys(&planned, pointer), texts(expected), "{name} {pointer}");
        }
        assert_healed(
            &name,
            &cubes.healed(&name),
            &store.tree(),
            &texts(&case["rewritten"]),
        );
        assert_said(&name, case, &healed);
        let again = cube("heal", &[&store.root()])
            .run()
            .expect_code(exit_code(case));
        assert_eq!(again.number("/requests/put"), 0, "{name}");
        assert_eq!(again.number("/requests/delete"), 0, "{name}");
    }
}

/// Byte for byte, but for what is rewritten, which says the same.
fn assert_healed(name: &str, expected: &Tree, found: &Tree, rewritten: &[String]) {
    let mut found = found.clone();
    for key in rewritten {
        let says = |tree: &Tree| serde_json::from_slice::<Value>(&tree[key]).unwrap();
        assert_eq!(says(expected), says(&found), "{name} {key}");
        found.insert(key.clone(), expected[key].clone());
    }
    let lines = differences(expected, &found);
    assert!(lines.is_empty(), "{name}: {}", lines.join("\n"));
}

/// Refusals and warnings name what the case names.
fn assert_said(name: &str, case: &Value, healed: &Output) {
    let refusals = healed.json()["refusals"].to_string();
    let empty = Vec::new();
    for offending in case["offending"].as_array().unwrap_or(&empty) {
        let quoted = format!("`{}", offending.as_str().unwrap());
        assert!(
            refusals.contains(&quoted),
            "{name}: {quoted} is not in {refusals}"
        );
    }
    assert_eq!(refusals == "[]", case["exit"] == "ok", "{name}: {refusals}");
    for warning in case["warn"].as_array().unwrap_or(&empty) {
        let path = warning.as_str().unwrap().split(' ').next().unwrap();
        let named = healed
            .warnings()
            .iter()
            .any(|warning| warning.contains(path));
        assert!(named, "{name}: {path} is not in {:?}", healed.warnings());
    }
}

#[test]
fn a_check_finds_what_is_wrong_and_writes_nothing() {
    let cubes = Cubes::load();
    let sound = ["healthy", "consolidated", "foreign_and_nested"];
    for name in cubes.with("heal") {
        let (case, before) = (cubes.case(&name, "heal"), cubes.tree(&name));
        let store = TestStore::of(&before);
        let code = i32::from(!sound.contains(&name.as_str()));
        let checked = cube("check", &[&store.root()]).run().expect_code(code);
        assert_same(&before, &store.tree());
        let empty = Value::Array(Vec::new());
        let foreign = texts(case.get("foreign").unwrap_or(&empty));
        assert_eq!(keys(&checked, "/foreign"), foreign, "{name}");
        let groups = texts(case.get("consolidated_groups").unwrap_or(&empty));
        assert_eq!(keys(&checked, "/consolidated"), groups, "{name}");
        let fetch = cubes.case(&name, "fetch");
        let safe = checked.json()["minimal_fetch_is_safe"] == true;
        assert_eq!(safe, fetch["exit"] == "ok", "{name}");
        let stale = checked.json()["findings"]
            .to_string()
            .contains("\"rule\":\"consolidated\"");
        assert!(
            !stale,
            "{name}: no golden block is told to be stale before a change"
        );
    }
    let store = TestStore::of(&cubes.tree("healthy"));
    let report = cube("check", &[&store.root()]).run().json();
    assert_eq!(report["orbits"][0]["slices"], 3);
    assert_eq!(report["orbits"][1]["slices"], 2);
    assert_eq!(report["orbits"][0]["levels"].as_array().unwrap().len(), 3);
}

#[test]
fn every_cube_is_fetched_or_refused() {
    let cubes = Cubes::load();
    for name in cubes.with("fetch") {
        let (case, tree) = (cubes.case(&name, "fetch"), cubes.tree(&name));
        let (remote, local) = (TestStore::of(&tree), TestStore::empty());
        let into = local.parent().join("copy");
        let pulled = cube("pull", &[&remote.root(), &into])
            .run()
            .expect_code(exit_code(case));
        assert_same(&tree, &remote.tree());
        if case["exit"] == "refuse" {
            assert!(!into.exists(), "{name}");
            assert_eq!(
                pulled.json()["offending"].as_array().unwrap().len(),
                case["offending"].as_array().unwrap().len()
            );
            for offending in case["offending"].as_array().unwrap() {
                let array = offending["array"].as_str().unwrap();
                let said = pulled.json()["offending"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|said| {
                        said["array"] == array
                            && said["why"] == offending["why"]
                            && said["object_time_extent"] == offending["object_time_extent"]
                    });
                assert!(said, "{name}: {array} is not in {}", pulled.stdout);
                assert!(pulled.text("/error").contains(array), "{name}");
            }
            assert!(pulled.text("/error").contains("--full"));
            cube("pull", &[&remote.root(), &into])
                .arg("--full")
                .run()
                .expect_code(0);
            assert_same(&tree, &crate::common::stores::tree_of(&into));
            continue;
        }
        assert_eq!(
            keys(&pulled, "/transferred"),
            texts(&case["transferred"]),
            "{name}"
        );
        assert_eq!(
            pulled.json()["fetched"]["bytes"],
            case["transferred_bytes"],
            "{name}"
        );
        for extent in ["skipped", "total"] {
            assert_eq!(
                pulled.json()[extent]["objects"],
                case[extent]["count"],
                "{name}"
            );
            assert_eq!(
                pulled.json()[extent]["bytes"],
                case[extent]["bytes"],
                "{name}"
            );
        }
        let mut expected = tree.clone();
        expected.retain(|key, _| texts(&case["transferred"]).contains(key));
        assert_same(&expected, &crate::common::stores::tree_of(&into));
    }
}

#[test]
fn every_push_uploads_and_deletes_what_it_may() {
    let cubes = Cubes::load();
    let mut pushes = 0;
    for name in cubes.with("fetch") {
        let empty = Vec::new();
        for case in cubes.case(&name, "sync").as_array().unwrap_or(&empty) {
            push_case(&cubes, &name, case);
            pushes += 1;
        }
    }
    assert_eq!(pushes, 19);
}

fn push_case(cubes: &Cubes, name: &str, case: &Value) {
    let which = format!("{name}, {}", case["name"]);
    let (remote, local) = (TestStore::of(&cubes.tree(name)), TestStore::empty());
    cube("pull", &[&remote.root(), &local.root()])
        .run()
        .expect_code(0);
    for key in texts(&case["local_removed"]) {
        local.remove(&key);
    }
    let expected = cubes.expected(name);
    for key in case.get("local_added").map(texts).unwrap_or_default() {
        let bytes = expected.get(&key).cloned();
        local.write(&key, bytes.unwrap_or_else(|| b"a shard".to_vec()));
    }
    let before = remote.tree();
    let planned = cube("push", &[&local.root(), &remote.root()])
        .arg("--dry-run")
        .run();
    assert_same(&before, &remote.tree());
    let pushed = cube("push", &[&local.root(), &remote.root()])
        .run()
        .expect_code(exit_code(case));
    let after = remote.tree();
    let gone: Vec<String> = before
        .keys()
        .filter(|key| !after.contains_key(*key))
        .cloned()
        .collect();
    assert_eq!(gone, texts(&case["may_delete"]), "{which}");
    let kept = before.keys().filter(|key| after.contains_key(*key)).count();
    assert_eq!(Value::from(kept), case["must_keep_count"], "{which}");
    let written: Vec<String> = after
        .iter()
        .filter(|(key, bytes)| before.get(*key) != Some(bytes))
        .map(|(key, _)| key.clone())
        .collect();
    let allowed = texts(&case["uploaded"]);
    assert!(
        written.iter().all(|key| allowed.contains(key)),
        "{which}: {written:?}"
    );
    for key in case.get("local_added").map(texts).unwrap_or_default() {
        assert!(written.contains(&key), "{which}: {key}");
    }
    if exit_code(case) == 0 {
        assert_eq!(keys(&pushed, "/uploaded"), written, "{which}");
        assert_eq!(keys(&planned, "/uploaded"), written, "{which}");
        assert_eq!(keys(&planned, "/deleted"), gone, "{which}");
        let again = cube("push", &[&local.root(), &remote.root()])
            .run()
            .expect_code(0);
        assert_eq!(again.text("/outcome"), "nothing-to-do", "{which}");
        assert_eq!(again.number("/requests/put"), 0, "{which}");
    }
}

#[test]
fn an_append_whose_chunks_keep_their_size_is_uploaded_whole() {
    let cubes = Cubes::load();
    let case = &cubes.case("same_size_append", "sync")[0];
    let before = cubes.tree(case["remote"].as_str().unwrap());
    let appended = cubes.tree(case["local"].as_str().unwrap());
    let (remote, local) = (TestStore::of(&before), TestStore::empty());
    cube("pull", &[&remote.root(), &local.root()])
        .run()
        .expect_code(0);
    for (key, bytes) in &appended {
        local.write(key, bytes);
    }
    assert_same(&appended, &local.tree());
    let pushed = cube("push", &[&local.root(), &remote.root()])
        .run()
        .expect_code(0);
    let uploaded = keys(&pushed, "/uploaded");
    for key in texts(&case["same_size"]) {
        assert_eq!(before[&key].len(), appended[&key].len());
        assert!(uploaded.contains(&key), "{key}");
    }
    assert!(
        uploaded
            .iter()
            .all(|key| texts(&case["uploaded"]).contains(key))
    );
    let mut expected = before.clone();
    expected.extend(appended);
    assert_same(&expected, &remote.tree());
    assert!(bulk_keys(&before).iter().all(|key| !uploaded.contains(key)));
    cube("check", &[&remote.root()]).run().expect_code(0);
}
