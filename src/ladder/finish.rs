//! What a ladder leaves at the root when every artifact stands: the coverage, the
//! manifest's `actuals`, and the record of the sweep (`format.md` section 9, "Finisher").

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::ladder::Ladder;
use crate::ladder::coverage::{self, COVERAGE_KEY};
use crate::ladder::generation::SourceChildren;
use crate::ladder::targets::LadderWork;
use crate::pyramid::Level;
use crate::report::LevelReport;
use crate::store::manifest::{MANIFEST_KEY, Manifest};
use crate::store::root::{Expected, Settled};
use crate::store::{Held, LeaseError, ManifestError, StoreError, json};

const SWEEP_STATS_SPEC: &str = "zagg-stream-sweep/1";

/// Members of an entry's `actuals` that tell when and by whom, not what.
const PASSING: [&str; 2] = ["run_id", "generated_at"];

/// Tries of rewriting a manifest that others rewrite too.
const MANIFEST_TRIES: u32 = 3;

/// Why a finisher could not finish. The artifacts of the ladder stand all the same.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FinishError {
    /// A request failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lease is no longer ours.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The manifest cannot be read any more.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The manifest was rewritten while the ladder was built.
    #[error(
        "the manifest `{path}` {what} while the ladder was built, so its actuals were not recorded; run `zagg-stream sweep` again"
    )]
    Moved {
        /// Path of the manifest.
        path: String,
        /// What happened to it.
        what: &'static str,
    },
}

/// What the levels came to, by order; the overviews of all windows have no actuals and
/// are not counted.
pub(crate) type Levels = BTreeMap<u8, SourceChildren>;

impl Ladder {
    /// Unites the coverage with these shards; nothing is written when it says so already.
    ///
    /// # Errors
    /// Failed requests, and a lease that is no longer ours.
    pub(crate) async fn finish_coverage(
        &self,
        work: &LadderWork,
        held: Option<&Held>,
    ) -> Result<bool, FinishError> {
        let order = self.template.plan.shard_order;
        let stored = self.run.root.get_if_present(COVERAGE_KEY).await?;
        let stored: Option<Value> = stored.and_then(|bytes| json::parse(&bytes).ok());
        let words: Vec<u64> = work.shards().collect();
        let moc = coverage::united(stored.as_ref(), &words, order, &self.run.now());
        let Some(moc) = moc else { return Ok(false) };
        if let Some(held) = held {
            let text = json::python_pretty(&Value::Object(moc), json::ROOT_INDENT);
            held.put(&self.run.root, COVERAGE_KEY, text).await?;
        }
        Ok(true)
    }

    /// Records in the manifest what every level came to; nothing is written when it says
    /// so already.
    ///
    /// # Errors
    /// Failed requests, and a manifest that no longer declares this ladder.
    pub(crate) async fn finish_manifest(
        &self,
        levels: &Levels,
        held: Option<&Held>,
    ) -> Result<bool, FinishError> {
        let root = &self.run.root;
        let path = format!("{}/{MANIFEST_KEY}", root.url().trim_end_matches('/'));
        for _ in 0..MANIFEST_TRIES {
            let stored = root.get_with_version(MANIFEST_KEY).await?;
            let manifest = Manifest::parse(&stored.bytes, &path)?;
            let Some(document) = self.with_actuals(&manifest, levels) else {
                let what = "was re-declared";
                return Err(FinishError::Moved { path, what });
            };
            let (true, Some(held)) = (document != *manifest.document(), held) else {
                return Ok(document != *manifest.document());
            };
            held.ensure_fresh()?;
            let text = json::python_pretty(&Value::Object(document), json::ROOT_INDENT);
            let seen = Expected::Writing(stored.version);
            match root.settle(MANIFEST_KEY, &text.into(), &seen).await? {
                Settled::Written | Settled::Stood => return Ok(true),
                Settled::Moved => {}
            }
        }
        let what = "was rewritten again and again";
        Err(FinishError::Moved { path, what })
    }

    /// The manifest with the actuals of every entry; `None` when it declares another
    /// pyramid than the one that was built.
    fn with_actuals(&self, manifest: &Manifest, levels: &Levels) -> Option<Map<String, Value>> {
        let declared = crate::pyramid::Declaration::parse(
            manifest.pyramid(),
            manifest.shard_order(),
            manifest.cell_order(),
        );
        if declared.ok()? != self.template.column.declaration {
            return None;
        }
        let mut document = manifest.document().clone();
        let entries = document.get_mut("pyramid")?.get_mut("overviews")?;
        for entry in entries.as_array_mut()?.iter_mut() {
            let order = u8::try_from(entry.get("node")?.as_u64()?).ok()?;
            let fresh = self.actuals(order, levels)?;
            let entry = entry.as_object_mut()?;
            let recorded = entry.get("actuals").and_then(Value::as_object);
            if recorded.is_none_or(|recorded| !is_same_but_when(recorded, &fresh)) {
                entry.insert("actuals".to_owned(), Value::Object(fresh));
            }
        }
        Some(document)
    }

    /// What the entry of an order records; `None` when the order has no entry that can.
    pub(crate) fn actuals(&self, order: u8, levels: &Levels) -> Option<Map<String, Value>> {
        let (plan, column) = (&self.template.plan, &self.template.column);
        let now = self.run.now();
        let actuals = match plan.level(order) {
            Some(level) => json!({
                "regime": level.regime.as_str(),
                "merges_from_raw": level.regime.merges_from_raw(),
                "source_children": levels.get(&order).copied().unwrap_or_default().to_json(),
                "run_id": self.run.run_id,
                "generated_at": now,
            }),
            None => {
                let entries = column.declaration.entries.iter();
                let mut cells = entries
                    .filter(|entry| entry.node == order)
                    .flat_map(|entry| &entry.cells);
                json!({
                    "regime": "leaf-column",
                    "merges_from_raw": cells.by_ref().map(|cells| column.plan.merges_from_raw(*cells)).max(),
                    "generated_at": now,
                })
            }
        };
        actuals.as_object().cloned()
    }

    /// Puts the record of the sweep.
    ///
    /// # Errors
    /// Failed requests, and a lease that is no longer ours.
    pub(crate) async fn finish_record(
        &self,
        reports: &[LevelReport],
        tuple_width: u8,
        held: &Held,
    ) -> Result<String, FinishError> {
        let now = self.run.clock.now().unix_seconds();
        let key = format!("sweep_stats_{}_stages.json", crate::time::compact(now));
        let record = json!({
            "spec": SWEEP_STATS_SPEC,
            "zagg_version": crate::VERSION,
            "run_id": self.run.run_id,
            "tuple_width": tuple_width,
            "started_at": crate::time::iso(self.started),
            "finished_at": crate::time::iso(now),
            "levels": reports,
        });
        let text = json::python_pretty(&record, json::ROOT_INDENT);
        held.put(&self.run.root, &key, text).await?;
        Ok(key)
    }

    /// The level of this order.
    pub(crate) fn level(&self, order: u8) -> Option<&Level> {
        self.template.plan.level(order)
    }
}

/// Whether two actuals say the same, apart from when and by whom.
pub(crate) fn is_same_but_when(recorded: &Map<String, Value>, fresh: &Map<String, Value>) -> bool {
    let what = |actuals: &Map<String, Value>| {
        let mut actuals = actuals.clone();
        actuals.retain(|key, _| !PASSING.contains(&key.as_str()));
        actuals
    };
    what(recorded) == what(fresh)
}
