//! The result of a command.

use std::time::Duration;

use serde_json::json;
use serde_json::value::to_raw_value;
use skillhost_payload::ToolOutput;
use skillhost_sandbox::ProcessExit;

use crate::MAX_STDOUT;

/// The bytes of the start and of the end of standard output that are kept.
const HEAD: usize = 12 << 10;
const TAIL: usize = 24 << 10;

/// Formats the exit of a command.
pub(crate) fn format_exit(
    command: &str,
    directory: &str,
    exit: &ProcessExit,
    time: Duration,
) -> ToolOutput {
    let mut stdout = shorten(&String::from_utf8_lossy(&exit.stdout));
    if exit.stdout.len() >= MAX_STDOUT {
        stdout.push_str("\n[all after this was left out: the output was too long]\n");
    }
    let code = exit.status.code();
    let how = match (code, exit.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    };
    let first = command.lines().next().unwrap_or_default();
    let more = if first.len() < command.len() { " …" } else { "" };
    let mut text = format!(
        "{how} after {:.1} s: {first}{more}\n[in {directory}; not contained: it ran with the user's \
         permissions]\n",
        time.as_secs_f64()
    );
    for (name, stream) in [("stdout", &stdout), ("stderr", &exit.stderr)] {
        if !stream.is_empty() {
            let end = if stream.ends_with('\n') { "" } else { "\n" };
            text.push_str(&format!("--- {name}\n{stream}{end}"));
        }
    }
    let structured = json!({
        "exit_code": code,
        "signal": exit.signal(),
        "stdout": stdout,
        "stderr": exit.stderr,
        "duration_ms": u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        "contained": false,
    });
    ToolOutput {
        text,
        structured: to_raw_value(&structured).ok(),
        is_error: !exit.status.success(),
        ..ToolOutput::default()
    }
}

/// Keeps the start and the end of a long text.
fn shorten(text: &str) -> String {
    if text.len() <= HEAD + TAIL {
        return text.to_owned();
    }
    let (head, tail) = (text.floor_char_boundary(HEAD), text.ceil_char_boundary(text.len() - TAIL));
    format!("{}\n[{} bytes left out]\n{}", &text[..head], tail - head, &text[tail..])
}
