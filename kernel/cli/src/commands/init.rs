//! `skillhost init`: makes a directory a home.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use skillhost_kernel::{Home, HomeSource, Installation, trust};

use super::ext_new::write;
use crate::cli::InitArgs;
use crate::error::CliError;
use crate::exit;
use crate::output::Outcome;
use crate::session::Session;

const SETTINGS: &str = include_str!("../../templates/skillhost.yaml");

pub(super) fn init(session: &Session, args: &InitArgs) -> Outcome {
    let installation = Installation::of_current_exe().ok_or_else(|| {
        CliError::new(
            exit::NOT_FOUND,
            "the shipped manifests and skills do not lie beside this executable",
        )
        .hint("install the whole product: cargo xtask install --prefix DIR")
    })?;
    let root = session.environment.current_dir.join(&args.dir);
    let mut made = Vec::new();
    for folder in ["sandbox/skills", "sandbox/extensions", "sandbox/data", "manifests"] {
        let path = root.join(folder);
        fs::create_dir_all(&path).map_err(|error| CliError::io(&path, &error))?;
    }
    copy_missing(&installation.manifests, &root.join("manifests"), &mut made)?;
    copy_missing(&installation.skills, &root.join("sandbox/skills"), &mut made)?;
    // The shipped manifests name it, so that editors complete and check them.
    let schema = serde_json::to_string_pretty(&skillhost_manifest::schema())
        .map_err(std::io::Error::from)?;
    let settings = SETTINGS.replace("{{docs}}", &installation.docs.display().to_string());
    let files = [
        ("skillhost.yaml", &*settings),
        (".gitignore", "/sandbox/data/\n/.env\n"),
        ("docs/schema/manifest.json", &*schema),
    ];
    for (name, text) in files {
        let path = root.join(name);
        if !path.exists() {
            write(&path, text.as_bytes())?;
            made.push(path);
        }
    }
    let home = Home::at(&root, HomeSource::Argument)?;
    let newly_trusted = trust(&home, &session.environment)?;
    let output = session.output;
    if output.json {
        output.object(&json!({ "home": home.root(), "made": made, "trusted": true, "newly_trusted": newly_trusted }))?;
    } else {
        let place = home.root().display();
        output.line(format!(
            "{place} is a home ({} files made, what existed was kept)",
            made.len()
        ))?;
        output.line("next:")?;
        output.line(format!("  skillhost --home {place} skill list"))?;
        output.line(format!("  skillhost --home {place} ask --print-prompt \"hello\""))?;
        output.line(format!("  skillhost --home {place} run"))?;
    }
    Ok(exit::OK)
}

/// Copies a tree of files; what is there already stays as it is.
fn copy_missing(from: &Path, to: &Path, made: &mut Vec<PathBuf>) -> Result<(), CliError> {
    let entries = fs::read_dir(from).map_err(|error| CliError::io(from, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| CliError::io(from, &error))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(|error| CliError::io(&source, &error))?;
        if kind.is_dir() {
            copy_missing(&source, &target, made)?;
        } else if kind.is_file() && !target.exists() {
            let bytes = fs::read(&source).map_err(|error| CliError::io(&source, &error))?;
            write(&target, &bytes)?;
            made.push(target);
        }
    }
    Ok(())
}
