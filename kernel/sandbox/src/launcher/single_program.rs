//! The start of a program that may start no other one, not even itself.
//!
//! A filter refuses every `execve` except for one with the addresses of this start, which are random
//! and unknown to the program: the memory there is gone when it runs.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;

use libc::{SYS_execve, SYS_execveat};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use super::error::{SetupError, StepContext as _};
use crate::isolation::RefusalKind;
use crate::protocol::LaunchRequest;
use crate::sandbox_spec::InputMode;
use crate::sys::{self, SingleStart};

/// Starts the program of a request in this process; returns only with an error.
pub(super) fn execute_program(request: &LaunchRequest) -> SetupError {
    match prepare_start(request) {
        Ok(start) => start_error(request, &start.execute()),
        Err(error) => error,
    }
}

/// Starts the program of a request in a child of this process.
pub(super) fn spawn_program(request: &LaunchRequest) -> Result<Pid, SetupError> {
    // The program closes the pipe, whose end is the sign that it was started.
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).at("start")?;
    let Some(pid) = sys::clone_process(0).at("start")? else {
        drop(reader);
        let error = execute_program(request);
        // Without a reader the parent has ended, and so does this process.
        let _ = std::fs::File::from(writer).write_all(error.message.as_bytes());
        sys::exit_child(125)
    };
    drop(writer);
    match read_error(reader).at("start")? {
        text if text.is_empty() => Ok(pid),
        text => Err(SetupError::new(RefusalKind::Start, "start", text)),
    }
}

fn read_error(reader: OwnedFd) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::from(reader).take(4096).read_to_string(&mut text)?;
    Ok(text)
}

/// Enters the directory of the program, and installs the filter.
fn prepare_start(request: &LaunchRequest) -> Result<SingleStart, SetupError> {
    let text = |text: &str| CString::new(text).at("start");
    let command = request.command.iter().map(|word| text(word)).collect::<Result<Vec<_>, _>>()?;
    let is_absolute = request.command.first().is_some_and(|program| program.starts_with('/'));
    if !is_absolute {
        let message = "a program that may start no other one needs an absolute path";
        return Err(SetupError::new(RefusalKind::Start, "start", message));
    }
    let variables = request.env.iter().map(|(name, value)| text(&format!("{name}={value}")));
    let variables = variables.collect::<Result<Vec<_>, _>>()?;
    let start_error = |error: io::Error| start_error(request, &error);
    std::env::set_current_dir(&request.cwd).map_err(start_error)?;
    if request.stdin == InputMode::Null {
        let null = std::fs::File::open("/dev/null").map_err(start_error)?;
        rustix::stdio::dup2_stdin(&null).at("start")?;
    }
    let start = SingleStart::new(&command, &variables).at("start")?;
    let (arguments, environment) = start.addresses();
    seccompiler::apply_filter(&compile_filter(arguments, environment)?).at("system calls")?;
    Ok(start)
}

fn start_error(request: &LaunchRequest, error: &io::Error) -> SetupError {
    let program = request.command.first().map_or("", |program| program);
    SetupError::new(RefusalKind::Start, "start", format!("{program}: {error}"))
}

/// Compiles the filter that lets one start pass.
fn compile_filter(arguments: u64, environment: u64) -> Result<BpfProgram, SetupError> {
    let other = |number: u8, address: u64| {
        let (length, not) = (SeccompCmpArgLen::Qword, SeccompCmpOp::Ne);
        let condition = SeccompCondition::new(number, length, not, address).at("system calls")?;
        SeccompRule::new(vec![condition]).at("system calls")
    };
    let rules = BTreeMap::from([
        (SYS_execve, vec![other(1, arguments)?, other(2, environment)?]),
        (SYS_execveat, Vec::new()),
    ]);
    let machine = std::env::consts::ARCH.try_into().at("system calls")?;
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, machine);
    filter.at("system calls")?.try_into().at("system calls")
}
