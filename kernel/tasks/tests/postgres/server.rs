//! A private server on a Unix socket.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use skillhost_tasks::PostgresAddress;
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// The directories that are searched for the server.
const DIRECTORIES: [&str; 3] =
    ["/usr/lib/postgresql/15/bin", "/usr/lib/postgresql/17/bin", "/usr/local/bin"];
/// The id of the user `nobody`: the server refuses to run as root.
const NOBODY: u32 = 65_534;
/// The limit of the start of a server.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A server with an empty database. It ends with the value.
pub(crate) struct PrivateServer {
    directory: TempDir,
    programs: PathBuf,
    child: Child,
}

impl PrivateServer {
    /// Starts a server, or returns `None` and prints the reason.
    ///
    /// With `SKILLHOST_REQUIRE=postgres` a missing server is a failure.
    pub(crate) async fn start() -> Option<Self> {
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
        let directory = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").unwrap();
        if rustix::process::geteuid().is_root() {
            chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let initialized = unprivileged(&programs.join("initdb"), directory.path())
            .args(["-N", "-A", "trust", "-U", "operator", "-E", "UTF8", "--locale=C", "-D"])
            .arg(directory.path().join("data"))
            .stdout(Stdio::null())
            .output()
            .unwrap();
        assert!(initialized.status.success(), "{initialized:?}");
        let child = spawn(&programs, directory.path());
        let server = Self { directory, programs, child };
        server.admin().await;
        Some(server)
    }

    /// Returns the parameters of connections.
    pub(crate) fn url(&self) -> String {
        format!("host={} user=operator dbname=postgres", self.directory.path().display())
    }

    /// Returns the address of a schema.
    pub(crate) fn address(&self, schema: &str) -> PostgresAddress {
        PostgresAddress::parse(&self.url(), schema).unwrap()
    }

    /// Connects without a queue, once the server accepts connections.
    pub(crate) async fn admin(&self) -> Client {
        let start = Instant::now();
        loop {
            match tokio_postgres::connect(&self.url(), NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    return client;
                }
                Err(error) => {
                    assert!(start.elapsed() < START_TIMEOUT, "{error}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    /// Ends the server as a crash does, and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.stop();
        self.child = spawn(&self.programs, self.directory.path());
        self.admin().await;
    }

    fn stop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::QUIT);
        let _ = self.child.wait();
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(programs: &Path, directory: &Path) -> Child {
    unprivileged(&programs.join("postgres"), directory)
        .arg("-D")
        .arg(directory.join("data"))
        .arg("-k")
        .arg(directory)
        .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=64MB"])
        .args(["-c", "log_min_messages=fatal"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
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
