//! `skillhost schema`: JSON Schemas for editors.

use skillhost_terminal::{CommandResult, Output, exit};

use crate::cli::{SchemaArgs, SchemaTarget};

pub(super) fn cmd_schema(args: &SchemaArgs) -> CommandResult {
    let schema = match args.target {
        SchemaTarget::Manifest => skillhost_manifest::manifest_schema(),
        SchemaTarget::Settings => skillhost_home::Settings::schema(),
    };
    let text = serde_json::to_string_pretty(&schema).map_err(std::io::Error::from)?;
    Output { json: true }.print_text(&text)?;
    Ok(exit::OK)
}
