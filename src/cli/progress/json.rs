//! Progress as JSON, one object a line.

use serde_json::{Map, Value};
use tracing::Metadata;

use super::layer::Fields;
use crate::watch::{FLEET, LEASE, PROGRESS, REQUESTS};

/// An event as a line, named as in `docs/events.md`; a warning is called after its level.
pub(super) fn line(metadata: &Metadata<'_>, fields: &Fields) -> String {
    let is_told = [PROGRESS, LEASE, REQUESTS, FLEET].contains(&metadata.target());
    let mut object = Map::new();
    if is_told {
        object.insert("event".to_owned(), fields.message.replace(' ', "-").into());
    } else {
        let level = metadata.level().as_str().to_ascii_lowercase();
        object.insert("event".to_owned(), level.into());
        object.insert("message".to_owned(), fields.message.clone().into());
    }
    object.extend(fields.others.clone());
    Value::Object(object).to_string()
}
