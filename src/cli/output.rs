//! What a person or a program reads: results on stdout, everything else on stderr.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::{Value, json};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use super::args::{LogArgs, LogFormat};
use super::progress::{self, Heard, Screen};

/// Exit code of a command that was not understood.
pub(super) const USAGE: u8 = 2;

/// Starts logging and progress on stderr.
///
/// # Errors
/// When the level is no level and no filter.
pub(super) fn start_logging(args: &LogArgs) -> Result<(), String> {
    let filter = match &args.log_level {
        Some(level) => parse_filter(level)?,
        None => EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info")),
    };
    let screen = Screen::new();
    let progress = progress::start(args.progress, &screen);
    let logs = tracing_subscriber::fmt::layer()
        .with_writer(screen)
        .with_target(false)
        .with_ansi(has_colours());
    let logs = match args.log_format {
        LogFormat::Text => logs.boxed(),
        LogFormat::Json => logs.json().with_ansi(false).boxed(),
    };
    tracing_subscriber::registry()
        .with(logs.with_filter(filter))
        .with(progress.map(|layer| layer.with_filter(Heard)))
        .init();
    Ok(())
}

/// Colours are for terminals of those who have not said that they want none
/// (<https://no-color.org>).
fn has_colours() -> bool {
    let declined = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stderr().is_terminal() && !declined && !is_dumb
}

/// A bare word is a level: as a filter, a mistyped one would name a target and silence all.
fn parse_filter(text: &str) -> Result<EnvFilter, String> {
    if !text.contains(['=', ',']) && text.parse::<LevelFilter>().is_err() {
        return Err(format!(
            "--log-level `{text}` is no level: error, warn, info, debug or trace"
        ));
    }
    EnvFilter::builder()
        .parse(text)
        .map_err(|error| format!("--log-level `{text}`: {error}"))
}

/// Prints a result on stdout, below the progress that came before it. A reader that has gone
/// away is no fault.
pub(super) fn print(text: &str) {
    progress::end();
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{text}");
    let _ = stdout.flush();
}

/// Prints a result as one JSON document that names its command.
pub(super) fn print_json(command: &str, result: &impl Serialize) {
    let mut document = json!({"command": command});
    if let (Some(document), Ok(Value::Object(result))) =
        (document.as_object_mut(), serde_json::to_value(result))
    {
        document.extend(result);
    }
    print(&format!("{document:#}"));
    HAS_DOCUMENT.store(true, Ordering::Relaxed);
}

/// The command whose result is to be a JSON document, also when it is not understood or ends
/// at once.
static COMMAND_OF_DOCUMENT: OnceLock<String> = OnceLock::new();

/// Whether that document has been printed.
static HAS_DOCUMENT: AtomicBool = AtomicBool::new(false);

/// Notes that `command` owes a JSON document.
pub(super) fn owe_json(command: &str) {
    // The first one is the command that was typed.
    let _ = COMMAND_OF_DOCUMENT.set(command.to_owned());
}

/// Prints the document that is owed, if one is and none was printed.
pub(super) fn print_owed(outcome: &str, exit_code: u8, error: &str) {
    let Some(command) = COMMAND_OF_DOCUMENT.get() else {
        return;
    };
    if !HAS_DOCUMENT.load(Ordering::Relaxed) {
        let document = json!({"outcome": outcome, "exit_code": exit_code, "error": error});
        print_json(command, &document);
    }
}

/// Prints an error on stderr.
pub(super) fn complain(text: &str) {
    progress::end();
    let _ = writeln!(io::stderr(), "error: {text}");
}

/// A command that was not understood.
pub(super) fn usage(text: &str) -> ExitCode {
    print_owed("usage", USAGE, text);
    complain(text);
    ExitCode::from(USAGE)
}

/// A number of bytes for people.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    const STEP: f64 = 1024.0;
    let mut value = count as f64;
    let mut unit = 0;
    while value >= STEP && unit + 1 < UNITS.len() {
        value /= STEP;
        unit += 1;
    }
    if unit == 0 {
        format!("{count} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}
