//! `skillhost config`: the settings in force and where each comes from.

use serde_json::json;
use skillhost_home::{Installation, discover_manifests};
use skillhost_terminal::{CliContext, CommandResult, DIM, display_safe, exit};

pub(super) fn cmd_config(session: &CliContext) -> CommandResult {
    let home = session.home()?;
    let loaded = session.settings(&home)?;
    let installation = Installation::from_current_exe();
    let found = discover_manifests(&home, installation.as_ref(), &loaded.settings.allow_shadowing);
    let manifests: Vec<_> =
        found.manifests.values().map(|found| (&*found.manifest, found.path.as_path())).collect();
    let rows = loaded.provenance(&manifests);
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
            vec![row.key.clone(), display_safe(&row.value.to_string()), source]
        })
        .collect();
    output.print_table(&["KEY", "VALUE", "SOURCE"], &cells)?;
    for rejection in &found.rejected {
        output.print_note(format!(
            "{}: not read, see: skillhost ext doctor",
            rejection.manifest.display()
        ));
    }
    Ok(exit::OK)
}
