//! The content hash of an overview wider than a block, from what the store holds of it.

use crate::error::LeafFault;
use crate::ladder::template::{BLOCK_CELLS, LadderTemplate};
use crate::pyramid::Level;
use crate::run::Run;
use crate::store::artifact::{Artifact, Tier};
use crate::store::group::OpenGroup;
use crate::store::hash::OverviewHash;
use crate::store::template::FieldMembers;

/// Reads the arrays of an overview back, one after the other and a block at a time: the
/// hash goes through them in the order of their names, and they were written side by
/// side.
///
/// # Errors
/// Failed requests, and objects that are not what was written.
pub(crate) async fn overview_hash(
    run: &Run,
    template: &LadderTemplate,
    level: &Level,
    artifact: &Artifact,
) -> Result<String, LeafFault> {
    let mut hash = OverviewHash::new(&artifact.id, level.order, level.cells);
    for group in template.groups(level, Tier::Overview) {
        let column = template.column.clone();
        let path = artifact.path();
        let open = OpenGroup::open(&run.root, column, path, group.order, group.n_cells).await?;
        let fields = group.fields.iter().flat_map(FieldMembers::arrays);
        let mut names: Vec<&str> = fields.map(|array| array.name.as_str()).collect();
        names.sort_unstable();
        for name in names {
            hash.array(name);
            for start in (0..group.n_cells).step_by(BLOCK_CELLS as usize) {
                let cells = start..(start + BLOCK_CELLS).min(group.n_cells);
                let cells = open.read_array(&run.root, name, cells).await?;
                hash.update(cells.as_ref());
            }
        }
    }
    Ok(hash.finish())
}
