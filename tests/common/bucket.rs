//! A store root in a bucket, and how it is reached.

use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, RetryConfig};
use zagg_stream::Root;

use crate::common::binary::Zagg;
use crate::common::library::tree_in;
use crate::common::stores::Tree;

/// Where the root lies in its bucket.
const PREFIX: &str = "hive";

/// A root in a bucket of its own.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    name: String,
    options: Vec<(String, String)>,
}

impl Bucket {
    /// The bucket `name` of the server at `endpoint`, with an account there.
    pub(crate) fn at(endpoint: &str, name: &str, [key_id, secret]: [&str; 2]) -> Self {
        let options = [
            ("AWS_ENDPOINT", endpoint),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", key_id),
            ("AWS_SECRET_ACCESS_KEY", secret),
        ];
        Self {
            name: name.to_owned(),
            options: options
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Where the root lies in it.
    pub(crate) fn prefix(&self) -> &'static str {
        PREFIX
    }

    /// What it takes to reach it, as variables.
    pub(crate) fn options(&self) -> &[(String, String)] {
        &self.options
    }

    /// The address of the root.
    pub(crate) fn url(&self) -> String {
        format!("s3://{}/{PREFIX}", self.name)
    }

    /// The root, as the library opens it.
    pub(crate) fn root(&self) -> Root {
        Root::open_with(&self.url(), self.options.clone()).unwrap()
    }

    /// A command of the program over this root, with `--json`.
    pub(crate) fn command(&self, command: &str) -> Zagg {
        self.environment(Zagg::new(command))
            .arg(self.url())
            .arg("--json")
    }

    /// A command line with what it takes to reach this bucket.
    pub(crate) fn environment(&self, zagg: Zagg) -> Zagg {
        let options = self.options.iter();
        options.fold(zagg, |zagg, (key, value)| zagg.env(key, value))
    }

    /// A client of its own at the root, which tries everything once.
    pub(crate) fn store(&self) -> Arc<dyn ObjectStore> {
        let once = RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&self.name)
            .with_retry(once);
        for (key, value) in &self.options {
            builder = builder.with_config(key.to_ascii_lowercase().parse().unwrap(), value);
        }
        Arc::new(PrefixStore::new(builder.build().unwrap(), PREFIX))
    }

    /// Writes `tree` into the root, over the wire.
    pub(crate) async fn put(&self, tree: &Tree) {
        let store = self.store();
        for (key, bytes) in tree {
            let path = Path::from(key.as_str());
            store.put(&path, bytes.clone().into()).await.unwrap();
        }
    }

    /// What the root holds, over the wire.
    pub(crate) async fn tree(&self) -> Tree {
        tree_in(&*self.store()).await
    }
}

/// How many of sixteen who create the same object at once are told that they did, once for
/// every round.
pub(crate) async fn race(bucket: &Bucket, rounds: usize) -> Vec<usize> {
    const CREATORS: usize = 16;
    // A client each, as of so many machines.
    let clients: Vec<_> = (0..CREATORS).map(|_| bucket.store()).collect();
    let mut winners = Vec::new();
    for round in 0..rounds {
        let key = Path::from(format!("race-{round}"));
        let creators = clients.iter().enumerate().map(|(creator, store)| {
            let (payload, key) = (format!("creator {creator}"), &key);
            async move {
                let created = store.put_opts(key, payload.into(), PutMode::Create.into());
                created.await.is_ok()
            }
        });
        let created = futures::future::join_all(creators).await;
        winners.push(created.iter().filter(|created| **created).count());
        let winner = created.iter().position(|created| *created).unwrap();
        let stands = clients[0].get(&key).await.unwrap().bytes().await.unwrap();
        assert_eq!(stands, format!("creator {winner}"));
    }
    winners
}
