//! Verifies one artifact of the ladder against the columns it stands on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::try_join;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::column::foreign;
use super::contents::Contents;
use super::finding::{Check, Subject};
use super::structure;
use super::verifier::Verifier;
use crate::error::LeafFault;
use crate::ladder::Target;
use crate::ladder::children::{Children, sum};
use crate::ladder::fold::Block;
use crate::ladder::generation::SourceChildren;
use crate::ladder::sources::{PIECES_AHEAD, TargetFold};
use crate::ladder::template::Origin;
use crate::pyramid::{Level, Regime};
use crate::store::artifact::Tier;
use crate::store::stamp::{ArtifactRoot, Stamp};
use crate::store::template::GroupTemplate;
use crate::store::{METADATA, json as text};

/// One artifact, what it stands on, and whether that is sound: only then can the artifact
/// be held against it.
struct Standing<'a> {
    verifier: &'a Verifier,
    level: &'a Arc<Level>,
    target: &'a Arc<Target>,
    subject: Subject,
    children: Children,
    is_judged: bool,
}

/// Verifies an artifact of this level; nothing is due where no column stands. Notes
/// whether it is sound.
///
/// # Errors
/// Failed requests.
pub(super) async fn check(
    verifier: &Verifier,
    level: &Arc<Level>,
    target: &Arc<Target>,
) -> Result<(), LeafFault> {
    let root = &verifier.ladder.run.root;
    let children = Children::read(root, &verifier.ladder.template, target).await?;
    if children.columns.is_empty() {
        return Ok(());
    }
    verifier.count(target.artifact.tier, false);
    let standing = Standing {
        verifier,
        level,
        target,
        subject: Subject::of_ladder(&target.artifact),
        is_judged: verifier.stands_on_sound(target),
        children,
    };
    if !standing.is_judged {
        verifier.done.unjudged.fetch_add(1, Ordering::Relaxed);
    }
    let contents = standing.check().await?;
    if target.artifact.tier == Tier::Column {
        let tallies = contents.map(|contents| contents.tallies);
        verifier.note(standing.subject.path, tallies);
    }
    Ok(())
}

impl Standing<'_> {
    /// Everything; what the artifact holds, when it can be looked into.
    async fn check(&self) -> Result<Option<Contents>, LeafFault> {
        let artifact = &self.target.artifact;
        let document = ArtifactRoot::read(&self.verifier.ladder.run.root, artifact).await?;
        let Some((record, stamp)) = document.as_ref().and_then(ArtifactRoot::stamped) else {
            let what = match document {
                None => "is not there, and columns stand below it",
                Some(_) => "is not stamped, so it was never finished",
            };
            self.find(Check::Missing, what);
            return Ok(None);
        };
        let Some(origin) = self.origin(record) else {
            return Ok(None);
        };
        self.check_origin(&origin, &stamp, record);
        let groups = self.groups();
        let attributes = self.attributes(groups).await?;
        let (verifier, subject) = (self.verifier, &self.subject);
        if !structure::check(verifier, subject, groups, attributes.as_ref()).await? {
            return Ok(None);
        }
        let level = Some(&**self.level);
        let contents = Contents::read(verifier, subject, artifact, level, groups).await?;
        let sum = sum(&self.children.columns);
        let sources = (sum.granule_count, sum.time_range);
        let sources = (self.is_judged).then_some((sources.0, sources.1.as_ref()));
        structure::check_stamp(verifier, subject, artifact, &stamp, &contents, sources);
        structure::check_sidecar(verifier, subject, artifact, &stamp, &contents).await?;
        if artifact.tier == Tier::Overview && contents.is_whole {
            let (due, found) = (contents.overview_hash.clone(), record.get("content_hash"));
            if due.as_deref() != found.and_then(Value::as_str) {
                let what = "records another `content_hash` than its cells have";
                let finding = subject.finding(Check::OverviewHash, what);
                let due = due.map(Value::from);
                verifier.findings.add(finding.differs(due, found.cloned()));
            }
        }
        if self.is_judged && contents.is_whole {
            self.check_conservation(&contents);
            self.check_refold(&contents).await?;
        }
        Ok(Some(contents))
    }

    fn find(&self, check: Check, what: &str) {
        self.verifier
            .findings
            .add(self.subject.finding(check, what));
    }

    fn groups(&self) -> &[GroupTemplate] {
        let template = &self.verifier.ladder.template;
        template.groups(self.level, self.target.artifact.tier)
    }

    /// Where the record says the cells came from; `None` when it is another's record.
    fn origin(&self, record: &Value) -> Option<Origin> {
        let (template, artifact) = (&self.verifier.ladder.template, &self.target.artifact);
        let findings = &self.verifier.findings;
        if let Some(finding) = foreign(&self.subject, record, &artifact.id, artifact.label()) {
            findings.add(finding);
            return None;
        }
        let origin = template.origin_of(self.level, artifact, self.target.regime, record);
        if origin.is_none() {
            let what = "records another declaration than the manifest's";
            let mut finding = self.subject.finding(Check::DeclarationDrift, what);
            if let Some((key, due)) = template.drift_of(self.level, artifact, record) {
                let found = record.get(&key);
                finding = finding.differs(
                    Some(json!({ key.as_str(): due })),
                    Some(json!({ key.as_str(): found })),
                );
            }
            findings.add(finding);
        }
        origin
    }

    /// Whether the record goes back to what stands below, and its run is the stamp's.
    fn check_origin(&self, origin: &Origin, stamp: &Stamp, record: &Value) {
        let (findings, artifact) = (&self.verifier.findings, &self.target.artifact);
        let is_all_time = !self.target.windows.contains(&artifact.window);
        if artifact.tier == Tier::Overview && !is_all_time {
            self.verifier
                .note_children(self.level.order, origin.children);
        }
        let SourceChildren {
            missing,
            unreadable,
            ..
        } = origin.children;
        if missing + unreadable > 0 {
            let what = format!(
                "was made without {missing} columns that were missing and {unreadable} that could not be read"
            );
            findings.add(self.subject.finding(Check::SourceChildren, &what).warning());
        }
        let run_id = record.get("run_id").and_then(Value::as_str);
        if run_id != stamp.run_id() {
            let finding = self
                .subject
                .finding(Check::Stamp, "is stamped by another run than it records");
            let found = stamp.run_id().map(Value::from);
            findings.add(finding.differs(run_id.map(Value::from), found));
        }
        if !self.is_judged {
            return;
        }
        let fresh = Origin {
            regime: origin.regime,
            generation: sum(&self.children.columns).generation,
            children: SourceChildren {
                folded: self.target.children.len() as u64 - self.children.missing,
                missing: self.children.missing,
                unreadable: 0,
            },
        };
        if fresh != *origin {
            let what = "was made from other columns than those that stand below it now";
            let says = |origin: &Origin| {
                Some(json!({
                    "generation": origin.generation.to_json(),
                    "source_children": origin.children.to_json(),
                }))
            };
            let finding = self.subject.finding(Check::Stale, what);
            findings.add(finding.differs(says(&fresh), says(origin)));
        }
    }

    /// Attributes of the group that the cells of the first child come from; none while the
    /// children are not sound.
    async fn attributes(
        &self,
        groups: &[GroupTemplate],
    ) -> Result<Option<Map<String, Value>>, LeafFault> {
        let order = match (self.target.artifact.tier, groups.first()) {
            (Tier::Column, Some(group)) => group.order,
            _ => self.level.source,
        };
        let first = self.children.columns.first().filter(|_| self.is_judged);
        let Some(first) = first else {
            return Ok(None);
        };
        let key = format!("{}/{order}/{METADATA}", first.artifact.path());
        let bytes = self.verifier.ladder.run.root.get_if_present(&key).await?;
        let document: Option<Value> = bytes.and_then(|bytes| text::parse(&bytes).ok());
        Ok(document.and_then(|document| document.get("attributes")?.as_object().cloned()))
    }

    fn check_conservation(&self, contents: &Contents) {
        let merges = u8::from(self.target.regime == Regime::Merge);
        let paths: Vec<String> = self
            .children
            .columns
            .iter()
            .map(|column| column.artifact.path())
            .collect();
        for (order, tallies) in &contents.tallies {
            let source = match self.target.artifact.tier {
                Tier::Overview => self.level.source,
                Tier::Column => *order,
            };
            let columns = paths.iter().map(String::as_str);
            let expected = self.verifier.sum_of(columns, source);
            let below = format!("the columns below it, group `{source}`,");
            let pair = (expected.as_slice(), tallies.as_slice());
            self.verifier
                .conserve(&self.subject, &below, *order, pair, merges);
        }
    }

    /// Folds every group anew, as the ladder would, and lets go of what would be written.
    async fn check_refold(&self, contents: &Contents) -> Result<(), LeafFault> {
        let verifier = self.verifier;
        verifier
            .done
            .refolded_artifacts
            .fetch_add(1, Ordering::Relaxed);
        let fold = TargetFold {
            ladder: verifier.ladder.clone(),
            level: self.level.clone(),
            target: self.target.clone(),
        };
        let sources = match fold.open_all(&self.children).await {
            Ok(sources) => sources,
            Err(fault) => {
                verifier.findings.add(self.subject.damage(fault)?);
                return Ok(());
            }
        };
        for (index, sources) in sources.iter().enumerate() {
            let (sender, mut blocks) = mpsc::channel::<Block>(PIECES_AHEAD);
            let mut read = Duration::ZERO;
            let folding = fold.fold_group(index, sources, sender, &mut read);
            let letting_go = async {
                while blocks.recv().await.is_some() {}
                Ok::<_, LeafFault>(())
            };
            match try_join(folding, letting_go).await {
                Ok((folded, ())) => {
                    let below = "the columns below it";
                    structure::check_refold(
                        verifier,
                        &self.subject,
                        below,
                        folded.hashes,
                        contents,
                    );
                }
                Err(fault) => verifier.findings.add(self.subject.damage(fault)?),
            }
        }
        Ok(())
    }
}
