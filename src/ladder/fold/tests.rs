//! Groups folded from the groups of children as a store holds them, compared with the
//! cells of all children folded at once.

use object_store::memory::InMemory;
use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;
use crate::budget::MemoryBudget;
use crate::cores::Cores;
use crate::kernels::level::tests::{
    Source, any_source, cells, declared, empty_source, fields, folded,
};
use crate::kernels::plan::{FoldLaw, cells_between};
use crate::kernels::words::morton::Cell;
use crate::pyramid::{Declaration, Regime};
use crate::store::Root;
use crate::store::array::Cut;
use crate::store::artifact::Tier;
use crate::store::hash::of_cells;
use crate::store::template::ColumnTemplate;

/// Orders of the node, of its children and of the cells that are read of them.
const NODE: u8 = 1;
const CHILD: u8 = 2;
const SOURCE: u8 = 4;
const N_CHILDREN: usize = 4;
/// Source cells of a child.
const N_CELLS: usize = 16;
/// Source cells of a chunk of a child.
const CHUNK: u64 = 4;
const NODE_NESTED: u64 = 13;

/// A child's cells in each window; none where it has no column.
type Columns = Vec<Vec<Option<Vec<Source>>>>;

fn template() -> Arc<ColumnTemplate> {
    let block = json!({
        "spec": "zagg-pyramid/2",
        "overviews": [{"node": CHILD, "cells": [4, 3]}],
        "overview": {"fields": declared()},
    });
    let declaration = Declaration::parse(Some(&block), CHILD, 5).unwrap();
    assert_eq!(declaration.fields, fields());
    Arc::new(ColumnTemplate::new(declaration, FoldLaw::Boundary, true).unwrap())
}

fn nested_children(nested: u64, orders: u8) -> impl Iterator<Item = u64> {
    let n_children = 1 << (2 * orders);
    (0..n_children).map(move |rank| nested * n_children + rank)
}

fn target(n_windows: usize) -> Target {
    let windows = (0..n_windows)
        .map(|window| Some(format!("w{window}")))
        .collect();
    let word = |nested, order| Cell::area(nested, order).unwrap().pack();
    Target {
        artifact: Artifact::new(Tier::Overview, word(NODE_NESTED, NODE), None).unwrap(),
        order: NODE,
        regime: Regime::Merge,
        // The pieces say what there is.
        children: Vec::new(),
        windows,
    }
}

/// The encoded objects of some of a group's arrays, all of them of these cells.
fn encoded(group: &GroupTemplate, index: u64, cells: &[FieldCells]) -> Block {
    let mut block = Block::new();
    for (members, cells) in group.fields.iter().zip(cells) {
        for (array, cells) in members.arrays().zip(cells.arrays()) {
            if let Some((key, bytes)) = array.encode(index, cells).unwrap() {
                block.push((format!("{}/{}/{key}", group.order, array.name), bytes));
            }
        }
    }
    block
}

/// Writes a column of these cells, and opens it.
async fn stored(root: &Root, path: &str, sources: &[Source]) -> Arc<OpenGroup> {
    let n_cells = sources.len() as u64;
    let cut = Cut::Chunked { cells: CHUNK };
    let group = GroupTemplate::new(&fields(), SOURCE, n_cells, cut).unwrap();
    let mut objects = group.documents(&Map::new());
    for (index, chunk) in (0..).zip(sources.chunks(CHUNK as usize)) {
        objects.extend(encoded(&group, index, &cells(chunk)));
    }
    for (key, bytes) in objects {
        root.put(&format!("{path}/{key}"), bytes).await.unwrap();
    }
    let path = path.to_owned();
    let open = OpenGroup::open(root, template(), path, SOURCE, n_cells).await;
    Arc::new(open.unwrap())
}

/// The columns as pieces of `slab` cells, and of other sizes where there is no child.
async fn pieces(columns: &Columns, slab: u64) -> mpsc::Receiver<Piece> {
    let (sender, pieces) = mpsc::channel(N_CHILDREN * N_CELLS);
    let root = Root::new(Arc::new(InMemory::new()), "memory://fold");
    for (child, windows) in columns.iter().enumerate() {
        let mut groups = Vec::new();
        for (window, sources) in windows.iter().enumerate() {
            groups.push(match sources {
                Some(sources) => Some(stored(&root, &format!("{child}/{window}"), sources).await),
                None => None,
            });
        }
        for start in (0..N_CELLS as u64).step_by(slab as usize) {
            let cells = start..start + slab;
            if groups.iter().all(Option::is_none) {
                sender.try_send(Piece::Absent(slab)).ok().unwrap();
                continue;
            }
            let mut windows = Vec::new();
            for group in &groups {
                windows.push(match group {
                    Some(group) => {
                        let window = group.fetch(&root, cells.clone()).await.unwrap();
                        Some((group.clone(), window))
                    }
                    None => None,
                });
            }
            sender
                .try_send(Piece::Cells { cells, windows })
                .ok()
                .unwrap();
        }
    }
    pieces
}

/// Every source cell in every window, in the order in which they are folded.
fn in_order(columns: &Columns) -> Vec<Source> {
    let mut sources = Vec::new();
    for windows in columns {
        for cell in 0..N_CELLS {
            for window in windows {
                sources.push(
                    window
                        .as_ref()
                        .map_or_else(empty_source, |w| w[cell].clone()),
                );
            }
        }
    }
    sources
}

fn any_columns() -> impl Strategy<Value = Columns> {
    let column = prop::collection::vec(any_source(), N_CELLS);
    let column = prop::option::weighted(0.7, column).boxed();
    (1..=3_usize).prop_flat_map(move |n_windows| {
        let windows = prop::collection::vec(column.clone(), n_windows);
        prop::collection::vec(windows, N_CHILDREN)
    })
}

fn check(columns: &Columns, group: &GroupTemplate, merges: bool, slab: u64) {
    let n_windows = columns[0].len();
    let target = target(n_windows);
    let per_cell = N_CHILDREN * N_CELLS / group.n_cells as usize * n_windows;
    let fields = fields();
    let fold = GroupFold::new(&target, group, &fields, merges.then_some(per_cell)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let pieces = runtime.block_on(pieces(columns, slab));
    let (sender, mut received) = mpsc::channel(N_CHILDREN * N_CELLS);
    let share = MemoryBudget::new(1).share();
    let done = fold.run(pieces, &sender, &share, &Cores::all()).unwrap();
    drop(sender);

    // One block per object, every array of it, in the order of their names.
    let sources = in_order(columns);
    let fold_all = |sources: &[Source]| match merges {
        true => folded(sources, per_cell),
        false => cells(sources),
    };
    let of_the_node = nested_children(NODE_NESTED, group.order - NODE);
    let words = of_the_node.map(|nested| Cell::area(nested, group.order).unwrap().pack());
    let words: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let object = group.morton.object_cells as usize;
    let by_object = sources
        .chunks(object * per_cell)
        .zip(words.chunks(object * 8));
    for (index, (sources, words)) in (0..).zip(by_object) {
        let mut expected = encoded(group, index, &fold_all(sources));
        let morton = group.morton.encode(index, CellsRef::Dense(words)).unwrap();
        let (key, bytes) = morton.unwrap();
        expected.push((format!("{}/{MORTON}/{key}", group.order), bytes));
        expected.sort();
        let mut block = received.blocking_recv().unwrap();
        block.sort();
        assert_eq!(block, expected, "object {index}");
    }
    assert!(received.blocking_recv().is_none());

    // The hashes are of all cells, however they were cut.
    let all = fold_all(&sources);
    let n_cells = group.n_cells as usize;
    assert_eq!(
        done.cells_with_data,
        cells_with_data(&fields, &all, n_cells)
    );
    let mut arrays = BTreeMap::from([(MORTON.to_owned(), CellsRef::Dense(&words))]);
    for (members, cells) in group.fields.iter().zip(&all) {
        for (array, cells) in members.arrays().zip(cells.arrays()) {
            arrays.insert(array.name.clone(), cells);
        }
    }
    let hashes = arrays
        .iter()
        .map(|(name, cells)| (format!("{}/{name}", group.order), of_cells(*cells)));
    assert_eq!(done.hashes, hashes.collect::<Vec<_>>());
    let mut hash = OverviewHash::new(&target.artifact.id, NODE, group.order);
    arrays.remove(MORTON);
    for (name, cells) in arrays {
        hash.array(&name);
        hash.update(cells);
    }
    let is_one_object = object == n_cells;
    assert_eq!(done.overview_hash, is_one_object.then(|| hash.finish()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_merge_is_the_fold_of_all_windows_of_all_children(
        columns in any_columns(),
        order in NODE..=3_u8,
        slab in prop::sample::select(&[CHUNK, N_CELLS as u64][..]),
        chunked: bool,
    ) {
        let n_cells = cells_between(order, NODE);
        let cut = match chunked && n_cells > CHUNK {
            true => Cut::Chunked { cells: CHUNK },
            false => Cut::Single,
        };
        let group = GroupTemplate::new(&fields(), order, n_cells, cut).unwrap();
        check(&columns, &group, true, slab);
    }

    #[test]
    fn a_gather_is_one_child_behind_the_other(
        columns in any_columns(),
        slab in prop::sample::select(&[CHUNK, N_CELLS as u64][..]),
        chunked: bool,
    ) {
        let columns: Columns = columns.into_iter().map(|mut windows| {
            windows.truncate(1);
            windows
        }).collect();
        let n_cells = (N_CHILDREN * N_CELLS) as u64;
        let cut = match chunked {
            true => Cut::Chunked { cells: N_CELLS as u64 },
            false => Cut::Single,
        };
        let group = GroupTemplate::new(&fields(), SOURCE, n_cells, cut).unwrap();
        check(&columns, &group, false, slab);
    }
}

#[test]
fn a_fold_whose_blocks_nobody_takes_ends() {
    let group = GroupTemplate::new(&fields(), SOURCE, 64, Cut::Chunked { cells: CHUNK });
    let (group, target, fields) = (group.unwrap(), target(1), fields());
    let fold = GroupFold::new(&target, &group, &fields, None).unwrap();
    let (sender, pieces) = mpsc::channel(N_CELLS);
    for _ in 0..N_CELLS {
        sender.try_send(Piece::Absent(CHUNK)).ok().unwrap();
    }
    let (blocks, received) = mpsc::channel(1);
    drop(received);
    // The sender of the pieces is still there: the fold does not wait for it.
    let share = MemoryBudget::new(1).share();
    fold.run(pieces, &blocks, &share, &Cores::all()).unwrap();
    assert!(sender.is_closed());
}
