//! What cargo says while it builds: its JSON lines, made short enough for whoever has to mend it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Messages that are told.
const MOST: usize = 10;
/// Bytes that are told.
const BYTES: usize = 6 * 1024;
/// Characters of a line of source that are told.
const LINE: usize = 200;

/// What cargo said.
#[derive(Debug, Default)]
pub(crate) struct CargoOutput {
    /// Errors and warnings about the crate itself, and errors about others.
    messages: Vec<CompilerMessage>,
    /// The library that was made.
    pub(crate) library: Option<PathBuf>,
}

#[derive(Deserialize)]
struct CargoLine {
    reason: String,
    manifest_path: Option<PathBuf>,
    message: Option<CompilerMessage>,
    target: Option<CargoTarget>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct CargoTarget {
    kind: Vec<String>,
}

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

#[derive(Debug, Deserialize)]
struct CompilerErrorCode {
    code: String,
}

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

#[derive(Debug, Deserialize)]
struct CompilerSpanText {
    text: String,
    highlight_start: usize,
    highlight_end: usize,
}

impl CargoOutput {
    /// Reads cargo's standard output; `manifest` is that of the crate.
    pub(crate) fn read(stdout: &[u8], manifest: &Path) -> Self {
        let mut said = Self::default();
        for line in stdout.split(|byte| *byte == b'\n') {
            // Whatever is not one of its messages comes from a build script, which may print.
            let Ok(line) = serde_json::from_slice::<CargoLine>(line) else { continue };
            let own = line.manifest_path.as_deref() == Some(manifest);
            match (line.reason.as_str(), line.message) {
                ("compiler-message", Some(message)) => {
                    // "aborting due to …" and "n warnings emitted" point nowhere.
                    let counts = message.spans.is_empty() && message.code.is_none();
                    let is_count = counts && message.children.is_empty();
                    if (own || message.is_error()) && !is_count {
                        said.messages.push(message);
                    }
                }
                ("compiler-artifact", _) if own => {
                    let cdylib =
                        |target: CargoTarget| target.kind.iter().any(|kind| kind == "cdylib");
                    if line.target.is_some_and(cdylib) {
                        let suffix = std::env::consts::DLL_SUFFIX;
                        let is_library = |path: &PathBuf| path.to_string_lossy().ends_with(suffix);
                        said.library = line.filenames.into_iter().find(is_library);
                    }
                }
                _ => {}
            }
        }
        // The order within errors and within warnings is the compiler's.
        said.messages.sort_by_key(|message| !message.is_error());
        said
    }

    /// Whether there is an error.
    pub(crate) fn has_errors(&self) -> bool {
        self.messages.iter().any(CompilerMessage::is_error)
    }

    /// The messages, errors first, with what they point at; what was left out is counted.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut told = 0;
        for message in self.messages.iter().take(MOST) {
            let one = message.text();
            if text.len() + one.len() > BYTES && told > 0 {
                break;
            }
            text.push_str(&truncate(&one, BYTES));
            told += 1;
        }
        if told < self.messages.len() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "({} more messages)", self.messages.len() - told);
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
            span.point(&mut text);
        }
        for other in self.spans.iter().filter(|span| !span.is_primary) {
            if let Some(label) = &other.label {
                let CompilerSpan { file_name, line_start, .. } = other;
                let _ = writeln!(text, "  {file_name}:{line_start}: {label}");
            }
        }
        for child in &self.children {
            // Where a lint is set is of no use here.
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
    /// The first line that it points at, with what is meant marked below.
    fn point(&self, text: &mut String) {
        let Some(line) = self.text.first() else { return };
        let shown = truncate(&line.text.replace('\t', " "), LINE);
        let number = self.line_start.to_string();
        let _ = writeln!(text, "  {number} | {shown}");
        let start = line.highlight_start.saturating_sub(1);
        let width = line.highlight_end.saturating_sub(line.highlight_start).max(1);
        if start < LINE {
            let blank = " ".repeat(number.len());
            let mark = "^".repeat(width.min(LINE - start));
            let label = self.label.as_deref().unwrap_or_default();
            let _ = writeln!(
                text,
                "{}",
                format!("  {blank} | {}{mark} {label}", " ".repeat(start)).trim_end()
            );
        }
    }
}

/// The beginning of a text, with a mark where it is shortened.
pub(crate) fn truncate(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
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
    fn an_error_says_where_and_what_and_points_at_it() {
        let said = read(&[
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
        assert!(said.has_errors());
        assert_eq!(
            said.text(),
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
        assert_eq!(said.library, None);
    }

    #[test]
    fn many_and_long_messages_are_shortened_and_counted() {
        let many: Vec<_> = (1..=25).map(|line| message("error", "no", line)).collect();
        let text = read(&many).text();
        assert!(text.ends_with("\n(15 more messages)"), "{text}");
        assert!(text.len() <= BYTES + 30, "{}", text.len());
        let long = [message("error", &"é".repeat(9_000), 1), message("error", "no", 2)];
        let text = read(&long).text();
        assert!(text.len() <= BYTES + 30 && text.ends_with("(1 more messages)"), "{}", text.len());
    }

    #[test]
    fn the_library_is_that_of_the_crate_itself() {
        let artifact = |manifest: &str, kind: &str, name: &str| {
            json!({"reason": "compiler-artifact", "manifest_path": manifest,
                   "target": {"kind": [kind]},
                   "filenames": [format!("/t/release/{name}.d"),
                                 format!("/t/release/{name}{}", std::env::consts::DLL_SUFFIX)]})
        };
        let said = read(&[
            artifact("/other/Cargo.toml", "cdylib", "libother"),
            artifact(MANIFEST, "cdylib", "libtea"),
            artifact(MANIFEST, "lib", "libx"),
        ]);
        let library = said.library.unwrap();
        assert_eq!(library.file_stem().unwrap(), "libtea");
        assert!(said.messages.is_empty());
    }
}
