//! Which parts have a worker, as others see it: by the leases of the parts, and by whether
//! they move.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::directory::{ArrayDir, DirectoryError};
use crate::store::root::Entry;

/// What one process has seen of the leases of an array's parts.
#[derive(Debug, Default)]
pub(super) struct Taken {
    seen: HashMap<u32, Sighting>,
}

/// A lease as it stood when it was last looked at.
#[derive(Debug)]
struct Sighting {
    entry: Entry,
    /// When this writing of it was seen first, which is not before it was written.
    since: Instant,
    /// Whether its silence has been told.
    is_told: bool,
}

impl Taken {
    /// Looks at all of them once.
    ///
    /// # Errors
    /// Failed requests.
    pub(super) async fn look(&mut self, array: &ArrayDir) -> Result<(), DirectoryError> {
        let leases = array.leases().await?;
        self.note(leases, Instant::now());
        Ok(())
    }

    fn note(&mut self, leases: Vec<(u32, Entry)>, now: Instant) {
        let mut before = std::mem::take(&mut self.seen);
        for (part, entry) in leases {
            let sighting = match before.remove(&part) {
                Some(known) if known.entry == entry => known,
                _ => Sighting {
                    entry,
                    since: now,
                    is_told: false,
                },
            };
            self.seen.insert(part, sighting);
        }
    }

    /// For how long the lease of a part has been seen to stand still; `None` without one.
    pub(super) fn silent_for(&self, part: u32) -> Option<Duration> {
        self.silent_at(part, Instant::now())
    }

    /// Whether a worker may still write for a part whose lease is good for `ttl`. One whose
    /// lease is gone, or has stood still for so long, goes by it and does not.
    pub(super) fn may_have_worker(&self, part: u32, ttl: Duration) -> bool {
        self.silent_for(part).is_some_and(|silent| silent < ttl)
    }

    /// Parts whose lease has been seen to stand still for so long, each once.
    pub(super) fn fallen_silent(&mut self, since: Duration) -> Vec<u32> {
        let is_news = |(part, seen): (&u32, &mut Sighting)| {
            let is_news = !seen.is_told && seen.since.elapsed() >= since;
            seen.is_told |= is_news;
            is_news.then_some(*part)
        };
        self.seen.iter_mut().filter_map(is_news).collect()
    }

    fn silent_at(&self, part: u32, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.seen.get(&part)?.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(e_tag: &str) -> Entry {
        Entry {
            key: "leases/00007/sweep.lease.json".to_owned(),
            size: 1,
            last_modified: 0,
            e_tag: Some(e_tag.to_owned()),
        }
    }

    #[test]
    fn a_lease_is_silent_since_the_writing_that_stands_was_first_seen() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let mut taken = Taken::default();
        assert_eq!(taken.silent_at(7, start), None);
        taken.note(vec![(7, lease("a"))], start);
        taken.note(vec![(7, lease("a"))], start + 2 * second);
        assert_eq!(taken.silent_at(7, start + 3 * second), Some(3 * second));
        taken.note(vec![(7, lease("b"))], start + 4 * second);
        assert_eq!(taken.silent_at(7, start + 5 * second), Some(second));
        assert_eq!(taken.fallen_silent(second), Vec::<u32>::new());
        assert_eq!(taken.fallen_silent(Duration::ZERO), [7]);
        assert_eq!(
            taken.fallen_silent(Duration::ZERO),
            Vec::<u32>::new(),
            "told once"
        );
        taken.note(Vec::new(), start + 6 * second);
        assert_eq!(taken.silent_at(7, start + 6 * second), None);
    }
}
