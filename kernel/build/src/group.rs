//! A program in a process group of its own: limited in time and memory, ended as a whole.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

use crate::error::BuildError;

/// What a program may use up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessLimits {
    pub(crate) time: Duration,
    /// Bytes of memory of each of its processes.
    pub(crate) memory: u64,
    /// Bytes of its standard output that are read; what comes after them is thrown away.
    pub(crate) stdout: usize,
}

/// Bytes kept of the end of what a program writes to standard error.
const STDERR: usize = 16 * 1024;

/// How a program ended.
#[derive(Debug)]
pub(crate) struct ProcessExit {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    /// The end of it.
    pub(crate) stderr: String,
}

/// Every process of a group; ended when dropped.
struct ProcessGroup {
    leader: Option<Pid>,
}

impl ProcessGroup {
    fn kill_all(&self) {
        if let Some(leader) = self.leader {
            // There may be none left.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill_all();
    }
}

/// Runs a program to its end. Nothing of it is left afterwards, also when the future is dropped.
///
/// # Errors
/// [`BuildError::Start`]; [`BuildError::TimedOut`] with `what` and `hint`.
pub(crate) async fn run_limited(
    mut command: Command,
    limits: ProcessLimits,
    (what, hint): (&'static str, &'static str),
) -> Result<ProcessExit, BuildError> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let started = |source| BuildError::Start { program: program.clone(), source };
    let mut child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(started)?;
    let leader = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let group = ProcessGroup { leader };
    limit_memory(leader, limits.memory).map_err(|error| started(error.into()))?;
    match tokio::time::timeout(limits.time, finish(&mut child, &group, limits.stdout)).await {
        Ok(ended) => ended.map_err(started),
        Err(_) => Err(BuildError::TimedOut { what, limit: limits.time, hint }),
    }
}

/// Limits the memory that each process may have from now on. What it starts inherits that.
#[cfg(target_os = "linux")]
fn limit_memory(process: Option<Pid>, bytes: u64) -> rustix::io::Result<()> {
    use rustix::process::{Resource, Rlimit, prlimit};
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    match process.map(|process| prlimit(Some(process), Resource::As, limit)) {
        // It has ended already.
        None | Some(Ok(_) | Err(rustix::io::Errno::SRCH)) => Ok(()),
        Some(Err(error)) => Err(error),
    }
}

/// Other systems cannot limit another process.
#[cfg(not(target_os = "linux"))]
fn limit_memory(_: Option<Pid>, _: u64) -> rustix::io::Result<()> {
    Ok(())
}

async fn finish(
    child: &mut Child,
    group: &ProcessGroup,
    most: usize,
) -> std::io::Result<ProcessExit> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let ended = async {
        let status = child.wait().await;
        // What it has left behind holds the pipes: a killed cargo its compilers.
        group.kill_all();
        status
    };
    let (stdout, stderr, status) =
        tokio::try_join!(read_prefix(stdout, most), read_suffix(stderr), ended)?;
    Ok(ProcessExit { status, stdout, stderr })
}

/// Reads to the end and keeps the beginning.
async fn read_prefix(
    from: Option<impl AsyncRead + Unpin>,
    most: usize,
) -> std::io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    each_piece(from, |piece| {
        let room = most.saturating_sub(kept.len());
        kept.extend_from_slice(&piece[..piece.len().min(room)]);
    })
    .await?;
    Ok(kept)
}

/// Reads to the end and keeps that.
async fn read_suffix(from: Option<impl AsyncRead + Unpin>) -> std::io::Result<String> {
    let mut kept = Vec::new();
    each_piece(from, |piece| {
        kept.extend_from_slice(piece);
        if kept.len() > 2 * STDERR {
            kept.drain(..kept.len() - STDERR);
        }
    })
    .await?;
    Ok(String::from_utf8_lossy(&kept[kept.len().saturating_sub(STDERR)..]).into_owned())
}

async fn each_piece(
    from: Option<impl AsyncRead + Unpin>,
    mut take: impl FnMut(&[u8]),
) -> std::io::Result<()> {
    let Some(mut from) = from else { return Ok(()) };
    let mut piece = vec![0; 64 * 1024];
    loop {
        match from.read(&mut piece).await? {
            0 => return Ok(()),
            read => take(&piece[..read]),
        }
    }
}

impl ProcessExit {
    /// The signal that ended it, if one did.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ProcessLimits =
        ProcessLimits { time: Duration::from_secs(100), memory: 1 << 30, stdout: 100 };

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn output_is_kept_within_limits_and_a_signal_is_told() {
        let ended =
            run_limited(sh("printf '%0500d' 7; echo last >&2; kill -9 $$"), LIMITS, ("it", ""));
        let ended = ended.await.unwrap();
        assert_eq!(ended.stdout, [b'0'; 100]);
        assert_eq!((ended.stderr.as_str(), ended.signal()), ("last\n", Some(9)));
        let missing = run_limited(Command::new("/no/such/program"), LIMITS, ("it", "")).await;
        assert!(matches!(missing, Err(BuildError::Start { .. })), "{missing:?}");
    }

    #[tokio::test]
    async fn what_a_program_leaves_behind_is_not_waited_for() {
        let ended = run_limited(sh("sleep 1000 & echo said; kill -9 $$"), LIMITS, ("it", "")).await;
        let ended = ended.unwrap();
        assert_eq!((&*ended.stdout, ended.signal()), (&b"said\n"[..], Some(9)));
    }

    /// A process writes to a pipe as long as it lives; the other end sees its end.
    #[tokio::test]
    async fn a_program_that_takes_too_long_ends_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("alive");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        // A grandchild holds the pipe open and would do so for ever.
        let script =
            format!("sh -c 'exec 3>{}; while :; do sleep 1000; done' & wait", pipe.display());
        let opened = tokio::task::spawn_blocking({
            let pipe = pipe.clone();
            move || std::fs::read(pipe)
        });
        let limits = ProcessLimits { time: Duration::from_millis(300), ..LIMITS };
        let ended = run_limited(sh(&script), limits, ("the build", "make it smaller")).await;
        let Err(BuildError::TimedOut { what: "the build", hint: "make it smaller", .. }) = ended
        else {
            panic!("{ended:?}");
        };
        // Reading comes to its end only when nobody has it open for writing any more.
        assert_eq!(opened.await.unwrap().unwrap(), b"");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn memory_is_limited_for_every_process() {
        let limits = ProcessLimits { memory: 256 << 20, ..LIMITS };
        // The first process runs already when it is limited; what it starts is limited from birth.
        let script = "until [ \"$(ulimit -v)\" = 262144 ]; do :; done; sh -c 'ulimit -v'";
        let ended = run_limited(sh(script), limits, ("it", "")).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stdout), "262144\n");
    }
}
