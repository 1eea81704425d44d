//! `skillhost skill fmt`: frontmatter in its canonical form.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::json;
use similar::{ChangeTag, TextDiff};
use skill_format::{decode_file, find_fences};
use skill_rules::fmt::{FmtOptions, format_skill};
use skill_store::{FoundProblem, FoundSkill, ReplaceError, SkillFiles, replace_file};

use super::batch::{self, Item, for_each, worse};
use super::recorded::Recorder;
use crate::cli::FmtArgs;
use crate::error::CliError;
use crate::exit;
use crate::output::{GREEN, Outcome, Output, RED, YELLOW, show};
use crate::session::Session;

/// Lines around a change that a diff shows.
const CONTEXT: usize = 2;

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// It was in its canonical form.
    Unchanged,
    /// It is now.
    Formatted,
    /// It would be, without `--check`.
    WouldFormat,
    /// It cannot be said in canonical form without changing what it says; it is as it was.
    Refused,
    /// It could not be read or written; it is as it was.
    Failed,
}

/// A file and what became of it.
#[derive(Debug, Serialize)]
struct Record {
    path: String,
    status: Status,
    /// Why it is as it was, and at which line; 0 is the file as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
    /// What would change in the frontmatter.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// Fields that `--portable` leaves at the top, because they decide who may use the skill.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Problem {
    line: u32,
    message: String,
    help: String,
    #[serde(skip)]
    code: u8,
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    unchanged: usize,
    formatted: usize,
    would_format: usize,
    refused: usize,
    failed: usize,
}

pub(super) fn fmt(session: &Session, args: &FmtArgs) -> Outcome {
    let output = session.output;
    let mut records = Vec::new();
    let mut summary = Summary::default();
    let mut code = exit::OK;
    let recorder = Recorder::new(session);
    let batch = for_each(session, &args.paths, false, |item| {
        let record = match item {
            Item::Problem(found) if batch::code(found.kind) == exit::OK => {
                if !args.jsonl {
                    output.note(format!("{}: {}", found.path.display(), found.message));
                }
                return Ok(());
            }
            Item::Problem(found) => unreadable(found),
            Item::Skill(skill, files) => format_file(skill, &files, args, &recorder),
        };
        summary.count(record.status);
        code = worse(code, record.code());
        if args.jsonl {
            output.object(&record)
        } else if output.json {
            records.push(record);
            Ok(())
        } else {
            print(output, &record)
        }
    })?;
    if output.json && !args.jsonl {
        output.object(&json!({ "skills": records, "summary": summary }))?;
    } else if !args.jsonl {
        print_summary(output, &summary)?;
    }
    Ok(worse(batch.code, code))
}

fn unreadable(found: &FoundProblem) -> Record {
    let problem = Problem {
        line: 0,
        message: found.message.clone(),
        help: found.help.to_owned(),
        code: batch::code(found.kind),
    };
    Record::failed(found.path.display().to_string(), Status::Failed, problem)
}

fn format_file(
    skill: &FoundSkill,
    files: &SkillFiles,
    args: &FmtArgs,
    recorder: &Recorder<'_>,
) -> Record {
    let path = skill.path();
    let shown = path.display().to_string();
    let text = match decode_file(&files.bytes) {
        Ok(decoded) => decoded.text,
        Err(found) => {
            let help = found.help.unwrap_or_default();
            let problem =
                Problem { line: found.line, message: found.message, help, code: exit::FINDINGS };
            return Record::failed(shown, Status::Refused, problem);
        }
    };
    let formatted = match format_skill(&text, FmtOptions { portable: args.portable }) {
        Ok(formatted) => formatted,
        Err(refusal) => {
            let problem = Problem {
                line: refusal.line,
                message: refusal.to_string(),
                help: refusal.reason.help().to_owned(),
                code: exit::FINDINGS,
            };
            return Record::failed(shown, Status::Refused, problem);
        }
    };
    let mut record = Record {
        path: shown,
        status: Status::Unchanged,
        problem: None,
        diff: None,
        left: formatted.left,
    };
    // Not the texts: a byte order mark is a change too.
    if formatted.text.as_bytes() == files.bytes {
        return record;
    }
    if args.check {
        record.status = Status::WouldFormat;
        record.diff = Some(diff(head(&text), head(&formatted.text)));
        return record;
    }
    record.status = Status::Formatted;
    let text = formatted.text.as_bytes();
    if let Err(error) = recorder.replacing(&path, || Ok(replace_file(&path, &files.bytes, text)?)) {
        return Record::failed(record.path, Status::Failed, error);
    }
    record
}

impl From<ReplaceError> for Problem {
    fn from(error: ReplaceError) -> Self {
        let code = match &error {
            ReplaceError::Changed { .. } => exit::CONFLICT,
            _ => exit::IO,
        };
        let help = "it is as it was; check who may write there, or try again".to_owned();
        Self { line: 0, message: error.to_string(), help, code }
    }
}

impl From<CliError> for Problem {
    fn from(error: CliError) -> Self {
        let help = "it is as it was: its text could not be recorded as a version".to_owned();
        Self { line: 0, message: error.message().to_owned(), help, code: error.code() }
    }
}

/// The frontmatter with its fences.
fn head(text: &str) -> &str {
    &text[..find_fences(text).map_or(0, |fences| fences.body_start)]
}

/// The changed lines with some around them; what cannot be seen is said.
fn diff(before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    let mut out = String::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        // Writing into a String cannot fail.
        let _ = writeln!(out, "{}", hunk.header());
        for change in hunk.iter_changes() {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            let line = change.value().trim_end_matches('\n').replace('\r', "\u{240d}");
            let _ = writeln!(out, "{sign}{line}");
        }
    }
    out
}

impl Record {
    fn failed(path: String, status: Status, problem: Problem) -> Self {
        Self { path, status, problem: Some(problem), diff: None, left: Vec::new() }
    }

    fn code(&self) -> u8 {
        match (&self.problem, self.status) {
            (Some(problem), _) => problem.code,
            (None, Status::WouldFormat) => exit::FINDINGS,
            (None, _) => exit::OK,
        }
    }
}

impl Summary {
    fn count(&mut self, status: Status) {
        *match status {
            Status::Unchanged => &mut self.unchanged,
            Status::Formatted => &mut self.formatted,
            Status::WouldFormat => &mut self.would_format,
            Status::Refused => &mut self.refused,
            Status::Failed => &mut self.failed,
        } += 1;
    }
}

fn print(output: Output, record: &Record) -> Result<(), CliError> {
    let path = show(&record.path);
    if let Some(Problem { line, message, help, code }) = &record.problem {
        let line = if *line > 0 { format!(":{line}") } else { String::new() };
        let error = CliError::new(*code, format!("{path}{line}: {message}"));
        output.error(&if help.is_empty() { error } else { error.hint(help.as_str()) });
    }
    match record.status {
        Status::Unchanged | Status::Refused | Status::Failed => {}
        Status::Formatted => output.line(format!("formatted {path}"))?,
        Status::WouldFormat => output.line(format!("would format {path}"))?,
    }
    for line in record.diff.as_deref().unwrap_or_default().lines() {
        let line = show(line);
        match line.as_bytes().first() {
            Some(b'+') => output.line(format!("  {GREEN}{line}{GREEN:#}"))?,
            Some(b'-') => output.line(format!("  {RED}{line}{RED:#}"))?,
            Some(b'@') => output.line(format!("  {YELLOW}{line}{YELLOW:#}"))?,
            _ => output.line(format!("  {line}"))?,
        }
    }
    if !record.left.is_empty() {
        output.note(format!(
            "{path}: `{}` stays at the top: it decides who may use the skill",
            record.left.join("`, `")
        ));
    }
    Ok(())
}

fn print_summary(output: Output, summary: &Summary) -> Result<(), CliError> {
    let counts = [
        (summary.formatted, "formatted"),
        (summary.would_format, "would be formatted"),
        (summary.unchanged, "unchanged"),
        (summary.refused, "refused"),
        (summary.failed, "failed"),
    ];
    let said: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if said.is_empty() { Ok(()) } else { output.line(said.join(", ")) }
}
