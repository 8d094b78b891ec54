//! The sweep lease, `sweep.lease.json`: who may write to this store now
//! (`format.md` section 8).
//!
//! This is the record, the conditional requests on it, and [`Held`], what a holder
//! knows about its own claim. Keeping it alive is [`crate::lease`].
//!
//! A claim of an expired lease deletes and creates, two requests, so two claimants that
//! read the same expired record can undo each other. The record's bytes are compared
//! once more before the delete, the winner is whose record stands afterwards, and a
//! claimant believes that only after it has stood for [`Claim::settle`].

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::json::python_pretty;
use super::retry::{Fault, retry};
use super::root::{Created, Op, Replaced, Root, StoreError, Version};
use crate::error::FaultKind;
use crate::time::{Clock, Moment, iso, parse_iso};

/// Key of the lease.
pub const LEASE_KEY: &str = "sweep.lease.json";

/// The only spec this program takes part in.
pub const LEASE_SPEC: &str = "zagg-sweep-lease/1";

/// Seconds without a heartbeat after which a lease may be claimed.
pub const DEFAULT_TTL_S: u64 = 900;

/// How long a claim must stand before it is believed: many times the delay between
/// another claimant's last look and its delete.
pub const SETTLE: Duration = Duration::from_secs(2);

/// Why there is no lease, or no longer one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// Another run holds a live lease.
    #[error("{0}")]
    Live(Box<LiveLease>),
    /// The lease is of a kind this program does not know, so it cannot tell whether it is live.
    #[error(
        "the lease `sweep.lease.json` of `{root}` has the unknown spec {spec}; use a program that knows it, \
         or delete the file once no sweep is running"
    )]
    UnknownSpec {
        /// The root.
        root: String,
        /// What stands under `spec`, as JSON.
        spec: String,
    },
    /// Another run claimed the expired lease at the same time.
    #[error("the expired lease of `{root}` was claimed by {}; wait for that run to end", named(.holder.as_deref()))]
    RaceLost {
        /// The root.
        root: String,
        /// The run that holds it now, if any.
        holder: Option<String>,
    },
    /// The lease was ours and is not any more.
    #[error(
        "run `{run_id}` has lost the lease of `{root}` to {}; nothing more is written, run it again later, \
         what is done is kept", named(.holder.as_deref())
    )]
    Lost {
        /// The root.
        root: String,
        /// The run that held it.
        run_id: String,
        /// The run that holds it now, if any.
        holder: Option<String>,
    },
    /// The lease was not confirmed in time, so another run may have claimed it.
    #[error(
        "run `{run_id}` could not confirm the lease of `{root}` for {silent_s} s, its ttl is {ttl_s} s; \
         nothing more is written, run it again, what is done is kept"
    )]
    Stale {
        /// The root.
        root: String,
        /// The run that held it.
        run_id: String,
        /// Whole seconds since it was last confirmed.
        silent_s: u64,
        /// Seconds a heartbeat is good for.
        ttl_s: u64,
    },
    /// The thread that keeps the lease could not be started, or is gone.
    #[error("the lease of `{root}` cannot be kept: {reason}")]
    Keeper {
        /// The root.
        root: String,
        /// What went wrong.
        reason: String,
    },
    /// A request failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A lease that another run holds and that must be waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveLease {
    /// The root.
    pub root: String,
    /// The run that holds it.
    pub run_id: String,
    /// When it was acquired, as recorded.
    pub acquired_at: String,
    /// When it was last confirmed, as recorded.
    pub heartbeat_at: String,
    /// Seconds a heartbeat is good for.
    pub ttl_s: u64,
    /// The first second at which it may be claimed unless it is confirmed again.
    pub claimable_at: String,
}

impl fmt::Display for LiveLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is being swept by run `{}` (acquired {}, last heartbeat {}, ttl {} s); wait for it to \
             end, or, if it is known to be dead, try again after {}",
            self.root,
            self.run_id,
            self.acquired_at,
            self.heartbeat_at,
            self.ttl_s,
            self.claimable_at
        )
    }
}

fn named(holder: Option<&str>) -> String {
    match holder {
        Some(run_id) => format!("run `{run_id}`"),
        None => "someone who has already let go of it".to_owned(),
    }
}

impl LeaseError {
    /// What kind of fault this is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Keeper { .. } => FaultKind::Bug,
            _ => FaultKind::LeaseLost,
        }
    }
}

impl Fault for LeaseError {
    fn kind(&self) -> FaultKind {
        LeaseError::kind(self)
    }
}

/// One lease as it stands in a store.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaseRecord {
    /// Every key, in order, so that a rewrite keeps those of other writers.
    document: Map<String, Value>,
}

impl LeaseRecord {
    fn new(claim: &Claim, now: i64, claimed_from: Option<&str>) -> Self {
        let scope = match &claim.scope {
            None => Value::Null,
            Some(scope) => scope.iter().map(String::as_str).collect(),
        };
        let mut document = Map::new();
        document.insert("spec".to_owned(), LEASE_SPEC.into());
        document.insert("run_id".to_owned(), claim.run_id.as_str().into());
        document.insert("scope".to_owned(), scope);
        document.insert("acquired_at".to_owned(), iso(now).into());
        document.insert("heartbeat_at".to_owned(), iso(now).into());
        document.insert("ttl_s".to_owned(), claim.ttl_s.into());
        if let Some(run_id) = claimed_from {
            document.insert("claimed_from".to_owned(), run_id.into());
        }
        Self { document }
    }

    fn confirmed_at(&self, now: i64) -> Self {
        let mut record = self.clone();
        record
            .document
            .insert("heartbeat_at".to_owned(), iso(now).into());
        record
    }

    fn text(&self, key: &str) -> &str {
        self.document
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The run that holds it; empty when none is named.
    pub fn run_id(&self) -> &str {
        self.text("run_id")
    }

    /// The node prefixes the run covers, `None` for the whole store. Informative only:
    /// the lease is for the whole store either way.
    pub fn scope(&self) -> Option<Vec<&str>> {
        let scope = self.document.get("scope")?.as_array()?;
        Some(scope.iter().filter_map(Value::as_str).collect())
    }

    /// When it was acquired, as recorded.
    pub fn acquired_at(&self) -> &str {
        self.text("acquired_at")
    }

    /// When it was last confirmed, as recorded.
    pub fn heartbeat_at(&self) -> &str {
        self.text("heartbeat_at")
    }

    /// Seconds a heartbeat is good for.
    pub fn ttl_s(&self) -> u64 {
        match self.document.get("ttl_s").and_then(Value::as_u64) {
            None | Some(0) => DEFAULT_TTL_S,
            Some(ttl_s) => ttl_s,
        }
    }

    /// The run whose expired lease this one took over.
    pub fn claimed_from(&self) -> Option<&str> {
        self.document.get("claimed_from")?.as_str()
    }

    /// The last second, since 1970, at which it is live. `None` when it does not say,
    /// and then it locks nothing.
    pub fn live_until(&self) -> Option<i64> {
        let ttl_s = i64::try_from(self.ttl_s()).unwrap_or(i64::MAX);
        Some(parse_iso(self.heartbeat_at())?.saturating_add(ttl_s))
    }

    /// Whether it is live at `now`, whole seconds since 1970.
    ///
    /// Both times are cut to whole seconds, so only a difference of more than the ttl
    /// means that more than the ttl has passed.
    pub fn is_live(&self, now: i64) -> bool {
        self.live_until().is_some_and(|until| now <= until)
    }

    /// The document as it is written: indent 1, keys in order.
    pub fn to_json(&self) -> String {
        python_pretty(&Value::Object(self.document.clone()), 1)
    }
}

/// What stands at the lease's key.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// Nothing: the store is free.
    Free,
    /// Something that is not JSON or no mapping, left by an accident: free to claim.
    Debris,
    /// A lease of another spec, its `spec` as JSON.
    Foreign(String),
    /// A lease, live or not.
    Lease(LeaseRecord),
}

impl Standing {
    fn parse(bytes: &[u8]) -> Self {
        let Ok(Value::Object(document)) = serde_json::from_slice(bytes) else {
            return Self::Debris;
        };
        match document.get("spec") {
            Some(Value::String(spec)) if spec == LEASE_SPEC => {
                Self::Lease(LeaseRecord { document })
            }
            Some(spec) => Self::Foreign(spec.to_string()),
            None => Self::Foreign("absent".to_owned()),
        }
    }

    fn holder(&self) -> Option<String> {
        match self {
            Self::Lease(record) => Some(record.run_id().to_owned()),
            _ => None,
        }
    }
}

/// One look at the lease.
struct Seen {
    standing: Standing,
    /// The bytes and which writing they are; `None` when there is nothing.
    found: Option<(Bytes, Version)>,
}

async fn look(root: &Root) -> Result<Seen, StoreError> {
    match root.get_with_version(LEASE_KEY).await {
        Ok(found) => Ok(Seen {
            standing: Standing::parse(&found.bytes),
            found: Some((found.bytes, found.version)),
        }),
        Err(error) if error.kind() == FaultKind::NotFound => Ok(Seen {
            standing: Standing::Free,
            found: None,
        }),
        Err(error) => Err(error),
    }
}

/// Reads the lease, for people to look at.
///
/// # Errors
/// A failed read.
pub async fn show(root: &Root) -> Result<Standing, LeaseError> {
    Ok(look(root).await?.standing)
}

/// What a run asks for.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The run that asks. Two processes must never share one.
    pub run_id: String,
    /// The node prefixes it covers; informative.
    pub scope: Option<Vec<String>>,
    /// Seconds a heartbeat is to be good for.
    pub ttl_s: u64,
    /// How long a claim of an expired lease must stand before it is believed.
    pub settle: Duration,
}

impl Claim {
    /// A claim by `run_id` for the whole store, with the usual ttl and settling time.
    pub fn new(run_id: impl Into<String>) -> Self {
        Self {
            run_id: run_id.into(),
            scope: None,
            ttl_s: DEFAULT_TTL_S,
            settle: SETTLE,
        }
    }
}

/// A lease just acquired.
#[derive(Debug)]
pub struct Acquired {
    /// What the holder shows before it writes.
    pub held: Held,
    /// The run whose expired lease was taken over.
    pub claimed_from: Option<String>,
}

/// Acquires the lease of `root`, or says who has it.
///
/// Transient faults are tried again under the root's policy, each time from the first
/// step: every step reads before it acts, so one whose answer was lost is recognised.
///
/// # Errors
/// [`LeaseError::Live`], [`LeaseError::UnknownSpec`], [`LeaseError::RaceLost`], and
/// failed requests.
pub async fn acquire(
    root: &Root,
    claim: &Claim,
    clock: Arc<dyn Clock>,
) -> Result<Acquired, LeaseError> {
    // The steps are tried again as a whole, so the requests inside them are not.
    let once = root.with_retry(super::retry::RetryPolicy::never());
    let (once, clock) = (&once, &clock);
    retry(
        root.retry_policy(),
        LEASE_KEY,
        |_| {},
        || async move { acquire_once(once, claim, clock).await },
    )
    .await
}

async fn acquire_once(
    root: &Root,
    claim: &Claim,
    clock: &Arc<dyn Clock>,
) -> Result<Acquired, LeaseError> {
    let asked = clock.now();
    let record = LeaseRecord::new(claim, asked.unix_seconds(), None);
    let lost_answer = match root.create(LEASE_KEY, record.to_json()).await {
        Ok(Created::Yes) => return Ok(acquired(root, claim, clock, asked, None)),
        Ok(Created::Exists) => None,
        Err(error) if error.kind().is_transient() => Some(error),
        Err(error) => return Err(error.into()),
    };
    let seen = look(root).await?;
    match &seen.standing {
        // Gone since, or never written: from the start.
        Standing::Free => Err(match lost_answer {
            Some(error) => error.into(),
            None => race_lost(root, &seen),
        }),
        Standing::Foreign(spec) => Err(LeaseError::UnknownSpec {
            root: root.url().to_owned(),
            spec: spec.clone(),
        }),
        // Ours, by a create whose answer was lost or from before a restart; either way
        // its heartbeat is of another moment than this one.
        Standing::Lease(found) if found.run_id() == claim.run_id => {
            let from = found.claimed_from().map(str::to_owned);
            let held = Held::new(root, claim, clock.clone(), asked);
            beat(root, &held).await?;
            Ok(Acquired {
                held,
                claimed_from: from,
            })
        }
        Standing::Lease(found) if found.is_live(asked.unix_seconds()) => {
            Err(live_error(root, found))
        }
        Standing::Lease(_) | Standing::Debris => take_over(root, claim, clock, &seen).await,
    }
}

fn live_error(root: &Root, found: &LeaseRecord) -> LeaseError {
    LeaseError::Live(Box::new(LiveLease {
        root: root.url().to_owned(),
        run_id: found.run_id().to_owned(),
        acquired_at: found.acquired_at().to_owned(),
        heartbeat_at: found.heartbeat_at().to_owned(),
        ttl_s: found.ttl_s(),
        claimable_at: found
            .live_until()
            .map_or_else(String::new, |until| iso(until.saturating_add(1))),
    }))
}

/// Refuses a root whose lease another run holds, without asking for it.
///
/// # Errors
/// [`LeaseError::Live`], [`LeaseError::UnknownSpec`], and failed reads.
pub async fn refuse_if_live(root: &Root, clock: &dyn Clock) -> Result<(), LeaseError> {
    match look(root).await?.standing {
        Standing::Foreign(spec) => Err(LeaseError::UnknownSpec {
            root: root.url().to_owned(),
            spec,
        }),
        Standing::Lease(found) if found.is_live(clock.now().unix_seconds()) => {
            Err(live_error(root, &found))
        }
        Standing::Free | Standing::Debris | Standing::Lease(_) => Ok(()),
    }
}

/// Claims what `seen` shows, expired or debris.
async fn take_over(
    root: &Root,
    claim: &Claim,
    clock: &Arc<dyn Clock>,
    seen: &Seen,
) -> Result<Acquired, LeaseError> {
    let again = look(root).await?;
    let bytes = |seen: &Seen| seen.found.as_ref().map(|(bytes, _)| bytes.clone());
    if bytes(&again) != bytes(seen) {
        return Err(race_lost(root, &again));
    }
    let from = seen.standing.holder();
    // Never repeated: by then it could be somebody's fresh lease.
    let undeleted = match root.delete_once(LEASE_KEY).await {
        Ok(()) => None,
        Err(error) if error.kind().is_transient() => Some(error),
        Err(error) => return Err(error.into()),
    };
    let asked = clock.now();
    let record = LeaseRecord::new(claim, asked.unix_seconds(), from.as_deref());
    match root.create(LEASE_KEY, record.to_json()).await {
        Ok(_) => {}
        // Whether it happened is what the reading back tells.
        Err(error) if error.kind().is_transient() => {}
        Err(error) => return Err(error.into()),
    }
    for settle in [Duration::ZERO, claim.settle] {
        tokio::time::sleep(settle).await;
        let now = look(root).await?;
        if now.standing.holder().as_deref() != Some(claim.run_id.as_str()) {
            return Err(match undeleted {
                Some(error) if bytes(&now) == bytes(seen) => error.into(),
                _ => race_lost(root, &now),
            });
        }
    }
    tracing::warn!(root = %root, claimed_from = from, "claimed an expired lease");
    Ok(acquired(root, claim, clock, asked, from))
}

fn acquired(
    root: &Root,
    claim: &Claim,
    clock: &Arc<dyn Clock>,
    asked: Moment,
    claimed_from: Option<String>,
) -> Acquired {
    Acquired {
        held: Held::new(root, claim, clock.clone(), asked),
        claimed_from,
    }
}

fn race_lost(root: &Root, seen: &Seen) -> LeaseError {
    LeaseError::RaceLost {
        root: root.url().to_owned(),
        holder: seen.standing.holder(),
    }
}

/// Confirms the lease once: reads it, and rewrites its heartbeat if it is still ours.
///
/// A token that went stale is never confirmed: its lease may be in the middle of being
/// claimed, and this write would land on top of the claim.
///
/// # Errors
/// [`LeaseError::Lost`] when it is not ours, and then the token is lost for good;
/// [`LeaseError::Stale`]; a failed request, after which another beat may succeed.
pub async fn beat(root: &Root, held: &Held) -> Result<(), LeaseError> {
    held.ensure_fresh()?;
    let seen = look(root).await?;
    let (Standing::Lease(record), Some((_, version))) = (&seen.standing, &seen.found) else {
        return Err(held.lose(seen.standing.holder()));
    };
    if record.run_id() != held.run_id() {
        return Err(held.lose(seen.standing.holder()));
    }
    held.ensure_fresh()?;
    // Before the request: what counts is when the written time was true.
    let now = held.clock().now();
    let json = record.confirmed_at(now.unix_seconds()).to_json();
    match root.replace(LEASE_KEY, json, version).await? {
        Replaced::Yes => {
            held.confirm(now);
            held.ensure_fresh()
        }
        // Perhaps by an earlier beat of ours whose answer was lost.
        Replaced::Moved => {
            let seen = look(root).await?;
            if seen.standing.holder().as_deref() == Some(held.run_id()) {
                let reason = "the lease was rewritten during a beat".into();
                return Err(LeaseError::Store(StoreError {
                    op: Op::Replace,
                    key: LEASE_KEY.to_owned(),
                    root: root.url().to_owned(),
                    source: Box::new(object_store::Error::AlreadyExists {
                        path: LEASE_KEY.to_owned(),
                        source: reason,
                    }),
                }));
            }
            Err(held.lose(seen.standing.holder()))
        }
    }
}

/// What a release found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// It was ours and is gone.
    Yes,
    /// There was none.
    Absent,
    /// It is another's, or not readable as a lease, and stays; its run id if it has one.
    NotOurs(Option<String>),
}

/// Deletes the lease if `run_id` holds it.
///
/// # Errors
/// Failed requests. A delete whose answer was lost is looked after, not repeated blindly.
pub async fn release(root: &Root, run_id: &str) -> Result<Released, LeaseError> {
    let mut deleted = false;
    let mut last = None;
    // One try, and one more when the first one's answer was lost.
    for _ in 0..2 {
        match look(root).await?.standing {
            Standing::Lease(record) if record.run_id() == run_id => {}
            Standing::Free if deleted => return Ok(Released::Yes),
            Standing::Free => return Ok(Released::Absent),
            _ if deleted => return Ok(Released::Yes),
            other => return Ok(Released::NotOurs(other.holder())),
        }
        match root.delete_once(LEASE_KEY).await {
            Ok(()) => return Ok(Released::Yes),
            Err(error) if error.kind().is_transient() => {
                deleted = true;
                last = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    match last {
        Some(error) => Err(error.into()),
        None => Ok(Released::Yes),
    }
}

/// What a holder knows about its own lease. Clones share it.
///
/// It goes stale by itself, ttl after the last confirmed beat on the stricter of two
/// clocks, so that a process that was stopped, or a machine that was suspended, does
/// not go on writing under what has become someone else's lease.
#[derive(Clone)]
pub struct Held(Arc<HeldInner>);

struct HeldInner {
    root: String,
    run_id: String,
    ttl_s: u64,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    confirmed: Moment,
    /// Set once and never cleared.
    end: Option<End>,
}

#[derive(Clone)]
enum End {
    Lost(Option<String>),
    Stale(Duration),
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("run_id", &self.0.run_id)
            .field("silent_for", &self.silent_for())
            .finish_non_exhaustive()
    }
}

impl Held {
    fn new(root: &Root, claim: &Claim, clock: Arc<dyn Clock>, confirmed: Moment) -> Self {
        Self(Arc::new(HeldInner {
            root: root.url().to_owned(),
            run_id: claim.run_id.clone(),
            ttl_s: claim.ttl_s,
            clock,
            state: Mutex::new(State {
                confirmed,
                end: None,
            }),
        }))
    }

    /// The run that holds the lease.
    pub fn run_id(&self) -> &str {
        &self.0.run_id
    }

    /// How long a confirmation is good for.
    pub fn ttl(&self) -> Duration {
        Duration::from_secs(self.0.ttl_s)
    }

    /// The clock everything about this lease is measured by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// Time since the lease was last confirmed.
    pub fn silent_for(&self) -> Duration {
        let now = self.0.clock.now();
        now.since(self.state().confirmed)
    }

    /// Whether the lease can still be relied on. Once `false`, never `true` again.
    pub fn is_fresh(&self) -> bool {
        self.ensure_fresh().is_ok()
    }

    /// As [`Held::is_fresh`], with the reason.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] or [`LeaseError::Stale`].
    pub fn ensure_fresh(&self) -> Result<(), LeaseError> {
        let now = self.0.clock.now();
        let mut state = self.state();
        let silent = now.since(state.confirmed);
        if state.end.is_none() && silent >= self.ttl() {
            state.end = Some(End::Stale(silent));
        }
        match state.end.clone() {
            None => Ok(()),
            Some(end) => Err(self.error(end)),
        }
    }

    /// Writes an object while the lease can be relied on, which is asked before every
    /// try: what is retried must not land under someone else's lease.
    ///
    /// # Errors
    /// [`LeaseError::Lost`], [`LeaseError::Stale`], or a failed request.
    pub async fn put(
        &self,
        root: &Root,
        key: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<(), LeaseError> {
        match root.put_while(key, bytes, || self.is_fresh()).await? {
            true => Ok(()),
            // Freshness never comes back, so this has the reason.
            false => self.ensure_fresh(),
        }
    }

    /// Notes a beat that was confirmed for `at`. One that comes too late changes nothing.
    fn confirm(&self, at: Moment) {
        let now = self.0.clock.now();
        let mut state = self.state();
        let silent = now.since(state.confirmed);
        if state.end.is_none() && silent >= self.ttl() {
            state.end = Some(End::Stale(silent));
        }
        if state.end.is_none() {
            state.confirmed = at;
        }
    }

    /// Marks the lease as lost, at once and for good.
    fn lose(&self, holder: Option<String>) -> LeaseError {
        let mut state = self.state();
        let end = state.end.get_or_insert(End::Lost(holder)).clone();
        drop(state);
        self.error(end)
    }

    fn error(&self, end: End) -> LeaseError {
        let root = self.0.root.clone();
        let run_id = self.0.run_id.clone();
        match end {
            End::Lost(holder) => LeaseError::Lost {
                root,
                run_id,
                holder,
            },
            End::Stale(silent) => LeaseError::Stale {
                root,
                run_id,
                silent_s: silent.as_secs(),
                ttl_s: self.0.ttl_s,
            },
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole after every assignment, so a panic elsewhere does not spoil it.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
