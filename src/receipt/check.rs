//! Holds a published store against a receipt: with read access only, and without a
//! listing, so that a plain web server will do.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Declared, LadderEntry, LeafEntry, Receipt};
use crate::error::{Error, FaultKind, LeafFault};
use crate::kernels::words::decimal;
use crate::ladder::LadderTemplate;
use crate::messages::LeafRef;
use crate::pyramid::Declaration;
use crate::store::Root;
use crate::store::artifact::{Artifact, Tier};
use crate::store::content::content_hashes;
use crate::store::manifest::Manifest;
use crate::store::stamp::Stamp;
use crate::store::template::{ColumnTemplate, GroupTemplate};

/// Artifacts read at once.
const CHECKS_AT_ONCE: usize = 4;

/// Members of an entry of the pyramid block that a later sweep may move.
const ACTUALS: &str = "actuals";

/// Something that is not as a receipt says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Path below the root.
    pub path: String,
    /// What differs: `declaration`, `leaf-stamp`, `column`, `overview`.
    pub check: &'static str,
    /// As the receipt says.
    pub expected: Value,
    /// As it is.
    pub got: Value,
    /// What that means and what to do.
    pub message: String,
}

/// What holding a store against a receipt came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ReceiptCheck {
    /// Leaves whose stamps were compared.
    pub leaves: u64,
    /// Columns and overviews whose arrays were read and hashed.
    pub artifacts: u64,
    /// What is not as the receipt says.
    pub differences: Vec<Difference>,
}

/// A check under way.
struct Check<'a> {
    root: &'a Root,
    template: LadderTemplate,
}

impl Receipt {
    /// Compares the declaration, every leaf's stamp, and the hash of every column and
    /// every artifact of the ladder, recomputed from its arrays.
    ///
    /// # Errors
    /// Requests that fail, and a manifest or a declaration that cannot be used.
    pub async fn check(&self, root: &Root) -> Result<ReceiptCheck, Error> {
        let manifest = Manifest::read(root).await?;
        let mut checked = ReceiptCheck::default();
        let (expected, got) = (&self.declaration.after, Declared::of(&manifest));
        if without_actuals(expected) != without_actuals(&got) {
            checked.differences.push(Difference {
                path: crate::store::manifest::MANIFEST_KEY.to_owned(),
                check: "declaration",
                expected: json!(expected),
                got: json!(got),
                message: "the store declares another pyramid than the receipt was written for; use the receipt of the upgrade that declared it".to_owned(),
            });
            return Ok(checked);
        }
        let declaration = Declaration::parse(
            manifest.pyramid(),
            manifest.shard_order(),
            manifest.cell_order(),
        )?;
        let column = ColumnTemplate::new(declaration, self.fold_law, manifest.is_windowed())?;
        let check = Check {
            root,
            template: LadderTemplate::new(Arc::new(column))?,
        };
        let leaves = self.leaves.iter().map(|entry| check.leaf(entry));
        let leaves: Vec<_> = leaves.collect();
        let mut leaves = stream::iter(leaves).buffered(CHECKS_AT_ONCE);
        while let Some(differences) = leaves.try_next().await? {
            checked.leaves += 1;
            checked.artifacts += 1;
            checked.differences.extend(differences);
        }
        let ladder = self.ladder.iter().map(|entry| check.level(entry));
        let ladder: Vec<_> = ladder.collect();
        let mut ladder = stream::iter(ladder).buffered(CHECKS_AT_ONCE);
        while let Some(differences) = ladder.try_next().await? {
            checked.artifacts += 1;
            checked.differences.extend(differences);
        }
        Ok(checked)
    }
}

impl Check<'_> {
    async fn leaf(&self, entry: &LeafEntry) -> Result<Vec<Difference>, LeafFault> {
        let leaf = LeafRef::new(entry.shard, entry.window.clone())?;
        let stamp = Stamp::read_leaf(self.root, &leaf).await?;
        let got = stamp.map(|stamp| stamp.to_json());
        let mut differences = Vec::new();
        if got != entry.stamp.after {
            differences.push(Difference {
                path: entry.leaf.clone(),
                check: "leaf-stamp",
                expected: json!(entry.stamp.after),
                got: json!(got),
                message: "the leaf was written again since the upgrade, so its column no longer speaks of it; run `zagg-stream upgrade` on the store it is published from".to_owned(),
            });
        }
        let artifact = Artifact::column_of(&leaf);
        let groups = &self.template.column.groups;
        differences.extend(
            self.hash("column", &artifact, groups, &entry.combined)
                .await?,
        );
        Ok(differences)
    }

    async fn level(&self, entry: &LadderEntry) -> Result<Vec<Difference>, LeafFault> {
        let Some(artifact) = artifact_of(entry) else {
            return Ok(Vec::new());
        };
        let Some(level) = self.template.plan.level(entry.order) else {
            return Ok(Vec::new());
        };
        let groups = self.template.groups(level, artifact.tier);
        let check = artifact.tier.role();
        self.hash(check, &artifact, groups, &entry.combined).await
    }

    /// The combined hash of an artifact, from its arrays.
    async fn hash(
        &self,
        check: &'static str,
        artifact: &Artifact,
        groups: &[GroupTemplate],
        expected: &Option<String>,
    ) -> Result<Vec<Difference>, LeafFault> {
        let template = self.template.column.clone();
        let got = match content_hashes(self.root, template, groups, artifact).await {
            Ok(hashes) => hashes["combined"].clone(),
            Err(error) if error.kind() == FaultKind::CorruptLeaf => json!(error.to_string()),
            Err(error) => return Err(error.into()),
        };
        if got == json!(expected) {
            return Ok(Vec::new());
        }
        Ok(vec![Difference {
            path: artifact.path(),
            check,
            expected: json!(expected),
            got,
            message: "its arrays are not those the upgrade wrote; copy the artifact again from the store it is published from, or run `zagg-stream upgrade --force` there".to_owned(),
        }])
    }
}

/// The artifact an entry speaks of, from its path.
fn artifact_of(entry: &LadderEntry) -> Option<Artifact> {
    let (node, name) = entry.artifact.rsplit_once('/')?;
    let stem = name.strip_suffix(".zarr")?;
    let (label, tier) = match stem.strip_suffix(".pyramid") {
        Some(label) => (label, Tier::Column),
        None => (stem, Tier::Overview),
    };
    let word = decimal::parse(&node.replace('/', "")).ok()?;
    Artifact::new(tier, word, Some(label.to_owned())).ok()
}

fn without_actuals(declared: &Declared) -> Declared {
    let mut declared = declared.clone();
    let entries = declared
        .pyramid
        .as_mut()
        .and_then(|block| block.get_mut("overviews"));
    for entry in entries.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove(ACTUALS);
        }
    }
    declared
}
