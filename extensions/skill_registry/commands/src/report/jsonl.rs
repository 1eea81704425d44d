//! One JSON object per skill, one per line.

use std::io::{self, Write};

use super::json;
use super::writer::{CheckSummary, CheckedSkill, ReportWriter};

pub(super) struct JsonlWriter;

impl ReportWriter for JsonlWriter {
    fn write_skill(&mut self, checked: &CheckedSkill<'_>, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", json::object(checked)?)
    }

    fn finish(&mut self, _summary: &CheckSummary, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
