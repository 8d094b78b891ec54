//! Whether a leaf is what a declaration says of it: every difference at once, from the
//! metadata of its arrays alone.

use super::layout::ArrayLayout;
use super::leaf_check::{Role, array_problems};
use super::leaf_error::LeafProblem;
use super::{METADATA, Root, StoreError};
use crate::messages::LeafRef;
use crate::pyramid::{Declaration, Field};

/// What sets a committed leaf apart from the declaration, one sentence each; empty when
/// nothing does. Costs one GET for each declared array.
///
/// # Errors
/// Failed requests.
pub(crate) async fn drifts(
    root: &Root,
    leaf: &LeafRef,
    declaration: &Declaration,
) -> Result<Vec<String>, StoreError> {
    let depth = u32::from(declaration.cell_order - declaration.shard_order);
    let probe = Probe {
        root,
        group: format!("{}/{}", leaf.path(), declaration.cell_order),
        n_cells: 4u64.pow(depth),
    };
    let mut drifts = Vec::new();
    for field in &declaration.fields {
        drifts.extend(probe.field(field).await?);
    }
    Ok(drifts)
}

struct Probe<'a> {
    root: &'a Root,
    group: String,
    n_cells: u64,
}

impl Probe<'_> {
    async fn field(&self, field: &Field) -> Result<Vec<String>, StoreError> {
        let (located, temporal) = field.channels();
        let mut drifts = self.array(&field.name, Role::Payload(field)).await?;
        if located {
            drifts.extend(self.array(&field.locations_name(), Role::Locations).await?);
        }
        if temporal {
            drifts.extend(self.array(&field.times_name(), Role::Times).await?);
        }
        Ok(drifts)
    }

    async fn array(&self, name: &str, role: Role<'_>) -> Result<Vec<String>, StoreError> {
        let key = format!("{}/{name}/{METADATA}", self.group);
        let Some(document) = self.root.get_if_present(&key).await? else {
            return Ok(vec![format!("`{name}` is not there")]);
        };
        let problems = match ArrayLayout::parse(&document, self.n_cells) {
            Ok(layout) => array_problems(&layout, role),
            Err(problem) => vec![problem],
        };
        Ok(problems
            .iter()
            .map(|problem| drift(name, problem))
            .collect())
    }
}

/// A problem without its cure, which is for leaves that are being folded.
fn drift(name: &str, problem: &LeafProblem) -> String {
    let text = problem.to_string();
    let what = text
        .rsplit_once("; ")
        .map_or(text.as_str(), |(what, _)| what);
    format!("`{name}` {what}")
}
