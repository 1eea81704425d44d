//! `skillhost ext new`: a new extension from a template in `sandbox/extensions/`.

use std::fs;
use std::path::Path;

use serde_json::json;
use skill_commands::create_directory;
use skillhost_builder::{ExtensionTemplate, ScaffoldError, ScaffoldRequest};
use skillhost_home::discover_manifests;
use skillhost_manifest::ExtensionId;
use skillhost_payload::OperatorCommand;
use skillhost_terminal::{CliContext, CliError, CommandResult, exit};

use crate::cli::ExtensionNewArgs;

const SDK_HINT: &str = "name them: --sdk DIR (kernel/sdk in the source tree)";

pub(super) fn cmd_ext_new(session: &CliContext, args: &ExtensionNewArgs) -> CommandResult {
    let id = ExtensionId::new(&args.id)
        .map_err(|error| CliError::usage(error.to_string()).with_hint("such as `rss_reader`"))?;
    // The command line accepts only names of templates.
    let template = ExtensionTemplate::find(&args.template).unwrap_or(ExtensionTemplate::Native);
    let home = session.home()?;
    home.check_links("extensions")?;
    let sdk = if template.uses_sdk() { find_sdk(session, args)? } else { String::new() };
    let request = ScaffoldRequest { id: &id, sdk: &sdk, command: &args.command };
    let files = template.files(&request).map_err(|error| {
        let hint = match error {
            ScaffoldError::CommandMissing => format!(
                "skillhost ext new {id} --template mcp -- npx -y @modelcontextprotocol/NAME@VERSION"
            ),
            ScaffoldError::CommandUnexpected(_) => "add --template mcp, or omit the command".into(),
        };
        CliError::usage(error.to_string()).with_hint(hint)
    })?;
    let folder = home.extensions_dir().join(id.as_str());
    if folder.exists() {
        return Err(CliError::new(exit::CONFLICT, format!("{} exists", folder.display()))
            .with_hint("choose another id"));
    }
    // With two manifests of one id, the kernel would reject the new one at the next start.
    let taken = discover_manifests(&home, session.installation(), &[]);
    if let Some(owner) = taken.manifests.get(&id) {
        let message = format!("the id `{id}` is taken by {}", owner.path.display());
        return Err(CliError::new(exit::CONFLICT, message).with_hint("choose another id"));
    }
    create_directory(&home.extensions_dir(), &folder, &files)?;
    let output = session.output;
    if output.json {
        let names: Vec<_> = files.iter().map(|(name, _)| folder.join(name)).collect();
        output.print_json(&json!({
            "id": id, "template": template.as_str(), "folder": folder, "files": names,
        }))?;
        return Ok(exit::OK);
    }
    output.print_line(format!("made {}", folder.display()))?;
    output.print_line("next:")?;
    for command in next_commands(template, &id) {
        output.print_line(format!("  {command}"))?;
    }
    Ok(exit::OK)
}

/// Returns the commands after which the new extension has been used once.
fn next_commands(template: ExtensionTemplate, id: &ExtensionId) -> [String; 3] {
    let build = OperatorCommand::BuildExtension { id: id.as_str() }.to_string();
    let doctor = OperatorCommand::CheckExtensions.to_string();
    let first_use = match (template.first_call(id), template) {
        (Some((tool, arguments)), _) => {
            format!("{} '{arguments}'", OperatorCommand::CallTool { name: Some(&tool) })
        }
        (None, ExtensionTemplate::Context) => "skillhost ask --print-prompt hello".to_owned(),
        (None, ExtensionTemplate::Service) => OperatorCommand::RunKernel.to_string(),
        (None, _) => OperatorCommand::ListTools.to_string(),
    };
    [build, doctor, first_use]
}

/// Returns the path of the sources of skillhost-sdk.
fn find_sdk(session: &CliContext, args: &ExtensionNewArgs) -> Result<String, CliError> {
    let sdk = match &args.sdk {
        Some(sdk) => session.environment.current_dir.join(sdk),
        None => session.require_installation("the sources of skillhost-sdk", SDK_HINT)?.sdk.clone(),
    };
    let sdk =
        fs::canonicalize(&sdk).map_err(|error| CliError::io(&sdk, &error).with_hint(SDK_HINT))?;
    if !sdk.join("Cargo.toml").is_file() {
        let message = format!("{}: not the sources of skillhost-sdk", sdk.display());
        return Err(CliError::new(exit::NOT_FOUND, message).with_hint(SDK_HINT));
    }
    sdk.into_os_string().into_string().map_err(|sdk| {
        CliError::usage(format!("{}: the SDK's path is not UTF-8", Path::new(&sdk).display()))
    })
}
