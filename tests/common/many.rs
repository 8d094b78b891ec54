//! Stores of any number of leaves, made of one golden leaf.

use std::sync::Arc;

use parquet::data_type::Int64Type;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use zagg_stream::kernels::words::decimal;

use crate::common::cases::{Case, Law};
use crate::common::stores::Tree;

/// A store whose leaves are copies of one, under other shards.
pub(crate) struct Many {
    /// Its objects.
    pub(crate) tree: Tree,
    /// Paths of its leaves, in the order of their words.
    pub(crate) leaves: Vec<String>,
}

impl Many {
    /// A declared store of `number` copies of the first leaf of case `plain`, at most 256.
    /// The words in a leaf's `morton` array stay the first leaf's, which nobody reads.
    pub(crate) fn leaves(number: usize) -> Self {
        let case = Case::load("plain");
        let original = &case.leaves()[0];
        let (node, _) = original.rsplit_once('/').unwrap();
        let declared = case.declared(Law::Boundary);
        let of_the_original = |key: &str| {
            let below = key.strip_prefix(original.as_str())?;
            Some(below.to_owned())
        };
        let depth = node.split('/').count();
        let mut words: Vec<u64> = (0..number)
            .map(|nth| decimal::parse(&shard_id(nth, depth - 1)).unwrap())
            .collect();
        words.sort_unstable();
        let mut tree = Tree::new();
        for name in ["morton_hive.json", "aggregation.yaml"] {
            tree.insert(name.to_owned(), declared[name].clone());
        }
        tree.insert(
            "stats_20260825T101500Z_many.parquet".to_owned(),
            record(&words),
        );
        let leaves: Vec<String> = words
            .iter()
            .map(|word| decimal::leaf_path(*word, None).unwrap())
            .collect();
        for leaf in &leaves {
            for (key, bytes) in &declared {
                if let Some(below) = of_the_original(key) {
                    tree.insert(format!("{leaf}{below}"), bytes.clone());
                }
            }
        }
        Self { tree, leaves }
    }

    /// The column of a leaf, such as `1/1/2/1/3/all.pyramid.zarr`.
    pub(crate) fn column(leaf: &str) -> String {
        let (node, _) = leaf.rsplit_once('/').unwrap();
        format!("{node}/all.pyramid.zarr")
    }
}

/// The `nth` shard in base cell 1.
fn shard_id(nth: usize, order: usize) -> String {
    let digits = (0..order).rev().map(|place| {
        let digit = nth / 4usize.pow(u32::try_from(place).unwrap()) % 4 + 1;
        char::from_digit(u32::try_from(digit).unwrap(), 10).unwrap()
    });
    std::iter::once('1').chain(digits).collect()
}

/// A run record of shards that all succeeded.
pub(crate) fn record(words: &[u64]) -> Vec<u8> {
    let schema = "message schema { optional int64 shard_key (UINT_64); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut bytes = Vec::new();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    let mut rows = writer.next_row_group().unwrap();
    let mut column = rows.next_column().unwrap().unwrap();
    let values: Vec<i64> = words.iter().map(|word| word.cast_signed()).collect();
    column
        .typed::<Int64Type>()
        .write_batch(&values, Some(&vec![1; values.len()]), None)
        .unwrap();
    column.close().unwrap();
    rows.close().unwrap();
    writer.close().unwrap();
    bytes
}
