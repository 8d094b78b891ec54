//! Answers that are lost, and requests that meet others on their way: what stands there
//! tells what became of them.

use super::odd::{Fault, Request, odd};
use super::*;

const CONDITIONS: [IfMatch; 2] = [IfMatch::Honoured, IfMatch::NotHonoured];

fn known(run_id: &str, if_match: IfMatch) -> Claim {
    Claim {
        settle: Duration::ZERO,
        if_match,
        ..claim(run_id)
    }
}

#[tokio::test]
async fn an_answer_lost_while_acquiring_is_found_out_by_looking() {
    for fault in [Fault::LostAnswer, Fault::Lost, Fault::Conflict] {
        for (if_match, expired, request) in [
            (IfMatch::Honoured, false, Request::Create),
            (IfMatch::Honoured, true, Request::Create),
            (IfMatch::Honoured, true, Request::Rewrite),
            (IfMatch::NotHonoured, true, Request::Create),
            (IfMatch::NotHonoured, true, Request::Delete),
        ] {
            let (store, root) = odd(if_match, [(request, fault.clone())]);
            if expired {
                store.put(lease("dead", 5_000)).await;
            }
            let got = acquire(&root, &known("us", if_match), clock()).await;
            let context = format!("{fault:?} of {request:?}, {if_match:?}, {expired}: {got:?}");
            let got = got.expect(&context);
            assert_eq!(store.unmet(), 0, "{context}");
            assert_eq!(
                got.claimed_from.as_deref(),
                expired.then_some("dead"),
                "{context}"
            );
            let Standing::Lease(record) = show(&root).await.unwrap() else {
                panic!("{context}");
            };
            assert_eq!(record.run_id(), "us");
            assert_eq!(record.claimed_from(), expired.then_some("dead"));
            assert!(got.held.is_fresh());
        }
    }
}

#[tokio::test]
async fn a_create_that_meets_the_delete_of_its_own_claim_is_tried_again() {
    // The first create finds the expired lease; the second comes too early, twice.
    let early = (Request::Create, Fault::Conflict);
    let (store, root) = odd(
        IfMatch::NotHonoured,
        [(Request::Create, Fault::None), early.clone(), early],
    );
    store.put(lease("dead", 5_000)).await;
    let got = acquire(&root, &known("us", IfMatch::NotHonoured), clock()).await;
    assert_eq!(store.unmet(), 0);
    assert_eq!(got.unwrap().claimed_from.as_deref(), Some("dead"));
    assert!(text(&root).await.contains("\"claimed_from\": \"dead\""));
}

#[tokio::test]
async fn a_create_that_meets_the_delete_of_its_own_claim_yields_to_another() {
    let (store, root) = odd(
        IfMatch::NotHonoured,
        [
            (Request::Create, Fault::None),
            (Request::Create, Fault::After(Some(lease("them", 0)))),
        ],
    );
    store.put(lease("dead", 5_000)).await;
    let got = acquire(&root, &known("us", IfMatch::NotHonoured), clock()).await;
    assert_eq!(store.unmet(), 0);
    assert!(matches!(got, Err(LeaseError::RaceLost { .. })), "{got:?}");
    assert_eq!(text(&root).await, lease("them", 0));
}

#[tokio::test]
async fn a_lost_answer_does_not_hide_a_live_lease() {
    let (store, root) = odd(IfMatch::Honoured, [(Request::Create, Fault::LostAnswer)]);
    store.put(lease("them", 0)).await;
    let got = acquire(&root, &claim("us"), clock()).await;
    assert_eq!(store.unmet(), 0);
    assert!(matches!(got, Err(LeaseError::Live(_))), "{got:?}");
}

#[tokio::test]
async fn a_beat_whose_answer_was_lost_is_confirmed_by_what_stands() {
    for if_match in CONDITIONS {
        let (store, root) = odd(if_match, []);
        let clock = clock();
        let claim = known("us", if_match);
        let held = acquire(&root, &claim, clock.clone()).await.unwrap().held;
        clock.advance(300);
        let (landed, missed) = match if_match {
            IfMatch::NotHonoured => (Request::Write, Request::Write),
            _ => (Request::Rewrite, Request::Rewrite),
        };
        store.next(landed, Fault::LostAnswer);
        beat(&root, &held).await.unwrap();
        assert_eq!(store.unmet(), 0);
        assert_eq!(held.silent_for(), Duration::ZERO);
        // One that did not land confirms nothing, and another may.
        clock.advance(300);
        store.next(missed, Fault::Lost);
        let error = beat(&root, &held).await.unwrap_err();
        assert_eq!(store.unmet(), 0);
        assert!(error.kind().is_transient(), "{error}");
        assert_eq!(held.silent_for(), Duration::from_secs(300));
        assert!(held.is_fresh());
        beat(&root, &held).await.unwrap();
        assert_eq!(held.silent_for(), Duration::ZERO);
    }
}

#[tokio::test]
async fn a_beat_that_another_came_before_has_lost_the_lease() {
    for theirs in [Some(lease("them", 0)), None] {
        let (store, root) = odd(IfMatch::Honoured, []);
        let held = acquire(&root, &claim("us"), clock()).await.unwrap().held;
        store.next(Request::Rewrite, Fault::After(theirs.clone()));
        let error = beat(&root, &held).await.unwrap_err();
        assert_eq!(store.unmet(), 0);
        assert!(matches!(error, LeaseError::Lost { .. }), "{error}");
        assert!(!held.is_fresh());
        let stands = root.get_if_present(LEASE_KEY).await.unwrap();
        assert_eq!(stands, theirs.map(Bytes::from));
    }
}

#[tokio::test]
async fn a_release_shows_that_the_lease_is_ours_before_it_deletes() {
    use Request::{Delete, Read, Rewrite};
    for (if_match, asks) in [
        (IfMatch::Honoured, vec![Read, Rewrite, Delete]),
        (IfMatch::NotHonoured, vec![Read, Delete]),
    ] {
        let (store, root) = odd(if_match, []);
        let claim = known("us", if_match);
        let held = acquire(&root, &claim, clock()).await.unwrap().held;
        store.asked();
        assert_eq!(give_back(&root, &held).await.unwrap(), Released::Yes);
        assert_eq!(store.asked(), asks);
        assert_eq!(show(&root).await.unwrap(), Standing::Free);
    }
}

#[tokio::test]
async fn a_release_never_deletes_what_another_has_claimed_meanwhile() {
    for run_id in ["us", "them"] {
        let (store, root) = odd(IfMatch::Honoured, []);
        let clock = clock();
        let claim = known("us", IfMatch::Honoured);
        let held = acquire(&root, &claim, clock.clone()).await.unwrap().held;
        // After its look the lease expires, and is claimed, or confirmed by us.
        clock.advance(901);
        let meanwhile = lease(run_id, 0);
        store.next(Request::Rewrite, Fault::After(Some(meanwhile.clone())));
        let released = give_back(&root, &held).await.unwrap();
        assert_eq!(store.unmet(), 0);
        if run_id == "us" {
            assert_eq!(released, Released::Yes);
            continue;
        }
        assert_eq!(released, Released::NotOurs(Some("them".to_owned())));
        assert_eq!(text(&root).await, meanwhile);
    }
}

#[tokio::test]
async fn while_it_is_released_nobody_may_claim_a_lease() {
    let (store, root) = odd(IfMatch::Honoured, []);
    let clock = clock();
    let claim = known("us", IfMatch::Honoured);
    let held = acquire(&root, &claim, clock.clone()).await.unwrap().held;
    clock.advance(901);
    // Its delete does not come through, as if it took long.
    for _ in 0..4 {
        store.next(Request::Delete, Fault::Lost);
    }
    let error = give_back(&root, &held).await.unwrap_err();
    assert_eq!(store.unmet(), 0);
    assert!(error.kind().is_transient(), "{error}");
    let them = acquire(&root, &known("them", IfMatch::Honoured), clock).await;
    assert!(matches!(them, Err(LeaseError::Live(_))), "{them:?}");
    // And what is told of it is when it can be.
    let told = held.stands("of a test");
    let LeaseError::Live(live) = them.unwrap_err() else {
        unreachable!();
    };
    assert!(told.contains(&live.claimable_at), "{told}, {live}");
}

#[tokio::test]
async fn a_release_whose_answer_was_lost_is_recognised() {
    for if_match in CONDITIONS {
        for (request, fault) in [
            (Request::Read, Fault::LostAnswer),
            (Request::Rewrite, Fault::LostAnswer),
            (Request::Rewrite, Fault::Lost),
            (Request::Rewrite, Fault::Conflict),
            (Request::Delete, Fault::LostAnswer),
            (Request::Delete, Fault::Lost),
        ] {
            if request == Request::Rewrite && if_match == IfMatch::NotHonoured {
                continue;
            }
            let (store, root) = odd(if_match, []);
            let claim = known("us", if_match);
            let held = acquire(&root, &claim, clock()).await.unwrap().held;
            store.next(request, fault.clone());
            let released = give_back(&root, &held).await.unwrap();
            assert_eq!(store.unmet(), 0);
            assert_eq!(released, Released::Yes, "{request:?} {fault:?}");
            assert_eq!(show(&root).await.unwrap(), Standing::Free);
        }
    }
}

#[tokio::test]
async fn a_release_whose_answer_was_lost_is_not_repeated_on_the_lease_of_another() {
    let (store, root) = odd(IfMatch::Honoured, []);
    let claim = known("us", IfMatch::Honoured);
    let held = acquire(&root, &claim, clock()).await.unwrap().held;
    store.next(Request::Delete, Fault::LostAnswer);
    // The look of the release, and the one after its lost answer.
    store.next(Request::Read, Fault::None);
    store.next(Request::Read, Fault::After(Some(lease("them", 0))));
    assert_eq!(give_back(&root, &held).await.unwrap(), Released::Yes);
    assert_eq!(store.unmet(), 0);
    assert_eq!(text(&root).await, lease("them", 0));
}

#[tokio::test]
async fn a_release_that_is_not_allowed_leaves_the_lease() {
    for request in [Request::Read, Request::Rewrite, Request::Delete] {
        let (store, root) = odd(IfMatch::Honoured, []);
        let claim = known("us", IfMatch::Honoured);
        let held = acquire(&root, &claim, clock()).await.unwrap().held;
        store.next(request, Fault::Denied);
        let error = give_back(&root, &held).await.unwrap_err();
        assert_eq!(store.unmet(), 0);
        assert_eq!(error.kind(), FaultKind::Denied);
        let standing = show(&root).await.unwrap();
        assert_eq!(standing.holder().as_deref(), Some("us"), "{request:?}");
    }
}
