//! The staged ladder: the overviews above the shards (`format.md` section 9).

pub(crate) mod generation;
