//! Time-appended GeoZarr cubes, one store per tile: looks what is wrong with one, heals
//! levels that lack `time`, and carries a cube to and from a local disk for an append
//! without fetching what the append does not touch. `docs/cube.md` is for its operators.
//!
//! What is to be done is always planned first, as values, and then carried out in the
//! order of the plan. No object is written over that somebody else has written since, and
//! no object that holds slices is ever deleted.

use std::collections::BTreeSet;
use std::time::Instant;

use futures::Stream;

use crate::abort::AbortSignal;
use crate::messages::Event;
use crate::report::Ending;
use crate::settings::Settings;
use crate::store::Root;
use crate::watch::Watchers;

mod again;
mod check;
mod error;
mod fetch;
mod finding;
mod hashes;
mod heal;
mod inventory;
mod layout;
mod moved;
mod orbit;
mod pull;
mod push;
mod refuse;
mod report;
mod stage;
mod sync;
mod times;
mod tree;
mod write;

#[cfg(test)]
mod tests;

pub use error::CubeError;
pub use fetch::{Offending, Unsafe};
pub use finding::{Finding, Heal, Rule, Severity};
pub use orbit::{Along, Level, Orbit};
pub use push::PushOptions;
pub use report::{Checked, Extent, Healed, Outcome, Pulled, Pushed};

use check::Judged;
use error::Halt;
use heal::HealPlan;
use write::{Stands, Write, Writer};

/// What to do when a cube changes under a heal.
const HEAL_AGAIN: &str =
    "wait until whoever writes there has ended, then run the same command again";

/// A cube, and how to work on it.
#[derive(Debug)]
pub struct Cube {
    root: Root,
    settings: Settings,
    stop: AbortSignal,
    watchers: Watchers,
}

/// Stops what is being done to a cube between two objects. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StopCube(AbortSignal);

impl StopCube {
    /// Writes no more; what is under way is finished.
    pub fn stop(&self) {
        self.0.raise();
    }
}

/// A command that has begun.
struct Started {
    root: Root,
    since: Instant,
}

impl Started {
    fn ended(&self, outcome: Ending, error: Option<String>) -> Outcome {
        Outcome {
            root: self.root.url().to_owned(),
            outcome,
            exit_code: outcome.exit_code(),
            error,
            requests: self.root.tally(),
            seconds: self.since.elapsed().as_secs_f64(),
        }
    }

    fn halted(&self, halt: &Halt, again: &str) -> Outcome {
        let message = halt.message(again);
        self.ended(halt.ending(), Some(message))
    }
}

impl Cube {
    /// The cube at `root`.
    pub fn new(root: Root) -> Self {
        Self {
            root,
            settings: Settings::default(),
            stop: AbortSignal::new(),
            watchers: Watchers::none(),
        }
    }

    /// Replaces the default settings, of which it has use for the retries, the memory
    /// budget, and how much is read and written at once.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// A way to stop it while somebody else waits for its end.
    pub fn stop(&self) -> StopCube {
        StopCube(self.stop.clone())
    }

    /// What happens from now on, for as long as the cube is there: every stage of writing is
    /// a [`Step::Cube`], whose pieces are objects. A watcher that is behind loses the oldest
    /// events.
    ///
    /// [`Step::Cube`]: crate::Step::Cube
    pub fn events(&self) -> impl Stream<Item = Event> + Send + use<> {
        self.watchers.stream()
    }

    fn start(&self) -> Started {
        Started {
            root: self.watchers.at_work(&self.root, &self.settings),
            since: Instant::now(),
        }
    }

    /// Holds the cube against the rules of its layout.
    ///
    /// # Errors
    /// Any failed request.
    pub async fn check(&self) -> Result<Checked, CubeError> {
        let started = self.start();
        let judged = Judged::read(&started.root, self.settings.max_in_flight).await?;
        let tree = &judged.tree;
        let mut total = Extent::default();
        tree.objects
            .values()
            .for_each(|entry| total.add(entry.size));
        let blocks = tree
            .groups()
            .filter(|(_, group)| group.consolidated.is_some());
        let offending = fetch::offending(tree);
        Ok(Checked {
            ended: started.ended(
                match judged.count() {
                    0 => Ending::Done,
                    _ => Ending::Failed,
                },
                None,
            ),
            total,
            consolidated: blocks.map(|(path, _)| path.to_owned()).collect(),
            foreign: tree.foreign().map(str::to_owned).collect(),
            minimal_fetch_is_safe: offending.is_empty() && tree.malformed.is_empty(),
            offending,
            orbits: judged.orbits,
            findings: judged.findings,
        })
    }

    /// Gives every level that lacks `time` a copy of the finest level's. An orbit is healed
    /// or refused as a whole, and whatever becomes of the other.
    ///
    /// # Errors
    /// A read-only root, and failed requests before the first write. Later ones, and
    /// refusals, are in the [`Healed`].
    pub async fn heal(&self, dry_run: bool) -> Result<Healed, CubeError> {
        if !dry_run {
            self.root.ensure_writable()?;
        }
        let started = self.start();
        let judged = Judged::read(&started.root, self.settings.max_in_flight).await?;
        let leftovers = heal::leftovers(&started.root, &judged).await?;
        let plan = HealPlan::of(&judged, &leftovers);
        let mut healed = Healed {
            ended: started.ended(Ending::Done, None),
            dry_run,
            healed: plan.levels.clone(),
            added: Vec::new(),
            rewritten: Vec::new(),
            refusals: of_heal(&judged, Heal::Refused).cloned().collect(),
            warnings: of_heal(&judged, Heal::Unaffected)
                .filter(|finding| finding.rule != Rule::Fetch)
                .map(|finding| finding.message.clone())
                .collect(),
        };
        if dry_run {
            healed.note(plan.writes().map(|write| write.key.clone()), &plan);
            healed.ended = healed.over(&started);
            return Ok(healed);
        }
        let mut stands = Vec::new();
        let ended = self.carry_out(&started, &judged, &plan, &mut stands).await;
        let wrote = stands.iter().filter(|stands| stands.written);
        healed.note(wrote.map(|stands| stands.key.clone()), &plan);
        healed.ended = match ended {
            Ok(()) => healed.over(&started),
            Err(halt) => {
                let is_healed = |level: &String| {
                    let document = layout::document_of(&layout::join(level, layout::TIME));
                    stands.iter().any(|stands| stands.key == document)
                };
                healed.healed.retain(is_healed);
                started.halted(&halt, HEAL_AGAIN)
            }
        };
        Ok(healed)
    }

    async fn carry_out(
        &self,
        started: &Started,
        judged: &Judged,
        plan: &HealPlan,
        stands: &mut Vec<Stands>,
    ) -> Result<(), Halt> {
        let root = &started.root;
        let writer = Writer::new(self, root, root);
        writer
            .stage("time chunks", &plan.objects, |done| stands.push(done))
            .await?;
        writer
            .stage("groups", &plan.groups, |done| stands.push(done))
            .await?;
        if let Some(moved) = heal::moved_source(root, judged, plan).await? {
            return Err(moved);
        }
        writer
            .stage("time", &plan.documents, |done| stands.push(done))
            .await
    }
}

fn of_heal(judged: &Judged, heal: Heal) -> impl Iterator<Item = &Finding> {
    judged
        .findings
        .iter()
        .filter(move |finding| finding.heal == heal)
}

impl Healed {
    /// Notes keys that are written, in the order of the plan.
    fn note(&mut self, keys: impl Iterator<Item = String>, plan: &HealPlan) {
        let keys: BTreeSet<String> = keys.collect();
        let of = |writes: &[Write]| -> Vec<String> {
            let written = writes.iter().filter(|write| keys.contains(&write.key));
            written.map(|write| write.key.clone()).collect()
        };
        self.added = of(&plan.objects);
        self.added.extend(of(&plan.documents));
        self.rewritten = of(&plan.groups);
    }

    /// How a heal ends that nothing stopped.
    fn over(&self, started: &Started) -> Outcome {
        if let Some(first) = self.refusals.first() {
            let count = self.refusals.len();
            let error = format!(
                "{} ({count} such findings in all); orbits with one are left as they are, mend it by hand or \
                 build the orbit anew, then run again",
                first.message
            );
            return started.ended(Ending::Refused, Some(error));
        }
        let nothing = self.healed.is_empty();
        started.ended(
            if nothing {
                Ending::NothingToDo
            } else {
                Ending::Done
            },
            None,
        )
    }
}
