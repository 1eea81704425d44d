//! The `skillhost` binary: the composition root.

mod cli;
mod commands;
mod completion;
mod failures;
mod in_process;
mod kernel_session;
mod known_ids;
mod model_tests;
mod review_ledger;

fn main() -> std::process::ExitCode {
    skillhost_sandbox::exit_if_launcher();
    commands::main()
}
