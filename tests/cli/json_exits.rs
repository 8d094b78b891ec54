//! With `--json` stdout is one document, however the command ends.

use std::time::Duration;

use crate::common::binary::{Output, Zagg};
use crate::common::bucket::Bucket;
use crate::common::cases::{Case, Law};
use crate::common::faults::{Failure, Op, Rule};
use crate::common::fleet::wait_for;
use crate::common::library::LEASE;
use crate::common::many::Many;
use crate::common::published::Published;
use crate::common::s3::S3Server;
use crate::common::times::iso_ago;

/// Fails unless stdout is one document that says how it ended.
#[track_caller]
fn assert_document(output: &Output, command: &str, code: i32, outcome: &str) {
    let document = output.json();
    assert_eq!(output.code, Some(code), "{output:?}");
    assert_eq!(document["command"], command, "{document:#}");
    assert_eq!(document["exit_code"], code, "{document:#}");
    assert_eq!(document["outcome"], outcome, "{document:#}");
    let has_error = document["error"].is_string();
    assert_eq!(has_error, code != 0, "{document:#}");
}

#[test]
fn a_command_that_is_not_understood() {
    for (args, command) in [
        (&["upgrade", "--json"][..], "upgrade"),
        (&["--json"], ""),
        (
            &["upgrade", "/x", "--json", "--fold-law", "wrong"],
            "upgrade",
        ),
        (&["upgrade", "/x", "--json", "--overviews", "5"], "upgrade"),
        (
            &["upgrade", "/x", "--json", "--settings", "/nowhere"],
            "upgrade",
        ),
        (&["plan", "/x", "--json", "--nonsense"], "plan"),
        (&["cube", "heal", "--json"], "cube heal"),
        (&["lease", "release", "--json"], "lease release"),
        (
            &["verify", "/x", "--json", "--full", "--sample", "3"],
            "verify",
        ),
        (
            &["upgrade", "/x", "--json", "--log-level", "loud"],
            "upgrade",
        ),
        (&["worker", "--run", "/x", "--json"], "worker"),
    ] {
        let output = Zagg::bare().args(args).run();
        assert_document(&output, command, 2, "usage");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn help_is_help() {
    let output = Zagg::new("upgrade")
        .args(&["--json", "--help"])
        .run()
        .expect_code(0);
    assert!(output.stdout.contains("Usage:"), "{output:?}");
}

struct Served {
    server: S3Server,
    bucket: Bucket,
}

impl Served {
    fn start(name: &str) -> Self {
        let server = S3Server::start();
        let bucket = server.bucket(name, &Many::leaves(20).tree);
        Self { server, bucket }
    }

    fn slow(&self) {
        let stall = Duration::from_millis(100);
        self.server.follow([Rule::on([Op::Put])
            .key_contains(".pyramid.zarr/")
            .stall(stall)]);
    }

    /// Waits until a column is under way.
    fn wait_for_a_column(&self) {
        wait_for("a column", || {
            let tree = self.server.tree(&self.bucket);
            tree.keys()
                .any(|key| key.contains(".pyramid.zarr/"))
                .then_some(())
        });
    }
}

#[test]
fn a_run_that_is_done_refused_or_failed() {
    let served = Served::start("ended");
    let output = served.bucket.command("upgrade").run();
    assert_document(&output, "upgrade", 0, "done");
    let output = served
        .bucket
        .command("upgrade")
        .args(&["--shards", "1"])
        .run();
    assert_document(&output, "upgrade", 3, "refused");

    let case = Case::load("plain");
    let mut tree = case.declared(Law::Boundary);
    let chunk = format!("{}/6/h_tdigest/c/0", case.leaves()[0]);
    tree.get_mut(&chunk).unwrap().fill(u8::MAX);
    let failing = served.server.bucket("failing", &tree);
    let output = failing.command("upgrade").run();
    let document = output.json();
    assert_eq!(
        (output.code, &document["outcome"]),
        (Some(1), &"failed".into())
    );

    let lease = serde_json::json!({
        "spec": "zagg-sweep-lease/1", "run_id": "other", "scope": null, "ttl_s": 900,
        "acquired_at": iso_ago(9), "heartbeat_at": iso_ago(1),
    });
    tree.insert(LEASE.to_owned(), lease.to_string().into_bytes());
    let held = served.server.bucket("held", &tree);
    for command in ["upgrade", "backfill", "sweep"] {
        assert_document(&held.command(command).run(), command, 3, "refused");
    }
    let absent = Zagg::new("upgrade")
        .args(&["/nowhere/at/all", "--json"])
        .run();
    assert_document(&absent, "upgrade", 3, "refused");
}

#[test]
fn a_bucket_that_is_not_there_is_refused_by_every_command() {
    let server = S3Server::start();
    let absent = server.absent("absent");
    let published = Published::load("plain");
    for command in ["backfill", "sweep", "verify", "retire"] {
        assert_document(&absent.command(command).run(), command, 3, "refused");
    }
    let declare = absent.command("declare").arg("--config");
    assert_refused(&declare.arg(published.config_path()).run(), "declare");
    let cube = absent.environment(Zagg::new("cube").arg("check"));
    let cube = cube.arg(absent.url()).arg("--json");
    assert_refused(&cube.run(), "cube check");
}

/// Fails unless a command was refused whose document has no outcome beside the exit code.
#[track_caller]
fn assert_refused(output: &Output, command: &str) {
    let document = output.json();
    assert_eq!(output.code, Some(3), "{output:?}");
    assert_eq!(document["command"], command, "{document:#}");
    assert_eq!(document["exit_code"], 3, "{document:#}");
    assert!(document["error"].is_string(), "{document:#}");
}

#[test]
fn a_run_that_is_aborted() {
    let served = Served::start("aborted");
    let denied = Rule::on([Op::Get]).key(|key| key.contains(".zarr/"));
    let manifest = Rule::on([Op::Get])
        .key_ends_with("morton_hive.json")
        .from(2);
    let failure = Failure::Status(403);
    served
        .server
        .follow([denied.fail(failure), manifest.fail(failure)]);
    let output = served.bucket.command("upgrade").run();
    assert_document(&output, "upgrade", 4, "aborted");
}

#[test]
fn a_run_that_is_stopped_once_or_twice() {
    for signal in ["INT", "TERM", "HUP"] {
        let served = Served::start(&format!("once-{}", signal.to_lowercase()));
        served.slow();
        let run = served.bucket.command("upgrade").start();
        served.wait_for_a_column();
        run.signal(signal);
        assert_document(&run.wait(), "upgrade", 130, "interrupted");
        assert!(!served.server.tree(&served.bucket).contains_key(LEASE));
    }
    let served = Served::start("twice");
    let stall = Duration::from_secs(8);
    let stuck = Rule::on([Op::Put])
        .key_contains(".pyramid.zarr/")
        .stall(stall);
    served.server.follow([stuck]);
    let run = served.bucket.command("upgrade").start();
    wait_for("a stuck write", || {
        (served.server.fired() > 0).then_some(())
    });
    run.signal("INT");
    std::thread::sleep(Duration::from_millis(500));
    run.signal("INT");
    let output = run.wait();
    assert_document(&output, "upgrade", 130, "interrupted");
    assert!(output.text("/error").contains("lease stays"), "{output:?}");
}
