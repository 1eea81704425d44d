//! JSON, with comments where the client accepts them.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::config_edit::{ConfigEdit, ConfigTextError, HTTP_KEYS};
use crate::server_entry::{SERVER_NAME, ServerEntry};

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Returns the options of a parser that accepts no other deviations from JSON.
pub(super) fn parse_options(comments: bool, trailing_commas: bool) -> ParseOptions {
    ParseOptions {
        allow_comments: comments,
        allow_trailing_commas: trailing_commas,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

pub(super) fn format_entry(table: &str, entry: &ServerEntry) -> String {
    let mut server = json!({ "args": entry.arguments, "command": entry.program });
    if entry.has_transport {
        server["type"] = "stdio".into();
    }
    server.sort_all_objects();
    format!("{:#}", json!({ table: { SERVER_NAME: server } }))
}

pub(super) fn edit(
    text: &str,
    options: &ParseOptions,
    table: &str,
    entry: &ServerEntry,
) -> Result<ConfigEdit, ConfigTextError> {
    let (mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => (BYTE_ORDER_MARK, rest),
        None => ("", text),
    };
    if !options.allow_comments && !text.trim().is_empty() {
        // The editor accepts comments around the value in any case.
        serde_json::from_str::<IgnoredAny>(text)
            .map_err(|error| ConfigTextError::Syntax(error.to_string()))?;
    }
    let root = CstRootNode::parse(text, options)
        .map_err(|error| ConfigTextError::Syntax(error.to_string()))?;
    let not_table = |name: &str| ConfigTextError::NotTable(name.to_owned());
    let object = root.object_value_or_create().ok_or_else(|| not_table("the whole file"))?;
    require_single(&object, table)?;
    let servers = object.object_value_or_create(table).ok_or_else(|| not_table(table))?;
    require_single(&servers, SERVER_NAME)?;
    let is_new = servers.get(SERVER_NAME).is_none();
    if is_new {
        servers.append(SERVER_NAME, to_input(entry));
        return Ok(ConfigEdit::Added(finish(mark, &root)));
    }
    let present = servers.object_value(SERVER_NAME).ok_or_else(|| not_table(SERVER_NAME))?;
    if HTTP_KEYS.iter().any(|key| present.get(key).is_some()) {
        return Err(ConfigTextError::OtherTransport);
    }
    let command = CstInputValue::String(entry.program.clone());
    let mut changed = set(&present, "command", &json!(entry.program), command)?;
    changed |= set(&present, "args", &json!(entry.arguments), to_array(&entry.arguments))?;
    match changed {
        true => Ok(ConfigEdit::Updated(finish(mark, &root))),
        false => Ok(ConfigEdit::Unchanged),
    }
}

/// Sets a property; `false` if it has the value already.
fn set(
    object: &CstObject,
    key: &str,
    value: &Value,
    input: CstInputValue,
) -> Result<bool, ConfigTextError> {
    require_single(object, key)?;
    match object.get(key) {
        Some(present) if present.to_serde_value().as_ref() == Some(value) => return Ok(false),
        Some(present) => present.set_value(input),
        None => drop(object.append(key, input)),
    }
    Ok(true)
}

/// Fails if an object has a key twice: clients use the last one, and readers see the first.
fn require_single(object: &CstObject, key: &str) -> Result<(), ConfigTextError> {
    let named =
        object.properties().into_iter().filter(|it| it.decoded_name().as_deref() == Some(key));
    match named.count() {
        0 | 1 => Ok(()),
        _ => Err(ConfigTextError::Repeated(key.to_owned())),
    }
}

fn to_input(entry: &ServerEntry) -> CstInputValue {
    let mut fields = vec![
        ("command".to_owned(), CstInputValue::String(entry.program.clone())),
        ("args".to_owned(), to_array(&entry.arguments)),
    ];
    if entry.has_transport {
        fields.insert(0, ("type".to_owned(), CstInputValue::String("stdio".to_owned())));
    }
    CstInputValue::Object(fields)
}

fn to_array(words: &[String]) -> CstInputValue {
    CstInputValue::Array(words.iter().cloned().map(CstInputValue::String).collect())
}

fn finish(mark: &str, root: &CstRootNode) -> String {
    let mut text = format!("{mark}{root}");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
