//! The lines of the reference validator: valid skills on stdout, invalid ones on stderr.

use std::io::{self, IsTerminal as _, Write};

use skill_compat::reference::format_output;
use skill_format::Diagnostic;
use skillhost_terminal::{Output, display_safe};

use super::writer::{CheckSummary, CheckedSkill, ReportWriter};

pub(super) struct ReferenceWriter(pub(super) Output);

impl ReportWriter for ReferenceWriter {
    fn write_skill(&mut self, checked: &CheckedSkill<'_>, out: &mut dyn Write) -> io::Result<()> {
        let found: Vec<Diagnostic> = checked.diagnostics().cloned().collect();
        let lines = format_output(&checked.dir.to_string_lossy(), &found);
        if io::stdout().is_terminal() {
            out.write_all(display_safe(&lines.stdout).as_bytes())?;
        } else {
            out.write_all(lines.stdout.as_bytes())?;
        }
        if !lines.stderr.is_empty() {
            // Both streams may be the same terminal, so their order matters.
            out.flush()?;
            self.0.eprint_raw(&lines.stderr);
        }
        Ok(())
    }

    fn finish(&mut self, _summary: &CheckSummary, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
