//! How an array's cells lie in objects, derived from its own metadata.
//!
//! In: a `zarr.json` document. Out: [`ArrayLayout`], which says for every run of
//! cells which bytes of which object hold it, and decodes them. No I/O here: the
//! caller fetches shard indexes and chunk bytes. `format.md` section 3.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use zarrs::array::codec::api::ArrayToBytesCodecTraits;
use zarrs::array::codec::{ShardingCodec, ShardingCodecConfiguration};
use zarrs::array::{
    Array, ArrayMetadata, ArrayMetadataV3, BytesRepresentation, CodecChain, CodecOptions,
    FillValue, data_type,
};

use zarrs::metadata::v3::MetadataV3;

use crate::kernels::cells::Cells;
use crate::kernels::dense::DenseType;
use crate::kernels::ragged::RaggedColumn;
use crate::store::leaf_error::LeafProblem;
use crate::store::ragged_chunk;

/// Marks an inner chunk that was never written, in both fields of its index entry.
const ABSENT: u64 = u64::MAX;

/// No zstd block decodes to more than 128 KiB and none is shorter than 4 bytes, so a
/// frame that claims a larger ratio is damaged and must not be allocated for.
const MAX_ZSTD_RATIO: u64 = (128 << 10) / 4;

/// What an element of an array is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementType {
    /// A number of fixed width.
    Dense(DenseType),
    /// A byte string of its own length per cell.
    Ragged,
}

impl std::fmt::Display for ElementType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Dense(dtype) => dtype.name(),
            Self::Ragged => RAGGED_NAME,
        })
    }
}

/// The Zarr data type of ragged arrays; readers also know it as `bytes`.
pub(crate) const RAGGED_NAME: &str = "variable_length_bytes";

/// A run of cells and where its encoded bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Ranks of the cells within the leaf.
    pub cells: Range<u64>,
    /// Key of the object, below the array.
    pub object: Arc<str>,
    /// Where in the object; `None` for an object that is one chunk.
    pub bytes: Option<Range<u64>>,
    /// Bytes of an object that is one chunk; 0 as long as nobody asked.
    pub object_bytes: u64,
}

impl Tile {
    /// Encoded bytes, as far as they are known.
    pub(crate) fn num_bytes(&self) -> u64 {
        let range = self.bytes.as_ref();
        range.map_or(self.object_bytes, |range| range.end - range.start)
    }
}

/// The layout of one array.
pub(crate) struct ArrayLayout {
    array: Array<()>,
    element: ElementType,
    sharding: Option<Sharding>,
    n_cells: u64,
    object_cells: u64,
    vlen_in_zstd: bool,
}

struct Sharding {
    codec: ShardingCodec,
    /// Codecs of an inner chunk.
    codecs: Vec<MetadataV3>,
    inner: Arc<CodecChain>,
    inner_cells: u64,
    index_bytes: u64,
    index_at_end: bool,
}

impl std::fmt::Debug for ArrayLayout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrayLayout")
            .field("element", &self.element)
            .field("n_cells", &self.n_cells)
            .field("object_cells", &self.object_cells)
            .field("tile_cells", &self.tile_cells())
            .finish()
    }
}

impl ArrayLayout {
    /// Reads the layout from an array's metadata document.
    ///
    /// # Errors
    /// When the document is not that of a Zarr v3 array, when the array is not one
    /// run of `n_cells` cells, or when its grid, data type or codecs are unknown.
    pub(crate) fn parse(document: &[u8], n_cells: u64) -> Result<Self, LeafProblem> {
        let metadata: ArrayMetadataV3 = serde_json::from_slice(document)
            .map_err(|error| LeafProblem::Metadata(error.to_string()))?;
        if metadata.shape != [n_cells] {
            return Err(LeafProblem::WrongShape {
                found: metadata.shape,
                expected: n_cells,
            });
        }
        if let Some(name) = metadata
            .additional_fields
            .iter()
            .find_map(|(name, field)| field.must_understand().then_some(name))
        {
            return Err(LeafProblem::Layout(format!("an unknown member `{name}`")));
        }
        let codecs = metadata.codecs.clone();
        let element = element_type(metadata.data_type.name())?;
        let array = Array::new_with_metadata(Arc::new(()), "/", ArrayMetadata::V3(metadata))
            .map_err(|error| LeafProblem::Layout(error.to_string()))?;
        let object_cells = object_cells(&array)?;
        let sharding = Sharding::of(&codecs, object_cells)?;
        let chunk_codecs = sharding.as_ref().map_or(&codecs, |shard| &shard.codecs);
        if element == ElementType::Ragged && !ragged_chunk::is_vlen(chunk_codecs) {
            return Err(LeafProblem::Layout(
                "cells of their own length that are not `vlen-bytes`".to_owned(),
            ));
        }
        Ok(Self {
            vlen_in_zstd: ragged_chunk::is_vlen_in_zstd(chunk_codecs),
            array,
            element,
            sharding,
            n_cells,
            object_cells,
        })
    }

    /// What a cell holds.
    pub(crate) fn element(&self) -> ElementType {
        self.element
    }

    /// The array's own attributes.
    pub(crate) fn attributes(&self) -> &Map<String, Value> {
        self.array.attributes()
    }

    /// Cells of the smallest run that decodes by itself.
    pub(crate) fn tile_cells(&self) -> u64 {
        self.sharding
            .as_ref()
            .map_or(self.object_cells, |sharding| sharding.inner_cells)
    }

    /// The keys below the array of every object the grid has, in cell order.
    pub(crate) fn objects(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.n_cells.div_ceil(self.object_cells))
            .map(|i| self.array.chunk_key(&[i]).to_string())
    }

    /// Bytes of the index that ends (or starts) every shard; `None` for an array
    /// that is not sharded.
    pub(crate) fn index_bytes(&self) -> Option<u64> {
        self.sharding.as_ref().map(|sharding| sharding.index_bytes)
    }

    /// Whether the index is at the end of the shard.
    pub(crate) fn index_at_end(&self) -> bool {
        self.sharding
            .as_ref()
            .is_some_and(|sharding| sharding.index_at_end)
    }

    /// The tiles of an object that is one chunk.
    pub(crate) fn chunk_tile(&self, object_index: u64, object: &str) -> Tile {
        Tile {
            cells: self.object_range(object_index),
            object: object.into(),
            bytes: None,
            object_bytes: 0,
        }
    }

    /// The written tiles of a shard, from its encoded index and the object's size.
    ///
    /// # Errors
    /// When the checksum is wrong or an entry points outside the object.
    pub(crate) fn shard_tiles(
        &self,
        object_index: u64,
        object: &str,
        index: &[u8],
        object_size: u64,
    ) -> Result<Vec<Tile>, LeafProblem> {
        let Some(sharding) = &self.sharding else {
            return Ok(vec![self.chunk_tile(object_index, object)]);
        };
        let cells = self.object_range(object_index);
        let bad = |detail: String| LeafProblem::ShardIndex {
            object: object.to_owned(),
            detail,
        };
        let entries = sharding
            .decode_index(index, self.object_cells)
            .map_err(&bad)?;
        let key: Arc<str> = object.into();
        let mut tiles = Vec::with_capacity(entries.len() / 2);
        for (i, entry) in entries.chunks_exact(2).enumerate() {
            let (offset, size) = (entry[0], entry[1]);
            if offset == ABSENT && size == ABSENT {
                continue;
            }
            let first_cell = cells.start + i as u64 * sharding.inner_cells;
            let end = offset
                .checked_add(size)
                .filter(|end| size > 0 && *end <= object_size);
            let Some(end) = end else {
                return Err(bad(format!(
                    "the index puts cells {first_cell}.. at bytes {offset}+{size} of {object_size}"
                )));
            };
            // A chunk at the edge of a grid that does not divide the leaf holds only padding.
            if first_cell >= cells.end {
                continue;
            }
            tiles.push(Tile {
                cells: first_cell..(first_cell + sharding.inner_cells).min(cells.end),
                object: key.clone(),
                bytes: Some(offset..end),
                object_bytes: 0,
            });
        }
        Ok(tiles)
    }

    fn object_range(&self, object_index: u64) -> Range<u64> {
        let start = object_index * self.object_cells;
        start..(start + self.object_cells).min(self.n_cells)
    }

    /// Decodes the cells of one tile.
    ///
    /// # Errors
    /// When the bytes do not decode to that many cells.
    pub(crate) fn decode(&self, tile: &Tile, encoded: Bytes) -> Result<Cells, LeafProblem> {
        let cells = (tile.cells.end - tile.cells.start) as usize;
        self.decode_chunk(&encoded, cells)
            .map_err(|detail| LeafProblem::Chunk {
                object: tile.object.to_string(),
                first_cell: tile.cells.start,
                end_cell: tile.cells.end,
                detail,
            })
    }

    fn decode_chunk(&self, encoded: &[u8], n_cells: usize) -> Result<Cells, String> {
        let whole = self.array.codecs();
        let chain = self.sharding.as_ref().map_or(&whole, |shard| &shard.inner);
        let claimed = claimed_size(chain, encoded)?;
        let n_chunk = self.tile_cells();
        match self.element {
            ElementType::Dense(dtype) => self.decode_dense(chain, encoded, n_cells * dtype.width()),
            ElementType::Ragged => {
                let mut column = match claimed {
                    Some(claimed) if self.vlen_in_zstd => {
                        ragged_chunk::decode(encoded, claimed as usize, n_chunk as usize)?
                    }
                    _ => ragged_chunk::cells(&decode_bytes(chain, encoded)?, n_chunk as usize)?,
                };
                column.truncate(n_cells);
                Ok(Cells::Ragged(column))
            }
        }
    }

    /// Decodes a chunk of numbers, of which `due` bytes are wanted.
    fn decode_dense(
        &self,
        chain: &CodecChain,
        encoded: &[u8],
        due: usize,
    ) -> Result<Cells, String> {
        let mut bytes = chain
            .decode(
                encoded.into(),
                &[non_zero(self.tile_cells())],
                self.array.data_type(),
                self.array.fill_value(),
                &serial(),
            )
            .map_err(|error| error.to_string())?
            .into_fixed()
            .map_err(|error| error.to_string())?
            .into_owned();
        if bytes.len() < due {
            return Err(format!("{} bytes where {due} are due", bytes.len()));
        }
        bytes.truncate(due);
        Ok(Cells::Dense(bytes))
    }

    /// A run of no cells, to append to.
    pub(crate) fn no_cells(&self) -> Cells {
        match self.element {
            ElementType::Dense(_) => Cells::Dense(Vec::new()),
            ElementType::Ragged => Cells::Ragged(RaggedColumn::new()),
        }
    }

    /// Appends a run of cells that was never written.
    pub(crate) fn push_fill(&self, cells: &mut Cells, n_cells: u64) {
        cells.push_fill(self.array.fill_value().as_ne_bytes(), n_cells as usize);
    }
}

impl Sharding {
    /// The sharding among an array's codecs, if there is any.
    fn of(codecs: &[MetadataV3], object_cells: u64) -> Result<Option<Self>, LeafProblem> {
        let is_sharding = |codec: &MetadataV3| codec.name() == "sharding_indexed";
        match codecs {
            [only] if is_sharding(only) => {
                let configuration = only
                    .to_typed_configuration()
                    .map_err(|error| LeafProblem::Layout(error.to_string()))?;
                Self::new(&configuration, object_cells).map(Some)
            }
            several if several.iter().any(is_sharding) => Err(LeafProblem::Layout(
                "codecs around `sharding_indexed`".to_owned(),
            )),
            _ => Ok(None),
        }
    }

    fn new(
        configuration: &ShardingCodecConfiguration,
        object_cells: u64,
    ) -> Result<Self, LeafProblem> {
        let unknown = |detail: String| LeafProblem::Layout(detail);
        let ShardingCodecConfiguration::V1(v1) = configuration else {
            return Err(unknown("an unknown kind of `sharding_indexed`".to_owned()));
        };
        let [inner_cells] = v1.chunk_shape.as_slice() else {
            return Err(unknown(
                "inner chunks of more than one dimension".to_owned(),
            ));
        };
        let inner_cells = inner_cells.get();
        if !object_cells.is_multiple_of(inner_cells) {
            return Err(unknown(format!(
                "inner chunks of {inner_cells} cells in shards of {object_cells}"
            )));
        }
        let chain = |codecs| {
            CodecChain::from_metadata(codecs)
                .map(Arc::new)
                .map_err(|error| unknown(error.to_string()))
        };
        let n_inner = object_cells / inner_cells;
        Ok(Self {
            codecs: v1.codecs.clone(),
            inner: chain(&v1.codecs)?,
            index_bytes: index_size(&*chain(&v1.index_codecs)?, n_inner)?,
            index_at_end: v1.index_location == zarrs::array::codec::ShardingIndexLocation::End,
            codec: ShardingCodec::new_with_configuration(configuration)
                .map_err(|error| unknown(error.to_string()))?,
            inner_cells,
        })
    }

    fn decode_index(&self, index: &[u8], object_cells: u64) -> Result<Vec<u64>, String> {
        if (index.len() as u64) < self.index_bytes {
            return Err(format!(
                "{} bytes where the index alone takes {}: the shard is empty or cut short",
                index.len(),
                self.index_bytes
            ));
        }
        self.codec
            .decode_index(
                index,
                &[non_zero(object_cells / self.inner_cells)],
                &CodecOptions::default(),
            )
            .map_err(|error| format!("its index does not decode ({error})"))
    }
}

/// Codec options of a fold thread, which is the unit of parallelism here.
fn serial() -> CodecOptions {
    CodecOptions::default().with_concurrent_target(1)
}

fn index_size(chain: &CodecChain, n_inner: u64) -> Result<u64, LeafProblem> {
    let representation = chain
        .encoded_representation(
            &[non_zero(n_inner), non_zero(2)],
            &data_type::uint64(),
            &FillValue::from(ABSENT),
        )
        .map_err(|error| LeafProblem::Layout(error.to_string()))?;
    match representation {
        BytesRepresentation::FixedSize(size) => Ok(size),
        _ => Err(LeafProblem::Layout(
            "a shard index of no fixed size".to_owned(),
        )),
    }
}

fn object_cells(array: &Array<()>) -> Result<u64, LeafProblem> {
    if array.chunk_grid().name_v3().as_deref() != Some("regular") {
        return Err(LeafProblem::Layout(
            "a chunk grid that is not regular".to_owned(),
        ));
    }
    let shape = array
        .chunk_grid()
        .chunk_shape(&[0])
        .map_err(|error| LeafProblem::Layout(error.to_string()))?;
    match shape.as_deref() {
        Some([cells]) => Ok(cells.get()),
        _ => Err(LeafProblem::Layout("an empty chunk grid".to_owned())),
    }
}

fn element_type(name: &str) -> Result<ElementType, LeafProblem> {
    match name {
        RAGGED_NAME | "bytes" => Ok(ElementType::Ragged),
        other => DenseType::from_name(other)
            .map(ElementType::Dense)
            .map_err(|error| LeafProblem::Layout(error.to_string())),
    }
}

/// Undoes the codecs that made bytes of bytes.
fn decode_bytes<'a>(chain: &CodecChain, encoded: &'a [u8]) -> Result<Cow<'a, [u8]>, String> {
    let mut bytes = Cow::Borrowed(encoded);
    for codec in chain.bytes_to_bytes_codecs().iter().rev() {
        bytes = codec
            .decode(bytes, &BytesRepresentation::UnboundedSize, &serial())
            .map_err(|error| error.to_string())?;
    }
    Ok(bytes)
}

/// The size a compressed chunk claims to decode to, when it does.
///
/// # Errors
/// When its bytes cannot decode to that much: it must not be allocated.
fn claimed_size(chain: &CodecChain, encoded: &[u8]) -> Result<Option<u64>, String> {
    if chain.bytes_to_bytes_codecs().is_empty() {
        return Ok(None);
    }
    match zstd::zstd_safe::get_frame_content_size(encoded) {
        Ok(Some(claimed)) if claimed > encoded.len() as u64 * MAX_ZSTD_RATIO => Err(format!(
            "the zstd frame of {} bytes claims {claimed} decoded",
            encoded.len()
        )),
        claimed => Ok(claimed.ok().flatten()),
    }
}

/// Chunk shapes are checked to be non-zero by the metadata.
fn non_zero(cells: u64) -> NonZeroU64 {
    NonZeroU64::new(cells).unwrap_or(NonZeroU64::MIN)
}

/// Bytes a tile decodes to, when its frame says so.
pub(crate) fn decoded_size(encoded: &[u8]) -> u64 {
    match zstd::zstd_safe::get_frame_content_size(encoded) {
        Ok(Some(claimed)) => claimed.min(encoded.len() as u64 * MAX_ZSTD_RATIO),
        _ => encoded.len() as u64,
    }
}
