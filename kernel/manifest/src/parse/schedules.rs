//! Reads the `schedules` of a manifest.

use std::collections::HashMap;

use serde_json::json;

use crate::read::{At, Fields, Read, Report};
use crate::{Action, Kind, ManifestErrorKind, Schedule, rules, times};

/// The longest run of anything that the kernel waits for: 49 days, so any number of milliseconds
/// that fits here.
pub(super) const MILLISECONDS: &str = "a whole number of milliseconds from 1 to 4294967295";

/// Reads the list; names must differ. What fits the extension is checked where its kind is known.
pub(super) fn schedules(
    at: &At<'_>,
    kind: Option<&Kind>,
    report: &mut Report,
) -> Read<Vec<Schedule>> {
    let mut before: HashMap<String, u32> = HashMap::new();
    at.list(report, |at, report| {
        let expected = "a mapping with `name`, `cron` and what is to be done";
        let fields = at.fields("schedules[]", expected, report)?;
        let name = fields.required("name", report, |at, report| {
            let name = at.text_by(&rules::SCHEDULE, report)?;
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
        let timeout_ms = fields.optional("timeout_ms", report, timeout);
        Ok(Schedule {
            name: name?,
            cron: cron?,
            timezone: timezone?,
            action: action?,
            timeout_ms: timeout_ms?,
        })
    })
}

fn cron(at: &At<'_>, report: &mut Report) -> Read<String> {
    let pattern = at.text(report)?;
    match times::check(&pattern) {
        Ok(_) => Ok(pattern),
        Err(problem) => {
            let field = at.path.clone();
            Err(at.error(ManifestErrorKind::Cron { field, pattern, problem }, report))
        }
    }
}

fn timezone(at: &At<'_>, report: &mut Report) -> Read<String> {
    let value = at.text(report)?;
    if times::zone(&value).is_some() {
        return Ok(value);
    }
    let (field, nearest) = (at.path.clone(), times::nearest_zone(&value));
    Err(at.error(ManifestErrorKind::TimeZone { field, value, nearest }, report))
}

/// Reads a number of milliseconds.
pub(super) fn timeout(at: &At<'_>, report: &mut Report) -> Read<u64> {
    at.positive::<u32>(MILLISECONDS, report).map(u64::from)
}

/// Reads the one thing to do. All fields are read, so that each mistake in them is told.
fn action(
    at: &At<'_>,
    fields: &Fields<'_>,
    kind: Option<&Kind>,
    report: &mut Report,
) -> Read<Action> {
    let task = fields.optional("task", report, |at, report| at.text_by(&rules::TOOL, report));
    let tool = fields.optional("tool", report, |at, report| at.text_by(&rules::TOOL, report));
    let prompt = fields.optional("prompt", report, |at, report| {
        let prompt = at.text(report)?;
        match prompt.trim().is_empty() {
            true => Err(at.invalid(&prompt, "text that is not blank", report)),
            false => Ok(prompt),
        }
    });
    let arguments = fields.optional("arguments", report, At::object);

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
        let kind = belongs(at, "arguments", "a `tool`");
        return Err(report.add(kind, key.line, key.column));
    }
    let Some(&(name, key)) = present.first() else {
        let expected = match kind {
            Some(Kind::Agent(_)) => "`prompt`",
            Some(Kind::Process { .. }) => "`tool`",
            Some(Kind::Library { .. }) => "`task` or `tool`",
            None => "`task`, `tool` or `prompt`",
        };
        let kind = ManifestErrorKind::NoAction { field: at.path.clone(), expected };
        return Err(fields.missing(&["task", "tool", "prompt"], kind, report));
    };
    let owner = match (name, kind) {
        ("task", Some(Kind::Process { .. })) => Some("libraries; a process has `tool`"),
        ("task", Some(Kind::Agent(_))) => Some("libraries; an agent has `prompt`"),
        ("tool", Some(Kind::Agent(_))) => {
            Some("extensions with tools of their own; an agent has `prompt`")
        }
        ("prompt", Some(Kind::Library { .. })) => Some("agents; a library has `task` and `tool`"),
        ("prompt", Some(Kind::Process { .. })) => Some("agents; a process has `tool`"),
        _ => None,
    };
    if let Some(owner) = owner {
        return Err(report.add(belongs(at, name, owner), key.line, key.column));
    }
    match (task?, tool?, prompt?) {
        (Some(task), ..) => Ok(Action::Task(task)),
        (_, Some(name), _) => {
            Ok(Action::Tool { name, arguments: arguments?.unwrap_or_else(|| json!({})) })
        }
        (.., prompt) => Ok(Action::Prompt(prompt.expect("one of three is there"))),
    }
}

/// Says what a field of the mapping at `at` is for.
pub(super) fn belongs(at: &At<'_>, field: &str, owner: &'static str) -> ManifestErrorKind {
    ManifestErrorKind::Belongs { field: format!("{}.{field}", at.path), owner }
}
