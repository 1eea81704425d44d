//! Tests of the channel `telegram`: people write to a bot, and the kernel answers through it.

use std::fs;

use fake_bot_api::{ApiFault, FakeBotApi};
use mock_model::{MockModel, Step};
use serde_json::json;
use skillhost_control::ChannelRole;
use test_support::TestHome;

use crate::channel_scene::{TOKEN, pair_people, telegram_home, wait_for_question, wait_for_text};
use crate::fixtures::start_kernel;

const OWNER: i64 = 1001;
const STRANGER: i64 = 2002;

/// Returns the texts that a chat got.
fn texts_of(api: &FakeBotApi, chat: i64) -> Vec<String> {
    let calls = api.calls("sendMessage").into_iter();
    let own = calls.filter(|call| call.had_effect && call.body["chat_id"] == json!(chat));
    own.map(|call| call.body["text"].as_str().unwrap().to_owned()).collect()
}

/// Checks that no file of the home but `.env` contains a text.
fn assert_absent_below(home: &TestHome, text: &str) {
    let mut directories = vec![home.root()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() && entry.file_name() != ".env" {
                let bytes = fs::read(&path).unwrap();
                let found = bytes.windows(text.len()).any(|window| window == text.as_bytes());
                assert!(!found, "{text} in {}", path.display());
            }
        }
    }
}

#[test]
fn bot_answers_paired_person() {
    let api = FakeBotApi::new(TOKEN);
    let mock = MockModel::with([Step::text("Good *morning*.")]);
    let home = telegram_home(&api, &mock);
    let kernel = start_kernel(&home);
    api.push_message(STRANGER, 5, "Hello from a stranger");
    pair_people(&home, &api, ChannelRole::Owner, [OWNER]);
    api.push_message(OWNER, 6, "Hello");
    let reply = wait_for_text(&api, OWNER, "Good ");
    assert_eq!(
        reply.body,
        json!({"chat_id": OWNER, "text": "Good *morning*.",
               "link_preview_options": {"is_disabled": true}})
    );
    // The same message again, under a new number.
    api.push_message(OWNER, 6, "Hello");
    api.wait_until_confirmed();
    assert_eq!(mock.requests().len(), 1);
    let request = mock.requests().remove(0);
    assert_eq!(request.messages().last().unwrap().text, "Hello");
    assert!(request.system().contains("telegram"), "{}", request.system());
    assert!(request.system().contains("Markdown"), "{}", request.system());
    assert_eq!(texts_of(&api, STRANGER), Vec::<String>::new());
    kernel.interrupt().success();
    assert_absent_below(&home, "Hello from a stranger");
    assert_absent_below(&home, TOKEN.split(':').nth(1).unwrap());
}

#[test]
fn owner_approves_by_button() {
    let api = FakeBotApi::new(TOKEN);
    let arguments = json!({"url": "http://127.0.0.1:9/page"}).to_string();
    let mock =
        MockModel::with([Step::calls("web_fetch", &arguments), Step::text("Not reachable.")]);
    let home = telegram_home(&api, &mock);
    let kernel = start_kernel(&home);
    pair_people(&home, &api, ChannelRole::Owner, [OWNER]);
    api.push_message(OWNER, 6, "Fetch the page");
    let asked = wait_for_question(&api, OWNER, "127.0.0.1:9/page");
    assert_eq!(asked.labels(), ["Approve", "Refuse"]);
    assert_eq!(asked.decide(&api, STRANGER, "Approve"), "This question is not yours.");
    assert_eq!(mock.requests().len(), 1);
    assert_eq!(asked.decide(&api, OWNER, "Approve"), "Decided: approve.");
    wait_for_text(&api, OWNER, "Not reachable.");
    // The buttons of the question are gone.
    let edits = api.wait_for_calls("editMessageText", 1);
    assert_eq!(edits[0].body["reply_markup"], json!({"inline_keyboard": []}));
    kernel.interrupt().success();
}

#[test]
fn missing_token_is_reported_by_doctor() {
    let api = FakeBotApi::new(TOKEN);
    let mock = MockModel::new();
    let home = telegram_home(&api, &mock);
    let doctor = |home: &TestHome| home.skillhost(["ext", "doctor"]);
    home.write(".env", "");
    let output = doctor(&home).exits(1);
    let text = format!("{output}");
    assert!(text.contains("the secret `TELEGRAM_BOT_TOKEN` is not set"), "{text}");
    home.write(".env", "TELEGRAM_BOT_TOKEN=not-a-token-but-secret\n");
    let text = format!("{}", doctor(&home).exits(1));
    assert!(text.contains("`TELEGRAM_BOT_TOKEN` is not a token of a bot"), "{text}");
    assert!(!text.contains("not-a-token"), "{text}");
    home.write(".env", format!("TELEGRAM_BOT_TOKEN={TOKEN}\n"));
    doctor(&home).success();
}

#[test]
fn revoked_token_is_reported_by_doctor() {
    let api = FakeBotApi::new(TOKEN);
    let mock = MockModel::new();
    let home = telegram_home(&api, &mock);
    api.set_token(None);
    let kernel = start_kernel(&home);
    // The second request follows a pause after the first one has failed.
    assert_eq!(api.wait_for_calls("getMe", 2).len(), 2);
    let text = format!("{}", home.skillhost(["ext", "doctor"]).exits(1));
    assert!(text.contains("Telegram refuses the token of the bot (status 401)"), "{text}");
    assert!(!text.contains("AAF-"), "{text}");
    kernel.interrupt().success();
}

#[test]
fn second_kernel_leaves_polls_alone() {
    let api = FakeBotApi::new(TOKEN);
    let mock = MockModel::with([Step::text("One."), Step::text("Two.")]);
    let home = telegram_home(&api, &mock);
    let kernel = start_kernel(&home);
    pair_people(&home, &api, ChannelRole::Owner, [OWNER]);
    let own = home.skillhost(["tool", "list"]).success();
    assert!(own.stdout.contains("web_fetch"), "{own}");
    // A kernel of its own, which serves a client while the first one receives messages.
    let other = home.start(home.command().args(["mcp", "--http", "127.0.0.1:0"]));
    other.line_with("http://127.0.0.1:");
    api.push_message(OWNER, 6, "First");
    wait_for_text(&api, OWNER, "One.");
    // No poll was ended by another one.
    assert!(api.calls("getUpdates").iter().all(|call| call.had_effect));
    assert_eq!(api.calls("getMe").len(), 1);
    drop(other);
    kernel.interrupt().success();
}

#[test]
fn failures_of_platform_lose_no_reply() {
    let api = FakeBotApi::new(TOKEN);
    let mock = MockModel::with([Step::text("The reply.")]);
    let home = telegram_home(&api, &mock);
    let kernel = start_kernel(&home);
    pair_people(&home, &api, ChannelRole::Owner, [OWNER]);
    api.fail_next("sendMessage", ApiFault::Throttle(1));
    api.fail_next("getUpdates", ApiFault::CutAfter);
    api.push_message(OWNER, 6, "Hello");
    wait_for_text(&api, OWNER, "The reply.");
    assert_eq!(mock.requests().len(), 1);
    api.block_chat(OWNER);
    mock.push(Step::text("The reply to a blocked chat."));
    api.push_message(OWNER, 7, "Hello again");
    kernel.line_with("delivery.failed");
    kernel.interrupt().success();
}

#[test]
fn test_runs_receive_no_messages() {
    let api = FakeBotApi::new(TOKEN);
    let mock = MockModel::new();
    mock.answer_with(|_| Some(Step::text("Hello, welcome.")));
    let evals = json!({"skill_name": "greet", "evals": [{
        "id": "ada", "prompt": "Please greet Ada.",
        "assertions": [{"type": "contains", "value": "welcome"}],
    }]});
    let home = telegram_home(&api, &mock)
        .skill("greet", "---\nname: greet\ndescription: Greets people.\n---\nSay welcome.\n")
        .file("sandbox/skills/greet/evals/evals.json", evals.to_string())
        .file("sandbox/skills/greet/evals/suite.yaml", "agent: helper\n");
    let kernel = start_kernel(&home);
    pair_people(&home, &api, ChannelRole::Owner, [OWNER]);
    kernel.interrupt().success();
    // The channel works, and a message waits for it.
    let polls = api.calls("getUpdates").len();
    api.push_message(OWNER, 6, "Hello");
    let args = ["skill", "test", "greet", "--model", "mock/test-model", "--only", "greet/ada"];
    // The homes of runs have no `.env`, but they have the variables of the command.
    let mut command = home.command();
    command.args(args).env("TELEGRAM_BOT_TOKEN", TOKEN);
    let output = home.start(&mut command).finish().success();
    assert!(!mock.requests().is_empty(), "{output}");
    assert_eq!((api.calls("getUpdates").len(), api.unconfirmed()), (polls, 1), "{output}");
    let kernel = start_kernel(&home);
    wait_for_text(&api, OWNER, "welcome");
    kernel.interrupt().success();
}
