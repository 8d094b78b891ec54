//! What a person sees of a run on a terminal, and what a pipe is sent.

use std::time::Duration;

use crate::common::binary::{Output, Zagg};
use crate::common::bucket::Bucket;
use crate::common::cases::{Case, Law};
use crate::common::faults::{Failure, Op, Rule};
use crate::common::many::Many;
use crate::common::s3::S3Server;
use crate::common::terminal::Terminal;
use serde_json::Value;

/// Below a column.
const COLUMN: &str = ".pyramid.zarr/";

const ROWS: u16 = 30;
const COLS: u16 = 120;

/// Leaves of the store that is watched.
const LEAVES: usize = 40;

/// A store on a server that takes its time to write columns, one leaf of which is broken.
fn slow(name: &str) -> (S3Server, Bucket) {
    let mut many = Many::leaves(LEAVES);
    let chunk = format!("{}/6/h_tdigest/c/0", many.leaves[LEAVES / 2]);
    many.tree.get_mut(&chunk).unwrap().fill(u8::MAX);
    let server = S3Server::start();
    let bucket = server.bucket(name, &many.tree);
    server.follow([slow_writes()]);
    (server, bucket)
}

fn slow_writes() -> Rule {
    let stall = Duration::from_millis(120);
    Rule::on([Op::Put]).key_contains(COLUMN).stall(stall)
}

/// The line of the step and how far it says that it is.
fn done(screen: &str) -> Option<u64> {
    let line = screen.lines().find(|line| line.starts_with("columns ["))?;
    let (_, counts) = line.split_once("] ")?;
    counts.split('/').next()?.trim().parse().ok()
}

#[test]
fn a_person_sees_how_far_it_is_what_is_wrong_and_in_the_end_only_the_result() {
    let (server, bucket) = slow("watched");
    let url = bucket.url();
    let dir = tempfile::tempdir().unwrap();
    let settings = crate::common::fleet::settings_file(
        dir.path(),
        "max_in_flight = 2\nmax_writers = 1\n[retry]\nmax_attempts = 20\ninitial_delay_ms = 20\nmax_delay_ms = 100",
    );
    let args = ["upgrade", &url, "--settings", settings.to_str().unwrap()];
    let terminal = Terminal::run(&args, bucket.options(), ROWS, COLS);

    let screen = terminal.wait("a start", |screen| done(screen).is_some());
    assert!(screen.contains("/40"), "{screen}");
    let screen = terminal.wait("the lease", |screen| {
        screen.contains("lease held, next beat in")
    });
    assert!(screen.contains(" s"), "{screen}");
    let screen = terminal.wait("the middle", |screen| {
        done(screen) > Some(2) && screen.contains("leaves/s") && screen.contains("left")
    });
    for said in ["in flight (", "/s read", "/s written", "memory "] {
        assert!(screen.contains(said), "no `{said}` in\n{screen}");
    }

    // Narrow, and wide again: nothing is left behind of what was drawn before.
    terminal.resize(ROWS, 50);
    let before = done(&terminal.screen());
    terminal.wait("progress when narrow", |screen| done(screen) > before);
    terminal.resize(ROWS, COLS);
    let before = done(&terminal.screen());
    terminal.wait("progress when wide", |screen| done(screen) > before);

    let busy = Rule::on([Op::Put]).key_contains(COLUMN).percent(30, 1);
    server.follow([busy.fail(Failure::Status(503))]);
    terminal.wait("a throttle", |screen| screen.contains("requests at once"));
    server.follow([slow_writes()]);
    let screen = terminal.wait("the failed leaf", |screen| screen.contains("1 failed"));
    assert!(screen.contains("last warning: failed"), "{screen}");
    server.follow([]);

    let sent = terminal.sent();
    let (code, screen) = terminal.end();
    assert_eq!(code, 1, "{screen}");
    assert!(
        !screen.contains("columns ["),
        "the display is left behind\n{screen}"
    );
    assert!(screen.contains("next: "), "{screen}");
    assert!(sent.contains('\u{1b}'), "it was drawn over");
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_gets_lines() {
    let case = Case::load("plain");
    let server = S3Server::start();
    let bucket = server.bucket("dumb", &case.declared(Law::Boundary));
    let mut env = bucket.options().to_vec();
    env.push(("TERM".to_owned(), "dumb".to_owned()));
    let terminal = Terminal::run(&["upgrade", &bucket.url()], &env, ROWS, COLS);
    let sent = terminal.sent();
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(!sent.contains('\u{1b}'), "{sent:?}");
}

fn upgrade(bucket: &Bucket, args: &[&str]) -> Output {
    let upgrade = bucket.environment(Zagg::new("upgrade").arg(bucket.url()));
    upgrade.args(args).run()
}

#[track_caller]
fn assert_clean(text: &str) {
    let controls = text.chars().filter(|c| c.is_control() && *c != '\n');
    assert_eq!(controls.count(), 0, "{text:?}");
}

#[test]
fn pipes_are_sent_lines_and_no_control_characters() {
    let (server, bucket) = slow("piped");
    server.follow([]);
    let output = upgrade(&bucket, &[]).expect_code(1);
    assert_clean(&output.stdout);
    assert_clean(&output.stderr);
    assert!(output.stderr.contains("failed"), "{output:?}");
    assert!(output.stdout.contains("next: "), "{output:?}");

    let quiet = upgrade(&bucket, &["--progress", "bar", "--log-level", "error"]).expect_code(1);
    assert_clean(&quiet.stderr);
}

#[test]
fn progress_is_told_as_json_whatever_is_logged() {
    let case = Case::load("windowed");
    let server = S3Server::start();
    let bucket = server.bucket("json", &case.declared(Law::Boundary));
    let output = upgrade(&bucket, &["--progress", "json", "--log-level", "off"]).expect_code(0);
    let events: Vec<Value> = output
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<&str> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    for step in [
        "listing", "columns", "ladder", "finisher", "verify", "receipt",
    ] {
        let of_step = |name: &str| {
            let is_it = |event: &&Value| event["event"] == name && event["step"] == step;
            events.iter().filter(is_it).count()
        };
        assert_eq!(
            (of_step("step-started"), of_step("step-ended")),
            (1, 1),
            "{step}: {names:?}"
        );
        assert!(of_step("progress") > 0, "{step}");
    }
    assert!(
        names.contains(&"lease-held") && names.contains(&"lease-given-back"),
        "{names:?}"
    );
    let none = upgrade(&bucket, &["--progress", "none", "--log-level", "off"]).expect_code(0);
    assert_eq!(none.stderr, "");
}

#[test]
fn the_log_can_be_json_beside_any_progress() {
    let case = Case::load("plain");
    let server = S3Server::start();
    let bucket = server.bucket("log", &case.declared(Law::Boundary));
    let output = upgrade(&bucket, &["--log-format", "json", "--log-level", "info"]).expect_code(0);
    assert!(output.stderr.lines().count() > 2, "{output:?}");
    for line in output.stderr.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert!(event["level"].is_string(), "{line}");
    }
}
