//! The format for users: the position in the file, the finding, the help.

use std::borrow::Cow;
use std::io::{self, Write};

use annotate_snippets::renderer::DEFAULT_LINE_NUM_STYLE;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use skill_format::{Diagnostic, Severity, decode_file};
use skillhost_terminal::{Output, display_safe};

use super::line_excerpt::{LineExcerpt, LineIndex, excerpt_line};
use super::writer::{CheckSummary, CheckedSkill, FixRecord, ReportWriter};
use crate::line_diff::line_style;

/// The number of columns of a line's excerpt if the terminal's width is unknown.
const WIDTH: usize = 100;

pub(super) struct HumanWriter {
    renderer: Renderer,
    colour: bool,
    width: usize,
}

impl HumanWriter {
    pub(super) fn new(output: Output) -> Self {
        let colour = output.uses_color();
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let width = output.width().map_or(WIDTH, |width| width.clamp(50, 200) - 10);
        // Excerpts are cut to the width already; the renderer must not cut them again.
        Self { renderer: renderer.term_width(1_000), colour, width }
    }

    fn finding(
        &self,
        path: &str,
        lines: &mut LineIndex<'_>,
        found: &Diagnostic,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let level = match found.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let title = level.clone().primary_title(one_line(&found.message)).id(found.rule);
        writeln!(out, "{}", self.renderer.render(&[Group::with_title(title)]))?;
        let digits = if found.line > 0 { found.line.to_string().len() } else { 1 };
        let style = if self.colour { DEFAULT_LINE_NUM_STYLE } else { Default::default() };
        write!(out, "{:digits$}{style}-->{style:#} {path}", "")?;
        for number in [found.line, found.column].into_iter().take_while(|&number| number > 0) {
            write!(out, ":{number}")?;
        }
        writeln!(out)?;
        let mut group = Group::with_level(level);
        let line = if found.line > 0 { lines.get(found.line) } else { None };
        // An excerpt of an empty line carries no information.
        if let Some(line) = line.filter(|line| !line.trim().is_empty()) {
            let LineExcerpt { text, carets } = excerpt_line(line, found.column, self.width);
            let here = AnnotationKind::Primary.span(carets);
            group = group
                .element(Snippet::source(text).line_start(found.line as usize).annotation(here));
        }
        if let Some(help) = &found.help {
            group = group.element(Level::HELP.message(one_line(help)));
        }
        if !group.is_empty() {
            writeln!(out, "{}", self.renderer.render(&[group]))?;
        }
        writeln!(out)
    }
}

impl HumanWriter {
    /// Writes the changes that `--dry-run` leaves undone.
    fn planned(&self, path: &str, count: usize, diff: &str, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{path}: {count} would be fixed")?;
        for line in diff.lines() {
            let line = one_line(line);
            match line_style(&line).filter(|_| self.colour) {
                Some(style) => writeln!(out, "  {style}{line}{style:#}")?,
                None => writeln!(out, "  {line}")?,
            }
        }
        writeln!(out)
    }
}

impl ReportWriter for HumanWriter {
    fn write_skill(&mut self, checked: &CheckedSkill<'_>, out: &mut dyn Write) -> io::Result<()> {
        let path = one_line(&checked.path.to_string_lossy());
        match checked.fix {
            FixRecord::Applied(count @ 1..) => writeln!(out, "{path}: {count} fixed\n")?,
            FixRecord::Planned { count, diff } if !diff.is_empty() => {
                self.planned(&path, *count, diff, out)?;
            }
            _ => {}
        }
        let text = text(checked.bytes);
        let mut lines = LineIndex::new(&text);
        for found in checked.diagnostics() {
            self.finding(&path, &mut lines, found, out)?;
        }
        Ok(())
    }

    fn finish(&mut self, summary: &CheckSummary, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", summary.line())?;
        summary.rule_lines().into_iter().try_for_each(|line| writeln!(out, "{line}"))
    }
}

/// Decodes the text as findings count its lines; a file in an unknown encoding is decoded lossily.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    decode_file(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), |decoded| decoded.text)
}

/// Makes an untrusted text printable on one line.
fn one_line(text: &str) -> String {
    display_safe(text).replace('\n', "\\n")
}
