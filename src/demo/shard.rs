//! One shard object, written inner chunk by inner chunk with the index at its end, so that
//! no more than a chunk of it is ever in memory (`format.md` section 3).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::num::NonZeroU64;
use std::path::PathBuf;

use serde_json::json;
use zarrs::array::codec::api::ArrayToBytesCodecTraits;
use zarrs::array::{ArrayBytes, CodecChain, CodecOptions, FillValue, data_type};

use super::DemoError;
use super::tree::{Tree, make_file};
use crate::store::array::EncodeError;

/// Offset and length of an inner chunk that is not there.
const ABSENT: u64 = u64::MAX;

/// Numbers the index has for each inner chunk.
const ENTRY_NUMBERS: u64 = 2;

/// A shard that is being written.
#[derive(Debug)]
pub(super) struct ShardWriter {
    path: PathBuf,
    /// Made with the first chunk: a shard without one is no object.
    file: Option<BufWriter<File>>,
    num_bytes: u64,
    /// Offset and length of each chunk so far, little-endian.
    index: Vec<u8>,
}

impl ShardWriter {
    /// A shard to be written to `path`.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            num_bytes: 0,
            index: Vec::new(),
        }
    }

    /// Appends the next inner chunk; `None` when all of its cells are fill.
    ///
    /// # Errors
    /// `Write`.
    pub(super) fn push(&mut self, chunk: Option<&[u8]>) -> Result<(), DemoError> {
        let Some(chunk) = chunk else {
            self.index_entry(ABSENT, ABSENT);
            return Ok(());
        };
        self.index_entry(self.num_bytes, chunk.len() as u64);
        self.append(chunk)
    }

    /// Appends the index and counts the object.
    ///
    /// # Errors
    /// `Write`, or `Encode` when the index cannot be encoded.
    pub(super) fn finish(mut self, tree: &mut Tree) -> Result<(), DemoError> {
        if self.file.is_none() {
            return Ok(());
        }
        let index = encode_index(&self.index).map_err(|detail| EncodeError {
            array: self.path.display().to_string(),
            detail,
        })?;
        self.append(&index)?;
        let Self { path, file, .. } = self;
        if let Some(mut file) = file {
            file.flush()
                .map_err(|source| DemoError::Write { path, source })?;
        }
        tree.count(self.num_bytes);
        Ok(())
    }

    fn index_entry(&mut self, offset: u64, num_bytes: u64) {
        self.index.extend(offset.to_le_bytes());
        self.index.extend(num_bytes.to_le_bytes());
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), DemoError> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(BufWriter::new(make_file(&self.path)?)),
        };
        file.write_all(bytes).map_err(|source| DemoError::Write {
            path: self.path.clone(),
            source,
        })?;
        self.num_bytes += bytes.len() as u64;
        Ok(())
    }
}

/// The index as the metadata's `index_codecs` say: little-endian, then a checksum.
fn encode_index(entries: &[u8]) -> Result<Vec<u8>, String> {
    let codecs = json!([
        {"name": "bytes", "configuration": {"endian": "little"}},
        {"name": "crc32c"},
    ]);
    let codecs: Vec<_> = serde_json::from_value(codecs).map_err(|error| error.to_string())?;
    let chain = CodecChain::from_metadata(&codecs).map_err(|error| error.to_string())?;
    let n_chunks = entries.len() as u64 / (ENTRY_NUMBERS * size_of::<u64>() as u64);
    let shape = [n_chunks, ENTRY_NUMBERS].map(|n| NonZeroU64::new(n).unwrap_or(NonZeroU64::MIN));
    let encoded = chain
        .encode(
            ArrayBytes::new_flen(entries),
            &shape,
            &data_type::uint64(),
            &FillValue::from(ABSENT),
            &CodecOptions::default(),
        )
        .map_err(|error| error.to_string())?;
    Ok(encoded.into_owned())
}
