//! A body on its way: what was asked for, and what has arrived of it.

use std::io;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use object_store::{Error, GetOptions, GetRange, GetResult};

/// What has arrived of an object, or of a range of it, over several tries.
#[derive(Debug, Default)]
pub(super) struct Body {
    asked: Option<GetRange>,
    /// Which bytes of the object it is, and the entity tag of the writing they are of, once
    /// an answer has said so.
    whole: Option<(Range<u64>, String)>,
    parts: Vec<Bytes>,
    len: u64,
    /// Bytes the answer under way is to bring it to.
    due: u64,
}

impl Body {
    pub(super) fn new(asked: Option<GetRange>) -> Self {
        Self {
            asked,
            ..Self::default()
        }
    }

    /// What is there so far, leaving an empty one behind.
    pub(super) fn take(&mut self) -> Self {
        let empty = Self::new(self.asked.clone());
        std::mem::replace(self, empty)
    }

    /// Whether some of it has arrived, and the rest can be asked for.
    pub(super) fn has_begun(&self) -> bool {
        self.len > 0 && self.whole.is_some()
    }

    /// Forgets what has arrived.
    pub(super) fn start_over(&mut self) {
        self.take();
    }

    /// What to ask for: the rest of the same writing, or all of any.
    pub(super) fn options(&self) -> GetOptions {
        match &self.whole {
            Some((range, e_tag)) if self.has_begun() => GetOptions {
                range: Some(GetRange::Bounded(range.start + self.len..range.end)),
                if_match: Some(e_tag.clone()),
                ..GetOptions::default()
            },
            _ => GetOptions {
                range: self.asked.clone(),
                ..GetOptions::default()
            },
        }
    }

    /// Takes note of what an answer is about to bring.
    ///
    /// # Errors
    /// When it is not what was asked for; what has arrived is then forgotten.
    pub(super) fn expect(&mut self, answer: &GetResult) -> Result<(), Error> {
        let (range, e_tag) = (answer.range.clone(), answer.meta.e_tag.clone());
        match &self.whole {
            Some((whole, of)) if self.has_begun() => {
                let is_rest = range == (whole.start + self.len..whole.end);
                if !is_rest || e_tag.as_ref() != Some(of) {
                    self.start_over();
                    return Err(broken("the rest of it was answered with something else"));
                }
                self.due = whole.end - whole.start;
            }
            _ => {
                self.start_over();
                self.due = range.end - range.start;
                self.whole = e_tag.map(|e_tag| (range, e_tag));
            }
        }
        Ok(())
    }

    pub(super) fn push(&mut self, part: Bytes) {
        self.len += part.len() as u64;
        self.parts.push(part);
    }

    /// Whether all of it has arrived, and no more.
    ///
    /// # Errors
    /// When it has not; a body that is too long is forgotten.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        let (len, due) = (self.len, self.due);
        if len == due {
            return Ok(());
        }
        if len > due {
            self.start_over();
        }
        Err(broken(&format!(
            "{len} bytes came where {due} were announced"
        )))
    }

    /// All of it in one piece.
    pub(super) fn join(self) -> Bytes {
        match <[Bytes; 1]>::try_from(self.parts) {
            Ok([only]) => only,
            Err(parts) => {
                let mut joined = BytesMut::with_capacity(self.len as usize);
                parts.iter().for_each(|part| joined.extend_from_slice(part));
                joined.freeze()
            }
        }
    }
}

/// A fault of the connection, which may pass.
fn broken(what: &str) -> Error {
    Error::Generic {
        store: "object",
        source: io::Error::new(io::ErrorKind::UnexpectedEof, what.to_owned()).into(),
    }
}

#[cfg(test)]
mod tests;
