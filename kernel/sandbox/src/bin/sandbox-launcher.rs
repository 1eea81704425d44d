//! The launcher alone, for tests: the product re-executes its own binary.

fn main() -> std::process::ExitCode {
    skillhost_sandbox::exit_if_launcher();
    std::process::ExitCode::from(2)
}
