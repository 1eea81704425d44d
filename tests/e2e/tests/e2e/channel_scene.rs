//! Fixtures of the channel tests: homes with a bot of Telegram, and people who write to it.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fake_bot_api::{BotCall, FakeBotApi};
use mock_model::{MockModel, Wire};
use serde_json::json;
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
