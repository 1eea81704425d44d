//! The `skillhost` binary: the composition root.

mod cli;
mod commands;
mod failures;
mod in_process;
mod kernel_session;
#[cfg(test)]
mod reference;

fn main() -> std::process::ExitCode {
    commands::main()
}
