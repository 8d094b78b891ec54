//! The steps of a run.

/// A step of a run, in the order they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Step {
    /// The run records and the manifest are read, and the store is judged.
    Listing,
    /// The pyramid is declared in the manifest.
    Declare,
    /// The column of every leaf.
    Columns,
    /// The artifacts of the ladder.
    Ladder,
    /// Coverage, manifest and the record of the sweep, once every artifact stands.
    Finisher,
    /// The store is held against its own laws.
    Verify,
    /// What the earlier pyramid left behind is deleted.
    Retire,
    /// The receipt is written.
    Receipt,
    /// Objects of a cube are written; each stage of a heal, a pull or a push is one.
    Cube,
}

impl Step {
    /// The name as in events and spans.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Listing => "listing",
            Self::Declare => "declare",
            Self::Columns => "columns",
            Self::Ladder => "ladder",
            Self::Finisher => "finisher",
            Self::Verify => "verify",
            Self::Retire => "retire",
            Self::Receipt => "receipt",
            Self::Cube => "cube",
        }
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
