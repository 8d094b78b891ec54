//! Classes of calls, and what a call can fail with.

use std::io;

use object_store::Error;

/// A class of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Op {
    /// A whole object is written.
    Put,
    /// A multipart upload begins.
    PutMultipart,
    /// A multipart upload becomes an object.
    CompleteMultipart,
    /// An object, or one range of it, is read.
    Get,
    /// The metadata of an object is read.
    Head,
    /// Several ranges of an object are read.
    GetRanges,
    /// One object is deleted.
    Delete,
    /// A prefix is listed to the bottom.
    List,
    /// A prefix is listed one level deep.
    ListWithDelimiter,
    /// An object is copied; the key is the source's.
    Copy,
    /// An object is renamed; the key is the source's.
    Rename,
}

impl Op {
    /// Every class.
    pub(crate) const ALL: [Self; 11] = [
        Self::Put,
        Self::PutMultipart,
        Self::CompleteMultipart,
        Self::Get,
        Self::Head,
        Self::GetRanges,
        Self::Delete,
        Self::List,
        Self::ListWithDelimiter,
        Self::Copy,
        Self::Rename,
    ];

    /// The classes that change a store.
    pub(crate) const WRITES: [Self; 6] = [
        Self::Put,
        Self::PutMultipart,
        Self::CompleteMultipart,
        Self::Delete,
        Self::Copy,
        Self::Rename,
    ];

    /// The classes that read an object.
    pub(crate) const READS: [Self; 2] = [Self::Get, Self::GetRanges];

    /// The classes that list.
    pub(crate) const LISTS: [Self; 2] = [Self::List, Self::ListWithDelimiter];
}

/// What a call fails with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// 403.
    Denied,
    /// 401: credentials that are missing.
    Unauthenticated,
    /// 400: credentials that were good once.
    Expired,
    /// 404.
    NotFound,
    /// 412.
    Precondition,
    /// A conditional create that came too late, or the status 409.
    AlreadyExists,
    /// Any other status.
    Status(u16),
    /// The connection is closed without an answer.
    HangUp,
}

impl Failure {
    /// What an answer with this status is.
    pub(crate) fn of(status: u16) -> Self {
        match status {
            401 => Self::Unauthenticated,
            403 => Self::Denied,
            404 => Self::NotFound,
            409 => Self::AlreadyExists,
            412 => Self::Precondition,
            other => Self::Status(other),
        }
    }

    /// The status, the reason beside it and the code that S3 gives in the body; none when
    /// there is no answer.
    pub(crate) fn answer(self) -> Option<(u16, &'static str, &'static str)> {
        Some(match self {
            Self::Denied => (403, "Forbidden", "AccessDenied"),
            Self::Unauthenticated => (401, "Unauthorized", "AccessDenied"),
            Self::Expired => (400, "Bad Request", "ExpiredToken"),
            Self::NotFound => (404, "Not Found", "NoSuchKey"),
            Self::Precondition => (412, "Precondition Failed", "PreconditionFailed"),
            Self::AlreadyExists => (409, "Conflict", "ConditionalRequestConflict"),
            Self::Status(429) => (429, "Too Many Requests", "TooManyRequests"),
            Self::Status(500) => (500, "Internal Server Error", "InternalError"),
            Self::Status(501) => (501, "Not Implemented", "NotImplemented"),
            Self::Status(502) => (502, "Bad Gateway", "BadGateway"),
            Self::Status(503) => (503, "Service Unavailable", "SlowDown"),
            Self::Status(504) => (504, "Gateway Timeout", "GatewayTimeout"),
            Self::Status(other) => (other, "by script", "ByScript"),
            Self::HangUp => return None,
        })
    }

    /// The body of the answer.
    pub(crate) fn body(self) -> String {
        self.answer().map_or(String::new(), |(_, _, code)| {
            format!("<Error><Code>{code}</Code><Message>by script</Message></Error>")
        })
    }

    /// The failure as object_store tells of it once its own tries are spent.
    pub(super) fn error(self, key: &str) -> Error {
        let (path, source) = (key.to_owned(), format!("{self:?} by script").into());
        match self {
            Self::Denied => Error::PermissionDenied { path, source },
            Self::Unauthenticated => Error::Unauthenticated { path, source },
            Self::NotFound => Error::NotFound { path, source },
            Self::Precondition => Error::Precondition { path, source },
            Self::AlreadyExists => Error::AlreadyExists { path, source },
            Self::HangUp => broken_off(),
            Self::Expired | Self::Status(_) => Error::Generic {
                store: "FaultStore",
                source: self.status_line().into(),
            },
        }
    }

    fn status_line(self) -> String {
        let (status, reason, _) = self.answer().unwrap();
        let body = self.body();
        format!("Server returned non-2xx status code: {status} {reason}: {body}")
    }
}

/// A connection that broke off.
pub(super) fn broken_off() -> Error {
    let source = io::Error::new(io::ErrorKind::ConnectionReset, "broken off by script");
    Error::Generic {
        store: "FaultStore",
        source: source.into(),
    }
}
