//! A home with the channel of the library `mailbox`, and a person who writes to it.

use mock_model::{MockModel, Wire};
use serde_json::{Value, json};
use test_support::{TestHome, example_library, poll_until};

use crate::agents_scene::agents_home;

/// A home whose agents are reached through the channel `mailbox`.
pub(crate) struct Mailbox {
    pub(crate) home: TestHome,
}

impl Mailbox {
    /// Creates the home; its agents use the mock model.
    pub(crate) fn new(mock: &MockModel, settings: &str) -> Self {
        let channels = "channels: {mailbox: {agent: worker, messages_per_minute: 10000}}\n";
        let settings = format!("{}{channels}{settings}", mock.settings(Wire::Openai));
        let manifest = "id: mailbox\nname: Mailbox\nentrypoint: mailbox\n";
        let home = agents_home(mock)
            .manifest("mailbox", manifest)
            .library("mailbox", "mailbox", &example_library("mailbox"))
            .settings(&settings)
            .trusted();
        Self { home }
    }

    /// Puts a file into the inbox; files are received in the order of their numbers.
    pub(crate) fn put(&self, number: usize, file: &Value) {
        let name = format!("inbox/{number:08}");
        // The channel reads only complete files.
        self.home.write(format!("{name}.tmp"), file.to_string());
        let path = |suffix: &str| self.home.path(format!("{name}.{suffix}"));
        std::fs::rename(path("tmp"), path("json")).unwrap();
    }

    /// Writes a message of a person in a direct conversation.
    pub(crate) fn write(&self, number: usize, external_id: &str, peer: &str, text: &str) {
        self.put(number, &direct_message(external_id, peer, text));
    }

    /// Pairs a person by a code of the command line.
    pub(crate) fn pair(&self, number: usize, peer: &str, options: &[&str]) {
        let args = ["channel", "pair", "mailbox", "--json"];
        let created = self.home.skillhost(args.iter().chain(options)).success().json();
        let code = created["code"].as_str().unwrap();
        self.write(number, &format!("pair {peer}"), peer, &format!("/start {code}"));
        self.wait_for_sent(|sent| sent["text"].as_str().unwrap().starts_with("You are paired"));
    }

    /// Returns the messages that the platform has.
    pub(crate) fn sent(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.home.path("outbox.jsonl")).unwrap_or_default();
        // The last line may be half written.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits for a message.
    pub(crate) fn wait_for_sent(&self, condition: impl Fn(&Value) -> bool) -> Value {
        poll_until("a message that meets the condition", || {
            let sent = self.sent();
            sent.iter().rev().find(|sent| condition(sent)).cloned().ok_or(sent)
        })
    }

    /// Waits for a message whose text contains a part.
    pub(crate) fn wait_for_text(&self, part: &str) -> Value {
        self.wait_for_sent(|sent| sent["text"].as_str().unwrap().contains(part))
    }

    /// Waits for a question; returns its message with buttons, the last one of its parts.
    pub(crate) fn wait_for_question(&self, id: &str) -> Value {
        let head = format!("question {id} ");
        let first = self.wait_for_sent(|sent| {
            sent["edits"].is_null() && sent["text"].as_str().unwrap().contains(&head)
        });
        let task =
            |sent: &Value| sent["key"].as_str().unwrap().split('/').next().map(str::to_owned);
        self.wait_for_sent(|sent| sent["buttons"].is_array() && task(sent) == task(&first))
    }

    /// Waits for the outcome of a file.
    pub(crate) fn wait_for_outcome(&self, number: usize) -> String {
        let name = format!("{number:08}.json ");
        poll_until("the outcome of a file", || {
            let path = self.home.path("outcomes.txt");
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let outcome = lines.filter_map(|line| line.strip_prefix(&*name)).next_back();
            outcome.map(|outcome| outcome.trim_end().to_owned()).ok_or_else(|| text.clone())
        })
    }

    /// Presses a button of a message; returns the line for the person.
    pub(crate) fn press(&self, number: usize, sent: &Value, button: usize, peer: &str) -> String {
        self.put(number, &pressed_button(sent, button, peer));
        self.wait_for_outcome(number)
    }
}

/// Returns a message in a direct conversation, whose id is that of the person.
pub(crate) fn direct_message(external_id: &str, peer: &str, text: &str) -> Value {
    json!({
        "external_id": external_id,
        "conversation": { "id": peer },
        "peer": { "id": peer, "name": format!("Person {peer}") },
        "text": text,
    })
}

/// Returns the press of a button of a message.
pub(crate) fn pressed_button(sent: &Value, button: usize, peer: &str) -> Value {
    json!({
        "token": sent["buttons"][button]["token"],
        "conversation": sent["conversation"],
        "message_id": sent["key"],
        "peer": { "id": peer, "name": "" },
    })
}
