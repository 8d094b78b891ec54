//! The objects of an S3 server, in memory. What is not asked of it in tests it does not do:
//! no versions, no multipart uploads, no copies.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use bytes::Bytes;
use futures::TryStreamExt;
use md5::{Digest, Md5};
use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};

/// Keys of a page of a listing, when nobody asks for fewer.
const PAGE: usize = 1000;

type Objects = BTreeMap<String, Stored>;

/// Buckets and what is in them. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Memory(Arc<Mutex<BTreeMap<String, Objects>>>);

#[derive(Clone)]
struct Stored {
    bytes: Bytes,
    etag: String,
    modified: SystemTime,
}

impl Stored {
    fn new(bytes: Bytes) -> Self {
        let md5 = Md5::digest(&bytes);
        Self {
            etag: md5.iter().map(|byte| format!("{byte:02x}")).collect(),
            modified: SystemTime::now(),
            bytes,
        }
    }

    fn e_tag(&self) -> Option<ETag> {
        Some(ETag::Strong(self.etag.clone()))
    }

    fn len(&self) -> i64 {
        i64::try_from(self.bytes.len()).unwrap()
    }

    fn meets(&self, condition: &ETagCondition) -> bool {
        match condition {
            ETagCondition::Any => true,
            ETagCondition::ETag(tag) => tag.value() == self.etag,
        }
    }
}

impl Memory {
    /// Makes a bucket that holds these.
    pub(super) fn fill(&self, bucket: &str, objects: impl Iterator<Item = (String, Vec<u8>)>) {
        let objects = objects.map(|(key, bytes)| (key, Stored::new(bytes.into())));
        self.buckets().insert(bucket.to_owned(), objects.collect());
    }

    /// What a bucket holds below `prefix`, by what follows it.
    pub(super) fn tree(&self, bucket: &str, prefix: &str) -> BTreeMap<String, Vec<u8>> {
        let buckets = self.buckets();
        let below = |(key, stored): (&String, &Stored)| {
            let below = key.strip_prefix(prefix)?;
            Some((below.to_owned(), stored.bytes.to_vec()))
        };
        buckets[bucket].iter().filter_map(below).collect()
    }

    fn buckets(&self) -> MutexGuard<'_, BTreeMap<String, Objects>> {
        self.0.lock().unwrap()
    }

    fn stored(&self, bucket: &str, key: &str) -> S3Result<Stored> {
        let buckets = self.buckets();
        let objects = buckets.get(bucket).ok_or(s3_error!(NoSuchBucket))?;
        objects.get(key).cloned().ok_or(s3_error!(NoSuchKey))
    }

    fn remove(&self, bucket: &str, key: &str) -> S3Result<()> {
        let mut buckets = self.buckets();
        let objects = buckets.get_mut(bucket).ok_or(s3_error!(NoSuchBucket))?;
        objects.remove(key);
        Ok(())
    }
}

#[async_trait::async_trait]
impl S3 for Memory {
    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let stored = self.stored(&input.bucket, &input.key)?;
        if input.if_match.is_some_and(|tag| !stored.meets(&tag)) {
            return Err(s3_error!(PreconditionFailed));
        }
        let all = stored.bytes.len() as u64;
        let range = match &input.range {
            Some(range) => Some(range.check(all)?),
            None => None,
        };
        let of_all =
            |range: &std::ops::Range<u64>| format!("bytes {}-{}/{all}", range.start, range.end - 1);
        let content_range = range.as_ref().map(of_all);
        let range = range.unwrap_or(0..all);
        let body = stored.bytes.slice(range.start as usize..range.end as usize);
        Ok(S3Response::new(GetObjectOutput {
            content_length: Some(i64::try_from(body.len()).unwrap()),
            content_range,
            e_tag: stored.e_tag(),
            last_modified: Some(stored.modified.into()),
            body: Some(StreamingBlob::from(s3s::Body::from(body))),
            ..Default::default()
        }))
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let stored = self.stored(&request.input.bucket, &request.input.key)?;
        Ok(S3Response::new(HeadObjectOutput {
            content_length: Some(stored.len()),
            e_tag: stored.e_tag(),
            last_modified: Some(stored.modified.into()),
            ..Default::default()
        }))
    }

    async fn put_object(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let input = request.input;
        let mut bytes = Vec::new();
        if let Some(mut body) = input.body {
            let cut = |_| s3_error!(IncompleteBody);
            while let Some(some) = body.try_next().await.map_err(cut)? {
                bytes.extend_from_slice(&some);
            }
        }
        let mut buckets = self.buckets();
        let objects = buckets.get_mut(&input.bucket);
        let objects = objects.ok_or(s3_error!(NoSuchBucket))?;
        let stands = objects.get(&input.key);
        let is_in_the_way = input
            .if_none_match
            .is_some_and(|tag| stands.is_some_and(|stands| stands.meets(&tag)));
        let has_moved = input
            .if_match
            .is_some_and(|tag| !stands.is_some_and(|stands| stands.meets(&tag)));
        if is_in_the_way || has_moved {
            return Err(s3_error!(PreconditionFailed));
        }
        let stored = Stored::new(bytes.into());
        let e_tag = stored.e_tag();
        objects.insert(input.key, stored);
        Ok(S3Response::new(PutObjectOutput {
            e_tag,
            ..Default::default()
        }))
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.remove(&request.input.bucket, &request.input.key)?;
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let input = request.input;
        let mut deleted = Vec::new();
        for object in input.delete.objects {
            self.remove(&input.bucket, &object.key)?;
            deleted.push(DeletedObject {
                key: Some(object.key),
                ..Default::default()
            });
        }
        Ok(S3Response::new(DeleteObjectsOutput {
            deleted: Some(deleted),
            ..Default::default()
        }))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        let buckets = self.buckets();
        let objects = buckets.get(&input.bucket);
        let objects = objects.ok_or(s3_error!(NoSuchBucket))?;
        let prefix = input.prefix.unwrap_or_default();
        let page = input.max_keys.and_then(|max| usize::try_from(max).ok());
        let page = page.unwrap_or(PAGE).min(PAGE);
        let after = input.continuation_token.or(input.start_after);
        let listed = Listed::of(
            objects,
            &prefix,
            input.delimiter.as_deref(),
            after.as_deref(),
            page,
        );
        Ok(S3Response::new(ListObjectsV2Output {
            key_count: Some(i32::try_from(listed.contents.len() + listed.prefixes.len()).unwrap()),
            max_keys: Some(i32::try_from(page).unwrap()),
            is_truncated: Some(listed.next.is_some()),
            next_continuation_token: listed.next,
            contents: Some(listed.contents),
            common_prefixes: Some(listed.prefixes),
            delimiter: input.delimiter,
            name: Some(input.bucket),
            prefix: Some(prefix),
            ..Default::default()
        }))
    }
}

/// One page of a listing.
#[derive(Default)]
struct Listed {
    contents: Vec<Object>,
    prefixes: Vec<CommonPrefix>,
    /// What the next page comes after.
    next: Option<String>,
}

impl Listed {
    fn of(
        objects: &Objects,
        prefix: &str,
        delimiter: Option<&str>,
        after: Option<&str>,
        page: usize,
    ) -> Self {
        let mut listed = Self::default();
        let mut last = after.unwrap_or_default().to_owned();
        let begin = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        for (key, stored) in objects.range::<str, _>((begin, Bound::Unbounded)) {
            let Some(below) = key.strip_prefix(prefix) else {
                break;
            };
            let end =
                delimiter.and_then(|delimiter| Some(below.find(delimiter)? + delimiter.len()));
            let common = end.map(|end| &key[..prefix.len() + end]);
            // Also of the one that the page before ended with.
            if common.is_some_and(|common| last == common) {
                continue;
            }
            if listed.contents.len() + listed.prefixes.len() == page {
                listed.next = Some(last);
                break;
            }
            match common {
                Some(common) => {
                    last = common.to_owned();
                    let prefix = Some(common.to_owned());
                    listed.prefixes.push(CommonPrefix { prefix });
                }
                None => {
                    last.clone_from(key);
                    listed.contents.push(Object {
                        key: Some(key.clone()),
                        size: Some(stored.len()),
                        e_tag: stored.e_tag(),
                        last_modified: Some(stored.modified.into()),
                        ..Default::default()
                    });
                }
            }
        }
        listed
    }
}
