//! Writes and deletions that leave alone what somebody else has written.

use bytes::Bytes;

use super::*;
use crate::common::faults::{Failure, FaultStore, Op as Call, Rule};

fn scripted(rules: impl IntoIterator<Item = Rule>) -> (Root, FaultStore) {
    let store = FaultStore::new(Arc::new(InMemory::new()), rules);
    let root = Root::new(Arc::new(store.clone()), "memory://scripted");
    (root.with_retry(RetryPolicy::immediate(3)), store)
}

async fn version(root: &Root, key: &str) -> Version {
    root.get_with_version(key).await.unwrap().version
}

#[tokio::test]
async fn what_stands_is_told_from_what_was_written_and_what_moved() {
    let root = memory();
    let (one, two) = (Bytes::from("one"), Bytes::from("two"));
    let create = async |bytes| root.settle("key", bytes, &Expected::Absent).await.unwrap();
    assert_eq!(create(&one).await, Settled::Written);
    assert_eq!(create(&one).await, Settled::Stood);
    assert_eq!(create(&two).await, Settled::Moved);
    let seen = Expected::Writing(version(&root, "key").await);
    let replace = async |bytes| root.settle("key", bytes, &seen).await.unwrap();
    assert_eq!(replace(&two).await, Settled::Written);
    assert_eq!(replace(&two).await, Settled::Stood);
    assert_eq!(replace(&one).await, Settled::Moved);
    assert_eq!(root.get("key").await.unwrap(), two);
    root.delete("key").await.unwrap();
    assert_eq!(replace(&one).await, Settled::Moved);
}

#[tokio::test]
async fn a_lost_answer_hides_no_write() {
    let lost = || {
        Rule::on([Call::Put])
            .first(1)
            .lands()
            .fail(Failure::Status(500))
    };
    let one = Bytes::from("one");
    let (root, store) = scripted([lost()]);
    let settled = root.settle("key", &one, &Expected::Absent).await.unwrap();
    assert_eq!((store.fired(), settled), (1, Settled::Written));

    let (root, store) = scripted([Rule::on([Call::Delete])
        .first(1)
        .lands()
        .fail(Failure::Status(500))]);
    root.put("key", one).await.unwrap();
    let seen = version(&root, "key").await;
    assert_eq!(root.remove("key", &seen).await.unwrap(), Removed::Yes);
    assert_eq!(store.fired(), 1);
    assert_eq!(root.remove("key", &seen).await.unwrap(), Removed::Before);
}

#[tokio::test]
async fn another_writing_is_not_deleted() {
    let root = memory();
    root.put("key", "one").await.unwrap();
    let seen = version(&root, "key").await;
    root.put("key", "two").await.unwrap();
    assert_eq!(root.remove("key", &seen).await.unwrap(), Removed::Moved);
    assert_eq!(root.get("key").await.unwrap(), "two");
}

#[tokio::test]
async fn a_store_without_conditions_is_looked_at_before_the_write() {
    let cannot = Rule::on([Call::Put]).first(1).fail(Failure::Status(501));
    let (root, store) = scripted([cannot]);
    let one = Bytes::from("one");
    let settled = root.settle("key", &one, &Expected::Absent).await.unwrap();
    assert_eq!((store.fired(), settled), (1, Settled::Written));

    let (root, store) = scripted([Rule::on([Call::Put]).nth(2).fail(Failure::Status(501))]);
    root.put("key", "two").await.unwrap();
    let settled = root.settle("key", &one, &Expected::Absent).await.unwrap();
    assert_eq!((store.fired(), settled), (1, Settled::Moved));
    assert_eq!(root.get("key").await.unwrap(), "two");
}

#[test]
fn a_listed_tag_may_lack_its_quotes() {
    let version = Version {
        e_tag: Some("\"0x8D\"".to_owned()),
        version: None,
    };
    assert!(
        version.has_tag(Some("0x8D")) && !version.has_tag(Some("0x8E")) && !version.has_tag(None)
    );
}
