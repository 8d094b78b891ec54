//! The directory a store is written to, and what it has taken so far.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::DemoError;

/// A store's directory.
#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
    objects: u64,
    num_bytes: u64,
}

impl Tree {
    /// Makes the directory, unless it is there and empty.
    ///
    /// # Errors
    /// `Occupied`, or `Write` when it cannot be made or looked into.
    pub(super) fn create(root: &Path) -> Result<Self, DemoError> {
        let path = root.to_owned();
        let occupied = match fs::read_dir(root) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) if error.kind() == ErrorKind::NotADirectory => true,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(source) => return Err(DemoError::Write { path, source }),
        };
        if occupied {
            return Err(DemoError::Occupied { path });
        }
        make_directory(root)?;
        Ok(Self {
            root: path,
            objects: 0,
            num_bytes: 0,
        })
    }

    /// Where the object with this key lies.
    pub(super) fn path(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    /// Writes a whole object.
    ///
    /// # Errors
    /// `Write`.
    pub(super) fn put(&mut self, key: &str, body: &[u8]) -> Result<(), DemoError> {
        let path = self.path(key);
        if let Some(parent) = path.parent() {
            make_directory(parent)?;
        }
        fs::write(&path, body).map_err(|source| DemoError::Write { path, source })?;
        self.count(body.len() as u64);
        Ok(())
    }

    /// Counts an object that was written piece by piece.
    pub(super) fn count(&mut self, num_bytes: u64) {
        self.objects += 1;
        self.num_bytes += num_bytes;
    }

    pub(super) fn objects(&self) -> u64 {
        self.objects
    }

    pub(super) fn num_bytes(&self) -> u64 {
        self.num_bytes
    }
}

/// Makes a file and the directories above it.
///
/// # Errors
/// `Write`.
pub(super) fn make_file(path: &Path) -> Result<File, DemoError> {
    if let Some(parent) = path.parent() {
        make_directory(parent)?;
    }
    File::create(path).map_err(|source| DemoError::Write {
        path: path.to_owned(),
        source,
    })
}

fn make_directory(path: &Path) -> Result<(), DemoError> {
    fs::create_dir_all(path).map_err(|source| DemoError::Write {
        path: path.to_owned(),
        source,
    })
}
