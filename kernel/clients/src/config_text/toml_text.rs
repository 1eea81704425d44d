//! TOML, changed at the places of its values.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::config_edit::{ConfigEdit, ConfigTextError, HTTP_KEYS};
use crate::server_entry::{SERVER_NAME, ServerEntry};

/// The key of the table of servers.
const TABLE: &str = "mcp_servers";

pub(super) fn format_entry(entry: &ServerEntry) -> String {
    format!(
        "[{TABLE}.{SERVER_NAME}]\ncommand = {}\nargs = {}",
        quote(&entry.program),
        format_arguments(entry)
    )
}

pub(super) fn edit(text: &str, entry: &ServerEntry) -> Result<ConfigEdit, ConfigTextError> {
    let Some(present) = find_entry(text)? else {
        let gap = match text {
            "" => "",
            text if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        let new = format!("{text}{gap}{}\n", format_entry(entry));
        return require_entry(&new, entry).map(|()| ConfigEdit::Added(new));
    };
    if present.is_over_http {
        return Err(ConfigTextError::OtherTransport);
    }
    if present.is_equal(entry) {
        return Ok(ConfigEdit::Unchanged);
    }
    let Some(command) = present.command else { return Err(ConfigTextError::NotEditable) };
    let arguments = format_arguments(entry);
    // A missing list goes behind the command: on a line of its own, or within an inline table.
    let candidates = match present.arguments {
        Some((at, _)) => vec![vec![(command.0, quote(&entry.program)), (at, arguments)]],
        None => [format!("\nargs = {arguments}"), format!(", args = {arguments}")]
            .map(|more| vec![(command.0.clone(), quote(&entry.program) + &more)])
            .to_vec(),
    };
    for mut changes in candidates {
        // From the end, so that the earlier places stay valid.
        changes.sort_by_key(|(at, _)| std::cmp::Reverse(at.start));
        let mut new = text.to_owned();
        changes.into_iter().for_each(|(at, value)| new.replace_range(at, &value));
        if require_entry(&new, entry).is_ok() {
            return Ok(ConfigEdit::Updated(new));
        }
    }
    Err(ConfigTextError::NotEditable)
}

/// The present entry: its values with their places.
#[derive(Default)]
struct PresentEntry {
    command: Option<(Range<usize>, String)>,
    arguments: Option<(Range<usize>, Option<Vec<String>>)>,
    is_over_http: bool,
}

impl PresentEntry {
    fn is_equal(&self, entry: &ServerEntry) -> bool {
        let command = self.command.as_ref().map(|(_, text)| text);
        let arguments = self.arguments.as_ref().and_then(|(_, words)| words.as_ref());
        command == Some(&entry.program) && arguments == Some(&entry.arguments)
    }
}

/// Fails unless a text has the entry.
fn require_entry(text: &str, entry: &ServerEntry) -> Result<(), ConfigTextError> {
    match find_entry(text) {
        Ok(Some(found)) if found.is_equal(entry) => Ok(()),
        _ => Err(ConfigTextError::NotEditable),
    }
}

fn find_entry(text: &str) -> Result<Option<PresentEntry>, ConfigTextError> {
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or_default().start;
        let before = text.get(..at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        ConfigTextError::Syntax(format!("{} on line {line} column {column}", error.message()))
    })?;
    let Some(servers) = find_table(document.get_ref(), TABLE)? else { return Ok(None) };
    let Some(server) = find_table(servers, SERVER_NAME)? else { return Ok(None) };
    let mut present = PresentEntry::default();
    for (key, value) in server {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("command", DeValue::String(text)) => {
                present.command = Some((value.span(), text.to_string()));
            }
            ("args", DeValue::Array(words)) => {
                let words = words.iter().map(|word| word.get_ref().as_str().map(str::to_owned));
                present.arguments = Some((value.span(), words.collect()));
            }
            (key, _) => present.is_over_http |= HTTP_KEYS.contains(&key),
        }
    }
    Ok(Some(present))
}

fn find_table<'t, 'i>(
    table: &'t DeTable<'i>,
    name: &str,
) -> Result<Option<&'t DeTable<'i>>, ConfigTextError> {
    match table.get(name).map(Spanned::get_ref) {
        None => Ok(None),
        Some(DeValue::Table(table)) => Ok(Some(table)),
        Some(_) => Err(ConfigTextError::NotTable(name.to_owned())),
    }
}

fn format_arguments(entry: &ServerEntry) -> String {
    format!("[{}]", entry.arguments.iter().map(|word| quote(word)).collect::<Vec<_>>().join(", "))
}

/// Formats a text as a TOML basic string.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
