//! Brings a local copy back to the remote cube it was pulled from.

use std::collections::{BTreeMap, BTreeSet};

use super::again::{Again, Meanwhile};
use super::check::Judged;
use super::error::{CubeError, Halt};
use super::finding::{Finding, Heal, Rule};
use super::hashes::Hashes;
use super::inventory::{self, Inventory, hash};
use super::layout::{below, named, node_of};
use super::report::{Extent, Pushed};
use super::stage::Stage;
use super::sync::{self, PushPlan, Sides};
use super::tree::{self, Class, Tree};
use super::write::{Write, Writer};
use super::{Cube, Started};
use crate::report::Ending;
use crate::store::Root;
use crate::store::root::{Entry, Removed, Version};

/// What to do when the remote cube changes under a push.
const AGAIN: &str = "run the same command again, which says whether both can stand";

/// How to push.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushOptions {
    /// Whether nothing is to be written.
    pub dry_run: bool,
    /// Whether objects of bulk arrays that were pulled, which takes a full pull, may be
    /// written over when they have changed, and objects that no array shows.
    pub replace_bulk: bool,
}

impl Cube {
    /// Uploads what is new or changed in the local copy of this cube, and deletes the
    /// coordinates that were pulled and are gone there.
    ///
    /// # Errors
    /// Every refusal, and failed requests before the first write. Later ones are in the
    /// [`Pushed`].
    pub async fn push(&self, local: &Root, options: PushOptions) -> Result<Pushed, CubeError> {
        if !options.dry_run {
            self.root.ensure_writable()?;
        }
        let started = self.start();
        let remote = &started.root;
        let local = local.with_retry(self.settings.retry.clone());
        let inventory = complete_inventory(&local, remote).await?;
        let local_tree = Tree::read(&local, self.settings.max_in_flight).await?;
        let remote_tree = Tree::read(remote, self.settings.max_in_flight).await?;
        local_tree.require_whole(&local)?;
        remote_tree.require_whole(remote)?;
        let hashes = Hashes::read(
            self,
            &inventory,
            (&local, &local_tree),
            (remote, &remote_tree),
            options.replace_bulk,
        )
        .await?;
        let mut plan = sync::plan(&Sides {
            inventory: &inventory,
            local: &local_tree,
            remote: &remote_tree,
            local_hashes: &hashes.local,
            remote_hashes: &hashes.remote,
            replace_bulk: options.replace_bulk,
        });
        judge_local(&local_tree, (remote, &remote_tree), &mut plan);
        if !plan.refusals.is_empty() {
            return Err(CubeError::Push {
                root: remote.url().to_owned(),
                reasons: plan.refusals,
            });
        }
        let push = Push {
            cube: self,
            started: &started,
            local: &local,
            local_tree: &local_tree,
            remote_tree: &remote_tree,
            remote_hashes: &hashes.remote,
            plan: &plan,
        };
        Ok(push.run(inventory, options.dry_run).await)
    }
}

async fn complete_inventory(local: &Root, remote: &Root) -> Result<Inventory, CubeError> {
    let unusable = |reason: &str| CubeError::Inventory {
        local: local.url().to_owned(),
        remote: remote.url().to_owned(),
        reason: reason.to_owned(),
    };
    match Inventory::read(local, remote).await? {
        Some(inventory) if inventory.complete => Ok(inventory),
        Some(_) => Err(unusable(
            "its pull did not come to an end; run the pull again",
        )),
        None => Err(unusable("there is none")),
    }
}

/// Adds what is wrong with the local copy where this push writes: half an append is not
/// published.
fn judge_local(local: &Tree, remote: (&Root, &Tree), plan: &mut PushPlan) {
    if plan.is_empty() {
        return;
    }
    let judged = Judged::of(local.clone(), BTreeMap::new());
    let touched = plan.touched();
    let touches = |path: &str| touched.iter().any(|key| below(key, path).is_some());
    let orbits = judged.orbits.iter().filter(|orbit| touches(&orbit.path));
    let refused: Vec<&Finding> = orbits
        .flat_map(|orbit| judged.refusals(&orbit.path))
        .collect();
    let mut warnings = Vec::new();
    for finding in &judged.findings {
        let missing = finding.heal == Heal::Mends;
        let stale = finding.rule == Rule::Consolidated && touches(&finding.path);
        if missing || stale {
            warnings.push(format!("in the local copy, {}", finding.message));
        }
    }
    plan.refusals.extend(refused_here(&refused, remote));
    plan.warnings.extend(warnings);
}

/// What is wrong here, and where it is to be mended: no new pull mends what is wrong in the
/// remote cube as well.
fn refused_here(refused: &[&Finding], (root, remote): (&Root, &Tree)) -> Vec<String> {
    if refused.is_empty() {
        return Vec::new();
    }
    let there = Judged::of(remote.clone(), BTreeMap::new()).findings;
    let root = root.url();
    let told = refused.iter().map(|finding| {
        let message = &finding.message;
        match there.contains(finding) {
            true => format!(
                "in the remote cube, too, {message}; mend it there first, `zagg-stream cube check {root}` names \
                 all of it, then pull anew"
            ),
            false => format!(
                "in the local copy, {message}; finish the append there, or pull anew and append again"
            ),
        }
    });
    told.collect()
}

struct Push<'a> {
    cube: &'a Cube,
    started: &'a Started,
    local: &'a Root,
    local_tree: &'a Tree,
    remote_tree: &'a Tree,
    remote_hashes: &'a BTreeMap<String, (String, Version)>,
    plan: &'a PushPlan,
}

impl Push<'_> {
    async fn run(&self, mut inventory: Inventory, dry_run: bool) -> Pushed {
        let mut pushed = self.begun(dry_run);
        if dry_run {
            for write in self.plan.writes() {
                pushed.uploaded.push(write.key.clone());
                pushed.sent.add(write.body.len());
            }
            let deletions = self.plan.deletions.iter();
            pushed.deleted = deletions.map(|(key, _)| key.clone()).collect();
            pushed.ended = self.started.ended(self.over(), None);
            return pushed;
        }
        let before = inventory.clone();
        let mut ended = self.carry_out(&mut inventory, &mut pushed).await;
        pushed.uploaded = self.in_order(&pushed.uploaded);
        if inventory != before {
            // What was pushed can be told by its hash; without this it would be told by
            // reading it back.
            let recorded = inventory.write(self.local).await;
            ended = ended.and(recorded.map_err(Halt::from));
        }
        pushed.ended = match ended {
            Ok(()) => self.started.ended(self.over(), None),
            Err(halt) => self.started.halted(&halt, AGAIN),
        };
        pushed
    }

    fn begun(&self, dry_run: bool) -> Pushed {
        Pushed {
            ended: self.started.ended(Ending::Done, None),
            local: self.local.url().to_owned(),
            dry_run,
            uploaded: Vec::new(),
            sent: Extent::default(),
            deleted: Vec::new(),
            stood: self.plan.stands.len() as u64,
            warnings: self.plan.warnings.clone(),
        }
    }

    /// Keys in the order of the plan.
    fn in_order(&self, keys: &[String]) -> Vec<String> {
        let keys: BTreeSet<&String> = keys.iter().collect();
        let planned = self.plan.writes().map(|write| write.key.clone());
        planned.filter(|key| keys.contains(key)).collect()
    }

    fn over(&self) -> Ending {
        match self.plan.is_empty() {
            true => Ending::NothingToDo,
            false => Ending::Done,
        }
    }

    async fn carry_out(&self, inventory: &mut Inventory, pushed: &mut Pushed) -> Result<(), Halt> {
        self.note_what_stands(inventory);
        let mut has_looked = false;
        for (stage, writes) in &self.plan.stages {
            if stage.is_of_documents() && !has_looked {
                self.look_again(pushed).await?;
                has_looked = true;
            }
            self.write(*stage, writes, inventory, pushed).await?;
        }
        self.delete(inventory, pushed).await?;
        for key in &self.plan.gone {
            inventory.objects.remove(key);
        }
        match self.plan.is_empty() {
            true => Ok(()),
            false => self.look_back(inventory).await,
        }
    }

    async fn write(
        &self,
        stage: Stage,
        writes: &[Write],
        inventory: &mut Inventory,
        pushed: &mut Pushed,
    ) -> Result<(), Halt> {
        let writer = Writer::new(self.cube, &self.started.root, self.local);
        let written = writer.stage(stage.name(), writes, |stands| {
            let class = self.local_tree.class(&stands.key);
            let record = inventory::Pulled::pushed(&stands.bytes, class);
            inventory.objects.insert(stands.key.clone(), record);
            if stands.written {
                pushed.sent.add(stands.bytes.len() as u64);
                pushed.uploaded.push(stands.key);
            } else {
                pushed.stood += 1;
            }
        });
        written.await
    }

    /// Records the writings that were read and found to be known, or as they are here, so
    /// that no later push reads them again.
    fn note_what_stands(&self, inventory: &mut Inventory) {
        for key in &self.plan.stands {
            let class = self.local_tree.class(key);
            let record = self.as_it_was_read(key, class);
            inventory
                .objects
                .extend(record.map(|record| (key.clone(), record)));
        }
        for (key, (hash, _)) in self.remote_hashes {
            if let Some(known) = inventory.objects.get_mut(key)
                && known.sha256.as_ref() == Some(hash)
                && let Some(record) = self.as_it_was_read(key, known.class)
            {
                *known = record;
            }
        }
    }

    /// Of a document the remote bytes: what says the same may be written otherwise.
    fn as_it_was_read(&self, key: &str, class: Class) -> Option<inventory::Pulled> {
        let entry = self.remote_tree.objects.get(key)?;
        if let Some(path) = node_of(key) {
            let document = self.remote_tree.documents.get(path)?;
            let hash = hash(&document.bytes);
            return Some(inventory::Pulled::read(
                entry,
                &document.version,
                class,
                hash,
            ));
        }
        let (hash, version) = self.remote_hashes.get(key)?;
        Some(inventory::Pulled::read(entry, version, class, hash.clone()))
    }

    /// Refuses to publish what others have written into meanwhile.
    async fn look_again(&self, pushed: &mut Pushed) -> Result<(), Halt> {
        let now = tree::list(&self.started.root).await?;
        let Meanwhile { here, aside } = self.again(&now).meanwhile();
        if !here.is_empty() {
            let root = self.started.root.url().to_owned();
            return Err(Halt::Meanwhile { keys: here, root });
        }
        if !aside.is_empty() {
            let names = named(&aside);
            pushed.warnings.push(format!(
                "the remote cube was changed by somebody else meanwhile, but not where this push writes: {names}"
            ));
        }
        Ok(())
    }

    /// Records which writings were pushed, and tells of objects that others have written into
    /// them after the last look. Another writing in the moment since would be taken for this
    /// one only until the object is pushed again, which reads it.
    async fn look_back(&self, inventory: &mut Inventory) -> Result<(), Halt> {
        let now = tree::list(&self.started.root).await?;
        for write in self.plan.writes() {
            let record = inventory.objects.get_mut(&write.key);
            if let Some((record, entry)) = record.zip(now.get(&write.key)) {
                record.note(entry);
            }
        }
        let keys = self.again(&now).mixed();
        let root = self.started.root.url().to_owned();
        match keys.is_empty() {
            true => Ok(()),
            false => Err(Halt::Mixed { keys, root }),
        }
    }

    fn again<'b>(&'b self, now: &'b BTreeMap<String, Entry>) -> Again<'b> {
        Again {
            local: self.local_tree,
            remote: self.remote_tree,
            plan: self.plan,
            now,
        }
    }

    /// Deletes what is planned, if it is still what was planned for.
    async fn delete(&self, inventory: &mut Inventory, pushed: &mut Pushed) -> Result<(), Halt> {
        if self.plan.deletions.is_empty() {
            return Ok(());
        }
        let now = tree::list(&self.started.root).await?;
        for (key, version) in &self.plan.deletions {
            if self.cube.stop.is_raised() {
                return Err(Halt::Stopped);
            }
            let then = self.remote_tree.objects.get(key);
            if now.get(key).is_some_and(|entry| Some(entry) != then) {
                return Err(Halt::moved(&self.started.root, key, false));
            }
            match self.started.root.remove(key, version).await? {
                Removed::Moved => return Err(Halt::moved(&self.started.root, key, false)),
                Removed::Yes => pushed.deleted.push(key.clone()),
                Removed::Before => {}
            }
            inventory.objects.remove(key);
        }
        Ok(())
    }
}
