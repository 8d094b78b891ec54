//! What a request asks for, in the words of a script.

use hyper::body::Bytes;
use hyper::http::request::Parts;
use hyper::{Method, Uri};
use url::form_urlencoded;

use crate::common::faults::Op;

/// What is asked, and of which keys.
#[derive(Debug, PartialEq)]
pub(super) struct Asked {
    /// The class; none of a request that no script is about.
    pub(super) op: Option<Op>,
    /// The keys: several of a bulk deletion, of a listing its prefix.
    pub(super) keys: Vec<String>,
    /// Whether it is a bulk deletion.
    pub(super) in_bulk: bool,
}

impl Asked {
    /// What a request asks for.
    pub(super) fn of(head: &Parts, body: &Bytes) -> Self {
        let key = path_of(&head.uri);
        let bucket = key.split('/').next().unwrap_or_default();
        let member = |name: &str| member_of(&head.uri, name);
        let of_a_key = key.contains('/');
        let (op, keys) = match (&head.method, of_a_key) {
            (&Method::PUT, true) if member("uploadId").is_none() => (Some(Op::Put), vec![key]),
            (&Method::GET, true) => (Some(Op::Get), vec![key]),
            (&Method::HEAD, true) => (Some(Op::Head), vec![key]),
            (&Method::DELETE, true) => (Some(Op::Delete), vec![key]),
            (&Method::POST, false) if member("delete").is_some() => {
                return Self {
                    op: Some(Op::Delete),
                    keys: keys_in(bucket, &String::from_utf8_lossy(body)),
                    in_bulk: true,
                };
            }
            (&Method::GET, false) if member("list-type").is_some() => {
                let op = match member("delimiter") {
                    Some(_) => Op::ListWithDelimiter,
                    None => Op::List,
                };
                let prefix = member("prefix").unwrap_or_default();
                (Some(op), vec![format!("{bucket}/{prefix}")])
            }
            _ => (None, vec![key]),
        };
        Self {
            op,
            keys,
            in_bulk: false,
        }
    }
}

/// Bucket and key of a request.
fn path_of(uri: &Uri) -> String {
    let encoded = uri.path().trim_start_matches('/').replace('+', "%2B");
    let pair = format!("path={encoded}");
    let (_, path) = form_urlencoded::parse(pair.as_bytes()).next().unwrap();
    path.into_owned()
}

/// A member of the query.
fn member_of(uri: &Uri, name: &str) -> Option<String> {
    let query = uri.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes())
        .find_map(|(key, value)| (key == name).then(|| value.into_owned()))
}

/// The keys a bulk deletion names.
fn keys_in(bucket: &str, document: &str) -> Vec<String> {
    document
        .split("<Key>")
        .skip(1)
        .filter_map(|rest| rest.split_once("</Key>"))
        .map(|(key, _)| format!("{bucket}/{}", key.replace("&amp;", "&")))
        .collect()
}
