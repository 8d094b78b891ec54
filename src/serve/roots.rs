//! Which stores may be worked on: those at or below a configured address.

use std::path::{Path, PathBuf};

/// Why an address may not be worked on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RootRefused {
    /// It is not below any of those that are allowed.
    #[error("`{0}` is not at or below a root that this service may work on; its `roots` say which")]
    NotAllowed(String),
    /// It cannot be compared.
    #[error("`{root}` is no address that can be checked: {reason}")]
    Unclear {
        /// As it was given.
        root: String,
        /// Why not.
        reason: &'static str,
    },
}

/// An address in a form in which two that mean the same are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Local(PathBuf),
    Remote { scheme: String, parts: Vec<String> },
}

/// The address in its plain form, if it is at or below one of `allowed`.
///
/// # Errors
/// When it is not, or is written in a way that leaves it open.
pub(super) fn checked(root: &str, allowed: &[String]) -> Result<String, RootRefused> {
    let place = Place::of(root)?;
    // A prefix that is not there, or not clear, allows nothing.
    let allowed = allowed.iter().filter_map(|prefix| Place::of(prefix).ok());
    if allowed.into_iter().any(|prefix| place.is_below(&prefix)) {
        return Ok(place.address());
    }
    Err(RootRefused::NotAllowed(root.to_owned()))
}

impl Place {
    fn of(root: &str) -> Result<Self, RootRefused> {
        let unclear = |reason| RootRefused::Unclear {
            root: root.to_owned(),
            reason,
        };
        let Some((scheme, rest)) = root.split_once("://") else {
            let path = Path::new(root);
            if !path.is_absolute() {
                return Err(unclear("a path must be absolute"));
            }
            // Links and dots are followed to where they lead.
            let path = path.canonicalize();
            return Ok(Self::Local(
                path.map_err(|_| unclear("there is no such directory"))?,
            ));
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "s3" | "s3a" => "s3",
            "gs" => "gs",
            "az" => "az",
            _ => {
                return Err(unclear(
                    "it must be a path or begin with s3://, gs:// or az://",
                ));
            }
        };
        let rest = rest.trim_end_matches('/');
        if rest.contains(['%', '?', '#', '\\', '@']) || rest.contains(char::is_control) {
            return Err(unclear("it has characters that are read in different ways"));
        }
        let parts: Vec<String> = rest.split('/').map(str::to_owned).collect();
        if parts
            .iter()
            .any(|part| matches!(part.as_str(), "" | "." | ".."))
        {
            return Err(unclear("it has an empty part, `.` or `..`"));
        }
        Ok(Self::Remote {
            scheme: scheme.to_owned(),
            parts,
        })
    }

    fn is_below(&self, prefix: &Self) -> bool {
        match (self, prefix) {
            (Self::Local(path), Self::Local(prefix)) => path.starts_with(prefix),
            (
                Self::Remote { scheme, parts },
                Self::Remote {
                    scheme: allowed,
                    parts: prefix,
                },
            ) => scheme == allowed && parts.starts_with(prefix),
            _ => false,
        }
    }

    fn address(&self) -> String {
        match self {
            Self::Local(path) => path.display().to_string(),
            Self::Remote { scheme, parts } => format!("{scheme}://{}", parts.join("/")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> Vec<String> {
        vec!["s3://bucket/public".to_owned(), "gs://all/".to_owned()]
    }

    #[test]
    fn what_is_at_or_below_an_allowed_address_is_allowed() {
        for (root, plain) in [
            ("s3://bucket/public", "s3://bucket/public"),
            ("S3A://bucket/public/a b/", "s3://bucket/public/a b"),
            ("gs://all/x/y", "gs://all/x/y"),
        ] {
            assert_eq!(checked(root, &allowed()).as_deref(), Ok(plain));
        }
    }

    #[test]
    fn no_other_address_is() {
        for root in [
            "s3://bucket",
            "s3://bucket/publications",
            "s3://bucket/public/../private",
            "s3://bucket/public/./x",
            "s3://bucket//public",
            "s3://bucket/public%2f..%2fprivate",
            "s3://bucket/public/x?y",
            "s3://user@bucket/public",
            "s3://Bucket/public",
            "gs://bucket/public",
            "https://bucket/public",
            "memory://bucket/public",
            "file:///bucket/public",
            "",
            "relative",
            "/",
        ] {
            assert!(checked(root, &allowed()).is_err(), "{root}");
        }
        assert!(checked("s3://bucket/public", &[]).is_err());
    }

    #[test]
    fn links_and_dots_of_a_disk_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        for name in ["public", "publications", "private"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("private"), at("public/link")).unwrap();
        let allowed = [at("public")];
        assert!(checked(&at("public"), &allowed).is_ok());
        assert!(checked(&format!("{}/", at("public")), &allowed).is_ok());
        for other in [
            "publications",
            "public/link",
            "public/../private",
            "public/absent",
        ] {
            assert!(checked(&at(other), &allowed).is_err(), "{other}");
        }
    }
}
