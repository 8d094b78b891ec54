//! The arrays of one group of an artifact: a leaf's cells, or a group of a column.
//!
//! In: an artifact's path and the declared fields. Out: the encoded tiles of consecutive
//! cells, every shard index read once and neighbouring tiles in one request; and the
//! cells they decode to, which is left to the fold threads. `format.md` sections 3 and 6.

mod open;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::{try_join_all, try_join3};
use serde_json::{Map, Value};

use crate::kernels::cells::{Cells, FieldCells};
use crate::kernels::ragged::RaggedColumn;
use crate::kernels::tdigest::DigestColumn;
use crate::store::Root;
use crate::store::layout::{ArrayLayout, Tile, decoded_size};
use crate::store::leaf_check::Role;
use crate::store::leaf_error::LeafError;
use crate::store::template::{ColumnTemplate, MORTON};
use open::Opener;

/// An array of a group and where its tiles are.
#[derive(Debug)]
struct GroupArray {
    name: String,
    layout: ArrayLayout,
    /// Written tiles in cell order.
    tiles: Vec<Tile>,
}

/// Which arrays of the group hold a declared field.
#[derive(Debug, Default)]
struct FieldArrays {
    payload: Option<GroupArray>,
    locations: Option<GroupArray>,
    times: Option<GroupArray>,
}

impl FieldArrays {
    fn arrays(&self) -> impl Iterator<Item = &GroupArray> {
        self.payload
            .iter()
            .chain(&self.locations)
            .chain(&self.times)
    }

    fn arrays_mut(&mut self) -> impl Iterator<Item = &mut GroupArray> {
        self.payload
            .iter_mut()
            .chain(&mut self.locations)
            .chain(&mut self.times)
    }
}

/// A group whose metadata was read and found as declared.
#[derive(Debug)]
pub(crate) struct OpenGroup {
    /// Path of the artifact below the root.
    pub artifact: String,
    /// Number of the group's cells.
    pub n_cells: u64,
    /// Attributes of the group.
    pub attributes: Map<String, Value>,
    /// Whether the group stores its cell words.
    has_morton: bool,
    /// The cell words, when they were asked for.
    words: Option<GroupArray>,
    template: Arc<ColumnTemplate>,
    fields: Vec<FieldArrays>,
}

/// The encoded tiles of some consecutive cells.
#[derive(Debug)]
pub(crate) struct Window {
    /// Cells covered, as ranks within the group.
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
    pub(crate) fn split_off(&mut self, border: u64) -> Self {
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

impl OpenGroup {
    /// Reads the metadata and the shard indexes of every declared array in the group of
    /// `n_cells` cells of `order`.
    ///
    /// # Errors
    /// The read refusals of `format.md` section 6, damage, and failed requests.
    pub(crate) async fn open(
        root: &Root,
        template: Arc<ColumnTemplate>,
        artifact: String,
        order: u8,
        n_cells: u64,
    ) -> Result<Self, LeafError> {
        let opener = Opener {
            root,
            order,
            group: format!("{artifact}/{order}"),
            artifact,
            n_cells,
        };
        let fields = &template.declaration.fields;
        let (attributes, has_morton, fields) = try_join3(
            opener.group_attributes(),
            opener.morton(),
            try_join_all(fields.iter().map(|field| opener.field(field))),
        )
        .await?;
        Ok(Self {
            artifact: opener.artifact,
            n_cells,
            attributes,
            has_morton,
            words: None,
            template,
            fields,
        })
    }

    /// Opens the cell words too, so that [`OpenGroup::read_array`] reads them.
    ///
    /// # Errors
    /// As [`OpenGroup::open`].
    pub(crate) async fn with_words(mut self, root: &Root, order: u8) -> Result<Self, LeafError> {
        let opener = Opener {
            root,
            order,
            group: format!("{}/{order}", self.artifact),
            artifact: self.artifact.clone(),
            n_cells: self.n_cells,
        };
        self.words = opener.array(MORTON, Role::Words).await?;
        self.has_morton = self.words.is_some();
        Ok(self)
    }

    /// Whether neither the cell words nor any declared field is there.
    pub(crate) fn holds_nothing(&self) -> bool {
        !self.has_morton && self.fields.iter().all(|field| field.payload.is_none())
    }

    /// The first array that a column must have and that is not there.
    pub(crate) fn absent_array(&self) -> Option<&str> {
        self.absent_field().or((!self.has_morton).then_some(MORTON))
    }

    /// The first declared field whose array is not there.
    pub(crate) fn absent_field(&self) -> Option<&str> {
        let declared = self.template.declaration.fields.iter().zip(&self.fields);
        let mut absent = declared.filter(|(_, arrays)| arrays.payload.is_none());
        absent.next().map(|(field, _)| field.name.as_str())
    }

    /// The fewest cells, at least `min`, that hold whole tiles of every array; all of
    /// them when the arrays' chunks do not nest.
    pub(crate) fn slab_cells(&self, min: u64) -> u64 {
        let tiles: Vec<u64> = self
            .arrays()
            .map(|array| array.layout.tile_cells())
            .collect();
        let mut slab = min;
        while slab < self.n_cells {
            if tiles.iter().all(|tile| slab.is_multiple_of(*tile)) {
                return slab;
            }
            slab *= 4;
        }
        self.n_cells
    }

    /// Asks for the sizes of objects that are one chunk, which no index tells: one LIST, and
    /// none when every array is sharded.
    ///
    /// # Errors
    /// Failed listings.
    pub(crate) async fn measure(&mut self, root: &Root, order: u8) -> Result<(), LeafError> {
        let is_indexed = |array: &GroupArray| array.tiles.iter().all(|tile| tile.bytes.is_some());
        if self.arrays().all(is_indexed) {
            return Ok(());
        }
        let objects = root.list(&format!("{}/{order}", self.artifact));
        let sizes: HashMap<String, u64> = objects
            .map_ok(|object| (object.key, object.size))
            .try_collect()
            .await
            .map_err(|error| LeafError::of_leaf(&self.artifact, error))?;
        let arrays = self.fields.iter_mut().flat_map(FieldArrays::arrays_mut);
        for tile in arrays.flat_map(|array| &mut array.tiles) {
            // A listing may lag behind: an object that it lacks is read all the same.
            tile.object_bytes = sizes.get(&*tile.object).copied().unwrap_or(0);
        }
        Ok(())
    }

    /// Encoded bytes of each run of `slab_cells` cells; objects that are one chunk count
    /// once they are [measured](OpenGroup::measure).
    pub(crate) fn slab_bytes(&self, slab_cells: u64) -> Vec<u64> {
        let mut slab_bytes = vec![0u64; self.n_cells.div_ceil(slab_cells) as usize];
        for tile in self.arrays().flat_map(|array| &array.tiles) {
            slab_bytes[(tile.cells.start / slab_cells) as usize] += tile.num_bytes();
        }
        slab_bytes
    }

    /// Encoded bytes of a run of cells, see [`OpenGroup::slab_bytes`].
    pub(crate) fn indexed_bytes(&self, cells: &Range<u64>) -> u64 {
        self.arrays()
            .flat_map(|array| tiles_of(array, cells))
            .map(Tile::num_bytes)
            .sum()
    }

    /// Fetches the tiles of a run of cells that holds whole tiles.
    ///
    /// # Errors
    /// Failed requests.
    pub(crate) async fn fetch(&self, root: &Root, cells: Range<u64>) -> Result<Window, LeafError> {
        let fields = self.fields.iter().map(|field| async {
            let fetch = |array| self.fetch_array(root, array, &cells);
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
            cells,
        })
    }

    async fn fetch_array(
        &self,
        root: &Root,
        array: Option<&GroupArray>,
        window: &Range<u64>,
    ) -> Result<Vec<(Tile, Bytes)>, LeafError> {
        let Some(array) = array else {
            return Ok(Vec::new());
        };
        let failed = |error| LeafError::of_array(&self.artifact, &array.name, error);
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

    /// Reads a run of cells of one array, whole tiles of it; none when the group has no
    /// such array.
    ///
    /// # Errors
    /// Failed requests, and tiles that do not decode.
    pub(crate) async fn read_array(
        &self,
        root: &Root,
        name: &str,
        cells: Range<u64>,
    ) -> Result<Cells, LeafError> {
        let mut arrays = self.arrays().chain(&self.words);
        let Some(array) = arrays.find(|array| array.name == name) else {
            return Ok(Cells::Dense(Vec::new()));
        };
        let tiles = self.fetch_array(root, Some(array), &cells).await?;
        self.array_cells(array, &tiles, &cells)
    }

    /// Decodes cells of a window; absent arrays are fill.
    ///
    /// # Errors
    /// Tiles that do not decode.
    pub(crate) fn decode(
        &self,
        window: &Window,
        cells: &Range<u64>,
    ) -> Result<Vec<FieldCells>, LeafError> {
        let fields = self.fields.iter().zip(&window.fields).enumerate();
        fields
            .map(|(index, (field, tiles))| self.field_cells(index, field, tiles, cells))
            .collect()
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
        match self.array_cells(array, payload, slab)? {
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
        array: &Option<GroupArray>,
        tiles: &[(Tile, Bytes)],
        slab: &Range<u64>,
    ) -> Result<Option<RaggedColumn>, LeafError> {
        let Some(array) = array else { return Ok(None) };
        match self.array_cells(array, tiles, slab)? {
            Cells::Ragged(column) => Ok(Some(column)),
            Cells::Dense(_) => Ok(None),
        }
    }

    fn array_cells(
        &self,
        array: &GroupArray,
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
                .map_err(|problem| LeafError::of_array(&self.artifact, &array.name, problem))?;
            cells.append(decoded);
            next = tile.cells.end;
        }
        array.layout.push_fill(&mut cells, slab.end - next);
        Ok(cells)
    }

    fn arrays(&self) -> impl Iterator<Item = &GroupArray> {
        self.fields.iter().flat_map(FieldArrays::arrays)
    }
}

/// The tiles of a window; tiles never straddle one, because slabs hold whole tiles.
fn tiles_of<'a>(array: &'a GroupArray, window: &Range<u64>) -> &'a [Tile] {
    let first = array
        .tiles
        .partition_point(|tile| tile.cells.end <= window.start);
    let end = array
        .tiles
        .partition_point(|tile| tile.cells.start < window.end);
    &array.tiles[first..end]
}
