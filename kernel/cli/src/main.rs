//! The `skillhost` binary: the composition root, and the only crate that prints.

mod cli;
mod commands;
mod error;
mod exit;
mod output;
#[cfg(test)]
mod reference;
mod sanitise;
mod session;

fn main() -> std::process::ExitCode {
    commands::main()
}
