//! The order of a push: whatever it is cut after, the remote cube can be read.

use std::cmp::Reverse;

use super::layout::{FINEST, Node, TIME, split};

/// A stage of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    BulkObjects,
    CoordinateObjects,
    BulkArrays,
    CoordinateArrays,
    /// What tells a reader that there is one more slice; of the coarser levels first.
    Times,
    /// What tells a writer that an acquisition is there.
    FinestTime,
    /// The deepest first.
    Groups(Reverse<usize>),
    Root,
}

impl Stage {
    /// When the document of the node at `path` is written.
    pub(crate) fn of_document(path: &str, node: &Node) -> Self {
        let depth = path.split('/').count();
        match (node, split(path)) {
            (_, None) => Self::Root,
            (Node::Group(_), _) => Self::Groups(Reverse(depth)),
            (Node::Array(array), _) if !array.is_coordinate() => Self::BulkArrays,
            (Node::Array(_), Some((level, TIME))) => match split(level) {
                Some((_, FINEST)) => Self::FinestTime,
                _ => Self::Times,
            },
            (Node::Array(_), Some(_)) => Self::CoordinateArrays,
        }
    }

    /// Whether it publishes what the stages before it have written.
    pub(crate) fn is_of_documents(self) -> bool {
        !matches!(self, Self::BulkObjects | Self::CoordinateObjects)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::BulkObjects => "bulk objects",
            Self::CoordinateObjects => "coordinate objects",
            Self::BulkArrays => "bulk arrays",
            Self::CoordinateArrays => "coordinate arrays",
            Self::Times => "time",
            Self::FinestTime => "time of the finest level",
            Self::Groups(_) => "groups",
            Self::Root => "root group",
        }
    }
}
