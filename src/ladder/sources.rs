//! The columns an artifact of the ladder folds from, opened, read and folded: the same for
//! who writes the artifact and for who verifies it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::mpsc;

use crate::budget::Share;
use crate::error::LeafFault;
use crate::kernels::plan::cells_between;
use crate::kernels::words::morton;
use crate::ladder::Ladder;
use crate::ladder::children::{ChildColumn, Children};
use crate::ladder::fold::{Block, FoldedGroup, GroupFold, Piece};
use crate::ladder::targets::Target;
use crate::ladder::template::BLOCK_CELLS;
use crate::pyramid::{Level, Regime};
use crate::store::Root;
use crate::store::artifact::Tier;
use crate::store::group::OpenGroup;
use crate::store::leaf_error::{LeafError, LeafProblem};
use crate::store::template::GroupTemplate;

/// Groups of children opened at once for one group of an artifact.
const OPENED_AT_ONCE: usize = 16;

/// Pieces paid for and not yet taken by the fold thread.
pub(crate) const PIECES_AHEAD: usize = 1;

/// Pieces of one group fetched at once: all children of a node, when they are small.
const FETCHED_AT_ONCE: usize = 4;

/// Resident bytes for each decoded byte of a merge; see the fold of a leaf.
const RESIDENT_PER_MERGED_BYTE: u64 = 12;

/// The same where cells are only put one behind the other: decoded, and encoded.
const RESIDENT_PER_GATHERED_BYTE: u64 = 2;

/// What one of the artifact's groups folds from.
pub(crate) struct Sources {
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
    /// The opened groups of every child.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Arc<OpenGroup>> {
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

/// How one artifact is folded.
pub(crate) struct TargetFold {
    pub ladder: Arc<Ladder>,
    pub level: Arc<Level>,
    pub target: Arc<Target>,
}

impl TargetFold {
    /// The groups of the artifact, finest first.
    pub(crate) fn groups(&self) -> &[GroupTemplate] {
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

    /// Opens, for every group of the artifact, what it folds from.
    ///
    /// # Errors
    /// Failed requests, and groups that are not as declared.
    pub(crate) async fn open_all(&self, children: &Children) -> Result<Vec<Sources>, LeafFault> {
        let groups = self.groups().iter();
        let opens = groups.map(|group| self.open(children, self.source_order(group)));
        let mut sources = try_join_all(opens).await?;
        // A column that one group cannot be read of is folded into none.
        let folded = folded_columns(children, &sources);
        let paths = folded.iter().map(|column| column.artifact.path()).collect();
        sources.iter_mut().for_each(|source| source.keep(&paths));
        Ok(sources)
    }

    /// Opens the group of this order of every column.
    async fn open(&self, children: &Children, order: u8) -> Result<Sources, LeafFault> {
        let windows = &self.target.windows;
        let opens: Vec<_> = self
            .target
            .children
            .iter()
            .flat_map(|child| windows.iter().map(|window| (child.word, window)))
            .map(|(word, window)| self.open_column(children.column(word, window), order))
            .collect();
        let opened: Vec<Option<Arc<OpenGroup>>> = stream::iter(opens)
            .buffered(OPENED_AT_ONCE)
            .try_collect()
            .await?;
        let mut opened = opened.into_iter();
        let children = self.target.children.iter().map(|child| OpenChild {
            word: child.word,
            groups: opened.by_ref().take(windows.len()).collect(),
        });
        Ok(Sources {
            order,
            children: children.collect(),
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

    /// Folds one group of the artifact and hands its objects on, block by block; the time
    /// its requests take is added to `read`.
    ///
    /// # Errors
    /// Failed requests, and columns that cannot be decoded.
    pub(crate) async fn fold_group(
        &self,
        index: usize,
        sources: &Sources,
        blocks: mpsc::Sender<Block>,
        read: &mut Duration,
    ) -> Result<FoldedGroup, LeafFault> {
        let share = Arc::new(self.ladder.run.budget.share());
        let (piece_sender, pieces) = mpsc::channel(PIECES_AHEAD);
        let per_target = self.per_target(index, sources.order);
        let folding = {
            let (ladder, level, target) =
                (self.ladder.clone(), self.level.clone(), self.target.clone());
            let share = share.clone();
            tokio::task::spawn_blocking(move || {
                let group = &ladder.template.groups(&level, target.artifact.tier)[index];
                let fields = &ladder.template.column.declaration.fields;
                let fold = GroupFold::new(&target, group, fields, per_target)?;
                fold.run(pieces, &blocks, &share, &ladder.run.cores)
            })
        };
        self.read(sources, per_target, &share, piece_sender, read)
            .await?;
        let path = self.target.artifact.path();
        folding
            .await
            .map_err(|error| LeafError::panicked(&path, error))?
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
        let reader = Reader {
            root: &self.ladder.run.root,
            share,
            is_merge: per_target.is_some(),
        };
        let parts = self.parts(sources, per_target.map_or(1, |n| n as u64))?;
        let fetches: Vec<_> = parts.into_iter().map(|part| reader.fetch(part)).collect();
        let mut fetched = stream::iter(fetches).buffered(FETCHED_AT_ONCE);
        let read_and_pass_on = async {
            while let Some((piece, took)) = fetched.try_next().await? {
                *read += took;
                // A fold that takes no more closes the channel, which ends this below.
                let _ = pieces.send(piece).await;
            }
            Ok(())
        };
        tokio::select! {
            done = read_and_pass_on => done,
            () = pieces.closed() => Ok(()),
        }
    }

    /// Cuts the children into the parts they are read in, `per_target` source cells of all
    /// windows together making a target cell.
    fn parts<'a>(&self, sources: &'a Sources, per_target: u64) -> Result<Vec<Part<'a>>, LeafFault> {
        let n_child = cells_between(sources.order, self.level.child_order);
        let n_windows = self.target.windows.len() as u64;
        let mut opened = sources.children.iter().peekable();
        let mut parts = Vec::new();
        let mut n_before = 0;
        for word in morton::children(self.target.artifact.word, self.level.child_order)? {
            let child = opened.next_if(|child| child.word == word);
            let slab = child.and_then(|child| child.slab_cells(n_child));
            for start in (0..n_child).step_by(slab.unwrap_or(BLOCK_CELLS) as usize) {
                let cells = start..(start + slab.unwrap_or(BLOCK_CELLS)).min(n_child);
                n_before += (cells.end - cells.start) * n_windows;
                parts.push(Part {
                    child: child.filter(|_| slab.is_some()),
                    // What is paid for is given back with the target cell it is folded into.
                    tag: (n_before - 1) / per_target,
                    cells,
                });
            }
        }
        Ok(parts)
    }
}

impl OpenChild {
    /// The fewest cells that hold whole tiles of every column; `None` without columns.
    fn slab_cells(&self, n_cells: u64) -> Option<u64> {
        let groups = self.groups.iter().flatten();
        let slabs = groups.map(|group| group.slab_cells(BLOCK_CELLS.min(n_cells)));
        slabs.max()
    }
}

/// Cells of a child that are read together.
struct Part<'a> {
    /// `None` when it has no column.
    child: Option<&'a OpenChild>,
    cells: Range<u64>,
    /// What its bytes are held for, see [`Share`].
    tag: u64,
}

/// Reads source cells, once they are paid for.
struct Reader<'a> {
    root: &'a Root,
    share: &'a Share,
    is_merge: bool,
}

impl Reader<'_> {
    /// The cells of a part, and how long its requests took. Those of a child that is not
    /// there cost nothing.
    async fn fetch(&self, part: Part<'_>) -> Result<(Piece, Duration), LeafFault> {
        let Part { child, cells, tag } = part;
        let Some(child) = child else {
            return Ok((Piece::Absent(cells.end - cells.start), Duration::ZERO));
        };
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
        let took = asked.elapsed();
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
        Ok((Piece::Cells { cells, windows }, took))
    }
}

/// The columns that were folded into every group of the artifact.
pub(crate) fn folded_columns<'a>(
    children: &'a Children,
    sources: &[Sources],
) -> Vec<&'a ChildColumn> {
    let in_all = |column: &&ChildColumn| {
        let path = column.artifact.path();
        sources
            .iter()
            .all(|source| source.groups().any(|group| group.artifact == path))
    };
    children.columns.iter().filter(in_all).collect()
}
