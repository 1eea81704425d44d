//! Tool names and call ids within the limits of protocols.
//!
//! Names in the kernel may contain dots and be long. Protocols allow letters, digits, `_` and `-`,
//! up to 64 of them for a name and 40 for the id of a call.

use std::collections::{BTreeMap, BTreeSet};

use skillhost_conversation::{Message, ModelRequest};

const MAX_NAME: usize = 64;
const MAX_ID: usize = 40;
/// The prefix of ids that the provider has not assigned.
const GENERATED_PREFIX: &str = "made_";

/// Names by which models call a tool without its namespace, as they call `read_skill`.
const SHORT_NAMES: [(&str, &str); 1] = [("run_script", "skills.run_script")];

/// The two-way mapping of a request's tool names.
#[derive(Debug, Default)]
pub(crate) struct ToolNameMap {
    to_wire: BTreeMap<String, String>,
    from_wire: BTreeMap<String, String>,
}

impl ToolNameMap {
    /// Creates the mapping of the offered tools and of those in the history.
    ///
    /// It is deterministic for the same names in the same order.
    pub(crate) fn from_request(request: &ModelRequest) -> Self {
        let offered = request.tools.iter().map(|tool| tool.name.as_str());
        let called = request.messages.iter().flat_map(|message| match message {
            Message::Assistant { calls, .. } => calls.iter().map(|call| &*call.name).collect(),
            Message::Tool { name, .. } => vec![name.as_str()],
            Message::User { .. } => Vec::new(),
        });
        let all: Vec<_> = offered.chain(called).collect();
        let mut names = Self::default();
        // Valid names are mapped first, so that a sanitized name never displaces one of them.
        for &name in all.iter().filter(|name| sanitize_name(name, MAX_NAME) == **name) {
            names.insert(name, name.to_owned());
        }
        for &name in &all {
            if !names.to_wire.contains_key(name) {
                let wanted = sanitize_name(name, MAX_NAME);
                let free = (1..).map(|number| append_number(&wanted, number));
                let free = free.into_iter().find(|free| !names.from_wire.contains_key(free));
                // The range is unlimited, so a free name is always found.
                names.insert(name, free.unwrap_or(wanted));
            }
        }
        for (short, name) in SHORT_NAMES {
            // A tool that really has the name keeps it.
            if all.contains(&name) && !names.from_wire.contains_key(short) {
                names.from_wire.insert(short.to_owned(), name.to_owned());
            }
        }
        names
    }

    fn insert(&mut self, name: &str, wire: String) {
        self.from_wire.insert(wire.clone(), name.to_owned());
        self.to_wire.insert(name.to_owned(), wire);
    }

    /// Returns the provider's name of a tool.
    pub(crate) fn to_wire(&self, name: &str) -> String {
        self.to_wire.get(name).cloned().unwrap_or_else(|| sanitize_name(name, MAX_NAME))
    }

    /// Returns the kernel's name of a tool; a name that was never offered remains unchanged.
    pub(crate) fn to_kernel(&self, name: &str) -> String {
        self.from_wire.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }
}

fn append_number(name: &str, number: usize) -> String {
    if number == 1 {
        return name.to_owned();
    }
    let end = format!("_{number}");
    // A sanitized name is ASCII, so every byte index is a character boundary.
    format!("{}{end}", &name[..name.len().min(MAX_NAME - end.len())])
}

/// Replaces characters other than letters, digits, `_` and `-`; a longer name is truncated and ends
/// in a hash of the complete name.
fn sanitize_name(name: &str, max: usize) -> String {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut text: String = name.chars().map(|c| if is_valid(c) { c } else { '_' }).collect();
    if text.is_empty() {
        text.push('_');
    }
    if text.len() > max {
        // Nine characters are the underscore and the eight digits of the hash.
        text.truncate(max - 9);
        text = format!("{text}_{:08x}", hash_name(name));
    }
    text
}

/// Returns the 32-bit FNV-1a hash, which is enough to distinguish two long names.
fn hash_name(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Returns the id of a call for providers other than Gemini.
pub(crate) fn id_on_wire(id: &str) -> String {
    sanitize_name(id, MAX_ID)
}

/// Returns the id of a call for Gemini; genai omits an id that Gemini has not assigned.
pub(crate) fn id_for_gemini(id: &str, tool: &str) -> String {
    match id.strip_prefix(GENERATED_PREFIX).and_then(|rest| rest.rsplit_once('_')) {
        // genai recognizes this form as its own placeholder and does not send it.
        Some((_, number)) => format!("call#{tool}#{number}"),
        None => id.to_owned(),
    }
}

/// An allocator of call ids that are unique within a thread.
pub(crate) struct CallIdAllocator {
    taken: BTreeSet<String>,
    turn: usize,
    generated: usize,
}

impl CallIdAllocator {
    /// Creates an allocator with the ids of a thread's messages.
    pub(crate) fn from_messages(messages: &[Message]) -> Self {
        let mut ids = Self { taken: BTreeSet::new(), turn: 0, generated: 0 };
        for message in messages {
            if let Message::Assistant { calls, .. } = message {
                ids.turn += 1;
                ids.taken.extend(calls.iter().map(|call| call.id.clone()));
            }
        }
        ids
    }

    /// Returns the provider's id if it is valid and unique, or a generated one.
    pub(crate) fn allocate(&mut self, given: &str) -> String {
        let is_valid = !given.is_empty() && sanitize_name(given, MAX_NAME) == given;
        // An id with the generated prefix would be mistaken for one of ours.
        if is_valid && !given.starts_with(GENERATED_PREFIX) && self.taken.insert(given.to_owned()) {
            return given.to_owned();
        }
        loop {
            let id = format!("{GENERATED_PREFIX}{}_{}", self.turn, self.generated);
            self.generated += 1;
            if self.taken.insert(id.clone()) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skillhost_conversation::{ModelTool, ModelToolCall};

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
    fn forbidden_names_are_mapped() {
        let long = "x".repeat(70);
        let tools = ["a.b", "a_b", "a/b", "plain", &*long];
        let names = ToolNameMap::from_request(&request(&tools, &["gone.tool"]));
        let mapped: Vec<_> = tools.iter().map(|tool| names.to_wire(tool)).collect();
        let shortened = format!("{}_{:08x}", "x".repeat(55), hash_name(&long));
        assert_eq!(mapped, ["a_b_2", "a_b", "a_b_3", "plain", &*shortened]);
        assert_eq!(shortened.len(), 64);
        for tool in tools {
            assert_eq!(names.to_kernel(&names.to_wire(tool)), tool);
        }
        assert_eq!(names.to_wire("gone.tool"), "gone_tool");
        assert_eq!(names.to_kernel("never.offered"), "never.offered");
    }

    #[test]
    fn dotted_names_never_take_names_of_others() {
        let request = request(&["skills.load", "read_skill", "skills_load"], &["skills.load"]);
        let names = ToolNameMap::from_request(&request);
        let wire = ["skills.load", "skills_load", "read_skill"].map(|name| names.to_wire(name));
        assert_eq!(wire, ["skills_load_2", "skills_load", "read_skill"]);
        assert_eq!(names.to_kernel("skills_load_2"), "skills.load");
        assert_eq!(names.to_kernel("skills_load"), "skills_load");
        // A model that writes the kernel's name means this tool.
        assert_eq!(names.to_kernel("skills.load"), "skills.load");
    }

    #[test]
    fn short_name_is_for_offered_tool_only() {
        let to_kernel = |tools: &[&str], name: &str| {
            ToolNameMap::from_request(&request(tools, &[])).to_kernel(name)
        };
        assert_eq!(to_kernel(&["skills.run_script"], "run_script"), "skills.run_script");
        assert_eq!(to_kernel(&["skills.run_script"], "skills_run_script"), "skills.run_script");
        assert_eq!(to_kernel(&["skills.run_script", "run_script"], "run_script"), "run_script");
        assert_eq!(to_kernel(&["skills.load"], "run_script"), "run_script");
        assert_eq!(to_kernel(&["skills.load"], "load"), "load");
    }

    #[test]
    fn call_ids_are_unique_and_valid() {
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
