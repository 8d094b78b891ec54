//! What a worker tells on its way: its report, written again and again.

use std::time::Instant;

use super::directory::report_key;
use super::part_report::PartEnded;
use super::worker::Worker;
use crate::messages::{Event, Progress};
use crate::report::Report;
use crate::store::lease::Held;
use crate::watch::Elsewhere;

/// The report of a worker, as it grows.
pub(super) struct Telling<'a> {
    worker: &'a Worker,
    part: &'a Held,
    began: Instant,
    so_far: Elsewhere,
}

impl<'a> Telling<'a> {
    pub(super) fn new(worker: &'a Worker, part: &'a Held) -> Self {
        Self {
            worker,
            part,
            began: Instant::now(),
            so_far: Elsewhere::default(),
        }
    }

    pub(super) fn note(&mut self, event: &Event) {
        if let Event::Progress(progress) = event {
            let Progress {
                done,
                written,
                failed,
                in_flight,
                in_flight_bytes,
                bytes_read,
                bytes_written,
                requests,
                ..
            } = *progress;
            self.so_far = Elsewhere {
                done,
                written,
                failed,
                in_flight,
                in_flight_bytes,
                bytes_read,
                bytes_written,
                requests,
            };
        }
    }

    /// Takes the numbers of the end, which no event need have brought.
    pub(super) fn count(&mut self, report: &Report) {
        let ladder = report.ladder.as_ref();
        let counts = ladder.map_or(report.counts, |ladder| ladder.counts);
        let ended = counts.written + counts.current + counts.empty + counts.failed;
        self.so_far = Elsewhere {
            done: ended,
            written: counts.written,
            failed: counts.failed,
            in_flight: 0,
            in_flight_bytes: 0,
            bytes_read: report.requests.bytes_read,
            bytes_written: report.requests.bytes_written,
            requests: report.requests.requests(),
        };
    }

    /// Takes everything for done.
    pub(super) fn count_all(&mut self) {
        self.so_far.done = self.worker.pieces();
        self.so_far.in_flight = 0;
        self.so_far.in_flight_bytes = 0;
    }

    /// Writes the report while the part is ours. One that cannot be written is no reason to
    /// stop: what counts is in the store, and the part is done again if the last one fails.
    pub(super) async fn write(&self, ended: Option<PartEnded>) {
        let worker = self.worker;
        let seconds = self.began.elapsed().as_secs_f64();
        let report = worker.report(self.so_far, seconds, ended);
        let key = report_key(worker.part);
        let written = match serde_json::to_vec(&report) {
            Ok(bytes) => self.part.put(worker.array.root(), &key, bytes).await,
            Err(error) => return tracing::error!(%error, "the report is no JSON"),
        };
        if let Err(error) = written {
            tracing::warn!(%error, "the report of the part was not written");
        }
    }
}
