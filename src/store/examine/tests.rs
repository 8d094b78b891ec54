use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::Ordering;

use futures::StreamExt;
use object_store::memory::InMemory;
use object_store::{ObjectMeta, ObjectStore};

use self::odd::{OddStore, Oddity, odd};
use super::trial::skew;
use super::*;
use crate::error::FaultKind;
use crate::report::Ending;
use crate::store::root::Tally;
use crate::store::{RetryPolicy, Touched};
use crate::time::{Moment, SystemClock};

mod odd;

const TTL: Duration = Duration::from_secs(900);

const WRITER: Writer<'static> = Writer {
    run_id: "zagg-stream-1",
    lease_ttl: TTL,
};

const WRITING: Mode<'static> = Mode::Writing(WRITER);

async fn keys(store: &OddStore) -> Vec<String> {
    let listed: Vec<_> = store.inner.list(None).collect().await;
    let key = |meta: object_store::Result<ObjectMeta>| meta.unwrap().location.to_string();
    listed.into_iter().map(key).collect()
}

fn writes(tally: Tally) -> u64 {
    tally.put + tally.delete
}

#[tokio::test]
async fn a_good_store_can_do_everything() {
    let (root, store) = odd(Oddity::None).await;
    let found = examine(&root, &SystemClock::new(), WRITING).await.unwrap();
    for (name, ability) in found.abilities() {
        assert_eq!(ability.answer, Answer::Yes, "{name}");
    }
    assert_eq!(found.clock_skew_s, Some(0));
    assert_eq!(keys(&store).await, [MANIFEST_KEY]);
    assert_eq!(
        found.to_string(),
        "list yes; read yes; create yes; replace yes; delete yes; clock as here"
    );
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["create"]["answer"], "yes");
    assert_eq!(json["clock_skew_s"], 0);
}

#[tokio::test]
async fn nothing_is_written_where_nothing_is_to_be() {
    let (root, _) = odd(Oddity::DeniesCreate).await;
    let found = examine(&root, &SystemClock::new(), Mode::ReadOnly)
        .await
        .unwrap();
    assert_eq!(writes(root.tally()), 0);
    assert_eq!(
        (found.list.answer, found.read.answer),
        (Answer::Yes, Answer::Yes)
    );
    for ability in [found.create, found.replace, found.delete] {
        assert_eq!(ability, not_tried("tried when a run begins"));
    }
    assert_eq!(found.clock_skew_s, None);
    assert_eq!(
        serde_json::to_value(&found).unwrap()["delete"]["answer"],
        "not-tried"
    );
    assert_eq!(
        found.to_string(),
        "list yes; read yes; create, replace, delete: tried when a run begins"
    );
}

#[tokio::test]
async fn a_store_that_cannot_is_refused_with_the_risk_and_the_cure() {
    let table = [
        (
            Oddity::DeniesList,
            FaultKind::Denied,
            ["run records", "right to list"],
        ),
        (
            Oddity::DeniesRead,
            FaultKind::Denied,
            [MANIFEST_KEY, "right to read"],
        ),
        (
            Oddity::DeniesCreate,
            FaultKind::Denied,
            ["lease", "right to write"],
        ),
        (
            Oddity::DeniesRewrite,
            FaultKind::Denied,
            ["lease", "right to overwrite"],
        ),
        (
            Oddity::DeniesDelete,
            FaultKind::Denied,
            [".zagg-stream/probe-", "right to delete"],
        ),
        (
            Oddity::IgnoresCreate,
            FaultKind::WriteRefused,
            ["both think they hold", "If-None-Match"],
        ),
        (
            Oddity::LiesAboutCreate,
            FaultKind::WriteRefused,
            ["both think", "If-None-Match"],
        ),
        (
            Oddity::AlwaysExists,
            FaultKind::WriteRefused,
            ["nobody has written", "If-None-Match"],
        ),
        (
            Oddity::NeverRewrites,
            FaultKind::WriteRefused,
            ["kept past its ttl", "If-Match"],
        ),
        (
            Oddity::AheadBy(310),
            FaultKind::LeaseRefused,
            ["s ahead of", "lease_ttl_s"],
        ),
        (
            Oddity::AheadBy(-310),
            FaultKind::LeaseRefused,
            ["s behind", "chronyc"],
        ),
    ];
    for (oddity, kind, says) in table {
        let (root, store) = odd(oddity).await;
        let error = examine(&root, &SystemClock::new(), WRITING)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{oddity:?}: {error}");
        assert_eq!(error.ending(), Ending::Refused, "{oddity:?}");
        let message = error.to_string();
        for part in says {
            assert!(message.contains(part), "{oddity:?}: {message}");
        }
        assert!(message.contains("memory://odd"), "{message}");
        // The scratch object is deleted on every way out, where it can be.
        let left = usize::from(oddity == Oddity::DeniesDelete);
        assert_eq!(keys(&store).await.len(), 1 + left, "{oddity:?}");
    }
}

#[tokio::test]
async fn what_a_run_can_do_without_is_said_and_not_refused() {
    let table = [
        (Oddity::NoRewrite, "no conditional rewrite"),
        (Oddity::IgnoresRewrite, "ignores the condition"),
    ];
    for (oddity, says) in table {
        let (root, _) = odd(oddity).await;
        let found = examine(&root, &SystemClock::new(), WRITING).await.unwrap();
        assert_eq!(found.replace.answer, Answer::No, "{oddity:?}");
        assert!(found.replace.detail.contains(says), "{oddity:?}");
        let line = found.to_string();
        assert!(
            line.contains(&format!("; replace no ({}", found.replace.detail)),
            "{line}"
        );
        assert_eq!(found.clock_warning(), None);
    }
    let (root, _) = odd(Oddity::AheadBy(120)).await;
    let found = examine(&root, &SystemClock::new(), WRITING).await.unwrap();
    // The second may turn between the write and the look.
    assert!((119..=121).contains(&found.clock_skew_s.unwrap()));
    assert!(found.to_string().contains("s ahead of this machine's"));
    let warning = found.clock_warning().unwrap();
    assert!(
        warning.contains("memory://odd") && warning.contains("chronyc"),
        "{warning}"
    );
}

#[tokio::test]
async fn a_store_is_examined_once_for_all_the_steps_of_a_command() {
    let (root, store) = odd(Oddity::AheadBy(120)).await;
    let (examiner, clock) = (Examiner::default(), SystemClock::new());
    let first = examiner
        .before_writing(&root, &clock, WRITER)
        .await
        .unwrap();
    assert_eq!(first.replace.answer, Answer::Yes);
    let puts = store.puts.load(Ordering::SeqCst);
    assert_eq!(u64::from(puts), TRIAL_PUTS);
    assert_eq!(root.tally().get + root.tally().head, 1 + TRIAL_GETS);
    assert_eq!(root.tally().delete, TRIAL_DELETES);
    let other = Writer {
        run_id: "zagg-stream-2",
        ..WRITER
    };
    let again = examiner.clone();
    again.before_writing(&root, &clock, other).await.unwrap();
    assert_eq!(store.puts.load(Ordering::SeqCst), puts);
    // What is known is held against the lease of each step.
    let short = Writer {
        lease_ttl: Duration::from_secs(300),
        ..WRITER
    };
    let error = examiner.before_writing(&root, &clock, short).await;
    assert!(
        matches!(error, Err(ExamineError::Skew { ttl_s: 300, .. })),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_store_that_was_refused_is_examined_again() {
    let (root, _) = odd(Oddity::IgnoresCreate).await;
    let examiner = Examiner::default();
    for _ in 0..2 {
        let before = root.tally().put;
        let clock = SystemClock::new();
        let error = examiner.before_writing(&root, &clock, WRITER).await;
        assert!(
            matches!(error, Err(ExamineError::NotExclusive { .. })),
            "{error:?}"
        );
        assert!(root.tally().put > before);
    }
}

#[tokio::test]
async fn no_note_is_taken_of_a_scratch_object() {
    for oddity in [Oddity::None, Oddity::DeniesDelete] {
        let (root, store) = odd(oddity).await;
        let root = root.journaled();
        let _ = examine(&root, &SystemClock::new(), WRITING).await;
        assert!(store.puts.load(Ordering::SeqCst) > 0);
        assert_eq!(root.touched(), Some(Touched::default()), "{oddity:?}");
    }
}

#[tokio::test]
async fn an_answer_lost_on_the_way_is_no_fault_of_the_store() {
    let (root, store) = odd(Oddity::LosesAnswers).await;
    let found = examine(&root, &SystemClock::new(), WRITING).await.unwrap();
    assert_eq!(found.create.answer, Answer::Yes);
    assert_eq!(keys(&store).await, [MANIFEST_KEY]);
}

#[tokio::test]
async fn a_root_without_a_manifest_is_examined_all_the_same() {
    let root = Root::new(Arc::new(InMemory::new()), "memory://empty");
    let found = examine(&root, &SystemClock::new(), WRITING).await.unwrap();
    assert_eq!(found.read.answer, Answer::NotTried);
    assert!(found.list.detail.contains("empty"));
}

#[tokio::test]
async fn a_local_disk_has_all_but_conditional_rewrites() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(MANIFEST_KEY), "{}").unwrap();
    let root = Root::open(dir.path().to_str().unwrap()).unwrap();
    let found = examine(&root, &SystemClock::new(), WRITING).await.unwrap();
    let no: Vec<_> = found
        .abilities()
        .into_iter()
        .filter(|(_, ability)| ability.answer != Answer::Yes)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(no, ["replace"]);
    assert_eq!(found.clock_skew_s, Some(0));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn an_http_root_is_never_asked_to_write() {
    let root = Root::open("https://127.0.0.1:1/hive").unwrap();
    let error = examine(&root, &SystemClock::new(), WRITING)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), FaultKind::WriteRefused);
    assert!(error.to_string().contains("read-only"), "{error}");
    assert_eq!(root.tally().requests(), 0);
}

/// A web server that answers every GET and nothing else.
fn web_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hive", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap();
            let answer = match request[..read].starts_with(b"GET ") {
                true => "200 OK",
                false => "405 Method Not Allowed",
            };
            let head = "Last-Modified: Tue, 01 Jan 2030 00:00:00 GMT\r\nConnection: close";
            write!(
                stream,
                "HTTP/1.1 {answer}\r\n{head}\r\nContent-Length: 2\r\n\r\n{{}}"
            )
            .unwrap();
        }
    });
    url
}

#[tokio::test]
async fn an_http_root_is_said_to_be_read_only() {
    let root = Root::open(&web_server()).unwrap();
    let root = root.with_retry(RetryPolicy::never());
    let found = examine(&root, &SystemClock::new(), Mode::ReadOnly)
        .await
        .unwrap();
    assert_eq!(found.list, no("the web server lists nothing"));
    assert_eq!(found.read.answer, Answer::Yes);
    assert_eq!(found.create, not_tried("an http root is read-only"));
    assert_eq!(writes(root.tally()), 0);
}

#[test]
fn a_write_within_its_own_seconds_shows_no_skew() {
    let at = |seconds| Moment {
        wall: Duration::from_millis(seconds),
        monotonic: Duration::ZERO,
    };
    let (before, after) = (at(10_900), at(12_100));
    for (modified, expected) in [(9, -1), (10, 0), (11, 0), (12, 0), (13, 1), (112, 100)] {
        assert_eq!(skew(modified, before, after), expected, "{modified}");
    }
}
