//! `skillhost schema`: JSON Schemas for editors.

use crate::cli::{SchemaArgs, SchemaOf};
use crate::exit;
use crate::output::{Outcome, Output};

pub(super) fn schema(args: &SchemaArgs) -> Outcome {
    let schema = match args.of {
        SchemaOf::Manifest => skillhost_manifest::manifest_schema(),
        SchemaOf::Settings => skillhost_kernel::Settings::schema(),
    };
    let text = serde_json::to_string_pretty(&schema).map_err(std::io::Error::from)?;
    Output { json: true }.verbatim(&text)?;
    Ok(exit::OK)
}
