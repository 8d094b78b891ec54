//! One orbit of a cube held against the rules of its layout.

use serde::Serialize;
use serde_json::Value;

use super::finding::{Finding, Rule};
use super::layout::{Array, FINEST, Node, TIME, below, join, source_of};
use super::times::{Times, Values, require_plain};
use super::tree::Tree;
use crate::time::iso;

const NANOSECONDS: i64 = 1_000_000_000;

/// An orbit, as a report shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Orbit {
    /// Its path below the root.
    pub path: String,
    /// Length of the finest level's `time`; `None` when there is none.
    pub slices: Option<u64>,
    /// The earliest time of a slice, UTC.
    pub first: Option<String>,
    /// The latest time of a slice, UTC.
    pub last: Option<String>,
    /// The levels the multiscales layout names, in its order.
    pub declared: Vec<String>,
    /// The groups that have arrays along `time`, and the finest level.
    pub levels: Vec<Level>,
}

/// A level, as a report shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Level {
    /// Its path below the root.
    pub path: String,
    /// Whether the layout names it.
    pub declared: bool,
    /// Length of its `time`; `None` when it lacks it.
    pub time: Option<u64>,
    /// Its arrays along `time`.
    pub arrays: Vec<Along>,
}

/// An array along `time`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Along {
    /// Its name within the level.
    pub name: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Its length along `time`.
    pub slices: u64,
}

/// Looks at the orbit at `path`. `times` has the `time` array at a path, if it was read.
pub(super) fn judge<'a>(
    tree: &Tree,
    path: &str,
    times: impl Fn(&str) -> Option<&'a Times>,
) -> (Orbit, Vec<Finding>) {
    let declared = tree.group(path).and_then(|group| group.declared.clone());
    let mut judge = Judge {
        tree,
        orbit: Orbit {
            path: path.to_owned(),
            declared: declared.unwrap_or_default(),
            ..Orbit::default()
        },
        findings: Vec::new(),
    };
    judge.find_levels();
    judge.check_layout();
    if let Some(slices) = judge.find_source(times(&judge.source())) {
        judge.check_lengths(slices);
        judge.check_leftovers();
        for level in judge.orbit.levels.clone() {
            let level_time = join(&level.path, TIME);
            judge.check_times(&level_time, times(&level_time), times(&judge.source()));
        }
    }
    (judge.orbit, judge.findings)
}

struct Judge<'a> {
    tree: &'a Tree,
    orbit: Orbit,
    findings: Vec<Finding>,
}

impl Judge<'_> {
    fn finest(&self) -> String {
        join(&self.orbit.path, FINEST)
    }

    /// Path of the array every other `time` is a copy of.
    fn source(&self) -> String {
        source_of(&self.orbit.path)
    }

    fn refuse(&mut self, rule: Rule, path: &str, message: String) {
        self.findings.push(Finding::refusal(rule, path, message));
    }

    /// Children with arrays along `time` are levels, whatever they are called.
    fn find_levels(&mut self) {
        for (name, node) in self.tree.children(&self.orbit.path) {
            let path = join(&self.orbit.path, name);
            if let Node::Array(_) = node {
                continue;
            }
            let arrays: Vec<Along> = self.tree.children(&path).filter_map(along).collect();
            if arrays.is_empty() && name != FINEST {
                continue;
            }
            let time = self.tree.array(&join(&path, TIME));
            self.orbit.levels.push(Level {
                declared: self.orbit.declared.iter().any(|level| level == name),
                time: time.map(|time| time.shape.first().copied().unwrap_or_default()),
                arrays,
                path,
            });
        }
    }

    fn check_layout(&mut self) {
        for name in self.orbit.declared.clone() {
            let path = join(&self.orbit.path, &name);
            let message = match self.tree.node(&path) {
                None => "is not there".to_owned(),
                Some(Node::Array(_)) => "is an array".to_owned(),
                Some(Node::Group(_)) => {
                    let level = self.orbit.levels.iter().find(|level| level.path == path);
                    if level.is_some_and(|level| !level.arrays.is_empty()) {
                        continue;
                    }
                    format!("has no array along `{TIME}`")
                }
            };
            let message = format!("`{path}` is a level of the layout and {message}");
            self.refuse(Rule::Layout, &path, message);
        }
        let groups = std::iter::once(self.finest());
        let times = self
            .orbit
            .levels
            .iter()
            .map(|level| join(&level.path, TIME));
        let misplaced: Vec<String> = groups
            .filter(|path| self.tree.array(path).is_some())
            .map(|path| format!("`{path}` is an array, where a level is a group"))
            .chain(
                times
                    .filter(|path| self.tree.group(path).is_some())
                    .map(|path| format!("`{path}` is a group, where `{TIME}` is an array")),
            )
            .collect();
        for message in misplaced {
            let path = self.orbit.path.clone();
            self.refuse(Rule::Metadata, &path, message);
        }
    }

    /// The length of the finest level's `time`, when it can be copied from.
    fn find_source(&mut self, times: Option<&Times>) -> Option<u64> {
        let (finest, source) = (self.finest(), self.source());
        let Some(array) = self.tree.array(&source) else {
            self.refuse_without_source(&finest);
            return None;
        };
        self.orbit.slices = Some(array.shape.first().copied().unwrap_or_default());
        if let Err(reason) = require_plain(array) {
            let message = format!("`{source}` cannot be copied from: {reason}");
            self.refuse(Rule::Source, &source, message);
            return None;
        }
        match times.map(|times| &times.values) {
            Some(Values::Damaged(reason)) => {
                let message = format!("`{source}` cannot be read: {reason}");
                self.refuse(Rule::Source, &source, message);
                return None;
            }
            Some(Values::Known { times, fill }) => self.note_values(&source, times, *fill),
            Some(Values::Unread) | None => self.findings.push(Finding::warning(
                Rule::Times,
                &source,
                format!("the values of `{source}` were not looked at: its codecs are not known"),
            )),
        }
        if units(self.tree, &source).is_none() {
            self.findings.push(Finding::warning(
                Rule::Times,
                &source,
                format!("`{source}` has no CF units, and neither may its copies"),
            ));
        }
        self.orbit.slices
    }

    /// Without a source, slices anywhere are slices whose times nobody knows.
    fn refuse_without_source(&mut self, finest: &str) {
        let holds = |level: &&Level| level.arrays.iter().any(|array| array.slices > 0);
        let of_finest = |level: &&Level| level.path == finest;
        let mut levels = self.orbit.levels.iter().filter(holds);
        let is_there = self.tree.group(finest).is_some();
        let message = if let Some(level) = levels.clone().find(of_finest) {
            let slices = level.arrays.iter().map(|array| array.slices).max();
            format!(
                "`{finest}` holds {} slices and has no `{TIME}`, so their times are not known",
                slices.unwrap_or_default()
            )
        } else if let Some(level) = levels.next() {
            let lack = if is_there {
                "has no slices"
            } else {
                "is not there"
            };
            format!("`{}` holds slices, but `{finest}` {lack}", level.path)
        } else if is_there {
            let message = format!(
                "`{finest}` has no `{TIME}` and no slices, so the first append fails; there is nothing to \
                 copy, build the cube anew"
            );
            self.findings
                .push(Finding::aside(Rule::Source, finest, message));
            return;
        } else {
            return;
        };
        self.refuse(Rule::Source, finest, message);
    }

    fn note_values(&mut self, source: &str, times: &[i64], fill: i64) {
        let text = |time: &i64| iso(time.div_euclid(NANOSECONDS));
        self.orbit.first = times.iter().min().map(text);
        self.orbit.last = times.iter().max().map(text);
        if let Some(index) = times.iter().position(|time| *time == fill) {
            self.findings.push(Finding::warning(
                Rule::Times,
                source,
                format!(
                    "time {index} of `{source}` is the fill value, {}: it may never have been written",
                    text(&fill)
                ),
            ));
        }
    }

    fn check_lengths(&mut self, slices: u64) {
        let source = self.source();
        for level in self.orbit.levels.clone() {
            if level.time.is_none() {
                let message = format!("level `{}` has no `{TIME}`", level.path);
                self.findings
                    .push(Finding::mendable(Rule::MissingTime, &level.path, message));
            }
            let time = join(&level.path, TIME);
            let odd = |array: &&Array| array.shape.len() != 1 || array.time_axis().is_none();
            if self.tree.array(&time).as_ref().is_some_and(odd) {
                let message = format!("`{time}` is no array of one dimension named `{TIME}`");
                self.refuse(Rule::Times, &time, message);
            }
            for array in level.arrays.iter().filter(|array| array.slices != slices) {
                let path = join(&level.path, &array.name);
                let message = format!(
                    "`{path}` has {} slices, `{source}` has {slices}; an append may have been cut short",
                    array.slices
                );
                self.refuse(Rule::Lengths, &path, message);
            }
        }
    }

    /// Objects where a copy would go. Those that a copy writes are of a heal that was cut
    /// short; any other would come to life under it.
    fn check_leftovers(&mut self) {
        let source = self.source();
        let Some(array) = self.tree.array(&source).cloned() else {
            return;
        };
        let levels = self.orbit.levels.clone();
        for level in levels.iter().filter(|level| level.time.is_none()) {
            let time = join(&level.path, TIME);
            let keys = self.tree.objects.keys();
            let comes_alive = |key: &&String| {
                below(key, &time).is_some_and(|name| {
                    array.owns(name) && !self.tree.objects.contains_key(&join(&source, name))
                })
            };
            for key in keys.filter(comes_alive).cloned().collect::<Vec<_>>() {
                let message = format!(
                    "`{key}` belongs to no array and has no counterpart below `{source}`; a copied \
                     `{TIME}` would take it for its own, so look what it is and delete it first"
                );
                self.refuse(Rule::Leftover, &level.path, message);
            }
        }
    }

    /// Every `time` is a copy of the finest level's.
    fn check_times(&mut self, path: &str, times: Option<&Times>, source: Option<&Times>) {
        let source_path = self.source();
        if path == source_path || self.tree.array(path).is_none() {
            return;
        }
        let attributes = |path: &str| {
            let document = self.tree.documents.get(path)?.value.as_ref()?;
            document.get("attributes").cloned()
        };
        let values =
            |times: Option<&Times>| times.and_then(|times| Some(times.values.times()?.to_vec()));
        let differs = match (
            times.map(|times| &times.values),
            values(times),
            values(source),
        ) {
            (Some(Values::Damaged(reason)), ..) => format!("cannot be read: {reason}"),
            (_, Some(here), Some(there)) if here.len() == there.len() && here != there => {
                format!("has other values than `{source_path}`")
            }
            _ if attributes(path) != attributes(&source_path) => {
                format!("has other attributes than `{source_path}`, which xarray refuses")
            }
            _ => return,
        };
        let message = format!("`{path}` {differs}");
        self.findings
            .push(Finding::aside(Rule::Times, path, message));
    }
}

fn along((name, node): (&str, &Node)) -> Option<Along> {
    match node {
        Node::Array(array) => Some(Along {
            name: name.to_owned(),
            shape: array.shape.clone(),
            slices: array.slices()?,
        }),
        Node::Group(_) => None,
    }
}

fn units<'a>(tree: &'a Tree, path: &str) -> Option<&'a Value> {
    let document = tree.documents.get(path)?.value.as_ref()?;
    document.pointer("/attributes/units")
}
