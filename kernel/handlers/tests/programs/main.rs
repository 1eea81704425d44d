//! Programs of skills in real, isolated processes of Node.js and Python.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed setup fails its test")]

mod context;
mod figures;
mod fixture;
mod forms;
mod misbehavior;
mod runtime;
mod supervision;
