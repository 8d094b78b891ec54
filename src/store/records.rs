//! Discovery: which leaves a store has, by its run records (`format.md` section 2).
//!
//! One shallow LIST of the root finds the records; no tree is ever enumerated. A record
//! that is damaged costs a warning and the leaves only it knows of. One that cannot be
//! *fetched*, or is sound and compressed in a way this program cannot undo, is another
//! matter and ends the discovery: going on would pass over leaves that are there.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::{Type, TypePtr};

use super::manifest::Manifest;
use super::root::{Root, StoreError};
use crate::error::FaultKind;
use crate::kernels::words::morton;

/// Records fetched at once.
const CONCURRENT_READS: usize = 8;

/// The column that says how many cells of a shard have data.
const CELLS: &str = "cells_with_data";

/// Whole numbers up to here are exact in a float64 column.
const EXACT_IN_F64: f64 = 9_007_199_254_740_992.0;

/// Why discovery ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The root could not be listed.
    #[error("the run records cannot be found: {0}")]
    List(#[source] StoreError),
    /// The root is a web server that does not list.
    #[error(
        "the run records are found by listing, and this http root cannot be listed: {0}; open the store by \
         the s3://, gs:// or az:// URL it is written through, or serve it from a server that answers PROPFIND"
    )]
    NotListable(#[source] StoreError),
    /// A record is there but could not be fetched.
    #[error("a run record cannot be fetched: {0}")]
    Fetch(#[source] StoreError),
    /// A record is sound and of a codec this program lacks.
    #[error(
        "run record `{name}` is compressed with {codec}, which this program cannot read, so its leaves would be \
         passed over; rewrite it with snappy"
    )]
    Codec {
        /// Name of the record.
        name: String,
        /// Name of the codec.
        codec: &'static str,
    },
}

impl RecordError {
    /// What kind of fault this is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::List(error) | Self::NotListable(error) | Self::Fetch(error) => error.kind(),
            Self::Codec { .. } => FaultKind::Declaration,
        }
    }
}

/// One leaf to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WorkItem {
    /// The shard's packed morton word.
    pub shard: u64,
    /// The window label; `None` on a store without windows.
    pub window: Option<String>,
}

/// What the run records say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Records {
    /// The leaves, sorted, each once.
    pub items: Vec<WorkItem>,
    /// Cells with data of each shard that a record tells it of; the most of them.
    pub cells: BTreeMap<u64, u64>,
    /// Shards of a windowed store for which a record names no window, sorted, each once:
    /// list each one's node with [`windows_at`].
    pub needs_window_listing: Vec<u64>,
    /// Words that are no cells of the shard order, sorted, each once.
    pub skipped: Vec<u64>,
    /// Names of the records that cannot be read, sorted.
    pub unreadable: Vec<String>,
    /// Everything worth telling, in the order of the records' names. Not logged here.
    pub warnings: Vec<String>,
}

impl Records {
    /// Finds and reads every run record of the store.
    ///
    /// # Errors
    /// When the root cannot be listed, or a record cannot be fetched or is of a codec that
    /// this program lacks.
    pub(crate) async fn read(root: &Root, manifest: &Manifest) -> Result<Self, RecordError> {
        let listed = root.list_shallow("").await.map_err(|error| {
            if root.is_read_only() && !error.kind().is_transient() {
                RecordError::NotListable(error)
            } else {
                RecordError::List(error)
            }
        })?;
        let names: Vec<String> = listed
            .objects
            .into_iter()
            .map(|object| object.key)
            .filter(|key| key.starts_with("stats_") && key.ends_with(".parquet"))
            .collect();
        let parsed: Vec<_> = stream::iter(names)
            .map(|name| async move {
                let rows = match root.get(&name).await {
                    Ok(bytes) => read_rows(bytes).await,
                    // Retired between the listing and here.
                    Err(error) if error.kind() == FaultKind::NotFound => {
                        Err(Unread::Damaged(error.to_string()))
                    }
                    Err(error) => return Err(RecordError::Fetch(error)),
                };
                match rows {
                    Ok(rows) => Ok((name, Ok(rows))),
                    Err(Unread::Damaged(reason)) => Ok((name, Err(reason))),
                    Err(Unread::Codec(codec)) => Err(RecordError::Codec { name, codec }),
                }
            })
            .buffered(CONCURRENT_READS)
            .try_collect()
            .await?;
        Ok(Self::gather(parsed, manifest))
    }

    fn gather(parsed: Vec<(String, Result<Rows, String>)>, manifest: &Manifest) -> Self {
        let windowed = manifest.is_windowed();
        let mut records = Self::default();
        let mut items = BTreeSet::new();
        let mut unlabelled = BTreeSet::new();
        let mut skipped = BTreeSet::new();
        for (name, rows) in parsed {
            let rows = match rows {
                Ok(rows) => rows,
                Err(reason) => {
                    records.warnings.push(format!(
                        "run record `{name}` cannot be read and is passed over: {reason}"
                    ));
                    records.unreadable.push(name);
                    continue;
                }
            };
            let mut warn = |count: usize, what: &str| {
                if count > 0 {
                    records
                        .warnings
                        .push(format!("run record `{name}`: {count} {what}"));
                }
            };
            let (mut foreign, mut bad_labels) = (0, 0);
            for Row {
                shard,
                window: label,
                cells,
            } in rows.shards
            {
                if morton::order(shard) != Ok(manifest.shard_order()) {
                    skipped.insert(shard);
                    foreign += 1;
                    continue;
                }
                let most = records.cells.entry(shard).or_default();
                *most = cells.max(*most);
                let window = match label {
                    // `all` is how a label says that there is no window (`format.md` section 1).
                    Some(label) if windowed && label != "all" => {
                        if !is_window(&label) {
                            bad_labels += 1;
                            continue;
                        }
                        Some(label)
                    }
                    _ if windowed => {
                        unlabelled.insert(shard);
                        continue;
                    }
                    _ => None,
                };
                items.insert(WorkItem { shard, window });
            }
            warn(
                rows.inexact,
                "shard keys are stored as float64 and are not exact from 2^53 on; skipped",
            );
            warn(
                foreign,
                &format!(
                    "shards are not of order {}; skipped",
                    manifest.shard_order()
                ),
            );
            warn(
                bad_labels,
                "window labels are not 1 to 32 letters, digits or hyphens; skipped",
            );
        }
        records.items = items.into_iter().collect();
        records.needs_window_listing = unlabelled.into_iter().collect();
        records.skipped = skipped.into_iter().collect();
        records
    }
}

/// What one record says: the successful rows that have a shard.
#[derive(Debug, Default, PartialEq)]
struct Rows {
    shards: Vec<Row>,
    /// Rows whose shard key a float64 cannot hold.
    inexact: usize,
}

/// One row.
#[derive(Debug, PartialEq)]
struct Row {
    shard: u64,
    window: Option<String>,
    /// Cells with data; 0 when it does not say.
    cells: u64,
}

/// Why a record gives no rows.
#[derive(Debug, PartialEq)]
enum Unread {
    /// It is not what a run record is.
    Damaged(String),
    /// It is of this codec, which this program lacks.
    Codec(&'static str),
}

impl From<ParquetError> for Unread {
    fn from(error: ParquetError) -> Self {
        Self::Damaged(error.to_string())
    }
}

async fn read_rows(bytes: Bytes) -> Result<Rows, Unread> {
    // Off the I/O threads, and a parser that trips over damaged bytes takes down only
    // its own task.
    tokio::task::spawn_blocking(move || parse_rows(bytes))
        .await
        .unwrap_or_else(|error| Err(Unread::Damaged(error.to_string())))
}

fn parse_rows(bytes: Bytes) -> Result<Rows, Unread> {
    if bytes.is_empty() {
        return Err(Unread::Damaged("the file is empty".to_owned()));
    }
    let reader = SerializedFileReader::new(bytes)?;
    let schema = reader.metadata().file_metadata().schema();
    let wanted: Vec<_> = schema
        .get_fields()
        .iter()
        .filter(|field| matches!(field.name(), "shard_key" | "success" | "window" | CELLS))
        .cloned()
        .collect();
    let has = |name: &str| wanted.iter().any(|field| field.name() == name);
    if !has("shard_key") {
        return Err(Unread::Damaged("it has no column `shard_key`".to_owned()));
    }
    if let Some(codec) = missing_codec(reader.metadata(), &wanted) {
        return Err(Unread::Codec(codec));
    }
    let no_success_column = !has("success");
    let columns = Type::group_type_builder(schema.name())
        .with_fields(wanted)
        .build()?;
    let mut rows = Rows::default();
    for row in reader.get_row_iter(Some(columns))? {
        let row = row?;
        let mut shard = Key::Absent;
        let mut success = no_success_column;
        let (mut window, mut cells) = (None, 0);
        for (name, field) in row.get_column_iter() {
            match name.as_str() {
                "shard_key" => shard = key(field),
                "success" => success = is_true(field),
                CELLS => cells = count(field),
                _ => window = label(field),
            }
        }
        match shard {
            _ if !success => {}
            Key::Absent => {}
            Key::Inexact => rows.inexact += 1,
            Key::Word(shard) => rows.shards.push(Row {
                shard,
                window,
                cells,
            }),
        }
    }
    Ok(rows)
}

/// The codec of these columns that this program lacks, if there is one. Other columns are
/// not decoded.
fn missing_codec(metadata: &ParquetMetaData, columns: &[TypePtr]) -> Option<&'static str> {
    let is_wanted = |path: &[String]| {
        let name = path.first().map(String::as_str);
        columns.iter().any(|column| Some(column.name()) == name)
    };
    let groups = metadata.row_groups().iter();
    groups
        .flat_map(|group| group.columns())
        .filter(|chunk| is_wanted(chunk.column_path().parts()))
        .find_map(|chunk| match chunk.compression() {
            Compression::BROTLI(_) => Some("brotli"),
            Compression::LZO => Some("lzo"),
            _ => None,
        })
}

enum Key {
    Absent,
    Inexact,
    Word(u64),
}

fn key(field: &Field) -> Key {
    match *field {
        Field::ULong(word) => Key::Word(word),
        // A signed column holds the same 64 bits.
        Field::Long(word) => Key::Word(word.cast_unsigned()),
        Field::UInt(word) => Key::Word(word.into()),
        Field::Double(word) if (0.0..EXACT_IN_F64).contains(&word) && word.fract() == 0.0 => {
            // In range and whole, so the cast is exact.
            Key::Word(word as u64)
        }
        // How pandas writes a missing value into a float column.
        Field::Double(word) if word.is_nan() => Key::Absent,
        Field::Double(_) => Key::Inexact,
        _ => Key::Absent,
    }
}

/// A count that is missing or odd is 0: it decides nothing but how work is shared out.
fn count(field: &Field) -> u64 {
    match *field {
        Field::Int(n) => u64::try_from(n).unwrap_or(0),
        Field::Long(n) => u64::try_from(n).unwrap_or(0),
        Field::UInt(n) => n.into(),
        Field::ULong(n) => n,
        // Saturates, and takes a missing one for 0.
        Field::Double(n) => n as u64,
        _ => 0,
    }
}

/// A null is no success: a run that reported nothing about a shard did not say it is done.
fn is_true(field: &Field) -> bool {
    match *field {
        Field::Bool(success) => success,
        Field::Byte(n) => n != 0,
        Field::UByte(n) => n != 0,
        Field::Int(n) => n != 0,
        Field::Long(n) => n != 0,
        Field::Float(x) => x == 1.0,
        Field::Double(x) => x == 1.0,
        _ => false,
    }
}

fn label(field: &Field) -> Option<String> {
    match field {
        Field::Str(label) => Some(label.clone()),
        Field::Bytes(label) => label.as_utf8().ok().map(str::to_owned),
        _ => None,
    }
}

/// Whether `label` is a window label, `[0-9A-Za-z-]{1,32}` (`format.md` section 1).
pub(crate) fn is_window(label: &str) -> bool {
    (1..=32).contains(&label.len())
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The windows of the shard at `node`, a key such as `1/1/2/1/3`, by one listing of it;
/// sorted, each once.
///
/// Windows are taken from the sidecars, `2019.stats.json`, `2019.pyramid.stats.json` or
/// `11213_2019.stats.json`, *and* from the leaves, `11213_2019.zarr`. A pass that was
/// interrupted has left the sidecars of only some columns, so sidecars alone would hide
/// the leaves that still lack one. `all` is no window, and neither is the shard's own id.
///
/// # Errors
/// When the node cannot be listed.
pub(crate) async fn windows_at(root: &Root, node: &str) -> Result<Vec<String>, StoreError> {
    let listed = root.list_shallow(node).await?;
    let name = |key: &str| key.rsplit('/').next().unwrap_or(key).to_owned();
    let sidecars = listed.objects.iter().filter_map(|object| {
        let name = object.name().strip_suffix(".stats.json")?;
        Some(name.strip_suffix(".pyramid").unwrap_or(name).to_owned())
    });
    let leaves = listed.prefixes.iter().filter_map(|prefix| {
        // Without an underscore it is a column or an overview.
        let name = name(prefix).strip_suffix(".zarr")?.to_owned();
        name.contains('_').then_some(name)
    });
    let id = node.replace('/', "");
    let windows: BTreeSet<String> = sidecars
        .chain(leaves)
        .filter(|stem| *stem != id)
        .map(|stem| match stem.split_once('_') {
            Some((_, window)) => window.to_owned(),
            None => stem,
        })
        .filter(|window| is_window(window) && window != "all")
        .collect();
    Ok(windows.into_iter().collect())
}

#[cfg(test)]
mod tests;
