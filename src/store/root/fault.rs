//! What a failed request says about the store.
//!
//! `object_store` has variants for the common answers and wraps the rest in `Generic`,
//! with the HTTP status in a type it does not export. So the chain of sources is walked:
//! types first, and the text of the status line only where there is no type to ask.

use std::error::Error as StdError;
use std::io;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

use super::Op;
use super::credentials::CredentialsError;
use crate::error::FaultKind;

mod answer;
mod cure;

use answer::{FAULT_IN_SUCCESS, STATUS};

pub(super) use answer::told;
pub(super) use cure::cure;

/// The words stores and token services use for credentials past their time.
const EXPIRED: [&str; 15] = [
    "ExpiredToken",
    "TokenRefreshRequired",
    "RequestExpired",
    "token has expired",
    "Token is expired",
    "ID token issued",
    // Google: of the store, and of whoever renews a login.
    "invalid_token",
    "Invalid Credentials",
    "Token has been expired or revoked",
    "invalid_rapt",
    // Azure: of a token, and of a signed address.
    "ExpiredAuthenticationToken",
    "Lifetime validation failed",
    "The token is expired",
    "not valid in the specified time frame",
    "Signed expiry time",
];

/// The words stores use for a bucket or container that is not there.
const NO_BUCKET: [&str; 3] = [
    "NoSuchBucket",
    "ContainerNotFound",
    "specified bucket does not exist",
];

/// The words for credentials that are none, in the body of a 400.
const MALFORMED_CREDENTIALS: [&str; 4] = [
    "InvalidToken",
    "InvalidIdentityToken",
    "InvalidAccessKey",
    "AuthorizationHeaderMalformed",
];

/// Where credentials are looked for on a machine inside a cloud. Not reaching it means
/// that there are none.
const METADATA_SERVICES: [&str; 3] = [
    "169.254.169.254",
    "169.254.170.2",
    "metadata.google.internal",
];

/// The kind of fault `error` is as the answer to `op`.
pub(super) fn classify(op: Op, error: &Error) -> FaultKind {
    match error {
        Error::NotFound { .. } if says_no_bucket(&error.to_string()) => FaultKind::NoBucket,
        // Only a missing bucket or container makes a write fail so.
        Error::NotFound { .. } if op.is_write() => FaultKind::WriteRefused,
        Error::NotFound { .. } => FaultKind::NotFound,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            if contains_any(&error.to_string(), &EXPIRED) {
                FaultKind::ExpiredCredentials
            } else {
                FaultKind::Denied
            }
        }
        // The status 409. To a request without a condition it means that another one to
        // the same key is still under way.
        Error::AlreadyExists { .. } => FaultKind::Unavailable,
        Error::Precondition { .. } | Error::NotModified { .. } => FaultKind::WriteRefused,
        Error::NotSupported { .. } | Error::NotImplemented { .. } => refused(op),
        Error::JoinError { source } if source.is_cancelled() => FaultKind::Cancelled,
        Error::Generic { source, .. } => by_chain(op, source.as_ref()),
        _ => FaultKind::Bug,
    }
}

/// Whether the store cannot do what was asked, as opposed to not wanting to.
pub(super) fn says_unsupported(error: &Error) -> bool {
    match error {
        Error::NotSupported { .. } | Error::NotImplemented { .. } => true,
        Error::Generic { source, .. } => {
            let mut next: Option<&(dyn StdError + 'static)> = Some(source.as_ref());
            while let Some(error) = next {
                if status(&error.to_string()).is_some_and(|(code, _)| code == 501) {
                    return true;
                }
                next = error.source();
            }
            false
        }
        _ => false,
    }
}

/// Whether it is not the object that is absent, but all that it would be in.
fn says_no_bucket(text: &str) -> bool {
    contains_any(text, &NO_BUCKET)
}

fn refused(op: Op) -> FaultKind {
    if op.is_write() {
        FaultKind::WriteRefused
    } else {
        FaultKind::Denied
    }
}

fn by_chain(op: Op, first: &(dyn StdError + 'static)) -> FaultKind {
    let text = first.to_string();
    if contains_any(&text, &METADATA_SERVICES) {
        return by_metadata_service(first);
    }
    let mut next = Some(first);
    while let Some(error) = next {
        if let Some(kind) = by_type(op, error).or_else(|| by_text(op, &error.to_string())) {
            return kind;
        }
        next = error.source();
    }
    if contains_any(&text, &["timed out", "timeout", "connection"]) {
        return FaultKind::Unavailable;
    }
    refused(op)
}

/// One that is there may have a bad moment; one that has no credentials says so with a 404,
/// which must not be taken for an absent object.
fn by_metadata_service(first: &(dyn StdError + 'static)) -> FaultKind {
    let mut next = Some(first);
    while let Some(error) = next {
        if let Some((429 | 500..=599, _)) = status(&error.to_string()) {
            return FaultKind::Unavailable;
        }
        next = error.source();
    }
    FaultKind::Denied
}

fn by_type(op: Op, error: &(dyn StdError + 'static)) -> Option<FaultKind> {
    if let Some(error) = error.downcast_ref::<Error>() {
        return Some(classify(op, error));
    }
    if let Some(error) = error.downcast_ref::<CredentialsError>() {
        return Some(error.kind());
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return Some(by_io(op, error));
    }
    let error = error.downcast_ref::<HttpError>()?;
    match error.kind() {
        // What this is, if anything can be said, stands further down the chain.
        HttpErrorKind::Unknown => None,
        _ => Some(FaultKind::Unavailable),
    }
}

fn by_io(op: Op, error: &io::Error) -> FaultKind {
    use io::ErrorKind as Io;
    if let Some(error) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>())
    {
        return classify(op, error);
    }
    match error.kind() {
        Io::PermissionDenied => FaultKind::Denied,
        Io::StorageFull | Io::QuotaExceeded | Io::ReadOnlyFilesystem | Io::FileTooLarge => {
            FaultKind::WriteRefused
        }
        // An object store has no directories: a key below or at one is simply absent.
        Io::NotFound | Io::NotADirectory | Io::IsADirectory if !op.is_write() => {
            FaultKind::NotFound
        }
        Io::NotFound | Io::NotADirectory | Io::IsADirectory | Io::InvalidFilename => refused(op),
        _ => FaultKind::Unavailable,
    }
}

fn by_text(op: Op, text: &str) -> Option<FaultKind> {
    if let Some((code, body)) = status(text) {
        return Some(by_status(op, code, body));
    }
    // An error inside a 200: a whole answer, or one key of a bulk delete.
    let body = text
        .strip_prefix(FAULT_IN_SUCCESS)
        .or_else(|| text.strip_prefix("DeleteObjects request failed for key "))?;
    if contains_any(body, &EXPIRED) {
        Some(FaultKind::ExpiredCredentials)
    } else if body.contains("AccessDenied") {
        Some(FaultKind::Denied)
    } else if body.contains("SlowDown") {
        Some(FaultKind::Throttled)
    } else {
        Some(FaultKind::Unavailable)
    }
}

fn by_status(op: Op, code: u16, body: &str) -> FaultKind {
    match code {
        429 | 503 => FaultKind::Throttled,
        507 => FaultKind::WriteRefused,
        501 | 505 => refused(op),
        408 | 409 | 500..=599 => FaultKind::Unavailable,
        404 if says_no_bucket(body) => FaultKind::NoBucket,
        410 if !op.is_write() => FaultKind::NotFound,
        // Of an object it would have a variant of its own: this is a listing, or the answer
        // of whoever hands out credentials.
        404 if op == Op::List => FaultKind::NotFound,
        400 | 401 | 403 if contains_any(body, &EXPIRED) => FaultKind::ExpiredCredentials,
        400 if contains_any(body, &["RequestTimeout", "IncompleteBody"]) => FaultKind::Unavailable,
        400 if contains_any(body, &MALFORMED_CREDENTIALS) => FaultKind::Denied,
        401 | 403 => FaultKind::Denied,
        _ => refused(op),
    }
}

/// The status code that begins `text`, and what follows it.
fn status(text: &str) -> Option<(u16, &str)> {
    let rest = text.strip_prefix(STATUS)?;
    let code = rest.get(..3)?.parse().ok()?;
    Some((code, &rest[3..]))
}

fn contains_any(text: &str, needles: &[&str]) -> bool {
    needles.iter().any(|needle| text.contains(needle))
}
