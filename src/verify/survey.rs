//! The way through a store: the columns of the leaves first, then the ladder order by
//! order, because an artifact can be judged only when the columns below it are known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt, TryStreamExt, stream};
use sha2::{Digest, Sha256};

use super::column::{self, Stands};
use super::finding::{Check, Finding, Subject};
use super::ladder;
use super::nodes::{self, Node};
use super::verifier::Verifier;
use crate::error::LeafFault;
use crate::kernels::plan::FoldLaw;
use crate::kernels::words::WordError;
use crate::ladder::{LadderWork, Target};
use crate::messages::LeafRef;
use crate::pyramid::Level;
use crate::store::template::ColumnTemplate;

/// What a verification looks at.
pub(super) struct Survey<'a> {
    pub verifier: &'a Verifier,
    pub other_law: &'a ColumnTemplate,
    pub work: &'a LadderWork,
    pub sample: Sample,
}

/// Leaves that are folded anew.
#[derive(Debug, Clone)]
pub(super) enum Sample {
    All,
    /// Those at these paths.
    Some(BTreeSet<String>),
}

impl Sample {
    /// So many of these leaves, those with the least hashes.
    pub(super) fn of(leaves: &[LeafRef], n_leaves: u64, seed: u64) -> Self {
        let n_leaves = usize::try_from(n_leaves).unwrap_or(usize::MAX);
        let hash = |path: &str| Sha256::digest(format!("{seed}:{path}"));
        let mut paths: Vec<String> = leaves.iter().map(LeafRef::path).collect();
        paths.sort_by_cached_key(|path| hash(path));
        Self::Some(paths.into_iter().take(n_leaves).collect())
    }

    fn has(&self, leaf: &LeafRef) -> bool {
        match self {
            Self::All => true,
            Self::Some(paths) => paths.contains(&leaf.path()),
        }
    }
}

/// What it saw.
#[derive(Debug, Default)]
pub(super) struct Surveyed {
    pub n_leaves: u64,
    pub n_uncommitted: u64,
    /// Whether the ladder was looked at, too.
    pub all_judged: bool,
}

/// What became of the leaves.
#[derive(Debug, Default)]
struct Seen {
    uncommitted: Vec<String>,
    other_law: Vec<LeafRef>,
    unhashed: Vec<LeafRef>,
    /// Columns of the law that was asked for.
    n_columns: u64,
    nodes: BTreeMap<u64, Node>,
}

impl Survey<'_> {
    /// Every artifact.
    ///
    /// # Errors
    /// Failed requests.
    pub(super) async fn all(&self) -> Result<Surveyed, LeafFault> {
        let leaves: Vec<LeafRef> = self.work.leaves().collect::<Result<_, _>>()?;
        let mut n_targets = 0;
        let plan = &self.verifier.ladder.template.plan;
        for level in &plan.levels {
            n_targets += self.work.targets(plan, level).count();
        }
        let watched = &self.verifier.watched;
        watched.expect((leaves.len() + n_targets) as u64);
        let mut seen = self.columns(&leaves).await?;
        self.each(
            std::mem::take(&mut seen.nodes).into_values(),
            |node| async move { Ok(nodes::check(self.verifier, &node).await?) },
        )
        .await?;
        let surveyed = Surveyed {
            n_leaves: leaves.len() as u64,
            n_uncommitted: seen.uncommitted.len() as u64,
            all_judged: false,
        };
        self.tell_uncommitted(&seen.uncommitted);
        if self.is_of_other_law(&seen) {
            return Ok(surveyed);
        }
        for level in &self.verifier.ladder.template.plan.levels {
            self.level(level).await?;
        }
        Ok(Surveyed {
            all_judged: true,
            ..surveyed
        })
    }

    async fn columns(&self, leaves: &[LeafRef]) -> Result<Seen, LeafFault> {
        let seen = Mutex::new(Seen::default());
        self.each(leaves.iter().cloned(), |leaf| {
            let seen = &seen;
            async move {
                let _piece = self.verifier.piece(leaf.column_path());
                let stands = column::stands(self.verifier, self.other_law, &leaf).await?;
                seen.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .note(&leaf, &stands);
                let path = leaf.column_path();
                match stands {
                    Stands::Column(column) => {
                        let refold = self.sample.has(&leaf);
                        let tallies = column::check(self.verifier, &column, refold).await?;
                        self.verifier.note(path, tallies);
                    }
                    Stands::Uncommitted { has_column: false } => {}
                    _ => self.verifier.note(path, None),
                }
                Ok(())
            }
        })
        .await?;
        Ok(seen.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn tell_uncommitted(&self, uncommitted: &[String]) {
        let Some(first) = uncommitted.iter().min() else {
            return;
        };
        let what = format!(
            "and {} other leaves of the run records are not committed",
            uncommitted.len() - 1
        );
        let cure = "if their workers are done, have them write these leaves again";
        let finding = Finding::new(Check::Uncommitted, first, &what, cure).warning();
        let count = uncommitted.len() as u64;
        self.verifier
            .findings
            .add(finding.differs(Some(0.into()), Some(count.into())));
    }

    /// Whether the columns are of the other fold law, which is told once for all of them.
    /// Without hashes a few columns are damaged, and all of them of the other law.
    fn is_of_other_law(&self, seen: &Seen) -> bool {
        let all_unhashed = seen.n_columns == 0;
        let mut columns: Vec<&LeafRef> = seen.other_law.iter().collect();
        if all_unhashed {
            columns.extend(&seen.unhashed);
        } else {
            for leaf in &seen.unhashed {
                let what = "is stamped without content hashes";
                let finding = Subject::column(leaf).finding(Check::ContentHash, what);
                self.verifier.findings.add(finding);
            }
        }
        let Some(first) = columns.iter().min() else {
            return false;
        };
        let (law, other) = match self.verifier.column().law {
            FoldLaw::Boundary => ("boundary", "raw"),
            FoldLaw::Raw => ("raw", "boundary"),
        };
        let what = format!(
            "and {} other columns are of the fold law {other}, so nothing above them was verified",
            columns.len() - 1
        );
        let cure = format!(
            "run `zagg-stream verify ROOT --fold-law {other}`, or write them anew with `zagg-stream upgrade ROOT --fold-law {law} --force`"
        );
        let mut finding = Finding::new(Check::FoldLaw, &first.column_path(), &what, &cure);
        finding.leaf = Some(first.path());
        self.verifier
            .findings
            .add(finding.differs(Some(law.into()), Some(other.into())));
        true
    }

    async fn level(&self, level: &Level) -> Result<(), LeafFault> {
        let plan = &self.verifier.ladder.template.plan;
        let targets = self.work.targets(plan, level);
        let targets: Vec<Arc<Target>> = targets
            .map(|target| target.map(Arc::new))
            .collect::<Result<_, WordError>>()?;
        let mut nodes: BTreeMap<u64, Node> = BTreeMap::new();
        for target in &targets {
            let artifact = &target.artifact;
            let node = nodes.entry(artifact.word).or_insert_with(|| Node {
                id: artifact.id.clone(),
                path: artifact.node.clone(),
                has_place: BTreeSet::new(),
            });
            node.has_place.insert(artifact.path());
        }
        let level = Arc::new(level.clone());
        self.each(targets, |target| {
            let level = level.clone();
            async move {
                let _piece = self.verifier.piece(target.artifact.path());
                ladder::check(self.verifier, &level, &target).await
            }
        })
        .await?;
        self.each(nodes.into_values(), |node| async move {
            Ok(nodes::check(self.verifier, &node).await?)
        })
        .await
    }

    /// Does something to each of these, `max_in_flight` at once.
    async fn each<T, Work>(
        &self,
        items: impl IntoIterator<Item = T>,
        work: impl FnMut(T) -> Work,
    ) -> Result<(), LeafFault>
    where
        Work: Future<Output = Result<(), LeafFault>>,
    {
        let at_once = self.verifier.ladder.run.settings.max_in_flight;
        stream::iter(items)
            .map(work)
            .buffer_unordered(at_once)
            .try_collect()
            .await
    }
}

impl Seen {
    fn note(&mut self, leaf: &LeafRef, stands: &Stands) {
        let node = self.nodes.entry(leaf.shard).or_insert_with(|| Node {
            id: leaf.id.clone(),
            path: leaf.node.clone(),
            has_place: BTreeSet::new(),
        });
        if !matches!(stands, Stands::Uncommitted { .. }) {
            node.has_place.insert(leaf.column_path());
        }
        match stands {
            Stands::Uncommitted { .. } => self.uncommitted.push(leaf.path()),
            Stands::OtherLaw => self.other_law.push(leaf.clone()),
            Stands::Unhashed => self.unhashed.push(leaf.clone()),
            Stands::Column(_) => self.n_columns += 1,
            Stands::Unsound => {}
        }
    }
}
