//! Decodes the chunks nearly all bytes of a store are in: `vlen-bytes` in one zstd frame.
//!
//! zarrs decodes them too; but it makes a new decompressor for each chunk, which costs
//! as much as decompressing a small one, and it takes the lengths of the cells on trust.
//! `format.md` section 3, "Ragged array".

use std::cell::RefCell;
use std::io;

use zarrs::metadata::v3::MetadataV3;
use zstd::bulk::Decompressor;

use crate::kernels::ragged::RaggedColumn;

/// Bytes of a length, and of the count of cells.
const LENGTH_BYTES: usize = size_of::<u32>();

thread_local! {
    static FRAME: RefCell<Frame> = RefCell::new(Frame::default());
}

/// What a thread keeps from one chunk to the next.
#[derive(Default)]
struct Frame {
    decompressor: Option<Decompressor<'static>>,
    decoded: Vec<u8>,
}

/// Whether chunks with these codecs are `vlen-bytes`, whatever was done to those.
pub(super) fn is_vlen(codecs: &[MetadataV3]) -> bool {
    matches!(codecs, [vlen, ..] if vlen.name() == "vlen-bytes")
}

/// Whether chunks with these codecs are one frame and can be decoded here.
pub(super) fn is_vlen_in_zstd(codecs: &[MetadataV3]) -> bool {
    matches!(codecs, [vlen, zstd] if vlen.name() == "vlen-bytes" && zstd.name() == "zstd")
}

/// Decodes a chunk of `n_cells` byte strings. `decoded_bytes` is what the frame claims to
/// hold, already found plausible.
///
/// # Errors
/// When the bytes are no such chunk.
pub(super) fn decode(
    encoded: &[u8],
    decoded_bytes: usize,
    n_cells: usize,
) -> Result<RaggedColumn, String> {
    FRAME.with_borrow_mut(|frame| {
        let decoded = frame
            .decompress(encoded, decoded_bytes)
            .map_err(|error| error.to_string())?;
        cells(decoded, n_cells)
    })
}

impl Frame {
    fn decompress(&mut self, encoded: &[u8], decoded_bytes: usize) -> io::Result<&[u8]> {
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(Decompressor::new()?),
        };
        self.decoded.clear();
        self.decoded.reserve(decoded_bytes);
        decompressor.decompress_to_buffer(encoded, &mut self.decoded)?;
        Ok(&self.decoded)
    }
}

/// Takes apart a chunk: a count of cells, then per cell its length and its bytes.
///
/// # Errors
/// When the bytes are no such chunk of `n_cells`.
pub(super) fn cells(decoded: &[u8], n_cells: usize) -> Result<RaggedColumn, String> {
    let (count, mut rest) = length(decoded).ok_or("it ends before its count of cells")?;
    if count != n_cells {
        return Err(format!("it holds {count} cells where {n_cells} are due"));
    }
    let mut column = RaggedColumn::with_capacity(n_cells, rest.len());
    for cell in 0..n_cells {
        let (num_bytes, bytes) =
            length(rest).ok_or_else(|| format!("it ends before cell {cell}"))?;
        if num_bytes > bytes.len() {
            return Err(format!(
                "cell {cell} claims {num_bytes} bytes and the chunk has {} left",
                bytes.len()
            ));
        }
        let (bytes, after) = bytes.split_at(num_bytes);
        column.push(bytes);
        rest = after;
    }
    if rest.is_empty() {
        Ok(column)
    } else {
        Err(format!("{} bytes follow its last cell", rest.len()))
    }
}

fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    Some((u32::from_le_bytes(*length) as usize, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernels::cells::CellsRef;
    use crate::store::array::{ArrayTemplate, Cut};

    fn encode(column: &RaggedColumn) -> Vec<u8> {
        let cut = Cut::Single;
        let array = ArrayTemplate::ragged("a", column.len() as u64, cut, Default::default());
        let encoded = array.unwrap().encode(0, CellsRef::Ragged(column)).unwrap();
        encoded.expect("a column that is not all fill").1.to_vec()
    }

    proptest! {
        #[test]
        fn what_zarrs_encodes_comes_back(
            cells in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..50)
        ) {
            prop_assume!(cells.iter().any(|cell| !cell.is_empty()));
            let column: RaggedColumn = cells.iter().map(Vec::as_slice).collect();
            let size = 4 + cells.iter().map(|cell| 4 + cell.len()).sum::<usize>();
            prop_assert_eq!(decode(&encode(&column), size, cells.len()), Ok(column));
        }

        #[test]
        fn damage_is_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = cells(&bytes, 3);
            let _ = decode(&bytes, 64, 3);
        }
    }

    #[test]
    fn lengths_past_the_chunk_are_refused_without_being_allocated() {
        let chunk = [&1u32.to_le_bytes()[..], &u32::MAX.to_le_bytes(), b"ab"].concat();
        assert!(
            cells(&chunk, 1)
                .unwrap_err()
                .contains("claims 4294967295 bytes")
        );
        assert!(cells(&chunk, 2).unwrap_err().contains("2 are due"));
        assert!(
            cells(&chunk[..6], 1)
                .unwrap_err()
                .contains("ends before cell 0")
        );
        let long = [&1u32.to_le_bytes()[..], &0u32.to_le_bytes(), b"ab"].concat();
        assert!(cells(&long, 1).unwrap_err().contains("2 bytes follow"));
    }
}
