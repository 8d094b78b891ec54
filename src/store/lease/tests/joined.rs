//! A lease of another process, as a member of its run sees it.

use super::*;
use crate::store::lease::joined::{Membership, Sight, join, observe};

const TTL_S: u64 = 60;

/// A member of the run `them`, and what it takes for being one.
struct Member {
    root: Root,
    clock: Arc<ScriptedClock>,
    part: Held,
    sight: Sight,
    held: Held,
}

async fn beat_of(root: &Root, age_s: i64) {
    root.put(LEASE_KEY, lease("them", age_s)).await.unwrap();
}

/// The part of a member is a lease elsewhere, on the same clock.
async fn part(clock: &Arc<ScriptedClock>) -> Held {
    let claim = Claim {
        ttl_s: 2 * TTL_S,
        ..claim("member")
    };
    let acquired = acquire(&memory(), &claim, clock.clone()).await;
    acquired.unwrap().held
}

/// Of a process that has seen nothing of the lease yet.
fn membership(part: &Held) -> Membership {
    Membership {
        run_id: "them".to_owned(),
        ttl_s: TTL_S,
        part: part.clone(),
        sight: Sight::on_clock("them", part.clock().clone()),
    }
}

impl Member {
    async fn joined() -> Self {
        let (root, clock) = (memory(), clock());
        let part = part(&clock).await;
        beat_of(&root, 10).await;
        let membership = membership(&part);
        let joining = join(&root, &membership);
        let beating = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            beat_of(&root, 9).await;
        };
        let (held, ()) = tokio::join!(joining, beating);
        Self {
            held: held.unwrap(),
            root,
            clock,
            part,
            sight: membership.sight,
        }
    }

    /// Joins for another part.
    async fn again(&self) -> Result<Held, LeaseError> {
        let membership = Membership {
            sight: self.sight.clone(),
            ..membership(&self.part)
        };
        let joining = join(&self.root, &membership);
        tokio::time::timeout(Duration::from_millis(100), joining)
            .await
            .expect("it waits for another beat")
    }
}

#[tokio::test]
async fn one_joins_only_when_it_has_seen_the_heartbeat_move() {
    let (root, clock) = (memory(), clock());
    let part = part(&clock).await;
    beat_of(&root, 0).await;
    let membership = membership(&part);
    let joining = join(&root, &membership);
    let waited = tokio::time::timeout(Duration::from_millis(600), joining).await;
    assert!(
        waited.is_err(),
        "a record that says it is fresh proves nothing"
    );

    clock.advance(TTL_S);
    let stale = join(&root, &membership);
    let clock_goes_on = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        clock.advance(TTL_S);
    };
    let (stale, ()) = tokio::join!(stale, clock_goes_on);
    assert!(matches!(stale, Err(LeaseError::Stale { .. })), "{stale:?}");
}

#[tokio::test]
async fn one_cannot_join_a_run_that_does_not_hold_the_lease() {
    let (root, clock) = (memory(), clock());
    let part = part(&clock).await;
    for standing in [None, Some(lease("others", 0)), Some("{".to_owned())] {
        if let Some(text) = standing {
            root.put(LEASE_KEY, text).await.unwrap();
        }
        let refused = join(&root, &membership(&part)).await;
        assert!(
            matches!(refused, Err(LeaseError::Lost { .. })),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_member_goes_by_what_it_has_seen_since_its_look_before() {
    let member = Member::joined().await;
    assert!(member.held.is_fresh());
    // Seen to have moved between a look now and one after 40 s, so it counts from now.
    assert!(!observe(&member.root, &member.held).await.unwrap());
    member.clock.advance(40);
    beat_of(&member.root, 0).await;
    assert!(observe(&member.root, &member.held).await.unwrap());
    assert_eq!(member.held.silent_for(), Duration::from_secs(40));
    member.clock.advance(19);
    assert!(member.held.is_fresh());
    member.clock.advance(1);
    assert!(!member.held.is_fresh());
    // Too late is too late, also when the coordinator is alive after all.
    beat_of(&member.root, 0).await;
    let stale = observe(&member.root, &member.held).await;
    assert!(matches!(stale, Err(LeaseError::Stale { .. })), "{stale:?}");
}

#[tokio::test]
async fn a_member_of_a_run_that_lost_the_lease_has_lost_it() {
    let member = Member::joined().await;
    member
        .root
        .put(LEASE_KEY, lease("others", 0))
        .await
        .unwrap();
    let lost = observe(&member.root, &member.held).await;
    assert!(matches!(lost, Err(LeaseError::Lost { .. })), "{lost:?}");
    beat_of(&member.root, 0).await;
    assert!(!member.held.is_fresh(), "once lost is lost for good");
}

#[tokio::test]
async fn a_member_must_hold_its_part_too() {
    let member = Member::joined().await;
    member.part.lose(Some("another worker".to_owned()));
    assert!(!member.held.is_fresh());
    let written = member.held.put(&member.root, "x", "y").await;
    assert!(
        matches!(written, Err(LeaseError::Lost { .. })),
        "{written:?}"
    );
    assert!(member.root.get_if_present("x").await.unwrap().is_none());
}

#[tokio::test]
async fn a_member_neither_beats_nor_gives_back() {
    let member = Member::joined().await;
    let before = text(&member.root).await;
    confirm(&member.root, &member.held).await.unwrap();
    let released = give_back(&member.root, &member.held).await.unwrap();
    assert_eq!(released, Released::NotOurs(Some("them".to_owned())));
    assert_eq!(text(&member.root).await, before);
}

#[tokio::test]
async fn a_process_that_has_seen_the_heartbeat_move_joins_again_without_another_beat() {
    let member = Member::joined().await;
    member.clock.advance(40);
    let again = member.again().await.unwrap();
    // It has seen nothing new, so the time that has gone by counts.
    assert_eq!(again.silent_for(), member.held.silent_for());
    member.clock.advance(20);
    assert!(!again.is_fresh());
}

#[tokio::test]
async fn what_was_seen_before_is_worth_nothing_when_the_lease_is_somebody_elses_now() {
    let member = Member::joined().await;
    member
        .root
        .put(LEASE_KEY, lease("others", 0))
        .await
        .unwrap();
    let lost = member.again().await;
    assert!(matches!(lost, Err(LeaseError::Lost { .. })), "{lost:?}");
}

#[tokio::test]
async fn what_was_seen_longer_ago_than_the_ttl_is_worth_nothing() {
    let member = Member::joined().await;
    member.clock.advance(TTL_S);
    let membership = Membership {
        sight: member.sight.clone(),
        ..membership(&member.part)
    };
    let joining = join(&member.root, &membership);
    let waited = tokio::time::timeout(Duration::from_millis(600), joining).await;
    assert!(waited.is_err(), "{waited:?}");
}
