//! From text to [`Manifest`].

mod agent;
mod events;
pub(crate) mod fields;
mod process;
mod schedules;

use serde_json::json;

use crate::read::{At, Fields, Read, Report};
use crate::rules;
use crate::{Dependency, ExtensionId, Kind, Manifest, ManifestErrorKind, ManifestErrors, Mcp};

/// Reads the text of one `manifest.yaml`.
///
/// Text of any kind is read in bounded time: at most 256 KiB, 5,000 keys and values, nested 32
/// deep; YAML's anchors, aliases and tags are refused.
///
/// # Errors
/// Every mistake that can be told apart, with line and column. Where the text cannot be read as
/// YAML at all, that alone.
pub fn parse(text: &str) -> Result<Manifest, ManifestErrors> {
    let tree = crate::yaml::read(text).map_err(|error| ManifestErrors::new(vec![error]))?;
    let mut report = Report::new(tree.errors);
    let manifest = manifest(&At::root(&tree.root), &mut report);
    let errors = report.into_errors();
    match manifest {
        Ok(manifest) if errors.is_empty() => Ok(manifest),
        _ => Err(ManifestErrors::new(errors)),
    }
}

fn manifest(at: &At<'_>, report: &mut Report) -> Read<Manifest> {
    if !matches!(at.node.value, crate::yaml::Value::Mapping(_)) {
        let found = at.node.value.found();
        return Err(at.error(ManifestErrorKind::NotAMapping { found }, report));
    }
    let fields = at.fields("", "a mapping", report)?;
    let id = fields.required("id", report, extension_id);
    let name = fields.required("name", report, |at, report| at.text_by(&rules::LINE, report));
    let version =
        fields.optional("version", report, |at, report| at.verbatim_by(&rules::VERSION, report));
    let description = fields.optional("description", report, At::text);
    let kind = kind(&fields, report);
    let sha256 = sha256(&fields, report);
    let depends_on = fields
        .optional("depends_on", report, |at, report| dependencies(at, id.as_ref().ok(), report));
    let config = fields.optional("config", report, At::object);
    let secrets = fields.optional("secrets", report, |at, report| at.list(report, secret));
    let secrets = secrets.map(Option::unwrap_or_default);
    let named = secrets.as_ref().map(|all| all.iter().map(|(name, _)| name.clone()).collect());
    let named: Read<Vec<_>> = named.map_err(|reported| *reported);
    let optional = secrets.map(|all| {
        let optional = all.into_iter().filter(|(_, optional)| *optional);
        optional.map(|(name, _)| name).collect()
    });
    let env = process::environment(&fields, kind.as_ref().ok(), named.as_deref().ok(), report);
    let start_timeout_ms = process::start_timeout(&fields, kind.as_ref().ok(), report);
    let tools = process::tool_names(&fields, report);
    let enabled = fields.optional("enabled", report, At::boolean);
    let setup_instructions = fields.optional("setup_instructions", report, At::text);
    let events = fields
        .optional("events", report, |at, report| events::events(at, kind.as_ref().ok(), report));
    let mcp = mcp(&fields, report);
    let schedules = fields.optional("schedules", report, |at, report| {
        schedules::schedules(at, kind.as_ref().ok(), report)
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
        tools: tools?,
        enabled: enabled?.unwrap_or(true),
        sha256: sha256?,
        setup_instructions: setup_instructions?,
        events: events?.unwrap_or_default(),
        mcp: mcp?,
        schedules: schedules?.unwrap_or_default(),
    })
}

/// Reads the name of a secret, and whether the extension can do without it.
fn secret(at: &At<'_>, report: &mut Report) -> Read<(String, bool)> {
    if at.is_text() {
        return Ok((at.text_by(&rules::SECRET, report)?, false));
    }
    let fields = at.fields("secrets[]", "text or a mapping with `name` and `optional`", report)?;
    let name = fields.required("name", report, |at, report| at.text_by(&rules::SECRET, report));
    let optional = fields.optional("optional", report, At::boolean);
    Ok((name?, optional?.unwrap_or(false)))
}

fn extension_id(at: &At<'_>, report: &mut Report) -> Read<ExtensionId> {
    let text = at.text_by(&rules::ID, report)?;
    Ok(ExtensionId::new(&text).expect("the rule is the constructor's"))
}

/// Reads `entrypoint` or `agent`, of which there must be one.
fn kind(fields: &Fields<'_>, report: &mut Report) -> Read<Kind> {
    let entrypoint = fields.optional("entrypoint", report, entrypoint);
    let agent = fields.optional("agent", report, agent::agent);
    if let (Some(entrypoint), Some(agent)) = (fields.key("entrypoint"), fields.key("agent")) {
        let second = if entrypoint.line > agent.line { entrypoint } else { agent };
        return Err(report.add(ManifestErrorKind::TwoKinds, second.line, second.column));
    }
    match (entrypoint?, agent?) {
        (Some(kind), _) => Ok(kind),
        (None, Some(agent)) => Ok(Kind::Agent(Box::new(agent))),
        (None, None) => {
            Err(fields.missing(&["entrypoint", "agent"], ManifestErrorKind::NoKind, report))
        }
    }
}

/// Reads the name of a library, or the command of a process.
fn entrypoint(at: &At<'_>, report: &mut Report) -> Read<Kind> {
    if at.is_text() {
        return Ok(Kind::Library { entrypoint: at.text_by(&rules::ENTRYPOINT, report)? });
    }
    let fields = at.fields("entrypoint", "text or a mapping with `command`", report)?;
    let command = fields.required("command", report, |at, report| {
        let mut is_program = true;
        let words = at.list(report, |at, report| {
            let rule = if is_program { &rules::PROGRAM } else { &rules::ARGUMENT };
            is_program = false;
            at.text_by(rule, report)
        })?;
        match words.len() {
            1..=rules::MOST_WORDS => Ok(words),
            count => Err(at.invalid(&format!("{count} words"), rules::COMMAND, report)),
        }
    });
    Ok(Kind::Process { command: command? })
}

/// Refuses a field that says something about code where there is none.
fn code_only(field: &'static str, fields: &Fields<'_>, report: &mut Report) -> Read<()> {
    match (fields.key(field), fields.key("agent"), fields.key("entrypoint")) {
        (Some(key), Some(_), None) => {
            let kind = ManifestErrorKind::CodeOnly { field };
            Err(report.add(kind, key.line, key.column))
        }
        _ => Ok(()),
    }
}

fn mcp(fields: &Fields<'_>, report: &mut Report) -> Read<Mcp> {
    code_only("mcp", fields, report)?;
    let mcp = fields.optional("mcp", report, |at, report| {
        let fields = at.fields("mcp", "a mapping with `tools`", report)?;
        let tools = fields.optional("tools", report, |at, report| {
            at.list(report, |at, report| at.text_by(&rules::TOOL, report))
        });
        Ok(Mcp { tools: tools?.unwrap_or_default() })
    });
    Ok(mcp?.unwrap_or_default())
}

fn sha256(fields: &Fields<'_>, report: &mut Report) -> Read<Option<[u8; 32]>> {
    code_only("sha256", fields, report)?;
    fields.optional("sha256", report, |at, report| {
        let text = at.verbatim_by(&rules::SHA256, report)?;
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0);
            *byte = digits.iter().fold(0, |byte, &digit| byte << 4 | value(digit) as u8);
        }
        Ok(bytes)
    })
}

/// Reads `depends_on`. A second entry for the same id is a mistake rather than noise, since the
/// two can disagree on whether it is optional.
fn dependencies(
    at: &At<'_>,
    own_id: Option<&ExtensionId>,
    report: &mut Report,
) -> Read<Vec<Dependency>> {
    let mut before: Vec<Dependency> = Vec::new();
    at.list(report, |at, report| {
        let dependency = dependency(at, report)?;
        let Dependency { id, line, column, .. } = dependency.clone();
        if own_id == Some(&id) {
            return Err(report.add(ManifestErrorKind::SelfDependency { id }, line, column));
        }
        if let Some(first) = before.iter().find(|first| first.id == id) {
            let kind = ManifestErrorKind::DuplicateDependency { id, first_line: first.line };
            return Err(report.add(kind, line, column));
        }
        before.push(dependency.clone());
        Ok(dependency)
    })
}

fn dependency(at: &At<'_>, report: &mut Report) -> Read<Dependency> {
    let (line, column) = (at.node.line, at.node.column);
    if at.is_text() {
        return Ok(Dependency { id: extension_id(at, report)?, optional: false, line, column });
    }
    let fields = at.fields("depends_on[]", "text or a mapping with `id` and `optional`", report)?;
    let id = fields.required("id", report, extension_id);
    let optional = fields.optional("optional", report, At::boolean);
    Ok(Dependency { id: id?, optional: optional?.unwrap_or(false), line, column })
}
