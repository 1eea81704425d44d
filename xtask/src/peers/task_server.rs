//! A home whose process extension has the fixture tools of the scenarios for background tasks.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::process::{cargo_command, run_quietly};
use crate::workspace::{Result, target};

/// The manifest of the extension.
const MANIFEST: &str = "id: task_tools\nname: Task tools\nentrypoint: {command: [./server]}\nmcp: \
    {tools: [greet, slow_compute, failing_job, protocol_error_job, confirm_delete, multi_input, \
    test_tool_with_task]}\n";

/// Builds the extension and makes a new home with it; `program` returns a command of the program.
pub(super) fn make_task_home(home: &Path, program: impl Fn() -> Command) -> Result<()> {
    let build = ["build", "-p", "skillhost-process", "--example", "task_tools"];
    run_quietly(&mut cargo_command(build))?;
    if home.exists() {
        fs::remove_dir_all(home)?;
    }
    let extension = home.join("manifests/task_tools");
    fs::create_dir_all(&extension)?;
    fs::create_dir_all(home.join("sandbox"))?;
    fs::write(extension.join("manifest.yaml"), MANIFEST)?;
    fs::copy(target().join("debug/examples/task_tools"), extension.join("server"))?;
    run_quietly(program().arg("trust").arg(home))
}
