//! What to do about an answer.

use object_store::Error;

use super::answer::Answer;
use super::{METADATA_SERVICES, contains_any, says_no_bucket, says_unsupported};
use crate::error::FaultKind;
use crate::store::root::Op;

/// The clouds, as the address of a root tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cloud {
    S3,
    Gcs,
    Azure,
    Disk,
    Other,
}

impl Cloud {
    fn of(root: &str) -> Self {
        match root.split_once("://").map_or("file", |(scheme, _)| scheme) {
            "file" => Self::Disk,
            "s3" | "s3a" => Self::S3,
            "gs" => Self::Gcs,
            "az" | "abfs" | "abfss" => Self::Azure,
            _ => Self::Other,
        }
    }
}

/// Codes for a clock that is off.
const SKEWED: [&str; 3] = [
    "RequestTimeTooSkewed",
    "Token must be a short-lived token",
    "signature is not yet valid",
];

/// Codes and texts for a bucket that is in another region than the one in use.
const ELSEWHERE: [&str; 5] = [
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "TemporaryRedirect",
    "redirect without LOCATION",
];

/// What to do about `error`, the answer to `op` under `root`; `None` when it is no more
/// than waiting.
pub(in crate::store::root) fn cure(
    op: Op,
    root: &str,
    kind: FaultKind,
    error: &Error,
) -> Option<String> {
    let answer = Answer::of(error);
    let text = error.to_string();
    let cloud = Cloud::of(root);
    let is = |code: &str| answer.as_ref().is_some_and(|answer| answer.is(code));
    if says_no_bucket(&text) {
        let bucket = root
            .split_once("://")
            .map_or(root, |(_, rest)| rest.split('/').next().unwrap_or(rest));
        return Some(format!(
            "there is no bucket or container `{bucket}`; check its name, and the account and endpoint it is looked for at"
        ));
    }
    if contains_any(&text, &SKEWED) {
        return Some("the clock of this machine is off; set it".to_owned());
    }
    if cloud == Cloud::S3 && contains_any(&text, &ELSEWHERE) {
        let region = match (&answer, is("AuthorizationHeaderMalformed")) {
            (Some(answer), true) => answer
                .says
                .iter()
                .find_map(|says| says.strip_prefix("region ")),
            _ => None,
        };
        return Some(match region {
            Some(region) => format!("the bucket is in another region; set AWS_REGION={region}"),
            None => {
                "the bucket is in another region; set AWS_REGION to the one it is in".to_owned()
            }
        });
    }
    match kind {
        FaultKind::ExpiredCredentials => Some("renew the credentials".to_owned()),
        FaultKind::Denied if contains_any(&text, &METADATA_SERVICES) => Some(no_credentials(cloud)),
        FaultKind::Denied if is("SignatureDoesNotMatch") => {
            Some("the secret key does not belong to the key id; check both".to_owned())
        }
        FaultKind::Denied if is("InvalidAccessKeyId") => Some(
            "no such key id is known there; check it, and that the endpoint is the one it was made for".to_owned(),
        ),
        FaultKind::Denied if is("InvalidToken") => Some(
            "the session token does not belong to the keys; set all three anew".to_owned(),
        ),
        FaultKind::Denied if answer.is_some() => rights(op, cloud),
        FaultKind::Denied if cloud == Cloud::Disk => Some(format!(
            "run as a user who may {} there",
            if op.is_write() { "write" } else { "read" }
        )),
        FaultKind::WriteRefused
            if matches!(op, Op::Create | Op::Replace) && says_unsupported(error) =>
        {
            Some(
                "this store has no conditional writes, without which two runs could hold the lease at once; use one that has"
                    .to_owned(),
            )
        }
        _ => None,
    }
}

fn no_credentials(cloud: Cloud) -> String {
    let (keys, public) = match cloud {
        Cloud::S3 => (
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
            "AWS_SKIP_SIGNATURE",
        ),
        Cloud::Gcs => (
            "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_BEARER_TOKEN",
            "GOOGLE_SKIP_SIGNATURE",
        ),
        Cloud::Azure | Cloud::Disk | Cloud::Other => (
            "AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
            "AZURE_SKIP_SIGNATURE",
        ),
    };
    format!(
        "no credentials were found, and this machine has none of its own; set {keys}, or {public}=true for a public one"
    )
}

/// Which right is wanting.
fn rights(op: Op, cloud: Cloud) -> Option<String> {
    let (reads, writes, deletes, lists) = match cloud {
        Cloud::S3 => (
            "s3:GetObject, and s3:ListBucket, without which what is not there is refused, too",
            "s3:PutObject",
            "s3:DeleteObject",
            "s3:ListBucket on the bucket",
        ),
        Cloud::Gcs => (
            "storage.objects.get, and storage.objects.list, without which what is not there is refused, too",
            "storage.objects.create and storage.objects.delete, which rewriting needs",
            "storage.objects.delete",
            "storage.objects.list",
        ),
        Cloud::Azure => (
            "the role Storage Blob Data Reader, or SAS permission r",
            "the role Storage Blob Data Contributor, or SAS permissions c and w",
            "the role Storage Blob Data Contributor, or SAS permission d",
            "the role Storage Blob Data Reader, or SAS permission l",
        ),
        Cloud::Disk | Cloud::Other => return None,
    };
    let right = match op {
        Op::Read | Op::Head => reads,
        Op::Write | Op::Create | Op::Replace => writes,
        Op::Delete => deletes,
        Op::List => lists,
    };
    Some(format!("grant the credentials in use {right}"))
}
