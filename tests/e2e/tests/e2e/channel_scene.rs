//! Fixtures of the channel tests: homes with a bot of Telegram, and people who write to it.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fake_bot_api::{BotCall, FakeBotApi};
use mock_model::{MockModel, Wire};
use serde_json::{Value, json};
use skillhost_channels::ChannelStore;
use skillhost_control::ChannelRole;
use test_support::TestHome;

use crate::fixtures::{agent_manifest, shipped_manifest};

/// The token of the bot.
pub(crate) const TOKEN: &str = "123456:AAF-a_token_of_tests";

/// Returns a shipped manifest of a channel that is enabled.
pub(crate) fn enabled_manifest(id: &str) -> String {
    let manifest = shipped_manifest(id);
    let enabled = manifest.replace("enabled: false\n", "");
    assert_ne!(enabled, manifest);
    enabled
}

/// Returns a home with the bot and the agent `helper`, which answers everyone.
pub(crate) fn telegram_home(api: &FakeBotApi, mock: &MockModel) -> TestHome {
    let helper = "  instructions: You help.\n  uses_tools: [web_search]\n";
    let settings = format!(
        "{}channels:\n  telegram: {{agent: helper, guests: [helper], messages_per_minute: 1000000}}\n\
         extensions:\n  telegram: {{base_url: \"{}\"}}\n  web_search: {{fetch: true}}\n",
        mock.settings(Wire::Openai),
        api.url()
    );
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("web_search", &shipped_manifest("web_search"))
        .manifest("telegram", &enabled_manifest("telegram"))
        .manifest("helper", &agent_manifest("helper", helper))
        .file(".env", format!("TELEGRAM_BOT_TOKEN={TOKEN}\n"))
        .settings(&settings)
        .trusted()
}

/// Makes a code that pairs a person of a channel.
pub(crate) fn pairing_code(home: &TestHome, channel: &str, role: ChannelRole) -> String {
    let directory = home.path("sandbox/data/kernel");
    std::fs::create_dir_all(&directory).unwrap();
    create_code(&directory, channel, role)
}

fn create_code(directory: &Path, channel: &str, role: ChannelRole) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let store = ChannelStore::in_directory(directory);
    let code = store.create_code(channel, role, Vec::new(), u64::try_from(now).unwrap());
    runtime.block_on(code).unwrap().code
}

/// Pairs people of the bot, and waits until each has the confirmation.
pub(crate) fn pair_people(
    home: &TestHome,
    api: &FakeBotApi,
    role: ChannelRole,
    people: impl IntoIterator<Item = i64>,
) {
    for person in people {
        let code = pairing_code(home, "telegram", role);
        // Below the messages of any test.
        api.push_message(person, 1, &format!("/start {code}"));
        wait_for_text(api, person, "You are paired as ");
    }
}

/// Waits until the bot has sent a person a text with this part; returns the call.
pub(crate) fn wait_for_text(api: &FakeBotApi, person: i64, part: &str) -> BotCall {
    let mut count = 0;
    loop {
        let calls = api.wait_for_calls("sendMessage", count + 1);
        let is_wanted = |call: &&BotCall| {
            call.had_effect
                && call.body["chat_id"] == json!(person)
                && call.body["text"].as_str().is_some_and(|text| text.contains(part))
        };
        if let Some(call) = calls.iter().find(is_wanted) {
            return call.clone();
        }
        count = calls.len();
    }
}

/// A question that the bot has sent, with its buttons.
pub(crate) struct SentQuestion {
    pub(crate) chat: i64,
    message: i64,
    pub(crate) text: String,
    buttons: Vec<Value>,
}

impl SentQuestion {
    /// Returns the labels of the buttons.
    pub(crate) fn labels(&self) -> Vec<&str> {
        self.buttons.iter().map(|button| button["text"].as_str().unwrap()).collect()
    }

    /// Returns the update about the press of a button by a person.
    pub(crate) fn press(&self, press: &str, person: i64, label: &str) -> Value {
        let button = self.buttons.iter().find(|button| button["text"] == label);
        let data =
            &button.unwrap_or_else(|| panic!("{label}: {:?}", self.buttons))["callback_data"];
        let kind = if self.chat < 0 { "supergroup" } else { "private" };
        json!({"callback_query": {"id": press, "data": data,
               "from": {"id": person, "first_name": "Person"},
               "message": {"message_id": self.message, "chat": {"id": self.chat, "type": kind}}}})
    }

    /// Lets a person press a button; returns the line for the person.
    pub(crate) fn decide(&self, api: &FakeBotApi, person: i64, label: &str) -> String {
        let press = format!("press {} of {person} at {}", label, api.calls("getUpdates").len());
        api.push_update(&self.press(&press, person, label));
        wait_for_press(api, &press)
    }
}

/// Waits until the bot has answered a press; returns the line for the person.
pub(crate) fn wait_for_press(api: &FakeBotApi, press: &str) -> String {
    let mut count = 0;
    loop {
        let calls = api.wait_for_calls("answerCallbackQuery", count + 1);
        if let Some(call) = calls.iter().find(|call| call.body["callback_query_id"] == press) {
            return call.body["text"].as_str().unwrap_or_default().to_owned();
        }
        count = calls.len();
    }
}

/// Waits until the bot has sent a message with buttons to a chat whose text contains a part.
pub(crate) fn wait_for_question(api: &FakeBotApi, chat: i64, part: &str) -> SentQuestion {
    let mut count = 0;
    loop {
        let calls = api.wait_for_calls("sendMessage", count + 1);
        let sent = calls.iter().filter(|call| call.had_effect);
        // The server numbers messages in the order in which they were sent.
        for (number, call) in (1..).zip(sent) {
            let rows = call.body["reply_markup"]["inline_keyboard"].as_array();
            let text = call.body["text"].as_str().unwrap_or_default();
            let is_wanted = call.body["chat_id"] == json!(chat) && text.contains(part);
            if let Some(rows) = rows.filter(|rows| is_wanted && !rows.is_empty()) {
                let buttons = rows.iter().flat_map(|row| row.as_array().unwrap()).cloned();
                let (text, buttons) = (text.to_owned(), buttons.collect());
                return SentQuestion { chat, message: number, text, buttons };
            }
        }
        count = calls.len();
    }
}
