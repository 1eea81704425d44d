//! The parser from text to [`Manifest`].

mod agent;
mod events;
pub(crate) mod fields;
mod kind;
mod process;
mod sandbox;
mod schedules;

use serde_json::json;
use yaml_tree::{Span, Value};

use self::kind::{parse_kind, reject_for_agents};
use crate::read::{ErrorReport, MappingReader, NodeReader, ReadResult};
use crate::rules;
use crate::yaml::{parse_yaml, yaml_type};
use crate::{
    ExtensionDependency, ExtensionId, ExtensionKind, IntegrationMode, Manifest, ManifestErrorKind,
    ManifestErrors, McpExports,
};

/// Parses the text of one `manifest.yaml`.
///
/// Any text is parsed in bounded time: at most 256 KiB, 5,000 keys and values, nested 32 deep;
/// YAML's anchors, aliases and tags are rejected.
///
/// # Errors
/// Every independent error, with line and column. If the text is not valid YAML, only that error.
pub fn parse_manifest(text: &str) -> Result<Manifest, ManifestErrors> {
    let tree = parse_yaml(text).map_err(|error| ManifestErrors::new(vec![error]))?;
    let mut report = ErrorReport::new(tree.errors);
    let manifest = parse_root(&NodeReader::root(&tree.root), &mut report);
    let errors = report.into_errors();
    match manifest {
        // A complete manifest may still have errors, such as unknown fields.
        Ok(manifest) if errors.is_empty() => Ok(manifest),
        _ => Err(ManifestErrors::new(errors)),
    }
}

fn parse_root(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<Manifest> {
    if !matches!(at.node, Value::Mapping(_)) {
        let found = yaml_type(at.node);
        return Err(at.error(ManifestErrorKind::NotAMapping { found }, report));
    }
    let fields = at.fields("", "a mapping", report)?;
    // Every field is read before the first `?`, so that all errors are reported together.
    let id = fields.required("id", report, NodeReader::extension_id);
    let name = fields.required("name", report, |at, report| at.text_matching(&rules::LINE, report));
    let version = fields
        .optional("version", report, |at, report| at.verbatim_matching(&rules::VERSION, report));
    let description = fields.optional("description", report, NodeReader::text);
    let kind = parse_kind(&fields, report);
    let sha256 = parse_sha256(&fields, report);
    let depends_on = fields.optional("depends_on", report, |at, report| {
        parse_dependencies(at, id.as_ref().ok(), report)
    });
    let config = fields.optional("config", report, NodeReader::object);
    let secrets = fields.optional("secrets", report, |at, report| at.list(report, parse_secret));
    let secrets = secrets.map(Option::unwrap_or_default);
    let named = secrets.as_ref().map(|all| all.iter().map(|(name, _)| name.clone()).collect());
    let named: ReadResult<Vec<_>> = named.map_err(|reported| *reported);
    let optional = secrets.map(|all| {
        let optional = all.into_iter().filter(|(_, optional)| *optional);
        optional.map(|(name, _)| name).collect()
    });
    let env =
        process::parse_environment(&fields, kind.as_ref().ok(), named.as_deref().ok(), report);
    let start_timeout_ms = process::parse_start_timeout(&fields, kind.as_ref().ok(), report);
    let channel = process::parse_channel(&fields, kind.as_ref().ok(), report);
    let sandbox = sandbox::parse_sandbox(&fields, kind.as_ref().ok(), report);
    let tools = process::parse_tool_names(&fields, report);
    let enabled = fields.optional("enabled", report, NodeReader::boolean);
    let setup_instructions = fields.optional("setup_instructions", report, NodeReader::text);
    let events = fields.optional("events", report, |at, report| {
        events::parse_events(at, kind.as_ref().ok(), report)
    });
    let mcp = parse_mcp(&fields, id.as_ref().ok(), kind.as_ref().ok(), report);
    let schedules = fields.optional("schedules", report, |at, report| {
        schedules::parse_schedules(at, kind.as_ref().ok(), report)
    });
    Ok(Manifest {
        id: id?,
        name: name?,
        version: version?,
        description: description?.unwrap_or_default(),
        kind: kind?,
        depends_on: depends_on?.unwrap_or_default(),
        config: config?.unwrap_or_else(|| json!({})),
        secrets: named?,
        optional_secrets: optional?,
        env: env?,
        start_timeout_ms: start_timeout_ms?,
        is_channel: channel?,
        sandbox: sandbox?,
        tools: tools?,
        enabled: enabled?.unwrap_or(true),
        sha256: sha256?,
        setup_instructions: setup_instructions?,
        events: events?.unwrap_or_default(),
        mcp: mcp?,
        schedules: schedules?.unwrap_or_default(),
    })
}

/// Parses the name of a secret and whether it is optional.
fn parse_secret(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<(String, bool)> {
    if at.is_text() {
        return Ok((at.text_matching(&rules::SECRET, report)?, false));
    }
    let fields = at.fields("secrets[]", "text or a mapping with `name` and `optional`", report)?;
    let name =
        fields.required("name", report, |at, report| at.text_matching(&rules::SECRET, report));
    let optional = fields.optional("optional", report, NodeReader::boolean);
    Ok((name?, optional?.unwrap_or(false)))
}

/// Parses the exports. An agent exports itself alone, as the tool that it is for other agents.
fn parse_mcp(
    fields: &MappingReader<'_>,
    id: Option<&ExtensionId>,
    kind: Option<&ExtensionKind>,
    report: &mut ErrorReport,
) -> ReadResult<McpExports> {
    let is_agent = matches!(kind, Some(ExtensionKind::Agent(_)));
    if let (Some(ExtensionKind::Agent(agent)), Some(key)) = (kind, fields.key("mcp"))
        && agent.integration_mode != IntegrationMode::Tool
    {
        let owner = "extensions with code and agents with `integration_mode: tool`";
        let kind = ManifestErrorKind::Belongs { field: "mcp".to_owned(), owner };
        return Err(report.add(kind, key.span));
    }
    let mcp = fields.optional("mcp", report, |at, report| {
        let fields = at.fields("mcp", "a mapping with `tools`", report)?;
        let tools = fields.optional("tools", report, |at, report| {
            at.list(report, |at, report| {
                let name = at.text_matching(&rules::TOOL, report)?;
                match id {
                    Some(id) if is_agent && id.as_str() != name => {
                        let (field, id) = (at.path.clone(), id.to_string());
                        Err(at.error(ManifestErrorKind::OtherExport { field, id }, report))
                    }
                    _ => Ok(name),
                }
            })
        });
        Ok(McpExports { tools: tools?.unwrap_or_default() })
    });
    Ok(mcp?.unwrap_or_default())
}

fn parse_sha256(
    fields: &MappingReader<'_>,
    report: &mut ErrorReport,
) -> ReadResult<Option<[u8; 32]>> {
    reject_for_agents("sha256", fields, report)?;
    fields.optional("sha256", report, |at, report| {
        let text = at.verbatim_matching(&rules::SHA256, report)?;
        // The rule has checked the digits; two of them make one byte.
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0);
            *byte = digits.iter().fold(0, |byte, &digit| byte << 4 | value(digit) as u8);
        }
        Ok(bytes)
    })
}

/// Parses `depends_on`.
// A second entry for the same id is an error: the two can differ in `optional`.
fn parse_dependencies(
    at: &NodeReader<'_>,
    own_id: Option<&ExtensionId>,
    report: &mut ErrorReport,
) -> ReadResult<Vec<ExtensionDependency>> {
    let mut before: Vec<ExtensionDependency> = Vec::new();
    at.list(report, |at, report| {
        let dependency = parse_dependency(at, report)?;
        let id = dependency.id.clone();
        if own_id == Some(&id) {
            return Err(at.error(ManifestErrorKind::SelfDependency { id }, report));
        }
        if let Some(first) = before.iter().find(|first| first.id == id) {
            let kind = ManifestErrorKind::DuplicateDependency { id, first_line: first.line };
            return Err(at.error(kind, report));
        }
        before.push(dependency.clone());
        Ok(dependency)
    })
}

fn parse_dependency(
    at: &NodeReader<'_>,
    report: &mut ErrorReport,
) -> ReadResult<ExtensionDependency> {
    let Span { line, column } = at.node.span();
    if at.is_text() {
        return Ok(ExtensionDependency {
            id: at.extension_id(report)?,
            optional: false,
            line,
            column,
        });
    }
    let fields = at.fields("depends_on[]", "text or a mapping with `id` and `optional`", report)?;
    let id = fields.required("id", report, NodeReader::extension_id);
    let optional = fields.optional("optional", report, NodeReader::boolean);
    Ok(ExtensionDependency { id: id?, optional: optional?.unwrap_or(false), line, column })
}
