//! Child processes that run foreign code: process extensions, builds, trials and scripts.
//!
//! This is the one place that starts them, so that every limit applies to all of them.
//!
//! In isolation: `sandboxed_child` starts this binary again as a `launcher`, which gives up
//! everything that the policy does not allow, starts the program and watches its limits;
//! `protocol` has the messages between both, `isolation` the report; `probe` tells what a run would
//! reach, and `kernel_settings` why a machine does not offer more. Without isolation: `launch`
//! describes a program and its complete environment, `group` signals all processes of a child.
//! `child` is a long-running child with pipes, `limited_run` runs a program to its exit within
//! limits. `program_files` finds the files that a program needs, `orphans` ends the children of a killed kernel, `parent` this process with its parent,
//! and `printable` makes output safe to show. `sys` has the system calls that need `unsafe`.

mod child;
mod group;
mod isolation;
#[cfg(target_os = "linux")]
mod kernel_settings;
mod launch;
#[cfg(target_os = "linux")]
mod launcher;
mod limited_run;
mod machine;
mod orphans;
#[cfg(not(target_os = "linux"))]
mod other_system;
mod parent;
mod printable;
#[cfg(target_os = "linux")]
mod probe;
mod program_files;
#[cfg(target_os = "linux")]
mod protocol;
mod sandbox_spec;
#[cfg(target_os = "linux")]
mod sandboxed_child;
#[cfg(target_os = "linux")]
mod sys;

pub use child::{ChildContainment, ChildProcess, ChildSpec};
pub use isolation::{
    EndCause, FailedLevel, IsolationReport, RefusalKind, RevertAction, RevertedFile, RunEnd,
    SandboxRefusal,
};
pub use launch::{LaunchError, LaunchSpec};
pub use limited_run::{ProcessExit, ProcessLimits, run_limited};
pub use machine::{IsolationGap, MachineIsolation, MachineLevel};
pub use orphans::kill_recorded;
pub use parent::exit_with_parent;
pub use printable::to_printable;
pub use program_files::{ProgramFiles, find_in_path, is_executable, resolve_program};
pub use sandbox_spec::{InputMode, LevelSelection, SandboxError, SandboxSpec, SandboxedExit};

#[cfg(not(target_os = "linux"))]
pub use other_system::{SandboxLauncher, SandboxedChild};
#[cfg(target_os = "linux")]
pub use sandboxed_child::{SandboxLauncher, SandboxedChild};

/// Runs the launcher and exits if this process was started as one.
///
/// The first statement of `main`: the launcher must have one thread and nothing open.
pub fn exit_if_launcher() {
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|argument| argument == protocol::LAUNCHER_ARGUMENT) {
        std::process::exit(i32::from(!launcher::run_launcher()));
    }
}
