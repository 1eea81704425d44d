//! Reads the `schedules` of a manifest.

use std::collections::HashMap;

use serde_json::json;

use crate::read::{ErrorReport, MappingReader, NodeReader, ReadResult};
use crate::{ExtensionKind, ManifestErrorKind, ScheduleAction, ScheduleSpec, rules, times};

/// The longest run of anything that the kernel waits for: 49 days, so any number of milliseconds
/// that fits here.
pub(super) const MILLISECONDS: &str = "a whole number of milliseconds from 1 to 4294967295";

/// Reads the list; names must differ. What fits the extension is checked where its kind is known.
pub(super) fn parse_schedules(
    at: &NodeReader<'_>,
    kind: Option<&ExtensionKind>,
    report: &mut ErrorReport,
) -> ReadResult<Vec<ScheduleSpec>> {
    let mut before: HashMap<String, u32> = HashMap::new();
    at.list(report, |at, report| {
        let expected = "a mapping with `name`, `cron` and what is to be done";
        let fields = at.fields("schedules[]", expected, report)?;
        let name = fields.required("name", report, |at, report| {
            let name = at.text_matching(&rules::SCHEDULE, report)?;
            match before.insert(name.clone(), at.node.line) {
                Some(first_line) => {
                    Err(at.error(ManifestErrorKind::DuplicateName { name, first_line }, report))
                }
                None => Ok(name),
            }
        });
        let cron = fields.required("cron", report, cron);
        let timezone = fields.optional("timezone", report, timezone);
        let action = action(at, &fields, kind, report);
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

fn cron(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<String> {
    let pattern = at.text(report)?;
    match times::parse_cron(&pattern) {
        Ok(_) => Ok(pattern),
        Err(problem) => {
            let field = at.path.clone();
            Err(at.error(ManifestErrorKind::Cron { field, pattern, problem }, report))
        }
    }
}

fn timezone(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<String> {
    let value = at.text(report)?;
    if times::find_time_zone(&value).is_some() {
        return Ok(value);
    }
    let (field, nearest) = (at.path.clone(), times::nearest_zone(&value));
    Err(at.error(ManifestErrorKind::TimeZone { field, value, nearest }, report))
}

/// Reads a number of milliseconds.
pub(super) fn parse_timeout(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<u64> {
    at.positive::<u32>(MILLISECONDS, report).map(u64::from)
}

/// Reads the one thing to do. All fields are read, so that each mistake in them is told.
fn action(
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
    present.sort_by_key(|(_, key)| (key.line, key.column));
    if let [(first, _), (second, key), ..] = present[..] {
        let kind = ManifestErrorKind::TwoActions { first, second };
        return Err(report.add(kind, key.line, key.column));
    }
    if let (Some(key), None) = (fields.key("arguments"), fields.key("tool")) {
        let kind = misplaced_field(at, "arguments", "a `tool`");
        return Err(report.add(kind, key.line, key.column));
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
        return Err(report.add(misplaced_field(at, name, owner), key.line, key.column));
    }
    match (task?, tool?, prompt?) {
        (Some(task), ..) => Ok(ScheduleAction::Task(task)),
        (_, Some(name), _) => {
            Ok(ScheduleAction::Tool { name, arguments: arguments?.unwrap_or_else(|| json!({})) })
        }
        (.., prompt) => Ok(ScheduleAction::Prompt(prompt.expect("one of three is there"))),
    }
}

/// Says what a field of the mapping at `at` is for.
pub(super) fn misplaced_field(
    at: &NodeReader<'_>,
    field: &str,
    owner: &'static str,
) -> ManifestErrorKind {
    ManifestErrorKind::Belongs { field: format!("{}.{field}", at.path), owner }
}
