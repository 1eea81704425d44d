//! The editing of a tool call's arguments, one after the other, before its approval.
//!
//! The arguments are text of a model, and the line editor prints its line as it is. Values with
//! characters that a terminal obeys or hides are therefore edited as JSON, with escapes for these.

use std::io::{self, IsTerminal as _};

use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Behavior, Editor};
use serde_json::{Map, Value};
use skillhost_terminal::{Output, display_safe, json_text, sanitize};

use crate::line_editor::{bind_newline, editor_config};

/// The explanation before the first argument.
const EXPLANATION: &str =
    "Enter keeps or stores a value, Alt-Enter starts a new line in it, Ctrl-C leaves all as it was";

/// Lets the user edit the arguments of a call. Returns the new ones as JSON text, or `None` if the
/// user left them. Blocks.
///
/// # Errors
/// The terminal cannot be read.
pub(crate) fn edit_arguments(output: Output, arguments: &str) -> io::Result<Option<String>> {
    // Standard output may be a pipe; the terminal is then opened by its name.
    let behavior = match io::stdout().is_terminal() {
        true => Behavior::Stdio,
        false => Behavior::PreferTerm,
    };
    let config = editor_config().map_err(io::Error::other)?.behavior(behavior).build();
    let mut editor: Editor<(), MemHistory> =
        Editor::with_history(config, MemHistory::new()).map_err(io::Error::other)?;
    bind_newline(&mut editor);
    output.print_progress(EXPLANATION);
    let mut read = |name: &str, text: &str| match editor
        .readline_with_initial(&format!("{}: ", display_safe(name).replace('\n', " ")), (text, ""))
    {
        Ok(line) => Ok(Some(line)),
        Err(ReadlineError::Interrupted | ReadlineError::Eof) => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    };
    let complain = |error: &serde_json::Error| {
        output.print_note(format!("this value is JSON, and not valid: {error}"));
    };
    edit_fields(arguments, &mut read, &complain)
}

/// Edits each argument with `read`, which returns `None` to leave; a value that is not valid is
/// read again after `complain`.
fn edit_fields(
    arguments: &str,
    read: &mut dyn FnMut(&str, &str) -> io::Result<Option<String>>,
    complain: &dyn Fn(&serde_json::Error),
) -> io::Result<Option<String>> {
    let fields = match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(fields)) => fields,
        // Without fields to choose from, all of it is edited.
        Ok(other) => {
            let edited = edit_json("arguments", json_text(&other)?, read, complain)?;
            return Ok(edited.map(|value| value.to_string()));
        }
        Err(_) => {
            let edited = edit_json("arguments", display_safe(arguments), read, complain)?;
            return Ok(edited.map(|value| value.to_string()));
        }
    };
    let mut changed = Map::new();
    for (name, value) in fields {
        let edited = match &value {
            Value::String(text) if sanitize(text) == *text => read(&name, text)?.map(Value::String),
            Value::String(_) => {
                edit_json(&format!("{name} (as JSON)"), json_text(&value)?, read, complain)?
            }
            other => edit_json(&name, json_text(other)?, read, complain)?,
        };
        let Some(edited) = edited else { return Ok(None) };
        changed.insert(name, edited);
    }
    Ok(Some(Value::Object(changed).to_string()))
}

/// Edits a JSON text until it is valid; `None` if the user leaves it.
fn edit_json(
    name: &str,
    mut text: String,
    read: &mut dyn FnMut(&str, &str) -> io::Result<Option<String>>,
    complain: &dyn Fn(&serde_json::Error),
) -> io::Result<Option<Value>> {
    while let Some(edited) = read(name, &text)? {
        match serde_json::from_str(&edited) {
            Ok(value) => return Ok(Some(value)),
            Err(error) => complain(&error),
        }
        text = edited;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Edits with scripted lines; returns the result and the number of complaints.
    fn edit(arguments: &str, lines: &[Option<&str>]) -> (Option<Value>, usize) {
        let (mut lines, complaints) = (lines.iter(), Cell::new(0));
        let mut read = |_: &str, text: &str| {
            let line = lines.next().expect("a line for every value");
            Ok(line.map(|line| if line == "=" { text.to_owned() } else { line.to_owned() }))
        };
        let edited = edit_fields(arguments, &mut read, &|_| complaints.set(complaints.get() + 1));
        let edited = edited.unwrap().map(|text| serde_json::from_str(&text).unwrap());
        (edited, complaints.get())
    }

    #[test]
    fn values_are_edited_one_by_one() {
        let arguments = r#"{"count": 2, "path": "a\nb"}"#;
        assert_eq!(
            edit(arguments, &[Some("="), Some("=")]),
            (Some(serde_json::json!({"count": 2, "path": "a\nb"})), 0)
        );
        assert_eq!(
            edit(arguments, &[Some("three"), Some("3"), Some("c \"d\"\n")]),
            (Some(serde_json::json!({"count": 3, "path": "c \"d\"\n"})), 1)
        );
        assert_eq!(edit(arguments, &[Some("="), None]), (None, 0));
    }

    #[test]
    fn control_characters_reach_editor_escaped() {
        let hostile = "\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\r";
        let object = serde_json::json!({ "list": [hostile], "text": hostile, hostile: "a\n\tb" });
        let list = serde_json::json!([hostile]).to_string();
        for arguments in [object.to_string(), list, format!("{{\"a\": {hostile}")] {
            let mut shown = Vec::new();
            let mut read = |_: &str, text: &str| {
                shown.push(text.to_owned());
                Ok(serde_json::from_str::<Value>(&arguments).is_ok().then(|| text.to_owned()))
            };
            let edited = edit_fields(&arguments, &mut read, &|_| panic!("it is valid")).unwrap();
            // What the user leaves as it is keeps its value.
            let value = |text: &str| serde_json::from_str::<Value>(text).ok();
            assert_eq!(edited.as_deref().and_then(value), value(&arguments));
            for text in shown {
                assert_eq!(sanitize(&text), text, "{text:?}");
            }
        }
    }

    #[test]
    fn invalid_arguments_are_edited_as_text() {
        assert_eq!(
            edit("{\"a\"", &[Some("="), Some("{\"a\": 1}")]),
            (Some(serde_json::json!({"a": 1})), 1)
        );
        assert_eq!(edit("[]", &[None]), (None, 0));
    }
}
