//! A program in its own process group, with limits of time and memory.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

use crate::error::BuildError;

/// The limits of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessLimits {
    pub(crate) time: Duration,
    /// The memory of each of its processes, in bytes.
    pub(crate) memory: u64,
    /// The retained standard output, in bytes; the rest is discarded.
    pub(crate) stdout: usize,
}

/// The retained end of a program's standard error, in bytes.
const MAX_STDERR: usize = 16 * 1024;

/// The exit of a program.
#[derive(Debug)]
pub(crate) struct ProcessExit {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    /// The end of the standard error.
    pub(crate) stderr: String,
}

/// A guard that kills all processes of a group on drop.
struct ProcessGroup {
    leader: Option<Pid>,
}

impl ProcessGroup {
    fn kill_all(&self) {
        if let Some(leader) = self.leader {
            // The error means that no process of the group is left.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill_all();
    }
}

/// Runs a program until it exits.
///
/// No process of its group is left afterwards, even if the future is dropped.
///
/// # Errors
/// [`BuildError::Start`]; [`BuildError::TimedOut`] with `what` and `hint`.
pub(crate) async fn run_limited(
    mut command: Command,
    limits: ProcessLimits,
    (what, hint): (&'static str, &'static str),
) -> Result<ProcessExit, BuildError> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let start_error = |source| BuildError::Start { program: program.clone(), source };
    let mut child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(start_error)?;
    let leader = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let group = ProcessGroup { leader };
    // Set from outside after the start: a limit in the child would require `unsafe` code.
    limit_memory(leader, limits.memory).map_err(|error| start_error(error.into()))?;
    match tokio::time::timeout(limits.time, finish(&mut child, &group, limits.stdout)).await {
        Ok(exit) => exit.map_err(start_error),
        Err(_) => Err(BuildError::TimedOut { what, limit: limits.time, hint }),
    }
}

/// Limits the memory of a process and of the processes that it starts from now on.
#[cfg(target_os = "linux")]
fn limit_memory(process: Option<Pid>, bytes: u64) -> rustix::io::Result<()> {
    use rustix::process::{Resource, Rlimit, prlimit};
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    match process.map(|process| prlimit(Some(process), Resource::As, limit)) {
        // The process has already exited.
        None | Some(Ok(_) | Err(rustix::io::Errno::SRCH)) => Ok(()),
        Some(Err(error)) => Err(error),
    }
}

/// Does not limit the memory, since other systems cannot limit another process.
#[cfg(not(target_os = "linux"))]
fn limit_memory(_: Option<Pid>, _: u64) -> rustix::io::Result<()> {
    Ok(())
}

async fn finish(
    child: &mut Child,
    group: &ProcessGroup,
    max_stdout: usize,
) -> std::io::Result<ProcessExit> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let exit = async {
        let status = child.wait().await;
        // Remaining processes, such as the compilers of a killed cargo, would keep the pipes open.
        group.kill_all();
        status
    };
    let (stdout, stderr, status) =
        tokio::try_join!(read_prefix(stdout, max_stdout), read_suffix(stderr), exit)?;
    Ok(ProcessExit { status, stdout, stderr })
}

/// Reads to the end and returns the start, at most `max` bytes.
async fn read_prefix(from: Option<impl AsyncRead + Unpin>, max: usize) -> std::io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    // The rest is read, too: a full pipe would block the program.
    for_each_chunk(from, |chunk| {
        let room = max.saturating_sub(kept.len());
        kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
    })
    .await?;
    Ok(kept)
}

/// Reads to the end and returns the last [`MAX_STDERR`] bytes as text.
async fn read_suffix(from: Option<impl AsyncRead + Unpin>) -> std::io::Result<String> {
    let mut kept = Vec::new();
    for_each_chunk(from, |chunk| {
        kept.extend_from_slice(chunk);
        // Truncated only at twice the size, so that the copying stays linear.
        if kept.len() > 2 * MAX_STDERR {
            kept.drain(..kept.len() - MAX_STDERR);
        }
    })
    .await?;
    Ok(String::from_utf8_lossy(&kept[kept.len().saturating_sub(MAX_STDERR)..]).into_owned())
}

async fn for_each_chunk(
    from: Option<impl AsyncRead + Unpin>,
    mut take: impl FnMut(&[u8]),
) -> std::io::Result<()> {
    let Some(mut from) = from else { return Ok(()) };
    let mut chunk = vec![0; 64 * 1024];
    loop {
        match from.read(&mut chunk).await? {
            0 => return Ok(()),
            read => take(&chunk[..read]),
        }
    }
}

impl ProcessExit {
    /// Returns the signal that ended the program, if any.
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
    async fn output_is_limited_and_signal_reported() {
        let ended =
            run_limited(sh("printf '%0500d' 7; echo last >&2; kill -9 $$"), LIMITS, ("it", ""));
        let ended = ended.await.unwrap();
        assert_eq!(ended.stdout, [b'0'; 100]);
        assert_eq!((ended.stderr.as_str(), ended.signal()), ("last\n", Some(9)));
        let missing = run_limited(Command::new("/no/such/program"), LIMITS, ("it", "")).await;
        assert!(matches!(missing, Err(BuildError::Start { .. })), "{missing:?}");
    }

    #[tokio::test]
    async fn leftover_processes_are_not_awaited() {
        let ended = run_limited(sh("sleep 1000 & echo said; kill -9 $$"), LIMITS, ("it", "")).await;
        let ended = ended.unwrap();
        assert_eq!((&*ended.stdout, ended.signal()), (&b"said\n"[..], Some(9)));
    }

    /// A process holds a pipe open while it lives, and the reader sees its end.
    #[tokio::test]
    async fn timeout_kills_process_group() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("alive");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        // A grandchild holds the pipe open and never exits by itself.
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
        // The read ends only when no process has the pipe open for writing.
        assert_eq!(opened.await.unwrap().unwrap(), b"");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn memory_is_limited_for_every_process() {
        let limits = ProcessLimits { memory: 256 << 20, ..LIMITS };
        // The first process already runs when it is limited; its children start with the limit.
        let script = "until [ \"$(ulimit -v)\" = 262144 ]; do :; done; sh -c 'ulimit -v'";
        let ended = run_limited(sh(script), limits, ("it", "")).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stdout), "262144\n");
    }
}
