//! Opens a root by its address, local path or URL, and the roots derived from it.

use std::path::Path as FilePath;
use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::path::Path;
use url::Url;

use super::client::{Origin, Remote, Scheme};
use super::local::{self, Disk};
use super::options::Options;
use super::{Inner, Root, RootError};

impl Root {
    /// Opens a local path or URL with no options beyond what the address says.
    ///
    /// # Errors
    /// As [`Root::open_with`].
    pub fn open(url: &str) -> Result<Self, RootError> {
        Self::open_with(url, std::iter::empty())
    }

    /// Opens a local path or a URL: `s3`, `gs`, `az` and `abfs` (with or without a final
    /// `s`), `http(s)` (read only), `file`, `memory` (a fresh, empty store).
    ///
    /// `options` are the `AWS_…`, `GOOGLE_…` and `AZURE_…` settings of `object_store`,
    /// in any case, and what else the clouds' own programs go by: `AWS_PROFILE` with the
    /// files of the profiles, which are found by `HOME`. Those for other stores, and
    /// anything else, are passed over, so a caller may hand in its whole environment. An
    /// empty one counts as not given.
    ///
    /// # Errors
    /// A local root must exist and be a directory that can be listed. Of an S3 root the
    /// profile must be usable, if one is needed. Nothing is asked of a remote store.
    pub fn open_with(
        url: &str,
        options: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, RootError> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Self::open_local(FilePath::new(url), url);
        };
        let invalid = |reason: &str| RootError::Invalid {
            url: redacted(url),
            reason: reason.to_owned(),
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "file" => {
                let path = Url::parse(url)
                    .ok()
                    .and_then(|url| url.to_file_path().ok())
                    .ok_or_else(|| {
                        invalid("a file URL has three slashes and an absolute path, file:///data")
                    })?;
                return Self::open_local(&path, url);
            }
            "memory" => {
                let base = rest.trim_matches('/');
                return Self::with_base(Arc::new(InMemory::new()), base, url);
            }
            "s3" | "s3a" => Scheme::S3,
            "gs" => Scheme::Gcs,
            "az" | "abfs" | "abfss" => Scheme::Azure,
            "http" | "https" => Scheme::Http,
            other => {
                return Err(RootError::UnsupportedScheme {
                    url: redacted(url),
                    scheme: other.to_owned(),
                });
            }
        };
        let (address, base) = if scheme == Scheme::Http {
            let parsed = Url::parse(url).map_err(|error| invalid(&error.to_string()))?;
            if parsed.query().is_some() || parsed.fragment().is_some() {
                return Err(invalid(
                    "a query or fragment cannot be kept under a root; leave it off",
                ));
            }
            let base = Path::from_url_path(parsed.path().trim_matches('/'))
                .map_err(|error| invalid(&error.to_string()))?;
            let address = parsed[..url::Position::BeforePath].to_owned();
            (address, base.to_string())
        } else {
            // Bucket URLs are not percent-encoded by those who write them: `%`, `#` and
            // `?` are characters of the key.
            if scheme == Scheme::Azure && rest.contains("sig=") {
                return Err(invalid(
                    "a SAS token does not belong into it; set AZURE_STORAGE_SAS_TOKEN instead",
                ));
            }
            let (bucket, base) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.is_empty() {
                return Err(invalid("it names no bucket or container"));
            }
            let prefix = url.len() - rest.len();
            let address = format!("{}{bucket}", &url[..prefix]);
            (address, base.trim_matches('/').to_owned())
        };
        let remote = Remote {
            scheme,
            address,
            options: Arc::new(Options::new(options)),
        };
        let url = redacted(url);
        let store = remote.connect(&url)?;
        Self::assemble(store, &base, url, Origin::Remote(remote))
    }

    fn open_local(path: &FilePath, url: &str) -> Result<Self, RootError> {
        let cannot_list = |error: &std::io::Error| RootError::CannotList {
            url: url.to_owned(),
            reason: error.to_string(),
        };
        match std::fs::metadata(path) {
            Ok(found) if !found.is_dir() => {
                return Err(RootError::IsAFile {
                    url: url.to_owned(),
                });
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                return Err(cannot_list(&error));
            }
            Err(_) => {
                return Err(RootError::Absent {
                    url: url.to_owned(),
                });
            }
        }
        std::fs::read_dir(path).map_err(|error| cannot_list(&error))?;
        let disk = Disk::new(path).map_err(|error| cannot_list(&error))?;
        let store = local::open(path).map_err(|error| RootError::CannotOpen {
            url: url.to_owned(),
            reason: error.to_string(),
        })?;
        let path = path.to_owned();
        let origin = Origin::Local { path, disk };
        Self::assemble(Arc::new(store), "", url.to_owned(), origin)
    }

    /// The root at `prefix` below this one, through the same client.
    pub(crate) fn below(&self, prefix: &str) -> Self {
        let join = |base: &str| match base.trim_end_matches('/') {
            "" => prefix.to_owned(),
            base => format!("{base}/{prefix}"),
        };
        Self(Arc::new(Inner {
            base: join(&self.0.base),
            url: join(&self.0.url),
            ..Inner::clone(&self.0)
        }))
    }

    /// The address as another process of any directory can open it.
    pub(crate) fn absolute(&self) -> String {
        let Origin::Local { path, .. } = &self.0.origin else {
            return self.0.url.clone();
        };
        // One that cannot be resolved is told as it was given.
        let path = path.canonicalize().unwrap_or_else(|_| path.clone());
        path.join(&self.0.base).display().to_string()
    }

    /// The same root through a client of its own, sharing only the tally.
    ///
    /// The connections of a client are driven by the runtime that opened them, so a
    /// thread that must get through whatever the rest of the process does needs one
    /// that nobody else uses. A root from [`Root::new`] has nothing to build it from
    /// and shares.
    pub(crate) fn detached(&self) -> Self {
        let Origin::Remote(remote) = &self.0.origin else {
            return self.clone();
        };
        match remote.connect(&self.0.url) {
            Ok(store) => Self(Arc::new(Inner {
                store,
                ..Inner::clone(&self.0)
            })),
            Err(error) => {
                tracing::debug!(root = %self, error = %error, "no second client, sharing the first");
                self.clone()
            }
        }
    }

    /// The root whose address is this one's with `suffix` at the end, which need not
    /// exist: the status channel stands beside its store (`format.md` section 1).
    ///
    /// `None` when this root is a whole bucket, disk or wrapped store, which has no
    /// sibling.
    pub(crate) fn sibling(&self, suffix: &str) -> Option<Self> {
        let url = format!("{}{suffix}", self.0.url.trim_end_matches('/'));
        if let Origin::Local { path, .. } = &self.0.origin {
            // The name it was given by, so that the sibling of a link is beside the link;
            // `.` and `..` have a name only once resolved.
            let resolved;
            let (parent, name) = match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) => (parent, name),
                _ => {
                    resolved = path.canonicalize().ok()?;
                    (resolved.parent()?, resolved.file_name()?)
                }
            };
            let parent = match parent.as_os_str().is_empty() {
                true => FilePath::new("."),
                false => parent,
            };
            let base = format!("{}{suffix}", name.to_str()?);
            let store = local::open(parent).ok()?;
            return Self::assemble(Arc::new(store), &base, url, Origin::Given).ok();
        }
        if self.0.base.is_empty() {
            return None;
        }
        Some(Self(Arc::new(Inner {
            base: format!("{}{suffix}", self.0.base),
            url,
            ..Inner::clone(&self.0)
        })))
    }
}

/// `url` without the password or the signature it may carry: it goes into messages and
/// logs.
fn redacted(url: &str) -> String {
    let url = match url.split_once('?') {
        Some((address, query)) if is_signed(query) => format!("{address}?…"),
        _ => url.to_owned(),
    };
    match Url::parse(&url) {
        Ok(mut parsed) if parsed.password().is_some() => {
            let _ = parsed.set_password(Some("…"));
            parsed.to_string()
        }
        _ => url,
    }
}

fn is_signed(query: &str) -> bool {
    let query = query.to_ascii_lowercase();
    ["sig=", "signature=", "token="]
        .iter()
        .any(|name| query.contains(name))
}
