//! Cargo's JSON messages, shortened for the author of an extension.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The limit of messages in a report.
const MAX_MESSAGES: usize = 10;
/// The limit of a report, in bytes.
const MAX_BYTES: usize = 6 * 1024;
/// The maximum length of a quoted source line, in bytes.
const MAX_LINE: usize = 200;

/// The parsed output of cargo.
#[derive(Debug, Default)]
pub(crate) struct CargoOutput {
    /// The errors and warnings of the crate itself, and the errors of other crates.
    messages: Vec<CompilerMessage>,
    /// The path of the built library.
    pub(crate) library: Option<PathBuf>,
}

/// A line of cargo's output.
#[derive(Deserialize)]
struct CargoLine {
    reason: String,
    manifest_path: Option<PathBuf>,
    message: Option<CompilerMessage>,
    target: Option<CargoTarget>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// The target of an artifact.
#[derive(Deserialize)]
struct CargoTarget {
    kind: Vec<String>,
}

/// A diagnostic of the compiler.
#[derive(Debug, Deserialize)]
struct CompilerMessage {
    message: String,
    level: String,
    code: Option<CompilerErrorCode>,
    #[serde(default)]
    spans: Vec<CompilerSpan>,
    #[serde(default)]
    children: Vec<CompilerMessage>,
}

/// The code of a diagnostic.
#[derive(Debug, Deserialize)]
struct CompilerErrorCode {
    code: String,
}

/// The source position of a diagnostic.
#[derive(Debug, Deserialize)]
struct CompilerSpan {
    file_name: String,
    line_start: usize,
    column_start: usize,
    is_primary: bool,
    label: Option<String>,
    suggested_replacement: Option<String>,
    #[serde(default)]
    text: Vec<CompilerSpanText>,
}

/// A source line with its highlighted columns.
#[derive(Debug, Deserialize)]
struct CompilerSpanText {
    text: String,
    highlight_start: usize,
    highlight_end: usize,
}

impl CargoOutput {
    /// Parses cargo's standard output; `manifest` is the path of the crate's manifest.
    pub(crate) fn read(stdout: &[u8], manifest: &Path) -> Self {
        let mut output = Self::default();
        for line in stdout.split(|byte| *byte == b'\n') {
            // Other lines come from build scripts of dependencies, which may print.
            let Ok(line) = serde_json::from_slice::<CargoLine>(line) else { continue };
            let own = line.manifest_path.as_deref() == Some(manifest);
            match (line.reason.as_str(), line.message) {
                ("compiler-message", Some(message)) => {
                    // "aborting due to …" and "n warnings emitted" have no position.
                    let has_position = !message.spans.is_empty() || message.code.is_some();
                    let is_count = !has_position && message.children.is_empty();
                    if (own || message.is_error()) && !is_count {
                        output.messages.push(message);
                    }
                }
                ("compiler-artifact", _) if own => {
                    let cdylib =
                        |target: CargoTarget| target.kind.iter().any(|kind| kind == "cdylib");
                    if line.target.is_some_and(cdylib) {
                        let suffix = std::env::consts::DLL_SUFFIX;
                        let is_library = |path: &PathBuf| path.to_string_lossy().ends_with(suffix);
                        output.library = line.filenames.into_iter().find(is_library);
                    }
                }
                _ => {}
            }
        }
        // The sort is stable, so errors and warnings keep the compiler's order among themselves.
        output.messages.sort_by_key(|message| !message.is_error());
        output
    }

    /// Returns `true` if there is an error.
    pub(crate) fn has_errors(&self) -> bool {
        self.messages.iter().any(CompilerMessage::is_error)
    }

    /// Formats the messages with their source lines, errors first; omitted messages are counted.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut written = 0;
        for message in self.messages.iter().take(MAX_MESSAGES) {
            let one = message.text();
            // The first message is always included, truncated if necessary.
            if text.len() + one.len() > MAX_BYTES && written > 0 {
                break;
            }
            text.push_str(&truncate(&one, MAX_BYTES));
            written += 1;
        }
        if written < self.messages.len() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "({} more messages)", self.messages.len() - written);
        }
        text.trim_end().to_owned()
    }
}

impl CompilerMessage {
    fn is_error(&self) -> bool {
        self.level.starts_with("error")
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let place = self.spans.iter().find(|span| span.is_primary);
        if let Some(CompilerSpan { file_name, line_start, column_start, .. }) = place {
            let _ = write!(text, "{file_name}:{line_start}:{column_start}: ");
        }
        let code = self.code.as_ref().map(|code| format!("[{}]", code.code)).unwrap_or_default();
        let _ = writeln!(text, "{}{code}: {}", self.level, self.message.trim_end());
        if let Some(span) = place {
            span.write_excerpt(&mut text);
        }
        for other in self.spans.iter().filter(|span| !span.is_primary) {
            if let Some(label) = &other.label {
                let CompilerSpan { file_name, line_start, .. } = other;
                let _ = writeln!(text, "  {file_name}:{line_start}: {label}");
            }
        }
        for child in &self.children {
            // The note about the default level of a lint does not help to correct the code.
            if child.message.starts_with('`') && child.message.contains("on by default") {
                continue;
            }
            let _ = write!(text, "  {}: {}", child.level, child.message.trim_end());
            match child.spans.iter().find_map(|span| span.suggested_replacement.as_deref()) {
                Some(replacement) if !replacement.trim().is_empty() => {
                    let _ = writeln!(text, ": `{}`", replacement.trim());
                }
                _ => text.push('\n'),
            }
        }
        text
    }
}

impl CompilerSpan {
    /// Writes the first source line with a marker below the highlighted columns.
    fn write_excerpt(&self, text: &mut String) {
        let Some(line) = self.text.first() else { return };
        // A tab counts as one column in the compiler's positions.
        let source = truncate(&line.text.replace('\t', " "), MAX_LINE);
        let number = self.line_start.to_string();
        let _ = writeln!(text, "  {number} | {source}");
        let start = line.highlight_start.saturating_sub(1);
        let width = line.highlight_end.saturating_sub(line.highlight_start).max(1);
        if start < MAX_LINE {
            let blank = " ".repeat(number.len());
            let mark = "^".repeat(width.min(MAX_LINE - start));
            let label = self.label.as_deref().unwrap_or_default();
            let _ = writeln!(
                text,
                "{}",
                format!("  {blank} | {}{mark} {label}", " ".repeat(start)).trim_end()
            );
        }
    }
}

/// Truncates a text to a number of bytes and marks the cut.
pub(crate) fn truncate(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…\n", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MANIFEST: &str = "/b/src-1/Cargo.toml";

    fn message(level: &str, text: &str, line: usize) -> serde_json::Value {
        json!({
            "reason": "compiler-message", "manifest_path": MANIFEST,
            "message": {
                "message": text, "level": level, "code": {"code": "E0425", "explanation": "long"},
                "spans": [
                    {"file_name": "src/lib.rs", "line_start": line, "column_start": 5,
                     "is_primary": true, "label": "not found in this scope",
                     "suggested_replacement": null,
                     "text": [{"text": "\tlet x = y;", "highlight_start": 10, "highlight_end": 11}]},
                    {"file_name": "src/lib.rs", "line_start": 2, "column_start": 1,
                     "is_primary": false, "label": "defined here",
                     "suggested_replacement": null, "text": []}
                ],
                "children": [
                    {"message": "`#[warn(unused)]` on by default", "level": "note", "code": null,
                     "spans": [], "children": []},
                    {"message": "a local variable has a similar name", "level": "help", "code": null,
                     "children": [], "spans": [
                        {"file_name": "src/lib.rs", "line_start": line, "column_start": 5,
                         "is_primary": true, "label": null, "suggested_replacement": "z", "text": []}
                     ]}
                ]
            }
        })
    }

    fn read(lines: &[serde_json::Value]) -> CargoOutput {
        let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
        CargoOutput::read(
            format!("not JSON\n{}\n", lines.join("\n")).as_bytes(),
            Path::new(MANIFEST),
        )
    }

    #[test]
    fn error_quotes_its_source() {
        let output = read(&[
            message("warning", "unused", 9),
            message("error", "cannot find value `y` in this scope", 12),
            json!({"reason": "compiler-message", "manifest_path": MANIFEST,
                   "message": {"message": "aborting due to 1 previous error", "level": "error",
                               "code": null, "spans": [], "children": []}}),
            json!({"reason": "compiler-message", "manifest_path": "/other/Cargo.toml",
                   "message": {"message": "theirs", "level": "warning", "code": null,
                               "spans": [], "children": []}}),
            json!({"reason": "build-finished", "success": false}),
        ]);
        assert!(output.has_errors());
        assert_eq!(
            output.text(),
            "\
src/lib.rs:12:5: error[E0425]: cannot find value `y` in this scope
  12 |  let x = y;
     |          ^ not found in this scope
  src/lib.rs:2: defined here
  help: a local variable has a similar name: `z`
src/lib.rs:9:5: warning[E0425]: unused
  9 |  let x = y;
    |          ^ not found in this scope
  src/lib.rs:2: defined here
  help: a local variable has a similar name: `z`"
        );
        assert_eq!(output.library, None);
    }

    #[test]
    fn long_messages_are_truncated() {
        let many: Vec<_> = (1..=25).map(|line| message("error", "no", line)).collect();
        let text = read(&many).text();
        assert!(text.ends_with("\n(15 more messages)"), "{text}");
        assert!(text.len() <= MAX_BYTES + 30, "{}", text.len());
        let long = [message("error", &"é".repeat(9_000), 1), message("error", "no", 2)];
        let text = read(&long).text();
        assert!(
            text.len() <= MAX_BYTES + 30 && text.ends_with("(1 more messages)"),
            "{}",
            text.len()
        );
    }

    #[test]
    fn library_belongs_to_the_crate() {
        let artifact = |manifest: &str, kind: &str, name: &str| {
            json!({"reason": "compiler-artifact", "manifest_path": manifest,
                   "target": {"kind": [kind]},
                   "filenames": [format!("/t/release/{name}.d"),
                                 format!("/t/release/{name}{}", std::env::consts::DLL_SUFFIX)]})
        };
        let output = read(&[
            artifact("/other/Cargo.toml", "cdylib", "libother"),
            artifact(MANIFEST, "cdylib", "libtea"),
            artifact(MANIFEST, "lib", "libx"),
        ]);
        let library = output.library.unwrap();
        assert_eq!(library.file_stem().unwrap(), "libtea");
        assert!(output.messages.is_empty());
    }
}
