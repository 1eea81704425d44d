//! Tests of what people and platforms send that they should not: at a bot that runs.

use fake_bot_api::FakeBotApi;
use mock_model::{MockModel, Step};
use serde_json::{Value, json};
use skillhost_control::ChannelRole;
use test_support::TestHome;

use crate::channel_scene::{TOKEN, pair_people, telegram_home, wait_for_question, wait_for_text};
use crate::fixtures::start_kernel;

const OWNER: i64 = 1001;
const OTHER_OWNER: i64 = 1002;
const STRANGER: i64 = 2002;
const GROUP: i64 = -500;

/// Returns the texts that a chat got.
fn texts_of(api: &FakeBotApi, chat: i64) -> Vec<String> {
    let calls = api.calls("sendMessage").into_iter();
    let own = calls.filter(|call| call.had_effect && call.body["chat_id"] == json!(chat));
    own.map(|call| call.body["text"].as_str().unwrap().to_owned()).collect()
}

/// Returns the number of messages to a chat that the platform did not take.
fn rejected_messages(api: &FakeBotApi, chat: i64) -> usize {
    let calls = api.calls("sendMessage").into_iter();
    calls.filter(|call| !call.had_effect && call.body["chat_id"] == json!(chat)).count()
}

/// Answers each message with an echo of its beginning.
fn echoing_model() -> MockModel {
    let mock = MockModel::new();
    mock.answer_with(|request| {
        let text: String = request.last_text().chars().take(100).collect();
        Some(Step::text(&format!("Echo: {text}")))
    });
    mock
}

/// Returns a message in the group that mentions the bot.
fn group_message(person: i64, message: i64, text: &str) -> Value {
    json!({"message": {
        "message_id": message, "date": 1_700_000_000,
        "chat": {"id": GROUP, "type": "supergroup"},
        "from": {"id": person, "is_bot": false, "first_name": "Person"},
        "text": format!("@helper_bot {text}"),
        "entities": [{"type": "mention", "offset": 0, "length": 11}],
    }})
}

#[test]
fn revoked_token_delays_reply() {
    let api = FakeBotApi::new(TOKEN);
    let mock = MockModel::with([Step::text("The reply.").held(), Step::text("And again.")]);
    let home = telegram_home(&api, &mock);
    let kernel = start_kernel(&home);
    pair_people(&home, &api, ChannelRole::Owner, [OWNER]);
    api.push_message(OWNER, 6, "Hello");
    assert_eq!(mock.wait_for(1).len(), 1);
    // The poll that is held ends, and the reply is refused.
    api.set_token(None);
    mock.release();
    let greetings = api.calls("getMe").len();
    assert_eq!(
        api.wait_for_calls("getMe", greetings + 1).last().map(|it| it.had_effect),
        Some(false)
    );
    let text = format!("{}", home.skillhost(["ext", "doctor"]).exits(1));
    assert!(text.contains("Telegram refuses the token of the bot (status 401)"), "{text}");
    api.set_token(Some(TOKEN));
    wait_for_text(&api, OWNER, "The reply.");
    api.push_message(OWNER, 7, "Hello again");
    wait_for_text(&api, OWNER, "And again.");
    home.skillhost(["ext", "doctor"]).success();
    kernel.interrupt().success();
}

#[test]
fn deleted_chat_ends_delivery() {
    let api = FakeBotApi::new(TOKEN);
    let mock = echoing_model();
    let home = telegram_home(&api, &mock);
    let kernel = start_kernel(&home);
    pair_people(&home, &api, ChannelRole::Owner, [OWNER, OTHER_OWNER]);
    for (message, chat) in [(6, OWNER), (7, OTHER_OWNER)] {
        match chat {
            OWNER => api.delete_chat(chat),
            _ => api.block_chat(chat),
        }
        api.push_message(chat, message, "Hello");
        kernel.line_with("delivery.failed");
        assert_eq!(rejected_messages(&api, chat), 1);
    }
    kernel.interrupt().success();
    // Nor does the next kernel try it again.
    let kernel = start_kernel(&home);
    pair_people(&home, &api, ChannelRole::Owner, [STRANGER]);
    api.push_message(STRANGER, 8, "Hello");
    wait_for_text(&api, STRANGER, "Echo: Hello");
    assert_eq!((rejected_messages(&api, OWNER), rejected_messages(&api, OTHER_OWNER)), (1, 1));
    let failed = ["task", "list", "--kind", "deliver", "--state", "failed", "--json"];
    let listed = home.skillhost(failed).success().json();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 2, "{listed}");
    kernel.interrupt().success();
}

#[test]
fn huge_message_is_answered_and_dropped() {
    let api = FakeBotApi::new(TOKEN);
    let mock = echoing_model();
    let home = telegram_home(&api, &mock);
    let kernel = start_kernel(&home);
    pair_people(&home, &api, ChannelRole::Owner, [OWNER]);
    let huge = "word ".repeat((4 << 20) / 5);
    api.push_message(OWNER, 6, &huge);
    wait_for_text(&api, OWNER, &format!("Your message was not read: it has {} bytes", huge.len()));
    api.push_message(OWNER, 7, "Short");
    wait_for_text(&api, OWNER, "Echo: Short");
    assert_eq!(mock.requests().len(), 1);
    kernel.interrupt().success();
    assert_eq!(files_over(&home, 1 << 20), Vec::<String>::new());
}

/// Lists the files below the data directory that have more than a number of bytes.
fn files_over(home: &TestHome, bytes: u64) -> Vec<String> {
    let mut found = Vec::new();
    let mut directories = vec![home.path("sandbox/data/kernel")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            let details = entry.metadata().unwrap();
            if details.is_dir() {
                directories.push(entry.path());
            } else if details.len() > bytes {
                found.push(entry.path().display().to_string());
            }
        }
    }
    found
}

#[test]
fn flood_is_limited_and_answered_once() {
    let api = FakeBotApi::new(TOKEN);
    let mock = echoing_model();
    let home = telegram_home(&api, &mock);
    let settings = std::fs::read_to_string(home.path("skillhost.yaml")).unwrap();
    home.write(
        "skillhost.yaml",
        settings.replace("messages_per_minute: 1000000", "messages_per_minute: 2"),
    );
    let kernel = start_kernel(&home);
    pair_people(&home, &api, ChannelRole::Owner, [OWNER, OTHER_OWNER]);
    for number in 0..100 {
        api.push_message(OWNER, 10 + number, &format!("Message {number}"));
    }
    // Another person is not affected.
    api.push_message(OTHER_OWNER, 6, "Hello");
    wait_for_text(&api, OTHER_OWNER, "Echo: Hello");
    wait_for_text(&api, OWNER, "Echo: Message 0");
    api.wait_until_confirmed();
    let notice = "You sent more than 2 messages per minute.";
    wait_for_text(&api, OWNER, notice);
    kernel.interrupt().success();
    let texts = texts_of(&api, OWNER);
    // A slow machine may need more than the half minute in which one message more is permitted.
    let echoes = texts.iter().filter(|text| text.starts_with("Echo: ")).count();
    assert!((1..=5).contains(&echoes), "{texts:#?}");
    let notices = texts.iter().filter(|text| text.contains(notice)).count();
    assert!((1..=2).contains(&notices), "{texts:#?}");
}

#[test]
fn stranger_in_group_presses_in_vain() {
    let api = FakeBotApi::new(TOKEN);
    let arguments = json!({"url": "http://127.0.0.1:9/page"}).to_string();
    let mock = MockModel::with([Step::calls("web_fetch", &arguments), Step::text("Stopped.")]);
    let home = telegram_home(&api, &mock);
    let kernel = start_kernel(&home);
    pair_people(&home, &api, ChannelRole::Owner, [OWNER, OTHER_OWNER]);
    // A stranger's own message in the group is ignored.
    api.push_update(&group_message(STRANGER, 5, "fetch it for me"));
    api.push_update(&group_message(OWNER, 6, "fetch the page"));
    let asked = wait_for_question(&api, GROUP, "127.0.0.1:9/page");
    for person in [STRANGER, OTHER_OWNER] {
        assert_eq!(asked.decide(&api, person, "Approve"), "This question is not yours.");
    }
    assert_eq!(mock.requests().len(), 1);
    assert_eq!(asked.decide(&api, OWNER, "Refuse"), "Decided: refuse.");
    wait_for_text(&api, GROUP, "Stopped.");
    let request = mock.requests().remove(0);
    assert_eq!(request.messages().last().unwrap().text, "Person (owner): fetch the page");
    kernel.interrupt().success();
}

#[test]
fn edited_message_is_read_edited_command_is_not() {
    let api = FakeBotApi::new(TOKEN);
    let mock = echoing_model();
    let home = telegram_home(&api, &mock);
    let kernel = start_kernel(&home);
    pair_people(&home, &api, ChannelRole::Owner, [OWNER]);
    let edit = |message: i64, text: &str| {
        api.push_update(&json!({"edited_message": {
            "message_id": message, "date": 1_700_000_000, "edit_date": 1_700_000_100,
            "chat": {"id": OWNER, "type": "private"},
            "from": {"id": OWNER, "is_bot": false, "first_name": "Person"},
            "text": text,
        }}));
    };
    api.push_message(OWNER, 6, "Add one");
    wait_for_text(&api, OWNER, "Echo: Add one");
    edit(6, "Add two");
    wait_for_text(&api, OWNER, "Echo: [edited message]\nAdd two");
    // The same edit again, as after a crash, is a duplicate; a command is not executed late.
    edit(6, "Add two");
    edit(6, "/new");
    api.push_message(OWNER, 7, "Add three");
    wait_for_text(&api, OWNER, "Echo: Add three");
    let texts = texts_of(&api, OWNER);
    assert_eq!(texts.iter().filter(|text| text.contains("Add two")).count(), 1, "{texts:#?}");
    assert!(!texts.iter().any(|text| text.contains("A new thread begins")), "{texts:#?}");
    let threads = home.skillhost(["threads", "list", "--json"]).success().json();
    assert_eq!(threads["threads"].as_array().unwrap().len(), 1, "{threads}");
    kernel.interrupt().success();
}
