//! The arrays of a demo leaf: their documents, and the codecs of one inner chunk.

use serde_json::{Map, Value, json};

use super::{DemoConfig, DemoError, FieldSet, manifest};
use crate::kernels::dense::{DenseType, FillValue};
use crate::kernels::tdigest::Channels;
use crate::pyramid::{Approximate, Declaration, Field, FieldClass};
use crate::store::array::{ArrayTemplate, Cut};
use crate::store::json::python_pretty;
use crate::store::template::{
    MORTON, companion_attributes, composition_attributes, located_record, payload_attributes,
    temporal_record,
};

/// Name of the time per cell that does not fold.
const OBSERVED: &str = "observed";

/// An inner chunk has 4^5 cells, fewer where a leaf would otherwise have fewer than 4^2
/// chunks, but at least 4.
const MAX_CHUNK_DEPTH: u8 = 5;
const MIN_CHUNKS_DEPTH: u8 = 2;

/// Indentation of a `zarr.json`.
const DOCUMENT_INDENT: usize = 2;

/// Which of a chunk's cells an array holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The cell words.
    Morton,
    /// Observations of a cell.
    Count,
    /// Rows of the digest with this number.
    Payload(usize),
    /// One morton word for each of its rows.
    Locations(usize),
    /// One toc word for each of its rows.
    Times(usize),
    /// Lanes of a cell.
    Composition,
    /// Time of a cell.
    Observed,
}

/// One array of a leaf.
#[derive(Debug)]
pub(super) struct Member {
    /// Its name.
    pub name: String,
    /// Its `zarr.json`.
    pub document: String,
    /// Where its cells come from.
    pub source: Source,
    /// Encodes one inner chunk.
    pub inner: ArrayTemplate,
}

/// What every leaf of the store looks like.
#[derive(Debug)]
pub(super) struct Layout {
    /// Orders between shard and cells.
    pub depth: u8,
    /// Orders between an inner chunk and its cells.
    pub chunk_depth: u8,
    /// The arrays.
    pub members: Vec<Member>,
    /// Companions of each digest.
    pub digests: Vec<Channels>,
    /// Orders of the groups a column will have, finest first.
    pub column_orders: Vec<u8>,
    /// The `zarr.json` of the cells' group.
    pub group_document: String,
}

impl Layout {
    /// Derives the layout of a store from the pyramid it declares.
    ///
    /// # Errors
    /// When the declaration is refused or an array cannot be built, both of them faults
    /// of the program.
    pub(super) fn new(config: &DemoConfig, shard_order: u8) -> Result<Self, DemoError> {
        let block = manifest::pyramid(config, shard_order);
        let declaration = Declaration::parse(Some(&block), shard_order, config.cell_order)?;
        let depth = config.cell_order - shard_order;
        let mut layout = Self {
            depth,
            chunk_depth: depth
                .saturating_sub(MIN_CHUNKS_DEPTH)
                .clamp(1, MAX_CHUNK_DEPTH),
            members: Vec::new(),
            digests: Vec::new(),
            column_orders: declaration.groups,
            group_document: python_pretty(&group_document(config.cell_order), DOCUMENT_INDENT),
        };
        let words = FillValue::zero(DenseType::Uint64);
        layout.dense(MORTON, Source::Morton, words, Map::new())?;
        for field in &declaration.fields {
            layout.field(field)?;
        }
        if config.fields == FieldSet::Temporal {
            let mut record = temporal_record();
            record["shape"] = json!("per-cell");
            let attributes = Map::from_iter([("temporal".to_owned(), record)]);
            layout.dense(OBSERVED, Source::Observed, words, attributes)?;
        }
        Ok(layout)
    }

    /// Cells of a leaf.
    pub(super) fn n_cells(&self) -> u64 {
        1 << (2 * self.depth)
    }

    /// Cells of an inner chunk.
    pub(super) fn chunk_cells(&self) -> u64 {
        1 << (2 * self.chunk_depth)
    }

    /// Inner chunks of a leaf.
    pub(super) fn n_chunks(&self) -> u64 {
        1 << (2 * (self.depth - self.chunk_depth))
    }

    fn field(&mut self, field: &Field) -> Result<(), DemoError> {
        match &field.class {
            FieldClass::Exact(exact) => {
                self.dense(&field.name, Source::Count, exact.fill, Map::new())
            }
            FieldClass::Packed(packed) => {
                let fill = FillValue::zero(DenseType::Uint64);
                let attributes = composition_attributes(packed);
                self.dense(&field.name, Source::Composition, fill, attributes)
            }
            FieldClass::Approximate(digest) => self.digest(field, digest),
        }
    }

    fn digest(&mut self, field: &Field, digest: &Approximate) -> Result<(), DemoError> {
        let i = self.digests.len();
        self.digests.push(Channels {
            located: digest.located,
            temporal: digest.temporal,
        });
        let mut attributes = payload_attributes(field, digest);
        if let Some((_, stratum)) = field.name.split_once("tdigest_") {
            attributes.insert("stratum".to_owned(), json!(stratum));
            attributes.insert("signal_threshold".to_owned(), json!(2));
        }
        self.ragged(&field.name, Source::Payload(i), attributes)?;
        if digest.located {
            let attributes = companion_attributes("located", located_record());
            self.ragged(&field.locations_name(), Source::Locations(i), attributes)?;
        }
        if digest.temporal {
            let attributes = companion_attributes("temporal", temporal_record());
            self.ragged(&field.times_name(), Source::Times(i), attributes)?;
        }
        Ok(())
    }

    fn dense(
        &mut self,
        name: &str,
        source: Source,
        fill: FillValue,
        attributes: Map<String, Value>,
    ) -> Result<(), DemoError> {
        let array =
            |n_cells, cut, attributes| ArrayTemplate::dense(name, fill, n_cells, cut, attributes);
        let whole = array(self.n_cells(), self.cut(), attributes)?;
        let inner = array(self.chunk_cells(), Cut::Single, Map::new())?;
        self.push(&whole, inner, source);
        Ok(())
    }

    fn ragged(
        &mut self,
        name: &str,
        source: Source,
        attributes: Map<String, Value>,
    ) -> Result<(), DemoError> {
        let whole = ArrayTemplate::ragged(name, self.n_cells(), self.cut(), attributes)?;
        let inner = ArrayTemplate::ragged(name, self.chunk_cells(), Cut::Single, Map::new())?;
        self.push(&whole, inner, source);
        Ok(())
    }

    fn push(&mut self, whole: &ArrayTemplate, inner: ArrayTemplate, source: Source) {
        self.members.push(Member {
            name: whole.name.clone(),
            document: python_pretty(&whole.document.value, DOCUMENT_INDENT),
            source,
            inner,
        });
    }

    fn cut(&self) -> Cut {
        Cut::Sharded {
            inner_cells: self.chunk_cells(),
        }
    }
}

fn group_document(cell_order: u8) -> Value {
    json!({
        "attributes": {
            "zarr_conventions": [
                {
                    "schema_url": "https://raw.githubusercontent.com/zarr-conventions/dggs/refs/tags/v1/schema.json",
                    "spec_url": "https://github.com/zarr-conventions/dggs/blob/v1/README.md",
                    "uuid": "7b255807-140c-42ca-97f6-7a1cfecdbc38",
                    "name": "dggs",
                    "description": "Discrete Global Grid Systems convention for zarr",
                },
                {
                    "schema_url": "https://github.com/espg/mortie/blob/main/docs/specification.md#dggs-attrs",
                    "spec_url": "https://github.com/espg/mortie/blob/main/docs/specification.md",
                    "uuid": "3e22156d-ea9e-4e01-95fe-e3809a4b41e7",
                    "name": "morton-dggs",
                    "description": "Packed-u64 morton (HEALPix) DGGS convention",
                },
            ],
            "dggs": {
                "name": "morton",
                "refinement_level": cell_order,
                "spatial_dimension": "cells",
                "ellipsoid": {
                    "name": "WGS84",
                    "semimajor_axis": 6_378_137.0,
                    "inverse_flattening": 298.257_223_563,
                },
                "compression": "none",
                "coordinate": "morton",
            },
        },
        "zarr_format": 3,
        "node_type": "group",
    })
}
