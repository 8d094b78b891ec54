//! Who of many gets a lease, and when it may be had at all.

use super::odd::{Fault, Request, odd};
use super::*;

/// Claims at once; the winner's record is what stands.
async fn race(root: &Root, claim: &Claim) {
    const CLAIMANTS: usize = 10;
    let runs = (0..CLAIMANTS).map(|n| {
        let root = root.clone();
        let claim = Claim {
            run_id: format!("run-{n}"),
            ..claim.clone()
        };
        tokio::spawn(async move { acquire(&root, &claim, clock()).await })
    });
    let results = futures::future::join_all(runs).await;
    let results: Vec<_> = results.into_iter().map(Result::unwrap).collect();
    let winners: Vec<_> = results.iter().filter_map(|got| got.as_ref().ok()).collect();
    assert_eq!(winners.len(), 1, "{results:?}");
    assert_eq!(
        show(root).await.unwrap().holder().as_deref(),
        Some(winners[0].held.run_id())
    );
    for lost in results.iter().filter_map(|got| got.as_ref().err()) {
        assert_eq!(lost.kind(), FaultKind::LeaseRefused, "{lost}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_at_once_exactly_one_acquires() {
    for _ in 0..10 {
        race(&memory(), &claim("")).await;
        let dir = tempfile::tempdir().unwrap();
        let disk = Root::open(dir.path().to_str().unwrap()).unwrap();
        race(&disk, &claim("")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_claiming_an_expired_lease_by_one_rewrite_exactly_one_does() {
    for _ in 0..20 {
        let (store, root) = odd(IfMatch::Honoured, []);
        store.put(lease("dead", 5_000)).await;
        let claim = Claim {
            settle: Duration::ZERO,
            if_match: IfMatch::Honoured,
            ..claim("")
        };
        race(&root, &claim).await;
        // There was a lease at every moment.
        assert!(!store.asked().contains(&Request::Delete));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_claiming_an_expired_lease_by_two_requests_exactly_one_does() {
    // Longer than any of these threads may be held up by the others, which counts only where
    // a rewrite is believed whose condition is ignored.
    let claim = Claim {
        settle: Duration::from_millis(500),
        ..claim("")
    };
    let dir = tempfile::tempdir().unwrap();
    let disk = Root::open(dir.path().to_str().unwrap()).unwrap();
    let (store, without) = odd(IfMatch::NotHonoured, []);
    let (_, ignoring) = odd(IfMatch::Untried, []);
    let known = Claim {
        if_match: IfMatch::NotHonoured,
        ..claim.clone()
    };
    for (root, claim) in [
        (&disk, &claim),
        (&disk, &known),
        (&without, &claim),
        (&ignoring, &claim),
        (&ignoring, &known),
    ] {
        let expired = lease("dead", 5_000);
        root.put(LEASE_KEY, expired).await.unwrap();
        race(root, claim).await;
    }
    assert!(store.asked().contains(&Request::Delete));
}

#[tokio::test]
async fn a_claim_asks_only_for_what_the_store_is_known_to_do() {
    use Request::{Create, Delete, Read, Rewrite};
    let by_one = vec![Create, Read, Rewrite, Read, Read];
    // The turn is taken, and ended.
    let by_two = [
        Create, Read, Create, Read, Delete, Create, Read, Read, Delete,
    ];
    let tried = [&[Create, Read, Rewrite], &by_two[2..]].concat();
    let by_two = by_two.to_vec();
    for (can, known, asks) in [
        (IfMatch::Honoured, IfMatch::Honoured, by_one.clone()),
        (IfMatch::Honoured, IfMatch::Untried, by_one),
        (IfMatch::Untried, IfMatch::NotHonoured, by_two.clone()),
        (IfMatch::NotHonoured, IfMatch::NotHonoured, by_two),
        (IfMatch::NotHonoured, IfMatch::Untried, tried),
    ] {
        let (store, root) = odd(can, []);
        store.put(lease("dead", 901)).await;
        let claim = Claim {
            if_match: known,
            ..claim("us")
        };
        let got = acquire(&root, &claim, clock()).await.unwrap();
        assert_eq!(got.claimed_from.as_deref(), Some("dead"));
        assert_eq!(store.asked(), asks, "{can:?}, known as {known:?}");
    }
}

#[tokio::test]
async fn a_claim_that_comes_second_leaves_the_first_alone() {
    let theirs = lease("them", 0);
    let came = || Fault::After(Some(theirs.clone()));
    // While it looks, or right before it acts.
    for (can, known, moment) in [
        (IfMatch::Honoured, IfMatch::Honoured, Request::Rewrite),
        (IfMatch::Honoured, IfMatch::Untried, Request::Rewrite),
        (IfMatch::NotHonoured, IfMatch::Untried, Request::Rewrite),
        (IfMatch::NotHonoured, IfMatch::NotHonoured, Request::Create),
    ] {
        // The first create finds the expired lease, the second takes the turn.
        let first = (Request::Create, Fault::None);
        let (store, root) = odd(can, [first, (moment, came())]);
        store.put(lease("dead", 901)).await;
        let claim = Claim {
            if_match: known,
            ..claim("us")
        };
        let error = acquire(&root, &claim, clock()).await.unwrap_err();
        assert_eq!(store.unmet(), 0, "somebody came first");
        let LeaseError::RaceLost { holder, .. } = error else {
            panic!("{can:?}, known as {known:?}: {error}");
        };
        assert_eq!(holder.as_deref(), Some("them"));
        assert_eq!(text(&root).await, theirs);
    }
}

#[tokio::test]
async fn a_claim_that_is_undone_while_it_settles_is_not_believed() {
    for (if_match, settling_read) in [
        (IfMatch::Honoured, 2),
        (IfMatch::Untried, 2),
        (IfMatch::NotHonoured, 3),
    ] {
        // Reads before it: of what stands there, and once more before a delete.
        let skipped = (0..settling_read).map(|_| (Request::Read, Fault::None));
        let undone = (Request::Read, Fault::After(Some(lease("them", 0))));
        let (store, root) = odd(if_match, skipped.chain([undone]));
        store.put(lease("dead", 901)).await;
        let claim = Claim {
            if_match,
            ..claim("us")
        };
        let error = acquire(&root, &claim, clock()).await.unwrap_err();
        assert_eq!(store.unmet(), 0);
        assert!(matches!(error, LeaseError::RaceLost { .. }), "{error}");
        assert_eq!(text(&root).await, lease("them", 0));
    }
}

#[tokio::test]
async fn a_lease_is_claimable_only_when_it_has_expired_on_both_clocks() {
    // Its heartbeat is so old by this clock, and the store's is so far ahead.
    for (age, skew_s, claimable_after) in [
        (901, 0, None),
        (901, 100, None),
        (901, -1, Some(1)),
        (901, -100, Some(100)),
        (1_000, -100, Some(1)),
        (1_001, -100, None),
        (890, 100, Some(11)),
    ] {
        let (root, clock) = (memory(), clock());
        root.put(LEASE_KEY, lease("them", age)).await.unwrap();
        let claim = Claim {
            settle: Duration::ZERO,
            skew_s,
            ..claim("us")
        };
        let got = acquire(&root, &claim, clock.clone()).await;
        let Some(wait) = claimable_after else {
            got.unwrap();
            continue;
        };
        let error = got.unwrap_err();
        let LeaseError::Live(live) = &error else {
            panic!("{age}, {skew_s}: {error}");
        };
        assert_eq!(live.claimable_at, iso(NOW as i64 + wait), "{age}, {skew_s}");
        clock.advance(wait as u64);
        acquire(&root, &claim, clock).await.unwrap();
    }
}

#[tokio::test]
async fn a_lease_is_held_only_while_it_is_by_both_clocks() {
    for (skew_s, good_for) in [(0, 900), (250, 650), (-250, 900)] {
        let (root, clock) = (memory(), clock());
        let claim = Claim {
            skew_s,
            ..claim("us")
        };
        let held = acquire(&root, &claim, clock.clone()).await.unwrap().held;
        clock.advance(good_for - 1);
        held.put(&root, "stamp", "in time").await.unwrap();
        clock.advance(1);
        held.put(&root, "stamp", "late").await.unwrap_err();
        assert_eq!(root.get("stamp").await.unwrap(), "in time");
        // Somebody whose clock is the store's may claim it no earlier.
        let store = Arc::new(ScriptedClock::at(
            NOW.saturating_add_signed(skew_s) + good_for - 1,
        ));
        let early = acquire(&root, &super::claim("them"), store).await;
        assert!(matches!(early, Err(LeaseError::Live(_))), "{early:?}");
    }
}

#[tokio::test]
async fn a_lease_that_was_restored_with_its_store_is_claimable() {
    // The object is new, by any clock; what it says is old.
    let root = memory();
    root.put(LEASE_KEY, lease("them", 901)).await.unwrap();
    let written = root.last_modified(LEASE_KEY).await.unwrap();
    let clock = Arc::new(ScriptedClock::at(u64::try_from(written).unwrap()));
    let old = lease("them", 0).replace("2026-08-09", "2001-08-09");
    root.put(LEASE_KEY, old).await.unwrap();
    let got = acquire(&root, &claim("us"), clock).await.unwrap();
    assert_eq!(got.claimed_from.as_deref(), Some("them"));
}

#[tokio::test]
async fn a_turn_is_one_claimants_until_it_is_abandoned() {
    let (store, root) = odd(IfMatch::NotHonoured, []);
    let claim = Claim {
        settle: Duration::ZERO,
        if_match: IfMatch::NotHonoured,
        ..claim("us")
    };
    // One that was killed in its turn: its delete never came.
    store.put(lease("dead", 901)).await;
    for _ in 0..4 {
        store.next(Request::Delete, Fault::Lost);
    }
    let killed = Claim {
        run_id: "killed".to_owned(),
        ..claim.clone()
    };
    let error = acquire(&root, &killed, clock()).await.unwrap_err();
    assert_eq!(store.unmet(), 0);
    assert!(error.kind().is_transient(), "{error}");
    let keys = root.list_keys(".zagg-stream").await.unwrap();
    assert_eq!(keys.len(), 1);
    let taken = root.last_modified(&keys[0]).await.unwrap();
    let at = |after: i64| Arc::new(ScriptedClock::at(u64::try_from(taken + after).unwrap()));
    store.put(lease("dead", 0).replace("2026", "2001")).await;
    // It is named after the record, and that is another one by now.
    acquire(&root, &claim, at(1)).await.unwrap();
    root.put(LEASE_KEY, lease("dead", 901)).await.unwrap();
    for (after, holder) in [(0, Some("killed")), (60, Some("killed")), (61, None)] {
        let got = acquire(&root, &claim, at(after)).await;
        match (got, holder) {
            (Err(LeaseError::RaceLost { holder, .. }), Some(_)) => {
                assert_eq!(holder.as_deref(), Some("killed"));
            }
            (Ok(got), None) => assert_eq!(got.claimed_from.as_deref(), Some("dead")),
            (got, _) => panic!("{after}: {got:?}"),
        }
    }
    let left = root.list_keys(".zagg-stream").await.unwrap();
    assert_eq!(left, Vec::<String>::new());
}
