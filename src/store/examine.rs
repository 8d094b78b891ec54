//! Looks whether a store can do what a command needs of it, before the first write.
//!
//! Reading costs one LIST and the manifest. Writing is tried on a scratch object of its
//! own below [`SCRATCH`], which is deleted again however the trial ends. What a lease
//! relies on (`format.md` section 8) is not taken on trust: the object is created twice,
//! and the second time must fail.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::OnceCell;

use crate::store::Root;
use crate::store::manifest::MANIFEST_KEY;
use crate::store::root::present;
use crate::time::Clock;

mod error;
mod found;
mod trial;

pub use error::ExamineError;
pub use found::{Ability, Answer, Examination};

use found::{no, not_tried, yes};

/// Where scratch objects stand. Nothing below it belongs to a store, and nothing there is
/// ever read but by the trial that wrote it.
pub(crate) const SCRATCH: &str = ".zagg-stream";

/// A clock that is off by more than this part of the lease's ttl eats up the beats that
/// may fail before another run takes the lease for expired.
const SKEW_PER_TTL: u32 = 3;

/// Requests of a trial of writing beside the LIST and the read of the manifest, which a
/// plan has to reckon with. A try that is refused is one, too.
pub(crate) const TRIAL_PUTS: u64 = 4;
/// Reads of the scratch object, and of its age.
pub(crate) const TRIAL_GETS: u64 = 3;
/// Deletions.
pub(crate) const TRIAL_DELETES: u64 = 1;

/// What a command is going to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode<'a> {
    /// Nothing is written, and no request that writes is sent.
    ReadOnly,
    /// The store is written to.
    Writing(Writer<'a>),
}

/// Who is going to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Writer<'a> {
    /// The run, whose scratch object nobody else has.
    pub run_id: &'a str,
    /// How long a beat of its lease is good for.
    pub lease_ttl: Duration,
}

/// Has a store examined once for all the steps of a command. Clones share what was found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Examiner(Arc<OnceCell<Examination>>);

impl Examiner {
    /// What the store can do, tried out when no step before has.
    ///
    /// # Errors
    /// As [`examine`].
    pub(crate) async fn before_writing(
        &self,
        root: &Root,
        clock: &dyn Clock,
        writer: Writer<'_>,
    ) -> Result<&Examination, ExamineError> {
        let first = || async {
            let found = examine(root, clock, Mode::Writing(writer)).await?;
            tracing::info!(root = %root, "store examined: {found}");
            if let Some(warning) = found.clock_warning() {
                tracing::warn!("{warning}");
            }
            Ok::<_, ExamineError>(found)
        };
        let found = self.0.get_or_try_init(first).await?;
        // The steps need not have the same ttl.
        refuse_skew(found, writer.lease_ttl)?;
        Ok(found)
    }
}

/// Examines the store at `root`.
///
/// # Errors
/// Whatever would keep a command from its end, or let two runs write at once.
pub(crate) async fn examine(
    root: &Root,
    clock: &dyn Clock,
    mode: Mode<'_>,
) -> Result<Examination, ExamineError> {
    if matches!(mode, Mode::Writing(_)) {
        root.ensure_writable()?;
    }
    let list = try_listing(root).await?;
    let manifest = present(root.get(MANIFEST_KEY).await).map_err(ExamineError::Read)?;
    let read = match manifest {
        Some(_) => yes("the manifest is read"),
        None => not_tried("there is no manifest to read"),
    };
    let untried = not_tried(match root.is_read_only() {
        true => "an http root is read-only",
        false => "tried when a run begins",
    });
    let mut found = Examination {
        root: root.url().to_owned(),
        list,
        read,
        create: untried,
        replace: untried,
        delete: untried,
        clock_skew_s: None,
    };
    if let Mode::Writing(writer) = mode {
        let written = trial::write(root, clock, writer.run_id).await?;
        found.create = yes("an object is created only where there is none");
        found.replace = written.replace;
        found.delete = yes("an object is deleted");
        found.clock_skew_s = Some(written.clock_skew_s);
        refuse_skew(&found, writer.lease_ttl)?;
    }
    Ok(found)
}

fn refuse_skew(found: &Examination, lease_ttl: Duration) -> Result<(), ExamineError> {
    let skew_s = found.clock_skew_s.unwrap_or_default();
    if skew_s.unsigned_abs() > (lease_ttl / SKEW_PER_TTL).as_secs() {
        return Err(ExamineError::Skew {
            root: found.root.clone(),
            skew_s,
            ttl_s: lease_ttl.as_secs(),
        });
    }
    Ok(())
}

async fn try_listing(root: &Root) -> Result<Ability, ExamineError> {
    match root.list("").next().await.transpose() {
        Ok(Some(_)) => Ok(yes("the root is listed")),
        Ok(None) => Ok(yes("the root is listed, and empty")),
        // Few web servers list, and what is only read may be named in another way.
        Err(error) if root.is_read_only() && !error.kind().is_transient() => {
            Ok(no("the web server lists nothing"))
        }
        Err(error) => Err(ExamineError::List(error)),
    }
}

#[cfg(test)]
mod tests;
