//! What a seed stands for: a store, and runs over it under faults.

use std::fmt;
use std::time::Duration;

use zagg_stream::Steps;

use crate::common::cases::{Law, MANIFEST, NAMES};
use crate::common::compare::COVERAGE;
use crate::common::dice::Dice;
use crate::common::faults::{Failure, Op, Rule};
use crate::common::library::LEASE;

/// Runs under faults, at most.
const MAX_RUNS: u64 = 3;

/// Cases of few objects.
const SMALL: [&str; 3] = ["plain", "flux", "deep"];

/// The latest write a run is cut off at.
const LATEST_WRITE: u64 = 400;

/// How often, in a hundred calls, a fault strikes.
const RATES: [u64; 5] = [1, 3, 10, 30, 60];

/// Where the store lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In memory.
    Memory,
    /// On a local disk.
    Disk,
    /// At an S3 server, which rewrites without conditions when `false`.
    S3 { rewrites: bool },
    /// At the real S3 server, behind a wrapper that has the faults.
    Moto,
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As it comes.
    ByItself,
    /// After so many writes the store answers nothing any more.
    CutOff { after: u64 },
    /// After so many writes the process is killed; only on a disk, and without faults.
    Killed { after: u64 },
}

/// What becomes of the lease between two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseIs {
    /// The operator gives it back.
    Released,
    /// It has expired.
    Expired,
}

/// What befalls some calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Fails(Failure),
    LosesAnswers(Failure),
    Tears(usize),
    CutsShort(usize),
    Stalls,
    Panics,
    Reorders,
}

/// Which calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    All,
    Leaves,
    Columns,
    Ladder,
    AtTheRoot,
}

impl Keys {
    fn include(self, key: &str) -> bool {
        let below_a_column = key.contains(".pyramid.");
        let below_an_artifact = key.contains(".zarr") || key.ends_with(".stats.json");
        let at_the_root = [MANIFEST, COVERAGE, LEASE];
        match self {
            Self::All => true,
            Self::Leaves => key.contains(".zarr/6/") && !below_a_column,
            Self::Columns => below_a_column,
            Self::Ladder => below_an_artifact && !below_a_column,
            Self::AtTheRoot => at_the_root.iter().any(|name| key.ends_with(name)),
        }
    }
}

/// One fault.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    kind: Kind,
    keys: Keys,
    percent: u64,
    seed: u64,
}

/// One run under faults.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Its steps.
    pub(crate) steps: Steps,
    /// Whether it writes what is current.
    pub(crate) force: bool,
    /// Its faults.
    pub(crate) faults: Vec<Fault>,
    /// How it ends.
    pub(crate) end: End,
    /// What becomes of its lease, if it leaves one.
    pub(crate) lease: LeaseIs,
    /// Its settings, as TOML.
    pub(crate) toml: String,
}

/// What a seed stands for.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The golden case.
    pub(crate) name: &'static str,
    /// The law.
    pub(crate) law: Law,
    /// Where the store lies.
    pub(crate) place: Place,
    /// The runs under faults, in order.
    pub(crate) runs: Vec<Run>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} in {:?}", self.name, self.law, self.place)?;
        for run in &self.runs {
            let faults = run.faults.iter();
            let faults: Vec<_> = faults
                .map(|fault| format!("{:?} of {:?} {} %", fault.kind, fault.keys, fault.percent))
                .collect();
            let (steps, force, end) = (run.steps, run.force, run.end);
            write!(
                f,
                "; {steps:?} force={force} {end:?} {faults:?} {}",
                run.toml
            )?;
        }
        Ok(())
    }
}

impl Plan {
    /// What this seed stands for.
    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let name = dice.pick(&NAMES);
        let law = *dice.pick(&Law::ALL);
        let place = *dice.pick(&[
            Place::Memory,
            Place::Memory,
            Place::Disk,
            Place::S3 { rewrites: true },
            Place::S3 { rewrites: false },
        ]);
        let runs = 1 + dice.below(MAX_RUNS);
        Self {
            name,
            law,
            place,
            runs: (0..runs).map(|_| Run::of(&mut dice, place)).collect(),
        }
    }
}

impl Plan {
    /// What this seed stands for at the real server: a small case, and one run under faults.
    pub(crate) fn at_moto(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let place = Place::Moto;
        Self {
            name: *dice.pick(&SMALL),
            law: *dice.pick(&Law::ALL),
            place,
            runs: vec![Run::of(&mut dice, place)],
        }
    }
}

impl Run {
    fn of(dice: &mut Dice, place: Place) -> Self {
        let steps = [
            Steps::All,
            Steps::All,
            Steps::All,
            Steps::Columns,
            Steps::Ladder,
        ];
        let steps = *dice.pick(&steps);
        let after = 1 + dice.below(LATEST_WRITE);
        let end = match dice.below(4) {
            0 | 1 => End::CutOff { after },
            2 if place == Place::Disk && steps != Steps::Ladder => End::Killed { after },
            _ => End::ByItself,
        };
        let faults = match end {
            End::Killed { .. } => 0,
            End::CutOff { .. } | End::ByItself => 1 + dice.below(3),
        };
        // Claiming an expired lease takes as long as whoever else wants it may need.
        let lease = match dice.comes_up(10) {
            true => LeaseIs::Expired,
            false => LeaseIs::Released,
        };
        Self {
            steps,
            force: dice.comes_up(20),
            faults: (0..faults).map(|_| Fault::of(dice, place)).collect(),
            end,
            lease,
            toml: format!(
                "max_in_flight = {}\nmax_writers = {}\ntuple_width = {}\nmemory_budget = \"{} MiB\"",
                dice.pick(&[1, 2, 4, 64]),
                dice.pick(&[1, 8]),
                dice.pick(&[1, 2, 3]),
                dice.pick(&[1, 64, 512]),
            ),
        }
    }
}

impl Fault {
    fn of(dice: &mut Dice, place: Place) -> Self {
        let lost = [Failure::Status(500), Failure::HangUp];
        let statuses = [409, 412, 429, 500, 502, 503, 504, 403];
        let bytes = usize::try_from(dice.below(64)).unwrap();
        let over_the_wire = matches!(place, Place::S3 { .. });
        let kind = match dice.below(10) {
            0..=2 => Kind::Fails(Failure::of(*dice.pick(&statuses))),
            3 => Kind::Fails(Failure::Expired),
            4 => Kind::Fails(Failure::HangUp),
            5 | 6 => Kind::LosesAnswers(*dice.pick(&lost)),
            7 => Kind::Tears(bytes),
            8 => Kind::Stalls,
            _ if over_the_wire => Kind::Tears(bytes),
            _ => *dice.pick(&[Kind::CutsShort(bytes), Kind::Panics, Kind::Reorders]),
        };
        let keys = [
            Keys::All,
            Keys::Leaves,
            Keys::Columns,
            Keys::Ladder,
            Keys::AtTheRoot,
        ];
        Self {
            kind,
            keys: match kind {
                Kind::Panics => Keys::Leaves,
                Kind::Reorders => Keys::All,
                _ => *dice.pick(&keys),
            },
            percent: *dice.pick(&RATES),
            seed: dice.throw(),
        }
    }

    /// The fault as a rule.
    pub(crate) fn rule(self) -> Rule {
        const PAUSE: Duration = Duration::from_millis(2);
        let keys = self.keys;
        let on = |ops: &[Op]| {
            let rule = Rule::on(ops.iter().copied());
            rule.key(move |key| keys.include(key))
                .percent(self.percent, self.seed)
        };
        match self.kind {
            Kind::Fails(failure) => on(&Op::ALL).fail(failure),
            Kind::LosesAnswers(failure) => on(&Op::WRITES).lands().fail(failure),
            Kind::Tears(bytes) => on(&Op::READS).tear(bytes),
            Kind::CutsShort(bytes) => on(&Op::READS).truncate(bytes),
            Kind::Stalls => on(&Op::ALL).stall(PAUSE),
            Kind::Panics => on(&Op::READS).panic(),
            Kind::Reorders => on(&Op::LISTS).reorder(self.seed),
        }
    }
}
