//! Is an artifact of the ladder current? `format.md` section 9, "generation".

use crate::error::LeafFault;
use crate::ladder::children::{Children, sum};
use crate::ladder::generation::SourceChildren;
use crate::ladder::targets::Target;
use crate::ladder::template::LadderTemplate;
use crate::messages::Reason;
use crate::pyramid::Level;
use crate::store::Root;
use crate::store::stamp::ArtifactRoot;

/// What the gate says of an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is what this sweep would write, folded from these.
    Current(SourceChildren),
    /// It must be written.
    Due(Reason),
    /// No column is there to fold from.
    Empty,
}

/// Judges one artifact against the columns it folds from. One that was folded without a
/// column that could not be read is due until that column can be.
///
/// # Errors
/// Failed requests.
pub(crate) async fn judge(
    root: &Root,
    template: &LadderTemplate,
    level: &Level,
    target: &Target,
    children: &Children,
) -> Result<Verdict, LeafFault> {
    if children.columns.is_empty() {
        return Ok(Verdict::Empty);
    }
    let artifact = &target.artifact;
    let document = ArtifactRoot::read(root, artifact).await?;
    let Some((record, _)) = document.as_ref().and_then(ArtifactRoot::stamped) else {
        return Ok(Verdict::Due(Reason::AbsentOrUnstamped));
    };
    let Some(origin) = template.origin_of(level, artifact, target.regime, record) else {
        return Ok(Verdict::Due(Reason::DeclarationDrift));
    };
    let fresh = SourceChildren {
        folded: target.children.len() as u64 - children.missing,
        missing: children.missing,
        unreadable: 0,
    };
    if origin.children != fresh || origin.generation != sum(&children.columns).generation {
        return Ok(Verdict::Due(Reason::Stale));
    }
    Ok(Verdict::Current(fresh))
}
