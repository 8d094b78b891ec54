//! What is remembered of a run, and where.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ServeError;
use super::order::Options;

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    /// It waits for its turn.
    Queued,
    /// It is under way.
    Running,
    /// It has ended, however that is called in its account.
    Ended,
    /// It was stopped, by a request or with the service, and can be started again.
    Interrupted,
}

/// What is remembered of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    pub id: String,
    pub root: String,
    pub options: Options,
    pub state: State,
    /// How it ended, as in its account.
    pub outcome: Option<String>,
    /// Why it ended early.
    pub error: Option<String>,
    pub queued_at: String,
    pub started_at: Option<String>,
    pub ended_at: Option<String>,
    /// Its account, as `upgrade --json` prints it.
    pub account: Option<Value>,
}

impl Record {
    /// Whether it waits or works.
    pub(super) fn is_active(&self) -> bool {
        matches!(self.state, State::Queued | State::Running)
    }
}

/// The directory in which runs are remembered, by this service alone.
#[derive(Debug)]
pub(super) struct StateDir {
    dir: PathBuf,
    /// Locked for as long as it is open.
    _lock: File,
}

impl StateDir {
    /// Opens the directory, and makes it if it is not there.
    ///
    /// # Errors
    /// When it cannot be made, or another service has it.
    pub(super) fn open(dir: &Path) -> Result<Self, ServeError> {
        let unusable = |reason: String| ServeError::State {
            dir: dir.to_owned(),
            reason,
        };
        fs::create_dir_all(dir).map_err(|error| unusable(error.to_string()))?;
        let lock = File::create(dir.join("lock")).map_err(|error| unusable(error.to_string()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                dir: dir.to_owned(),
                _lock: lock,
            }),
            Err(fs::TryLockError::WouldBlock) => Err(unusable(
                "another service has it; give each its own".to_owned(),
            )),
            Err(fs::TryLockError::Error(error)) => Err(unusable(error.to_string())),
        }
    }

    /// Every run that is remembered, the oldest first. One that cannot be read is passed over
    /// with a warning.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub(super) fn load(&self) -> Result<Vec<Record>, ServeError> {
        let entries = fs::read_dir(&self.dir).map_err(|error| self.unusable(&error))?;
        let mut records = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| self.unusable(&error))?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let read = fs::read(&path).map_err(|error| error.to_string());
            match read.and_then(|bytes| {
                serde_json::from_slice::<Record>(&bytes).map_err(|error| error.to_string())
            }) {
                Ok(record) => records.push(record),
                Err(error) => {
                    tracing::warn!(path = %path.display(), error, "a run cannot be remembered");
                }
            }
        }
        records.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(records)
    }

    /// Remembers a run as it stands now; what was known before stays until this is durable.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn save(&self, record: &Record) -> io::Result<()> {
        let path = self.path(&record.id);
        let staged = path.with_extension("new");
        let mut file = File::create(&staged)?;
        file.write_all(&serde_json::to_vec_pretty(record)?)?;
        file.sync_all()?;
        fs::rename(&staged, &path)?;
        File::open(&self.dir)?.sync_all()
    }

    /// Forgets a run.
    pub(super) fn forget(&self, id: &str) {
        if let Err(error) = fs::remove_file(self.path(id)) {
            tracing::warn!(id, %error, "an old run cannot be forgotten");
        }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    fn unusable(&self, error: &io::Error) -> ServeError {
        ServeError::State {
            dir: self.dir.clone(),
            reason: error.to_string(),
        }
    }
}
