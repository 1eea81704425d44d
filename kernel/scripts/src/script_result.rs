//! The result of a script.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::to_raw_value;
use skillhost_payload::{ToolOutput, is_hidden};
use skillhost_sandbox::{EndCause, IsolationReport, RevertedFile};

use crate::work_directory::ChangedFile;

/// The files that the text of a result names.
const MAX_TEXT_FILES: usize = 20;

/// The result of a script.
#[derive(Debug, Clone, Serialize)]
pub struct ScriptResult {
    /// The skill.
    pub skill: String,
    /// The path of the script in the skill.
    pub path: String,
    /// The exit code; `None` if a signal ended the script.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The standard output as printable text; cut visibly.
    pub stdout: String,
    /// The standard error as printable text; cut visibly.
    pub stderr: String,
    /// The standard output as it was written, up to the limit of output. For files and pipes only: it
    /// may act on a terminal.
    #[serde(skip)]
    pub raw_stdout: Vec<u8>,
    /// The time in milliseconds.
    pub duration_ms: u64,
    /// The isolation of the run.
    pub isolation: IsolationReport,
    /// Whether a stream was cut.
    pub truncated: bool,
    /// The limit that ended the run, or the caller.
    pub ended_by: Option<EndCause>,
    /// The digest of the skill's files that ran.
    pub digest: String,
    /// The files that are new or changed in the work directory.
    pub files: Vec<ChangedFile>,
    /// The number of further such files.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_files: usize,
    /// Remarks about limits and permissions that the script met.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// Protected files that the script wrote or moved, and what was done about them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reverted: Vec<RevertedFile>,
    /// The number of further such files.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_reverted: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl ScriptResult {
    /// Returns whether the script ended by itself with the exit code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.exit_code == Some(0) && self.ended_by.is_none()
    }

    /// Converts the result for a model.
    #[must_use]
    pub fn to_tool_output(&self) -> ToolOutput {
        ToolOutput {
            structured: to_raw_value(self).ok(),
            is_error: !self.is_success(),
            text: self.to_text(),
            ..ToolOutput::default()
        }
    }

    /// Returns the result as text: how it ended, the streams, the files and the remarks.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Self { path, skill, duration_ms, .. } = self;
        let level = self.isolation.level.as_str();
        let mut text = format!(
            "{} after {:.1} s: {path} of {skill} [isolation: {level}]\n",
            self.describe_end(),
            Duration::from_millis(*duration_ms).as_secs_f64()
        );
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !stream.is_empty() {
                let end = if stream.ends_with('\n') { "" } else { "\n" };
                text.push_str(&format!("--- {name}\n{stream}{end}"));
            }
        }
        if !self.files.is_empty() {
            text.push_str("--- files\n");
            for file in self.files.iter().take(MAX_TEXT_FILES) {
                let name = printable_line(&file.path);
                text.push_str(&format!("{name} ({} bytes)\n", file.bytes));
            }
            let more = self.files.len().saturating_sub(MAX_TEXT_FILES) + self.more_files;
            if more > 0 {
                text.push_str(&format!("and {more} more\n"));
            }
        }
        if !self.reverted.is_empty() {
            text.push_str("--- protected files\n");
            for file in self.reverted.iter().take(MAX_TEXT_FILES) {
                text.push_str(&format!("{}\n", printable_line(&file.to_string())));
            }
            let more = self.reverted.len().saturating_sub(MAX_TEXT_FILES) + self.more_reverted;
            if more > 0 {
                text.push_str(&format!("and {more} more\n"));
            }
        }
        for hint in &self.hints {
            text.push_str(&format!("hint: {hint}\n"));
        }
        text
    }

    /// Describes how the script ended.
    #[must_use]
    pub fn describe_end(&self) -> String {
        let cause = match self.ended_by {
            Some(EndCause::Time) => "the time limit",
            Some(EndCause::Memory) => "the memory limit",
            Some(EndCause::Tasks) => "the limit of processes",
            Some(EndCause::Disk) => "the disk limit",
            Some(EndCause::Output) => "the output limit",
            Some(EndCause::Cancelled) => "the caller",
            None => {
                return match (self.exit_code, self.signal) {
                    (Some(code), _) => format!("exit code {code}"),
                    (None, Some(signal)) => format!("ended by signal {signal}"),
                    (None, None) => "ended".to_owned(),
                };
            }
        };
        format!("ended by {cause}")
    }
}

/// Makes a name printable on one line.
#[must_use]
pub fn printable_line(text: &str) -> String {
    text.chars()
        .flat_map(|c| -> Box<dyn Iterator<Item = char>> {
            if c.is_control() || is_hidden(c) {
                Box::new(c.escape_unicode())
            } else {
                Box::new(std::iter::once(c))
            }
        })
        .collect()
}
