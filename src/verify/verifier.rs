//! What the parts of one verification share.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::contents::Tallies;
use super::finding::{Check, Findings, Subject};
use super::tally::Tally;
use crate::ladder::generation::SourceChildren;
use crate::ladder::{Ladder, Target};
use crate::messages::Step;
use crate::store::artifact::{Artifact, Tier};
use crate::store::template::ColumnTemplate;
use crate::watch::{Piece, Watched};

/// One verification under way.
pub(super) struct Verifier {
    /// The store, the settings and the templates; its run is one that writes nothing.
    pub ladder: Arc<Ladder>,
    /// What was found.
    pub findings: Findings,
    /// What was done.
    pub done: Done,
    /// How far it is, in columns and artifacts of the ladder.
    pub watched: Watched,
    known: Mutex<Known>,
}

/// How much was done.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub leaf_columns: AtomicU64,
    pub stage_columns: AtomicU64,
    pub overviews: AtomicU64,
    pub refolded_columns: AtomicU64,
    pub refolded_artifacts: AtomicU64,
    pub unjudged: AtomicU64,
}

/// What later parts need of earlier ones.
#[derive(Debug, Default)]
struct Known {
    /// What each field of a sound column comes to, by the column's path.
    sound: HashMap<String, Tallies>,
    /// Columns with findings.
    unsound: HashSet<String>,
    /// What the overviews record of their children, by order.
    levels: BTreeMap<u8, SourceChildren>,
}

impl Verifier {
    pub(super) fn new(ladder: Arc<Ladder>) -> Self {
        let run = &ladder.run;
        Self {
            findings: Findings::default(),
            done: Done::default(),
            watched: Watched::new(Step::Verify, run.watchers.clone(), &run.root, 0)
                .budget(&run.budget),
            known: Mutex::default(),
            ladder,
        }
    }

    /// The template of the leaf columns.
    pub(super) fn column(&self) -> &Arc<ColumnTemplate> {
        &self.ladder.template.column
    }

    /// Notes what the groups of a column come to, when nothing was found in it; what
    /// stands on it can be judged only then.
    pub(super) fn note(&self, path: String, tallies: Option<Tallies>) {
        match tallies.filter(|_| self.findings.none_at(&path)) {
            Some(tallies) => self.note_sound(path, tallies),
            None => self.note_unsound(path),
        }
    }

    fn note_sound(&self, path: String, mut tallies: Tallies) {
        let levels = &self.ladder.template.plan.levels;
        tallies.retain(|order, _| {
            levels
                .iter()
                .any(|level| level.source == *order || level.stage_groups.contains(order))
        });
        self.known().sound.insert(path, tallies);
    }

    /// Notes a column that what stands on it cannot be judged by.
    pub(super) fn note_unsound(&self, path: String) {
        self.known().unsound.insert(path);
    }

    /// Whether none of the columns a target folds from has a finding.
    pub(super) fn stands_on_sound(&self, target: &Target) -> bool {
        let known = self.known();
        let mut columns = target.column_paths();
        !columns.any(|path| known.unsound.contains(&path))
    }

    /// What the groups of this order of these columns come to together.
    pub(super) fn sum_of<'a>(
        &self,
        columns: impl Iterator<Item = &'a str>,
        order: u8,
    ) -> Vec<Tally> {
        let known = self.known();
        let fields = &self.column().declaration.fields;
        let mut sum: Vec<Tally> = fields.iter().map(Tally::none).collect();
        let groups = columns.filter_map(|path| known.sound.get(path)?.get(&order));
        for tallies in groups {
            for (sum, tally) in sum.iter_mut().zip(tallies) {
                sum.add(tally);
            }
        }
        sum
    }

    /// Notes what an overview records of its children.
    pub(super) fn note_children(&self, order: u8, children: SourceChildren) {
        *self.known().levels.entry(order).or_default() += children;
    }

    /// What the overviews of each order record of their children together.
    pub(super) fn levels(&self) -> BTreeMap<u8, SourceChildren> {
        self.known().levels.clone()
    }

    /// Holds what a group comes to against its source.
    pub(super) fn conserve(
        &self,
        subject: &Subject,
        source: &str,
        order: u8,
        (expected, got): (&[Tally], &[Tally]),
        merges: u8,
    ) {
        let fields = &self.column().declaration.fields;
        for ((field, expected), got) in fields.iter().zip(expected).zip(got) {
            let Some(lost) = expected.lost(got, merges) else {
                continue;
            };
            let array = format!("{order}/{}", field.name);
            let (check, what) = match lost.bound {
                None => (
                    Check::Conservation,
                    format!("does not keep in `{array}` what {source} holds"),
                ),
                Some(bound) => (
                    Check::Weights,
                    format!(
                        "does not keep in `{array}` the weights of {source}, which {merges} roundings to float32 put {bound:e} off at most"
                    ),
                ),
            };
            let finding = subject.finding(check, &what).array(&array);
            self.findings
                .add(finding.differs(Some(lost.expected), Some(lost.got)));
        }
    }

    /// Counts the work on an artifact until this is dropped, and whether it has findings.
    pub(super) fn piece(&self, path: String) -> impl Drop + '_ {
        Judged {
            verifier: self,
            path,
            _piece: self.watched.piece(),
        }
    }

    /// Counts an artifact that was checked.
    pub(super) fn count(&self, tier: Tier, is_leaf: bool) {
        let counter = match (tier, is_leaf) {
            (Tier::Column, true) => &self.done.leaf_columns,
            (Tier::Column, false) => &self.done.stage_columns,
            (Tier::Overview, _) => &self.done.overviews,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An artifact under verification.
struct Judged<'a> {
    verifier: &'a Verifier,
    path: String,
    _piece: Piece<'a>,
}

impl Drop for Judged<'_> {
    fn drop(&mut self) {
        if !self.verifier.findings.none_at(&self.path) {
            self.verifier.watched.failed();
        }
    }
}

impl Target {
    /// Paths of the columns that are read, also of those that are not there.
    fn column_paths(&self) -> impl Iterator<Item = String> + '_ {
        self.children.iter().flat_map(|child| {
            let windows = child.windows.iter();
            windows.filter_map(|window| {
                let column = Artifact::new(Tier::Column, child.word, window.clone());
                column.ok().map(|column| column.path())
            })
        })
    }
}
