//! `skillhost ext new`: a buildable extension crate in `sandbox/extensions/`.

use std::fs;
use std::path::Path;

use serde_json::json;
use skill_commands::create_directory;
use skillhost_files::write_atomically;
use skillhost_home::{Installation, discover_manifests};
use skillhost_manifest::ExtensionId;
use skillhost_terminal::{CliContext, CliError, CommandResult, exit};

use crate::cli::ExtensionNewArgs;

const SDK_HINT: &str = "name them: --sdk DIR (kernel/sdk in the source tree)";

pub(super) fn cmd_ext_new(session: &CliContext, args: &ExtensionNewArgs) -> CommandResult {
    let id = ExtensionId::new(&args.id)
        .map_err(|error| CliError::usage(error.to_string()).with_hint("such as `rss_reader`"))?;
    let home = session.home()?;
    home.check_links("extensions")?;
    let sdk = match &args.sdk {
        Some(sdk) => session.environment.current_dir.join(sdk),
        None => Installation::from_current_exe().map(|found| found.sdk).ok_or_else(no_sdk)?,
    };
    let sdk =
        fs::canonicalize(&sdk).map_err(|error| CliError::io(&sdk, &error).with_hint(SDK_HINT))?;
    if !sdk.join("Cargo.toml").is_file() {
        let message = format!("{}: not the sources of skillhost-sdk", sdk.display());
        return Err(CliError::new(exit::NOT_FOUND, message).with_hint(SDK_HINT));
    }
    let sdk_text = sdk.to_str().ok_or_else(|| {
        CliError::usage(format!("{}: the SDK's path is not UTF-8", sdk.display()))
    })?;
    let folder = home.extensions_dir().join(id.as_str());
    if folder.exists() {
        return Err(CliError::new(exit::CONFLICT, format!("{} exists", folder.display()))
            .with_hint("choose another id"));
    }
    // With two manifests of one id, the kernel would reject the new one at the next start.
    let taken = discover_manifests(&home, Installation::from_current_exe().as_ref(), &[]);
    if let Some(owner) = taken.manifests.get(&id) {
        let message = format!("the id `{id}` is taken by {}", owner.path.display());
        return Err(CliError::new(exit::CONFLICT, message).with_hint("choose another id"));
    }
    let library = id.as_str().replace('-', "_");
    let fill = |template: &str| {
        template
            .replace("{{id}}", id.as_str())
            .replace("{{lib}}", &library)
            .replace("{{tool}}", &library)
            .replace("{{crate}}", &format!("skillhost-ext-{}", id.as_str()))
            .replace("{{name}}", &title(id.as_str()))
            // TOML basic strings and JSON strings share the escapes of all characters a path can
            // hold.
            .replace("{{sdk}}", &json!(sdk_text).to_string())
    };
    let files = [
        ("manifest.yaml", include_str!("../../templates/manifest.yaml.in")),
        ("Cargo.toml", include_str!("../../templates/Cargo.toml.in")),
        ("src/lib.rs", include_str!("../../templates/lib.rs.in")),
    ];
    let texts = files.map(|(path, template)| (path, fill(template)));
    create_directory(&home.extensions_dir(), &folder, &texts)?;
    let output = session.output;
    let place = folder.display();
    if output.json {
        let names: Vec<_> = files.iter().map(|(name, _)| folder.join(name)).collect();
        output.print_json(&json!({ "id": id, "folder": folder, "files": names }))?;
    } else {
        output.print_line(format!("made {place}"))?;
        output.print_line("next:")?;
        output.print_line(format!("  skillhost ext build {id}"))?;
        output.print_line("  skillhost ext doctor")?;
        output
            .print_line(format!("  skillhost tool call {library}_greet '{{\"name\": \"Ada\"}}'"))?;
    }
    Ok(exit::OK)
}

pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| write_atomically(path, bytes))
        .map_err(|error| CliError::io(path, &error))
}

fn no_sdk() -> CliError {
    CliError::new(
        exit::NOT_FOUND,
        "the sources of skillhost-sdk were not found next to this executable",
    )
    .with_hint(SDK_HINT)
}

/// Converts an id to a title: `rss_reader` → `Rss reader`.
fn title(id: &str) -> String {
    let words = id.replace(['_', '-'], " ");
    let mut characters = words.chars();
    let first = characters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}
