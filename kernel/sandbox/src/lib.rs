//! Child processes that run foreign code: process extensions, builds and trials.
//!
//! This is the one place that starts them, so that every limit applies to all of them: `launch`
//! describes a program and its complete environment, `group` signals all processes of a child.
//! `child` is a long-running child with pipes, `limited_run` runs a program to its exit within
//! limits. `orphans` ends the children of a killed kernel, `parent` this process with its parent,
//! and `printable` makes output safe to show.

mod child;
mod group;
mod launch;
mod limited_run;
mod orphans;
mod parent;
mod printable;

pub use child::{ChildProcess, ChildSpec};
pub use launch::{LaunchError, LaunchSpec};
pub use limited_run::{ProcessExit, ProcessLimits, run_limited};
pub use orphans::kill_recorded;
pub use parent::exit_with_parent;
pub use printable::to_printable;
