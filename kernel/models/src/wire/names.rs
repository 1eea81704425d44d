//! Names of tools and calls as wires allow them.
//!
//! The kernel's names may hold dots and be long. Wires allow letters, digits, `_` and `-`, up to 64
//! of them, and 40 for the id of a call.

use std::collections::{BTreeMap, BTreeSet};

use skillhost_kernel::{Message, ModelRequest};

const LONGEST_NAME: usize = 64;
const LONGEST_ID: usize = 40;
/// What an id begins with that the provider did not give.
const MADE: &str = "made_";

/// The names of a request's tools, both ways.
#[derive(Debug, Default)]
pub(crate) struct ToolNameMap {
    to_wire: BTreeMap<String, String>,
    from_wire: BTreeMap<String, String>,
}

impl ToolNameMap {
    /// The names of the tools offered and of those in the history. The same names in the same order
    /// are always mapped alike.
    pub(crate) fn from_request(request: &ModelRequest) -> Self {
        let offered = request.tools.iter().map(|tool| tool.name.as_str());
        let said = request.messages.iter().flat_map(|message| match message {
            Message::Assistant { calls, .. } => calls.iter().map(|call| &*call.name).collect(),
            Message::Tool { name, .. } => vec![name.as_str()],
            Message::User { .. } => Vec::new(),
        });
        let all: Vec<_> = offered.chain(said).collect();
        let mut names = Self::default();
        // Names that are fine as they are keep themselves, whoever comes first.
        for &name in all.iter().filter(|name| allowed(name, LONGEST_NAME) == **name) {
            names.add(name, name.to_owned());
        }
        for name in all {
            if !names.to_wire.contains_key(name) {
                let wanted = allowed(name, LONGEST_NAME);
                let free = (1..).map(|number| numbered(&wanted, number));
                let free = free.into_iter().find(|free| !names.from_wire.contains_key(free));
                // The numbers do not end before a free one comes.
                names.add(name, free.unwrap_or(wanted));
            }
        }
        names
    }

    fn add(&mut self, name: &str, wire: String) {
        self.from_wire.insert(wire.clone(), name.to_owned());
        self.to_wire.insert(name.to_owned(), wire);
    }

    /// The name on the wire.
    pub(crate) fn to_wire(&self, name: &str) -> String {
        self.to_wire.get(name).cloned().unwrap_or_else(|| allowed(name, LONGEST_NAME))
    }

    /// The kernel's name; one that was never offered stays as the model wrote it.
    pub(crate) fn to_kernel(&self, name: &str) -> String {
        self.from_wire.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }
}

fn numbered(name: &str, number: usize) -> String {
    if number == 1 {
        return name.to_owned();
    }
    let end = format!("_{number}");
    // Only ASCII is left in an allowed name.
    format!("{}{end}", &name[..name.len().min(LONGEST_NAME - end.len())])
}

/// A name within letters, digits, `_` and `-`; too long a one ends in a digest of the whole.
fn allowed(name: &str, longest: usize) -> String {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut text: String = name.chars().map(|c| if fine(c) { c } else { '_' }).collect();
    if text.is_empty() {
        text.push('_');
    }
    if text.len() > longest {
        text.truncate(longest - 9);
        text = format!("{text}_{:08x}", digest(name));
    }
    text
}

/// FNV-1a, 32 bits: enough to tell two long names apart.
fn digest(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The id of a call as it is sent to a provider other than Gemini.
pub(crate) fn id_on_wire(id: &str) -> String {
    allowed(id, LONGEST_ID)
}

/// The id of a call as genai takes it for Gemini: one that Gemini did not give is not sent.
pub(crate) fn id_for_gemini(id: &str, tool: &str) -> String {
    match id.strip_prefix(MADE).and_then(|rest| rest.rsplit_once('_')) {
        Some((_, number)) => format!("call#{tool}#{number}"),
        None => id.to_owned(),
    }
}

/// Gives the calls of a reply ids that are unique within the conversation.
pub(crate) struct CallIdAllocator {
    taken: BTreeSet<String>,
    turn: usize,
    made: usize,
}

impl CallIdAllocator {
    /// The ids taken by a conversation.
    pub(crate) fn from_messages(messages: &[Message]) -> Self {
        let mut ids = Self { taken: BTreeSet::new(), turn: 0, made: 0 };
        for message in messages {
            if let Message::Assistant { calls, .. } = message {
                ids.turn += 1;
                ids.taken.extend(calls.iter().map(|call| call.id.clone()));
            }
        }
        ids
    }

    /// The provider's id where it will do, else one made here.
    pub(crate) fn allocate(&mut self, given: &str) -> String {
        let fine = !given.is_empty() && allowed(given, LONGEST_NAME) == given;
        if fine && !given.starts_with(MADE) && self.taken.insert(given.to_owned()) {
            return given.to_owned();
        }
        loop {
            let id = format!("{MADE}{}_{}", self.turn, self.made);
            self.made += 1;
            if self.taken.insert(id.clone()) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skillhost_kernel::{ModelTool, ModelToolCall};

    use super::*;

    fn request(tools: &[&str], called: &[&str]) -> ModelRequest {
        let tool = |name: &&str| ModelTool {
            name: (*name).to_owned(),
            description: String::new(),
            input_schema: json!({}),
        };
        let call = |name: &&str| ModelToolCall {
            id: format!("id-{name}"),
            name: (*name).to_owned(),
            arguments: "{}".to_owned(),
        };
        let calls = called.iter().map(call).collect();
        let messages = vec![Message::Assistant { text: String::new(), calls }];
        ModelRequest { tools: tools.iter().map(tool).collect(), messages, ..Default::default() }
    }

    #[test]
    fn names_that_a_wire_forbids_are_mapped_and_mapped_back() {
        let long = "x".repeat(70);
        let tools = ["a.b", "a_b", "a/b", "plain", &*long];
        let names = ToolNameMap::from_request(&request(&tools, &["gone.tool"]));
        let mapped: Vec<_> = tools.iter().map(|tool| names.to_wire(tool)).collect();
        let shortened = format!("{}_{:08x}", "x".repeat(55), digest(&long));
        assert_eq!(mapped, ["a_b_2", "a_b", "a_b_3", "plain", &*shortened]);
        assert_eq!(shortened.len(), 64);
        for tool in tools {
            assert_eq!(names.to_kernel(&names.to_wire(tool)), tool);
        }
        assert_eq!(names.to_wire("gone.tool"), "gone_tool");
        assert_eq!(names.to_kernel("never.offered"), "never.offered");
    }

    #[test]
    fn ids_are_unique_in_a_conversation_and_fit_the_wire() {
        let mut ids = CallIdAllocator::from_messages(&request(&[], &["t"]).messages);
        let taken: Vec<_> =
            ["id-t", "toolu_1", "toolu_1", "call#t#0", ""].map(|id| ids.allocate(id)).into();
        assert_eq!(taken, ["made_1_0", "toolu_1", "made_1_1", "made_1_2", "made_1_3"]);
        assert_eq!(id_for_gemini("made_1_3", "t"), "call#t#3");
        assert_eq!(id_for_gemini("own", "t"), "own");
        assert_eq!(id_on_wire("call#t#0"), "call_t_0");
        assert_eq!(id_on_wire(&"y".repeat(41)).len(), 40);
    }
}
