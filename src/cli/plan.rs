//! `plan`: what `upgrade` would do, on one screen.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use super::args::{LeverArgs, PlanArgs, RunArgs};
use super::{declare, output, pass};
use crate::declare::Declare;
use crate::kernels::plan::FoldLaw;
use crate::messages::Reason;
use crate::plan::{
    Bearing, Cost, PeakMemory, Plan, Planned, PlannedColumns, PlannedLadder, PlannedStep, Work,
};
use crate::report::Ending;
use crate::store::Root;

/// Obstacles a screen has room for; the JSON document has more.
const OBSTACLES_SHOWN: usize = 10;

pub(super) async fn run(args: PlanArgs) -> ExitCode {
    if args.config.is_none() && has_lever(&args.lever) {
        return output::usage("--overviews and --chunk-order need --config FILE");
    }
    let mut settings = match pass::settings(&args.run) {
        Ok(settings) => settings,
        Err(error) => return output::usage(&error),
    };
    settings.tuple_width = args.ladder.tuple_width.unwrap_or(settings.tuple_width);
    let root = match Root::open_with(&args.run.root, std::env::vars()) {
        Ok(root) => root,
        Err(error) => {
            output::complain(&error.to_string());
            return ExitCode::from(Ending::Refused.exit_code());
        }
    };
    let declare = match args
        .config
        .as_deref()
        .map(|path| declaration(&root, path, &args.lever))
    {
        None => None,
        Some(Ok(declare)) => Some(declare),
        Some(Err(error)) => return output::usage(&error),
    };
    let plan = Plan::new(root).settings(settings).declare(declare);
    let planned = plan.make().await;
    if args.run.json {
        output::print_json("plan", &planned);
    } else {
        output::print(&summary(&planned, &command(&args)));
    }
    ExitCode::from(planned.exit_code)
}

fn has_lever(lever: &LeverArgs) -> bool {
    lever.chunk_order.is_some() || !lever.overviews.is_empty()
}

fn declaration(root: &Root, config: &Path, lever: &LeverArgs) -> Result<Declare, String> {
    let text = declare::read_config(config)?;
    let declare = Declare::new(root.clone(), &text).map_err(|error| error.to_string())?;
    Ok(declare.lever(declare::lever(lever)))
}

/// The command that does what was planned, as it is typed.
fn command(args: &PlanArgs) -> String {
    let RunArgs {
        root,
        fold_law,
        force,
        dry_run: _,
        shards,
        memory_budget,
        max_in_flight,
        settings,
        json: _,
    } = &args.run;
    let mut words = vec!["zagg-stream".to_owned(), "upgrade".to_owned(), quoted(root)];
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.push(format!("--{name} {}", quoted(&value)));
        }
    };
    let path =
        |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    option("config", path(&args.config));
    let overviews: Vec<String> = args.lever.overviews.iter().map(u8::to_string).collect();
    option(
        "overviews",
        (!overviews.is_empty()).then(|| overviews.join(",")),
    );
    option(
        "chunk-order",
        args.lever.chunk_order.map(|order| order.to_string()),
    );
    let law = fold_law.map(|law| match law {
        FoldLaw::Boundary => "boundary".to_owned(),
        FoldLaw::Raw => "raw".to_owned(),
    });
    option("fold-law", law);
    option(
        "tuple-width",
        args.ladder.tuple_width.map(|width| width.to_string()),
    );
    option(
        "memory-budget",
        memory_budget.map(|bytes| bytes.to_string()),
    );
    option(
        "max-in-flight",
        max_in_flight.map(|leaves| leaves.to_string()),
    );
    option("settings", path(settings));
    if !shards.is_empty() {
        // Joined by a sign, because an id may begin with a minus.
        words.push(format!("--shards={}", quoted(&shards.join(","))));
    }
    if *force {
        words.push("--force".to_owned());
    }
    words.join(" ")
}

/// A word as a POSIX shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn summary(planned: &Planned, command: &str) -> String {
    let mut text = String::new();
    // Writing to a String does not fail, here and below.
    let _ = writeln!(text, "plan {}: {}", planned.root, headline(planned));
    if !planned.steps.is_empty() {
        let _ = write!(text, "{}", table(planned));
    }
    if let Some(columns) = planned.columns() {
        let _ = write!(text, "{}", columns_text(columns));
    }
    if let Some(ladder) = planned.ladder() {
        let _ = write!(text, "{}", ladder_text(ladder));
    }
    if let Some(memory) = &planned.memory {
        let _ = writeln!(text, "  {}", memory_text(memory));
    }
    if let Some(store) = &planned.store {
        let _ = writeln!(text, "  store: {store}");
    }
    for obstacle in planned.obstacles.iter().take(OBSTACLES_SHOWN) {
        let severity = match obstacle.severity {
            Bearing::Blocking => "blocks",
            Bearing::Warning => "warning",
        };
        let _ = writeln!(
            text,
            "  {severity}: {}: {}",
            obstacle.about, obstacle.problem
        );
        let _ = writeln!(text, "    do: {}", obstacle.cure);
    }
    if planned.obstacles.len() > OBSTACLES_SHOWN {
        let more = planned.obstacles.len() - OBSTACLES_SHOWN;
        let _ = writeln!(text, "  {more} more warnings, see --json");
    }
    let _ = write!(text, "next: {command}");
    text
}

fn headline(planned: &Planned) -> &'static str {
    if planned.is_blocked {
        "an upgrade would be refused"
    } else if planned.is_anything_due() {
        "an upgrade can begin"
    } else {
        "everything is current, an upgrade would write nothing"
    }
}

/// The steps with what they ask of the store, in columns.
fn table(planned: &Planned) -> String {
    let mut text = format!(
        "  {:<8} {:<26} {:>9} {:>9} {:>9} {:>9} {:>11} {:>11}\n",
        "step", "what", "GET", "PUT", "DELETE", "LIST", "read", "written"
    );
    let mut row = |name: &str, what: &str, cost: &Cost| {
        let _ = writeln!(
            text,
            "  {name:<8} {what:<26} {:>9} {:>9} {:>9} {:>9} {:>11} {:>11}",
            cost.get,
            cost.put,
            cost.delete,
            cost.list,
            output::bytes(cost.bytes_read),
            output::bytes(cost.bytes_written),
        );
    };
    let is_verify = |step: &&PlannedStep| matches!(step.work, Work::Verify(_));
    let steps = || planned.steps.iter();
    for step in steps().filter(|step| !is_verify(step)) {
        let (name, what) = labels(&step.work);
        row(name, &what, &step.cost);
    }
    row("total", "", &planned.total);
    for step in steps().filter(is_verify) {
        let (name, what) = labels(&step.work);
        row(name, &what, &step.cost);
    }
    text
}

fn labels(work: &Work) -> (&'static str, String) {
    match work {
        Work::Declare(declare) if declare.would_update => {
            ("declare", "manifest rewritten".to_owned())
        }
        Work::Declare(_) => ("declare", "as it stands".to_owned()),
        Work::Columns(columns) => {
            let counts = &columns.counts;
            let what = format!("{} due, {} current", counts.planned, counts.current);
            ("columns", what)
        }
        Work::Ladder(ladder) if ladder.waits.is_some() => ("ladder", "waits".to_owned()),
        Work::Ladder(ladder) => {
            let what = format!("{} due, {} current", ladder.due(), ladder.current());
            ("ladder", what)
        }
        Work::Verify(verify) => {
            let what = format!("{} read back, apart", verify.columns + verify.artifacts);
            ("verify", what)
        }
    }
}

fn columns_text(columns: &PlannedColumns) -> String {
    let mut text = String::new();
    let due: Vec<String> = Reason::ALL
        .into_iter()
        .map(|reason| (columns.verdicts.of(reason), reason.as_str()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, reason)| format!("{count} {reason}"))
        .collect();
    if !due.is_empty() {
        let _ = writeln!(text, "  columns due: {}", due.join(", "));
    }
    let counts = &columns.counts;
    for (count, what) in [
        (counts.empty, "without a committed leaf"),
        (counts.failed, "cannot be judged"),
        (counts.skipped, "record rows skipped"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "  leaves passed over: {count} {what}");
        }
    }
    if counts.planned > 0 {
        let from = match columns.listed < counts.planned {
            true => format!(
                "scaled from {} of {} leaves",
                columns.listed, counts.planned
            ),
            false => "from the leaves' listings".to_owned(),
        };
        let _ = writeln!(
            text,
            "  estimates: reads {from}; PUTs are at most as many; bytes written are reckoned"
        );
    }
    text
}

fn ladder_text(ladder: &PlannedLadder) -> String {
    let mut text = String::new();
    if let Some(waits) = &ladder.waits {
        let _ = writeln!(text, "  ladder: {waits}");
    }
    for level in &ladder.levels {
        let _ = writeln!(
            text,
            "  ladder order {:>2}: cells of order {:>2}, {:<12} {:>6} due, {:>6} current",
            level.order,
            level.cells,
            level.regime.as_str(),
            level.due,
            level.current
        );
    }
    text
}

fn memory_text(memory: &PeakMemory) -> String {
    format!(
        "peak memory about {}: budget {}, a block over it {}, columns under construction {}",
        output::bytes(memory.total()),
        output::bytes(memory.budget),
        output::bytes(memory.block),
        output::bytes(memory.columns),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_or_change_them() {
        for plain in ["s3://bucket/a-b_c", "/data/x.yaml", "--shards=-31223,11"] {
            assert_eq!(quoted(plain), plain);
        }
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("$HOME"), "'$HOME'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
