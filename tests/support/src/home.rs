//! A home of a test's own.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::binaries::{binary, profile_dir};
use crate::isolation::settings_without_isolation;
use crate::process::{Background, Output};
use crate::terminal::Terminal;

/// A home with everything around it that a command may look at; removed when dropped.
///
/// The writing methods return the home again, so that a test reads as one expression. They may also
/// be called later, while something runs on the home.
#[derive(Debug)]
pub struct TestHome {
    temp: tempfile::TempDir,
    /// The canonical path of `temp`.
    base: PathBuf,
}

impl Default for TestHome {
    fn default() -> Self {
        Self::new()
    }
}

impl TestHome {
    /// Creates a home with an empty `sandbox/`. It is not trusted.
    #[must_use]
    pub fn new() -> Self {
        // A short name, because sockets below it must fit into 108 bytes.
        let temp = tempfile::Builder::new().prefix("sh-").tempdir().expect("make a temporary home");
        let base = fs::canonicalize(temp.path()).expect("the directory was just created");
        for folder in ["home/sandbox", "user", "run", "state", "data"] {
            fs::create_dir_all(base.join(folder)).expect("create a directory in a temporary home");
        }
        let home = Self { temp, base };
        let line = settings_without_isolation();
        if !line.is_empty() {
            home.write("skillhost.yaml", line);
        }
        home
    }

    /// Returns the home's canonical path.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.base.join("home")
    }

    /// Returns a path in the home.
    #[must_use]
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root().join(relative)
    }

    /// Returns the directory around the home, for files outside of it. It also holds `user`
    /// (`HOME`), `run`, `state` and `data` (the XDG directories).
    #[must_use]
    pub fn outside(&self) -> &Path {
        &self.base
    }

    /// Writes a file and the directories above it.
    #[must_use]
    pub fn file(self, relative: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Self {
        self.write(relative, bytes);
        self
    }

    /// Writes a file and the directories above it; for changes while a program runs.
    pub fn write(&self, relative: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        let path = self.path(relative);
        let folder = path.parent().expect("a path in the home has a parent");
        fs::create_dir_all(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    /// Writes `manifests/<id>/manifest.yaml`: an extension as it ships.
    #[must_use]
    pub fn manifest(self, id: &str, yaml: &str) -> Self {
        self.file(format!("manifests/{id}/manifest.yaml"), yaml)
    }

    /// Writes `sandbox/extensions/<id>/manifest.yaml`, as of an extension that a user added. It is
    /// not loaded before [`TestHome::approve`].
    #[must_use]
    pub fn extension(self, id: &str, yaml: &str) -> Self {
        self.file(format!("sandbox/extensions/{id}/manifest.yaml"), yaml)
    }

    /// Writes `sandbox/skills/<id>/SKILL.md`.
    #[must_use]
    pub fn skill(self, id: &str, text: &str) -> Self {
        self.file(format!("sandbox/skills/{id}/SKILL.md"), text)
    }

    /// Writes `skillhost.yaml`.
    #[must_use]
    pub fn settings(self, yaml: &str) -> Self {
        let line = settings_without_isolation();
        // Not after a mapping in one line, and not for a test of this key itself.
        let takes_line = !yaml.starts_with('{') && !yaml.contains("sandbox:");
        self.file(
            "skillhost.yaml",
            if takes_line { format!("{line}{yaml}") } else { yaml.to_owned() },
        )
    }

    /// Copies a library next to the manifest of `manifests/<id>` under the file name of
    /// `entrypoint`. The file is replaced by a rename, as a build does.
    #[must_use]
    pub fn library(self, id: &str, entrypoint: &str, built: &Path) -> Self {
        self.replace_library(id, entrypoint, built);
        self
    }

    /// Replaces a library as [`TestHome::library`] does, while a program runs.
    pub fn replace_library(&self, id: &str, entrypoint: &str, built: &Path) {
        let path = self.path(format!("manifests/{id}/{DLL_PREFIX}{entrypoint}{DLL_SUFFIX}"));
        let temporary = path.with_extension("new");
        fs::create_dir_all(path.parent().expect("a path in the home has a parent"))
            .expect("create the directory of a library");
        fs::copy(built, &temporary).unwrap_or_else(|e| panic!("{}: {e}", built.display()));
        fs::rename(&temporary, &path).expect("rename a file within its directory");
    }

    /// Trusts the home with `skillhost trust`.
    #[must_use]
    pub fn trusted(self) -> Self {
        self.skillhost(["trust".as_ref(), self.root().as_os_str()]).success();
        self
    }

    /// Approves an extension in `sandbox/extensions` with `skillhost ext approve`.
    #[must_use]
    pub fn approved(self, id: &str) -> Self {
        self.approve(id);
        self
    }

    /// Approves as [`TestHome::approved`] does, while a program runs.
    pub fn approve(&self, id: &str) {
        let shown = self.skillhost(["ext", "approve", id, "--print", "--json"]).success().json();
        let digest = shown["digest"].as_str().expect("an approved extension has a digest");
        let approving = ["ext", "approve", id, "--digest", digest];
        drop(self.skillhost(approving).success());
    }

    /// Runs `skillhost` in the home to its end.
    #[must_use = "assert on the exit code, at least with success()"]
    pub fn skillhost<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        self.spawn(args).finish()
    }

    /// Starts `skillhost` in the home; for commands that run until they are interrupted.
    pub fn spawn<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Background {
        self.start(self.command().args(args))
    }

    /// Returns a `skillhost` command with this home as working directory and a private environment,
    /// for further arguments and for [`TestHome::start`].
    #[must_use]
    pub fn command(&self) -> Command {
        self.command_of(&binary())
    }

    /// Returns a command as [`TestHome::command`] does for another program, such as an installed
    /// copy.
    #[must_use]
    pub fn command_of(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("NO_COLOR", "1")
            .env("HOME", self.base.join("user"))
            .env("XDG_STATE_HOME", self.base.join("state"))
            .env("XDG_DATA_HOME", self.base.join("data"))
            .env("XDG_RUNTIME_DIR", self.base.join("run"))
            .current_dir(self.root())
            .stdin(Stdio::null());
        command
    }

    /// Starts a command whose output is redacted as this home's. Its output is captured; the
    /// command defines standard input.
    pub fn start(&self, command: &mut Command) -> Background {
        Background::start(command, self.redactions())
    }

    /// Starts a command on a pseudo-terminal of a size in columns and rows.
    pub fn on_terminal(&self, command: &mut Command, size: (u16, u16)) -> Terminal {
        Terminal::start(command, size, self.redactions())
    }

    /// Redacts the paths of this home and machine: `[HOME]`, `[OUTSIDE]` for the directory around
    /// it, `[TARGET]` for the directory of the built programs.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        redact(text, &self.redactions())
    }

    fn redactions(&self) -> Vec<(String, &'static str)> {
        let text = |path: &Path| path.display().to_string();
        // Longer paths first: the home is inside the directory around it.
        vec![
            (text(&self.root()), "[HOME]"),
            (text(&self.base), "[OUTSIDE]"),
            (text(self.temp.path()), "[OUTSIDE]"),
            (text(&profile_dir()), "[TARGET]"),
        ]
    }
}

pub(crate) fn redact(text: &str, redactions: &[(String, &'static str)]) -> String {
    redactions.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_is_removed_on_drop() {
        let home = TestHome::new().skill("a", "text").settings("{}").manifest("m", "id: m\n");
        assert_eq!(fs::read_to_string(home.path("sandbox/skills/a/SKILL.md")).unwrap(), "text");
        assert!(home.path("manifests/m/manifest.yaml").is_file());
        let root = home.root();
        drop(home);
        assert!(!root.exists());
    }

    #[test]
    fn program_sees_private_environment_only() {
        let home = TestHome::new();
        let output = home.start(&mut home.command_of(Path::new("/usr/bin/env"))).finish();
        let mut lines: Vec<_> = output.success().stdout.lines().map(str::to_owned).collect();
        lines.retain(|line| !line.starts_with("PATH="));
        lines.sort();
        let expected = [
            "HOME=[OUTSIDE]/user",
            "NO_COLOR=1",
            "XDG_DATA_HOME=[OUTSIDE]/data",
            "XDG_RUNTIME_DIR=[OUTSIDE]/run",
            "XDG_STATE_HOME=[OUTSIDE]/state",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn background_program_is_read_and_interrupted() {
        let home = TestHome::new();
        let script = "trap 'echo ended; exit 130' INT; echo \"in $PWD\"; echo ready; \
                      while :; do read -r _ < fifo; done";
        let made = home.start(home.command_of(Path::new("mkfifo")).arg("fifo")).finish();
        assert_eq!(made.success().stdout, "");
        let shell = home.start(home.command_of(Path::new("sh")).args(["-c", script]));
        assert_eq!(shell.line_with("ready"), "ready");
        let output = shell.interrupt();
        assert_eq!(output.status, 130);
        assert_eq!(output.stdout, "in [HOME]\nready\nended\n");
    }
}
