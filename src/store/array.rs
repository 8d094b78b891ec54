//! Arrays as this crate writes them: the metadata document and the objects.
//!
//! In: decoded cells. Out: `zarr.json` as zarr-python would order it, and the chunk
//! objects, byte for byte. `format.md` sections 3 and 7.

use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use zarrs::array::codec::api::ArrayToBytesCodecTraits;
use zarrs::array::codec::{ShardingCodec, SubchunkWriteOrder};
use zarrs::array::{
    ArrayBytes, ArrayBytesOffsets, ArrayMetadataV3, CodecChain, CodecOptions, DataType, FillValue,
};

use crate::kernels::cells::CellsRef;
use crate::kernels::dense;
use crate::store::document::Document;
use crate::store::layout::{ElementType, RAGGED_NAME};

/// Level of every zstd frame in a store; part of the format.
const ZSTD_LEVEL: i32 = 3;

/// How the cells of an array are cut into objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// One object, one chunk.
    Single,
    /// One object of inner chunks with an index at its end.
    Sharded {
        /// Cells of an inner chunk.
        inner_cells: u64,
    },
    /// One object for every chunk.
    Chunked {
        /// Cells of a chunk.
        cells: u64,
    },
}

impl Cut {
    /// Cells of an object of an array of `n_cells`.
    fn object_cells(self, n_cells: u64) -> u64 {
        match self {
            Self::Single | Self::Sharded { .. } => n_cells,
            Self::Chunked { cells } => cells,
        }
    }
}

/// One array, ready to encode its cells.
pub(crate) struct ArrayTemplate {
    /// Name of the array within its group.
    pub name: String,
    /// What a cell holds.
    pub element: ElementType,
    /// The metadata document.
    pub document: Document,
    /// Cells of one of its objects.
    pub object_cells: u64,
    codecs: CodecChain,
    data_type: DataType,
    fill: FillValue,
}

impl std::fmt::Debug for ArrayTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrayTemplate")
            .field("name", &self.name)
            .field("element", &self.element)
            .field("object_cells", &self.object_cells)
            .finish()
    }
}

/// The document or the cells of an array cannot be encoded. This is a fault of the
/// program, since both are its own.
#[derive(Debug, thiserror::Error)]
#[error("array `{array}` cannot be encoded: {detail}")]
pub struct EncodeError {
    /// Name of the array.
    pub array: String,
    /// What zarrs says.
    pub detail: String,
}

impl ArrayTemplate {
    /// A dense array of `n_cells` numbers.
    ///
    /// # Errors
    /// When the codecs cannot be built, which a known data type rules out.
    pub(crate) fn dense(
        name: &str,
        fill: dense::FillValue,
        n_cells: u64,
        cut: Cut,
        attributes: Map<String, Value>,
    ) -> Result<Self, EncodeError> {
        let codecs = json!([{"name": "bytes", "configuration": endianness(fill)}]);
        let element = ElementType::Dense(fill.dtype());
        let document = document(
            fill.dtype().name(),
            fill.to_json(),
            n_cells,
            cut.object_cells(n_cells),
            with_cut(codecs, cut),
            attributes,
        );
        Self::new(name, element, document, n_cells, cut)
    }

    /// A ragged array of `n_cells` byte strings.
    ///
    /// # Errors
    /// When the codecs cannot be built.
    pub(crate) fn ragged(
        name: &str,
        n_cells: u64,
        cut: Cut,
        attributes: Map<String, Value>,
    ) -> Result<Self, EncodeError> {
        let codecs = json!([
            {"name": "vlen-bytes", "configuration": {}},
            {"name": "zstd", "configuration": {"level": ZSTD_LEVEL, "checksum": false}},
        ]);
        let document = document(
            RAGGED_NAME,
            json!(""),
            n_cells,
            cut.object_cells(n_cells),
            with_cut(codecs, cut),
            attributes,
        );
        Self::new(name, ElementType::Ragged, document, n_cells, cut)
    }

    fn new(
        name: &str,
        element: ElementType,
        document: Value,
        n_cells: u64,
        cut: Cut,
    ) -> Result<Self, EncodeError> {
        let failed = |detail: String| EncodeError {
            array: name.to_owned(),
            detail,
        };
        let metadata: ArrayMetadataV3 =
            serde_json::from_value(document.clone()).map_err(|error| failed(error.to_string()))?;
        let data_type = DataType::from_metadata(&metadata.data_type)
            .map_err(|error| failed(error.to_string()))?;
        let fill = data_type
            .fill_value_v3(&metadata.fill_value)
            .map_err(|_| failed("its fill value is not of its data type".to_owned()))?;
        Ok(Self {
            name: name.to_owned(),
            element,
            codecs: codec_chain(&metadata, cut).map_err(failed)?,
            document: Document::new(document),
            object_cells: cut.object_cells(n_cells),
            data_type,
            fill,
        })
    }

    /// The object with this index, which holds `cells`, and its key below the array;
    /// `None` when every cell is fill, because such an object is not written.
    ///
    /// # Errors
    /// When the cells are not those of this array.
    pub(crate) fn encode(
        &self,
        index: u64,
        cells: CellsRef<'_>,
    ) -> Result<Option<(String, Bytes)>, EncodeError> {
        let failed = |detail: String| EncodeError {
            array: self.name.clone(),
            detail,
        };
        let decoded = match cells {
            CellsRef::Dense(bytes) => ArrayBytes::new_flen(bytes),
            CellsRef::Ragged(column) => {
                let offsets = ArrayBytesOffsets::new(column.offsets())
                    .map_err(|error| failed(error.to_string()))?;
                ArrayBytes::new_vlen(column.bytes(), offsets)
                    .map_err(|error| failed(error.to_string()))?
            }
        };
        if decoded.is_fill_value(&self.fill) {
            return Ok(None);
        }
        let shape = [NonZeroU64::new(self.object_cells).unwrap_or(NonZeroU64::MIN)];
        let options = CodecOptions::default().with_concurrent_target(1);
        let encoded = self
            .codecs
            .encode(decoded, &shape, &self.data_type, &self.fill, &options)
            .map_err(|error| failed(error.to_string()))?;
        Ok(Some((
            format!("c/{index}"),
            Bytes::from(encoded.into_owned()),
        )))
    }
}

/// Single-byte numbers have no byte order to record.
fn endianness(fill: dense::FillValue) -> Value {
    if fill.dtype().width() == 1 {
        json!({})
    } else {
        json!({"endian": "little"})
    }
}

fn with_cut(codecs: Value, cut: Cut) -> Value {
    match cut {
        Cut::Single | Cut::Chunked { .. } => codecs,
        Cut::Sharded { inner_cells } => json!([{
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": [inner_cells],
                "codecs": codecs,
                "index_codecs": [
                    {"name": "bytes", "configuration": {"endian": "little"}},
                    {"name": "crc32c"},
                ],
                "index_location": "end",
            },
        }]),
    }
}

fn document(
    data_type: &str,
    fill_value: Value,
    n_cells: u64,
    object_cells: u64,
    codecs: Value,
    attributes: Map<String, Value>,
) -> Value {
    json!({
        "shape": [n_cells],
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [object_cells]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill_value,
        "codecs": codecs,
        "attributes": attributes,
        "dimension_names": ["cells"],
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    })
}

/// The inner chunks of a shard lie in cell order, which zarrs does not promise unless asked.
fn codec_chain(metadata: &ArrayMetadataV3, cut: Cut) -> Result<CodecChain, String> {
    match (cut, metadata.codecs.as_slice()) {
        (Cut::Sharded { .. }, [sharding]) => {
            let configuration = sharding
                .to_typed_configuration()
                .map_err(|error| error.to_string())?;
            let codec = ShardingCodec::new_with_configuration(&configuration)
                .map_err(|error| error.to_string())?
                .with_subchunk_write_order(SubchunkWriteOrder::C);
            Ok(CodecChain::new(vec![], Arc::new(codec), vec![]))
        }
        (_, codecs) => CodecChain::from_metadata(codecs).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn frames_are_those_of_the_libzstd_the_reference_uses() {
        // Later versions compress inputs from 64 KiB up to other bytes.
        const LIBZSTD_1_5_6: u32 = 10506;
        assert_eq!(zstd::zstd_safe::version_number(), LIBZSTD_1_5_6);
    }
}
