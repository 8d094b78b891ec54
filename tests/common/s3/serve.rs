//! One request under the script.

use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::join_all;
use futures::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::http::header::{CONTENT_LENGTH, IF_MATCH};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response};
use s3s::service::S3Service;

use super::Conditions;
use super::asked::Asked;
use crate::common::faults::{Effect, Failure, Fate, Op, Script, Tally};

type Body = BoxBody<Bytes, io::Error>;

/// What all connections share.
pub(super) struct Served {
    pub(super) service: S3Service,
    pub(super) conditions: Conditions,
    pub(super) script: Mutex<Arc<Script>>,
    pub(super) tally: Tally,
}

impl Served {
    /// Answers a request; an error closes its connection without an answer.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let asked = Asked::of(&head, &body);
        let fates = self.fates(&asked);
        // The keys of a bulk deletion suffer together.
        let before = fates.iter().map(|fate| suffer_all(&fate.before));
        let verdicts = join_all(before).await;
        if let Some(failure) = verdicts.into_iter().flatten().next() {
            return spoken(failure);
        }
        if asked.op == Some(Op::Put) {
            self.tally.bytes(Op::Put, &asked.keys[0], body.len());
        }
        let response = if fates.iter().any(Fate::is_forgotten) {
            acknowledged(&asked)
        } else {
            self.serve(head, body).await?
        };
        let after = fates.iter().map(|fate| suffer_all(&fate.after));
        let verdicts = join_all(after).await;
        if let Some(failure) = verdicts.into_iter().flatten().next() {
            return spoken(failure);
        }
        let limits = fates
            .iter()
            .flat_map(|fate| [fate.torn(), fate.truncated()]);
        self.cut(&asked, response, limits.flatten().min()).await
    }

    fn fates(&self, asked: &Asked) -> Vec<Fate> {
        let Some(op) = asked.op else {
            return Vec::new();
        };
        let script = Arc::clone(&self.script.lock().unwrap());
        let keys = asked.keys.iter();
        keys.map(|key| {
            self.tally.call(op, key);
            script.fate(op, key)
        })
        .collect()
    }

    async fn serve(&self, head: Parts, body: Bytes) -> io::Result<Response<s3s::Body>> {
        let rewrites = head.method == Method::PUT && head.headers.contains_key(IF_MATCH);
        if rewrites && self.conditions == Conditions::CreateOnly {
            return Ok(failed(Failure::Status(501)).map(s3s::Body::from));
        }
        let request = Request::from_parts(head, s3s::Body::from(body));
        let served = self.service.call(request).await;
        served.map_err(|error| io::Error::other(format!("{error:?}")))
    }

    /// The answer, its body cut after so many bytes: what is left of the connection is
    /// closed, as a body that is shorter than its head says can end in no other way.
    async fn cut(
        &self,
        asked: &Asked,
        response: Response<s3s::Body>,
        limit: Option<usize>,
    ) -> io::Result<Response<Body>> {
        let (mut head, body) = response.into_parts();
        let whole = body.collect().await.map_err(io::Error::other)?.to_bytes();
        if asked.op == Some(Op::Get) && head.status.is_success() {
            let said = whole.len().min(limit.unwrap_or(usize::MAX));
            self.tally.bytes(Op::Get, &asked.keys[0], said);
        }
        let Some(limit) = limit.filter(|limit| *limit < whole.len()) else {
            // The length of the answer to a HEAD is that of the object.
            let body = Full::new(whole).map_err(|never| match never {});
            return Ok(Response::from_parts(head, body.boxed()));
        };
        head.headers.insert(CONTENT_LENGTH, whole.len().into());
        let frames = [
            Ok(Frame::data(whole.slice(..limit))),
            Err(io::Error::other("cut by script")),
        ];
        let body = StreamBody::new(stream::iter(frames));
        Ok(Response::from_parts(head, BodyExt::boxed(body)))
    }
}

/// What a request is answered that suffers all this, if it is not served.
async fn suffer_all(effects: &[Effect]) -> Option<Failure> {
    for effect in effects {
        match effect {
            Effect::Fail(failure) => return Some(*failure),
            Effect::Stall(delay) => tokio::time::sleep(*delay).await,
            Effect::Panic
            | Effect::Garble
            | Effect::Park(_)
            | Effect::Lose(_)
            | Effect::Reorder(_) => panic!("only a `FaultStore` can do this"),
            Effect::Nothing | Effect::Truncate(_) | Effect::Tear(_) | Effect::Forget => {}
        }
    }
    None
}

/// The answer that is a failure, or the end of the connection.
fn spoken(failure: Failure) -> io::Result<Response<Body>> {
    if failure.answer().is_none() {
        return Err(io::Error::other("hung up by script"));
    }
    let body = |text: String| Full::new(Bytes::from(text)).map_err(|never| match never {});
    Ok(failed(failure).map(|text| body(text).boxed()))
}

fn failed(failure: Failure) -> Response<String> {
    let (status, ..) = failure.answer().unwrap();
    let response = Response::builder().status(status);
    response.body(failure.body()).unwrap()
}

/// What a server says of a write that it forgets.
fn acknowledged(asked: &Asked) -> Response<s3s::Body> {
    let mut headers = HeaderMap::new();
    headers.insert("etag", "\"forgotten\"".parse().unwrap());
    let deleted: String = asked
        .keys
        .iter()
        .filter_map(|key| key.split_once('/'))
        .map(|(_, key)| format!("<Deleted><Key>{key}</Key></Deleted>"))
        .collect();
    let body = match asked.in_bulk {
        true => format!("<DeleteResult>{deleted}</DeleteResult>"),
        false => String::new(),
    };
    let mut response = Response::new(s3s::Body::from(body));
    *response.headers_mut() = headers;
    response
}
