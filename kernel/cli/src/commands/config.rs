//! `skillhost config`: the settings in force and where each comes from.

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::{Value, json};
use skill_commands::{REGISTRY, registry_config};
use skillhost_core::KernelLimits;
use skillhost_home::{add_default_rows, discover_manifests};
use skillhost_terminal::{CliContext, CommandResult, DIM, TableColumn, exit};

pub(super) fn cmd_config(session: &CliContext) -> CommandResult {
    let home = session.home()?;
    let loaded = session.settings(&home)?;
    let installation = session.installation();
    let found = discover_manifests(&home, installation, &loaded.settings.allow_shadowing);
    let manifests: Vec<_> =
        found.manifests.values().map(|found| (&*found.manifest, found.path.as_path())).collect();
    let mut rows = loaded.provenance(&manifests);
    // The defaults of values that may be absent.
    let retries = KernelLimits::default().event_retries;
    let retries: Vec<u128> = retries.iter().map(Duration::as_millis).collect();
    add_default_rows("events.retry_ms", &json!(retries), &mut rows);
    if let Some(installation) = installation {
        add_default_rows("build.sdk", &json!(installation.sdk), &mut rows);
    }
    // Faulty settings of the registry are listed as they are.
    if let (true, Ok(config)) =
        (found.manifests.contains_key(REGISTRY), registry_config(session, &home))
    {
        let config = serde_json::to_value(config).unwrap_or_default();
        add_default_rows(&format!("extensions.{REGISTRY}"), &config, &mut rows);
    }
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    let trusted = home.require_trust(&session.environment).is_ok();
    let output = session.output;
    if output.json {
        output.print_json(&json!({
            "home": home.root(),
            "home_source": home.source(),
            "trusted": trusted,
            "settings_file": home.settings_file(),
            "settings": rows,
        }))?;
        return Ok(exit::OK);
    }
    let source = serde_json::to_string(&home.source()).unwrap_or_default();
    let trusted = if trusted { "trusted" } else { "not trusted" };
    output.print_line(format!(
        "home  {} {DIM}({}, {trusted}){DIM:#}",
        home.root().display(),
        source.trim_matches('"')
    ))?;
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            let source = row.source.replace(&format!("{}/", home.root().display()), "");
            vec![row.key.clone(), format_value(&row.value), source]
        })
        .collect();
    let columns =
        [TableColumn::fixed("KEY"), TableColumn::text("VALUE"), TableColumn::text("SOURCE")];
    output.print_table(&columns, &cells)?;
    for rejection in &found.rejected {
        output.print_note(format!(
            "{}: not read, see: skillhost ext doctor",
            rejection.manifest.display()
        ));
    }
    Ok(exit::OK)
}

/// Formats a value with blanks, at which a narrow table can wrap it.
fn format_value(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(format_value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| {
                format!("{}: {}", Value::from(key.as_str()), format_value(value))
            };
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}
