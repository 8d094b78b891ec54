//! Deletes artifacts, each in an order that neither lies to a reader nor forgets what it
//! was doing.
//!
//! An artifact without a root document is debris that nothing may delete, since only its
//! own attributes say that it is `/1`. So the root document goes last, and whatever a kill
//! leaves is recognised by the next run as what it is. But a root document that stands
//! over missing chunks would have them read as fill. Hence, in this order:
//!
//! 1. The stamp is withdrawn: the root document is rewritten without it, and without
//!    metadata consolidated in it. What has no stamp is not there for a reader
//!    (`format.md` section 3), and role and record still say what it is.
//! 2. The metadata documents below the root go, so that no array can be opened any more,
//!    also not by its path.
//! 3. The chunks go.
//! 4. The sidecar goes, while there is still something that it belongs to.
//! 5. The root document goes, once a listing shows nothing else under it.

use futures::TryStreamExt;

use super::classify::{Verdict, classify};
use super::scan::{extent, sidecar_extent};
use super::summary::{Extent, KeptArtifact, Retired, RetiredArtifact};
use crate::abort::AbortSignal;
use crate::store::json::{self, ZARR_INDENT, python_pretty};
use crate::store::stamp::STAMP;
use crate::store::{Held, LeaseError, METADATA, Root, StoreError};

/// Objects deleted between two looks at the lease and at the stop: few, because one that
/// was stopped in between may no longer delete.
const DELETES_AT_ONCE: usize = 16;

/// Where a root document repeats the documents below it.
const CONSOLIDATED: &str = "consolidated_metadata";

/// What ends a deletion before its end.
#[derive(Debug)]
pub(super) enum Halt {
    /// It was told to stop.
    Stopped,
    /// A request failed, or the lease is no longer ours; the message names the cure.
    Failed(String),
}

impl From<LeaseError> for Halt {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Store(error) => error.into(),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Failed(format!(
            "{error}; what is listed as left is still to go, mend that and run again"
        ))
    }
}

/// The right to delete, and what may end it.
#[derive(Debug)]
pub(super) struct Deletion<'a> {
    pub root: &'a Root,
    pub held: Held,
    pub stop: &'a AbortSignal,
}

impl Deletion<'_> {
    /// Deletes an artifact that was listed, unless it has become something else since; then
    /// it is kept, and returned as that.
    ///
    /// # Errors
    /// What ended it; the artifact may be half gone and the next run goes on with it.
    pub(super) async fn delete(
        &self,
        artifact: &mut RetiredArtifact,
    ) -> Result<Option<KeptArtifact>, Halt> {
        self.may_go_on()?;
        let place = &artifact.place;
        let root_document = place.root_document();
        let bytes = self.root.get_if_present(&root_document).await?;
        if let Verdict::Keep(reason, why) = classify(bytes.as_deref(), place) {
            let path = artifact.path.clone();
            return Ok(Some(KeptArtifact { path, reason, why }));
        }
        let mut keys = Vec::new();
        let mut found = sidecar_extent(&self.root.list_shallow(&place.node).await?, place);
        let mut listing = self.root.list(&artifact.path);
        while let Some(entry) = listing.try_next().await? {
            if entry.key.starts_with(&format!("{}/", artifact.path)) {
                found += Extent::of(&entry);
                keys.push(entry.key);
            }
        }
        artifact.found = found;
        // Until it is listed again.
        artifact.left = Some(found);
        self.withdraw(&root_document, bytes.as_deref().unwrap_or_default())
            .await?;
        keys.retain(|key| *key != root_document);
        let (documents, chunks): (Vec<String>, Vec<String>) = keys
            .into_iter()
            .partition(|key| key.ends_with(&format!("/{METADATA}")));
        for keys in [documents, chunks, vec![place.sidecar()]] {
            self.delete_keys(&keys).await?;
        }
        let rest = self.root.list_keys(&artifact.path).await?;
        if rest.iter().all(|key| *key == root_document) {
            self.delete_keys(&[root_document]).await?;
        }
        Ok(None)
    }

    fn may_go_on(&self) -> Result<(), Halt> {
        if self.stop.is_raised() {
            return Err(Halt::Stopped);
        }
        Ok(self.held.ensure_fresh()?)
    }

    /// Rewrites a root document without what makes a reader take the rest for complete.
    async fn withdraw(&self, key: &str, bytes: &[u8]) -> Result<(), Halt> {
        let mut document = json::parse(bytes).map_err(|error| Halt::Failed(error.to_string()))?;
        let mut shown = document
            .as_object_mut()
            .and_then(|document| document.shift_remove(CONSOLIDATED))
            .is_some();
        if let Some(attributes) = document["attributes"].as_object_mut() {
            shown |= attributes.shift_remove(STAMP).is_some();
        }
        if shown {
            let bytes = python_pretty(&document, ZARR_INDENT);
            self.held.put(self.root, key, bytes).await?;
        }
        Ok(())
    }

    async fn delete_keys(&self, keys: &[String]) -> Result<(), Halt> {
        for keys in keys.chunks(DELETES_AT_ONCE) {
            self.may_go_on()?;
            self.root.delete_all(keys.to_vec()).await?;
        }
        Ok(())
    }
}

/// Lists what is left of every artifact whose turn came.
///
/// # Errors
/// A failed listing; what is left from there on is then not known.
pub(super) async fn count_what_is_left(
    root: &Root,
    retired: &mut Retired,
) -> Result<(), StoreError> {
    let mut attempted: Vec<_> = retired
        .artifacts
        .iter_mut()
        .filter_map(|artifact| artifact.left.take().map(|_| artifact))
        .collect();
    for artifact in &mut attempted {
        let listed = root.list_shallow(&artifact.place.node).await?;
        let mut left = extent(root, &artifact.path).await?;
        left += sidecar_extent(&listed, &artifact.place);
        artifact.left = Some(left);
    }
    Ok(())
}
