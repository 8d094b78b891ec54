//! The values of a `time` array: nanoseconds since 1970, as int64.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use bytes::Bytes;
use serde_json::Value;
use zarrs::array::codec::api::ArrayToBytesCodecTraits;
use zarrs::array::{ArrayMetadataV3, CodecChain, CodecOptions, DataType};

use super::layout::{Array, below};
use super::tree::Tree;
use crate::store::root::{Version, Versioned};
use crate::store::{Root, StoreError};

/// Bytes of one time.
const WIDTH: usize = size_of::<i64>();

/// The most times in one object that are decoded; more than any cube has acquisitions.
const MOST_DECODED: u64 = 1 << 20;

/// A `time` array and its objects.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Times {
    /// The objects that are there, by their index.
    pub objects: BTreeMap<u64, TimeObject>,
    /// The values of the whole axis.
    pub values: Values,
}

/// One stored object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TimeObject {
    pub key: String,
    pub bytes: Bytes,
    pub version: Version,
}

/// What the objects of a `time` array hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Values {
    /// The times, and the value that stands for one that was never written.
    Known { times: Vec<i64>, fill: i64 },
    /// They are stored in a way that is not read here.
    Unread,
    /// An object is not what the document says.
    Damaged(String),
}

impl Values {
    /// The times, when they are known.
    pub(crate) fn times(&self) -> Option<&[i64]> {
        match self {
            Self::Known { times, .. } => Some(times),
            Self::Unread | Self::Damaged(_) => None,
        }
    }
}

/// Whether an array is one that times can be read from and copied as they are: one
/// dimension, named `time`, of int64 in a regular grid.
///
/// # Errors
/// What it is instead.
pub(crate) fn require_plain(array: &Array) -> Result<(), &'static str> {
    if array.shape.len() != 1 {
        return Err("it does not have one dimension");
    }
    if array.time_axis().is_none() {
        return Err("its dimension is not named `time`");
    }
    if array.data_type != "int64" {
        return Err("its data type is not int64");
    }
    if array.object_shape.is_none() {
        return Err("its chunk grid is not regular");
    }
    if array.has_storage_transformers {
        return Err("it has storage transformers");
    }
    if !array.names_its_objects() {
        return Err("its chunk key encoding is neither default nor v2");
    }
    Ok(())
}

/// Reads the `time` array at `path`, which must be plain.
///
/// # Errors
/// A failed request.
pub(crate) async fn read(
    root: &Root,
    tree: &Tree,
    path: &str,
) -> Result<Option<Times>, StoreError> {
    let (Some(array), Some(document)) = (tree.array(path), tree.documents.get(path)) else {
        return Ok(None);
    };
    if require_plain(array).is_err() {
        return Ok(None);
    }
    let mut objects = BTreeMap::new();
    // Of a length that cannot be there are no more objects than were listed.
    for key in tree.keys_below(path) {
        let name = below(key, path).unwrap_or_default();
        let Some(index) = array.object_index(name) else {
            continue;
        };
        let Versioned { bytes, version } = root.get_with_version(key).await?;
        let object = TimeObject {
            key: key.to_owned(),
            bytes,
            version,
        };
        objects.insert(index, object);
    }
    let document = document.value.clone().unwrap_or_default();
    let values = decode(array, document, &objects);
    Ok(Some(Times { objects, values }))
}

fn decode(array: &Array, document: Value, objects: &BTreeMap<u64, TimeObject>) -> Values {
    let (&[length], Some(&[object_length])) =
        (array.shape.as_slice(), array.object_shape.as_deref())
    else {
        return Values::Unread;
    };
    let Some((codecs, data_type, fill)) = codec(document) else {
        return Values::Unread;
    };
    if object_length > MOST_DECODED || length > MOST_DECODED {
        return Values::Unread;
    }
    let shape = [NonZeroU64::new(object_length).unwrap_or(NonZeroU64::MIN)];
    let mut times = Vec::new();
    for index in 0..length.div_ceil(object_length) {
        let here = object_length.min(length - index * object_length) as usize;
        let Some(object) = objects.get(&index) else {
            times.resize(times.len() + here, fill);
            continue;
        };
        let decoded = codecs
            .decode(
                object.bytes.as_ref().into(),
                &shape,
                &data_type,
                &fill.into(),
                &CodecOptions::default().with_concurrent_target(1),
            )
            .and_then(|decoded| Ok(decoded.into_fixed()?.into_owned()));
        let bytes = match decoded {
            Ok(bytes) if bytes.len() >= here * WIDTH => bytes,
            Ok(_) => return Values::Damaged(format!("`{}` is too short", object.key)),
            Err(error) => return Values::Damaged(format!("`{}`: {error}", object.key)),
        };
        let (whole, _) = bytes.as_chunks::<WIDTH>();
        times.extend(whole.iter().take(here).copied().map(i64::from_ne_bytes));
    }
    Values::Known { times, fill }
}

/// The codecs of an array, when they are known here.
fn codec(document: Value) -> Option<(CodecChain, DataType, i64)> {
    let metadata: ArrayMetadataV3 = serde_json::from_value(document).ok()?;
    let data_type = DataType::from_metadata(&metadata.data_type).ok()?;
    let fill = data_type.fill_value_v3(&metadata.fill_value).ok()?;
    let fill = i64::from_ne_bytes(fill.as_ne_bytes().try_into().ok()?);
    let codecs = CodecChain::from_metadata(&metadata.codecs).ok()?;
    Some((codecs, data_type, fill))
}
