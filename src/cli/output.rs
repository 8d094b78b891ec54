//! What a person or a program reads: results on stdout, everything else on stderr.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Value, json};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::args::{LogArgs, LogFormat};

/// Exit code of a command that was not understood.
pub(super) const USAGE: u8 = 2;

/// Starts logging on stderr.
///
/// # Errors
/// When the level is no level and no filter.
pub(super) fn start_logging(args: &LogArgs) -> Result<(), String> {
    let filter = match &args.log_level {
        Some(level) => parse_filter(level)?,
        None => EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info")),
    };
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(false);
    match args.log_format {
        LogFormat::Text => logs.init(),
        LogFormat::Json => logs.json().init(),
    }
    Ok(())
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

/// Prints a result on stdout. A reader that has gone away is no fault.
pub(super) fn print(text: &str) {
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
}

/// Prints an error on stderr.
pub(super) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "error: {text}");
}

/// A command that was not understood.
pub(super) fn usage(text: &str) -> ExitCode {
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
