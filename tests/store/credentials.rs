//! Credentials that end in the middle of a run: one abort, and the next run goes on. And
//! what the program prints of credentials, which is nothing.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::binary::Zagg;
use crate::common::cases::{Case, Law, MANIFEST};
use crate::common::compare::compare;
use crate::common::faults::{Failure, FaultStore, Op, Rule};
use crate::common::library::{LEASE, in_memory, run, scripted, settings, start, tree_in};
use crate::common::many::Many;
use crate::common::stores::differences;
use futures::StreamExt;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use zagg_stream::{Ending, Event, FaultKind, Report};

async fn watched(store: &FaultStore, toml: &str) -> (Report, Vec<String>) {
    let handle = start(Arc::new(store.clone()), settings(toml)).await;
    let events = handle.events().filter_map(|event| async {
        match event {
            Event::Aborted { reason } => Some(reason),
            _ => None,
        }
    });
    let (report, aborts) = tokio::join!(handle.join(), events.collect());
    (report.unwrap(), aborts)
}

/// From the write of this number on, no request is served any more.
fn expire_at_write(nth: u64) -> ([Rule; 2], Arc<AtomicU64>) {
    let writes = Arc::new(AtomicU64::new(0));
    let refused = Arc::new(AtomicU64::new(0));
    let (seen, bites) = (writes.clone(), refused.clone());
    let count = Rule::on([Op::Put]).key(move |_| {
        seen.fetch_add(1, Ordering::SeqCst);
        true
    });
    let refuse = Rule::on(Op::ALL).key(move |_| {
        let expired = writes.load(Ordering::SeqCst) >= nth;
        bites.fetch_add(u64::from(expired), Ordering::SeqCst);
        expired
    });
    ([count, refuse.fail(Failure::Expired)], refused)
}

#[tokio::test]
async fn credentials_that_expire_at_half_time_end_the_run_once_and_the_next_one_finishes() {
    let case = Case::load("windowed");
    let tree = case.declared(Law::Boundary);
    let clean = scripted(&tree, []).await;
    let whole = run(Arc::new(clean.clone()), settings("max_in_flight = 2")).await;
    let num_leaves = whole.counts.written;
    assert!(num_leaves >= 4, "{:?}", whole.counts);

    let inner = in_memory(&tree).await;
    let (rules, refused) = expire_at_write(clean.calls(Op::Put) / 2);
    let store = FaultStore::new(inner.clone(), rules);
    let (report, aborts) = watched(&store, "max_in_flight = 2").await;
    assert!(refused.load(Ordering::SeqCst) > 0);
    assert_eq!((report.outcome, report.exit_code), (Ending::Aborted, 4));
    let counts = report.counts;
    assert!(counts.written >= 1, "{counts:?}");
    assert_eq!(counts.failed, 1, "those that follow are no news");
    assert_eq!(report.failed_leaves[0].kind, FaultKind::ExpiredCredentials);
    let accounted = counts.written + counts.failed + counts.not_attempted;
    assert_eq!(accounted, num_leaves);
    let error = report.error.unwrap();
    assert_eq!(aborts, [error.as_str()]);
    let left = num_leaves - counts.written - 1;
    for says in [
        "stopped because the credentials expired: could not ",
        "the store answered 400 Bad Request: ExpiredToken, by script; renew",
        &format!(
            "of the leaves, {} were written, 0 current, 1 failed and {left} are left",
            counts.written
        ),
        "what is written is complete, run the same command again to go on",
    ] {
        assert!(error.contains(says), "`{says}` is not in `{error}`");
    }

    // It could not be given back; somebody releases it.
    inner.delete(&Path::from(LEASE)).await.unwrap();
    let stopped = tree_in(&*inner).await;
    let resumed = run(inner.clone(), settings("")).await;
    assert_eq!(resumed.outcome, Ending::Done, "{resumed:?}");
    assert_eq!(resumed.counts.current, counts.written);
    assert_eq!(resumed.counts.written, num_leaves - counts.written);
    let after = tree_in(&*inner).await;
    assert_eq!(
        compare(&case.expected(Law::Boundary), &after),
        Vec::<String>::new()
    );
    for before in [&tree, &stopped] {
        let changed = differences(before, &after);
        let leaves = changed.iter().filter(|line| !line.starts_with("new: "));
        let of_leaves = leaves.filter(|line| !line.contains(".pyramid."));
        assert_eq!(of_leaves.count(), 0, "{changed:?}");
    }
}

#[tokio::test]
async fn leaves_refused_while_the_store_is_asked_whether_it_refuses_all_are_no_failures() {
    let many = Many::leaves(40);
    let of_a_leaf = |key: &str| key.contains(".zarr/6/") && !key.contains(".pyramid.zarr/");
    let leaves = Rule::on([Op::Get, Op::GetRanges]).key(of_a_leaf);
    // It is read at the start and by the examination of the store.
    let manifest = || Rule::on([Op::Get]).key(|key| key == MANIFEST).from(3);
    let store = scripted(
        &many.tree,
        [
            leaves.fail(Failure::Expired),
            // The answer to the probe comes when every leaf in flight has failed.
            manifest().stall(Duration::from_millis(300)),
            manifest().fail(Failure::Expired),
        ],
    )
    .await;
    let (report, aborts) = watched(&store, "max_in_flight = 16\nabort_after = 1000").await;
    let refused =
        store.calls_where(Op::Get, of_a_leaf) + store.calls_where(Op::GetRanges, of_a_leaf);
    assert!(refused > 1, "{refused}");
    assert_eq!(store.calls_of(Op::Get, MANIFEST), 3, "probed once");
    assert_eq!(aborts.len(), 1);
    assert_eq!(report.exit_code, 4);
    assert_eq!((report.counts.failed, report.counts.not_attempted), (1, 39));
}

/// A store that refuses every signature and, as S3 does, quotes what was signed.
fn quoting_store() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<_> = lines
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let body = format!(
                "<Error><Code>SignatureDoesNotMatch</Code><Message>The request signature we calculated does not match.</Message><CanonicalRequest>{}</CanonicalRequest></Error>",
                head.join("\n")
            );
            let answer = format!(
                "HTTP/1.1 403 Forbidden\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
fn nothing_the_program_prints_holds_a_secret() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    std::fs::write(
        home.path().join(".aws/credentials"),
        "[own]\naws_access_key_id = AKID\naws_secret_access_key = hunter2\naws_session_token = hunter3\n",
    )
    .unwrap();
    let url = quoting_store();
    for (command, args, code) in [
        ("plan", &[][..], 3),
        ("backfill", &[], 4),
        ("verify", &["--json"], 4),
    ] {
        let output = Zagg::new(command)
            .arg("s3://bucket/hive")
            .args(args)
            .args(&["--log-level", "trace"])
            .env("HOME", home.path().to_str().unwrap())
            .env("AWS_PROFILE", "own")
            .env("AWS_ENDPOINT_URL", &url)
            .run();
        assert_eq!(output.code, Some(code), "{output:?}");
        let printed = format!("{}{}", output.stdout, output.stderr);
        assert!(printed.contains("SignatureDoesNotMatch"), "{printed}");
        assert!(
            printed.contains("the secret key does not belong"),
            "{printed}"
        );
        assert!(!printed.contains("hunter"), "{printed}");
    }
}

#[test]
fn a_profile_that_is_left_to_the_aws_command_line_refuses_the_run() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    std::fs::write(
        home.path().join(".aws/config"),
        "[profile corp]\nsso_session = corp\n",
    )
    .unwrap();
    let output = Zagg::new("upgrade")
        .arg("s3://bucket/hive")
        .env("HOME", home.path().to_str().unwrap())
        .env("AWS_PROFILE", "corp")
        .run();
    assert_eq!(output.code, Some(3), "{output:?}");
    let cure = "eval \"$(aws configure export-credentials --profile corp --format env)\"";
    assert!(output.stderr.contains(cure), "{output:?}");
}
