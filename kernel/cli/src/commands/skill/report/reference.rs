//! The lines of the reference validator: what is valid on stdout, what is not on stderr.

use std::io::{self, IsTerminal as _, Write};

use skill_format::Diagnostic;
use skill_rules::reference::format_output;

use super::{Checked, Form, Summary};
use crate::output::{Output, show};

pub(super) struct Reference(pub(super) Output);

impl Form for Reference {
    fn skill(&mut self, checked: &Checked<'_>, out: &mut dyn Write) -> io::Result<()> {
        let found: Vec<Diagnostic> = checked.diagnostics().cloned().collect();
        let lines = format_output(&checked.dir.to_string_lossy(), &found);
        if io::stdout().is_terminal() {
            out.write_all(show(&lines.stdout).as_bytes())?;
        } else {
            out.write_all(lines.stdout.as_bytes())?;
        }
        if !lines.stderr.is_empty() {
            // The two streams may be the same terminal.
            out.flush()?;
            self.0.raw_error(&lines.stderr);
        }
        Ok(())
    }

    fn end(&mut self, _summary: &Summary, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
