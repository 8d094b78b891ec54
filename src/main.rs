//! The `zagg-stream` program.

fn main() -> std::process::ExitCode {
    zagg_stream::cli::run()
}
