//! What a script does to bodies and listings.

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::{GetResult, GetResultPayload, ListResult, ObjectMeta, Result};

use super::op::broken_off;
use super::rule::Effect;
use super::script::Fate;
use crate::common::dice::Dice;

impl Fate {
    fn spoils_a_body(&self) -> bool {
        self.truncated().is_some() || self.torn().is_some() || self.garbled()
    }

    /// The body of a read, cut short, torn or wrong.
    pub(super) async fn body(&self, result: GetResult) -> Result<GetResult> {
        if !self.spoils_a_body() {
            return Ok(result);
        }
        let (meta, range) = (result.meta.clone(), result.range.clone());
        let (attributes, extensions) = (result.attributes.clone(), result.extensions.clone());
        let bytes = self.cut(result.bytes().await?);
        let payload = match self.torn() {
            Some(_) => stream::iter([Ok(bytes), Err(broken_off())]).boxed(),
            None => stream::iter([Ok(bytes)]).boxed(),
        };
        Ok(GetResult {
            payload: GetResultPayload::Stream(payload),
            meta,
            range,
            attributes,
            extensions,
        })
    }

    /// The bodies of several ranges.
    pub(super) fn bodies(&self, bodies: Vec<Bytes>) -> Result<Vec<Bytes>> {
        if self.torn().is_some() {
            return Err(broken_off());
        }
        Ok(bodies.into_iter().map(|body| self.cut(body)).collect())
    }

    fn cut(&self, bytes: Bytes) -> Bytes {
        let limits = [self.truncated(), self.torn()];
        let limit = limits.into_iter().flatten().min().unwrap_or(usize::MAX);
        let bytes = bytes.slice(..bytes.len().min(limit));
        match self.garbled() {
            true => bytes.iter().map(|byte| !byte).collect(),
            false => bytes,
        }
    }

    /// The entries of a listing, fewer or in another order.
    pub(crate) fn entries<T>(&self, mut entries: Vec<T>, key: impl Fn(&T) -> String) -> Vec<T> {
        for effect in &self.after {
            match effect {
                Effect::Lose(loss) => {
                    let mut nth = 0;
                    entries.retain(|entry| {
                        let kept = !loss.takes(nth, &key(entry));
                        nth += 1;
                        kept
                    });
                }
                Effect::Reorder(seed) => Dice::new(*seed).shuffle(&mut entries),
                _ => {}
            }
        }
        entries
    }

    /// A listing to the bottom.
    pub(super) async fn listing(
        &self,
        listing: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let spoils = |effect: &Effect| matches!(effect, Effect::Lose(_) | Effect::Reorder(_));
        if !self.after.iter().any(spoils) {
            return listing;
        }
        let mut entries = Vec::new();
        let mut failures = Vec::new();
        for entry in listing.collect::<Vec<_>>().await {
            match entry {
                Ok(entry) => entries.push(entry),
                Err(error) => failures.push(Err(error)),
            }
        }
        let entries = self.entries(entries, |entry| entry.location.to_string());
        let entries = entries.into_iter().map(Ok).chain(failures);
        stream::iter(entries.collect::<Vec<_>>()).boxed()
    }

    /// A listing one level deep.
    pub(super) fn shallow(&self, listed: ListResult) -> ListResult {
        let ListResult {
            common_prefixes,
            objects,
            extensions,
        } = listed;
        ListResult {
            common_prefixes: self.entries(common_prefixes, |prefix| format!("{prefix}/")),
            objects: self.entries(objects, |object| object.location.to_string()),
            extensions,
        }
    }
}
