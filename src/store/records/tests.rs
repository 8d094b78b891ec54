use std::sync::Arc;

use object_store::memory::InMemory;
use parquet::basic::{GzipLevel, ZstdLevel};
use parquet::data_type::{BoolType, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;

/// A word of shard order 4 in base cell 1, and its neighbours.
const SHARD: u64 = 1_233_986_297_899_515_908;

enum Column {
    Keys(Vec<Option<u64>>),
    FloatKeys(Vec<Option<f64>>),
    Success(Vec<Option<bool>>),
    Window(Vec<Option<&'static str>>),
}

fn split<T: Clone>(values: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    let levels = values.iter().map(|value| i16::from(value.is_some()));
    (values.iter().flatten().cloned().collect(), levels.collect())
}

fn record_with(keys: &str, columns: &[Column]) -> Bytes {
    record_in(Compression::UNCOMPRESSED, keys, columns)
}

fn record_in(codec: Compression, keys: &str, columns: &[Column]) -> Bytes {
    let fields: String = columns
        .iter()
        .map(|column| match column {
            Column::Keys(_) => format!("optional {keys};"),
            Column::FloatKeys(_) => "optional double shard_key;".to_owned(),
            Column::Success(_) => "optional boolean success;".to_owned(),
            Column::Window(_) => "optional binary window (UTF8);".to_owned(),
        })
        .collect();
    let schema = format!("message schema {{ optional double other; {fields} }}");
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let mut bytes = Vec::new();
    let properties = WriterProperties::builder().set_compression(codec).build();
    let properties = Arc::new(properties);
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let rows = match &columns[0] {
        Column::Keys(keys) => keys.len(),
        Column::FloatKeys(keys) => keys.len(),
        _ => panic!("keys come first"),
    };
    let mut other = group.next_column().unwrap().unwrap();
    other
        .typed::<DoubleType>()
        .write_batch(&[], Some(&vec![0; rows]), None)
        .unwrap();
    other.close().unwrap();
    for column in columns {
        let mut writer = group.next_column().unwrap().unwrap();
        match column {
            Column::Keys(keys) => {
                let (values, levels) = split(keys);
                let values: Vec<i64> = values.iter().map(|word| word.cast_signed()).collect();
                writer
                    .typed::<Int64Type>()
                    .write_batch(&values, Some(&levels), None)
            }
            Column::FloatKeys(keys) => {
                let (values, levels) = split(keys);
                writer
                    .typed::<DoubleType>()
                    .write_batch(&values, Some(&levels), None)
            }
            Column::Success(success) => {
                let (values, levels) = split(success);
                writer
                    .typed::<BoolType>()
                    .write_batch(&values, Some(&levels), None)
            }
            Column::Window(labels) => {
                let (values, levels) = split(labels);
                let values: Vec<_> = values.into_iter().map(Into::into).collect();
                writer
                    .typed::<ByteArrayType>()
                    .write_batch(&values, Some(&levels), None)
            }
        }
        .unwrap();
        writer.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes.into()
}

fn record(columns: &[Column]) -> Bytes {
    record_with("int64 shard_key (UINT_64)", columns)
}

fn keys(words: &[u64]) -> Column {
    Column::Keys(words.iter().copied().map(Some).collect())
}

fn manifest(shard_order: u8, windowed: bool) -> Manifest {
    let temporal = if windowed { "\"temporal\": {}, " } else { "" };
    let text = format!(
        "{{\"spec\": \"morton-hive/2\", {temporal}\"cell_order\": 29, \"shard_order\": {shard_order}}}"
    );
    Manifest::parse(text.as_bytes(), "morton_hive.json").unwrap()
}

async fn read(records: Vec<(&str, Bytes)>, windowed: bool) -> Records {
    read_at(records, 4, windowed).await
}

async fn read_at(records: Vec<(&str, Bytes)>, shard_order: u8, windowed: bool) -> Records {
    let root = Root::new(Arc::new(InMemory::new()), "memory://hive");
    for (name, bytes) in records {
        root.put(name, bytes).await.unwrap();
    }
    Records::read(&root, &manifest(shard_order, windowed))
        .await
        .unwrap()
}

fn shards(records: &Records) -> Vec<u64> {
    records.items.iter().map(|item| item.shard).collect()
}

/// The `n`th shard of order 4 after [`SHARD`].
fn shard(n: u64) -> u64 {
    SHARD + (n << 52)
}

#[tokio::test]
async fn successful_rows_with_a_key_are_sorted_and_unique() {
    let first = record(&[
        Column::Keys(vec![
            Some(shard(3)),
            None,
            Some(shard(1)),
            Some(shard(2)),
            Some(shard(5)),
        ]),
        Column::Success(vec![Some(true), Some(true), Some(true), Some(false), None]),
    ]);
    let second = record(&[keys(&[shard(1), shard(0)])]);
    let found = read(
        vec![("stats_b.parquet", first), ("stats_a.parquet", second)],
        false,
    )
    .await;
    assert_eq!(shards(&found), [shard(0), shard(1), shard(3)]);
    assert!(found.items.iter().all(|item| item.window.is_none()));
    assert!(found.warnings.is_empty() && found.needs_window_listing.is_empty());
}

#[tokio::test]
async fn only_run_records_are_read() {
    let good = record(&[keys(&[shard(0)])]);
    let found = read(
        vec![
            ("sweep_stats_x.parquet", good.clone()),
            ("stats_x.json", good.clone()),
            ("deeper/stats_x.parquet", good),
        ],
        false,
    )
    .await;
    assert_eq!(found, Records::default());
}

#[tokio::test]
async fn a_signed_key_column_holds_the_same_words() {
    let high = 0xA000_0000_0000_0004;
    let signed = record_with("int64 shard_key", &[keys(&[high, shard(0)])]);
    assert_eq!(
        shards(&read(vec![("stats_a.parquet", signed)], false).await),
        [shard(0), high]
    );
    let unsigned = record(&[keys(&[high])]);
    assert_eq!(
        shards(&read(vec![("stats_a.parquet", unsigned)], false).await),
        [high]
    );
}

#[tokio::test]
async fn a_float_key_column_is_skipped_with_one_warning() {
    let floats = record(&[Column::FloatKeys(vec![
        Some(SHARD as f64),
        Some(shard(1) as f64),
        None,
        Some(f64::NAN),
        Some(9_007_199_254_740_991.0),
    ])]);
    let found = read(vec![("stats_a.parquet", floats)], false).await;
    assert!(found.items.is_empty());
    let inexact: Vec<_> = found
        .warnings
        .iter()
        .filter(|w| w.contains("float64"))
        .collect();
    assert_eq!(inexact.len(), 1);
    assert!(inexact[0].contains(": 2 shard keys"), "{inexact:?}");
    // Below 2^53 a float is exact, but such a word has no base cell.
    assert_eq!(found.skipped, [9_007_199_254_740_991]);
}

#[tokio::test]
async fn words_of_another_order_are_skipped_and_reported() {
    let (order_5, order_29) = (SHARD + 1, (SHARD & !63) | 29);
    let mixed = record(&[keys(&[shard(0), order_5, 0, order_29])]);
    let found = read(vec![("stats_a.parquet", mixed)], false).await;
    assert_eq!(shards(&found), [shard(0)]);
    assert_eq!(found.skipped, [0, order_5, order_29]);
    assert_eq!(found.warnings.len(), 1, "{:?}", found.warnings);
    assert!(found.warnings[0].contains("3 shards are not of order 4"));
}

#[tokio::test]
async fn windows_come_from_the_record_or_from_the_node() {
    let labelled = record(&[
        keys(&[shard(0), shard(0), shard(1), shard(2), shard(3)]),
        Column::Window(vec![
            Some("2020"),
            Some("2019"),
            None,
            Some("all"),
            Some("a/b"),
        ]),
    ]);
    let bare = record(&[keys(&[shard(5), shard(4)])]);
    let files = vec![("stats_a.parquet", labelled), ("stats_b.parquet", bare)];
    let found = read(files.clone(), true).await;
    let items: Vec<_> = found
        .items
        .iter()
        .map(|item| (item.shard, item.window.as_deref()))
        .collect();
    assert_eq!(items, [(shard(0), Some("2019")), (shard(0), Some("2020"))]);
    assert_eq!(
        found.needs_window_listing,
        [shard(1), shard(2), shard(4), shard(5)]
    );
    assert_eq!(found.warnings.len(), 1);
    let unwindowed = read(files, false).await;
    assert_eq!(unwindowed.items.len(), 6);
    assert!(unwindowed.needs_window_listing.is_empty());
}

#[tokio::test]
async fn a_damaged_record_costs_a_warning() {
    let good = record(&[keys(&[shard(0), shard(1)])]);
    let mut flipped = good.to_vec();
    for byte in &mut flipped[4..60] {
        *byte ^= 0xff;
    }
    let no_keys = {
        let bytes = record_with("int64 shard_kez", &[keys(&[1])]);
        ("stats_nokey.parquet", bytes)
    };
    let found = read(
        vec![
            ("stats_cut.parquet", good.slice(..good.len() / 2)),
            ("stats_empty.parquet", Bytes::new()),
            ("stats_flipped.parquet", flipped.into()),
            ("stats_good.parquet", good.clone()),
            no_keys,
            ("stats_text.parquet", "not parquet at all".into()),
        ],
        false,
    )
    .await;
    assert_eq!(shards(&found), [shard(0), shard(1)]);
    assert_eq!(found.warnings.len(), 5, "{:?}", found.warnings);
    for warning in &found.warnings {
        assert!(warning.contains("cannot be read"), "{warning}");
    }
}

#[tokio::test]
async fn records_of_every_common_codec_are_read() {
    let shards_of = |n: u64| (0..n).map(shard).collect::<Vec<_>>();
    for codec in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
    ] {
        let columns = [
            keys(&shards_of(9)),
            Column::Window(vec![Some("2019"); 9]),
            Column::Success(vec![Some(true); 9]),
        ];
        let record = record_in(codec, "int64 shard_key (UINT_64)", &columns);
        let found = read(vec![("stats_a.parquet", record)], true).await;
        assert_eq!(shards(&found), shards_of(9), "{codec:?}");
        assert!(found.warnings.is_empty(), "{codec:?}: {found:?}");
    }
}

#[tokio::test]
async fn a_record_of_a_codec_this_program_lacks_is_refused_by_name() {
    let root = Root::new(Arc::new(InMemory::new()), "memory://hive");
    let good = record(&[keys(&[shard(0)])]);
    root.put("stats_a.parquet", good).await.unwrap();
    let brotli = golden("brotli");
    root.put("stats_b.parquet", brotli.clone()).await.unwrap();
    let refused = Records::read(&root, &manifest(4, false)).await.unwrap_err();
    assert_eq!(refused.kind(), FaultKind::Declaration);
    let says = refused.to_string();
    for part in ["`stats_b.parquet`", "brotli", "rewrite it with snappy"] {
        assert!(says.contains(part), "{says}");
    }
    // A damaged one of the same codec is a damaged one.
    let cut = brotli.slice(..brotli.len() / 2);
    let found = read(vec![("stats_b.parquet", cut)], false).await;
    assert_eq!(found.unreadable, ["stats_b.parquet"]);
}

#[tokio::test]
async fn a_damaged_page_of_a_compressed_record_costs_a_warning() {
    let columns = [keys(&[shard(0), shard(1)])];
    let codec = Compression::ZSTD(ZstdLevel::default());
    let mut record = record_in(codec, "int64 shard_key (UINT_64)", &columns).to_vec();
    // The first frames are of a column nobody reads.
    let magic = [0x28, 0xb5, 0x2f, 0xfd];
    let frame = record.windows(4).rposition(|at| at == magic);
    record[frame.unwrap()] ^= 0xff;
    let found = read(vec![("stats_a.parquet", record.into())], false).await;
    assert_eq!(found.unreadable, ["stats_a.parquet"]);
}

#[test]
fn no_cut_of_a_record_gets_past_the_parser_as_a_panic() {
    let good = record(&[keys(&[shard(0)]), Column::Window(vec![Some("2019")])]);
    for len in 0..good.len() {
        assert!(parse_rows(good.slice(..len)).is_err(), "{len}");
    }
}

/// A record another program wrote.
fn golden(name: &str) -> Bytes {
    let path = format!(
        "{}/tests/data/records/{name}.parquet",
        env!("CARGO_MANIFEST_DIR")
    );
    Bytes::from(std::fs::read(path).unwrap())
}

#[tokio::test]
async fn golden_records_give_the_leaves_of_their_store() {
    let plain = read(vec![("stats_x.parquet", golden("plain"))], false).await;
    assert_eq!(
        shards(&plain),
        [
            1_233_986_297_899_515_908,
            1_238_489_897_526_886_404,
            1_252_000_696_408_997_892,
            2_386_907_802_506_362_884
        ]
    );
    let windowed = read(vec![("stats_x.parquet", golden("windowed"))], true).await;
    assert_eq!(windowed.items.len(), 6);
    let labels: BTreeSet<_> = windowed
        .items
        .iter()
        .map(|item| item.window.clone())
        .collect();
    assert_eq!(labels.len(), 2);
    let strata = read(vec![("stats_x.parquet", golden("strata"))], false).await;
    assert_eq!(strata.items.len(), 4);
    assert!(shards(&strata).contains(&10_475_372_733_263_773_700));
    let deep = read_at(vec![("stats_x.parquet", golden("deep"))], 2, false).await;
    assert_eq!(deep.items.len(), 3, "the failed row is left out");
    for records in [plain, windowed, strata, deep] {
        assert!(
            records.warnings.is_empty() && records.skipped.is_empty(),
            "{records:?}"
        );
    }
}

#[tokio::test]
async fn windows_at_a_node_come_from_sidecars_and_leaves() {
    let root = Root::new(Arc::new(InMemory::new()), "memory://hive");
    for key in [
        "1/1/2/1/3/2018.stats.json",
        "1/1/2/1/3/2019.pyramid.stats.json",
        "1/1/2/1/3/11213_2020.stats.json",
        "1/1/2/1/3/11213_2021.zarr/zarr.json",
        "1/1/2/1/3/11213_2019.zarr/zarr.json",
        "1/1/2/1/3/all.pyramid.stats.json",
        "1/1/2/1/3/11213.stats.json",
        "1/1/2/1/3/stats.json",
        "1/1/2/1/3/2022.pyramid.zarr/zarr.json",
        "1/1/2/1/3/granules_2023.json",
        "1/1/2/1/3/4/2024.stats.json",
    ] {
        root.put(key, "{}").await.unwrap();
    }
    let before = root.tally().list;
    assert_eq!(
        windows_at(&root, "1/1/2/1/3").await.unwrap(),
        ["2018", "2019", "2020", "2021"]
    );
    assert_eq!(root.tally().list, before + 1);
    assert!(windows_at(&root, "1/4").await.unwrap().is_empty());
}

#[test]
fn window_labels_follow_the_grammar() {
    for good in [
        "2019",
        "a",
        "2019-01-W3",
        "AZaz09-AZaz09-AZaz09-AZaz09-AZaz",
    ] {
        assert!(is_window(good), "{good}");
    }
    for bad in ["", "a_b", "a/b", "ü", "a.b", &"x".repeat(33)] {
        assert!(!is_window(bad), "{bad}");
    }
}
