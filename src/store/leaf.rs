//! A leaf's arrays, opened and read window by window.
//!
//! In: a stamped leaf and the template of the pass. Out: the encoded tiles of
//! consecutive slabs of cells, every shard index read once and neighbouring tiles in
//! one request. Decoding is left to the fold thread. `format.md` sections 3 and 6.

mod open;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{try_join_all, try_join3};
use serde_json::{Map, Value};

use crate::kernels::cells::{Cells, FieldCells};
use crate::kernels::ragged::RaggedColumn;
use crate::kernels::tdigest::DigestColumn;
use crate::messages::LeafRef;
use crate::store::layout::{ArrayLayout, Tile, decoded_size};
use crate::store::leaf_error::{LeafError, LeafProblem};
use crate::store::template::ColumnTemplate;
use crate::store::{Root, windows};
use open::Opener;

/// Fewest cells of a slab: float sums are exact over aligned runs of this many.
const MIN_SLAB_CELLS: u64 = 256;

/// An array of a leaf and where its tiles are.
#[derive(Debug)]
struct LeafArray {
    name: String,
    layout: ArrayLayout,
    /// Written tiles in cell order.
    tiles: Vec<Tile>,
}

/// Which arrays of the leaf hold a declared field.
#[derive(Debug, Default)]
struct FieldArrays {
    payload: Option<LeafArray>,
    locations: Option<LeafArray>,
    times: Option<LeafArray>,
}

/// A leaf whose metadata was read and found as declared.
#[derive(Debug)]
pub(crate) struct OpenLeaf {
    /// Which leaf.
    pub leaf: LeafRef,
    /// Attributes of the leaf's group of cells.
    pub group_attributes: Map<String, Value>,
    template: Arc<ColumnTemplate>,
    fields: Vec<FieldArrays>,
    slab_cells: u64,
}

/// The encoded tiles of some consecutive slabs.
#[derive(Debug)]
pub(crate) struct Window {
    /// Cells covered, as ranks within the leaf.
    pub cells: Range<u64>,
    /// Per declared field and array, the tiles with their bytes.
    fields: Vec<[Vec<(Tile, Bytes)>; 3]>,
}

impl Window {
    /// Bytes the tiles will hold decoded, as far as their frames say.
    pub(crate) fn decoded_bytes(&self) -> u64 {
        self.tiles().map(|(_, bytes)| decoded_size(bytes)).sum()
    }

    /// Takes off the cells from `border` on, which is no cell within a tile.
    fn split_off(&mut self, border: u64) -> Self {
        let after = self.fields.iter_mut().map(|arrays| {
            arrays.each_mut().map(|tiles| {
                let at = tiles.partition_point(|(tile, _)| tile.cells.start < border);
                tiles.split_off(at)
            })
        });
        let after = Self {
            fields: after.collect(),
            cells: border..self.cells.end,
        };
        self.cells.end = border;
        after
    }

    fn tiles(&self) -> impl Iterator<Item = &(Tile, Bytes)> {
        self.fields.iter().flatten().flatten()
    }
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
        let opener = Opener {
            root,
            template: &template,
            leaf: leaf.path(),
            group: format!("{}/{}", leaf.path(), template.declaration.cell_order),
            n_cells: template.plan.leaf_cells(),
        };
        let fields = template
            .declaration
            .fields
            .iter()
            .map(|field| opener.field(field));
        let (group_attributes, morton, fields) = try_join3(
            opener.group_attributes(),
            opener.morton(),
            try_join_all(fields),
        )
        .await?;
        if !morton && fields.iter().all(|field| field.payload.is_none()) {
            return Err(LeafError::of_leaf(
                &opener.leaf,
                LeafProblem::NoArrays(template.declaration.cell_order.to_string()),
            ));
        }
        let slab_cells = slab_cells(&fields, opener.n_cells);
        Ok(Self {
            leaf,
            group_attributes,
            template,
            fields,
            slab_cells,
        })
    }

    /// Cuts the leaf into windows of about `target_bytes` encoded bytes, each a whole
    /// number of slabs, see [`windows::cut`].
    pub(crate) fn windows(&self, target_bytes: u64) -> Vec<Range<u64>> {
        let n_cells = self.template.plan.leaf_cells();
        let n_slabs = n_cells.div_ceil(self.slab_cells);
        let mut slab_bytes = vec![0u64; n_slabs as usize];
        for tile in self.arrays().flat_map(|array| &array.tiles) {
            let size = tile
                .bytes
                .as_ref()
                .map_or(0, |range| range.end - range.start);
            slab_bytes[(tile.cells.start / self.slab_cells) as usize] += size;
        }
        let slabs_per_block = (self.template.plan.block_cells() / self.slab_cells).max(1);
        let cells = |slab: usize| (slab as u64 * self.slab_cells).min(n_cells);
        windows::cut(&slab_bytes, slabs_per_block as usize, target_bytes)
            .into_iter()
            .map(|slabs| cells(slabs.start)..cells(slabs.end))
            .collect()
    }

    /// Encoded bytes of a window, from the shard indexes; objects that are one chunk
    /// count as nothing because their size is not known before they are read.
    pub(crate) fn indexed_bytes(&self, window: &Range<u64>) -> u64 {
        self.arrays()
            .flat_map(|array| tiles_of(array, window))
            .filter_map(|tile| tile.bytes.as_ref())
            .map(|range| range.end - range.start)
            .sum()
    }

    /// Fetches the tiles of a window.
    ///
    /// # Errors
    /// Failed requests.
    pub(crate) async fn fetch(&self, root: &Root, window: Range<u64>) -> Result<Window, LeafError> {
        let fields = self.fields.iter().map(|field| async {
            let fetch = |array| self.fetch_array(root, array, &window);
            let (payload, locations, times) = try_join3(
                fetch(field.payload.as_ref()),
                fetch(field.locations.as_ref()),
                fetch(field.times.as_ref()),
            )
            .await?;
            Ok([payload, locations, times])
        });
        Ok(Window {
            fields: try_join_all(fields).await?,
            cells: window,
        })
    }

    async fn fetch_array(
        &self,
        root: &Root,
        array: Option<&LeafArray>,
        window: &Range<u64>,
    ) -> Result<Vec<(Tile, Bytes)>, LeafError> {
        let Some(array) = array else {
            return Ok(Vec::new());
        };
        let failed = |error| LeafError::of_array(&self.leaf.path(), &array.name, error);
        let mut fetched = Vec::new();
        for tiles in tiles_of(array, window).chunk_by(|a, b| a.object == b.object) {
            let ranges: Option<Vec<Range<u64>>> =
                tiles.iter().map(|tile| tile.bytes.clone()).collect();
            let bodies = match ranges {
                Some(ranges) => root
                    .get_ranges(&tiles[0].object, &ranges)
                    .await
                    .map_err(failed)?,
                None => root
                    .get_if_present(&tiles[0].object)
                    .await
                    .map_err(failed)?
                    .into_iter()
                    .collect(),
            };
            fetched.extend(tiles.iter().cloned().zip(bodies));
        }
        Ok(fetched)
    }

    /// Whether a window lies within one block, or within one slab that spans several.
    pub(crate) fn is_one_block(&self, cells: &Range<u64>) -> bool {
        cells.start / self.unit_cells() == (cells.end - 1) / self.unit_cells()
    }

    fn unit_cells(&self) -> u64 {
        self.template.plan.block_cells().max(self.slab_cells)
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
            let fields = self.fields.iter().zip(&window.fields).enumerate();
            let cells = fields.map(|(i, (field, tiles))| self.field_cells(i, field, tiles, &slab));
            Ok((slab.clone(), cells.collect::<Result<_, LeafError>>()?))
        })
    }

    fn field_cells(
        &self,
        index: usize,
        field: &FieldArrays,
        [payload, locations, times]: &[Vec<(Tile, Bytes)>; 3],
        slab: &Range<u64>,
    ) -> Result<FieldCells, LeafError> {
        let Some(array) = &field.payload else {
            let n_cells = (slab.end - slab.start) as usize;
            return Ok(self.template.declaration.fields[index].fill_cells(n_cells));
        };
        match self.decode(array, payload, slab)? {
            Cells::Dense(bytes) => Ok(FieldCells::Dense(bytes)),
            Cells::Ragged(payload) => Ok(FieldCells::Digest(DigestColumn {
                payload,
                locations: self.companion(&field.locations, locations, slab)?,
                times: self.companion(&field.times, times, slab)?,
            })),
        }
    }

    /// Cells of a companion, which is ragged or was refused when it was opened.
    fn companion(
        &self,
        array: &Option<LeafArray>,
        tiles: &[(Tile, Bytes)],
        slab: &Range<u64>,
    ) -> Result<Option<RaggedColumn>, LeafError> {
        let Some(array) = array else { return Ok(None) };
        match self.decode(array, tiles, slab)? {
            Cells::Ragged(column) => Ok(Some(column)),
            Cells::Dense(_) => Ok(None),
        }
    }

    fn decode(
        &self,
        array: &LeafArray,
        tiles: &[(Tile, Bytes)],
        slab: &Range<u64>,
    ) -> Result<Cells, LeafError> {
        let first = tiles.partition_point(|(tile, _)| tile.cells.end <= slab.start);
        let mut cells = array.layout.no_cells();
        let mut next = slab.start;
        for (tile, bytes) in &tiles[first..] {
            if tile.cells.start >= slab.end {
                break;
            }
            array.layout.push_fill(&mut cells, tile.cells.start - next);
            let decoded = array
                .layout
                .decode(tile, bytes.clone())
                .map_err(|problem| LeafError::of_array(&self.leaf.path(), &array.name, problem))?;
            cells.append(decoded);
            next = tile.cells.end;
        }
        array.layout.push_fill(&mut cells, slab.end - next);
        Ok(cells)
    }

    fn arrays(&self) -> impl Iterator<Item = &LeafArray> {
        self.fields.iter().flat_map(|field| {
            field
                .payload
                .iter()
                .chain(&field.locations)
                .chain(&field.times)
        })
    }
}

/// The tiles of a window; tiles never straddle one, because slabs hold whole tiles.
fn tiles_of<'a>(array: &'a LeafArray, window: &Range<u64>) -> &'a [Tile] {
    let first = array
        .tiles
        .partition_point(|tile| tile.cells.end <= window.start);
    let end = array
        .tiles
        .partition_point(|tile| tile.cells.start < window.end);
    &array.tiles[first..end]
}

/// The fewest cells that hold whole tiles of every array; all of them when the
/// arrays' chunks do not nest.
fn slab_cells(fields: &[FieldArrays], n_cells: u64) -> u64 {
    let tiles: Vec<u64> = fields
        .iter()
        .flat_map(|field| {
            field
                .payload
                .iter()
                .chain(&field.locations)
                .chain(&field.times)
        })
        .map(|array| array.layout.tile_cells())
        .collect();
    let mut slab = MIN_SLAB_CELLS;
    while slab < n_cells {
        if tiles.iter().all(|tile| slab.is_multiple_of(*tile)) {
            return slab;
        }
        slab *= 4;
    }
    n_cells
}
