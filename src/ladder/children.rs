//! The columns an artifact of the ladder folds from, as their root documents tell.

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;

use crate::error::LeafFault;
use crate::ladder::generation::{Generation, union_time_range};
use crate::ladder::targets::Target;
use crate::ladder::template::LadderTemplate;
use crate::store::Root;
use crate::store::artifact::{Artifact, Tier};
use crate::store::stamp::{ArtifactRoot, Stamp};

/// Root documents of one artifact's children read at once.
pub(crate) const ROOTS_AT_ONCE: usize = 16;

/// A stamped column of a child.
#[derive(Debug, Clone)]
pub(crate) struct ChildColumn {
    /// Where it stands.
    pub artifact: Artifact,
    /// Its stamp when it was first read.
    pub stamp: Stamp,
    /// What it goes back to.
    pub generation: Generation,
}

/// The children of one artifact.
#[derive(Debug, Clone, Default)]
pub(crate) struct Children {
    /// The stamped columns, in word order and window order.
    pub columns: Vec<ChildColumn>,
    /// Child nodes without any.
    pub missing: u64,
}

/// What the stamps of several columns make together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sum {
    /// Leaves, sweeps and times.
    pub generation: Generation,
    /// Sum of the granules.
    pub granule_count: u64,
    /// Union of the time ranges.
    pub time_range: Option<Value>,
}

impl Children {
    /// Reads the root document of every column the target folds from. A column of another
    /// declaration is none.
    ///
    /// # Errors
    /// Failed requests, and words that name no cell.
    pub(crate) async fn read(
        root: &Root,
        template: &LadderTemplate,
        target: &Target,
    ) -> Result<Self, LeafFault> {
        let columns = target.children.iter().flat_map(|child| {
            let windows = child.windows.iter();
            windows.map(|window| Artifact::new(Tier::Column, child.word, window.clone()))
        });
        let columns: Vec<Artifact> = columns.collect::<Result<_, _>>()?;
        let reads: Vec<_> = columns
            .into_iter()
            .map(|artifact| ChildColumn::read(root, template, artifact))
            .collect();
        let found: Vec<Option<ChildColumn>> = stream::iter(reads)
            .buffered(ROOTS_AT_ONCE)
            .try_collect()
            .await?;
        let columns: Vec<ChildColumn> = found.into_iter().flatten().collect();
        let has_column = |word: u64| columns.iter().any(|column| column.artifact.word == word);
        let missing = target.children.iter();
        Ok(Self {
            missing: missing.filter(|child| !has_column(child.word)).count() as u64,
            columns,
        })
    }

    /// The column of a child and window.
    pub(crate) fn column(&self, word: u64, window: &Option<String>) -> Option<&ChildColumn> {
        let of = |column: &&ChildColumn| {
            column.artifact.word == word && column.artifact.window == *window
        };
        self.columns.iter().find(of)
    }
}

impl ChildColumn {
    /// Reads the root document of a column; `None` when it is absent, unstamped, or of
    /// another declaration.
    async fn read(
        root: &Root,
        template: &LadderTemplate,
        artifact: Artifact,
    ) -> Result<Option<Self>, LeafFault> {
        let document = ArtifactRoot::read(root, &artifact).await?;
        let stamped = document.as_ref().and_then(ArtifactRoot::stamped);
        let declared = stamped.filter(|(record, _)| template.declares(&artifact, record));
        Ok(declared.map(|(record, stamp)| {
            let recorded = record.get("generation").and_then(Generation::parse);
            let mut generation =
                recorded.unwrap_or_else(|| Generation::of_leaf_column(stamp.written_at()));
            if let Some(run_id) = stamp.run_id() {
                generation.add_run(run_id);
            }
            Self {
                artifact,
                stamp,
                generation,
            }
        }))
    }

    /// Whether the column is no longer what it was when it was first read.
    ///
    /// # Errors
    /// Failed requests.
    pub(crate) async fn has_moved(
        &self,
        root: &Root,
        template: &LadderTemplate,
    ) -> Result<bool, LeafFault> {
        let now = Self::read(root, template, self.artifact.clone()).await?;
        Ok(now.is_none_or(|now| now.stamp != self.stamp))
    }
}

/// What these columns make together.
pub(crate) fn sum<'a>(columns: impl IntoIterator<Item = &'a ChildColumn>) -> Sum {
    let mut sum = Sum::default();
    for column in columns {
        sum.generation.add(&column.generation);
        let granules = column.stamp.granule_count();
        sum.granule_count = sum.granule_count.saturating_add(granules);
        sum.time_range = union_time_range(sum.time_range.as_ref(), column.stamp.time_range());
    }
    sum
}
