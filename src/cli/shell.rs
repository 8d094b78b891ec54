//! `completions` and `man`: what a shell and a reader of manuals want of the command line.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args as ClapArgs, CommandFactory};
use clap_complete::Shell;

use super::args::Args;
use super::output;
use crate::report::Ending;

/// Name of the program.
const PROGRAM: &str = "zagg-stream";

#[derive(Debug, ClapArgs)]
pub(super) struct CompletionsArgs {
    /// The shell.
    pub shell: Shell,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ManArgs {
    /// Directory for a page of each command; without it the main page is printed.
    pub dir: Option<PathBuf>,
}

pub(super) fn completions(args: &CompletionsArgs) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), PROGRAM, &mut script);
    output::print(String::from_utf8_lossy(&script).trim_end());
    ExitCode::SUCCESS
}

pub(super) fn man(args: &ManArgs) -> ExitCode {
    let written = match &args.dir {
        Some(dir) => write_pages(dir),
        None => print_page(),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&format!("the man page cannot be written: {error}"));
            ExitCode::from(Ending::Refused.exit_code())
        }
    }
}

fn print_page() -> io::Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Args::command()).render(&mut page)?;
    output::print(String::from_utf8_lossy(&page).trim_end());
    Ok(())
}

fn write_pages(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Args::command(), dir)
}

#[cfg(test)]
mod tests {
    use clap::{Command, Parser};

    use super::*;

    /// Examples of a command and all below it.
    fn examples(command: &Command, found: &mut Vec<(String, String)>) {
        let about = command.get_long_about().map(ToString::to_string);
        let lines = about.iter().flat_map(|about| about.lines());
        for example in lines.filter_map(|line| line.strip_prefix("Example: ")) {
            found.push((command.get_name().to_owned(), example.to_owned()));
        }
        for below in command.get_subcommands() {
            examples(below, found);
        }
    }

    #[test]
    fn every_command_has_one_example_that_can_be_typed() {
        let command = Args::command();
        let mut found = Vec::new();
        examples(&command, &mut found);
        for below in command.get_subcommands() {
            let name = below.get_name();
            let of_it = found.iter().filter(|(of, _)| of == name).count();
            assert_eq!(of_it, 1, "`{name}` has {of_it} examples");
        }
        for (name, example) in found {
            let parsed = Args::try_parse_from(example.split(' '));
            assert!(
                parsed.is_ok(),
                "{name}: `{example}`: {}",
                parsed.unwrap_err()
            );
        }
    }

    #[test]
    fn every_command_has_a_man_page() {
        let dir = tempfile::tempdir().unwrap();
        write_pages(dir.path()).unwrap();
        for page in [
            "zagg-stream.1",
            "zagg-stream-upgrade.1",
            "zagg-stream-cube-heal.1",
        ] {
            let text = std::fs::read_to_string(dir.path().join(page)).unwrap();
            assert!(text.contains(".SH SYNOPSIS"), "{page}");
        }
    }
}
