//! What a local disk needs beyond the requests of a store, so that it keeps what it
//! answered for and forgets what a crash left half written.
//!
//! A write is durable once it is answered: the client puts the bytes into `name#1` beside
//! the object, syncs the file, renames it, and syncs its directory and every directory it
//! had to make. What is missing is here: deletions that are durable, without which a power
//! cut could bring back the stamp of an artifact whose chunks are gone already; and the
//! removal of a `name#1` whose writer was killed, which the client neither lists nor opens.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use object_store::local::LocalFileSystem;
use object_store::path::Path;

type SyncDir = dyn Fn(&FilePath) -> io::Result<()> + Send + Sync;

/// The directory of a local root.
#[derive(Clone)]
pub(super) struct Disk {
    root: PathBuf,
    sync_dir: Arc<SyncDir>,
}

/// Opens the directory `path` as a store whose writes are durable. A directory left empty
/// would still be listed as a prefix, which it is in no other store, so deletions take it
/// along.
pub(super) fn open(path: &FilePath) -> Result<LocalFileSystem, object_store::Error> {
    let store = LocalFileSystem::new_with_prefix(path)?;
    Ok(store.with_automatic_cleanup(true).with_fsync(true))
}

impl Disk {
    /// The disk below `path`.
    ///
    /// # Errors
    /// When the path cannot be resolved.
    pub(super) fn new(path: &FilePath) -> io::Result<Self> {
        Ok(Self {
            root: path.canonicalize()?,
            sync_dir: Arc::new(|dir| File::open(dir)?.sync_all()),
        })
    }

    /// Makes sure that the objects at `keys`, which are gone, stay gone.
    ///
    /// # Errors
    /// The first directory that cannot be synced.
    pub(super) fn sync_deleted(&self, keys: &[Path]) -> io::Result<()> {
        let mut synced = BTreeSet::new();
        for key in keys {
            let path = self.root.join(key.as_ref());
            // Directories that were left empty are gone, too; then the name that must not
            // come back is that of the topmost of them.
            for dir in path.ancestors().skip(1) {
                if synced.contains(dir) {
                    break;
                }
                match (self.sync_dir)(dir) {
                    Err(error) if error.kind() == ErrorKind::NotFound && dir != self.root => {}
                    result => {
                        result?;
                        synced.insert(dir.to_owned());
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Deletes what killed writers left staged for the object at `key` and for every object
    /// below it, and the directories that held nothing else. A directory whose maker was
    /// killed may not be durable yet; the next write below makes it anew.
    ///
    /// # Errors
    /// The first file that cannot be deleted.
    pub(super) fn delete_staged(&self, key: &Path) -> io::Result<()> {
        let path = self.root.join(key.as_ref());
        if let (Some(dir), Some(name)) = (path.parent(), path.file_name()) {
            for entry in entries(dir)? {
                let entry = entry?;
                if staged_for(&entry.file_name().to_string_lossy()).is_some_and(|of| name == of) {
                    remove_file(&entry.path())?;
                }
            }
        }
        delete_staged_below(&path)
    }

    #[cfg(test)]
    pub(super) fn with_sync_dir(
        self,
        sync_dir: impl Fn(&FilePath) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let sync_dir = Arc::new(sync_dir);
        Self { sync_dir, ..self }
    }
}

fn delete_staged_below(dir: &FilePath) -> io::Result<()> {
    for entry in entries(dir)? {
        let entry = entry?;
        // Of the entry itself: what a link leads to is not below `dir`.
        let kind = entry.file_type()?;
        if kind.is_dir() {
            delete_staged_below(&entry.path())?;
        } else if kind.is_file() && staged_for(&entry.file_name().to_string_lossy()).is_some() {
            remove_file(&entry.path())?;
        }
    }
    // Fails for one that holds anything, as it should.
    let _ = fs::remove_dir(dir);
    Ok(())
}

/// The name of the object that the file `name` was to become, if it is such a file.
fn staged_for(name: &str) -> Option<&str> {
    let (object, number) = name.rsplit_once('#')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(object)
}

/// What stands in `dir`; nothing when there is no such directory.
fn entries(dir: &FilePath) -> io::Result<impl Iterator<Item = io::Result<fs::DirEntry>>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => Some(entries),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            None
        }
        Err(error) => return Err(error),
    };
    Ok(entries.into_iter().flatten())
}

fn remove_file(path: &FilePath) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
