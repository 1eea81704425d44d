//! A private PostgreSQL server on a Unix socket.
#![expect(clippy::unwrap_used, reason = "a server that does not start fails its test")]
#![expect(clippy::print_stderr, reason = "the reason of a skip")]

use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::waiting::wait_until;

/// The directories that are searched for the server.
const DIRECTORIES: [&str; 4] = [
    "/usr/lib/postgresql/15/bin",
    "/usr/lib/postgresql/16/bin",
    "/usr/lib/postgresql/17/bin",
    "/usr/local/bin",
];
/// The id of the user `nobody`: the server refuses to run as root.
const NOBODY: u32 = 65_534;

/// A server with an empty database `postgres` of the role `operator`. It ends with the value.
#[derive(Debug)]
pub struct PostgresServer {
    directory: TempDir,
    programs: PathBuf,
    settings: Vec<String>,
    port: u16,
    child: Child,
}

impl PostgresServer {
    /// Starts a server, or returns `None` and prints the reason.
    ///
    /// With `SKILLHOST_REQUIRE=postgres` a missing server is a failure.
    #[must_use]
    pub fn start() -> Option<Self> {
        // Only a killed process is tested, never a machine without power.
        Self::start_with(&["fsync=off"], |_| {})
    }

    /// Starts a server with settings, as in `postgresql.conf`, after a function has changed the
    /// directory of its data, such as `pg_hba.conf`.
    #[must_use]
    pub fn start_with(settings: &[&str], prepare: impl FnOnce(&Path)) -> Option<Self> {
        let found = DIRECTORIES
            .iter()
            .map(PathBuf::from)
            .find(|path| path.join("postgres").exists() && path.join("initdb").exists());
        let Some(programs) = found else {
            let required = std::env::var("SKILLHOST_REQUIRE").unwrap_or_default();
            assert!(!required.contains("postgres"), "PostgreSQL is not installed");
            eprintln!("SKIPPED: PostgreSQL is not installed in {DIRECTORIES:?}");
            return None;
        };
        // The path of a socket is short.
        let directory = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").unwrap();
        if rustix::process::geteuid().is_root() {
            chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let data = directory.path().join("data");
        let initialized = unprivileged(&programs.join("initdb"), directory.path())
            .args(["-N", "-A", "trust", "-U", "operator", "-E", "UTF8", "--locale=C", "-D"])
            .arg(&data)
            .stdout(Stdio::null())
            .output()
            .unwrap();
        assert!(initialized.status.success(), "{initialized:?}");
        prepare(&data);
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = spawn(&programs, directory.path(), port, &settings);
        let server = Self { directory, programs, settings, port, child };
        server.wait_until_ready();
        Some(server)
    }

    /// Returns the parameters of connections.
    #[must_use]
    pub fn url(&self) -> String {
        let (directory, port) = (self.directory.path().display(), self.port);
        format!("host={directory} port={port} user=operator dbname=postgres")
    }

    /// Returns the port, for a server with the setting `listen_addresses`.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Executes statements; returns the rows, with `|` between the columns.
    #[must_use]
    pub fn query(&self, statements: &str) -> String {
        let output = Command::new(self.programs.join("psql"))
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", &self.url(), "-c", statements])
            .output()
            .unwrap();
        assert!(output.status.success(), "{statements}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Ends the server as a crash does, and starts it again.
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Ends the server as a crash does.
    pub fn stop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::QUIT);
        let _ = self.child.wait();
    }

    /// Starts a stopped server.
    pub fn start_again(&mut self) {
        self.child = spawn(&self.programs, self.directory.path(), self.port, &self.settings);
        self.wait_until_ready();
    }

    fn wait_until_ready(&self) {
        wait_until("a server that accepts connections", || {
            let mut asked = Command::new(self.programs.join("pg_isready"));
            asked.args(["-q", "-d", &self.url()]).status().unwrap().success()
        });
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(programs: &Path, directory: &Path, port: u16, settings: &[String]) -> Child {
    let mut command = unprivileged(&programs.join("postgres"), directory);
    command.arg("-D").arg(directory.join("data")).arg("-k").arg(directory);
    command.args(["-p", &port.to_string(), "-c", "listen_addresses=", "-c", "shared_buffers=64MB"]);
    command.args(["-c", "log_min_messages=fatal"]);
    // Later ones win.
    for setting in settings {
        command.args(["-c", setting]);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Returns a command that runs without the rights of root.
fn unprivileged(program: &Path, directory: &Path) -> Command {
    let mut command = if rustix::process::geteuid().is_root() {
        let (user, group) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
        let mut command = Command::new("setpriv");
        command.args([user.as_str(), group.as_str(), "--clear-groups"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir(directory).env("LC_ALL", "C");
    command
}
