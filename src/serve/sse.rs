//! The events of a run as server-sent events.

use std::sync::atomic::Ordering;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::Bytes;
use futures::Stream;

use super::feed::Feed;
use super::runs::Runs;

/// Events in one piece of the answer: what a follower that does not read holds on to.
const BATCH: usize = 64;

/// Time after which a comment shows that the connection is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Follows a run from event number `next` on. An answer that nobody reads is not gone on
/// with: what it falls behind by is dropped from the ring, and told as `missed`.
pub(super) fn follow(runs: Runs, feed: Feed, next: u64) -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header(("Cache-Control", "no-store"))
        .insert_header(("X-Accel-Buffering", "no"))
        .streaming(events(runs, feed, next))
}

fn events(
    runs: Runs,
    feed: Feed,
    mut next: u64,
) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
    async_stream::stream! {
        let follower = Follower::new(runs);
        loop {
            let batch = feed.from(next, BATCH);
            let mut text = String::new();
            if batch.missed > 0 {
                follower.missed(batch.missed);
                let missed = batch.missed;
                text.push_str(&format!("event: missed\ndata: {{\"event\":\"missed\",\"events\":{missed}}}\n\n"));
            }
            for event in &batch.events {
                text.push_str(&format!("id: {}\nevent: {}\ndata: {}\n\n", event.id, event.name, event.json));
            }
            next = batch.next;
            if !text.is_empty() {
                yield Ok(Bytes::from(text));
                continue;
            }
            match tokio::time::timeout(KEEP_ALIVE, feed.wait(next)).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => yield Ok(Bytes::from_static(b": alive\n\n")),
            }
        }
    }
}

/// One that is connected.
struct Follower(Runs);

impl Follower {
    fn new(runs: Runs) -> Self {
        runs.counters().followers.fetch_add(1, Ordering::Relaxed);
        Self(runs)
    }

    fn missed(&self, events: u64) {
        self.0
            .counters()
            .missed
            .fetch_add(events, Ordering::Relaxed);
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.counters().followers.fetch_sub(1, Ordering::Relaxed);
    }
}
