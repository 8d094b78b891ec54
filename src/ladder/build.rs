//! Builds one artifact of the ladder: reads the columns of its children, folds, writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::try_join;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::error::LeafFault;
use crate::ladder::Ladder;
use crate::ladder::children::{ChildColumn, Children, ROOTS_AT_ONCE, sum};
use crate::ladder::content::overview_hash;
use crate::ladder::fold::{Block, FoldedGroup};
use crate::ladder::generation::SourceChildren;
use crate::ladder::sources::{PIECES_AHEAD, Sources, TargetFold, folded_columns};
use crate::ladder::targets::Target;
use crate::ladder::template::Origin;
use crate::pyramid::Level;
use crate::report::StageSeconds;
use crate::store::artifact::{ArtifactWriter, Sidecar, Tier};
use crate::store::stamp::NewStamp;
use crate::store::{Held, hash};

/// Groups of one artifact folded and written at once.
const GROUPS_AT_ONCE: usize = 4;

/// What came of building an artifact.
#[derive(Debug)]
pub(crate) enum Built {
    /// It was written and stamped.
    Written {
        children: SourceChildren,
        num_bytes: u64,
        stages: StageSeconds,
    },
    /// No column could be folded.
    Empty,
    /// A column it read was rewritten meanwhile.
    Moved(String),
}

/// One artifact under construction.
pub(crate) struct Builder {
    pub ladder: Arc<Ladder>,
    pub level: Arc<Level>,
    pub target: Arc<Target>,
    pub held: Held,
}

/// What is known of an artifact once all of its groups are written.
#[derive(Default)]
struct Contents {
    hashes: Vec<(String, String)>,
    overview_hash: Option<String>,
    cells_with_data: u64,
    num_bytes: u64,
    stages: StageSeconds,
}

impl Contents {
    fn add(&mut self, folded: FoldedGroup, num_bytes: u64) {
        // The finest group comes first, and it is the one that counts.
        if self.hashes.is_empty() {
            self.cells_with_data = folded.cells_with_data;
            self.overview_hash = folded.overview_hash;
        }
        self.hashes.extend(folded.hashes);
        self.num_bytes += num_bytes;
        self.stages += folded.stages;
    }
}

impl Builder {
    /// Builds the artifact from these children.
    ///
    /// # Errors
    /// Failed requests, columns that cannot be decoded, and a lease that is no longer
    /// ours.
    pub(crate) async fn build(&self, children: &Children) -> Result<Built, LeafFault> {
        let fold = TargetFold {
            ladder: self.ladder.clone(),
            level: self.level.clone(),
            target: self.target.clone(),
        };
        let sources = fold.open_all(children).await?;
        let folded = folded_columns(children, &sources);
        let first = sources.iter().find_map(|source| source.groups().next());
        let Some(attributes) = first.map(|group| group.attributes.clone()) else {
            return Ok(Built::Empty);
        };
        let writer = ArtifactWriter {
            root: &self.ladder.run.root,
            held: &self.held,
            artifact: &self.target.artifact,
        };
        writer.begin().await?;
        let writes: Vec<_> = sources
            .iter()
            .enumerate()
            .map(|(index, sources)| self.write_group(&fold, &writer, index, sources, &attributes))
            .collect();
        let mut written = stream::iter(writes).buffered(GROUPS_AT_ONCE);
        let mut contents = Contents::default();
        while let Some((group, num_bytes)) = written.try_next().await? {
            contents.add(group, num_bytes);
        }
        if let Some(column) = self.moved(&folded).await? {
            return Ok(Built::Moved(column));
        }
        self.commit(&writer, children, &folded, contents).await
    }

    /// A column that is no longer what it was when it was first read.
    async fn moved(&self, columns: &[&ChildColumn]) -> Result<Option<String>, LeafFault> {
        let (root, template) = (&self.ladder.run.root, &self.ladder.template);
        let checks: Vec<_> = columns
            .iter()
            .map(|column| async move {
                let has_moved = column.has_moved(root, template).await?;
                Ok::<_, LeafFault>(has_moved.then(|| column.artifact.path()))
            })
            .collect();
        let moved: Vec<Option<String>> = stream::iter(checks)
            .buffered(ROOTS_AT_ONCE)
            .try_collect()
            .await?;
        Ok(moved.into_iter().flatten().next())
    }

    /// Folds and writes one group, block by block; how many bytes.
    async fn write_group(
        &self,
        fold: &TargetFold,
        writer: &ArtifactWriter<'_>,
        index: usize,
        sources: &Sources,
        attributes: &Map<String, Value>,
    ) -> Result<(FoldedGroup, u64), LeafFault> {
        let documents = fold.groups()[index].documents(attributes);
        writer.put_all(&documents).await?;
        let (block_sender, mut blocks) = mpsc::channel::<Block>(PIECES_AHEAD);
        let mut read = Duration::ZERO;
        let folding = fold.fold_group(index, sources, block_sender, &mut read);
        let writing = async {
            let (mut wait, mut written) = (Duration::ZERO, 0);
            while let Some(block) = blocks.recv().await {
                let started = Instant::now();
                written += num_bytes(&block);
                writer.put_all(&block).await?;
                wait += started.elapsed();
            }
            Ok::<_, LeafFault>((wait, written))
        };
        let (mut folded, (wait, written)) = try_join(folding, writing).await?;
        folded.stages.read += read.as_secs_f64();
        folded.stages.write += wait.as_secs_f64();
        Ok((folded, num_bytes(&documents) + written))
    }

    /// Puts record, stamp and sidecar.
    async fn commit(
        &self,
        writer: &ArtifactWriter<'_>,
        children: &Children,
        folded: &[&ChildColumn],
        contents: Contents,
    ) -> Result<Built, LeafFault> {
        let (template, run) = (&self.ladder.template, &self.ladder.run);
        let artifact = &self.target.artifact;
        let sum = sum(folded.iter().copied());
        let origin = Origin {
            regime: self.target.regime,
            generation: sum.generation,
            children: count_children(&self.target, children, folded),
        };
        let content_hash = match (artifact.tier, contents.overview_hash) {
            (Tier::Column, _) => None,
            (Tier::Overview, Some(hash)) => Some(hash),
            (Tier::Overview, None) => {
                Some(overview_hash(run, template, &self.level, artifact).await?)
            }
        };
        let hash = content_hash.as_deref();
        let record = template.record(
            &self.level,
            artifact,
            &origin,
            hash,
            &run.run_id,
            &run.now(),
        );
        let written_at = run.now();
        let content_hashes = hash::document(contents.hashes);
        let column = &template.column;
        let stamp = NewStamp {
            spec: column.stamp_spec(),
            cells_with_data: contents.cells_with_data,
            granule_count: sum.granule_count,
            content_hashes: column.stamps_hashes().then_some(&content_hashes),
            written_at: &written_at,
            window: column.windowed.then(|| artifact.label()),
            time_range: sum.time_range.as_ref(),
            run_id: Some(&run.run_id),
        };
        let sidecar = Sidecar {
            granule_count: sum.granule_count,
            content_hashes: &content_hashes,
            cells_with_data: contents.cells_with_data,
            timestamp: &written_at,
        };
        // What it was folded from has just been looked at.
        let last_look = std::future::ready(Ok(()));
        let stamp = stamp.to_json();
        writer.commit(record, stamp, &sidecar, last_look).await?;
        Ok(Built::Written {
            children: origin.children,
            num_bytes: contents.num_bytes,
            stages: contents.stages,
        })
    }
}

fn count_children(target: &Target, children: &Children, folded: &[&ChildColumn]) -> SourceChildren {
    let is_folded = |word: u64| folded.iter().any(|column| column.artifact.word == word);
    let n_folded = target
        .children
        .iter()
        .filter(|child| is_folded(child.word))
        .count() as u64;
    SourceChildren {
        folded: n_folded,
        missing: children.missing,
        unreadable: target.children.len() as u64 - n_folded - children.missing,
    }
}

fn num_bytes(objects: &[(String, Bytes)]) -> u64 {
    objects.iter().map(|(_, bytes)| bytes.len() as u64).sum()
}
