//! Which levels a pyramid is to have: the operator's levers, the configuration's own
//! schedule, and the levels that follow from either (`format.md` section 5).

use super::config::{Config, ConfigError, order};
use crate::yaml::Yaml;

const EITHER_LEVER: &str = "give `--overviews N[,N…]`, finest first";

/// What an operator sets of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lever {
    /// The orders of cells at the leaves, finest first.
    Overviews(Vec<u8>),
    /// The order of the chunks, of which the default schedule is made.
    ChunkOrder(u8),
}

/// Why no schedule follows from configuration and lever.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// Raster leaves have another pyramid.
    #[error(
        "the config's `data_source.reader` is raster, whose pyramid this program does not declare; declare it with the program that wrote the store"
    )]
    Raster,
    /// A chunk order completes a default, and there is none.
    #[error(
        "`--chunk-order` completes the default schedule, and the config {says}; {EITHER_LEVER}"
    )]
    NoDefault {
        /// What the config says of its pyramid.
        says: &'static str,
    },
    /// The schedule of the configuration is of the older kind.
    #[error(
        "the config spells a schedule of `zagg-pyramid/1` (`orders` or `spacing`), which this program does not write; {EITHER_LEVER}"
    )]
    OlderSchedule,
    /// Nothing says which levels there are.
    #[error(
        "the config has neither `output.pyramid.overviews` nor `output.grid.chunk_inner`; {EITHER_LEVER}, or `--chunk-order N`"
    )]
    Unknown,
    /// An order does not lie between shards and cells, or the orders do not descend.
    #[error(
        "overviews {levels:?} must descend strictly, each strictly between the shard order {shard_order} and the cell order {cell_order}; {EITHER_LEVER}"
    )]
    Levels {
        /// What was asked for.
        levels: Vec<u8>,
        /// Order of the shards.
        shard_order: u8,
        /// Order of the cells.
        cell_order: u8,
    },
    /// The configuration itself is at fault.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The levels at the leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Orders of cells, finest first; `None` declares the pyramid off.
    pub levels: Option<Vec<u8>>,
    /// What the schedule comes from.
    pub declared_via: &'static str,
    /// What an operator should know about it.
    pub warnings: Vec<String>,
}

/// What the configuration says of its pyramid.
enum Own {
    Off,
    Spelled(Vec<u8>),
    Older,
    Default,
}

/// Finds the schedule for a store of these orders.
///
/// # Errors
/// When lever, configuration and store do not fit each other.
pub(crate) fn schedule(
    config: &Config,
    lever: Option<&Lever>,
    shard_order: u8,
    cell_order: u8,
) -> Result<Schedule, ScheduleError> {
    if lever.is_some() && config.is_raster() {
        return Err(ScheduleError::Raster);
    }
    let schedule = match lever {
        None => own_schedule(config)?,
        Some(Lever::Overviews(levels)) => overriding(levels, &own(config)?),
        Some(Lever::ChunkOrder(order)) => match own(config)? {
            Own::Default => Schedule::of(vec![*order], "chunk-order"),
            Own::Off => return Err(no_default("says `pyramid: false`")),
            Own::Spelled(_) | Own::Older => return Err(no_default("spells a schedule")),
        },
    };
    let fits = |levels: &Vec<u8>| {
        let inside = |level| (shard_order + 1..cell_order).contains(level);
        !levels.is_empty()
            && levels.iter().all(inside)
            && levels.is_sorted_by(|finer, coarser| finer > coarser)
    };
    match &schedule.levels {
        Some(levels) if !fits(levels) => Err(ScheduleError::Levels {
            levels: levels.clone(),
            shard_order,
            cell_order,
        }),
        _ => Ok(schedule),
    }
}

impl Schedule {
    fn of(levels: Vec<u8>, declared_via: &'static str) -> Self {
        Self {
            levels: Some(levels),
            declared_via,
            warnings: Vec::new(),
        }
    }
}

fn no_default(says: &'static str) -> ScheduleError {
    ScheduleError::NoDefault { says }
}

fn overriding(levels: &[u8], own: &Own) -> Schedule {
    let mut schedule = Schedule::of(levels.to_vec(), "overviews");
    let what = match own {
        Own::Off => "says `pyramid: false`",
        Own::Spelled(_) | Own::Older => "spells a schedule",
        Own::Default => return schedule,
    };
    let warning = format!("the config {what}, and --overviews overrides it");
    schedule.warnings.push(warning);
    schedule
}

/// The schedule of the configuration itself.
fn own_schedule(config: &Config) -> Result<Schedule, ScheduleError> {
    match own(config)? {
        Own::Spelled(levels) => Ok(Schedule::of(levels, "config")),
        Own::Older => Err(ScheduleError::OlderSchedule),
        Own::Default => {
            let inner = config.grid("chunk_inner").ok_or(ScheduleError::Unknown)?;
            let inner = order(inner, "output.grid.chunk_inner")?;
            Ok(Schedule::of(vec![inner], "config"))
        }
        Own::Off => Ok(Schedule {
            levels: None,
            declared_via: "config",
            warnings: vec![
                "the config says `pyramid: false`, so the pyramid is declared off; --overviews overrides it"
                    .to_owned(),
            ],
        }),
    }
}

fn own(config: &Config) -> Result<Own, ConfigError> {
    const KEY: &str = "output.pyramid.overviews";
    let pyramid = match config.output("pyramid") {
        None | Some(Yaml::Bool(true)) => return Ok(Own::Default),
        Some(Yaml::Bool(false)) => return Ok(Own::Off),
        Some(pyramid @ Yaml::Map(_)) => pyramid,
        Some(other) => {
            let problem = format!("is {}, and must be a mapping, true or false", other.kind());
            return Err(ConfigError::value("output.pyramid", problem));
        }
    };
    match pyramid.present("overviews") {
        Some(Yaml::List(levels)) => Ok(Own::Spelled(
            levels
                .iter()
                .map(|level| order(level, KEY))
                .collect::<Result<_, _>>()?,
        )),
        Some(level) => Ok(Own::Spelled(vec![order(level, KEY)?])),
        None if ["orders", "spacing"]
            .iter()
            .any(|key| pyramid.present(key).is_some()) =>
        {
            Ok(Own::Older)
        }
        None => Ok(Own::Default),
    }
}

/// The levels of the whole pyramid, as (node, cells): the leaves', then one for each
/// order above, as far from its cells as the coarsest of the leaves' levels.
pub(crate) fn ladder(levels: &[u8], shard_order: u8) -> Vec<(u8, Vec<u8>)> {
    let depth = levels.last().map_or(0, |coarsest| coarsest - shard_order);
    let above = (0..shard_order)
        .rev()
        .map(|node| (node, vec![node + depth]));
    std::iter::once((shard_order, levels.to_vec()))
        .chain(above)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(output: &str, lever: Option<Lever>) -> Result<Schedule, ScheduleError> {
        let text = format!("aggregation: {{variables: {{v: {{}}}}}}\noutput: {{{output}}}");
        schedule(&Config::parse(&text).unwrap(), lever.as_ref(), 4, 8)
    }

    fn levels(output: &str, lever: Option<Lever>) -> Option<Vec<u8>> {
        found(output, lever).unwrap().levels
    }

    const CHUNKED: &str = "grid: {chunk_inner: 6}";

    #[test]
    fn without_a_lever_the_config_decides() {
        assert_eq!(levels(CHUNKED, None), Some(vec![6]));
        assert_eq!(
            levels(&format!("{CHUNKED}, pyramid: true"), None),
            Some(vec![6])
        );
        assert_eq!(levels("pyramid: {overviews: 5}", None), Some(vec![5]));
        assert_eq!(
            levels("pyramid: {overviews: [7, 5]}", None),
            Some(vec![7, 5])
        );
        let off = found("pyramid: off", None).unwrap();
        assert_eq!((off.levels, off.warnings.len()), (None, 1));
        assert_eq!(found("", None), Err(ScheduleError::Unknown));
        assert_eq!(
            found("pyramid: {spacing: 2}", None),
            Err(ScheduleError::OlderSchedule)
        );
        assert!(matches!(
            found("pyramid: 5", None),
            Err(ScheduleError::Config(_))
        ));
        assert!(matches!(
            found("pyramid: {overviews: [a]}", None),
            Err(ScheduleError::Config(_))
        ));
    }

    #[test]
    fn overviews_override_and_say_so() {
        let lever = || Some(Lever::Overviews(vec![6, 5]));
        for (output, warnings) in [
            (CHUNKED, 0),
            ("pyramid: false", 1),
            ("pyramid: {overviews: 7}", 1),
            ("pyramid: {orders: [2]}", 1),
        ] {
            let found = found(output, lever()).unwrap();
            assert_eq!(found.levels, Some(vec![6, 5]));
            assert_eq!(found.warnings.len(), warnings, "{output}");
        }
    }

    #[test]
    fn a_chunk_order_completes_only_a_default() {
        let lever = || Some(Lever::ChunkOrder(7));
        assert_eq!(levels("pyramid: {all_time: true}", lever()), Some(vec![7]));
        for output in [
            "pyramid: no",
            "pyramid: {overviews: 7}",
            "pyramid: {orders: []}",
        ] {
            assert!(
                matches!(found(output, lever()), Err(ScheduleError::NoDefault { .. })),
                "{output}"
            );
        }
    }

    #[test]
    fn levels_descend_strictly_between_shards_and_cells() {
        for bad in [vec![], vec![4], vec![8], vec![5, 6], vec![5, 5], vec![3]] {
            let lever = Some(Lever::Overviews(bad.clone()));
            assert!(
                matches!(found("", lever), Err(ScheduleError::Levels { .. })),
                "{bad:?}"
            );
        }
        let lever = Some(Lever::ChunkOrder(8));
        assert!(matches!(
            found("", lever),
            Err(ScheduleError::Levels { .. })
        ));
    }

    #[test]
    fn a_raster_takes_no_lever() {
        let config =
            Config::parse("data_source: {reader: raster}\naggregation: {variables: {v: {}}}")
                .unwrap();
        for lever in [Lever::Overviews(vec![5]), Lever::ChunkOrder(5)] {
            assert_eq!(
                schedule(&config, Some(&lever), 4, 8),
                Err(ScheduleError::Raster)
            );
        }
    }

    #[test]
    fn the_ladder_goes_down_to_the_root() {
        assert_eq!(
            ladder(&[6, 5, 4], 2),
            [(2, vec![6, 5, 4]), (1, vec![3]), (0, vec![2])]
        );
        assert_eq!(ladder(&[5], 0), [(0, vec![5])]);
    }
}
