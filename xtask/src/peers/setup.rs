//! Installing the peers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::{cargo_command, display_command};

/// Node for the Inspector, which needs a newer one than many machines have.
const NODE: &str = "node@22";

/// The npm packages; the major versions that the checks were written for.
const PACKAGES: [&str; 5] = [
    "@modelcontextprotocol/inspector@^2.12.0",
    "@modelcontextprotocol/conformance@^0.1.16",
    // The first version with scenarios for background tasks.
    "conformance-tasks@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@anthropic-ai/claude-code@^2.1.330",
    "@openai/codex@^0.169.0",
];

/// The crate of the linter and its version.
const LINTER: (&str, &str) = ("agnix-cli", "^0.60");

/// The installed tools, or the reasons why they are missing.
pub(super) struct InstalledTools {
    /// The directory of the installed commands.
    pub(super) bin: PathBuf,
    pub(super) npm: Result<(), String>,
    /// A Python that has the package `mcp`.
    pub(super) python: Result<PathBuf, String>,
    /// A linter of files for agents, to compare the speed with.
    pub(super) linter: Result<PathBuf, String>,
}

impl InstalledTools {
    /// Installs the missing tools.
    pub(super) fn install(dir: &Path) -> Self {
        let folder = dir.join("npm");
        let bin = folder.join("node_modules/.bin");
        Self {
            npm: npm(&folder, &bin),
            bin,
            python: python(&dir.join("py")),
            linter: linter(&dir.join("cargo")),
        }
    }

    /// Returns the path of a command, or the reason why it is missing.
    pub(super) fn command(&self, name: &str) -> Result<PathBuf, String> {
        self.npm.clone()?;
        let path = self.bin.join(name);
        if path.exists() { Ok(path) } else { Err(format!("{name} was not installed")) }
    }

    /// Returns the path of the main file of a package whose command has the name of another one.
    pub(super) fn main_file(&self, package: &str, file: &str) -> Result<PathBuf, String> {
        self.npm.clone()?;
        let path = self.bin.with_file_name(package).join(file);
        if path.exists() { Ok(path) } else { Err(format!("{package} was not installed")) }
    }
}

/// Returns the search path for programs that start `node` by its name.
pub(super) fn search_path(bin: &Path) -> String {
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default())
}

fn npm(folder: &Path, bin: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let manifest = folder.join("package.json");
    if !manifest.exists() {
        fs::write(manifest, "{\"private\": true}\n").map_err(|error| error.to_string())?;
    }
    // For packages that need a newer Node than the one that runs npm, npm installs older versions
    // without a warning.
    for packages in [&[NODE][..], &PACKAGES[..]] {
        let mut command = Command::new("npm");
        command.args(["install", "--no-audit", "--no-fund", "--loglevel", "error"]);
        run_captured(command.args(packages).current_dir(folder).env("PATH", search_path(bin)))?;
    }
    Ok(())
}

fn python(folder: &Path) -> Result<PathBuf, String> {
    let python = folder.join("bin/python");
    if !python.exists() {
        run_captured(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    }
    run_captured(Command::new(&python).args(["-m", "pip", "install", "--quiet", "mcp>=2"]))?;
    Ok(python)
}

/// Builds the linter with the flags of its release.
fn linter(folder: &Path) -> Result<PathBuf, String> {
    let program = folder.join("bin/agnix");
    if !program.exists() {
        let mut command = cargo_command(["install", LINTER.0, "--version", LINTER.1, "--locked"]);
        run_captured(command.arg("--quiet").arg("--root").arg(folder))?;
    }
    Ok(program)
}

/// Runs a command; the last line of its output explains a failure.
fn run_captured(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", display_command(command)))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it failed");
    Err(format!("{}: {last}", display_command(command)))
}
