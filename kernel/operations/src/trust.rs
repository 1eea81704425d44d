//! `skillhost trust`: trust in a home, which allows its extensions to load.

use std::path::{Path, PathBuf};

use serde_json::json;
use skillhost_home::{Home, HomeSource, trust as record_trust, trusted_homes, untrust};
use skillhost_terminal::{CliContext, CommandResult, display_safe, exit};

use crate::arguments::TrustArgs;

/// Trusts a home, lists the trusted homes, or removes the trust of one.
///
/// # Errors
/// The home is missing or broken, or the record of trusted homes is not usable.
pub fn cmd_trust(session: &CliContext, args: &TrustArgs) -> CommandResult {
    if args.list {
        return list(session);
    }
    if args.remove {
        return remove(session, args.dir.as_deref());
    }
    let output = session.output;
    let home = match &args.dir {
        Some(dir) => Home::open(&session.environment.current_dir.join(dir), HomeSource::Argument)?,
        None => session.home()?,
    };
    let new = record_trust(&home, &session.environment)?;
    if output.json {
        output.print_json(&json!({ "home": home.root(), "new": new }))?;
    } else if new {
        output.print_line(format!("trusted {}", display_path(home.root())))?;
    } else {
        output.print_line(format!("{} was trusted already", display_path(home.root())))?;
    }
    Ok(exit::OK)
}

/// Lists the homes; trust that is no longer valid is marked with the reason.
fn list(session: &CliContext) -> CommandResult {
    let output = session.output;
    let homes = trusted_homes(&session.environment)?;
    let (changed, intact): (Vec<_>, Vec<_>) = homes
        .iter()
        .map(|home| (&home.path, home.find_change()))
        .partition(|home| home.1.is_some());
    if output.json {
        let intact: Vec<&PathBuf> = intact.into_iter().map(|(path, _)| path).collect();
        let changed: Vec<_> = changed
            .into_iter()
            .filter_map(|(path, change)| {
                Some(json!({ "home": path, "reason": change?.to_string() }))
            })
            .collect();
        let mut object = json!({ "trusted": intact });
        if !changed.is_empty() {
            object["changed"] = json!(changed);
        }
        output.print_json(&object)?;
        return Ok(exit::OK);
    }
    for (path, _) in intact {
        output.print_line(display_path(path))?;
    }
    for (path, change) in changed {
        let reason = change.map(|change| change.to_string()).unwrap_or_default();
        output.print_note(format!("{} is not trusted any longer: {reason}", path.display()));
    }
    Ok(exit::OK)
}

/// Removes the trust record of a home, which need not exist.
fn remove(session: &CliContext, dir: Option<&Path>) -> CommandResult {
    let output = session.output;
    let path = match dir {
        Some(dir) => session.environment.current_dir.join(dir),
        None => session.home()?.root().to_owned(),
    };
    let removed = untrust(&path, &session.environment)?;
    if output.json {
        output.print_json(&json!({ "home": path, "removed": removed }))?;
    } else if removed {
        output.print_line(format!("{} is not trusted any longer", display_path(&path)))?;
    } else {
        output.print_line(format!("{} was not trusted", display_path(&path)))?;
    }
    Ok(exit::OK)
}

fn display_path(path: &Path) -> String {
    display_safe(&path.display().to_string())
}
