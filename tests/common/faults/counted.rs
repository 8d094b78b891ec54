//! A store that counts what is asked of it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use super::op::Op;
use super::tally::Tally;

/// A store that counts calls and bytes by class and key. Clones share the counts.
#[derive(Clone)]
pub(crate) struct Counted {
    inner: Arc<dyn ObjectStore>,
    tally: Arc<Tally>,
}

impl Counted {
    /// `inner`, of which nothing was asked yet.
    pub(crate) fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self {
            inner,
            tally: Arc::default(),
        }
    }

    /// What was asked so far.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    fn listed(
        &self,
        prefix: Option<&Path>,
        listing: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.tally.call(Op::List, prefix.map_or("", Path::as_ref));
        listing
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counted({})", self.inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Counted {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.tally.call(Op::Put, location.as_ref());
        let bytes = payload.content_length();
        let result = self.inner.put_opts(location, payload, opts).await?;
        self.tally.bytes(Op::Put, location.as_ref(), bytes);
        Ok(result)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.tally.call(Op::PutMultipart, location.as_ref());
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let op = if options.head { Op::Head } else { Op::Get };
        let key = location.to_string();
        self.tally.call(op, &key);
        let mut result = self.inner.get_opts(location, options).await?;
        if let GetResultPayload::Stream(body) = result.payload {
            let tally = Arc::clone(&self.tally);
            let count = move |part: &Result<Bytes>| {
                if let Ok(part) = part {
                    tally.bytes(op, &key, part.len());
                }
            };
            result.payload = GetResultPayload::Stream(body.inspect(count).boxed());
        } else {
            let bytes = result.range.end - result.range.start;
            self.tally.bytes(op, &key, usize::try_from(bytes).unwrap());
        }
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.tally.call(Op::GetRanges, location.as_ref());
        let bodies = self.inner.get_ranges(location, ranges).await?;
        let bytes = bodies.iter().map(Bytes::len).sum();
        self.tally.bytes(Op::GetRanges, location.as_ref(), bytes);
        Ok(bodies)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let tally = Arc::clone(&self.tally);
        let count = move |location: &Result<Path>| {
            if let Ok(location) = location {
                tally.call(Op::Delete, location.as_ref());
            }
        };
        self.inner.delete_stream(locations.inspect(count).boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(prefix, self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(prefix, self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let key = prefix.map_or("", Path::as_ref);
        self.tally.call(Op::ListWithDelimiter, key);
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.tally.call(Op::Copy, from.as_ref());
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.tally.call(Op::Rename, from.as_ref());
        self.inner.rename_opts(from, to, options).await
    }
}
