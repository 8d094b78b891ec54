//! Tries on a scratch object whether a store can be written to as a lease needs it.

use std::sync::atomic::{AtomicU32, Ordering};

use super::found::{Ability, no, yes};
use super::{ExamineError, SCRATCH};
use crate::store::Root;
use crate::store::root::{Created, Replaced, Version};
use crate::time::{Clock, Moment};

/// What writing has shown.
pub(super) struct Written {
    /// Whether an object is rewritten only while it is the one that was read.
    pub replace: Ability,
    /// Seconds by which the store's clock is ahead.
    pub clock_skew_s: i64,
}

/// Creates, rewrites and deletes the scratch object of `run_id`. No note is taken of it
/// where the root notes what is written: it is no object of the store.
///
/// # Errors
/// What the store cannot do, and that is needed.
pub(super) async fn write(
    root: &Root,
    clock: &dyn Clock,
    run_id: &str,
) -> Result<Written, ExamineError> {
    let root = &root.unjournaled();
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
    let tries = AtomicU32::new(0);
    let created = root.repeat(key, || {
        tries.fetch_add(1, Ordering::Relaxed);
        root.create(key, bytes)
    });
    let created = created.await.map_err(ExamineError::Create)?;
    Ok((created, tries.into_inner()))
}

async fn try_replacing(root: &Root, key: &str, version: &Version) -> Result<Ability, ExamineError> {
    const ONCE: &str = "rewritten";
    let rewrite = |bytes: &'static str| async move {
        let rewritten = root.repeat(key, || root.replace_at_once(key, bytes, version));
        rewritten.await.map_err(ExamineError::Rewrite)
    };
    if rewrite(ONCE).await?.is_none() {
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
    match rewrite("rewritten twice").await? {
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
pub(super) fn skew(modified: i64, before: Moment, after: Moment) -> i64 {
    let (before, after) = (before.unix_seconds(), after.unix_seconds());
    if modified > after {
        modified - after
    } else if modified < before {
        modified - before
    } else {
        0
    }
}
