//! One JSON object per skill, a line each.

use std::io::{self, Write};

use super::{Checked, Form, Summary, json};

pub(super) struct Jsonl;

impl Form for Jsonl {
    fn skill(&mut self, checked: &Checked<'_>, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", json::object(checked)?)
    }

    fn end(&mut self, _summary: &Summary, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
