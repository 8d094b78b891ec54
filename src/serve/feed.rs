//! The events of one run, for any number of followers: the last so many of them, numbered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// One event as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbered {
    pub id: u64,
    pub name: Arc<str>,
    pub json: Arc<str>,
}

/// The events of one run. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Feed(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kept: usize,
    ring: Mutex<Ring>,
    /// The number of the next event, and whether there will be one.
    news: watch::Sender<(u64, bool)>,
}

#[derive(Debug, Default)]
struct Ring {
    next: u64,
    events: VecDeque<Numbered>,
}

/// What a follower gets who has seen everything before a number.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// How many events are gone that it has not seen.
    pub missed: u64,
    pub events: Vec<Numbered>,
    /// What it has seen everything before, after this.
    pub next: u64,
}

impl Feed {
    pub(super) fn new(kept: usize) -> Self {
        Self(Arc::new(Inner {
            kept,
            ring: Mutex::default(),
            news: watch::Sender::new((0, false)),
        }))
    }

    /// Adds an event; the oldest goes when there are too many.
    pub(super) fn push(&self, name: &str, json: &str) {
        let mut ring = self.ring();
        let id = ring.next;
        ring.next += 1;
        ring.events.push_back(Numbered {
            id,
            name: name.into(),
            json: json.into(),
        });
        if ring.events.len() > self.0.kept {
            ring.events.pop_front();
        }
        let next = ring.next;
        drop(ring);
        self.0.news.send_modify(|news| news.0 = next);
    }

    /// Says that nothing follows.
    pub(super) fn end(&self) {
        self.0.news.send_modify(|news| news.1 = true);
    }

    /// Up to `most` events from the number `next` on.
    pub(super) fn from(&self, next: u64, most: usize) -> Batch {
        let ring = self.ring();
        let first = ring.events.front().map_or(ring.next, |event| event.id);
        let from = next.clamp(first, ring.next);
        let skipped = usize::try_from(from - first).unwrap_or(usize::MAX);
        let events: Vec<Numbered> = ring
            .events
            .iter()
            .skip(skipped)
            .take(most)
            .cloned()
            .collect();
        Batch {
            missed: from.saturating_sub(next),
            next: from + events.len() as u64,
            events,
        }
    }

    /// Waits until there is an event of the number `next`; `false` when there never will be.
    pub(super) async fn wait(&self, next: u64) -> bool {
        let mut news = self.0.news.subscribe();
        let news = news.wait_for(|(known, over)| *known > next || *over).await;
        news.is_ok_and(|news| news.0 > next)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // The ring is whole after every change, so a panic elsewhere does not spoil it.
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(batch: &Batch) -> Vec<u64> {
        batch.events.iter().map(|event| event.id).collect()
    }

    #[test]
    fn a_follower_who_is_behind_is_told_how_much_it_missed() {
        let feed = Feed::new(3);
        for n in 0..5 {
            feed.push("progress", &n.to_string());
        }
        let batch = feed.from(0, 2);
        assert_eq!((batch.missed, ids(&batch), batch.next), (2, vec![2, 3], 4));
        let batch = feed.from(4, 2);
        assert_eq!((batch.missed, ids(&batch), batch.next), (0, vec![4], 5));
        let ahead = feed.from(99, 2);
        assert_eq!((ahead.missed, ids(&ahead), ahead.next), (0, vec![], 5));
    }

    #[tokio::test]
    async fn a_follower_waits_for_news_and_hears_of_the_end() {
        let feed = Feed::new(3);
        let waiting = tokio::spawn({
            let feed = feed.clone();
            async move { feed.wait(0).await }
        });
        feed.push("progress", "{}");
        assert!(waiting.await.unwrap());
        feed.end();
        assert!(
            feed.wait(0).await,
            "what was told before the end can be had"
        );
        assert!(!feed.wait(1).await);
    }
}
