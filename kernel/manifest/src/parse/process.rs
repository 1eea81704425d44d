//! Parses the fields about the process and the tools of an extension.

use std::collections::{BTreeMap, HashMap};

use super::kind::reject_for_agents;
use crate::read::{ErrorReport, MappingReader, NodeReader, ReadResult};
use crate::{ExtensionKind, ManifestErrorKind, ToolNames, rules};

/// The kind of extension that the fields of a process require.
const OWNER: &str = "process extensions (`entrypoint: {command: […]}`)";

/// Parses `tools`.
pub(super) fn parse_tool_names(
    fields: &MappingReader<'_>,
    report: &mut ErrorReport,
) -> ReadResult<ToolNames> {
    reject_for_agents("tools", fields, report)?;
    let names = fields.optional("tools", report, |at, report| {
        let expected = "a mapping with `prefix`, `rename`, `include` and `exclude`";
        let fields = at.fields("tools", expected, report)?;
        let prefix = fields
            .optional("prefix", report, |at, report| at.text_matching(&rules::PREFIX, report));
        let rename = fields.optional("rename", report, parse_renames);
        let globs = |at: &NodeReader<'_>, report: &mut ErrorReport| {
            at.list(report, |at, report| at.text_matching(&rules::GLOB, report))
        };
        let include = fields.optional("include", report, globs);
        let exclude = fields.optional("exclude", report, globs);
        Ok(ToolNames {
            prefix: prefix?,
            rename: rename?.unwrap_or_default(),
            include: include?,
            exclude: exclude?.unwrap_or_default(),
        })
    });
    Ok(names?.unwrap_or_default())
}

fn parse_renames(
    at: &NodeReader<'_>,
    report: &mut ErrorReport,
) -> ReadResult<BTreeMap<String, String>> {
    let mut before: HashMap<String, u32> = HashMap::new();
    let entries = at.entries(report, |own, at, report| {
        if !(rules::OWN_TOOL.is_valid)(&own.text) {
            let (field, value) = (at.path.clone(), own.text.clone());
            let expected = rules::OWN_TOOL.expected;
            let kind = ManifestErrorKind::Invalid { field, value, expected };
            return Err(report.add(kind, own.span));
        }
        let name = at.text_matching(&rules::TOOL, report)?;
        // Two tools with one final name could not both be offered.
        match before.insert(name.clone(), at.node.span().line) {
            Some(first_line) => {
                Err(at.error(ManifestErrorKind::DuplicateName { name, first_line }, report))
            }
            None => Ok((own.text.clone(), name)),
        }
    })?;
    Ok(entries.into_iter().collect())
}

/// Parses `env`. A value may be a number or a boolean; it is passed on verbatim.
pub(super) fn parse_environment(
    fields: &MappingReader<'_>,
    kind: Option<&ExtensionKind>,
    secrets: Option<&[String]>,
    report: &mut ErrorReport,
) -> ReadResult<BTreeMap<String, String>> {
    reject_unless_process("env", fields, kind, report)?;
    let entries = fields.optional("env", report, |at, report| {
        let entries = at.entries(report, |name, at, report| {
            let invalid_name = |expected, report: &mut ErrorReport| {
                let (field, value) = ("env".to_owned(), name.text.clone());
                let kind = ManifestErrorKind::Invalid { field, value, expected };
                Err(report.add(kind, name.span))
            };
            if !(rules::VARIABLE.is_valid)(&name.text) {
                return invalid_name(rules::VARIABLE.expected, report);
            }
            // The kernel sets secrets as variables; a fixed value would override one silently.
            if secrets.is_some_and(|secrets| secrets.contains(&name.text)) {
                return invalid_name("a variable that is not in `secrets`", report);
            }
            Ok((name.text.clone(), at.scalar_matching(&rules::ARGUMENT, report)?))
        })?;
        // The limit bounds the environment that the kernel passes to the process.
        match entries.len() {
            0..=rules::MAX_VARIABLES => Ok(entries),
            count => Err(at.invalid(&format!("{count} variables"), rules::VARIABLES, report)),
        }
    });
    Ok(entries?.unwrap_or_default().into_iter().collect())
}

/// Parses `start_timeout_ms`.
pub(super) fn parse_start_timeout(
    fields: &MappingReader<'_>,
    kind: Option<&ExtensionKind>,
    report: &mut ErrorReport,
) -> ReadResult<Option<u64>> {
    reject_unless_process("start_timeout_ms", fields, kind, report)?;
    fields.optional("start_timeout_ms", report, |at, report| {
        let timeout = at.positive::<u64>(rules::START_TIMEOUT, report)?;
        match rules::START_TIMEOUT_RANGE.contains(&timeout) {
            true => Ok(timeout),
            false => Err(at.invalid(&timeout.to_string(), rules::START_TIMEOUT, report)),
        }
    })
}

/// Parses `channel`. A library declares it in its code.
pub(super) fn parse_channel(
    fields: &MappingReader<'_>,
    kind: Option<&ExtensionKind>,
    report: &mut ErrorReport,
) -> ReadResult<bool> {
    reject_unless_process("channel", fields, kind, report)?;
    Ok(fields.optional("channel", report, NodeReader::boolean)?.unwrap_or_default())
}

/// Rejects a field that only a process may have.
pub(super) fn reject_unless_process(
    field: &str,
    fields: &MappingReader<'_>,
    kind: Option<&ExtensionKind>,
    report: &mut ErrorReport,
) -> ReadResult<()> {
    // Without a valid kind there is an error already; a second one would only confuse.
    match (fields.key(field), kind) {
        (Some(key), Some(ExtensionKind::Library { .. } | ExtensionKind::Agent(_))) => {
            let kind = ManifestErrorKind::Belongs { field: field.to_owned(), owner: OWNER };
            Err(report.add(kind, key.span))
        }
        _ => Ok(()),
    }
}
