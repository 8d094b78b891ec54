//! A metadata document as this crate writes it, and whether a store holds it.

use bytes::Bytes;
use md5::{Digest, Md5};
use serde_json::Value;

use super::json;
use super::root::Entry;

/// A document and its bytes (`format.md` section 7: indent 2, no newline at the end).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Document {
    /// What it says.
    pub value: Value,
    /// As it is written.
    pub bytes: Bytes,
    /// Their MD5, in hex: what object stores give as the ETag of a small object.
    md5: String,
}

impl Document {
    pub(crate) fn new(value: Value) -> Self {
        let bytes = Bytes::from(json::python_pretty(&value, json::ZARR_INDENT));
        let md5 = Md5::digest(&bytes);
        Self {
            md5: md5.iter().map(|byte| format!("{byte:02x}")).collect(),
            value,
            bytes,
        }
    }

    /// Whether a listing alone shows that an object holds these bytes. Where the ETag is no
    /// hash of the content, as on a disk, none does, and the object must be read.
    pub(crate) fn is_shown_by(&self, entry: &Entry) -> bool {
        let e_tag = entry.e_tag.as_deref().unwrap_or_default();
        entry.size == self.bytes.len() as u64 && e_tag.trim_matches('"') == self.md5
    }

    /// Whether these bytes say the same, however they are laid out.
    pub(crate) fn is_said_by(&self, bytes: &Bytes) -> bool {
        *bytes == self.bytes || json::parse(bytes).is_ok_and(|found: Value| found == self.value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(size: u64, e_tag: Option<&str>) -> Entry {
        Entry {
            key: "zarr.json".to_owned(),
            size,
            last_modified: 0,
            e_tag: e_tag.map(str::to_owned),
        }
    }

    #[test]
    fn only_the_hash_of_its_bytes_shows_a_document() {
        let document = Document::new(json!([]));
        assert_eq!(document.bytes, "[]");
        let md5 = "d751713988987e9331980363e24189ce";
        assert!(document.is_shown_by(&entry(2, Some(&format!("\"{md5}\"")))));
        assert!(document.is_shown_by(&entry(2, Some(md5))));
        assert!(!document.is_shown_by(&entry(3, Some(md5))));
        assert!(!document.is_shown_by(&entry(2, Some(&format!("\"{md5}-1\"")))));
        assert!(!document.is_shown_by(&entry(2, Some("\"1-2-2\""))));
        assert!(!document.is_shown_by(&entry(2, None)));
    }

    #[test]
    fn a_document_may_be_laid_out_in_another_way() {
        let document = Document::new(json!({"fill_value": 0}));
        assert!(document.is_said_by(&Bytes::from("{\"fill_value\":0}")));
        assert!(!document.is_said_by(&Bytes::from("{\"fill_value\":1}")));
        assert!(!document.is_said_by(&Bytes::from("{")));
    }
}
