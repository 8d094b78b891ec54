//! The run record: which shards a run wrote (`format.md` section 2).

use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::DemoConfig;
use crate::time::iso;

/// Every column may be null, as in the records of the reference writer.
const SCHEMA: &str = "
    message schema {
        optional int64 shard_key (integer(64, false));
        optional byte_array window (string);
        optional boolean success;
    }";

const PRESENT: i16 = 1;
const NULL: i16 = 0;

/// Name of the record, `stats_{ts}_{run}.parquet`.
pub(super) fn file_name(config: &DemoConfig) -> String {
    let written_at = iso(config.written_at);
    // 2024-06-01T12:00:00+00:00 as 20240601T120000Z.
    let compact: String = written_at
        .chars()
        .take_while(|char| *char != '+')
        .filter(|char| char.is_ascii_alphanumeric())
        .collect();
    format!("stats_{compact}Z_demo-{}.parquet", config.seed)
}

/// A record that says each of these shards was written, in a store without windows.
///
/// # Errors
/// What the encoder says.
pub(super) fn encode(shards: &[u64]) -> Result<Vec<u8>, ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let mut body = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut body, schema, Arc::new(properties))?;
    let mut rows = writer.next_row_group()?;
    // The column is unsigned by its annotation; the bits are those of the word.
    let keys: Vec<i64> = shards.iter().map(|shard| shard.cast_signed()).collect();
    let present = vec![PRESENT; shards.len()];
    write_column::<Int64Type>(&mut rows, &keys, &present)?;
    write_column::<ByteArrayType>(&mut rows, &[], &vec![NULL; shards.len()])?;
    write_column::<BoolType>(&mut rows, &vec![true; shards.len()], &present)?;
    rows.close()?;
    writer.close()?;
    Ok(body)
}

fn write_column<T: DataType>(
    rows: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    values: &[T::T],
    definition: &[i16],
) -> Result<(), ParquetError> {
    let Some(mut column) = rows.next_column()? else {
        return Err(ParquetError::General(
            "the schema has no such column".to_owned(),
        ));
    };
    column
        .typed::<T>()
        .write_batch(values, Some(definition), None)?;
    column.close()
}
