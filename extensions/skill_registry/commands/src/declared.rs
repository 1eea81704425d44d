//! Declarations of a skill beyond the standard, in the lines of `skillhost skill show`.

use skill_catalog::{Skill, Store, read_skill_yaml};
use skill_compat::extended::{ExecutionOrder, ExtendedSpec, ParsedExtendedSpec};
use skillhost_terminal::CliError;

use super::wording::registry_error;

/// Reads a skill's declarations from its frontmatter and its `skill.yaml`. An unreadable
/// `skill.yaml` is skipped: `read_skill` already reports it.
pub(super) fn read_declarations(store: &Store, skill: &Skill) -> Result<ExtendedSpec, CliError> {
    let source = store.read(skill).map_err(registry_error)?;
    let sidecar = read_skill_yaml(&skill.dir()).ok().flatten();
    let sidecar = sidecar
        .map(|text| ParsedExtendedSpec::parse_skill_yaml(&text, skill.id().as_str()).extended);
    Ok(ExtendedSpec::from_frontmatter(&source.frontmatter).merge_with(sidecar.unwrap_or_default()))
}

/// Returns labels and texts; the texts are not sanitized.
pub(super) fn lines(extended: &ExtendedSpec) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let optional = |optional: bool| if optional { " (optional)" } else { "" };
    if let Some(security) = &extended.security {
        for it in &security.capabilities {
            let text = format!("{}: {}{}", it.capability, it.reason, optional(it.optional));
            lines.push(("capability", text));
        }
        let mut wants = Vec::new();
        for (declared, text) in [
            (security.requires_network, "network"),
            (security.modifies_files, "modifies files"),
            (security.executes_commands, "executes commands"),
        ] {
            match declared {
                Some(true) => wants.push(text.to_owned()),
                Some(false) => wants.push(format!("no {text}")),
                None => {}
            }
        }
        wants.extend(security.file_system_scope.map(|scope| format!("scope {}", scope.as_str())));
        if !wants.is_empty() {
            lines.push(("security", wants.join(", ")));
        }
    }
    for it in extended.tools.iter().flat_map(|tools| &tools.dependencies) {
        let version = it.min_version.as_ref().map(|version| format!(" {version} or newer"));
        let version = version.unwrap_or_default();
        let text = format!("{}{version}: {}{}", it.tool, it.purpose, optional(!it.required));
        lines.push(("tool", text));
    }
    if let Some(composition) = &extended.composition {
        for it in &composition.dependencies {
            let text = format!("{}: {}{}", it.skill_name, it.reason, optional(it.optional));
            lines.push(("skill", text));
        }
        if !composition.conflicts.is_empty() {
            lines.push(("conflicts", composition.conflicts.join(", ")));
        }
        if let Some(order) = composition.execution_order {
            let text = match order {
                ExecutionOrder::Before => "before the skills it needs",
                ExecutionOrder::After => "after the skills it needs",
                ExecutionOrder::Independent => "independent of the skills it needs",
            };
            lines.push(("order", text.to_owned()));
        }
    }
    for it in extended.tests.iter().flatten() {
        let cases = it.cases.len();
        let cases = format!("{cases} {}", if cases == 1 { "case" } else { "cases" });
        lines.push(("test", format!("{}: {} ({cases})", it.name, it.description)));
    }
    lines
}
