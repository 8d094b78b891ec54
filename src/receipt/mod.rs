//! The receipt of an upgrade: what a published store can be held against later, with
//! read access only and no listing.

mod check;

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, LeafFault};
use crate::kernels::plan::FoldLaw;
use crate::ladder::{LadderTemplate, LadderWork};
use crate::messages::LeafRef;
use crate::store::artifact::Artifact;
use crate::store::lease::LEASE_KEY;
use crate::store::manifest::Manifest;
use crate::store::root::Created;
use crate::store::stamp::{ArtifactRoot, Stamp};
use crate::store::{Root, StoreError, Touched, json};

pub use check::{Difference, ReceiptCheck};

/// The specification a receipt names.
const RECEIPT_SPEC: &str = "zagg-stream-receipt/1";

/// Artifacts whose stamps are read at once.
const READS_AT_ONCE: usize = 32;

/// What an upgrade leaves behind at the root.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// [`RECEIPT_SPEC`].
    spec: String,
    /// Name and version of the program.
    pub zagg_version: String,
    /// The run.
    pub run_id: String,
    /// The law columns were folded by.
    pub fold_law: FoldLaw,
    /// When the run began, ISO.
    pub started_at: String,
    /// When the receipt was written, ISO.
    pub finished_at: String,
    /// The declaration of the manifest before the run, and after it.
    pub declaration: Change<Declared>,
    /// Every committed leaf and its column.
    pub leaves: Vec<LeafEntry>,
    /// Every artifact of the ladder.
    pub ladder: Vec<LadderEntry>,
    /// Objects this run wrote and deleted; of an upgrade in several runs, each has its own.
    pub objects: Touched,
    /// What each step took.
    pub steps: Vec<StepTaken>,
}

/// Something before the run and after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change<T> {
    /// As the run found it; none when it was not looked at.
    pub before: T,
    /// As the run left it.
    pub after: T,
}

/// What a manifest declares.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Declared {
    /// Its pyramid block.
    pub pyramid: Option<Value>,
    /// Its semantic hash.
    pub semantic_hash: Option<String>,
}

/// A leaf, which no upgrade touches, and its column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeafEntry {
    /// Packed morton word of the shard.
    pub shard: u64,
    /// Window label, on a windowed store.
    pub window: Option<String>,
    /// Path of the leaf below the root.
    pub leaf: String,
    /// Its stamp, which must not have moved.
    pub stamp: Change<Option<Value>>,
    /// Path of its column below the root.
    pub column: String,
    /// Hash of all arrays of the column together.
    pub combined: Option<String>,
}

/// An artifact of the ladder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LadderEntry {
    /// Order of its node.
    pub order: u8,
    /// Path below the root.
    pub artifact: String,
    /// Hash of all arrays together.
    pub combined: Option<String>,
    /// Hash of its content, when it is an overview.
    pub content_hash: Option<String>,
}

/// A step of the runbook and what it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepTaken {
    /// `declare`, `columns`, `ladder`, `verify` or `retire`.
    pub step: String,
    /// How it ended.
    pub outcome: String,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl Declared {
    pub(crate) fn of(manifest: &Manifest) -> Self {
        Self {
            pyramid: manifest.pyramid().cloned(),
            semantic_hash: manifest.semantic_hash().map(str::to_owned),
        }
    }
}

/// What is known of a run when its receipt is written.
pub(crate) struct Ran {
    pub run_id: String,
    pub fold_law: FoldLaw,
    pub started_at: String,
    pub finished_at: String,
    pub before: Declared,
    pub steps: Vec<StepTaken>,
    /// The stamps of the leaves as they were when their turn came, by path.
    pub stamps: BTreeMap<String, Value>,
}

impl Receipt {
    /// Takes stock of a store that was upgraded. Costs two GETs for each leaf and one for
    /// each artifact of the ladder; of stores that keep no hashes in stamps also the
    /// sidecars.
    ///
    /// # Errors
    /// Failed requests, and a manifest that cannot be used any more.
    pub(crate) async fn take(
        root: &Root,
        template: &LadderTemplate,
        work: &LadderWork,
        mut ran: Ran,
    ) -> Result<Self, Error> {
        let manifest = Manifest::read(root).await?;
        let entries = work.leaves().map(|leaf| {
            let leaf = leaf?;
            let before = ran.stamps.remove(&leaf.path());
            Ok::<_, Error>(leaf_entry(root, leaf, before))
        });
        let entries: Vec<_> = entries.collect::<Result<_, _>>()?;
        let leaves: Vec<Option<LeafEntry>> = stream::iter(entries)
            .buffered(READS_AT_ONCE)
            .try_collect()
            .await?;
        let mut ladder = Vec::new();
        for level in &template.plan.levels {
            let targets: Vec<_> = work
                .targets(&template.plan, level)
                .map(|target| Ok::<_, Error>(ladder_entry(root, level.order, target?.artifact)))
                .collect::<Result<_, _>>()?;
            let mut found = stream::iter(targets).buffered(READS_AT_ONCE);
            while let Some(entry) = found.try_next().await? {
                ladder.extend(entry);
            }
        }
        let mut objects = root.touched().unwrap_or_default();
        objects.written.remove(LEASE_KEY);
        objects.deleted.remove(LEASE_KEY);
        Ok(Self {
            spec: RECEIPT_SPEC.to_owned(),
            zagg_version: crate::VERSION.to_owned(),
            run_id: ran.run_id,
            fold_law: ran.fold_law,
            started_at: ran.started_at,
            finished_at: ran.finished_at,
            declaration: Change {
                before: ran.before,
                after: Declared::of(&manifest),
            },
            leaves: leaves.into_iter().flatten().collect(),
            ladder,
            objects,
            steps: ran.steps,
        })
    }

    /// Reads a receipt.
    ///
    /// # Errors
    /// A sentence saying why it is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let document = json::parse(bytes).map_err(|error| format!("not JSON: {error}"))?;
        match document.get("spec").and_then(Value::as_str) {
            Some(RECEIPT_SPEC) => {}
            other => return Err(format!("its spec is {other:?}, not `{RECEIPT_SPEC}`")),
        }
        serde_json::from_value(document).map_err(|error| error.to_string())
    }

    /// Writes the receipt under a key that nobody else writes; the key.
    ///
    /// # Errors
    /// The failed request.
    pub(crate) async fn write(&self, root: &Root, at: i64) -> Result<String, StoreError> {
        let key = format!("upgrade_{}_{}.json", crate::time::compact(at), self.run_id);
        let document = serde_json::to_value(self).unwrap_or_default();
        let text = json::python_pretty(&document, json::ROOT_INDENT);
        let created = root.repeat(&key, || root.create(&key, text.clone()));
        match created.await? {
            // The run's id is in the key, so what exists is of an earlier try.
            Created::Yes | Created::Exists => Ok(key),
        }
    }
}

/// A leaf as it stands; `None` when it was never committed.
async fn leaf_entry(
    root: &Root,
    leaf: LeafRef,
    before: Option<Value>,
) -> Result<Option<LeafEntry>, LeafFault> {
    let Some(after) = Stamp::read_leaf(root, &leaf).await? else {
        return Ok(None);
    };
    let column = Artifact::column_of(&leaf);
    Ok(Some(LeafEntry {
        shard: leaf.shard,
        window: leaf.window.clone(),
        leaf: leaf.path(),
        stamp: Change {
            before,
            after: Some(after.to_json()),
        },
        combined: combined_hash(root, &column).await?.map(|(hash, _)| hash),
        column: column.path(),
    }))
}

/// An artifact of the ladder as it stands; `None` when it is not there.
async fn ladder_entry(
    root: &Root,
    order: u8,
    artifact: Artifact,
) -> Result<Option<LadderEntry>, LeafFault> {
    let found = combined_hash(root, &artifact).await?;
    Ok(found.map(|(combined, content_hash)| LadderEntry {
        order,
        artifact: artifact.path(),
        combined: Some(combined),
        content_hash,
    }))
}

/// The combined hash that an artifact's stamp, or else its sidecar, says; and the content
/// hash of an overview.
async fn combined_hash(
    root: &Root,
    artifact: &Artifact,
) -> Result<Option<(String, Option<String>)>, LeafFault> {
    let document = ArtifactRoot::read(root, artifact).await?;
    let Some((record, stamp)) = document.as_ref().and_then(ArtifactRoot::stamped) else {
        return Ok(None);
    };
    let content_hash = record.get("content_hash").and_then(Value::as_str);
    let content_hash = content_hash.map(str::to_owned);
    if let Some(combined) = stamp.combined_hash() {
        return Ok(Some((combined.to_owned(), content_hash)));
    }
    let sidecar = root.get_if_present(&artifact.sidecar_path()).await?;
    let sidecar = sidecar.and_then(|bytes| json::parse(&bytes).ok());
    let combined = sidecar.as_ref().and_then(|sidecar| {
        sidecar
            .pointer("/content_hashes/combined")
            .and_then(Value::as_str)
    });
    Ok(combined.map(|combined| (combined.to_owned(), content_hash)))
}
