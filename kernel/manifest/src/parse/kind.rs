//! Parses the kind of an extension: a library, a process or an agent.

use super::agent::parse_agent;
use crate::read::{ErrorReport, MappingReader, NodeReader, ReadResult};
use crate::{ExtensionKind, ManifestErrorKind, rules};

/// Parses `entrypoint` or `agent`; exactly one is required.
pub(super) fn parse_kind(
    fields: &MappingReader<'_>,
    report: &mut ErrorReport,
) -> ReadResult<ExtensionKind> {
    let entrypoint = fields.optional("entrypoint", report, parse_entrypoint);
    let agent = fields.optional("agent", report, parse_agent);
    if let (Some(entrypoint), Some(agent)) = (fields.key("entrypoint"), fields.key("agent")) {
        // The later one is the likely cause, so the error is reported there.
        let second = if entrypoint.span.line > agent.span.line { entrypoint } else { agent };
        return Err(report.add(ManifestErrorKind::TwoKinds, second.span));
    }
    match (entrypoint?, agent?) {
        (Some(kind), _) => Ok(kind),
        (None, Some(agent)) => Ok(ExtensionKind::Agent(Box::new(agent))),
        (None, None) => {
            Err(fields.report_missing(&["entrypoint", "agent"], ManifestErrorKind::NoKind, report))
        }
    }
}

/// Parses the name of a library, or the command of a process.
fn parse_entrypoint(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<ExtensionKind> {
    if at.is_text() {
        return Ok(ExtensionKind::Library {
            entrypoint: at.text_matching(&rules::ENTRYPOINT, report)?,
        });
    }
    let fields = at.fields("entrypoint", "text or a mapping with `command`", report)?;
    let command = fields.required("command", report, |at, report| {
        let mut is_program = true;
        let words = at.list(report, |at, report| {
            let rule = if is_program { &rules::PROGRAM } else { &rules::ARGUMENT };
            is_program = false;
            at.text_matching(rule, report)
        })?;
        match words.len() {
            1..=rules::MAX_COMMAND_WORDS => Ok(words),
            count => Err(at.invalid(&format!("{count} words"), rules::COMMAND, report)),
        }
    });
    Ok(ExtensionKind::Process { command: command? })
}

/// Rejects a field that requires a library or a process in an agent's manifest.
pub(super) fn reject_for_agents(
    field: &'static str,
    fields: &MappingReader<'_>,
    report: &mut ErrorReport,
) -> ReadResult<()> {
    // With both keys the kind is unknown, and that error is reported already.
    match (fields.key(field), fields.key("agent"), fields.key("entrypoint")) {
        (Some(key), Some(_), None) => {
            let kind = ManifestErrorKind::CodeOnly { field };
            Err(report.add(kind, key.span))
        }
        _ => Ok(()),
    }
}
