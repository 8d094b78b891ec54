//! A cube held against the rules of its layout. Reads, and writes nothing.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt};
use serde_json::{Map, Value};

use super::fetch;
use super::finding::{Finding, Heal, Rule, Severity};
use super::layout::{
    FINEST, Group, Node, ORBITS, TIME, array_by_name, bare, below, first, join, named, split,
};
use super::orbit::{self, Orbit};
use super::times::{self, Times};
use super::tree::Tree;
use crate::store::{Root, StoreError};

/// A cube as it was read, and what is wrong with it.
#[derive(Debug)]
pub(crate) struct Judged {
    pub tree: Tree,
    /// The `time` arrays of the levels, by path; those that cannot be copied are left out.
    pub times: BTreeMap<String, Times>,
    pub orbits: Vec<Orbit>,
    pub findings: Vec<Finding>,
}

impl Judged {
    /// Reads and judges the cube at `root`.
    ///
    /// # Errors
    /// Any failed request.
    pub(crate) async fn read(root: &Root, at_once: usize) -> Result<Self, StoreError> {
        let tree = Tree::read(root, at_once).await?;
        let of_levels: Vec<String> = orbits(&tree)
            .iter()
            .flat_map(|orbit| {
                let levels = tree.children(orbit).map(|(level, _)| join(orbit, level));
                levels.map(|level| join(&level, TIME)).collect::<Vec<_>>()
            })
            .collect();
        let tree_ref = &tree;
        let times = futures::stream::iter(of_levels)
            .map(|path| async move {
                let read = times::read(root, tree_ref, &path).await?;
                Ok::<_, StoreError>(read.map(|times| (path, times)))
            })
            .buffer_unordered(at_once.max(1))
            .try_filter_map(|read| std::future::ready(Ok(read)))
            .try_collect()
            .await?;
        Ok(Self::of(tree, times))
    }

    /// Judges a cube that was read.
    pub(crate) fn of(tree: Tree, times: BTreeMap<String, Times>) -> Self {
        let mut findings = of_the_whole(&tree);
        let mut judged = Vec::new();
        for path in orbits(&tree) {
            let (orbit, found) = orbit::judge(&tree, &path, |path| times.get(path));
            findings.extend(found);
            judged.push(orbit);
        }
        findings.extend(
            tree.groups()
                .filter_map(|(path, group)| stale(&tree, path, group)),
        );
        findings.extend(fetch::offending(&tree).into_iter().map(|offending| {
            let message = format!("{offending}, so a minimal fetch is not safe");
            Finding::aside(Rule::Fetch, &offending.array, message)
        }));
        findings.extend(past_end(&tree));
        findings.extend(orphans(&tree));
        findings.extend(foreign(&tree));
        Self {
            tree,
            times,
            orbits: judged,
            findings,
        }
    }

    /// What stands in the way of a heal of the orbit at `path`, of the cube as a whole too.
    pub(crate) fn refusals<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Finding> {
        let refuses = |finding: &&Finding| finding.heal == Heal::Refused;
        self.findings.iter().filter(refuses).filter(move |finding| {
            let within =
                |orbit: &str| finding.path == orbit || below(&finding.path, orbit).is_some();
            within(path) || finding.path.is_empty()
        })
    }

    /// How many rules are broken.
    pub(crate) fn count(&self) -> usize {
        let is_finding = |finding: &&Finding| finding.severity == Severity::Finding;
        self.findings.iter().filter(is_finding).count()
    }
}

/// Paths of the orbits: groups of the root with a multiscales layout, and those with the
/// name of an orbit.
fn orbits(tree: &Tree) -> Vec<String> {
    tree.children("")
        .filter(|(name, node)| match node {
            Node::Group(group) => group.declared.is_some() || ORBITS.contains(name),
            Node::Array(_) => false,
        })
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn of_the_whole(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree
        .malformed
        .iter()
        .map(|malformed| {
            let path = &malformed.path;
            let message = format!(
                "the document of `{path}` cannot be used: {}",
                malformed.reason
            );
            Finding::refusal(Rule::Metadata, path, message)
        })
        .collect();
    for name in ORBITS.iter().filter(|name| tree.array(name).is_some()) {
        let message = format!("`{name}` is an array, where an orbit is a group");
        findings.push(Finding::refusal(Rule::Metadata, name, message));
    }
    match tree.node("") {
        Some(Node::Group(_)) if orbits(tree).is_empty() => findings.push(Finding::aside(
            Rule::Cube,
            "",
            format!("no group of the root has a multiscales layout with levels such as `{FINEST}`"),
        )),
        Some(Node::Group(_)) => {}
        Some(Node::Array(_)) => {
            let message = "the root is an array, where a cube is a group".to_owned();
            findings.push(Finding::refusal(Rule::Metadata, "", message));
        }
        None if tree.is_empty() => {
            let message = "there is nothing at the root".to_owned();
            findings.push(Finding::aside(Rule::Cube, "", message));
        }
        None if tree.documents.contains_key("") => {}
        None => {
            let message = "there are objects, but the root has no `zarr.json`".to_owned();
            findings.push(Finding::refusal(Rule::Cube, "", message));
        }
    }
    findings
}

/// Holds a consolidated block against the nodes it is about.
fn stale(tree: &Tree, path: &str, group: &Group) -> Option<Finding> {
    let block = group.consolidated.as_ref()?;
    let wrong = disagreements(tree, path, block);
    if wrong.is_empty() {
        return None;
    }
    let message = format!(
        "the consolidated metadata of `{}` disagrees with its nodes: {}; whoever opens the group \
         through it sees an older state",
        if path.is_empty() { "/" } else { path },
        first(&wrong)
    );
    Some(Finding::aside(Rule::Consolidated, path, message))
}

fn disagreements(tree: &Tree, path: &str, block: &Map<String, Value>) -> Vec<String> {
    let mut wrong = Vec::new();
    let nodes = tree.descendants(path);
    for name in &nodes {
        let document = tree.documents.get(&join(path, name));
        let says = document.and_then(|document| document.value.as_ref());
        match (block.get(*name), says) {
            (None, _) => wrong.push(format!("it lacks `{name}`")),
            (Some(repeated), Some(says)) if bare(repeated) != bare(says) => {
                wrong.push(format!("`{name}` has changed"));
            }
            _ => {}
        }
    }
    let gone = block.keys().filter(|name| !nodes.contains(name.as_str()));
    wrong.extend(gone.map(|name| format!("`{name}` is gone")));
    wrong
}

fn past_end(tree: &Tree) -> Option<Finding> {
    let keys: Vec<String> = tree
        .objects
        .keys()
        .filter(|key| tree.is_past_end(key))
        .cloned()
        .collect();
    let message = format!(
        "objects past the end of their arrays, as after a push that was cut short: {}; no slice shows them \
         until the array grows",
        named(&keys)
    );
    (!keys.is_empty()).then(|| Finding::aside(Rule::PastEnd, "", message))
}

fn orphans(tree: &Tree) -> Option<Finding> {
    let keys = tree.foreign().filter(|key| is_orphan(tree, key));
    let keys: Vec<String> = keys.map(str::to_owned).collect();
    let message = format!(
        "objects named like chunks of arrays that have no document, as after a push that was cut short: {}; \
         they come to life with the array",
        named(&keys)
    );
    (!keys.is_empty()).then(|| Finding::aside(Rule::Orphan, "", message))
}

/// Whether an object no node owns would be of an array, if that had a document. Those where
/// a heal puts `time` are its business, and those of a v2 array have a node of their own.
fn is_orphan(tree: &Tree, key: &str) -> bool {
    array_by_name(key).is_some_and(|path| {
        let is_healed =
            split(path).is_some_and(|(level, name)| name == TIME && tree.group(level).is_some());
        let is_old = tree.objects.contains_key(&join(path, ".zarray"));
        let is_below = tree.array_above(key).is_some() || tree.documents.contains_key(path);
        !(is_healed || is_old || is_below)
    })
}

fn foreign(tree: &Tree) -> Option<Finding> {
    let keys = tree.foreign().filter(|key| !is_orphan(tree, key));
    let keys: Vec<String> = keys.map(str::to_owned).collect();
    let message = format!(
        "objects that belong to no Zarr v3 node: {}; they are left alone",
        named(&keys)
    );
    (!keys.is_empty()).then(|| Finding::warning(Rule::Foreign, "", message))
}
