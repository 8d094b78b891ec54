//! Declares the pyramid of a store: from the configuration its leaves were written with,
//! checked against the store, to one write of the manifest (`format.md` section 5).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Map, Value};

use crate::messages::LeafRef;
use crate::pyramid::block::{self, Previous};
use crate::pyramid::classify::classify;
use crate::pyramid::config::Config;
use crate::pyramid::schedule::{self, Lever};
use crate::pyramid::semantics::{HashVerdict, Semantics, fingerprint};
use crate::pyramid::{ConfigError, Declaration};
use crate::run::new_run_id;
use crate::store::examine::{Examiner, Writer};
use crate::store::json::python_pretty;
use crate::store::lease::DEFAULT_TTL_S;
use crate::store::manifest::{MANIFEST_KEY, Manifest};
use crate::store::records::Records;
use crate::store::root::{Expected, Settled};
use crate::store::stamp::Stamp;
use crate::store::{Root, lease, probe};
use crate::time::{Clock, SystemClock};
use crate::work::WorkSet;

mod error;
mod summary;

pub use error::DeclareError;
pub use summary::Declared;

/// Keys that a declaration never moves.
const FROZEN: [&str; 8] = [
    "spec",
    "dataset",
    "semantic_hash",
    "cell_order",
    "shard_order",
    "split_schedule",
    "path_grouping",
    "temporal",
];

/// A declaration not yet made.
#[derive(Debug, Clone)]
pub struct Declare {
    root: Root,
    config: Config,
    lever: Option<Lever>,
    dry_run: bool,
    clock: Arc<dyn Clock>,
    examiner: Examiner,
}

/// What is to be written, and what was found on the way.
struct Plan {
    block: Value,
    declaration: Option<Declaration>,
    semantics: Semantics,
    verdict: HashVerdict,
    declared_via: &'static str,
    validated: String,
    warnings: Vec<String>,
    /// What would refuse it, in a dry run.
    refusals: Vec<String>,
}

impl Declare {
    /// Prepares the declaration of the store at `root` from the text of the
    /// configuration its leaves were written with.
    ///
    /// # Errors
    /// When the text is no configuration.
    pub fn new(root: Root, config: &str) -> Result<Self, ConfigError> {
        Ok(Self {
            root,
            config: Config::parse(config)?,
            lever: None,
            dry_run: false,
            clock: Arc::new(SystemClock::new()),
            examiner: Examiner::default(),
        })
    }

    /// Sets the schedule, which is otherwise the configuration's own.
    pub fn lever(mut self, lever: Option<Lever>) -> Self {
        self.lever = lever;
        self
    }

    /// Whether only to say what would be written, and what would refuse it.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Shares what another step finds of the store.
    pub(crate) fn examined_by(mut self, examiner: Examiner) -> Self {
        self.examiner = examiner;
        self
    }

    /// Checks everything, then writes the manifest once; not at all when it declares
    /// the same already.
    ///
    /// # Errors
    /// Every refusal, and failed requests. Nothing has been written then, unless the
    /// answer to the write was lost, and declaring again tells.
    pub async fn run(self) -> Result<Declared, DeclareError> {
        if !self.dry_run {
            self.root.ensure_writable()?;
        }
        let (manifest, mut plan, next) = self.prepare().await?;
        if self.dry_run || !next.is_due {
            let diff = summary::diff(manifest.pyramid(), &next.document);
            return Ok(plan.declared(&self, &next, false, diff));
        }
        plan.warnings.extend(self.examine().await?);
        let (next, diff) = self.put(&manifest, &plan).await?;
        let updated = next.is_due;
        Ok(plan.declared(&self, &next, updated, diff))
    }

    /// As a dry [`Declare::run`], with the manifest as it would then be; writes nothing.
    ///
    /// # Errors
    /// As a dry run has them: failed requests, and what leaves nothing to declare.
    pub(crate) async fn try_out(mut self) -> Result<(Declared, Map<String, Value>), DeclareError> {
        self.dry_run = true;
        let (manifest, plan, next) = self.prepare().await?;
        let diff = summary::diff(manifest.pyramid(), &next.document);
        let declared = plan.declared(&self, &next, false, diff);
        Ok((declared, next.document))
    }

    /// Checks everything; the manifest that was found, and what is to become of it.
    async fn prepare(&self) -> Result<(Manifest, Plan, Renewed), DeclareError> {
        let manifest = Manifest::read(&self.root).await?;
        if !self.dry_run {
            lease::refuse_if_live(&self.root, &*self.clock).await?;
        }
        let mut plan = self.plan(&manifest)?;
        self.check_hash(&manifest, &mut plan)?;
        self.check_leaves(&manifest, &mut plan).await?;
        let next = renewed(&manifest, &plan);
        if next.previous == Previous::Identical && !is_mirrored(manifest.document(), &plan.block) {
            plan.warnings.push(
                "the manifest's `multiscales` is not the mirror of its pyramid block; the next declaration that changes the block renews it"
                    .to_owned(),
            );
        }
        Ok((manifest, plan, next))
    }

    fn plan(&self, manifest: &Manifest) -> Result<Plan, DeclareError> {
        let (shard_order, cell_order) = (manifest.shard_order(), manifest.cell_order());
        let schedule =
            schedule::schedule(&self.config, self.lever.as_ref(), shard_order, cell_order)?;
        let mut warnings = schedule.warnings;
        warnings.extend(self.config.other_orders(shard_order, cell_order));
        let (block, declaration) = match &schedule.levels {
            None => (block::declared_off(), None),
            Some(levels) => {
                let classified = classify(&self.config)?;
                let block = block::block(&self.config, levels, shard_order, &classified)?;
                warnings.extend(classified.warnings);
                let declaration = Declaration::parse(Some(&block), shard_order, cell_order)?;
                (block, Some(declaration))
            }
        };
        let semantics = Semantics::of(&self.config)?;
        Ok(Plan {
            block,
            declaration,
            verdict: semantics.verdict(manifest.semantic_hash()),
            semantics,
            declared_via: schedule.declared_via,
            validated: String::new(),
            warnings,
            refusals: Vec::new(),
        })
    }

    /// Refuses, or in a dry run writes down that it would.
    fn refuse(&self, plan: &mut Plan, error: DeclareError) -> Result<(), DeclareError> {
        if !self.dry_run {
            return Err(error);
        }
        plan.refusals.push(error.to_string());
        Ok(())
    }

    fn check_hash(&self, manifest: &Manifest, plan: &mut Plan) -> Result<(), DeclareError> {
        let config = fingerprint(&plan.semantics.hash).to_owned();
        let stored = fingerprint(manifest.semantic_hash().unwrap_or_default()).to_owned();
        match plan.verdict {
            HashVerdict::Match => plan.validated = format!("semantic_hash {config}"),
            HashVerdict::Legacy => {
                plan.validated = format!("semantic_hash {stored} by the older rule, now {config}");
            }
            HashVerdict::Absent => {
                plan.validated = "no semantic_hash to compare".to_owned();
                plan.warnings.push(
                    "the manifest has no semantic_hash, so nothing tells whether this is the config the store was written with"
                        .to_owned(),
                );
            }
            HashVerdict::Mismatch => {
                plan.validated = format!("semantic_hash {stored}, not {config}");
                let legacy = fingerprint(&plan.semantics.legacy_hash).to_owned();
                self.refuse(
                    plan,
                    DeclareError::OtherConfig {
                        stored,
                        config,
                        legacy,
                    },
                )?;
            }
        }
        Ok(())
    }

    /// Holds the declaration against the first committed leaf.
    async fn check_leaves(&self, manifest: &Manifest, plan: &mut Plan) -> Result<(), DeclareError> {
        let Some(declaration) = &plan.declaration else {
            return Ok(());
        };
        let records = Records::read(&self.root, manifest).await?;
        plan.warnings.extend(records.warnings.iter().cloned());
        let leaf = first_committed(&self.root, &WorkSet::new(&records)?).await?;
        let Some(leaf) = leaf else {
            plan.validated = format!("no committed leaf; {}", plan.validated);
            plan.warnings
                .push("the run records name no committed leaf, so the declaration was not held against one".to_owned());
            return Ok(());
        };
        let drifts = probe::drifts(&self.root, &leaf, declaration).await?;
        plan.validated = format!("leaf {leaf}; {}", plan.validated);
        if !drifts.is_empty() {
            let leaf = leaf.path();
            self.refuse(plan, DeclareError::Drift { leaf, drifts })?;
        }
        Ok(())
    }

    /// Refuses a store that cannot be written to safely; what there is to say of its clock.
    async fn examine(&self) -> Result<Option<String>, DeclareError> {
        let writer = Writer {
            run_id: &new_run_id(&*self.clock),
            // A declaration holds no lease, and only looks whether another's is live.
            lease_ttl: Duration::from_secs(DEFAULT_TTL_S),
        };
        let examiner = &self.examiner;
        let found = examiner.before_writing(&self.root, &*self.clock, writer);
        Ok(found.await?.clock_warning())
    }

    /// Writes the manifest on top of what stands there now, which must be the same store.
    async fn put(
        &self,
        first: &Manifest,
        plan: &Plan,
    ) -> Result<(Renewed, Vec<String>), DeclareError> {
        lease::refuse_if_live(&self.root, &*self.clock).await?;
        let now = self.root.get_with_version(MANIFEST_KEY).await?;
        let path = format!("{}/{MANIFEST_KEY}", self.root.url().trim_end_matches('/'));
        let manifest = Manifest::parse(&now.bytes, &path)?;
        check_frozen(first.document(), manifest.document())?;
        let next = renewed(&manifest, plan);
        let diff = summary::diff(manifest.pyramid(), &next.document);
        if next.is_due {
            let text = python_pretty(&Value::Object(next.document.clone()), 1);
            let seen = Expected::Writing(now.version);
            match self.root.settle(MANIFEST_KEY, &text.into(), &seen).await? {
                Settled::Written | Settled::Stood => {}
                Settled::Moved => {
                    return Err(DeclareError::Raced {
                        root: self.root.url().to_owned(),
                    });
                }
            }
        }
        Ok((next, diff))
    }
}

/// A manifest with the declaration in it.
struct Renewed {
    document: Map<String, Value>,
    previous: Previous,
    /// Whether it differs from what stands there.
    is_due: bool,
}

fn renewed(manifest: &Manifest, plan: &Plan) -> Renewed {
    let mut document = manifest.document().clone();
    let (block, previous) = block::redeclare(manifest.pyramid(), plan.block.clone());
    let migrates = plan.verdict == HashVerdict::Legacy;
    let is_due = migrates || previous != Previous::Identical;
    if migrates {
        document.insert(
            "semantic_hash".to_owned(),
            plan.semantics.hash.clone().into(),
        );
    }
    let mirror = block::multiscales(&document, &block);
    document.insert("pyramid".to_owned(), block);
    match mirror {
        Some(mirror) => document.insert("multiscales".to_owned(), mirror),
        None => document.shift_remove("multiscales"),
    };
    Renewed {
        document,
        previous,
        is_due,
    }
}

fn is_mirrored(document: &Map<String, Value>, block: &Value) -> bool {
    document.get("multiscales") == block::multiscales(document, block).as_ref()
}

fn check_frozen(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Result<(), DeclareError> {
    let shown = |value: Option<&Value>| value.map_or("absent".to_owned(), Value::to_string);
    for key in FROZEN {
        let (was, is) = (before.get(key), after.get(key));
        // A hash is compared only when both sides have one.
        let one_sided = key == "semantic_hash" && (was.is_none() || is.is_none());
        if was != is && !one_sided {
            return Err(DeclareError::Frozen {
                key,
                before: shown(was),
                after: shown(is),
            });
        }
    }
    Ok(())
}

async fn first_committed(root: &Root, work: &WorkSet) -> Result<Option<LeafRef>, DeclareError> {
    let mut leaves = pin!(work.leaves(root));
    while let Some(found) = leaves.next().await {
        found.listed?;
        if Stamp::read_leaf(root, &found.leaf).await?.is_some() {
            return Ok(Some(found.leaf));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;
    use serde_json::json;

    use super::*;
    use crate::store::RetryPolicy;

    const CONFIG: &str =
        "aggregation: {variables: {count: {function: len, dtype: int32, fill_value: 0}}}";

    fn manifest(document: &Value) -> Manifest {
        Manifest::parse(document.to_string().as_bytes(), "m").unwrap()
    }

    async fn store(document: &Value) -> Root {
        let root = Root::new(Arc::new(InMemory::new()), "memory://x");
        let root = root.with_retry(RetryPolicy::never());
        root.put(MANIFEST_KEY, document.to_string()).await.unwrap();
        root
    }

    #[tokio::test]
    async fn a_store_that_became_another_is_not_written() {
        let first = json!({"spec": "morton-hive/1", "cell_order": 6, "shard_order": 4});
        let now = json!({"spec": "morton-hive/1", "cell_order": 6, "shard_order": 3});
        let root = store(&now).await;
        let lever = Some(Lever::Overviews(vec![5]));
        let declare = Declare::new(root.clone(), CONFIG).unwrap().lever(lever);
        let plan = declare.plan(&manifest(&first)).unwrap();
        let error = declare.put(&manifest(&first), &plan).await.err().unwrap();
        assert!(
            matches!(
                error,
                DeclareError::Frozen {
                    key: "shard_order",
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(root.get(MANIFEST_KEY).await.unwrap(), now.to_string());
    }

    #[tokio::test]
    async fn what_was_written_meanwhile_is_kept() {
        let first = json!({"spec": "morton-hive/1", "cell_order": 6, "shard_order": 1});
        let mut now = first.clone();
        now["note"] = json!("é");
        let root = store(&now).await;
        let lever = Some(Lever::Overviews(vec![5, 4, 3, 2]));
        let declare = Declare::new(root.clone(), CONFIG).unwrap().lever(lever);
        let plan = declare.plan(&manifest(&first)).unwrap();
        let (next, _) = declare.put(&manifest(&first), &plan).await.unwrap();
        assert!(next.is_due);
        let text = root.get(MANIFEST_KEY).await.unwrap();
        let text = std::str::from_utf8(&text).unwrap();
        assert!(
            text.contains("\n \"note\": \"\\u00e9\",\n \"pyramid\""),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_store_without_leaves_is_declared_with_a_warning() {
        let now = json!({"spec": "morton-hive/1", "cell_order": 6, "shard_order": 4});
        let root = store(&now).await;
        let lever = Some(Lever::Overviews(vec![5]));
        let declare = Declare::new(root, CONFIG).unwrap().lever(lever);
        let declared = declare.run().await.unwrap();
        assert_eq!(declared.previous, Previous::Absent);
        assert!(declared.updated);
        assert_eq!(
            declared.validated,
            "no committed leaf; no semantic_hash to compare"
        );
        assert_eq!(declared.warnings.len(), 2, "{:?}", declared.warnings);
    }

    #[test]
    fn a_frozen_key_that_moved_is_named() {
        let map = |value: Value| value.as_object().unwrap().clone();
        let before =
            map(json!({"spec": "morton-hive/1", "cell_order": 6, "semantic_hash": "a", "x": 1}));
        let same = map(json!({"spec": "morton-hive/1", "cell_order": 6, "x": 2}));
        assert!(check_frozen(&before, &same).is_ok());
        for (key, value) in [
            ("cell_order", json!(7)),
            ("semantic_hash", json!("b")),
            ("temporal", json!({})),
        ] {
            let mut after = before.clone();
            after.insert(key.to_owned(), value);
            let error = check_frozen(&before, &after).unwrap_err().to_string();
            assert!(error.contains(&format!("`{key}`")), "{error}");
        }
    }
}
