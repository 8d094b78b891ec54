//! What artifacts of a template cost to write and to read, from the template alone.

use serde_json::{Map, Value};

use super::planned::Cost;
use crate::kernels::plan::cells_between;
use crate::ladder::template::BLOCK_CELLS;
use crate::pyramid::{Field, FieldClass};
use crate::store::array::ArrayTemplate;
use crate::store::json::{ZARR_INDENT, python_pretty};
use crate::store::layout::{ArrayLayout, ElementType};
use crate::store::template::{FieldMembers, GroupTemplate};

/// Root documents put for one artifact: bare, with its record, with its stamp.
const ROOT_PUTS: u64 = 3;
/// Bytes of a root document that holds neither record nor stamp.
const BARE_ROOT_BYTES: u64 = 70;
/// Bytes of a stamp without the hashes of the arrays.
const STAMP_BYTES: u64 = 350;
/// Bytes of a sidecar without the hashes of the arrays.
const SIDECAR_BYTES: u64 = 900;
/// Bytes of the hash of one array with its name.
const HASH_BYTES: u64 = 85;

/// How far a record is indented in its root document, about.
const RECORD_INDENT: usize = 2 * ZARR_INDENT;

/// Bytes of a centroid in a payload: a mean and a weight as float32.
const CENTROID_BYTES: u64 = 8;

/// The root documents and the sidecar of an artifact with this record and so many arrays.
pub(super) fn roots_and_sidecar(record: &Value, n_arrays: u64, stamps_hashes: bool) -> Cost {
    let stamped = root_bytes(record, n_arrays, stamps_hashes);
    let recorded = BARE_ROOT_BYTES + record_bytes(record);
    let roots = BARE_ROOT_BYTES + recorded + stamped;
    let sidecar = SIDECAR_BYTES + n_arrays * HASH_BYTES;
    Cost {
        objects_written: 2,
        put: ROOT_PUTS + 1,
        bytes_written: roots + sidecar,
        // What stood there is listed, and the sidecar's deletion is asked for in any case.
        list: 1,
        delete: 1,
        ..Cost::default()
    }
}

/// Bytes of the root document of an artifact with this record and so many arrays.
pub(super) fn root_bytes(record: &Value, n_arrays: u64, stamps_hashes: bool) -> u64 {
    let hashes = if stamps_hashes {
        n_arrays * HASH_BYTES
    } else {
        0
    };
    BARE_ROOT_BYTES + record_bytes(record) + STAMP_BYTES + hashes
}

fn record_bytes(record: &Value) -> u64 {
    python_pretty(record, RECORD_INDENT).len() as u64
}

/// The metadata documents and the objects of a group over `n_leaves` leaves of
/// `shard_order`. Objects of fields are counted as if every leaf had data in every cell,
/// which is the most there can be: what is all fill is not written. `ragged_bytes` are
/// those of a ragged array.
pub(super) fn group(
    group: &GroupTemplate,
    attributes_bytes: u64,
    shard_order: u8,
    n_leaves: u64,
    mut ragged_bytes: impl FnMut(&ArrayTemplate) -> u64,
) -> Cost {
    let mut cost = Cost::default();
    for (_, bytes) in group.documents(&Map::new()) {
        cost += Cost::write(bytes.len() as u64);
    }
    cost.bytes_written += attributes_bytes;
    let filled = filled_cells(group, shard_order, n_leaves);
    for array in group.arrays() {
        let is_words = std::ptr::eq(array, &group.morton);
        let cells = if is_words { group.n_cells } else { filled };
        let objects = cells.div_ceil(array.object_cells);
        cost.objects_written += objects;
        cost.put += objects;
        cost.bytes_written += match array.element {
            ElementType::Dense(dtype) => {
                let cells = (objects * array.object_cells).min(group.n_cells);
                cells * dtype.width() as u64
            }
            ElementType::Ragged => ragged_bytes(array),
        };
    }
    cost
}

/// Cells of a group that can hold anything: those of the leaves, in whole objects.
fn filled_cells(group: &GroupTemplate, shard_order: u8, n_leaves: u64) -> u64 {
    let per_leaf = match group.order >= shard_order {
        true => cells_between(group.order, shard_order),
        false => 1,
    };
    let whole_object = group.morton.object_cells.max(per_leaf);
    group.n_cells.min(n_leaves.saturating_mul(whole_object))
}

/// The most bytes a ragged array of a field can come to: `budget` centroids in every cell.
pub(super) fn ragged_cap(fields: &[Field], array: &str, n_cells: u64) -> u64 {
    let digest = fields.iter().find_map(|field| match &field.class {
        FieldClass::Approximate(digest) if owns(field, array) => Some(digest),
        _ => None,
    });
    digest.map_or(u64::MAX, |digest| {
        let centroids = digest.budget.ceil() as u64;
        n_cells.saturating_mul(centroids * CENTROID_BYTES)
    })
}

fn owns(field: &Field, array: &str) -> bool {
    [
        field.name.clone(),
        field.locations_name(),
        field.times_name(),
    ]
    .iter()
    .any(|name| name == array)
}

/// What reading a whole group of one column costs, but for the bytes of its chunks.
pub(super) fn read_group(group: &GroupTemplate, attributes_bytes: u64) -> Cost {
    let mut cost = Cost::default();
    // Group, words and arrays; of the words only the document is read.
    for (_, bytes) in group.documents(&Map::new()) {
        cost += Cost::read(bytes.len() as u64);
    }
    cost.bytes_read += attributes_bytes;
    let layouts: Vec<ArrayLayout> = group
        .fields
        .iter()
        .flat_map(FieldMembers::arrays)
        .filter_map(|array| {
            let document = &array.document.bytes;
            ArrayLayout::parse(document, group.n_cells).ok()
        })
        .collect();
    let slabs = group.n_cells.div_ceil(slab_cells(group, &layouts));
    for layout in &layouts {
        let objects = layout.objects().count() as u64;
        cost.objects_read += objects;
        cost.get += slabs.max(objects);
        if layout.index_bytes().is_some() {
            cost.get += objects;
        }
    }
    cost
}

/// Cells that are read at once: whole tiles of every array.
fn slab_cells(group: &GroupTemplate, layouts: &[ArrayLayout]) -> u64 {
    let tiles = layouts.iter().map(ArrayLayout::tile_cells);
    let block = BLOCK_CELLS.min(group.n_cells);
    tiles.fold(block, u64::max)
}

/// What the chunks of a group of dense arrays hold, in bytes.
pub(super) fn dense_bytes(group: &GroupTemplate) -> u64 {
    let arrays = group.fields.iter().flat_map(FieldMembers::arrays);
    let width = |array: &ArrayTemplate| match array.element {
        ElementType::Dense(dtype) => dtype.width() as u64,
        ElementType::Ragged => 0,
    };
    arrays.map(|array| group.n_cells * width(array)).sum()
}
