//! A checklist for each agent, offered as two tools.
//!
//! The pattern to keep: `Lists` implements the behavior and is tested without a kernel; the
//! provider below only translates.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind as IoKind, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize, Serialize};
use skillhost_sdk::serde_json;

/// The manifest's `config`.
#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct Config {
    max_items: usize,
}

/// The items of every agent, oldest first.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(crate = "serde")]
struct Lists {
    by_agent: BTreeMap<String, Vec<String>>,
}

impl Lists {
    const FILE: &str = "lists.json";

    /// Appends `item` and returns its number; at most `max` items fit.
    fn add(&mut self, agent: &str, item: &str, max: usize) -> Result<usize> {
        // One line per item: a line break must not look like a separate item.
        let item = item.split_whitespace().collect::<Vec<_>>().join(" ");
        if item.is_empty() {
            return Err(ExtensionError::invalid_argument("the item is empty")
                .with_hint("pass a short sentence in `item`"));
        }
        let items = self.by_agent.entry(agent.to_owned()).or_default();
        if items.len() >= max {
            return Err(ExtensionError::new(
                ErrorKind::TooLarge,
                format!("the list has {max} items"),
            )
            .with_hint("an operator can raise `max_items` in the settings"));
        }
        items.push(item);
        Ok(items.len())
    }

    fn items_of(&self, agent: &str) -> &[String] {
        self.by_agent.get(agent).map_or(&[], Vec::as_slice)
    }

    fn load(directory: &Path) -> Result<Self> {
        match fs::read(directory.join(Self::FILE)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                ExtensionError::failed(format!("{} is damaged: {error}", Self::FILE))
                    .with_hint("move the file away to start with empty lists")
            }),
            Err(error) if error.kind() == IoKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a new file and renames it over the old one: a crash leaves one of the two.
    fn save(&self, directory: &Path) -> Result<()> {
        let text =
            serde_json::to_vec(self).map_err(|error| ExtensionError::failed(error.to_string()))?;
        let draft = directory.join(format!("{}.new", Self::FILE));
        let mut file = File::create(&draft)?;
        file.write_all(&text)?;
        file.sync_all()?;
        Ok(fs::rename(&draft, directory.join(Self::FILE))?)
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
    cx: ExtensionContext,
    config: Config,
    lists: Mutex<Lists>,
}

#[async_trait]
impl Extension for Checklist {
    fn new(cx: ExtensionContext) -> Result<Self> {
        let config = cx.config()?;
        // `data_path` does not create the directory; the first write does.
        let lists = Mutex::new(Lists::load(cx.data_path())?);
        Ok(Self { cx, config, lists })
    }
}

/// Rejects unknown arguments, so that a model's misspelling is not silently ignored.
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
            ToolSpec::new("checklist_add", "Adds an item to your checklist.", add),
            ToolSpec::new("checklist_show", "Shows your checklist.", show).read_only(),
        ]
    }

    async fn invoke(&self, cx: &CallContext, tool: &str, args: ToolArgs<'_>) -> Result<ToolOutput> {
        // The owner of the list comes from the call context: a model cannot name another agent's.
        let agent = cx.agent_id.as_str();
        // The guard is never held across an `.await`. A poisoned lock is still usable, because
        // `lists` changes only after a successful save.
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        match tool {
            "checklist_add" => {
                let args: AddArgs = args.parse()?;
                // An item that cannot be saved is not added.
                let mut next = lists.clone();
                let number = next.add(agent, &args.item, self.config.max_items)?;
                next.save(&self.cx.data_dir()?)?;
                *lists = next;
                Ok(ToolOutput::text(format!("added as item {number}")))
            }
            "checklist_show" => {
                let ShowArgs {} = args.parse()?;
                let items = lists.items_of(agent);
                ToolOutput::text(render(items)).with_structured(&json!({"items": items}))
            }
            other => Err(ExtensionError::not_found(format!("no tool named `{other}`"))
                .with_hint("call `checklist_add` or `checklist_show`")),
        }
    }
}

export_extension!(Checklist: tools);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_do_not_share_items() {
        let mut lists = Lists::default();
        assert_eq!(lists.add("a", " the\nfirst ", 9), Ok(1));
        assert_eq!(lists.add("a", "second", 9), Ok(2));
        assert_eq!(render(lists.items_of("a")), "1. the first\n2. second");
        assert_eq!(render(lists.items_of("b")), "the checklist is empty");
    }

    #[test]
    fn limits_are_errors_with_a_kind() {
        let mut lists = Lists::default();
        let kind = |result: Result<usize>| result.map_err(|error| error.kind());
        assert_eq!(kind(lists.add("a", "  ", 1)), Err(ErrorKind::InvalidArgument));
        assert_eq!(kind(lists.add("a", "one", 1)), Ok(1));
        assert_eq!(kind(lists.add("a", "two", 1)), Err(ErrorKind::TooLarge));
    }

    #[test]
    fn saved_lists_are_loaded() {
        let directory = std::env::temp_dir().join(format!("checklist-test-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("the temporary directory is writable");
        let mut lists = Lists::default();
        assert_eq!(Lists::load(&directory), Ok(lists.clone()));
        assert_eq!(lists.add("a", "one", 9), Ok(1));
        assert_eq!(lists.save(&directory), Ok(()));
        assert_eq!(Lists::load(&directory), Ok(lists));
        fs::remove_dir_all(&directory).expect("the directory was created above");
    }
}
