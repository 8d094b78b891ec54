//! Shards and chunks by hand, to be spoilt: what the format says of them and no more.

/// A sharded object, its inner chunks still encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shard {
    /// The inner chunks in order; `None` for one never written.
    pub(crate) chunks: Vec<Option<Vec<u8>>>,
}

impl Shard {
    /// Takes apart a shard of `num_chunks` whose index is at its end.
    pub(crate) fn parse(bytes: &[u8], num_chunks: usize) -> Self {
        let start = bytes.len() - index_len(num_chunks);
        let index = &bytes[start..];
        let number = |at: usize| u64::from_le_bytes(index[at..at + 8].try_into().unwrap());
        let chunks = (0..num_chunks).map(|nth| {
            let (offset, size) = (number(nth * 16), number(nth * 16 + 8));
            (offset != u64::MAX).then(|| {
                let offset = usize::try_from(offset).unwrap();
                bytes[offset..offset + usize::try_from(size).unwrap()].to_vec()
            })
        });
        let shard = Self {
            chunks: chunks.collect(),
        };
        assert_eq!(shard.to_bytes(), bytes, "shards are dense and in order");
        shard
    }

    /// The object, with its index at the end.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.chunks.iter().flatten().flatten().copied().collect();
        bytes.extend(index(&self.entries(0)));
        bytes
    }

    /// The object, with its index at the start.
    pub(crate) fn to_bytes_index_first(&self) -> Vec<u8> {
        let first = u64::try_from(index_len(self.chunks.len())).unwrap();
        let mut bytes = index(&self.entries(first));
        bytes.extend(self.chunks.iter().flatten().flatten());
        bytes
    }

    /// The object with other index entries, its checksum right.
    pub(crate) fn with_entries(&self, edit: impl FnOnce(&mut Vec<(u64, u64)>)) -> Vec<u8> {
        let mut entries = self.entries(0);
        let before = entries.clone();
        edit(&mut entries);
        assert_ne!(before, entries);
        let mut bytes: Vec<u8> = self.chunks.iter().flatten().flatten().copied().collect();
        bytes.extend(index(&entries));
        bytes
    }

    fn entries(&self, first: u64) -> Vec<(u64, u64)> {
        let mut next = first;
        let entry = |chunk: &Option<Vec<u8>>| match chunk {
            Some(chunk) => {
                let size = u64::try_from(chunk.len()).unwrap();
                next += size;
                (next - size, size)
            }
            None => (u64::MAX, u64::MAX),
        };
        self.chunks.iter().map(entry).collect()
    }

    /// The payloads of all cells of a ragged array with `per_chunk` cells to a chunk.
    pub(crate) fn ragged(&self, per_chunk: usize) -> Vec<Vec<u8>> {
        let cells = |chunk: &Option<Vec<u8>>| match chunk {
            Some(chunk) => ragged_cells(&zstd::decode_all(chunk.as_slice()).unwrap()),
            None => vec![Vec::new(); per_chunk],
        };
        self.chunks.iter().flat_map(cells).collect()
    }

    /// The values of all cells of a dense array, `fill` where there is no chunk.
    pub(crate) fn dense(&self, per_chunk: usize, fill: &[u8]) -> Vec<u8> {
        let values = |chunk: &Option<Vec<u8>>| match chunk {
            Some(chunk) => chunk.clone(),
            None => fill.repeat(per_chunk),
        };
        self.chunks.iter().flat_map(values).collect()
    }

    /// A shard of ragged cells; a chunk of empty ones is not written.
    pub(crate) fn of_ragged(cells: &[Vec<u8>], per_chunk: usize) -> Self {
        let chunk = |cells: &[Vec<u8>]| {
            let written = cells.iter().any(|cell| !cell.is_empty());
            written.then(|| compress(&ragged_chunk(cells)))
        };
        Self {
            chunks: cells.chunks(per_chunk).map(chunk).collect(),
        }
    }
}

/// A vlen-bytes chunk.
pub(crate) fn ragged_chunk(cells: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = u32::try_from(cells.len()).unwrap().to_le_bytes().to_vec();
    for cell in cells {
        bytes.extend(u32::try_from(cell.len()).unwrap().to_le_bytes());
        bytes.extend(cell);
    }
    bytes
}

/// The cells of a vlen-bytes chunk.
pub(crate) fn ragged_cells(chunk: &[u8]) -> Vec<Vec<u8>> {
    let number = |at: usize| u32::from_le_bytes(chunk[at..at + 4].try_into().unwrap());
    let mut at = 4;
    let mut cell = || {
        let len = usize::try_from(number(at)).unwrap();
        let bytes = chunk[at + 4..at + 4 + len].to_vec();
        at += 4 + len;
        bytes
    };
    (0..number(0)).map(|_| cell()).collect()
}

/// A zstd frame as the store has them.
pub(crate) fn compress(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 3).unwrap()
}

/// A zstd frame of one short block whose header claims `num_bytes`.
pub(crate) fn claims(num_bytes: u64) -> Vec<u8> {
    const MAGIC: u32 = 0xfd2f_b528;
    const SIZE_OF_EIGHT_BYTES_SINGLE_SEGMENT: u8 = 0b1110_0000;
    const LAST_RLE_BLOCK_OF_ONE_BYTE: [u8; 3] = [0b0000_1011, 0, 0];
    let mut frame = MAGIC.to_le_bytes().to_vec();
    frame.push(SIZE_OF_EIGHT_BYTES_SINGLE_SEGMENT);
    frame.extend(num_bytes.to_le_bytes());
    frame.extend(LAST_RLE_BLOCK_OF_ONE_BYTE);
    frame.push(0);
    frame
}

fn index_len(num_chunks: usize) -> usize {
    num_chunks * 16 + 4
}

fn index(entries: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes: Vec<u8> = entries
        .iter()
        .flat_map(|(offset, size)| [offset.to_le_bytes(), size.to_le_bytes()])
        .flatten()
        .collect();
    bytes.extend(crc32c(&bytes).to_le_bytes());
    bytes
}

fn crc32c(bytes: &[u8]) -> u32 {
    const REVERSED_CASTAGNOLI: u32 = 0x82f6_3b78;
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (REVERSED_CASTAGNOLI & (crc & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}
