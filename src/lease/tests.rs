use std::sync::{Arc, mpsc as std_mpsc};

use object_store::memory::InMemory;

use super::*;
use crate::common::faults::{Failure, FaultStore, Op, Rule};
use crate::store::lease::{Claim, LEASE_KEY, Standing, acquire, show};
use crate::time::SystemClock;
use crate::time::testing::ScriptedClock;

const TTL_S: u64 = 900;
const PATIENCE: Duration = Duration::from_secs(20);

fn root() -> Root {
    Root::new(Arc::new(InMemory::new()), "memory://hive")
}

fn pace() -> Pace {
    Pace {
        tick: Duration::from_millis(2),
        ..Pace::for_ttl(Duration::from_secs(TTL_S))
    }
}

async fn held(root: &Root, clock: Arc<ScriptedClock>) -> Held {
    acquire(root, &Claim::new("us"), clock).await.unwrap().held
}

fn keep(root: &Root, held: &Held) -> (BeatThread, std_mpsc::Receiver<BeatEvent>) {
    let (tell, events) = std_mpsc::channel();
    let thread = BeatThread::spawn(root, held.clone(), pace(), move |event| {
        let _ = tell.send(event);
    })
    .unwrap();
    (thread, events)
}

async fn heartbeat(root: &Root) -> String {
    match show(root).await.unwrap() {
        Standing::Lease(record) => record.heartbeat_at().to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_usual_pace_leaves_room_for_two_failed_beats() {
    let pace = Pace::for_ttl(Duration::from_secs(900));
    assert_eq!(pace.every, Duration::from_secs(300));
    assert_eq!(pace.retry, Duration::from_secs(5));
    assert!(pace.every + 2 * pace.timeout + pace.retry < Duration::from_secs(900));
    assert!(pace.tick <= Duration::from_secs(1));
}

#[tokio::test]
async fn beats_land_while_every_other_thread_is_busy() {
    // This test's only executor thread is blocked by the waiting itself.
    let (root, clock) = (root(), Arc::new(ScriptedClock::at(100_000)));
    let held = held(&root, clock.clone()).await;
    let before = heartbeat(&root).await;
    let (_thread, events) = keep(&root, &held);
    for _ in 0..10 {
        clock.advance(300);
        assert!(matches!(
            events.recv_timeout(PATIENCE).unwrap(),
            BeatEvent::Confirmed
        ));
        assert!(held.is_fresh());
    }
    assert_ne!(heartbeat(&root).await, before);
}

#[tokio::test]
async fn no_beat_comes_before_it_is_due() {
    let (root, clock) = (root(), Arc::new(ScriptedClock::at(100_000)));
    let held = held(&root, clock.clone()).await;
    let (_thread, events) = keep(&root, &held);
    clock.advance(299);
    assert!(events.recv_timeout(Duration::from_millis(100)).is_err());
}

#[tokio::test]
async fn a_beat_that_is_asked_for_comes_as_soon_as_it_can_be_seen() {
    let (root, clock) = (root(), Arc::new(ScriptedClock::at(100_000)));
    let held = held(&root, clock.clone()).await;
    let before = heartbeat(&root).await;
    let (_thread, events) = keep(&root, &held);
    held.want_beat();
    // In the same second it would say the same.
    assert!(events.recv_timeout(Duration::from_millis(100)).is_err());
    clock.advance(1);
    assert!(matches!(
        events.recv_timeout(PATIENCE).unwrap(),
        BeatEvent::Confirmed
    ));
    assert_ne!(heartbeat(&root).await, before);
    clock.advance(1);
    assert!(
        events.recv_timeout(Duration::from_millis(100)).is_err(),
        "it was asked for once"
    );
}

#[tokio::test]
async fn a_suspended_machine_finds_its_lease_stale_and_leaves_it_alone() {
    let (root, clock) = (root(), Arc::new(ScriptedClock::at(100_000)));
    let held = held(&root, clock.clone()).await;
    let before = heartbeat(&root).await;
    let (_thread, events) = keep(&root, &held);
    clock.suspend(TTL_S);
    assert!(matches!(
        events.recv_timeout(PATIENCE).unwrap(),
        BeatEvent::Ended(LeaseError::Stale { .. })
    ));
    assert_eq!(heartbeat(&root).await, before);
    clock.set_back(TTL_S);
    assert!(!held.is_fresh());
    assert!(events.recv_timeout(Duration::from_millis(50)).is_err());
}

#[tokio::test]
async fn a_lost_lease_is_told_at_once_and_stays_with_its_new_holder() {
    let (root, clock) = (root(), Arc::new(ScriptedClock::at(100_000)));
    let held = held(&root, clock.clone()).await;
    let (thread, events) = keep(&root, &held);
    root.delete(LEASE_KEY).await.unwrap();
    acquire(&root, &Claim::new("them"), clock.clone())
        .await
        .unwrap();
    clock.advance(300);
    match events.recv_timeout(PATIENCE).unwrap() {
        BeatEvent::Ended(LeaseError::Lost { holder, .. }) => {
            assert_eq!(holder.as_deref(), Some("them"));
        }
        other => panic!("{other:?}"),
    }
    assert!(!held.is_fresh());
    assert_eq!(
        thread.release().await.unwrap(),
        Released::NotOurs(Some("them".to_owned()))
    );
}

#[tokio::test]
async fn a_failed_beat_is_tried_again_soon() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path().to_str().unwrap()).unwrap();
    let clock = Arc::new(ScriptedClock::at(100_000));
    let held = held(&root, clock.clone()).await;
    let (_thread, events) = keep(&root, &held);
    // A lease that cannot be read: a loop of links gives an error of its own.
    let (path, aside) = (dir.path().join(LEASE_KEY), dir.path().join("aside"));
    std::fs::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink(&path, &path).unwrap();
    clock.advance(300);
    assert!(matches!(
        events.recv_timeout(PATIENCE).unwrap(),
        BeatEvent::Failed(LeaseError::Store(_))
    ));
    assert!(held.is_fresh());
    std::fs::rename(&aside, &path).unwrap();
    clock.advance(5);
    loop {
        match events.recv_timeout(PATIENCE).unwrap() {
            BeatEvent::Failed(_) => clock.advance(5),
            BeatEvent::Confirmed => break,
            BeatEvent::Ended(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_release_deletes_and_a_drop_does_not() {
    let (root, clock) = (root(), Arc::new(ScriptedClock::at(100_000)));
    let held = held(&root, clock.clone()).await;
    drop(keep(&root, &held));
    assert!(matches!(show(&root).await.unwrap(), Standing::Lease(_)));
    let (thread, _events) = keep(&root, &held);
    assert_eq!(thread.release().await.unwrap(), Released::Yes);
    assert_eq!(show(&root).await.unwrap(), Standing::Free);
}

#[tokio::test]
async fn a_panic_in_the_receiver_does_not_stop_the_beats() {
    let (root, clock) = (root(), Arc::new(ScriptedClock::at(100_000)));
    let held = held(&root, clock.clone()).await;
    let (tell, events) = std_mpsc::channel();
    let _thread = BeatThread::spawn(&root, held, pace(), move |_| {
        let _ = tell.send(());
        panic!("receiver");
    })
    .unwrap();
    for _ in 0..2 {
        clock.advance(300);
        events.recv_timeout(PATIENCE).unwrap();
    }
}

#[tokio::test]
async fn the_real_clock_keeps_a_short_lease_alive() {
    let root = root();
    let claim = Claim {
        ttl_s: 1,
        ..Claim::new("us")
    };
    let held = acquire(&root, &claim, Arc::new(SystemClock::new()))
        .await
        .unwrap()
        .held;
    let pace = Pace {
        every: Duration::from_millis(100),
        ..Pace::for_ttl(held.ttl())
    };
    let thread = BeatThread::spawn(&root, held.clone(), pace, |_| {}).unwrap();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(held.is_fresh());
    drop(thread);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert!(!held.is_fresh());
}

/// A keeper over a store that answers by this script.
async fn keep_over(
    rules: impl IntoIterator<Item = Rule>,
    clock: Arc<ScriptedClock>,
) -> (FaultStore, Held, BeatThread, std_mpsc::Receiver<BeatEvent>) {
    let store = FaultStore::new(Arc::new(InMemory::new()), rules);
    let root = Root::new(Arc::new(store.clone()), "memory://hive");
    let root = root.with_retry(RetryPolicy::immediate(3));
    let held = held(&root, clock).await;
    let (thread, events) = keep(&root, &held);
    (store, held, thread, events)
}

#[tokio::test]
async fn after_two_failed_beats_a_run_goes_on() {
    let clock = Arc::new(ScriptedClock::at(100_000));
    // One cannot be read, one cannot be written.
    let read = Rule::on([Op::Get]).key(|key| key == LEASE_KEY).nth(1);
    let write = Rule::on([Op::Put]).key(|key| key == LEASE_KEY).nth(2);
    let faults = [read, write].map(|rule| rule.fail(Failure::Status(503)));
    let (store, held, _thread, events) = keep_over(faults, clock.clone()).await;
    clock.advance(300);
    for failed in 1..=2 {
        assert!(matches!(
            events.recv_timeout(PATIENCE).unwrap(),
            BeatEvent::Failed(LeaseError::Store(_))
        ));
        assert_eq!(store.fired(), failed);
        assert!(held.is_fresh());
        clock.advance(5);
    }
    let third = events.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(third, BeatEvent::Confirmed), "{third:?}");
    assert!(held.silent_for() < Duration::from_secs(10));
    // For as long as any other: the ttl from the beat that was confirmed.
    clock.advance(299);
    assert!(held.is_fresh());
}

#[tokio::test]
async fn when_every_beat_fails_nothing_is_written_past_the_ttl() {
    for op in [Op::Get, Op::Put] {
        let clock = Arc::new(ScriptedClock::at(100_000));
        let acquired = if op == Op::Put { 2 } else { 1 };
        let beats = Rule::on([op]).key(|key| key == LEASE_KEY).from(acquired);
        let beats = beats.fail(Failure::Status(503));
        let (store, held, thread, events) = keep_over([beats], clock.clone()).await;
        let root = Root::new(store.unspoilt(), "memory://hive");
        clock.advance(300);
        let mut failed = 0;
        while failed < 10 {
            match events.recv_timeout(PATIENCE).unwrap() {
                BeatEvent::Failed(_) => failed += 1,
                other => panic!("{op:?}: {other:?}"),
            }
            held.put(&root, "stamp", format!("{failed}")).await.unwrap();
            clock.advance(5);
        }
        assert!(store.fired() >= failed);
        // The last moment at which it may write, and the first at which it may not.
        clock.advance(TTL_S - 1 - 350);
        held.put(&root, "stamp", "last").await.unwrap();
        clock.advance(1);
        let error = held.put(&root, "stamp", "late").await.unwrap_err();
        assert!(matches!(error, LeaseError::Stale { .. }), "{error}");
        assert_eq!(root.get("stamp").await.unwrap(), "last");
        let ended = events
            .iter()
            .find(|event| matches!(event, BeatEvent::Ended(_)));
        let Some(BeatEvent::Ended(LeaseError::Stale { silent_s, .. })) = ended else {
            panic!("{op:?}: {ended:?}");
        };
        assert_eq!(silent_s, TTL_S);
        assert!(thread.release().await.is_err());
        assert!(
            held.stands("of a test")
                .contains("1970-01-02T04:01:41+00:00")
        );
    }
}
