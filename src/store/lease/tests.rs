use std::sync::Arc;

use object_store::memory::InMemory;

use super::*;
use crate::store::retry::RetryPolicy;
use crate::time::iso;
use crate::time::testing::ScriptedClock;

mod claims;
mod joined;
mod lost;
mod odd;

const NOW: u64 = 1_786_233_600;

fn memory() -> Root {
    Root::new(Arc::new(InMemory::new()), "memory://hive").with_retry(RetryPolicy::immediate(3))
}

fn clock() -> Arc<ScriptedClock> {
    Arc::new(ScriptedClock::at(NOW))
}

fn claim(run_id: &str) -> Claim {
    Claim {
        settle: Duration::from_millis(50),
        ..Claim::new(run_id)
    }
}

fn lease(run_id: &str, heartbeat_age_s: i64) -> String {
    let beat = iso(NOW as i64 - heartbeat_age_s);
    format!(
        r#"{{"spec":"zagg-sweep-lease/1","run_id":"{run_id}","scope":null,"acquired_at":"{beat}","heartbeat_at":"{beat}","ttl_s":900}}"#
    )
}

async fn text(root: &Root) -> String {
    String::from_utf8(root.get(LEASE_KEY).await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn a_lease_is_written_as_the_reference_writes_it() {
    let root = memory();
    acquire(&root, &claim("stage-ü"), clock()).await.unwrap();
    assert_eq!(
        text(&root).await,
        "{\n \"spec\": \"zagg-sweep-lease/1\",\n \"run_id\": \"stage-\\u00fc\",\n \"scope\": null,\n \
         \"acquired_at\": \"2026-08-09T00:00:00+00:00\",\n \"heartbeat_at\": \"2026-08-09T00:00:00+00:00\",\n \
         \"ttl_s\": 900\n}"
    );
    root.put(LEASE_KEY, lease("old", 901)).await.unwrap();
    let scoped = Claim {
        scope: Some(vec!["1".to_owned(), "-3".to_owned()]),
        ..claim("new")
    };
    let got = acquire(&root, &scoped, clock()).await.unwrap();
    assert_eq!(got.claimed_from.as_deref(), Some("old"));
    let text = text(&root).await;
    assert!(
        text.contains("\"scope\": [\n  \"1\",\n  \"-3\"\n ],"),
        "{text}"
    );
    assert!(
        text.ends_with("\"ttl_s\": 900,\n \"claimed_from\": \"old\"\n}"),
        "{text}"
    );
}

#[tokio::test]
async fn acquiring_depends_on_what_stands_there() {
    #[derive(Debug, PartialEq)]
    enum Outcome {
        Fresh,
        From(&'static str),
        Debris,
        Live,
        UnknownSpec,
    }
    let table = [
        (None, Outcome::Fresh),
        (Some(lease("us", 10)), Outcome::Fresh),
        (Some(lease("us", 5_000)), Outcome::Fresh),
        (Some(lease("them", 0)), Outcome::Live),
        (Some(lease("them", 900)), Outcome::Live),
        (Some(lease("them", -60)), Outcome::Live),
        (Some(lease("them", 901)), Outcome::From("them")),
        (Some(String::new()), Outcome::Debris),
        (Some("{\"spec\": \"zagg-sw".to_owned()), Outcome::Debris),
        (Some("[1]".to_owned()), Outcome::Debris),
        (Some("{}".to_owned()), Outcome::UnknownSpec),
        (
            Some(lease("them", 901).replace("lease/1", "lease/2")),
            Outcome::UnknownSpec,
        ),
        (
            Some(lease("them", 0).replace("T00", "?")),
            Outcome::From("them"),
        ),
        (Some(lease("them", 0).replace("900", "0")), Outcome::Live),
        (
            Some(lease("them", 50).replace("900", "49")),
            Outcome::From("them"),
        ),
    ];
    let conditions = [IfMatch::Untried, IfMatch::Honoured, IfMatch::NotHonoured];
    for (on_disk, if_match) in [(true, conditions[0]), (true, conditions[2])]
        .into_iter()
        .chain(conditions.map(|if_match| (false, if_match)))
    {
        for (standing, expected) in &table {
            let dir = tempfile::tempdir().unwrap();
            let root = match on_disk {
                true => Root::open(dir.path().to_str().unwrap()).unwrap(),
                false => memory(),
            };
            if let Some(standing) = standing {
                root.put(LEASE_KEY, standing.clone()).await.unwrap();
            }
            let before = root.get_if_present(LEASE_KEY).await.unwrap();
            let claim = Claim {
                settle: Duration::ZERO,
                if_match,
                ..claim("us")
            };
            let result = acquire(&root, &claim, clock()).await;
            let after = show(&root).await.unwrap();
            let context = format!("{standing:?} on disk {on_disk}, {if_match:?}: {result:?}");
            match expected {
                Outcome::Live => {
                    let error = result.unwrap_err();
                    let message = error.to_string();
                    assert!(matches!(error, LeaseError::Live(_)), "{context}");
                    assert_eq!(error.kind(), FaultKind::LeaseRefused);
                    assert!(
                        message.contains("`them`") && message.contains("900 s"),
                        "{message}"
                    );
                }
                Outcome::UnknownSpec => {
                    assert!(
                        matches!(result, Err(LeaseError::UnknownSpec { .. })),
                        "{context}"
                    );
                }
                Outcome::Fresh | Outcome::Debris => {
                    assert_eq!(result.unwrap().claimed_from, None, "{context}");
                }
                Outcome::From(run_id) => {
                    let got = result.unwrap();
                    assert_eq!(got.claimed_from.as_deref(), Some(*run_id), "{context}");
                }
            }
            match expected {
                Outcome::Live | Outcome::UnknownSpec => {
                    assert_eq!(root.get_if_present(LEASE_KEY).await.unwrap(), before);
                }
                _ => {
                    let Standing::Lease(record) = after else {
                        panic!("{context}");
                    };
                    assert_eq!(record.run_id(), "us");
                    assert_eq!(record.heartbeat_at(), iso(NOW as i64), "{context}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_says_when_to_try_again() {
    let root = memory();
    root.put(LEASE_KEY, lease("them", 60)).await.unwrap();
    let message = acquire(&root, &claim("us"), clock())
        .await
        .unwrap_err()
        .to_string();
    for part in [
        "them",
        "2026-08-08T23:59:00+00:00",
        "900 s",
        "2026-08-09T00:14:01+00:00",
    ] {
        assert!(message.contains(part), "{message} lacks {part}");
    }
}

#[tokio::test]
async fn a_beat_moves_only_the_heartbeat() {
    let (root, clock) = (memory(), clock());
    let held = acquire(&root, &claim("us"), clock.clone())
        .await
        .unwrap()
        .held;
    let before = text(&root).await;
    root.put(LEASE_KEY, before.replace("900\n", "900,\n \"note\": 1.0\n"))
        .await
        .unwrap();
    clock.advance(300);
    beat(&root, &held).await.unwrap();
    assert_eq!(
        text(&root).await,
        before.replace("900\n", "900,\n \"note\": 1.0\n").replace(
            "\"heartbeat_at\": \"2026-08-09T00:00",
            "\"heartbeat_at\": \"2026-08-09T00:05"
        )
    );
    clock.advance(899);
    assert!(held.is_fresh());
    clock.advance(1);
    assert!(!held.is_fresh());
}

#[tokio::test]
async fn a_beat_on_someone_elses_lease_loses_ours() {
    for standing in [Some(lease("them", 0)), Some("debris".to_owned()), None] {
        let root = memory();
        let held = acquire(&root, &claim("us"), clock()).await.unwrap().held;
        match &standing {
            Some(standing) => root.put(LEASE_KEY, standing.clone()).await.unwrap(),
            None => root.delete(LEASE_KEY).await.unwrap(),
        }
        let error = beat(&root, &held).await.unwrap_err();
        assert!(matches!(error, LeaseError::Lost { .. }), "{error}");
        assert_eq!(error.kind(), FaultKind::LeaseLost);
        assert!(!held.is_fresh());
        let after = root.get_if_present(LEASE_KEY).await.unwrap();
        assert_eq!(after, standing.map(Bytes::from));
        // Not even the same lease coming back revives the token.
        root.put(LEASE_KEY, lease("us", 0)).await.unwrap();
        assert!(matches!(
            beat(&root, &held).await,
            Err(LeaseError::Lost { .. })
        ));
        assert!(matches!(
            held.put(&root, "x", "y").await,
            Err(LeaseError::Lost { .. })
        ));
        assert_eq!(root.get_if_present("x").await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_stopped_process_and_a_suspended_machine_both_see_expiry() {
    for suspended in [false, true] {
        let (root, clock) = (memory(), clock());
        let held = acquire(&root, &claim("us"), clock.clone())
            .await
            .unwrap()
            .held;
        let before = text(&root).await;
        match suspended {
            true => clock.suspend(900),
            false => clock.advance(900),
        }
        let error = held.put(&root, "stamp", "x").await.unwrap_err();
        assert!(
            matches!(error, LeaseError::Stale { silent_s: 900, .. }),
            "{error}"
        );
        assert_eq!(error.kind(), FaultKind::LeaseLost);
        assert_eq!(root.get_if_present("stamp").await.unwrap(), None);
        // Neither a beat nor a clock set back makes it fresh again.
        assert!(matches!(
            beat(&root, &held).await,
            Err(LeaseError::Stale { .. })
        ));
        clock.set_back(900);
        assert!(!held.is_fresh());
        assert_eq!(text(&root).await, before);
    }
}

#[tokio::test]
async fn a_wall_clock_set_back_does_not_extend_a_lease() {
    let (root, clock) = (memory(), clock());
    let held = acquire(&root, &claim("us"), clock.clone())
        .await
        .unwrap()
        .held;
    clock.set_back(3_600);
    clock.advance(899);
    assert!(held.is_fresh());
    clock.advance(1);
    assert!(!held.is_fresh());
}

#[tokio::test]
async fn a_release_takes_only_what_is_ours() {
    let (root, clock) = (memory(), clock());
    let release = async |run_id| release(&root, run_id, &*clock).await.unwrap();
    assert_eq!(release("us").await, Released::Absent);
    acquire(&root, &claim("us"), clock.clone()).await.unwrap();
    assert_eq!(
        release("them").await,
        Released::NotOurs(Some("us".to_owned()))
    );
    assert_eq!(release("us").await, Released::Yes);
    assert_eq!(show(&root).await.unwrap(), Standing::Free);
    for (standing, holder) in [
        ("debris".to_owned(), None),
        (lease("us", 0).replace("lease/1", "lease/2"), None),
        (lease("them", 5_000), Some("them".to_owned())),
    ] {
        root.put(LEASE_KEY, standing.clone()).await.unwrap();
        assert_eq!(release("us").await, Released::NotOurs(holder));
        assert_eq!(text(&root).await, standing);
    }
}

#[tokio::test]
async fn a_lease_that_stands_says_from_when_it_can_be_claimed() {
    let (root, clock) = (memory(), clock());
    let acquired = acquire(&root, &claim("us"), clock.clone()).await.unwrap();
    clock.advance(300);
    beat(&root, &acquired.held).await.unwrap();
    clock.advance(60);
    let told = acquired.held.stands("it is a test");
    for part in [
        "because it is a test",
        "from 2026-08-09T00:20:01+00:00 on",
        "`zagg-stream lease release memory://hive --run-id us`",
    ] {
        assert!(told.contains(part), "{told} lacks {part}");
    }
    // Which is when it can be, and no second earlier.
    clock.advance(300 + 900 - 360);
    assert!(acquire(&root, &claim("them"), clock.clone()).await.is_err());
    clock.advance(1);
    acquire(&root, &claim("them"), clock).await.unwrap();
}
