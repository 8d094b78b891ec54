//! Builds one artifact of the ladder: reads the columns of its children, folds, writes.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::{try_join, try_join_all};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::budget::Share;
use crate::error::LeafFault;
use crate::kernels::plan::cells_between;
use crate::kernels::words::morton;
use crate::ladder::Ladder;
use crate::ladder::children::{ChildColumn, Children, sum};
use crate::ladder::content::overview_hash;
use crate::ladder::fold::{Block, FoldedGroup, GroupFold, Piece};
use crate::ladder::generation::SourceChildren;
use crate::ladder::targets::Target;
use crate::ladder::template::{BLOCK_CELLS, Origin};
use crate::pyramid::{Level, Regime};
use crate::report::StageSeconds;
use crate::store::artifact::{ArtifactWriter, Sidecar, Tier};
use crate::store::group::OpenGroup;
use crate::store::leaf_error::{LeafError, LeafProblem};
use crate::store::stamp::NewStamp;
use crate::store::template::GroupTemplate;
use crate::store::{Held, Root, hash};

/// Groups of children opened at once for one artifact.
const OPENED_AT_ONCE: usize = 8;

/// Pieces paid for and not yet taken by the fold thread.
const PIECES_AHEAD: usize = 1;

/// Resident bytes for each decoded byte of a merge; see the fold of a leaf.
const RESIDENT_PER_MERGED_BYTE: u64 = 12;

/// The same where cells are only put one behind the other: decoded, and encoded.
const RESIDENT_PER_GATHERED_BYTE: u64 = 2;

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

/// What one of the artifact's groups folds from.
struct Sources {
    /// Order of the cells.
    order: u8,
    children: Vec<OpenChild>,
}

/// The opened groups of one child.
struct OpenChild {
    /// Packed morton word of the node.
    word: u64,
    /// Per window of the target; `None` where there is no column, or none to read.
    groups: Vec<Option<Arc<OpenGroup>>>,
}

impl Sources {
    fn groups(&self) -> impl Iterator<Item = &Arc<OpenGroup>> {
        self.children
            .iter()
            .flat_map(|child| &child.groups)
            .flatten()
    }

    /// Leaves out what is not of these columns.
    fn keep(&mut self, paths: &BTreeSet<String>) {
        for group in self.children.iter_mut().flat_map(|child| &mut child.groups) {
            let of_a_path = |group: &mut Arc<OpenGroup>| paths.contains(&group.artifact);
            *group = group.take_if(of_a_path);
        }
    }
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
        let mut sources = Vec::new();
        for group in self.groups() {
            sources.push(self.open(children, self.source_order(group)).await?);
        }
        let folded = folded_columns(children, &sources);
        // A column that one group cannot be read of is folded into none.
        let paths = folded.iter().map(|column| column.artifact.path()).collect();
        sources.iter_mut().for_each(|source| source.keep(&paths));
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
        let mut contents = Contents::default();
        for (index, sources) in sources.iter().enumerate() {
            self.write_group(&writer, index, sources, &attributes, &mut contents)
                .await?;
        }
        for column in &folded {
            if column.has_moved(&self.ladder.run.root).await? {
                return Ok(Built::Moved(column.artifact.path()));
            }
        }
        self.commit(&writer, children, &folded, contents).await
    }

    fn groups(&self) -> &[GroupTemplate] {
        let tier = self.target.artifact.tier;
        self.ladder.template.groups(&self.level, tier)
    }

    /// Order of the children's group that a group of the artifact folds from.
    fn source_order(&self, group: &GroupTemplate) -> u8 {
        match self.target.artifact.tier {
            Tier::Overview => self.level.source,
            Tier::Column => group.order,
        }
    }

    /// Opens the group of this order of every column.
    async fn open(&self, children: &Children, order: u8) -> Result<Sources, LeafFault> {
        let mut opened = Vec::with_capacity(self.target.children.len());
        for child in &self.target.children {
            let windows = self.target.windows.iter();
            let opens: Vec<_> = windows
                .map(|window| self.open_column(children.column(child.word, window), order))
                .collect();
            opened.push(OpenChild {
                word: child.word,
                groups: stream::iter(opens)
                    .buffered(OPENED_AT_ONCE)
                    .try_collect()
                    .await?,
            });
        }
        Ok(Sources {
            order,
            children: opened,
        })
    }

    /// A column whose payloads or companions are not there cannot be read for the level,
    /// and counts as such.
    async fn open_column(
        &self,
        column: Option<&ChildColumn>,
        order: u8,
    ) -> Result<Option<Arc<OpenGroup>>, LeafFault> {
        let Some(column) = column else {
            return Ok(None);
        };
        let path = column.artifact.path();
        let n_cells = cells_between(order, self.level.child_order);
        let template = self.ladder.template.column.clone();
        let root = &self.ladder.run.root;
        match OpenGroup::open(root, template, path.clone(), order, n_cells).await {
            Ok(group) => match group.absent_field() {
                None => Ok(Some(Arc::new(group))),
                Some(array) => {
                    tracing::warn!(
                        column = path,
                        array,
                        "not folded: a declared array is absent"
                    );
                    Ok(None)
                }
            },
            Err(error) if matches!(*error.problem, LeafProblem::CompanionAbsent { .. }) => {
                tracing::warn!(column = path, %error, "not folded");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Folds and writes one group, block by block.
    async fn write_group(
        &self,
        writer: &ArtifactWriter<'_>,
        index: usize,
        sources: &Sources,
        attributes: &Map<String, Value>,
        contents: &mut Contents,
    ) -> Result<(), LeafFault> {
        let documents = self.groups()[index].documents(attributes);
        writer.put_all(&documents).await?;
        let share = Arc::new(self.ladder.run.budget.share());
        let (piece_sender, pieces) = mpsc::channel(PIECES_AHEAD);
        let (block_sender, mut blocks) = mpsc::channel::<Block>(PIECES_AHEAD);
        let per_target = self.per_target(index, sources.order);
        let folding = {
            let (ladder, level, target) =
                (self.ladder.clone(), self.level.clone(), self.target.clone());
            let share = share.clone();
            tokio::task::spawn_blocking(move || {
                let group = &ladder.template.groups(&level, target.artifact.tier)[index];
                let fields = &ladder.template.column.declaration.fields;
                GroupFold::new(&target, group, fields, per_target)?.run(
                    pieces,
                    &block_sender,
                    &share,
                )
            })
        };
        let mut read = Duration::ZERO;
        let reading = self.read(sources, per_target, &share, piece_sender, &mut read);
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
        let ((), (wait, written)) = try_join(reading, writing).await?;
        let path = self.target.artifact.path();
        let folded = folding
            .await
            .map_err(|error| LeafError::panicked(&path, error))??;
        contents.add(folded, num_bytes(&documents) + written);
        contents.stages.read += read.as_secs_f64();
        contents.stages.write += wait.as_secs_f64();
        Ok(())
    }

    /// Source cells of all windows together in one target cell; `None` gathers.
    fn per_target(&self, index: usize, source_order: u8) -> Option<usize> {
        let n_windows = self.target.windows.len();
        let target_order = self.groups()[index].order;
        match self.target.regime {
            Regime::Gather => None,
            Regime::Merge => Some(cells_between(source_order, target_order) as usize * n_windows),
        }
    }

    /// Reads the children in order, those that are not there as fill. A fold that takes
    /// no more has refused the cells, and its answer says why.
    async fn read(
        &self,
        sources: &Sources,
        per_target: Option<usize>,
        share: &Share,
        pieces: mpsc::Sender<Piece>,
        read: &mut Duration,
    ) -> Result<(), LeafFault> {
        let n_child = cells_between(sources.order, self.level.child_order);
        let mut reader = Reader {
            root: &self.ladder.run.root,
            share,
            pieces: &pieces,
            n_windows: self.target.windows.len() as u64,
            per_target: per_target.map_or(1, |n| n as u64),
            is_merge: per_target.is_some(),
            next_cell: 0,
            read,
        };
        let mut opened = sources.children.iter().peekable();
        for word in morton::children(self.target.artifact.word, self.level.child_order)? {
            let child = opened.next_if(|child| child.word == word);
            let done = async {
                match child {
                    Some(child) => reader.child(child, n_child).await,
                    None => reader.absent(n_child).await,
                }
            };
            tokio::select! {
                done = done => done?,
                () = pieces.closed() => break,
            }
        }
        Ok(())
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
        let granule_count = Some(&sum.granule_count);
        let stamp = NewStamp {
            spec: column.stamp_spec(),
            cells_with_data: contents.cells_with_data,
            granule_count,
            content_hashes: column.stamps_hashes().then_some(&content_hashes),
            written_at: &written_at,
            window: column.windowed.then(|| artifact.label()),
            time_range: sum.time_range.as_ref(),
            run_id: Some(&run.run_id),
        };
        let sidecar = Sidecar {
            granule_count,
            content_hashes: &content_hashes,
            cells_with_data: contents.cells_with_data,
            timestamp: &written_at,
        };
        writer.commit(record, stamp.to_json(), &sidecar).await?;
        Ok(Built::Written {
            children: origin.children,
            num_bytes: contents.num_bytes,
            stages: contents.stages,
        })
    }
}

/// Reads source cells, pays for them, and hands them to the fold.
struct Reader<'a> {
    root: &'a Root,
    share: &'a Share,
    pieces: &'a mpsc::Sender<Piece>,
    n_windows: u64,
    per_target: u64,
    is_merge: bool,
    /// Source cells handed on so far, of all windows together.
    next_cell: u64,
    read: &'a mut Duration,
}

impl Reader<'_> {
    /// The cells of a child that is not there, which cost nothing to fold.
    async fn absent(&mut self, n_cells: u64) -> Result<(), LeafFault> {
        let mut left = n_cells;
        while left > 0 {
            let n_cells = left.min(BLOCK_CELLS);
            left -= n_cells;
            self.next_cell += n_cells * self.n_windows;
            // A fold that takes no more closes the channel, which ends the reading.
            let _ = self.pieces.send(Piece::Absent(n_cells)).await;
        }
        Ok(())
    }

    async fn child(&mut self, child: &OpenChild, n_cells: u64) -> Result<(), LeafFault> {
        let slab = child
            .groups
            .iter()
            .flatten()
            .map(|group| group.slab_cells(BLOCK_CELLS.min(n_cells)))
            .max();
        let Some(slab) = slab else {
            return self.absent(n_cells).await;
        };
        let mut start = 0;
        while start < n_cells {
            let cells = start..(start + slab).min(n_cells);
            start = cells.end;
            self.cells(child, cells).await?;
        }
        Ok(())
    }

    async fn cells(&mut self, child: &OpenChild, cells: Range<u64>) -> Result<(), LeafFault> {
        self.next_cell += (cells.end - cells.start) * self.n_windows;
        // What is paid for is given back with the target cell it is folded into.
        let tag = (self.next_cell - 1) / self.per_target;
        let groups = || child.groups.iter().flatten();
        let encoded = groups().map(|group| group.indexed_bytes(&cells)).sum();
        self.share.grow(tag, encoded).await;
        let asked = Instant::now();
        let fetches = child.groups.iter().map(|group| async {
            match group {
                Some(group) => {
                    let window = group.fetch(self.root, cells.clone()).await?;
                    Ok::<_, LeafError>(Some((group.clone(), window)))
                }
                None => Ok(None),
            }
        });
        let windows = try_join_all(fetches).await?;
        *self.read += asked.elapsed();
        let decoded: u64 = windows
            .iter()
            .flatten()
            .map(|(_, window)| window.decoded_bytes())
            .sum();
        let resident = match self.is_merge {
            true => RESIDENT_PER_MERGED_BYTE,
            false => RESIDENT_PER_GATHERED_BYTE,
        };
        self.share.grow(tag, decoded * resident).await;
        let _ = self.pieces.send(Piece::Cells { cells, windows }).await;
        Ok(())
    }
}

/// The columns that were folded into every group of the artifact.
fn folded_columns<'a>(children: &'a Children, sources: &[Sources]) -> Vec<&'a ChildColumn> {
    let in_all = |column: &&ChildColumn| {
        let path = column.artifact.path();
        sources
            .iter()
            .all(|source| source.groups().any(|group| group.artifact == path))
    };
    children.columns.iter().filter(in_all).collect()
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
