//! The staged ladder above the columns: which artifacts it has, whether they are current,
//! how they are built, and what its finisher writes last (`format.md` section 9).

pub(crate) mod build;
pub(crate) mod children;
pub(crate) mod content;
mod coverage;
pub(crate) mod finish;
pub(crate) mod fold;
pub(crate) mod gate;
pub(crate) mod generation;
pub(crate) mod sources;
pub(crate) mod targets;
pub(crate) mod template;

use std::sync::Arc;

use crate::error::Error;
use crate::run::Run;
use crate::store::template::ColumnTemplate;

pub(crate) use targets::{LadderWork, Target};
pub(crate) use template::{LadderTemplate, TemplateError};

/// A ladder to be built by a run.
pub(crate) struct Ladder {
    pub run: Arc<Run>,
    pub template: LadderTemplate,
    /// When the run began, in seconds since the epoch; what others stamped later was
    /// stamped beside it.
    pub started: i64,
}

impl Ladder {
    /// The ladder above columns of this template.
    ///
    /// # Errors
    /// When the declaration has none that can be built.
    pub(crate) fn new(run: Arc<Run>, column: Arc<ColumnTemplate>) -> Result<Self, Error> {
        Ok(Self {
            template: LadderTemplate::new(column)?,
            started: run.clock.now().unix_seconds(),
            run,
        })
    }

    /// The column that another sweep stamped after this one began, if there is one.
    pub(crate) fn foreign<'a>(
        &self,
        columns: &'a children::Children,
    ) -> Option<&'a children::ChildColumn> {
        columns.columns.iter().find(|column| {
            let other = column
                .stamp
                .run_id()
                .is_some_and(|run_id| run_id != self.run.run_id);
            let later = column.stamp.instant().is_some_and(|at| at > self.started);
            other && later
        })
    }
}
