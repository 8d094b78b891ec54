//! Which orders a fold makes, and from how many cells (`format.md` sections 5 and 6).

/// Deepest order of a cell.
const MAX_ORDER: u8 = 29;

/// The orders folded from the cells of one block, for example one leaf: finest first, each strictly coarser
/// than the one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldGroups {
    cell_order: u8,
    block_order: u8,
    orders: Vec<u8>,
}

/// Why a list of orders is no fold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "orders {orders:?} cannot be folded from cells of order {cell_order} within a block of order {block_order}: \
     they must descend strictly, below {cell_order} and not below {block_order}"
)]
pub struct FoldGroupsError {
    /// Order of the source cells.
    pub cell_order: u8,
    /// Order of the block.
    pub block_order: u8,
    /// The refused orders.
    pub orders: Vec<u8>,
}

impl FoldGroups {
    /// Orders to fold from the `4^(cell_order - block_order)` cells of a block.
    ///
    /// # Errors
    /// When there are none, or they do not descend strictly within `block_order..cell_order`.
    pub fn new(cell_order: u8, block_order: u8, orders: &[u8]) -> Result<Self, FoldGroupsError> {
        let within = |order: &u8| (block_order..cell_order).contains(order);
        let descend = orders.windows(2).all(|pair| pair[0] > pair[1]);
        if cell_order > MAX_ORDER || orders.is_empty() || !descend || !orders.iter().all(within) {
            return Err(FoldGroupsError {
                cell_order,
                block_order,
                orders: orders.to_vec(),
            });
        }
        Ok(Self {
            cell_order,
            block_order,
            orders: orders.to_vec(),
        })
    }

    /// Orders made, finest first.
    pub fn orders(&self) -> &[u8] {
        &self.orders
    }

    /// Source cells of the whole block.
    pub fn source_cells(&self) -> u64 {
        1 << (2 * self.block_depth())
    }

    /// Cells the group of this order has in the block, for an order of [`FoldGroups::orders`].
    pub fn target_cells(&self, order: u8) -> u64 {
        1 << (2 * order.saturating_sub(self.block_order))
    }

    /// Orders between the block and its cells.
    pub(crate) fn block_depth(&self) -> usize {
        usize::from(self.cell_order - self.block_order)
    }

    /// Orders between each group and the source cells, in the order of the groups.
    pub(crate) fn depths(&self) -> impl Iterator<Item = usize> + '_ {
        self.orders
            .iter()
            .map(|&order| usize::from(self.cell_order - order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_descend_between_cells_and_block() {
        let groups = FoldGroups::new(9, 4, &[8, 7, 4]).unwrap();
        assert_eq!(groups.source_cells(), 1024);
        assert_eq!(groups.target_cells(7), 64);
        assert_eq!(groups.depths().collect::<Vec<_>>(), [1, 2, 5]);
        for orders in [&[][..], &[9], &[3], &[7, 8], &[7, 7]] {
            assert!(FoldGroups::new(9, 4, orders).is_err(), "{orders:?}");
        }
        assert!(FoldGroups::new(30, 4, &[7]).is_err());
    }
}
