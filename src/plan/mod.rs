//! What an upgrade would do, step by step, and what stands in its way. It writes nothing.
//!
//! The leaves are judged by the gates of the passes; what is read and written follows
//! from listings and from the templates. Numbers that cannot be known before the work is
//! done are upper bounds (PUTs) or estimates by a stated rule (bytes of ragged arrays, see
//! `columns`). Where more leaves are due than are listed, their cost is scaled.

mod columns;
mod judge;
mod ladder;
mod listing;
mod obstacle;
mod planned;
mod shape;
mod steps;

use std::sync::Arc;

use crate::declare::Declare;
use crate::settings::Settings;
use crate::store::Root;
use crate::time::{Clock, SystemClock};

use steps::Draft;

pub use obstacle::{Bearing, Obstacle};
pub use planned::{
    Cost, PeakMemory, Planned, PlannedColumns, PlannedDeclaration, PlannedLadder, PlannedLevel,
    PlannedStep, PlannedVerify, Work,
};

/// A plan of an upgrade, not yet made.
#[derive(Debug, Clone)]
pub struct Plan {
    root: Root,
    settings: Settings,
    declare: Option<Declare>,
    clock: Arc<dyn Clock>,
}

impl Plan {
    /// Prepares a plan of the upgrade of the store at `root`, by what its manifest
    /// declares.
    pub fn new(root: Root) -> Self {
        Self {
            root,
            settings: Settings::default(),
            declare: None,
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// Replaces the default settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Plans with this declaration made first.
    pub fn declare(mut self, declare: Option<Declare>) -> Self {
        self.declare = declare;
        self
    }

    /// Makes the plan. Whatever an upgrade would be refused for, failed requests among
    /// them, is an obstacle in it. Nothing is written, whatever the settings say.
    pub async fn make(self) -> Planned {
        let root = self.root.with_retry(self.settings.retry.clone());
        let mut draft = Draft {
            root,
            settings: self.settings,
            clock: self.clock,
            steps: Vec::new(),
            memory: None,
            obstacles: Vec::new(),
            store: None,
        };
        if let Err(obstacle) = draft.plan(self.declare).await {
            draft.obstacles.push(obstacle);
        }
        let (url, law) = (draft.root.url(), draft.settings.fold_law);
        Planned {
            store: draft.store,
            ..Planned::new(url, law, draft.steps, draft.memory, draft.obstacles)
        }
    }
}
