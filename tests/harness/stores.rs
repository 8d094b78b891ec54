//! Stores that fail: every fault bites, where its rule says and nowhere else.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};

use crate::common::bucket::{Bucket, race};
use crate::common::faults::{Count, Counted, Failure, FaultStore, Op, Rule};
use crate::common::s3::{Conditions, S3Server};
use crate::common::stores::Tree;

async fn store_with(rule: Rule) -> FaultStore {
    let inner = InMemory::new();
    for key in ["a/1", "a/2", "b/1"] {
        inner
            .put(&Path::from(key), "12345678".into())
            .await
            .unwrap();
    }
    FaultStore::new(Arc::new(inner), [rule])
}

fn a1() -> Path {
    Path::from("a/1")
}

#[tokio::test]
async fn a_store_without_rules_passes_everything_on_and_counts_it() {
    let store = FaultStore::new(Arc::new(InMemory::new()), []);
    store.put(&a1(), "12345678".into()).await.unwrap();
    store.copy(&a1(), &Path::from("a/2")).await.unwrap();
    store.rename(&a1(), &Path::from("a/3")).await.unwrap();
    let body = store
        .get(&Path::from("a/2"))
        .await
        .unwrap()
        .bytes()
        .await
        .unwrap();
    assert_eq!(&body[..], b"12345678");
    let range = store.get_range(&Path::from("a/2"), 2..4).await.unwrap();
    assert_eq!(&range[..], b"34");
    let ranges = store
        .get_ranges(&Path::from("a/3"), &[0..1, 7..8])
        .await
        .unwrap();
    assert_eq!(ranges, ["1", "8"]);
    assert_eq!(store.head(&Path::from("a/3")).await.unwrap().size, 8);
    let listed: Vec<_> = store
        .list(Some(&Path::from("a")))
        .try_collect()
        .await
        .unwrap();
    assert_eq!(listed.len(), 2);
    let beyond = store.list_with_offset(None, &Path::from("a/2"));
    assert_eq!(beyond.count().await, 1);
    let shallow = store.list_with_delimiter(None).await.unwrap();
    assert_eq!(shallow.common_prefixes, [Path::from("a")]);
    let mut upload = store.put_multipart(&Path::from("m")).await.unwrap();
    upload.put_part("part".into()).await.unwrap();
    upload.complete().await.unwrap();
    store.delete(&Path::from("a/3")).await.unwrap();
    for (op, calls) in [
        (Op::Put, 1),
        (Op::PutMultipart, 1),
        (Op::CompleteMultipart, 1),
        (Op::Copy, 1),
        (Op::Rename, 1),
        (Op::Get, 2),
        (Op::GetRanges, 1),
        (Op::Head, 1),
        (Op::List, 2),
        (Op::ListWithDelimiter, 1),
        (Op::Delete, 1),
    ] {
        assert_eq!(store.calls(op), calls, "{op:?}");
    }
    assert_eq!(store.calls_of(Op::Get, "a/2"), 2);
    assert_eq!(store.calls_of(Op::Get, "a/1"), 0);
    assert_eq!(store.fired(), 0);
}

#[tokio::test]
async fn a_failure_has_the_kind_the_rule_names() {
    for (failure, is_right) in [
        (
            Failure::Denied,
            (|e| matches!(e, Error::PermissionDenied { .. })) as fn(&Error) -> bool,
        ),
        (Failure::Unauthenticated, |e| {
            matches!(e, Error::Unauthenticated { .. })
        }),
        (Failure::NotFound, |e| matches!(e, Error::NotFound { .. })),
        (Failure::Precondition, |e| {
            matches!(e, Error::Precondition { .. })
        }),
        (Failure::AlreadyExists, |e| {
            matches!(e, Error::AlreadyExists { .. })
        }),
        (Failure::Status(503), |e| {
            e.to_string().contains("503 Service Unavailable")
        }),
        (Failure::Status(429), |e| {
            e.to_string().contains("429 Too Many Requests")
        }),
        (Failure::Status(500), |e| {
            e.to_string().contains("500 Internal Server Error")
        }),
        (Failure::of(403), |e| {
            matches!(e, Error::PermissionDenied { .. })
        }),
        (Failure::of(404), |e| matches!(e, Error::NotFound { .. })),
        (Failure::of(409), |e| {
            matches!(e, Error::AlreadyExists { .. })
        }),
        (Failure::of(412), |e| {
            matches!(e, Error::Precondition { .. })
        }),
        (Failure::of(429), |e| {
            e.to_string().contains("429 Too Many Requests")
        }),
        (Failure::Expired, |e| {
            let says =
                "Server returned non-2xx status code: 400 Bad Request: <Error><Code>ExpiredToken";
            e.to_string().contains(says)
        }),
        (Failure::HangUp, |e| e.to_string().contains("broken off")),
    ] {
        let store = store_with(Rule::on([Op::Get]).fail(failure)).await;
        let error = store.get(&a1()).await.unwrap_err();
        assert!(is_right(&error), "{failure:?} gave {error:?}");
        assert!(store.head(&a1()).await.is_ok(), "only reads fail");
        assert_eq!(store.fired(), 1);
    }
}

#[tokio::test]
async fn every_operation_can_fail() {
    let all = || store_with(Rule::on(Op::ALL).fail(Failure::Denied));
    let (from, to) = (a1(), Path::from("c"));
    let store = all().await;
    assert!(store.put(&from, "".into()).await.is_err());
    assert!(store.put_multipart(&from).await.is_err());
    assert!(store.get(&from).await.is_err());
    assert!(store.head(&from).await.is_err());
    assert!(store.get_ranges(&from, &[0..1, 2..3]).await.is_err());
    assert!(store.delete(&from).await.is_err());
    assert!(store.list(None).try_collect::<Vec<_>>().await.is_err());
    assert!(
        store
            .list_with_offset(None, &from)
            .try_collect::<Vec<_>>()
            .await
            .is_err()
    );
    assert!(store.list_with_delimiter(None).await.is_err());
    assert!(store.copy(&from, &to).await.is_err());
    assert!(store.rename(&from, &to).await.is_err());
    assert_eq!(store.fired(), 11);

    let store = store_with(Rule::on([Op::CompleteMultipart]).fail(Failure::Denied)).await;
    let mut upload = store.put_multipart(&to).await.unwrap();
    upload.put_part("part".into()).await.unwrap();
    assert!(upload.complete().await.is_err());
    assert!(store.head(&to).await.is_err(), "nothing was completed");
}

#[tokio::test]
async fn a_rule_picks_its_keys_and_its_turns() {
    let fails = async |rule: Rule, key: &str, calls: usize| {
        let store = store_with(rule.fail(Failure::Status(503))).await;
        let mut failed = Vec::new();
        for call in 1..=calls {
            if store.get(&Path::from(key)).await.is_err() {
                failed.push(call);
            }
        }
        failed
    };
    let get = || Rule::on([Op::Get]);
    assert_eq!(fails(get(), "a/1", 3).await, [1, 2, 3]);
    assert_eq!(fails(get().nth(2), "a/1", 3).await, [2]);
    assert_eq!(fails(get().first(2), "a/1", 3).await, [1, 2]);
    assert_eq!(fails(get().from(2), "a/1", 3).await, [2, 3]);
    assert_eq!(fails(get().first_of_each(2), "a/1", 3).await, [1, 2]);
    assert_eq!(fails(get().key_contains("a/"), "a/1", 1).await, [1]);
    assert_eq!(fails(get().key_contains("a/"), "b/1", 1).await, [0; 0]);
    assert_eq!(fails(get().key_ends_with("/1"), "b/1", 1).await, [1]);
    assert_eq!(fails(get().key_ends_with("/1"), "a/2", 1).await, [0; 0]);
    assert_eq!(
        fails(get().key(|key| key.len() > 3), "a/1", 1).await,
        [0; 0]
    );
}

#[tokio::test]
async fn a_lost_answer_hides_a_call_that_landed() {
    let store = store_with(Rule::on([Op::Put]).lands().fail(Failure::Status(500))).await;
    assert!(store.put(&a1(), "new".into()).await.is_err());
    let body = store.get(&a1()).await.unwrap().bytes().await.unwrap();
    assert_eq!(&body[..], b"new");

    let store = store_with(Rule::on([Op::Put]).fail(Failure::Status(500))).await;
    assert!(store.put(&a1(), "new".into()).await.is_err());
    let body = store.get(&a1()).await.unwrap().bytes().await.unwrap();
    assert_eq!(&body[..], b"12345678", "without `lands` nothing is written");

    let store = store_with(Rule::on([Op::Delete]).lands().fail(Failure::Status(500))).await;
    assert!(store.delete(&a1()).await.is_err());
    assert!(matches!(
        store.head(&a1()).await,
        Err(Error::NotFound { .. })
    ));
}

#[tokio::test]
async fn a_stall_holds_the_call_back_and_then_lets_it_through() {
    let store = store_with(Rule::on([Op::Get]).stall(Duration::from_millis(60))).await;
    let started = Instant::now();
    assert!(store.get(&a1()).await.is_ok());
    assert!(started.elapsed() >= Duration::from_millis(60));
}

#[tokio::test]
async fn a_panic_is_a_panic() {
    let store = store_with(Rule::on([Op::Get]).panic()).await;
    let task = tokio::spawn(async move { store.get(&a1()).await.map(drop) });
    let error = task.await.unwrap_err();
    assert!(error.is_panic());
}

#[tokio::test]
async fn a_truncated_body_is_shorter_than_its_object_says() {
    let store = store_with(Rule::on([Op::Get, Op::GetRanges]).truncate(3)).await;
    let result = store.get(&a1()).await.unwrap();
    assert_eq!(result.meta.size, 8);
    assert_eq!(&result.bytes().await.unwrap()[..], b"123");
    let ranges = store.get_ranges(&a1(), &[0..8, 1..3]).await.unwrap();
    assert_eq!(ranges, ["123", "23"]);
    let head = GetOptions::new().with_head(true);
    assert!(store.get_opts(&a1(), head).await.is_ok());
    assert_eq!(store.fired(), 2, "a head has no body");
}

#[tokio::test]
async fn a_torn_body_gives_what_came_before_and_then_an_error() {
    let store = store_with(Rule::on([Op::Get, Op::GetRanges]).tear(3)).await;
    let mut body = store.get(&a1()).await.unwrap().into_stream();
    assert_eq!(&body.next().await.unwrap().unwrap()[..], b"123");
    assert!(body.next().await.unwrap().is_err());
    assert!(body.next().await.is_none());
    assert!(store.get_ranges(&a1(), &[0..8, 1..3]).await.is_err());
    assert_eq!(store.fired(), 2);
}

#[tokio::test]
async fn a_forgotten_write_is_acknowledged_and_not_done() {
    let store = store_with(Rule::on(Op::WRITES).forget()).await;
    let (from, to) = (a1(), Path::from("c"));
    let acknowledged = store.put(&from, "new".into()).await.unwrap();
    assert!(acknowledged.e_tag.is_some());
    store.delete(&from).await.unwrap();
    store.copy(&from, &to).await.unwrap();
    store.rename(&from, &to).await.unwrap();
    let mut upload = store.put_multipart(&to).await.unwrap();
    upload.put_part("part".into()).await.unwrap();
    upload.complete().await.unwrap();
    assert_eq!(store.fired(), 5);
    let body = store.get(&from).await.unwrap().bytes().await.unwrap();
    assert_eq!(&body[..], b"12345678");
    assert!(store.head(&to).await.is_err());
}

/// The keys of a listing to the bottom, in its order.
async fn listed(store: &FaultStore) -> Vec<String> {
    let listing = store
        .list(None)
        .map_ok(|object| object.location.to_string());
    listing.try_collect().await.unwrap()
}

#[tokio::test]
async fn a_listing_loses_what_the_rule_names_and_says_nothing() {
    let on = || Rule::on(Op::LISTS);
    let store = store_with(on().lose_places(1..2)).await;
    assert_eq!(listed(&store).await, ["a/1", "b/1"]);
    let store = store_with(on().lose_keys(|key| key.starts_with("a/"))).await;
    assert_eq!(listed(&store).await, ["b/1"]);
    let shallow = store.list_with_delimiter(None).await.unwrap();
    assert_eq!(shallow.common_prefixes, [Path::from("b")]);
    assert_eq!(store.fired(), 2);
    assert!(store.head(&a1()).await.is_ok(), "it is there all the same");
}

#[tokio::test]
async fn a_listing_comes_in_another_order_and_whole() {
    let orders = |seed: u64| async move {
        let store = store_with(Rule::on([Op::List]).reorder(seed)).await;
        listed(&store).await
    };
    let all = ["a/1", "a/2", "b/1"];
    let mut moved = 0;
    for seed in 0..8 {
        let mut keys = orders(seed).await;
        moved += u64::from(keys != all);
        assert_eq!(keys, orders(seed).await, "the same every time");
        keys.sort_unstable();
        assert_eq!(keys, all);
    }
    assert!(moved > 0);
}

#[tokio::test]
async fn a_share_of_the_calls_is_the_same_share_every_time() {
    let fails = async |seed: u64, others: bool| {
        let rule = Rule::on([Op::Get]).percent(30, seed);
        let store = store_with(rule.fail(Failure::Status(503))).await;
        let mut failed = Vec::new();
        for call in 0..100 {
            if others {
                let _ = store.get(&Path::from("b/1")).await;
            }
            if store.get(&a1()).await.is_err() {
                failed.push(call);
            }
        }
        failed
    };
    let one = fails(1, false).await;
    assert!((15..45).contains(&one.len()), "{}", one.len());
    assert_eq!(one, fails(1, true).await, "whoever else calls");
    assert_ne!(one, fails(2, false).await);
}

#[tokio::test]
async fn a_rule_may_have_turns_of_its_own_for_each_key() {
    let rule = Rule::on([Op::Get]).first_of_each(1);
    let store = store_with(rule.fail(Failure::Status(503))).await;
    for key in ["a/1", "a/2", "b/1"] {
        assert!(store.get(&Path::from(key)).await.is_err(), "{key}");
        assert!(store.get(&Path::from(key)).await.is_ok(), "{key}");
    }
}

#[tokio::test]
async fn a_rule_tells_how_often_it_struck() {
    let rule = Rule::on([Op::Get]).first(1).fail(Failure::Denied);
    let struck = rule.struck();
    let store = store_with(rule).await;
    for _ in 0..2 {
        let _ = store.get(&a1()).await;
    }
    assert_eq!(struck.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_counted_store_counts_calls_and_bytes_by_class_and_key() {
    let store = Counted::new(Arc::new(InMemory::new()));
    store.put(&a1(), "12345678".into()).await.unwrap();
    store.get(&a1()).await.unwrap().bytes().await.unwrap();
    store.get_range(&a1(), 2..4).await.unwrap();
    store.get_ranges(&a1(), &[0..1, 5..8]).await.unwrap();
    assert!(store.get(&Path::from("nothing")).await.is_err());
    store.head(&a1()).await.unwrap();
    store.list(None).try_collect::<Vec<_>>().await.unwrap();
    store.delete(&a1()).await.unwrap();
    let of = |op, key: &'static str| store.tally().of(op, |called| called == key);
    let count = |calls, bytes| Count { calls, bytes };
    assert_eq!(of(Op::Put, "a/1"), count(1, 8));
    assert_eq!(of(Op::Get, "a/1"), count(2, 10));
    assert_eq!(of(Op::GetRanges, "a/1"), count(1, 4));
    assert_eq!(of(Op::Get, "nothing"), count(1, 0));
    assert_eq!(of(Op::Head, "a/1"), count(1, 0));
    assert_eq!(of(Op::List, ""), count(1, 0));
    assert_eq!(of(Op::Delete, "a/1"), count(1, 0));
    assert_eq!(store.tally().counts().len(), 7);
    store.tally().clear();
    assert_eq!(store.tally().counts().len(), 0);
}

#[tokio::test]
async fn a_parked_call_never_returns_and_has_landed_when_it_should() {
    let store = store_with(Rule::on([Op::Put]).lands().park("PARKED")).await;
    let at = a1();
    let put = store.put(&at, "new".into());
    assert!(
        tokio::time::timeout(Duration::from_millis(50), put)
            .await
            .is_err()
    );
    let body = store.get(&a1()).await.unwrap().bytes().await.unwrap();
    assert_eq!(&body[..], b"new");

    let store = store_with(Rule::on([Op::Put]).park("PARKED")).await;
    assert!(store.put(&a1(), "new".into()).now_or_never().is_none());
    let body = store.get(&a1()).await.unwrap().bytes().await.unwrap();
    assert_eq!(&body[..], b"12345678");
}

#[tokio::test]
async fn the_s3_server_keeps_conditions_and_signatures() {
    for conditions in [Conditions::All, Conditions::CreateOnly] {
        let server = S3Server::with(conditions);
        let bucket = server.bucket("kept", &Tree::new());
        let (store, key) = (bucket.store(), a1());
        let create = || store.put_opts(&key, "one".into(), PutMode::Create.into());
        let first = create().await.unwrap();
        assert!(matches!(create().await, Err(Error::AlreadyExists { .. })));
        let version = UpdateVersion::from(first);
        let update = |version: UpdateVersion| {
            store.put_opts(&key, "two".into(), PutMode::Update(version).into())
        };
        let updated = update(version.clone()).await;
        if conditions == Conditions::All {
            assert!(updated.is_ok());
            let moved = update(version).await;
            assert!(matches!(moved, Err(Error::Precondition { .. })));
            assert_eq!(server.tree(&bucket)["a/1"], b"two");
        } else {
            assert!(updated.unwrap_err().to_string().contains("501"));
        }
        let of = |op| server.tally().of(op, |key| key == "kept/hive/a/1").calls;
        assert_eq!(
            of(Op::Put),
            if conditions == Conditions::All { 4 } else { 3 }
        );
        assert_eq!(bucket.tree().await, server.tree(&bucket));

        let stranger = Bucket::at(server.endpoint(), "kept", ["AKIDEXAMPLE", "another"]);
        assert!(stranger.store().get(&key).await.is_err(), "a wrong secret");
    }
}

#[tokio::test]
async fn of_sixteen_creators_at_the_s3_server_one_wins() {
    let server = S3Server::start();
    let bucket = server.bucket("race", &Tree::new());
    assert_eq!(race(&bucket, 10).await, [1; 10]);
}

#[tokio::test]
async fn the_s3_server_follows_its_script() {
    let server = S3Server::start();
    let tree = Tree::from([("a/1".to_owned(), vec![7; 100_000])]);
    let bucket = server.bucket("scripted", &tree);
    let store = bucket.store();
    let fails = async |rule: Rule| {
        server.follow([rule]);
        let error = store.get(&a1()).await;
        let error = match error {
            Ok(found) => found.bytes().await.map(drop),
            Err(error) => Err(error),
        };
        assert_eq!(server.fired(), 1);
        error.unwrap_err().to_string()
    };
    let get = || Rule::on([Op::Get]);
    assert!(
        fails(get().fail(Failure::Status(503)))
            .await
            .contains("SlowDown")
    );
    assert!(
        fails(get().fail(Failure::Expired))
            .await
            .contains("ExpiredToken")
    );
    assert!(fails(get().fail(Failure::Denied)).await.contains("403"));
    fails(get().fail(Failure::HangUp)).await;
    fails(get().tear(50_000)).await;
    fails(get().truncate(1)).await;

    server.follow([Rule::on([Op::Put]).lands().fail(Failure::HangUp)]);
    assert!(store.put(&a1(), "new".into()).await.is_err());
    assert_eq!(server.tree(&bucket)["a/1"], b"new", "it has landed");
    server.follow([Rule::on(Op::WRITES).forget()]);
    store.put(&a1(), "newer".into()).await.unwrap();
    store.delete(&a1()).await.unwrap();
    assert_eq!(server.fired(), 2);
    assert_eq!(server.tree(&bucket)["a/1"], b"new", "it was forgotten");
    server.follow([Rule::on([Op::Delete])
        .key_ends_with("/a/1")
        .fail(Failure::Denied)]);
    assert!(store.delete(&a1()).await.is_err());
    server.follow([]);
    store.delete(&a1()).await.unwrap();
    assert_eq!(server.tree(&bucket), Tree::new());
    let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
    assert_eq!(listed.len(), 0);
    let lists = server.tally().of(Op::List, |key| key == "scripted/hive/");
    assert_eq!(lists.calls, 1);
    let read = server.tally().of(Op::Get, |_| true);
    assert_eq!((read.calls, read.bytes), (6, 50_001), "what it had to say");
}
