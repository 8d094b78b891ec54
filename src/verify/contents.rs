//! What the arrays of an artifact hold: decoded block by block, hashed and reckoned.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::finding::{Check, Subject};
use super::tally::Tally;
use super::verifier::Verifier;
use crate::error::LeafFault;
use crate::kernels::cells::{Cells, CellsRef, FieldCells};
use crate::kernels::level::{LevelFold, cells_with_data};
use crate::kernels::plan::cells_between;
use crate::kernels::words::morton;
use crate::ladder::content::overview_hash;
use crate::ladder::template::BLOCK_CELLS;
use crate::pyramid::{Field, FieldClass, Level};
use crate::store::artifact::{Artifact, Tier};
use crate::store::group::{OpenGroup, Window};
use crate::store::hash::{ArrayHash, OverviewHash, of_cells};
use crate::store::leaf_error::{LeafError, LeafProblem};
use crate::store::template::{ColumnTemplate, GroupTemplate, MORTON};

/// Resident bytes for each decoded byte: as bytes, and as cells.
const RESIDENT_PER_DECODED_BYTE: u64 = 2;

/// Hashes of decoded arrays, by their path below the artifact.
pub(super) type Hashes = BTreeMap<String, String>;

/// What each field comes to, by the order of the group.
pub(super) type Tallies = BTreeMap<u8, Vec<Tally>>;

/// What an artifact holds, as far as it decodes.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Hashes of the arrays.
    pub hashes: Hashes,
    /// The overview hash of the finest group.
    pub overview_hash: Option<String>,
    /// Cells of the finest group that hold anything.
    pub cells_with_data: u64,
    /// What the fields come to.
    pub tallies: Tallies,
    /// Whether every group could be read.
    pub is_whole: bool,
    /// The cells of the boundary's group, which the coarser ones fold from.
    boundary: Option<Vec<FieldCells>>,
}

impl Contents {
    /// Reads every group of an artifact; what does not decode is found.
    ///
    /// # Errors
    /// Failed requests.
    pub(super) async fn read(
        verifier: &Verifier,
        subject: &Subject,
        artifact: &Artifact,
        level: Option<&Level>,
        groups: &[GroupTemplate],
    ) -> Result<Self, LeafFault> {
        let mut contents = Self {
            is_whole: true,
            ..Self::default()
        };
        for (index, group) in groups.iter().enumerate() {
            let read = read_group(verifier, artifact, group).await;
            let mut state = match read {
                Ok(read) => read,
                Err(fault) => {
                    verifier.findings.add(subject.damage(fault)?);
                    contents.is_whole = false;
                    continue;
                }
            };
            if let Some((expected, got)) = state.foreign_word {
                let what = format!(
                    "has a word in group `{}` that is not the node's",
                    group.order
                );
                let finding = subject.finding(Check::Words, &what);
                let finding = finding.array(&format!("{}/{MORTON}", group.order));
                verifier
                    .findings
                    .add(finding.differs(Some(expected.into()), got.map(Into::into)));
            }
            if index == 0 {
                contents.cells_with_data = state.cells_with_data;
                contents.overview_hash = match (artifact.tier, state.overview_hash.take(), level) {
                    (Tier::Overview, None, Some(level)) => {
                        let ladder = &verifier.ladder;
                        Some(overview_hash(&ladder.run, &ladder.template, level, artifact).await?)
                    }
                    (_, hash, _) => hash,
                };
            }
            contents.boundary = contents.boundary.or(state.kept.take());
            let hashes = state.hashes.into_iter();
            contents.hashes.extend(
                hashes.map(|(name, hash)| (format!("{}/{name}", group.order), hash.finish())),
            );
            contents.tallies.insert(group.order, state.tallies);
        }
        Ok(contents)
    }

    /// Hashes of what the groups of a column coarser than the boundary must hold, folded
    /// anew from the boundary's own; only arrays whose fold from there is that from the
    /// leaf.
    ///
    /// # Errors
    /// When the boundary's cells break a law.
    pub(super) fn refold_coarser(&self, column: &ColumnTemplate) -> Result<Hashes, LeafProblem> {
        let fields = &column.declaration.fields;
        let (Some(boundary), Some(cells)) = (column.plan.boundary, &self.boundary) else {
            return Ok(Hashes::new());
        };
        let mut hashes = Hashes::new();
        for group in column.groups.iter().filter(|group| group.order < boundary) {
            let per_target = cells_between(boundary, group.order) as usize;
            let mut fold = LevelFold::new(fields, per_target)?;
            fold.push(cells)?;
            let (_, folded) = fold.finish()?;
            for ((field, members), cells) in fields.iter().zip(&group.fields).zip(&folded) {
                if !folds_on(field) {
                    continue;
                }
                for (array, cells) in members.arrays().zip(cells.arrays()) {
                    hashes.insert(format!("{}/{}", group.order, array.name), of_cells(cells));
                }
            }
        }
        Ok(hashes)
    }
}

/// Whether a field folded twice is what it is folded once: not a sum of floats, and not a
/// sum that could equal its fill.
fn folds_on(field: &Field) -> bool {
    !matches!(field.class, FieldClass::Exact(_)) || Tally::none(field) != Tally::Nothing
}

/// One group under way.
struct GroupState {
    column: Arc<ColumnTemplate>,
    /// Names of the arrays of each field, payload first.
    names: Vec<Vec<String>>,
    words: morton::Children,
    n_cells: u64,
    overview: (String, u8, u8),
    hashes: BTreeMap<String, ArrayHash>,
    tallies: Vec<Tally>,
    cells_with_data: u64,
    /// The hash of an overview that was resident as a whole.
    overview_hash: Option<String>,
    /// Whether the cells are wanted: they are few, those of the boundary's group.
    keeps: bool,
    kept: Option<Vec<FieldCells>>,
    /// The first word that is not the node's, and what is due there.
    foreign_word: Option<(u64, Option<u64>)>,
}

async fn read_group(
    verifier: &Verifier,
    artifact: &Artifact,
    group: &GroupTemplate,
) -> Result<GroupState, LeafFault> {
    let (run, column) = (&verifier.ladder.run, verifier.column().clone());
    let open = OpenGroup::open(
        &run.root,
        column,
        artifact.path(),
        group.order,
        group.n_cells,
    )
    .await?
    .with_words(&run.root, group.order)
    .await?;
    let open = Arc::new(open);
    let share = run.budget.share();
    let slab = open.slab_cells(BLOCK_CELLS.min(group.n_cells));
    let mut state = GroupState::new(verifier, artifact, group)?;
    for (block, start) in (0..group.n_cells).step_by(slab as usize).enumerate() {
        let (block, cells) = (block as u64, start..(start + slab).min(group.n_cells));
        share.grow(block, open.indexed_bytes(&cells)).await;
        let window = open.fetch(&run.root, cells.clone()).await?;
        let resident = window.decoded_bytes() * RESIDENT_PER_DECODED_BYTE;
        share.grow(block, resident).await;
        let words = open.read_array(&run.root, MORTON, cells.clone()).await?;
        let taking = {
            let open = open.clone();
            tokio::task::spawn_blocking(move || {
                state.take(&open, &window, &cells, &words)?;
                Ok::<_, LeafError>(state)
            })
        };
        let path = artifact.path();
        state = taking
            .await
            .map_err(|error| LeafError::panicked(&path, error))??;
        share.release_through(block);
    }
    Ok(state)
}

impl GroupState {
    fn new(
        verifier: &Verifier,
        artifact: &Artifact,
        group: &GroupTemplate,
    ) -> Result<Self, LeafFault> {
        let names = group.fields.iter().map(|members| {
            let names = members.arrays().map(|array| array.name.clone());
            names.collect()
        });
        let order = morton::order(artifact.word)?;
        let column = verifier.column().clone();
        Ok(Self {
            names: names.collect(),
            words: morton::children(artifact.word, group.order)?,
            n_cells: group.n_cells,
            overview: (artifact.id.clone(), order, group.order),
            hashes: BTreeMap::new(),
            tallies: column.declaration.fields.iter().map(Tally::none).collect(),
            cells_with_data: 0,
            overview_hash: None,
            keeps: column.plan.boundary == Some(group.order) && order == column.plan.shard_order,
            kept: None,
            foreign_word: None,
            column,
        })
    }

    /// Takes a block of cells.
    fn take(
        &mut self,
        open: &OpenGroup,
        window: &Window,
        cells: &Range<u64>,
        words: &Cells,
    ) -> Result<(), LeafError> {
        let n_cells = (cells.end - cells.start) as usize;
        let fields = &self.column.declaration.fields;
        let folded = open.decode(window, cells)?;
        for (tally, (field, cells)) in self.tallies.iter_mut().zip(fields.iter().zip(&folded)) {
            tally.push(field, cells);
        }
        self.cells_with_data += cells_with_data(fields, &folded, n_cells);
        let mut arrays = BTreeMap::new();
        for (names, cells) in self.names.iter().zip(&folded) {
            for (name, cells) in names.iter().zip(cells.arrays()) {
                self.hashes.entry(name.clone()).or_default().update(cells);
                arrays.insert(name.as_str(), cells);
            }
        }
        let is_whole = n_cells as u64 == self.n_cells;
        if is_whole {
            let (id, order, cells) = &self.overview;
            let mut hash = OverviewHash::new(id, *order, *cells);
            for (name, cells) in &arrays {
                hash.array(name);
                hash.update(*cells);
            }
            self.overview_hash = Some(hash.finish());
        }
        self.take_words(n_cells, words);
        self.kept = (is_whole && self.keeps).then_some(folded);
        Ok(())
    }

    fn take_words(&mut self, n_cells: usize, words: &Cells) {
        let Cells::Dense(bytes) = words else { return };
        let hash = self.hashes.entry(MORTON.to_owned()).or_default();
        hash.update(CellsRef::Dense(bytes));
        let mut found = bytes.as_chunks().0.iter();
        for due in self.words.by_ref().take(n_cells) {
            let found = found.next().map(|word| u64::from_le_bytes(*word));
            if self.foreign_word.is_none() && found != Some(due) {
                self.foreign_word = Some((due, found));
            }
        }
    }
}
