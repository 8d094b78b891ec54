//! A remote cube in a directory and a copy of it in another.

use crate::common::cubes::Cubes;
use crate::common::library::settings;
use crate::common::stores::{TestStore, Tree, differences};
use zagg_stream::Root;
use zagg_stream::cube::{Cube, CubeError, PushOptions, Pushed};

/// An object of the slice that [`Pair::appended`] appends.
pub(crate) const SHARD: &str = "descending/r10m/vv/c/2/0/0";

/// The root of a store.
pub(crate) fn root(store: &TestStore) -> Root {
    Root::open(store.root().to_str().unwrap()).unwrap()
}

/// The cube in a store, whose requests are tried again at once.
pub(crate) fn cube(store: &TestStore) -> Cube {
    Cube::new(root(store)).settings(settings(""))
}

/// A remote cube and a copy of it.
pub(crate) struct Pair {
    /// The remote cube.
    pub(crate) remote: TestStore,
    /// The copy.
    pub(crate) local: TestStore,
}

impl Pair {
    /// A cube of these objects, pulled.
    pub(crate) async fn of(tree: &Tree, full: bool) -> Self {
        let pair = Self {
            remote: TestStore::of(tree),
            local: TestStore::empty(),
        };
        let pulled = cube(&pair.remote)
            .pull(full, || Ok(root(&pair.local)))
            .await
            .unwrap();
        assert_eq!(pulled.ended.exit_code, 0, "{:?}", pulled.ended.error);
        pair
    }

    /// A golden cube, pulled.
    pub(crate) async fn golden(name: &str) -> Self {
        Self::of(&Cubes::load().tree(name), false).await
    }

    /// With a genuine third slice in the copy.
    pub(crate) async fn appended() -> Self {
        let cubes = Cubes::load();
        let pair = Self::golden("same_size_append/remote").await;
        for (key, bytes) in cubes.tree("same_size_append/local") {
            pair.local.write(&key, bytes);
        }
        pair
    }

    /// Pushes the copy.
    pub(crate) async fn push_with(&self, options: PushOptions) -> Result<Pushed, CubeError> {
        cube(&self.remote).push(&root(&self.local), options).await
    }

    /// Pushes the copy, which must go through.
    pub(crate) async fn push(&self) -> Pushed {
        let pushed = self.push_with(PushOptions::default()).await;
        let pushed = pushed.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(pushed.ended.exit_code, 0, "{:?}", pushed.ended.error);
        pushed
    }

    /// Pushes the copy, and may write over objects of bulk arrays.
    pub(crate) async fn replace_bulk(&self) -> Result<Pushed, CubeError> {
        let options = PushOptions {
            replace_bulk: true,
            ..PushOptions::default()
        };
        self.push_with(options).await
    }

    /// The push is refused with these words and nothing is written.
    pub(crate) async fn assert_refused(&self, words: &[&str]) {
        let before = self.remote.tree();
        let error = self.push_with(PushOptions::default()).await.unwrap_err();
        assert_eq!(error.ending().exit_code(), 3);
        for word in words {
            assert!(
                error.to_string().contains(word),
                "`{word}` is not in: {error}"
            );
        }
        assert_eq!(differences(&before, &self.remote.tree()), [""; 0]);
    }
}
