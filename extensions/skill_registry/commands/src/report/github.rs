//! Workflow commands of GitHub Actions, which become annotations of a pull request.
//!
//! Source: "Workflow commands for GitHub Actions" and `@actions/core`, which escapes the same way.

use std::io::{self, Write};

use skill_format::Severity;
use skillhost_terminal::display_safe;

use super::writer::{CheckSummary, CheckedSkill, ReportWriter};

pub(super) struct GithubWriter;

impl ReportWriter for GithubWriter {
    fn write_skill(&mut self, checked: &CheckedSkill<'_>, out: &mut dyn Write) -> io::Result<()> {
        let file = property(&checked.path.to_string_lossy());
        for found in checked.diagnostics() {
            let command = match found.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note => "notice",
            };
            write!(out, "::{command} file={file}")?;
            if found.line > 0 {
                write!(out, ",line={}", found.line)?;
            }
            if found.column > 0 {
                write!(out, ",col={}", found.column)?;
            }
            write!(out, ",title={}::{}", property(found.rule), data(&found.message))?;
            if let Some(help) = &found.help {
                write!(out, "%0A{}", data(&format!("help: {help}")))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn finish(&mut self, summary: &CheckSummary, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", summary.line())
    }
}

/// Escapes a message. A line break would end the command, and the next line could be one.
fn data(text: &str) -> String {
    display_safe(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes the value of a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_and_separators_are_escaped() {
        assert_eq!(data("50%\n::set-env\r\u{1b}"), "50%25%0A::set-env\\u{d}\\u{1b}");
        assert_eq!(property("a,b:c%2C\n"), "a%2Cb%3Ac%252C%0A");
    }
}
