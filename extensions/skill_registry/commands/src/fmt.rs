//! `skillhost skill fmt`: frontmatter in its canonical form.

use serde::Serialize;
use serde_json::json;
use skill_catalog::{FoundProblem, FoundSkill, SkillFiles};
use skill_format::{decode_file, find_fences};
use skill_rules::fmt::{FmtErrorKind, FmtOptions, format_skill};
use skillhost_files::{ReplaceError, replace_file};
use skillhost_payload::OperatorCommand;
use skillhost_terminal::{CliContext, CliError, CommandResult, Output, display_safe, exit};

use super::batch::{self, BatchItem, for_each_chosen, worst_exit_code};
use super::line_diff::{diff_lines, line_style};
use super::policy_run::PolicyRun;
use super::recorded::Recorder;
use crate::arguments::FmtArgs;

/// The outcome for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum FmtStatus {
    /// The file was canonical already.
    Unchanged,
    /// The file is canonical now.
    Formatted,
    /// The file would change without `--check`.
    WouldFormat,
    /// The canonical form would change the meaning; the file is unchanged.
    Refused,
    /// The file could not be read or written; it is unchanged.
    Failed,
}

/// A file and its outcome.
#[derive(Debug, Serialize)]
struct FmtRecord {
    path: String,
    status: FmtStatus,
    /// The reason for leaving it unchanged, and its line; 0 means the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<FmtProblem>,
    /// The change to the frontmatter.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// Fields that `--portable` leaves at the top level, because they control access to the skill.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
}

#[derive(Debug, Serialize)]
struct FmtProblem {
    line: u32,
    message: String,
    help: String,
    #[serde(skip)]
    code: u8,
}

#[derive(Debug, Default, Serialize)]
struct FmtSummary {
    unchanged: usize,
    formatted: usize,
    would_format: usize,
    refused: usize,
    failed: usize,
}

pub(super) fn cmd_skill_fmt(session: &CliContext, args: &FmtArgs) -> CommandResult {
    let output = session.output;
    let mut records = Vec::new();
    let mut summary = FmtSummary::default();
    let mut code = exit::OK;
    let recorder = Recorder::new(session);
    let policies = PolicyRun::for_paths(session, &args.policy)?;
    let batch = for_each_chosen(session, &args.paths, &policies, |item| {
        let record = match item {
            BatchItem::Problem(found) if batch::exit_code_for(found.kind) == exit::OK => {
                if !args.is_jsonl() {
                    output.print_note(format!("{}: {}", found.path.display(), found.message));
                }
                return Ok(());
            }
            BatchItem::Problem(found) => unreadable_record(found),
            BatchItem::Skill(skill, files) => format_file(skill, &files, args, &recorder),
        };
        summary.count(record.status);
        code = worst_exit_code(code, record.code());
        if args.is_jsonl() {
            output.print_json(&record)
        } else if output.json {
            records.push(record);
            Ok(())
        } else {
            print(output, &record)
        }
    })?;
    if output.json && !args.is_jsonl() {
        output.print_json(&json!({ "skills": records, "summary": summary }))?;
    } else if !args.is_jsonl() {
        print_summary(output, &summary)?;
    }
    Ok(worst_exit_code(batch.code, code))
}

fn unreadable_record(found: &FoundProblem) -> FmtRecord {
    let problem = FmtProblem {
        line: 0,
        message: found.message.clone(),
        help: found.help.to_owned(),
        code: batch::exit_code_for(found.kind),
    };
    FmtRecord::from_problem(found.path.display().to_string(), FmtStatus::Failed, problem)
}

fn format_file(
    skill: &FoundSkill,
    files: &SkillFiles,
    args: &FmtArgs,
    recorder: &Recorder<'_>,
) -> FmtRecord {
    let path = skill.path();
    let display_path = path.display().to_string();
    let text = match decode_file(&files.bytes) {
        Ok(decoded) => decoded.text,
        Err(found) => {
            let help = found.help.unwrap_or_default();
            let problem =
                FmtProblem { line: found.line, message: found.message, help, code: exit::FINDINGS };
            return FmtRecord::from_problem(display_path, FmtStatus::Refused, problem);
        }
    };
    let formatted = match format_skill(&text, FmtOptions { portable: args.portable }) {
        Ok(formatted) => formatted,
        Err(refusal) => {
            let problem = FmtProblem {
                line: refusal.line,
                message: refusal.to_string(),
                help: format_hint(&refusal.reason),
                code: exit::FINDINGS,
            };
            return FmtRecord::from_problem(display_path, FmtStatus::Refused, problem);
        }
    };
    let mut record = FmtRecord {
        path: display_path,
        status: FmtStatus::Unchanged,
        problem: None,
        diff: None,
        left: formatted.left,
    };
    // Bytes, not texts: a removed byte order mark is a change, too.
    if formatted.text.as_bytes() == files.bytes {
        return record;
    }
    if args.check {
        record.status = FmtStatus::WouldFormat;
        record.diff = Some(diff_lines(head(&text), head(&formatted.text)));
        return record;
    }
    record.status = FmtStatus::Formatted;
    let text = formatted.text.as_bytes();
    if let Err(error) = recorder.replacing(&path, || Ok(replace_file(&path, &files.bytes, text)?)) {
        return FmtRecord::from_problem(record.path, FmtStatus::Failed, error);
    }
    record
}

impl From<ReplaceError> for FmtProblem {
    fn from(error: ReplaceError) -> Self {
        let code = match &error {
            ReplaceError::Changed { .. } => exit::CONFLICT,
            _ => exit::IO,
        };
        let help = "it is as it was; check who may write there, or try again".to_owned();
        Self { line: 0, message: error.to_string(), help, code }
    }
}

impl From<CliError> for FmtProblem {
    fn from(error: CliError) -> Self {
        let help = "it is as it was: its text could not be recorded as a version".to_owned();
        Self { line: 0, message: error.message().to_owned(), help, code: error.code() }
    }
}

/// Returns the frontmatter with its fences.
fn head(text: &str) -> &str {
    &text[..find_fences(text).map_or(0, |fences| fences.body_start)]
}

impl FmtRecord {
    fn from_problem(path: String, status: FmtStatus, problem: FmtProblem) -> Self {
        Self { path, status, problem: Some(problem), diff: None, left: Vec::new() }
    }

    fn code(&self) -> u8 {
        match (&self.problem, self.status) {
            (Some(problem), _) => problem.code,
            (None, FmtStatus::WouldFormat) => exit::FINDINGS,
            (None, _) => exit::OK,
        }
    }
}

impl FmtSummary {
    fn count(&mut self, status: FmtStatus) {
        *match status {
            FmtStatus::Unchanged => &mut self.unchanged,
            FmtStatus::Formatted => &mut self.formatted,
            FmtStatus::WouldFormat => &mut self.would_format,
            FmtStatus::Refused => &mut self.refused,
            FmtStatus::Failed => &mut self.failed,
        } += 1;
    }
}

fn print(output: Output, record: &FmtRecord) -> Result<(), CliError> {
    let path = display_safe(&record.path);
    if let Some(FmtProblem { line, message, help, code }) = &record.problem {
        let line = if *line > 0 { format!(":{line}") } else { String::new() };
        let error = CliError::new(*code, format!("{path}{line}: {message}"));
        output.print_error(&if help.is_empty() { error } else { error.with_hint(help.as_str()) });
    }
    match record.status {
        FmtStatus::Unchanged | FmtStatus::Refused | FmtStatus::Failed => {}
        FmtStatus::Formatted => output.print_line(format!("formatted {path}"))?,
        FmtStatus::WouldFormat => output.print_line(format!("would format {path}"))?,
    }
    for line in record.diff.as_deref().unwrap_or_default().lines() {
        let line = display_safe(line);
        match line_style(&line) {
            Some(style) => output.print_line(format!("  {style}{line}{style:#}"))?,
            None => output.print_line(format!("  {line}"))?,
        }
    }
    if !record.left.is_empty() {
        output.print_note(format!(
            "{path}: `{}` stays at the top: it decides who may use the skill",
            record.left.join("`, `")
        ));
    }
    Ok(())
}

fn print_summary(output: Output, summary: &FmtSummary) -> Result<(), CliError> {
    let counts = [
        (summary.formatted, "formatted"),
        (summary.would_format, "would be formatted"),
        (summary.unchanged, "unchanged"),
        (summary.refused, "refused"),
        (summary.failed, "failed"),
    ];
    let parts: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if parts.is_empty() { Ok(()) } else { output.print_line(parts.join(", ")) }
}

/// Returns the hint on a file that cannot be formatted.
fn format_hint(reason: &FmtErrorKind) -> String {
    let hint = match reason {
        FmtErrorKind::NoFields { .. } => {
            return format!("see: {}", OperatorCommand::ValidateSkills);
        }
        FmtErrorKind::Ambiguous { .. } => "write it in plain YAML, or put the text in quotes",
        FmtErrorKind::Gap => "write one `key: value` per line, nested less deeply",
        FmtErrorKind::Control { .. } => "remove it",
        FmtErrorKind::LongKey => "shorten the key",
        FmtErrorKind::MetadataNotMap => "write `key: value` lines below `metadata`",
        FmtErrorKind::Taken { .. } => "remove one of the two",
        FmtErrorKind::Inexact => "report the file as a bug; it was not changed",
    };
    hint.to_owned()
}
