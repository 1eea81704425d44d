//! Parses the `schedules` of a manifest.

use std::collections::HashMap;

use serde_json::json;

use crate::read::{ErrorReport, MappingReader, NodeReader, ReadResult};
use crate::{ExtensionKind, ManifestErrorKind, ScheduleAction, ScheduleSpec, rules, times};

/// The range of timeouts, in words: any `u32` of milliseconds, at most 49 days.
pub(super) const MILLISECONDS: &str = "a whole number of milliseconds from 1 to 4294967295";

/// Parses `schedules`; names must be unique.
pub(super) fn parse_schedules(
    at: &NodeReader<'_>,
    kind: Option<&ExtensionKind>,
    report: &mut ErrorReport,
) -> ReadResult<Vec<ScheduleSpec>> {
    let mut before: HashMap<String, u32> = HashMap::new();
    at.list(report, |at, report| {
        let expected = "a mapping with `name`, `cron` and an action";
        let fields = at.fields("schedules[]", expected, report)?;
        let name = fields.required("name", report, |at, report| {
            let name = at.text_matching(&rules::SCHEDULE, report)?;
            // The journal stores the last run of a schedule under its name.
            match before.insert(name.clone(), at.node.span().line) {
                Some(first_line) => {
                    Err(at.error(ManifestErrorKind::DuplicateName { name, first_line }, report))
                }
                None => Ok(name),
            }
        });
        let cron = fields.required("cron", report, parse_pattern);
        let timezone = fields.optional("timezone", report, parse_timezone);
        let action = parse_action(at, &fields, kind, report);
        let timeout_ms = fields.optional("timeout_ms", report, parse_timeout);
        Ok(ScheduleSpec {
            name: name?,
            cron: cron?,
            timezone: timezone?,
            action: action?,
            timeout_ms: timeout_ms?,
        })
    })
}

fn parse_pattern(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<String> {
    let pattern = at.text(report)?;
    match times::parse_cron(&pattern) {
        // The text is kept, because the pattern is also displayed; the scheduler parses it again.
        Ok(_) => Ok(pattern),
        Err(problem) => {
            let field = at.path.clone();
            Err(at.error(ManifestErrorKind::Cron { field, pattern, problem }, report))
        }
    }
}

fn parse_timezone(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<String> {
    let value = at.text(report)?;
    if times::find_time_zone(&value).is_some() {
        return Ok(value);
    }
    let (field, nearest) = (at.path.clone(), times::nearest_zone(&value));
    Err(at.error(ManifestErrorKind::TimeZone { field, value, nearest }, report))
}

/// Parses a number of milliseconds.
pub(super) fn parse_timeout(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<u64> {
    at.positive::<u32>(MILLISECONDS, report).map(u64::from)
}

/// Parses the action. All fields are read, so that every error in them is reported.
fn parse_action(
    at: &NodeReader<'_>,
    fields: &MappingReader<'_>,
    kind: Option<&ExtensionKind>,
    report: &mut ErrorReport,
) -> ReadResult<ScheduleAction> {
    let task = fields.optional("task", report, |at, report| at.text_matching(&rules::TOOL, report));
    let tool = fields.optional("tool", report, |at, report| at.text_matching(&rules::TOOL, report));
    let prompt = fields.optional("prompt", report, |at, report| {
        let prompt = at.text(report)?;
        match prompt.trim().is_empty() {
            true => Err(at.invalid(&prompt, "text that is not blank", report)),
            false => Ok(prompt),
        }
    });
    let arguments = fields.optional("arguments", report, NodeReader::object);

    let mut present: Vec<_> = ["task", "tool", "prompt"]
        .into_iter()
        .filter_map(|name| Some((name, fields.key(name)?)))
        .collect();
    // In the order of the file, so that the error is reported at the second one.
    present.sort_by_key(|(_, key)| key.span);
    if let [(first, _), (second, key), ..] = present[..] {
        let kind = ManifestErrorKind::TwoActions { first, second };
        return Err(report.add(kind, key.span));
    }
    if let (Some(key), None) = (fields.key("arguments"), fields.key("tool")) {
        let kind = misplaced_field(at, "arguments", "a `tool`");
        return Err(report.add(kind, key.span));
    }
    let Some(&(name, key)) = present.first() else {
        let expected = match kind {
            Some(ExtensionKind::Agent(_)) => "`prompt`",
            Some(ExtensionKind::Process { .. }) => "`tool`",
            Some(ExtensionKind::Library { .. }) => "`task` or `tool`",
            None => "`task`, `tool` or `prompt`",
        };
        let kind = ManifestErrorKind::NoAction { field: at.path.clone(), expected };
        return Err(fields.report_missing(&["task", "tool", "prompt"], kind, report));
    };
    // An unknown kind is reported elsewhere, so any action is accepted with it.
    let owner = match (name, kind) {
        ("task", Some(ExtensionKind::Process { .. })) => Some("libraries; a process has `tool`"),
        ("task", Some(ExtensionKind::Agent(_))) => Some("libraries; an agent has `prompt`"),
        ("tool", Some(ExtensionKind::Agent(_))) => {
            Some("extensions with tools of their own; an agent has `prompt`")
        }
        ("prompt", Some(ExtensionKind::Library { .. })) => {
            Some("agents; a library has `task` and `tool`")
        }
        ("prompt", Some(ExtensionKind::Process { .. })) => Some("agents; a process has `tool`"),
        _ => None,
    };
    if let Some(owner) = owner {
        return Err(report.add(misplaced_field(at, name, owner), key.span));
    }
    match (task?, tool?, prompt?) {
        (Some(task), ..) => Ok(ScheduleAction::Task(task)),
        (_, Some(name), _) => {
            Ok(ScheduleAction::Tool { name, arguments: arguments?.unwrap_or_else(|| json!({})) })
        }
        (.., prompt) => Ok(ScheduleAction::Prompt(prompt.expect("one of three is there"))),
    }
}

/// Creates the error for a field of the mapping at `at` that requires `owner`.
pub(super) fn misplaced_field(
    at: &NodeReader<'_>,
    field: &str,
    owner: &'static str,
) -> ManifestErrorKind {
    ManifestErrorKind::Belongs { field: format!("{}.{field}", at.path), owner }
}
