//! A checklist for each session, offered as two tools.
//!
//! The pattern to keep: the behaviour is in `Lists`, which knows nothing of the kernel and is
//! tested as it is; the provider below only translates.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};

/// The manifest's `config`.
#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct Config {
    max_items: usize,
}

/// The items of every session, oldest first. They live in memory and end with the process.
#[derive(Default)]
struct Lists {
    by_session: HashMap<String, Vec<String>>,
}

impl Lists {
    /// Appends `item` and returns its number; at most `max` items fit.
    fn add(&mut self, session: &str, item: &str, max: usize) -> Result<usize> {
        // One line per item: a line break must not look like an item of its own.
        let item = item.split_whitespace().collect::<Vec<_>>().join(" ");
        if item.is_empty() {
            return Err(ExtError::invalid_argument("the item is empty")
                .with_hint("pass a short sentence in `item`"));
        }
        let items = self.by_session.entry(session.to_owned()).or_default();
        if items.len() >= max {
            return Err(ExtError::new(ErrorKind::TooLarge, format!("the list has {max} items"))
                .with_hint("an operator can raise `max_items` in the settings"));
        }
        items.push(item);
        Ok(items.len())
    }

    fn show(&self, session: &str) -> &[String] {
        self.by_session.get(session).map_or(&[], Vec::as_slice)
    }
}

/// Numbers the items for the model.
fn render(items: &[String]) -> String {
    if items.is_empty() {
        return "the checklist is empty".to_owned();
    }
    let number = |(index, item): (usize, &String)| format!("{}. {item}", index + 1);
    items.iter().enumerate().map(number).collect::<Vec<_>>().join("\n")
}

/// The extension.
struct Checklist {
    config: Config,
    lists: Mutex<Lists>,
}

#[async_trait]
impl Extension for Checklist {
    fn new(cx: ExtensionContext) -> Result<Self> {
        Ok(Self { config: cx.config()?, lists: Mutex::default() })
    }
}

/// Unknown arguments are refused, so that a model's misspelling is not ignored in silence.
#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct AddArgs {
    item: String,
}

#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct ShowArgs {}

#[async_trait]
impl ToolProvider for Checklist {
    fn tools(&self, _cx: &CallContext) -> Vec<ToolSpec> {
        let item = json!({"type": "string", "description": "one short sentence"});
        let add = json!({
            "type": "object",
            "properties": {"item": item},
            "required": ["item"],
            "additionalProperties": false
        });
        let show = json!({"type": "object", "properties": {}, "additionalProperties": false});
        vec![
            ToolSpec::new("checklist_add", "Adds an item to this session's checklist.", add),
            ToolSpec::new("checklist_show", "Shows this session's checklist.", show).read_only(),
        ]
    }

    async fn invoke(&self, cx: &CallContext, tool: &str, args: Args<'_>) -> Result<ToolOutput> {
        // The session comes from the call context: a model cannot reach another session's list.
        let session = cx.session_id.as_str();
        // No guard is ever held across an `.await`, and a poisoned lock is no reason to fail.
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        match tool {
            "checklist_add" => {
                let args: AddArgs = args.parse()?;
                let number = lists.add(session, &args.item, self.config.max_items)?;
                Ok(ToolOutput::text(format!("added as item {number}")))
            }
            "checklist_show" => {
                let ShowArgs {} = args.parse()?;
                let items = lists.show(session);
                ToolOutput::text(render(items)).with_structured(&json!({"items": items}))
            }
            other => Err(ExtError::not_found(format!("no tool named `{other}`"))
                .with_hint("call `checklist_add` or `checklist_show`")),
        }
    }
}

export_extension!(Checklist: tools);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_do_not_share_items() {
        let mut lists = Lists::default();
        assert_eq!(lists.add("a", " the\nfirst ", 9), Ok(1));
        assert_eq!(lists.add("a", "second", 9), Ok(2));
        assert_eq!(render(lists.show("a")), "1. the first\n2. second");
        assert_eq!(render(lists.show("b")), "the checklist is empty");
    }

    #[test]
    fn limits_are_errors_with_a_kind() {
        let mut lists = Lists::default();
        let kind = |result: Result<usize>| result.map_err(|error| error.kind());
        assert_eq!(kind(lists.add("a", "  ", 1)), Err(ErrorKind::InvalidArgument));
        assert_eq!(kind(lists.add("a", "one", 1)), Ok(1));
        assert_eq!(kind(lists.add("a", "two", 1)), Err(ErrorKind::TooLarge));
    }
}
