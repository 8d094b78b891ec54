use super::args::DemoArgs;
use std::process::ExitCode;
pub(super) async fn run(_: DemoArgs) -> ExitCode {
    ExitCode::SUCCESS
}
