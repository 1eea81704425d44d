//! A program that runs to its exit within limits of time, memory and output.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Child;

use crate::group::{LimitedMemory, ProcessGroup, limit_memory};
use crate::launch::{LaunchError, LaunchSpec};

/// The limits of a program.
#[derive(Debug, Clone, Copy)]
pub struct ProcessLimits {
    /// The time until its exit.
    pub time: Duration,
    /// The memory of each of its processes, in bytes; `None` for no limit.
    pub memory: Option<u64>,
    /// The retained standard output, in bytes; the rest is discarded.
    pub stdout: usize,
}

/// The retained end of a program's standard error, in bytes.
const MAX_STDERR: usize = 16 * 1024;

/// The exit of a program.
#[derive(Debug)]
pub struct ProcessExit {
    /// The exit status.
    pub status: ExitStatus,
    /// The start of the standard output.
    pub stdout: Vec<u8>,
    /// The end of the standard error.
    pub stderr: String,
}

/// Runs a program until it exits.
///
/// No process of its group is left afterwards, even if the future is dropped.
///
/// # Errors
/// [`LaunchError`].
pub async fn run_limited(
    launch: &LaunchSpec,
    limits: ProcessLimits,
) -> Result<ProcessExit, LaunchError> {
    let program = launch.program.to_string_lossy().into_owned();
    let start_error = |source| LaunchError::Start { program: program.clone(), source };
    let mut child = launch.to_command().stdin(Stdio::null()).spawn().map_err(start_error)?;
    let group = ProcessGroup::from_child(&child);
    let limited = group
        .leader()
        .zip(limits.memory)
        .map(|(leader, bytes)| limit_memory(leader, LimitedMemory::Addresses, bytes));
    match limited {
        // There is no limit, or the process has already exited.
        None | Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => {}
        Some(Err(error)) => return Err(start_error(error.into())),
    }
    match tokio::time::timeout(limits.time, finish(&mut child, &group, limits.stdout)).await {
        Ok(exit) => exit.map_err(start_error),
        Err(_) => Err(LaunchError::TimedOut { limit: limits.time }),
    }
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
        group.signal(Signal::KILL);
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
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const LIMITS: ProcessLimits =
        ProcessLimits { time: Duration::from_secs(100), memory: Some(1 << 30), stdout: 100 };

    fn launch(program: &str, arguments: &[&str]) -> LaunchSpec {
        let path = std::env::var_os("PATH").unwrap_or_default();
        LaunchSpec {
            program: program.into(),
            arguments: arguments.iter().map(Into::into).collect(),
            environment: BTreeMap::from([("PATH".into(), path)]),
            folder: ".".into(),
        }
    }

    fn sh(script: &str) -> LaunchSpec {
        launch("sh", &["-c", script])
    }

    #[tokio::test]
    async fn output_is_limited_and_signal_reported() {
        let script = sh("printf '%0500d' 7; echo last >&2; kill -9 $$");
        let ended = run_limited(&script, LIMITS).await.unwrap();
        assert_eq!(ended.stdout, [b'0'; 100]);
        assert_eq!((ended.stderr.as_str(), ended.signal()), ("last\n", Some(9)));
        let missing = run_limited(&launch("/no/such/program", &[]), LIMITS).await;
        assert!(matches!(missing, Err(LaunchError::Start { .. })), "{missing:?}");
    }

    #[tokio::test]
    async fn leftover_processes_are_not_awaited() {
        let ended = run_limited(&sh("sleep 1000 & echo said; kill -9 $$"), LIMITS).await;
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
        let ended = run_limited(&sh(&script), limits).await;
        assert!(matches!(ended, Err(LaunchError::TimedOut { .. })), "{ended:?}");
        // The read ends only when no process has the pipe open for writing.
        assert_eq!(opened.await.unwrap().unwrap(), b"");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn memory_is_limited_for_every_process() {
        let limits = ProcessLimits { memory: Some(256 << 20), ..LIMITS };
        // The first process already runs when it is limited; its children start with the limit.
        let script = "until [ \"$(ulimit -v)\" = 262144 ]; do :; done; sh -c 'ulimit -v'";
        let ended = run_limited(&sh(script), limits).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stdout), "262144\n");
    }
}
