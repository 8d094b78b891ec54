//! What was typed, understood or not.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::args::Args;
use super::output::{self, USAGE};

/// Parses the arguments. What cannot be parsed has been told, in JSON, too, when that was
/// asked for.
///
/// # Errors
/// The exit code that is left to return.
pub(super) fn parse() -> Result<Args, ExitCode> {
    let typed: Vec<OsString> = std::env::args_os().collect();
    if typed.iter().any(|arg| arg == "--json") {
        output::owe_json(&command_of(&typed));
    }
    Args::try_parse_from(&typed).map_err(|error| {
        let is_asked_for = matches!(
            error.kind(),
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
        );
        if !is_asked_for {
            output::print_owed("usage", USAGE, error.to_string().trim_end());
        }
        // A reader that has gone away is no fault.
        let _ = error.print();
        ExitCode::from(if is_asked_for { 0 } else { USAGE })
    })
}

/// The command that was typed, as far as it can be told.
fn command_of(typed: &[OsString]) -> String {
    let mut command = Args::command();
    let mut names = Vec::new();
    for word in typed.iter().skip(1).filter_map(|arg| arg.to_str()) {
        if let Some(below) = command.find_subcommand(word) {
            names.push(word);
            command = below.clone();
        }
    }
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_named_after_the_command() {
        for (line, command) in [
            ("zagg-stream upgrade --json", "upgrade"),
            ("zagg-stream lease show --json", "lease show"),
            ("zagg-stream --log-level debug verify --json", "verify"),
            ("zagg-stream --json", ""),
        ] {
            let typed: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(command_of(&typed), command);
        }
    }
}
