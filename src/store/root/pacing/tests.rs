use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn lowered(change: Option<Change>) -> Option<usize> {
    match change? {
        Change::Lowered { max_requests, .. } => Some(max_requests),
        Change::Restored { .. } => None,
    }
}

#[test]
fn one_key_that_is_throttled_leaves_the_cap_alone() {
    let mut cap = Cap::new(64);
    for _ in 0..100 {
        assert_eq!(cap.throttled("a", 0), None);
    }
    assert_eq!(cap.now, 64);
}

#[test]
fn a_second_key_halves_the_cap_once_a_round() {
    let mut cap = Cap::new(64);
    cap.throttled("a", 0);
    assert_eq!(lowered(cap.throttled("b", 0)), Some(32));
    // These were under way when it was lowered.
    for key in ["c", "d", "e", "f"] {
        assert_eq!(cap.throttled(key, 0), None);
    }
    cap.throttled("g", 1);
    assert_eq!(lowered(cap.throttled("h", 1)), Some(16));
}

#[test]
fn a_round_without_throttling_forgets_the_key() {
    let mut cap = Cap::new(4);
    cap.throttled("a", 0);
    for _ in 0..4 {
        cap.answered();
    }
    assert_eq!(cap.throttled("b", 0), None);
}

#[test]
fn it_grows_back_slowly_and_says_when_it_is_back() {
    let mut cap = Cap::new(64);
    cap.throttled("a", 0);
    cap.throttled("b", 0);
    let mut answers = 0;
    let restored = loop {
        answers += 1;
        if let Some(change) = cap.answered() {
            break change;
        }
    };
    assert_eq!(restored, Change::Restored { max_requests: 64 });
    // Sixteen steps of two, each after as many answers as may be under way.
    assert_eq!(answers, (32..64).step_by(2).sum::<usize>());
    assert!((0..1000).all(|_| cap.answered().is_none()));
}

proptest! {
    /// Whatever the answers, the cap is at least 1, at most what it began with, only ever
    /// halved, and told whenever it is lowered.
    #[test]
    fn the_cap_stays_within_its_bounds(
        full in 1usize..300,
        answers in prop::collection::vec((0u8..6, 0u64..3), 1..400),
    ) {
        let mut cap = Cap::new(full);
        for (key, late) in answers {
            let (before, round) = (cap.now, cap.round.saturating_sub(late));
            let change = match key {
                0 | 1 => cap.throttled(&key.to_string(), round),
                2 => cap.throttled("2", round),
                _ => cap.answered(),
            };
            prop_assert!(cap.now >= 1 && cap.now <= full);
            prop_assert_eq!(cap.now < before, lowered(change).is_some());
            prop_assert!(cap.now >= before || cap.now == (before / 2).max(1));
            prop_assert!(cap.least <= cap.now);
        }
    }
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_the_cap_allows() {
    let pacing = Arc::new(Pacing::new(3, None));
    let (now, most) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let requests = (0..40).map(|_| {
        let (pacing, now, most) = (pacing.clone(), now.clone(), most.clone());
        tokio::spawn(async move {
            let turn = pacing.turn().await;
            {
                let mut now = now.lock().unwrap();
                *now += 1;
                let mut most = most.lock().unwrap();
                *most = (*most).max(*now);
            }
            tokio::task::yield_now().await;
            *now.lock().unwrap() -= 1;
            turn.answered();
        })
    });
    for request in requests.collect::<Vec<_>>() {
        request.await.unwrap();
    }
    assert_eq!(*most.lock().unwrap(), 3);
}

#[tokio::test]
async fn a_turn_that_is_dropped_is_given_back() {
    let pacing = Pacing::new(1, None);
    let turn = pacing.turn().await;
    let waited = tokio::time::timeout(Duration::from_millis(10), pacing.turn()).await;
    assert!(waited.is_err());
    drop(turn);
    pacing.turn().await.answered();
}

#[tokio::test]
async fn changes_are_heard() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = {
        let heard = heard.clone();
        move |change| heard.lock().unwrap().push(change)
    };
    let pacing = Pacing::new(2, Some(Arc::new(listener)));
    for key in ["a", "b"] {
        pacing.turn().await.throttled(key);
    }
    assert_eq!(pacing.least(), Some(1));
    pacing.turn().await.answered();
    let (key, max_requests) = ("b".to_owned(), 1);
    let lowered = Change::Lowered { key, max_requests };
    let restored = Change::Restored { max_requests: 2 };
    assert_eq!(*heard.lock().unwrap(), [lowered, restored]);
}
