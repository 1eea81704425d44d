//! Parses the `agent` part of a manifest.

use std::collections::HashSet;

use serde_json::json;

use crate::read::{ErrorReport, NodeReader, ReadResult};
use crate::rules::{self, TextRule};
use crate::{
    AgentCatalog, AgentLimits, AgentManifest, AllowedToolsMode, CapabilityMode, IntegrationMode,
    Located,
};

/// Parses `agent`.
pub(super) fn parse_agent(
    at: &NodeReader<'_>,
    report: &mut ErrorReport,
) -> ReadResult<AgentManifest> {
    let fields = at.fields("agent", "a mapping", report)?;
    let integration_mode = fields.optional("integration_mode", report, parse_integration_mode);
    let model =
        fields.optional("model", report, |at, report| at.text_matching(&rules::LINE, report));
    let instructions = fields.optional("instructions", report, NodeReader::text);
    let parallel_tool_calls = fields.optional("parallel_tool_calls", report, NodeReader::boolean);
    let parameters = fields.optional("parameters", report, NodeReader::object);
    let uses_tools =
        fields.optional("uses_tools", report, |at, report| parse_names(at, &rules::TOOL, report));
    let uses_skills =
        fields.optional("uses_skills", report, |at, report| parse_names(at, &rules::SKILL, report));
    let catalog = fields.optional("catalog", report, parse_catalog);
    let allowed_tools_mode =
        fields.optional("allowed_tools_mode", report, parse_allowed_tools_mode);
    let capability_mode = fields.optional("capability_mode", report, parse_capability_mode);
    let limits = fields.optional("limits", report, parse_limits);

    let uses_skills = uses_skills?.unwrap_or_default();
    // Bound skills define the agent's scope, so its catalog follows them.
    let default_catalog =
        if uses_skills.is_empty() { AgentCatalog::All } else { AgentCatalog::Declared };
    Ok(AgentManifest {
        integration_mode: integration_mode?.unwrap_or_default(),
        model: model?,
        instructions: instructions?,
        parallel_tool_calls: parallel_tool_calls?,
        parameters: parameters?.unwrap_or_else(|| json!({})),
        uses_tools: uses_tools?.unwrap_or_default(),
        uses_skills,
        catalog: catalog?.unwrap_or(default_catalog),
        allowed_tools_mode: allowed_tools_mode?.unwrap_or_default(),
        capability_mode: capability_mode?,
        limits: limits?.unwrap_or_default(),
    })
}

fn parse_integration_mode(
    at: &NodeReader<'_>,
    report: &mut ErrorReport,
) -> ReadResult<IntegrationMode> {
    let modes = [("standalone", IntegrationMode::Standalone), ("tool", IntegrationMode::Tool)];
    at.choice(&modes, "`standalone` or `tool`", report)
}

fn parse_allowed_tools_mode(
    at: &NodeReader<'_>,
    report: &mut ErrorReport,
) -> ReadResult<AllowedToolsMode> {
    let modes = [("grant", AllowedToolsMode::Grant), ("restrict", AllowedToolsMode::Restrict)];
    at.choice(&modes, "`grant` or `restrict`", report)
}

fn parse_capability_mode(
    at: &NodeReader<'_>,
    report: &mut ErrorReport,
) -> ReadResult<CapabilityMode> {
    let modes = [
        ("off", CapabilityMode::Off),
        ("report", CapabilityMode::Report),
        ("enforce", CapabilityMode::Enforce),
    ];
    at.choice(&modes, "`off`, `report` or `enforce`", report)
}

/// Parses a list of names without duplicates; each has the position of its first occurrence.
fn parse_names(
    at: &NodeReader<'_>,
    rule: &TextRule,
    report: &mut ErrorReport,
) -> ReadResult<Vec<Located<String>>> {
    let mut names = at.list(report, |at, report| Ok(at.locate(at.text_matching(rule, report)?)))?;
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.value.clone()));
    Ok(names)
}

fn parse_catalog(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<AgentCatalog> {
    const EXPECTED: &str =
        "`all`, `declared`, `none`, a list of globs or a mapping with `include` and `exclude`";
    if at.is_text() {
        let words = [
            ("all", AgentCatalog::All),
            ("declared", AgentCatalog::Declared),
            ("none", AgentCatalog::None),
        ];
        return at.choice(&words, EXPECTED, report);
    }
    let globs = |at: &NodeReader<'_>, report: &mut ErrorReport| {
        at.list(report, |at, report| at.text_matching(&rules::GLOB, report))
    };
    // A list is the short form of `include`, so `[]` means no skill.
    if at.is_list() {
        let (include, exclude) = (globs(at, report)?, Vec::new());
        return Ok(AgentCatalog::Globs { include, exclude });
    }
    let fields = at.fields("agent.catalog", EXPECTED, report)?;
    let include = fields.optional("include", report, globs);
    let exclude = fields.optional("exclude", report, globs);
    Ok(AgentCatalog::Globs {
        include: include?.unwrap_or_else(|| vec!["*".to_owned()]),
        exclude: exclude?.unwrap_or_default(),
    })
}

fn parse_limits(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<AgentLimits> {
    const COUNT: &str = "a whole number from 1 to 4294967295";
    const AMOUNT: &str = "a whole number from 1 up";
    let fields = at.fields("agent.limits", "a mapping", report)?;
    let max_turns = fields.optional("max_turns", report, |at, report| at.positive(COUNT, report));
    let max_tokens_per_invocation =
        fields.optional("max_tokens_per_invocation", report, |at, report| {
            at.positive(AMOUNT, report)
        });
    let time_budget_ms =
        fields.optional("time_budget_ms", report, |at, report| at.positive(AMOUNT, report));
    Ok(AgentLimits {
        max_turns: max_turns?,
        max_tokens_per_invocation: max_tokens_per_invocation?,
        time_budget_ms: time_budget_ms?,
    })
}
