//! What the columns that are due cost, from listings of their leaves.
//!
//! What is read of a leaf follows from its listing, what is written of a column from the
//! template; only the bytes of ragged arrays are not known before they are folded. They
//! are reckoned by one rule: a coarser group holds no more centroids than the leaf, and
//! none of its cells more than the fold budget, so an array of it comes to the bytes of
//! the leaf's, or to `cells · budget` centroids where that is less.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};

use super::judge::{ColumnKey, Judged};
use super::listing::{Listing, MAX_LISTED, spread};
use super::planned::{Cost, PeakMemory, scaled};
use super::shape;
use crate::actors::{BUDGET_PER_WINDOW_BYTE, RESIDENT_PER_DECODED_BYTE};
use crate::error::Error;
use crate::messages::LeafRef;
use crate::settings::Settings;
use crate::store::Root;
use crate::store::layout::ElementType;
use crate::store::template::{ColumnTemplate, FieldMembers, GroupTemplate, MORTON};

/// Listings under way at once.
pub(super) const LISTINGS_AT_ONCE: usize = 16;

/// GETs for a node that is not there: its document, and those of Zarr v2.
const GETS_OF_ABSENT: u64 = 3;

/// Mean bytes of the arrays and documents of the leaves' columns.
#[derive(Debug, Default)]
pub(super) struct ColumnSizes {
    n_columns: u64,
    /// Bytes of ragged arrays over all columns, by order of the group and name.
    ragged: BTreeMap<(u8, String), u64>,
    /// Bytes of the documents of the groups the attributes come from.
    attributes: u64,
    /// Chunks and shards of the largest leaf, in bytes.
    largest_leaf: u64,
}

/// What the leaves that are due come to.
#[derive(Debug, Default)]
pub(super) struct ColumnCosts {
    /// What their columns cost together, without judging them.
    pub cost: Cost,
    /// Leaves listed.
    pub listed: u64,
    /// What the columns of the store are like.
    pub sizes: ColumnSizes,
}

impl ColumnSizes {
    /// Bytes of a ragged array of the group of this order, of a mean column.
    pub(super) fn ragged(&self, order: u8, name: &str) -> u64 {
        let key = (order, name.to_owned());
        let bytes = self.ragged.get(&key).copied().unwrap_or_default();
        bytes.div_ceil(self.n_columns.max(1))
    }

    /// Bytes of the document of a group.
    pub(super) fn attributes(&self) -> u64 {
        self.attributes.div_ceil(self.n_columns.max(1))
    }

    fn add(&mut self, order: u8, name: &str, bytes: u64) {
        *self.ragged.entry((order, name.to_owned())).or_default() += bytes;
    }

    /// Adds a column that stands.
    fn add_standing(&mut self, listing: &Listing) {
        self.n_columns += 1;
        self.attributes += listing.groups.values().max().copied().unwrap_or_default();
        for ((order, name), array) in &listing.arrays {
            self.add(*order, name, array.chunks.bytes);
        }
    }

    /// Adds the column a leaf will have.
    fn add_planned(&mut self, template: &ColumnTemplate, leaf: &Listing) {
        let declaration = &template.declaration;
        let cell_order = declaration.cell_order;
        self.n_columns += 1;
        self.attributes += leaf.groups.get(&cell_order).copied().unwrap_or_default();
        let mut leaf_bytes = 0;
        for group in &template.groups {
            for array in group.fields.iter().flat_map(FieldMembers::arrays) {
                let of_leaf = leaf.array(cell_order, &array.name).chunks.bytes;
                if array.element == ElementType::Ragged {
                    let cap = shape::ragged_cap(&declaration.fields, &array.name, group.n_cells);
                    self.add(group.order, &array.name, of_leaf.min(cap));
                }
                if group.order == template.finest() {
                    leaf_bytes += of_leaf;
                }
            }
        }
        self.largest_leaf = self.largest_leaf.max(leaf_bytes);
    }
}

/// Lists leaves that are due, at most [`MAX_LISTED`], and reckons what all of them cost.
/// Where none is due, columns that stand are listed for their sizes alone.
///
/// # Errors
/// Failed listings.
pub(super) async fn costs(
    root: &Root,
    template: &ColumnTemplate,
    settings: &Settings,
    judged: &Judged,
) -> Result<ColumnCosts, Error> {
    let due = judged.keys(true);
    let mut costs = ColumnCosts::default();
    let mut sampled = Cost::default();
    for (leaf, column) in list(root, &spread(&due, MAX_LISTED)).await? {
        let mut sizes = ColumnSizes::default();
        sizes.add_planned(template, &leaf);
        sampled += fold_cost(template, settings, &leaf);
        sampled += write_cost(template, &sizes);
        // The leaf is looked at once more before the column is stamped.
        sampled += Cost::read(leaf.root);
        sampled.delete += column.all.count;
        costs.listed += 1;
        costs.sizes.add_planned(template, &leaf);
    }
    costs.cost = sampled.scaled(due.len() as u64, costs.listed);
    if due.is_empty() {
        for (_, column) in list(root, &spread(&judged.keys(false), MAX_LISTED)).await? {
            costs.sizes.add_standing(&column);
        }
    }
    Ok(costs)
}

/// Lists these leaves and what stands of their columns.
async fn list(root: &Root, keys: &[&ColumnKey]) -> Result<Vec<(Listing, Listing)>, Error> {
    let lists = keys.iter().map(|(shard, window)| async move {
        let leaf = LeafRef::new(*shard, window.clone())?;
        let listed = Listing::read(root, &leaf.path()).await?;
        let column = Listing::read(root, &leaf.column_path()).await?;
        Ok::<_, Error>((listed, column))
    });
    let lists: Vec<_> = lists.collect();
    stream::iter(lists)
        .buffered(LISTINGS_AT_ONCE)
        .try_collect()
        .await
}

/// What folding a leaf reads of it.
fn fold_cost(template: &ColumnTemplate, settings: &Settings, leaf: &Listing) -> Cost {
    let order = template.declaration.cell_order;
    let mut cost = Cost::read(leaf.groups.get(&order).copied().unwrap_or_default());
    cost += document_cost(leaf.array(order, MORTON).document);
    let (mut chunk_bytes, mut arrays) = (0, Vec::new());
    for array in template.groups[0]
        .fields
        .iter()
        .flat_map(FieldMembers::arrays)
    {
        let listed = leaf.array(order, &array.name);
        cost += document_cost(listed.document);
        chunk_bytes += listed.chunks.bytes;
        arrays.push(listed.chunks);
    }
    let window = settings
        .read_window
        .min(settings.memory_budget / BUDGET_PER_WINDOW_BYTE)
        .max(1);
    let windows = chunk_bytes.div_ceil(window);
    for chunks in arrays {
        cost.objects_read += chunks.count;
        // The index of every shard, and then its tiles window by window.
        cost.get += chunks.count
            + if chunks.count > 0 {
                windows.max(chunks.count)
            } else {
                0
            };
        cost.bytes_read += chunks.bytes;
    }
    cost
}

fn document_cost(bytes: Option<u64>) -> Cost {
    match bytes {
        Some(bytes) => Cost::read(bytes),
        None => Cost {
            get: GETS_OF_ABSENT,
            ..Cost::default()
        },
    }
}

/// Bytes of the root document of one column.
pub(super) fn root_bytes(template: &ColumnTemplate) -> u64 {
    let record = template.column_record("", "", "");
    shape::root_bytes(
        &record,
        num_arrays(&template.groups),
        template.stamps_hashes(),
    )
}

/// Arrays of all these groups.
pub(super) fn num_arrays(groups: &[GroupTemplate]) -> u64 {
    groups
        .iter()
        .map(|group| group.arrays().count() as u64)
        .sum()
}

/// What writing one column costs, but for deleting what stands there.
fn write_cost(template: &ColumnTemplate, sizes: &ColumnSizes) -> Cost {
    let record = template.column_record("", "", "");
    let n_arrays = num_arrays(&template.groups);
    let mut cost = shape::roots_and_sidecar(&record, n_arrays, template.stamps_hashes());
    let shard_order = template.declaration.shard_order;
    for group in &template.groups {
        cost += shape::group(group, sizes.attributes(), shard_order, 1, |array| {
            sizes.ragged(group.order, &array.name)
        });
    }
    cost
}

/// Reading every object of so many columns once.
pub(super) fn read_back(template: &ColumnTemplate, sizes: &ColumnSizes, n_columns: u64) -> Cost {
    write_cost(template, sizes).read_back().scaled(n_columns, 1)
}

/// The most memory a pass over such leaves takes.
pub(super) fn peak_memory(
    template: &ColumnTemplate,
    settings: &Settings,
    sizes: &ColumnSizes,
    due: u64,
) -> PeakMemory {
    let plan = &template.plan;
    let n_blocks = plan.leaf_cells() / plan.block_cells();
    let column: u64 = template
        .groups
        .iter()
        .flat_map(|group| {
            let arrays = group.fields.iter().flat_map(FieldMembers::arrays);
            let ragged = arrays.filter(|array| array.element == ElementType::Ragged);
            let ragged = ragged.map(|array| sizes.ragged(group.order, &array.name));
            ragged.chain([shape::dense_bytes(group)])
        })
        .sum();
    PeakMemory {
        budget: settings.memory_budget,
        block: scaled(sizes.largest_leaf, RESIDENT_PER_DECODED_BYTE, n_blocks),
        columns: column * due.min(settings.max_folds as u64),
    }
}
