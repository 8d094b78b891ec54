use futures::stream::{self, StreamExt};
use object_store::path::Path;
use object_store::{Attributes, Extensions, GetResultPayload, ObjectMeta};
use proptest::prelude::*;

use super::*;

/// An object as a store holds it.
#[derive(Debug, Clone)]
struct Object {
    bytes: Vec<u8>,
    e_tag: Option<String>,
}

fn resolve(range: Option<GetRange>, len: u64) -> Range<u64> {
    match range {
        None => 0..len,
        Some(GetRange::Bounded(range)) => range.start..range.end.min(len),
        Some(GetRange::Offset(start)) => start..len,
        Some(GetRange::Suffix(n)) => len.saturating_sub(n)..len,
    }
}

fn answer(object: &Object, range: Range<u64>) -> GetResult {
    GetResult {
        payload: GetResultPayload::Stream(stream::empty().boxed()),
        meta: ObjectMeta {
            location: Path::from("k"),
            last_modified: chrono::DateTime::UNIX_EPOCH,
            size: object.bytes.len() as u64,
            e_tag: object.e_tag.clone(),
            version: None,
        },
        range,
        attributes: Attributes::default(),
        extensions: Extensions::default(),
    }
}

/// One try, whose body is cut off after `cut` bytes. What came of it, and how many bytes
/// were sent.
fn attempt(body: &mut Body, object: &Object, cut: usize) -> (Result<(), Error>, usize) {
    let mut options = body.options();
    if options.if_match.is_some() && options.if_match != object.e_tag {
        body.start_over();
        options = body.options();
        assert_eq!(options.if_match, None);
    }
    let range = resolve(options.range, object.bytes.len() as u64);
    let bytes = &object.bytes[range.start as usize..range.end as usize];
    if let Err(error) = body.expect(&answer(object, range)) {
        return (Err(error), 0);
    }
    let sent = &bytes[..bytes.len().min(cut)];
    for part in sent.chunks(3) {
        body.push(Bytes::copy_from_slice(part));
    }
    (body.check(), sent.len())
}

fn object(fill: u8, len: usize, e_tag: Option<u8>) -> Object {
    Object {
        bytes: (0..len).map(|at| fill.wrapping_add(at as u8)).collect(),
        e_tag: e_tag.map(|tag| format!("\"{tag}\"")),
    }
}

fn ranges(len: u64) -> impl Strategy<Value = Option<GetRange>> {
    prop_oneof![
        Just(None),
        (0..len)
            .prop_flat_map(move |start| (Just(start), start + 1..=len))
            .prop_map(|(start, end)| Some(GetRange::Bounded(start..end))),
        (1..=len).prop_map(|n| Some(GetRange::Suffix(n))),
    ]
}

const LEN: usize = 40;

proptest! {
    /// Whatever is cut off and rewritten on the way, what arrives is of one writing.
    #[test]
    fn a_body_is_of_one_writing(
        asked in ranges(LEN as u64),
        tries in prop::collection::vec((0u8..3, 0usize..LEN), 0..12),
        tagged in any::<bool>(),
    ) {
        let writing = |n: u8| object(n * 80, LEN, tagged.then_some(n));
        let mut body = Body::new(asked.clone());
        let last = (0, LEN);
        for (n, cut) in tries.into_iter().chain([last]) {
            let (done, _) = attempt(&mut body, &writing(n), cut);
            if done.is_err() {
                continue;
            }
            let object = writing(n);
            let range = resolve(asked.clone(), LEN as u64);
            let due = &object.bytes[range.start as usize..range.end as usize];
            prop_assert_eq!(&body.join()[..], due);
            return Ok(());
        }
        prop_assert!(false, "the last try is whole");
    }

    /// Of one writing no byte is sent twice, and the tries add up.
    #[test]
    fn nothing_is_sent_twice(cuts in prop::collection::vec(1usize..9, 0..12)) {
        let object = object(7, LEN, Some(1));
        let mut body = Body::new(None);
        let mut sent = 0;
        for cut in cuts.into_iter().chain([LEN]) {
            let (done, bytes) = attempt(&mut body, &object, cut);
            sent += bytes;
            if done.is_ok() {
                break;
            }
        }
        prop_assert_eq!(sent, LEN);
        prop_assert_eq!(&body.join()[..], &object.bytes[..]);
    }
}

#[test]
fn without_an_entity_tag_it_starts_over() {
    let object = object(7, LEN, None);
    let mut body = Body::new(None);
    assert!(attempt(&mut body, &object, 10).0.is_err());
    assert_eq!(body.options().range, None);
    let (done, sent) = attempt(&mut body, &object, LEN);
    assert!(done.is_ok());
    assert_eq!((sent, body.join().len()), (LEN, LEN));
}

#[test]
fn a_body_that_is_too_long_is_none() {
    let object = object(7, LEN, Some(1));
    let mut body = Body::new(None);
    body.expect(&answer(&object, 0..4)).unwrap();
    body.push(Bytes::from_static(b"12345"));
    assert!(body.check().is_err());
    assert!(!body.has_begun());
}

#[test]
fn a_rest_that_is_something_else_is_none() {
    let object = object(7, LEN, Some(1));
    let mut body = Body::new(None);
    assert!(attempt(&mut body, &object, 10).0.is_err());
    assert!(body.has_begun());
    // A server that knows no ranges answers with the whole.
    assert!(body.expect(&answer(&object, 0..LEN as u64)).is_err());
    assert!(!body.has_begun());
}
