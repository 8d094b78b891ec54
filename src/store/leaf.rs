//! A leaf's arrays, opened and read window by window.
//!
//! In: a stamped leaf and the template of the pass. Out: the encoded tiles of
//! consecutive slabs of cells, cut where blocks end. `format.md` sections 3 and 6.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::kernels::cells::FieldCells;
use crate::messages::LeafRef;
use crate::store::group::{OpenGroup, Window};
use crate::store::leaf_error::{LeafError, LeafProblem};
use crate::store::template::ColumnTemplate;
use crate::store::{Root, windows};

/// Fewest cells of a slab: float sums are exact over aligned runs of this many.
const MIN_SLAB_CELLS: u64 = 256;

/// A leaf whose metadata was read and found as declared.
#[derive(Debug)]
pub(crate) struct OpenLeaf {
    /// Which leaf.
    pub leaf: LeafRef,
    group: OpenGroup,
    order: u8,
    block_cells: u64,
    slab_cells: u64,
}

impl OpenLeaf {
    /// Reads the metadata and the shard indexes of every declared array.
    ///
    /// # Errors
    /// The leaf read refusals of `format.md` section 6, damage, and failed requests.
    pub(crate) async fn open(
        root: &Root,
        template: Arc<ColumnTemplate>,
        leaf: LeafRef,
    ) -> Result<Self, LeafError> {
        let order = template.declaration.cell_order;
        let (n_cells, block_cells) = (template.plan.leaf_cells(), template.plan.block_cells());
        let group = OpenGroup::open(root, template, leaf.path(), order, n_cells).await?;
        if group.holds_nothing() {
            let problem = LeafProblem::NoArrays(order.to_string());
            return Err(LeafError::of_leaf(&group.artifact, problem));
        }
        Ok(Self {
            leaf,
            slab_cells: group.slab_cells(MIN_SLAB_CELLS),
            group,
            order,
            block_cells,
        })
    }

    /// The leaf with the sizes of all its objects known, so that they can be paid for before
    /// they are fetched, see [`OpenGroup::measure`].
    ///
    /// # Errors
    /// Failed listings.
    pub(crate) async fn measured(mut self, root: &Root) -> Result<Self, LeafError> {
        self.group.measure(root, self.order).await?;
        Ok(self)
    }

    /// Attributes of the leaf's group of cells.
    pub(crate) fn group_attributes(&self) -> &Map<String, Value> {
        &self.group.attributes
    }

    /// Cuts the leaf into windows of about `target_bytes` encoded bytes, each a whole
    /// number of slabs, see [`windows::cut`].
    pub(crate) fn windows(&self, target_bytes: u64) -> Vec<Range<u64>> {
        let slab_bytes = self.group.slab_bytes(self.slab_cells);
        let slabs_per_block = (self.block_cells / self.slab_cells).max(1);
        let cells = |slab: usize| (slab as u64 * self.slab_cells).min(self.group.n_cells);
        windows::cut(&slab_bytes, slabs_per_block as usize, target_bytes)
            .into_iter()
            .map(|slabs| cells(slabs.start)..cells(slabs.end))
            .collect()
    }

    /// Encoded bytes of a window, see [`OpenGroup::indexed_bytes`].
    pub(crate) fn indexed_bytes(&self, window: &Range<u64>) -> u64 {
        self.group.indexed_bytes(window)
    }

    /// Fetches the tiles of a window.
    ///
    /// # Errors
    /// Failed requests.
    pub(crate) async fn fetch(&self, root: &Root, window: Range<u64>) -> Result<Window, LeafError> {
        self.group.fetch(root, window).await
    }

    /// Whether a window lies within one block, or within one slab that spans several.
    pub(crate) fn is_one_block(&self, cells: &Range<u64>) -> bool {
        cells.start / self.unit_cells() == (cells.end - 1) / self.unit_cells()
    }

    fn unit_cells(&self) -> u64 {
        self.block_cells.max(self.slab_cells)
    }

    /// Cuts a fetched window where blocks end, so that each part can be paid for by itself.
    pub(crate) fn by_block(&self, window: Window) -> Vec<Window> {
        let unit = self.unit_cells();
        let mut parts = Vec::new();
        let mut rest = window;
        loop {
            let border = (rest.cells.start / unit + 1) * unit;
            if border >= rest.cells.end {
                parts.push(rest);
                return parts;
            }
            let after = rest.split_off(border);
            parts.push(std::mem::replace(&mut rest, after));
        }
    }

    /// Decodes a window slab by slab, in cell order.
    pub(crate) fn slabs(
        &self,
        window: Window,
    ) -> impl Iterator<Item = Result<(Range<u64>, Vec<FieldCells>), LeafError>> + '_ {
        let starts = window.cells.clone().step_by(self.slab_cells as usize);
        starts.map(move |start| {
            let slab = start..(start + self.slab_cells).min(window.cells.end);
            let cells = self.group.decode(&window, &slab)?;
            Ok((slab, cells))
        })
    }
}
