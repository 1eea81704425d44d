//! `skillhost schema`: JSON Schemas for editors.

use crate::cli::{SchemaArgs, SchemaTarget};
use crate::exit;
use crate::output::{CommandResult, Output};

pub(super) fn cmd_schema(args: &SchemaArgs) -> CommandResult {
    let schema = match args.target {
        SchemaTarget::Manifest => skillhost_manifest::manifest_schema(),
        SchemaTarget::Settings => skillhost_kernel::Settings::schema(),
    };
    let text = serde_json::to_string_pretty(&schema).map_err(std::io::Error::from)?;
    Output { json: true }.print_text(&text)?;
    Ok(exit::OK)
}
