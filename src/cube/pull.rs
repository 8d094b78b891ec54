//! Fetches of a remote cube what an append needs, into an empty directory.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{CubeError, Halt};
use super::fetch::{Selected, offending, selected};
use super::inventory::{self, Inventory};
use super::layout::{named, node_of};
use super::report::{Extent, Pulled};
use super::tree::{self, Tree};
use super::write::{Body, Write, Writer};
use super::{Cube, Started};
use crate::report::Ending;
use crate::store::root::{Entry, Expected, Version};
use crate::store::{Root, RootError};

/// What to do when the remote cube changes under a pull.
const AGAIN: &str = "wait until whoever writes there has ended, then run the same command again";

impl Cube {
    /// Fetches every metadata document and the objects of arrays of at most one dimension;
    /// with `full`, everything. `local` opens the destination, once it is known that the
    /// fetch is safe; it must be empty, or left by a pull that was cut short.
    ///
    /// # Errors
    /// Every refusal, and failed requests before the first object is written: nothing has
    /// been fetched then. Later ones are in the [`Pulled`].
    pub async fn pull(
        &self,
        full: bool,
        local: impl FnOnce() -> Result<Root, RootError>,
    ) -> Result<Pulled, CubeError> {
        let started = self.start();
        let tree = Tree::read(&started.root, self.settings.max_in_flight).await?;
        tree.require_whole(&started.root)?;
        let offending = offending(&tree);
        if !full && !offending.is_empty() {
            let root = started.root.url().to_owned();
            return Err(CubeError::Unsafe { root, offending });
        }
        let Selected { wanted, left_out } = selected(&tree, full);
        let pull = Pull {
            cube: self,
            wanted,
            left_out,
            tree: &tree,
            local: local()?.with_retry(self.settings.retry.clone()),
            started,
        };
        pull.run(full).await
    }
}

struct Pull<'a> {
    cube: &'a Cube,
    tree: &'a Tree,
    wanted: Vec<&'a str>,
    left_out: Vec<String>,
    local: Root,
    started: Started,
}

impl Pull<'_> {
    async fn run(self, full: bool) -> Result<Pulled, CubeError> {
        let remote = &self.started.root;
        let mut inventory = Inventory::new(remote, full);
        for (key, entry) in &self.tree.objects {
            let listed = inventory::Pulled::listed(entry, self.tree.class(key));
            inventory.objects.insert(key.clone(), listed);
        }
        let writes = self.plan().await?;
        let mut pulled = self.begun(full)?;
        inventory.write(&self.local).await?;
        let ended = match self.fetch(&writes, &mut inventory, &mut pulled).await {
            Ok(()) => self.complete(inventory).await,
            Err(halt) => Err(halt),
        };
        pulled.ended = match ended {
            Ok(()) if self.tree.is_empty() => self.started.ended(Ending::NothingToDo, None),
            Ok(()) => self.started.ended(Ending::Done, None),
            Err(halt) => self.started.halted(&halt, AGAIN),
        };
        Ok(pulled)
    }

    /// What is written where, once the destination is known to be free.
    async fn plan(&self) -> Result<Vec<Write>, CubeError> {
        let found = tree::list(&self.local).await?;
        if !found.is_empty() {
            self.clear_remains(&found).await?;
        }
        let write = |key: &&str| Write {
            key: (*key).to_owned(),
            body: self.body(key),
            expected: match found.get(*key) {
                Some(remains) => Expected::Writing(Version::from(remains)),
                None => Expected::Absent,
            },
        };
        Ok(self.wanted.iter().map(write).collect())
    }

    /// Documents have been read already.
    fn body(&self, key: &str) -> Body {
        let document = node_of(key).and_then(|path| self.tree.documents.get(path));
        match document {
            Some(document) => Body::Here(document.bytes.clone()),
            None => Body::There(self.tree.objects.get(key).map_or(0, |entry| entry.size)),
        }
    }

    /// Deletes what a pull that was cut short has fetched and this one does not.
    ///
    /// # Errors
    /// When anything is there that such a pull has not left.
    async fn clear_remains(&self, found: &BTreeMap<String, Entry>) -> Result<(), CubeError> {
        let remote = &self.started.root;
        let cut_short = match Inventory::read(&self.local, remote).await {
            Ok(inventory) => inventory.filter(|inventory| !inventory.complete),
            Err(CubeError::Inventory { .. }) => None,
            Err(error) => return Err(error),
        };
        let left =
            |inventory: &Inventory| found.keys().all(|key| inventory.objects.contains_key(key));
        if !cut_short.is_some_and(|inventory| left(&inventory)) {
            return Err(CubeError::Occupied {
                local: self.local.url().to_owned(),
                remote: remote.url().to_owned(),
                inventory: inventory::place(&self.local)?.url().to_owned(),
            });
        }
        let unwanted = found
            .keys()
            .filter(|key| !self.wanted.contains(&key.as_str()));
        Ok(self.local.delete_all(unwanted.cloned().collect()).await?)
    }

    fn begun(&self, full: bool) -> Result<Pulled, CubeError> {
        let mut pulled = Pulled {
            ended: self.started.ended(Ending::Done, None),
            local: self.local.url().to_owned(),
            inventory: inventory::place(&self.local)?.url().to_owned(),
            full,
            transferred: Vec::new(),
            fetched: Extent::default(),
            skipped: Extent::default(),
            total: Extent::default(),
            warnings: Vec::new(),
        };
        let wanted: BTreeSet<&str> = self.wanted.iter().copied().collect();
        for (key, entry) in &self.tree.objects {
            pulled.total.add(entry.size);
            if !wanted.contains(key.as_str()) {
                pulled.skipped.add(entry.size);
            }
        }
        if self.tree.is_empty() {
            let root = self.started.root.url();
            let warning =
                format!("there is nothing at `{root}`; a push will create the cube there");
            pulled.warnings.push(warning);
        }
        if !self.left_out.is_empty() {
            pulled.warnings.push(format!(
                "left where they are, because no node owns them and no file can have such a name beside the \
                 others: {}",
                named(&self.left_out)
            ));
        }
        Ok(pulled)
    }

    async fn fetch(
        &self,
        writes: &[Write],
        inventory: &mut Inventory,
        pulled: &mut Pulled,
    ) -> Result<(), Halt> {
        let writer = Writer::new(self.cube, &self.local, &self.started.root);
        let fetched = writer
            .stage("fetch", writes, |stands| {
                if let Some(listed) = inventory.objects.get_mut(&stands.key) {
                    listed.sha256 = Some(inventory::hash(&stands.bytes));
                }
                pulled.fetched.add(stands.bytes.len() as u64);
                pulled.transferred.push(stands.key);
            })
            .await;
        pulled.transferred.sort();
        fetched
    }

    /// Records the copy as complete, if the remote cube is still what was listed, objects no
    /// node owns aside.
    async fn complete(&self, mut inventory: Inventory) -> Result<(), Halt> {
        let now = tree::list(&self.started.root).await?;
        let listed = &self.tree.objects;
        let counts = |key: &&String| !self.tree.class(key).is_foreign();
        let written = |key: &&String| listed.get(*key) != now.get(*key);
        let moved = now.keys().chain(listed.keys());
        if let Some(key) = moved.filter(counts).find(written) {
            return Err(Halt::moved(&self.started.root, key, !now.contains_key(key)));
        }
        inventory.complete = true;
        Ok(inventory.write(&self.local).await?)
    }
}
