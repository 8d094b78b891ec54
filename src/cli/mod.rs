//! The command line: arguments in, one exit code out.

mod args;
mod cube;
mod declare;
mod demo;
mod fleet;
mod invocation;
mod lease;
mod output;
mod pass;
mod plan;
mod progress;
mod receipt;
mod retire;
#[cfg(feature = "serve")]
mod serve;
mod shell;
mod signals;
mod summary;
mod upgrade;
mod verify;
mod worker;

use std::process::ExitCode;

use args::Command;

/// Parses the arguments, runs the command, and says how it ended.
pub fn run() -> ExitCode {
    let args = match invocation::parse() {
        Ok(args) => args,
        Err(code) => return code,
    };
    if let Err(error) = output::start_logging(&args.log) {
        return output::usage(&error);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return output::usage(&format!("cannot start: {error}")),
    };
    let code = runtime.block_on(async {
        match args.command {
            Command::Backfill(options) => pass::backfill(options).await,
            Command::Sweep(options) => pass::sweep(options).await,
            Command::Declare(options) => declare::run(options).await,
            Command::Plan(options) => plan::run(options).await,
            Command::Upgrade(options) => upgrade::run(options).await,
            Command::Retire(options) => retire::run(options).await,
            Command::Verify(options) => verify::run(options).await,
            Command::Lease(command) => lease::run(command).await,
            Command::Cube(command) => cube::run(command).await,
            Command::Demo(options) => demo::run(options).await,
            Command::Completions(options) => shell::completions(&options),
            Command::Man(options) => shell::man(&options),
            #[cfg(feature = "serve")]
            Command::Serve(options) => serve::run(options).await,
            Command::Fleet(command) => fleet::run(command),
            Command::Worker(options) => worker::run(options).await,
        }
    });
    progress::end();
    code
}
