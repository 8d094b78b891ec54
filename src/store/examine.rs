//! Looks whether a store can do what a run needs of it, before the run begins.
//!
//! Reading costs one LIST and the manifest. Writing is tried on a scratch object of its
//! own below [`SCRATCH`], which is deleted again however the trial ends. What a lease
//! relies on (`format.md` section 8) is not taken on trust: the object is created twice,
//! and the second time must fail.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use futures::StreamExt;
use serde::Serialize;

use crate::error::FaultKind;
use crate::store::manifest::MANIFEST_KEY;
use crate::store::retry::retry;
use crate::store::root::{Created, Replaced, Version, present};
use crate::store::{Root, StoreError};
use crate::time::{Clock, Moment};

mod error;

pub(crate) use error::ExamineError;

/// Where scratch objects stand. Nothing below it belongs to a store.
pub(crate) const SCRATCH: &str = ".zagg-stream";

/// A clock that is off by more than this part of the lease's ttl eats up the beats that
/// may fail before another run takes the lease for expired.
const SKEW_PER_TTL: u32 = 3;

/// What a run is going to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode<'a> {
    /// Nothing is written, and no request that writes is sent.
    ReadOnly,
    /// Artifacts are written under a lease.
    Writing {
        /// The run, whose scratch object nobody else has.
        run_id: &'a str,
        /// How long a beat of its lease is good for.
        lease_ttl: Duration,
    },
}

/// Whether a store can do one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// It did.
    Yes,
    /// It did not, and a run can do without.
    No,
    /// It was not asked.
    NotTried,
}

/// What was found of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// Whether the store can do it.
    pub answer: Answer,
    /// What that means, as a sentence.
    pub detail: &'static str,
}

/// What a store can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Examination {
    /// The root, as it was given.
    pub root: String,
    /// Whether it can be listed.
    pub list: Finding,
    /// Whether an object can be read.
    pub read: Finding,
    /// Whether an object is created only where there is none.
    pub create: Finding,
    /// Whether an object is rewritten only while it is the one that was read.
    pub replace: Finding,
    /// Whether an object can be deleted.
    pub delete: Finding,
    /// Seconds by which the store's clock is ahead of this machine's, negative when it is
    /// behind; `None` when nothing was written that would tell.
    pub clock_skew_s: Option<i64>,
}

/// What writing has shown.
struct Written {
    replace: Finding,
    clock_skew_s: i64,
}

const fn yes(detail: &'static str) -> Finding {
    let answer = Answer::Yes;
    Finding { answer, detail }
}

const fn no(detail: &'static str) -> Finding {
    let answer = Answer::No;
    Finding { answer, detail }
}

const fn not_tried(detail: &'static str) -> Finding {
    let answer = Answer::NotTried;
    Finding { answer, detail }
}

/// Examines the store at `root`.
///
/// # Errors
/// Whatever would keep a run from its end, or let two runs write at once.
pub(crate) async fn examine(
    root: &Root,
    clock: &dyn Clock,
    mode: Mode<'_>,
) -> Result<Examination, ExamineError> {
    if matches!(mode, Mode::Writing { .. }) {
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
        false => "nothing is to be written",
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
    if let Mode::Writing { run_id, lease_ttl } = mode {
        let written = try_writing(root, clock, run_id).await?;
        let skew_s = written.clock_skew_s;
        if skew_s.unsigned_abs() > (lease_ttl / SKEW_PER_TTL).as_secs() {
            return Err(ExamineError::Skew {
                root: root.url().to_owned(),
                skew_s,
                ttl_s: lease_ttl.as_secs(),
            });
        }
        found.create = yes("an object is created only where there is none");
        found.replace = written.replace;
        found.delete = yes("an object is deleted");
        found.clock_skew_s = Some(skew_s);
    }
    Ok(found)
}

async fn try_listing(root: &Root) -> Result<Finding, ExamineError> {
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

async fn try_writing(
    root: &Root,
    clock: &dyn Clock,
    run_id: &str,
) -> Result<Written, ExamineError> {
    let key = format!("{SCRATCH}/probe-{run_id}");
    let written = try_object(root, clock, &key).await;
    // Also when it was not created: an answer may have been lost.
    let deleted = root.delete(&key).await;
    if let (Err(_), Err(error)) = (&written, &deleted) {
        tracing::warn!(key, %error, "scratch object not deleted");
    }
    let written = written?;
    deleted.map_err(ExamineError::Delete)?;
    Ok(written)
}

async fn try_object(root: &Root, clock: &dyn Clock, key: &str) -> Result<Written, ExamineError> {
    const FIRST: &str = "created";
    let before = clock.now();
    let (first, tries) = create(root, key, FIRST).await?;
    // Nobody else creates it, so one that exists after a lost answer is this one.
    if first == Created::Exists && tries == 1 {
        return Err(ExamineError::Exists {
            root: root.url().to_owned(),
            key: key.to_owned(),
        });
    }
    let after = clock.now();
    let (again, _) = create(root, key, "created twice").await?;
    let found = root
        .get_with_version(key)
        .await
        .map_err(ExamineError::Read)?;
    // Some stores answer that it exists, and write all the same.
    if again == Created::Yes || found.bytes != FIRST {
        return Err(ExamineError::NotExclusive {
            root: root.url().to_owned(),
        });
    }
    let modified = root.last_modified(key).await.map_err(ExamineError::Read)?;
    Ok(Written {
        replace: try_replacing(root, key, &found.version).await?,
        clock_skew_s: skew(modified, before, after),
    })
}

/// Creates an object and says in how many tries.
async fn create(
    root: &Root,
    key: &str,
    bytes: &'static str,
) -> Result<(Created, u32), ExamineError> {
    let tries = Cell::new(0);
    let created = retry(
        root.retry_policy(),
        key,
        |_| {},
        || {
            tries.set(tries.get() + 1);
            root.create(key, bytes)
        },
    )
    .await
    .map_err(ExamineError::Create)?;
    Ok((created, tries.get()))
}

async fn try_replacing(root: &Root, key: &str, version: &Version) -> Result<Finding, ExamineError> {
    const ONCE: &str = "rewritten";
    let rewrite = |bytes: &'static str| {
        retry(
            root.retry_policy(),
            key,
            |_| {},
            move || root.replace_at_once(key, bytes, version),
        )
    };
    let once = rewrite(ONCE).await.map_err(ExamineError::Rewrite)?;
    if once.is_none() {
        return Ok(no(
            "the store has no conditional rewrite, so a beat is a look and a write",
        ));
    }
    // Not what was answered, which may be that of a second try.
    if root.get(key).await.map_err(ExamineError::Read)? != ONCE {
        return Err(ExamineError::NotRewritten {
            root: root.url().to_owned(),
        });
    }
    let twice = rewrite("rewritten twice").await;
    match twice.map_err(ExamineError::Rewrite)? {
        Some(Replaced::Moved) => Ok(yes(
            "an object is rewritten only while it is the one that was read",
        )),
        _ => Ok(no(
            "the store ignores the condition of a rewrite, so a beat is a look and a write",
        )),
    }
}

/// Seconds by which a store that wrote something at `modified`, asked at `before` and done
/// by `after`, is ahead. Its whole second may have begun up to one before.
fn skew(modified: i64, before: Moment, after: Moment) -> i64 {
    let (before, after) = (before.unix_seconds(), after.unix_seconds());
    if modified > after {
        modified - after
    } else if modified < before {
        modified - before
    } else {
        0
    }
}

impl Examination {
    fn findings(&self) -> [(&'static str, Finding); 5] {
        [
            ("list", self.list),
            ("read", self.read),
            ("create", self.create),
            ("replace", self.replace),
            ("delete", self.delete),
        ]
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::NotTried => "not tried",
        })
    }
}

impl fmt::Display for Examination {
    /// One line for each thing a store can do, and one for its clock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, Finding { answer, detail }) in self.findings() {
            writeln!(f, "{name:<8} {answer:<10} {detail}")?;
        }
        match self.clock_skew_s {
            None => write!(f, "clock    {:<10} nothing was written", Answer::NotTried),
            Some(0) => write!(f, "clock    as here"),
            Some(ahead @ 1..) => write!(f, "clock    {ahead} s ahead"),
            Some(behind) => write!(f, "clock    {} s behind", behind.unsigned_abs()),
        }
    }
}

#[cfg(test)]
mod tests;
