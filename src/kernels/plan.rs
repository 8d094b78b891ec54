//! Which cells each group of a column folds from (`format.md` section 6).

/// The two laws of a column fold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoldLaw {
    /// Digests of groups coarser than the boundary fold from the boundary's group.
    #[default]
    Boundary,
    /// Every group folds from the leaf's cells.
    Raw,
}

/// The boundary lies this many orders below the shard.
const BOUNDARY_STEP: u8 = 2;

/// The fold plan of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldPlan {
    /// Order of the leaf's cells.
    pub cell_order: u8,
    /// Order of the shard, and of the coarsest group.
    pub shard_order: u8,
    /// Orders of the groups, finest first, each one finer than the next.
    pub groups: Vec<u8>,
    /// The group the coarser digests fold from, under the boundary law.
    pub boundary: Option<u8>,
}

impl FoldPlan {
    /// Plans a column of `groups` (finest first) over a leaf of `cell_order` cells.
    ///
    /// There is a boundary when the law asks for one, the leaf is finer than it, and
    /// the column carries its group.
    pub fn new(cell_order: u8, shard_order: u8, groups: &[u8], law: FoldLaw) -> Self {
        let boundary = shard_order + BOUNDARY_STEP;
        let carried = boundary < cell_order && groups.contains(&boundary);
        Self {
            cell_order,
            shard_order,
            groups: groups.to_vec(),
            boundary: (law == FoldLaw::Boundary && carried).then_some(boundary),
        }
    }

    /// Order of the cells whose digest rows are resident at once: the boundary, or the
    /// whole shard when there is none.
    pub fn block_order(&self) -> u8 {
        self.boundary.unwrap_or(self.shard_order)
    }

    /// How many merges lie between the observations' digests and a group's.
    pub fn merges_from_raw(&self, group: u8) -> u8 {
        match self.boundary {
            Some(boundary) if group < boundary => 2,
            _ => 1,
        }
    }

    /// The groups that fold from the leaf's cells, finest first.
    pub fn from_leaf(&self) -> &[u8] {
        let n = self
            .groups
            .iter()
            .take_while(|group| **group >= self.block_order())
            .count();
        &self.groups[..n]
    }

    /// The groups whose digests fold from the boundary's group, finest first.
    pub fn from_boundary(&self) -> &[u8] {
        &self.groups[self.from_leaf().len()..]
    }

    /// The number of cells of the leaf.
    pub fn leaf_cells(&self) -> u64 {
        cells_between(self.cell_order, self.shard_order)
    }

    /// The number of the leaf's cells in one block.
    pub fn block_cells(&self) -> u64 {
        cells_between(self.cell_order, self.block_order())
    }
}

/// How many cells of order `fine` make one of order `coarse`.
pub fn cells_between(fine: u8, coarse: u8) -> u64 {
    4u64.pow(u32::from(fine - coarse))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boundary_needs_the_law_a_finer_leaf_and_its_own_group() {
        let plan = |c, groups: &[u8], law| FoldPlan::new(c, 4, groups, law).boundary;
        assert_eq!(plan(12, &[8, 7, 6, 5, 4], FoldLaw::Boundary), Some(6));
        assert_eq!(plan(12, &[8, 7, 6, 5, 4], FoldLaw::Raw), None);
        assert_eq!(plan(6, &[5, 4], FoldLaw::Boundary), None);
        assert_eq!(plan(12, &[5, 4], FoldLaw::Boundary), None);
    }

    #[test]
    fn groups_split_at_the_boundary() {
        let plan = FoldPlan::new(12, 4, &[8, 7, 6, 5, 4], FoldLaw::Boundary);
        assert_eq!(plan.from_leaf(), [8, 7, 6]);
        assert_eq!(plan.from_boundary(), [5, 4]);
        assert_eq!(plan.merges_from_raw(6), 1);
        assert_eq!(plan.merges_from_raw(5), 2);
        assert_eq!((plan.leaf_cells(), plan.block_cells()), (65536, 4096));

        let raw = FoldPlan::new(12, 4, &[8, 7, 6, 5, 4], FoldLaw::Raw);
        assert_eq!(raw.from_leaf(), [8, 7, 6, 5, 4]);
        assert!(raw.from_boundary().is_empty());
        assert_eq!(raw.merges_from_raw(4), 1);
    }
}
