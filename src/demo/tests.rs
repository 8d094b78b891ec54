use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use tempfile::TempDir;

use super::cells::ChunkCells;
use super::members::Source;
use super::*;
use crate::kernels::cells::CellsRef;
use crate::kernels::words::{morton, toc};

const ALL_SETS: [FieldSet; 3] = [FieldSet::Plain, FieldSet::Strata, FieldSet::Temporal];

fn small(fields: FieldSet) -> DemoConfig {
    DemoConfig {
        leaves: 2,
        cell_order: 7,
        fields,
        ..DemoConfig::default()
    }
}

/// Every file of a new store, by its path.
fn written(config: &DemoConfig) -> BTreeMap<PathBuf, Vec<u8>> {
    let dir = TempDir::new().unwrap();
    let store = write(config, dir.path()).unwrap();
    let mut files = BTreeMap::new();
    let mut directories = vec![dir.path().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let key = path.strip_prefix(dir.path()).unwrap().to_owned();
                files.insert(key, fs::read(path).unwrap());
            }
        }
    }
    assert_eq!(store.objects, files.len() as u64);
    let num_bytes: usize = files.values().map(Vec::len).sum();
    assert_eq!(store.num_bytes, num_bytes as u64);
    files
}

#[test]
fn the_same_arguments_give_the_same_bytes() {
    for fields in ALL_SETS {
        let config = small(fields);
        let files = written(&config);
        assert!(files == written(&config), "{fields:?}");
        let other = written(&DemoConfig { seed: 2, ..config });
        assert!(files != other, "{fields:?}");
    }
}

#[test]
fn shards_are_distinct_and_spread() {
    for (leaves, order) in [(1, 4), (24, 4), (3072, 4), (10_000, 5), (12_288, 5)] {
        for seed in [0, 1, u64::MAX] {
            let config = DemoConfig {
                leaves,
                seed,
                ..DemoConfig::default()
            };
            let shards = shards::choose(&config, config.shard_order().unwrap()).unwrap();
            let distinct: BTreeSet<u64> = shards.iter().copied().collect();
            assert_eq!(distinct.len(), leaves as usize);
            assert!(
                shards
                    .iter()
                    .all(|shard| morton::order(*shard) == Ok(order))
            );
            let bases: BTreeSet<u64> = shards.iter().map(|shard| shard >> 60).collect();
            assert_eq!(bases.len(), (leaves as usize).div_ceil(2).min(12));
        }
    }
}

#[test]
fn a_few_leaves_have_siblings_and_lie_north_and_south() {
    let shards = shards::choose(&DemoConfig::default(), 4).unwrap();
    let parents: BTreeSet<u64> = shards
        .iter()
        .map(|shard| morton::coarsen(*shard, 3).unwrap())
        .collect();
    assert_eq!((shards.len(), parents.len()), (4, 2));
    assert!(shards[0] < 1 << 63 && shards[3] >= 1 << 63);
}

#[test]
fn impossible_numbers_are_refused_by_name() {
    let base = DemoConfig::default;
    for (config, named) in [
        (
            DemoConfig {
                leaves: 0,
                ..base()
            },
            "leaves",
        ),
        (
            DemoConfig {
                leaves: 12_289,
                ..base()
            },
            "12288 leaves",
        ),
        (
            DemoConfig {
                leaves: 3073,
                cell_order: 6,
                ..base()
            },
            "order 7",
        ),
        (
            DemoConfig {
                cell_order: 5,
                ..base()
            },
            "order 6 to 16",
        ),
        (
            DemoConfig {
                cell_order: 17,
                ..base()
            },
            "order 6 to 16",
        ),
        (
            DemoConfig {
                centroids: 0,
                ..base()
            },
            "rows",
        ),
        (
            DemoConfig {
                centroids: 4097,
                ..base()
            },
            "4096 rows",
        ),
    ] {
        let dir = TempDir::new().unwrap();
        let error = write(&config, dir.path()).unwrap_err();
        assert!(matches!(error, DemoError::Config { .. }), "{error:?}");
        assert!(error.to_string().contains(named), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

#[test]
fn an_occupied_directory_is_left_alone() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("notes.txt");
    fs::write(&file, "mine").unwrap();
    for occupied in [dir.path(), file.as_path()] {
        let error = write(&DemoConfig::default(), occupied).unwrap_err();
        assert!(matches!(error, DemoError::Occupied { .. }), "{error:?}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(fs::read(file).unwrap(), b"mine");
}

#[test]
fn the_manifest_declares_a_column_down_to_the_shard() {
    for (shard_order, cell_order, expected) in [
        (4, 6, vec![5, 4]),
        (4, 9, vec![8, 7, 6, 5, 4]),
        (4, 14, vec![8, 7, 6, 5, 4]),
        (5, 7, vec![6, 5]),
        (5, 16, vec![9, 8, 7, 6, 5]),
    ] {
        let config = DemoConfig {
            cell_order,
            ..DemoConfig::default()
        };
        let layout = Layout::new(&config, shard_order).unwrap();
        assert_eq!(layout.column_orders, expected);
        assert!(layout.n_chunks() >= 4);
        assert_eq!(layout.n_chunks() * layout.chunk_cells(), layout.n_cells());
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
}

fn rows(payload: &[u8]) -> Vec<(f32, f32)> {
    let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
    let row = |row: &[u8]| (number(&row[..4]), number(&row[4..]));
    payload.chunks_exact(8).map(row).collect()
}

#[test]
fn digests_of_any_size_obey_the_law() {
    for (fields, centroids) in [
        (FieldSet::Plain, 1),
        (FieldSet::Strata, 12),
        (FieldSet::Temporal, 4096),
    ] {
        let config = DemoConfig {
            fields,
            centroids,
            ..small(fields)
        };
        let layout = Layout::new(&config, 4).unwrap();
        let shard = shards::choose(&config, 4).unwrap()[1];
        let mut cells = ChunkCells::new(&config, &layout);
        for chunk in 0..layout.n_chunks() {
            let figures = cells.fill(shard, chunk).unwrap();
            assert!(figures.cells_with_data > 0);
            let mut weights = vec![0.0; layout.chunk_cells() as usize];
            for i in 0..layout.digests.len() {
                check_digests(&cells, i, &config, &mut weights);
            }
            let CellsRef::Dense(count) = cells.of(Source::Count) else {
                panic!()
            };
            let counts = count
                .chunks_exact(4)
                .map(|n| i32::from_le_bytes(n.try_into().unwrap()));
            assert!(counts.map(f64::from).eq(weights.iter().copied()));
            assert_eq!(weights.iter().sum::<f64>(), figures.observations as f64);
        }
    }
}

fn check_digests(cells: &ChunkCells, digest: usize, config: &DemoConfig, weights: &mut [f64]) {
    let CellsRef::Ragged(payload) = cells.of(Source::Payload(digest)) else {
        panic!()
    };
    let CellsRef::Dense(words) = cells.of(Source::Morton) else {
        panic!()
    };
    assert_eq!(payload.len(), weights.len());
    for (i, cell) in numbers(words).enumerate() {
        let rows = rows(payload.cell(i));
        assert!(rows.len() < config.delta() as usize);
        assert!(rows.is_sorted_by(|a, b| a.0 <= b.0), "means ascend");
        assert!(rows.iter().all(|row| row.1 >= 1.0 && row.1.fract() == 0.0));
        weights[i] += rows.iter().map(|row| f64::from(row.1)).sum::<f64>();
        if let CellsRef::Ragged(locations) = cells.of(Source::Locations(digest)) {
            let places: Vec<u64> = numbers(locations.cell(i)).collect();
            assert_eq!(places.len(), rows.len());
            let cell_of = |place: &u64| morton::coarsen(*place, config.cell_order);
            assert!(places.iter().all(|place| cell_of(place) == Ok(cell)));
        }
        if let CellsRef::Ragged(times) = cells.of(Source::Times(digest)) {
            let instants: Vec<u64> = numbers(times.cell(i)).collect();
            assert_eq!(instants.len(), rows.len());
            assert!(
                instants
                    .iter()
                    .all(|time| toc::decode(*time).0 <= toc::decode(*time).1)
            );
            let CellsRef::Dense(observed) = cells.of(Source::Observed) else {
                panic!()
            };
            let joined = toc::merge_all(&instants).unwrap_or(0);
            assert_eq!(numbers(observed).nth(i), Some(joined));
        }
    }
}

#[test]
fn about_seven_cells_in_ten_have_data_and_digests_have_the_asked_size() {
    let dir = TempDir::new().unwrap();
    let config = DemoConfig {
        leaves: 2,
        cell_order: 10,
        ..DemoConfig::default()
    };
    let store = write(&config, dir.path()).unwrap();
    let filled = store.cells_with_data as f64 / store.cells as f64;
    assert!((0.65..0.75).contains(&filled), "{filled}");
    let rows = store.centroids as f64 / store.cells_with_data as f64;
    assert!((11.5..12.5).contains(&rows), "{rows}");
}
