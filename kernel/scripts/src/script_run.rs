//! The run of a plan.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use skillhost_payload::{CallError, ErrorKind, is_hidden};
use skillhost_sandbox::{
    EndCause, InputMode, LevelSelection, RefusalKind, SandboxError, SandboxSpec, SandboxedExit,
};
use tokio::task::spawn_blocking;

use crate::plan::ScriptPlan;
use crate::run_hints::{HintFacts, list_hints};
use crate::script_result::{ScriptResult, printable_line};
use crate::work_directory::{ChangedFile, WorkSnapshot};

/// The bytes of a stream in a result: its start and its end.
const MAX_STREAM: usize = 256 << 10;
const STREAM_HEAD: usize = 192 << 10;

/// The bytes of a stream that is not text, before base64.
const MAX_BINARY: usize = 96 << 10;

/// The remark about files that are not kept.
const DISCARDED: &str = "the skill declares `fileSystemScope: skill-directory`: the files that it \
     wrote are not kept; print results instead";

impl ScriptPlan {
    /// Runs the script to its end.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if it could not be started in isolation; [`ErrorKind::Io`] if the
    /// disk or the launcher fails. A script that fails or reaches a limit has a result.
    pub async fn run(self) -> Result<ScriptResult, CallError> {
        self.run_with_input(None).await
    }

    /// Runs the script to its end; it reads a file or pipe as its standard input.
    ///
    /// # Errors
    /// The errors of [`ScriptPlan::run`].
    pub async fn run_with_input(self, input: Option<File>) -> Result<ScriptResult, CallError> {
        let root = self.work.root.clone();
        // The work directory is shared with file tools, so only a comparison tells the files of this run.
        let before = read_snapshot(&root).await?;
        let mut policy = self.composed.policy.clone();
        if let Some(deadline) = self.deadline_seconds {
            let limit = policy.limits.seconds.map_or(deadline, |seconds| seconds.min(deadline));
            // A limit of zero would end the run before it starts.
            policy.limits.seconds = Some(limit.max(1));
        }
        let limits = policy.limits;
        let spec = SandboxSpec {
            launch: self.launch(),
            policy,
            stdin: InputMode::Null,
            channel: None,
            levels: LevelSelection::default(),
        };
        // Not the time of the launcher's report: a caller waits for the set-up, too.
        let start = Instant::now();
        let exit = self.launcher.run_with_input(spec, input).await.map_err(to_call_error)?;
        let time = start.elapsed();
        let after = read_snapshot(&root).await?;
        let unreadable: Vec<_> =
            after.unreadable().iter().map(|path| printable_line(path)).collect();
        let (changes, compared) = {
            let root = root.clone();
            let compared = before.is_complete() && after.is_complete();
            let listed = spawn_blocking(move || after.changes_since(&before, &root)).await;
            (listed.map_err(|error| io_error(error.to_string()))?, compared)
        };
        let mut result = self.to_result(exit, changes, time);
        result.hints =
            list_hints(&HintFacts { result: &result, limits: &limits, skill: &self.settings_id });
        if self.is_confined && !(result.files.is_empty() && result.more_files == 0) {
            (result.files, result.more_files) = (Vec::new(), 0);
            result.hints.push(DISCARDED.to_owned());
        }
        if !compared {
            result.hints.push("the work directory has too many files to compare all".to_owned());
        }
        if !unreadable.is_empty() {
            let names = unreadable.join(", ");
            result
                .hints
                .push(format!("these directories cannot be read for the list of files: {names}"));
        }
        Ok(result)
    }

    fn to_result(
        &self,
        exit: SandboxedExit,
        (files, more_files): (Vec<ChangedFile>, usize),
        time: Duration,
    ) -> ScriptResult {
        // Tracebacks name the copy; the model knows the paths of the skill.
        let hide = |bytes: &[u8]| {
            shorten_paths(bytes, &[(self.copy.root(), "@skill"), (self.scratch(), "@scratch")])
        };
        let (stdout, cut_out) = printable_stream(&hide(&exit.stdout));
        let (stderr, cut_err) = printable_stream(&hide(&exit.stderr));
        ScriptResult {
            skill: self.tree.skill_id.clone(),
            path: self.path.clone(),
            exit_code: exit.end.exit_code,
            signal: exit.end.signal,
            stdout,
            stderr,
            raw_stdout: exit.stdout,
            duration_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            isolation: exit.isolation,
            truncated: cut_out || cut_err || exit.end.ended_by == Some(EndCause::Output),
            ended_by: exit.end.ended_by,
            digest: self.copy.digest().to_owned(),
            files,
            more_files,
            hints: Vec::new(),
            reverted: exit.end.reverted,
            more_reverted: exit.end.more_reverted,
        }
    }
}

async fn read_snapshot(root: &Path) -> Result<WorkSnapshot, CallError> {
    let root = root.to_owned();
    let read = spawn_blocking(move || WorkSnapshot::read(&root)).await;
    let read = read.map_err(|error| io_error(error.to_string()))?;
    read.map_err(|error| io_error(format!("the work directory: {error}")))
}

fn io_error(message: String) -> CallError {
    CallError::new(ErrorKind::Io, message)
}

fn to_call_error(error: SandboxError) -> CallError {
    match error {
        SandboxError::Refused(refusal) => {
            let kind = match refusal.kind {
                RefusalKind::Policy => ErrorKind::InvalidArgument,
                RefusalKind::Isolation | RefusalKind::Start => ErrorKind::Unavailable,
            };
            CallError::new(kind, refusal.to_string()).with_hint(refusal.hint)
        }
        error @ SandboxError::Launcher(_) => io_error(error.to_string()).with_hint("try again"),
    }
}

/// Replaces the private directories of a run in its output with their names.
fn shorten_paths(bytes: &[u8], names: &[(&Path, &str)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (path, name) in names {
        let path = path.as_os_str().as_encoded_bytes();
        let mut kept = Vec::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        while let Some(at) = rest.windows(path.len()).position(|window| window == path) {
            kept.extend_from_slice(&rest[..at]);
            kept.extend_from_slice(name.as_bytes());
            rest = &rest[at + path.len()..];
        }
        kept.extend_from_slice(rest);
        bytes = kept;
    }
    bytes
}

/// Makes a stream printable, and cuts it; also returns whether it was cut.
fn printable_stream(bytes: &[u8]) -> (String, bool) {
    if is_binary(bytes) {
        let kept = &bytes[..bytes.len().min(MAX_BINARY)];
        let left_out = bytes.len() - kept.len();
        let note = if left_out > 0 { format!(", {left_out} left out") } else { String::new() };
        let text = format!("[{} bytes that are not text, as base64{note}]\n", bytes.len());
        return (text + &STANDARD.encode(kept) + "\n", left_out > 0);
    }
    let text = String::from_utf8_lossy(bytes);
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => safe.push(character),
            // Progress bars overwrite their line.
            '\r' => {}
            // Control characters would act on a terminal, hidden ones disguise text.
            odd if odd.is_control() || is_hidden(odd) => safe.extend(odd.escape_unicode()),
            plain => safe.push(plain),
        }
    }
    if safe.len() <= MAX_STREAM {
        return (safe, false);
    }
    let head = safe.floor_char_boundary(STREAM_HEAD);
    let tail = safe.ceil_char_boundary(safe.len() - (MAX_STREAM - STREAM_HEAD));
    let cut = format!("{}\n[{} bytes left out]\n{}", &safe[..head], tail - head, &safe[tail..]);
    (cut, true)
}

/// Tests whether bytes are no text: a NUL, or more than one invalid byte in eight.
fn is_binary(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(8 << 10)];
    let invalid: usize = head.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    head.contains(&0) || invalid * 8 > head.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_stream_is_cut_visibly() {
        let long = "é".repeat(300 << 10);
        let (text, cut) = printable_stream(long.as_bytes());
        assert!(cut && text.len() <= MAX_STREAM + 64, "{}", text.len());
        assert!(text.contains("bytes left out]"), "{}", &text[STREAM_HEAD - 10..STREAM_HEAD + 40]);
        assert_eq!(printable_stream(b"short\r\n"), ("short\n".to_owned(), false));
    }

    #[test]
    fn binary_stream_is_marked() {
        let (text, cut) = printable_stream(b"\x7fELF\0\0\xff");
        assert_eq!(
            (&*text, cut),
            ("[7 bytes that are not text, as base64]\nf0VMRgAA/w==\n", false)
        );
        let (text, _) = printable_stream("x\u{1b}[2J\u{202e}y".as_bytes());
        assert_eq!(text, "x\\u{1b}[2J\\u{202e}y");
        let (text, _) = printable_stream(b"caf\xe9 is one byte of another encoding");
        assert_eq!(text, "caf\u{fffd} is one byte of another encoding");
    }

    #[test]
    fn private_paths_are_named() {
        let text = shorten_paths(
            b"at /tmp/r/pdf/a.py, /tmp/r/pdf/b.py",
            &[("/tmp/r/pdf".as_ref(), "@skill")],
        );
        assert_eq!(text, b"at @skill/a.py, @skill/b.py");
    }
}
