//! Runs that seem to be writing to a store right now, by its status channel:
//! `{root}.status/run-{run_id}/shard-*.json`, beside the root (`format.md` section 8).

use futures::StreamExt;

use super::root::{Root, StoreError};
use crate::time::Clock;

/// Age in seconds from which on a status object says nothing about the present.
pub(crate) const IN_FLIGHT_S: i64 = 900;

/// The ids of runs with a status object younger than [`IN_FLIGHT_S`], sorted, each
/// named in one warning.
///
/// This only ever informs: a channel that is not there or cannot be listed is no runs,
/// and a debug line.
pub(crate) async fn in_flight(root: &Root, clock: &dyn Clock) -> Vec<String> {
    let Some(channel) = root.sibling(".status") else {
        return Vec::new();
    };
    let now = clock.now().unix_seconds();
    match young_runs(&channel, now).await {
        Ok(runs) => {
            for run_id in &runs {
                tracing::warn!(
                    run_id,
                    max_age_s = IN_FLIGHT_S,
                    "a run has reported lately and may still be writing to this store"
                );
            }
            runs
        }
        Err(error) => {
            tracing::debug!(error = %error, "status channel not listed");
            Vec::new()
        }
    }
}

async fn young_runs(channel: &Root, now: i64) -> Result<Vec<String>, StoreError> {
    let mut runs = Vec::new();
    for prefix in channel.list_shallow("").await?.prefixes {
        let Some(run_id) = prefix.strip_prefix("run-") else {
            continue;
        };
        let mut objects = channel.list(&prefix);
        while let Some(object) = objects.next().await.transpose()? {
            let name = object.name();
            let is_report = name.starts_with("shard-") && name.ends_with(".json");
            if is_report && now - object.last_modified < IN_FLIGHT_S {
                runs.push(run_id.to_owned());
                break;
            }
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::time::SystemClock;
    use crate::time::testing::ScriptedClock;

    #[tokio::test]
    async fn young_reports_name_their_run() {
        let store = Arc::new(InMemory::new());
        let beside = Root::new(store.clone(), "memory://");
        for key in [
            "hive.status/run-b/shard-1.json",
            "hive.status/run-a/shard-1.json",
            "hive.status/run-c/other.json",
            "hive.status/stray.json",
            "hive/morton_hive.json",
        ] {
            beside.put(key, "{}").await.unwrap();
        }
        let root = Root::with_base(store, "hive", "memory://hive").unwrap();
        let now = SystemClock::new();
        assert_eq!(in_flight(&root, &now).await, ["a", "b"]);
        let later = ScriptedClock::at(now.now().wall.as_secs() + 901);
        assert!(in_flight(&root, &later).await.is_empty());
    }

    #[tokio::test]
    async fn a_local_store_has_its_channel_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a 100% ünï store");
        std::fs::create_dir(&path).unwrap();
        let root = Root::open(&format!("{}/", path.display())).unwrap();
        let clock = SystemClock::new();
        assert!(in_flight(&root, &clock).await.is_empty());
        let run = dir.path().join("a 100% ünï store.status/run-x");
        std::fs::create_dir_all(&run).unwrap();
        std::fs::write(run.join("shard-11213.json"), "{}").unwrap();
        assert_eq!(in_flight(&root, &clock).await, ["x"]);
    }

    #[tokio::test]
    async fn a_root_without_a_sibling_has_no_runs() {
        let root = Root::new(Arc::new(InMemory::new()), "memory://");
        assert!(in_flight(&root, &SystemClock::new()).await.is_empty());
    }
}
