//! The approvals that a person gives elsewhere than at the terminal: a proposal with its diff, the
//! build of an extension with its files, and a restart; by a button of a chat and by a form of the
//! console, each decided once.

use fake_bot_api::FakeBotApi;
use mock_model::{MockModel, Step};
use serde_json::{Value, json};
use skillhost_control::ChannelRole;
use test_support::{Background, TestHome};

use crate::channel_scene::{
    SentQuestion, TOKEN, pair_people, telegram_home, wait_for_question, wait_for_text,
};
use crate::console_client::{ConsoleClient, ConsoleReply, value_after};
use crate::fixtures::agent_manifest;
use crate::mcp_consents::only_question;
use crate::proposals::{BEADS, beads_text, beads_with};
use crate::self_extension::python_is_missing;
use crate::supervision::start_supervised;

const OWNER: i64 = 1001;
const GUEST: i64 = 3003;
const GROUP: i64 = -500;

const TEA: &str =
    "id: tea\nname: Tea\nversion: 0.1.0\nentrypoint: {command: [python3, server.py]}\n";
const SERVER_PATH: &str = "sandbox/extensions/tea/server.py";
/// A process extension with one tool, whose text is that of its first approval.
const SERVER: &str = r#"import json
import sys

TOOL = {"name": "tea_brew", "description": "Brews black tea.", "inputSchema": {"type": "object"}}


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "tea", "version": "0.1.0"}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    return {"content": [{"type": "text", "text": "brewed"}]}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        reply = {"jsonrpc": "2.0", "id": request["id"],
                 "result": answer(request["method"], request.get("params") or {})}
        print(json.dumps(reply), flush=True)
"#;

/// A kernel with a bot and a console, whose agent asks for approvals.
struct ApprovalScene {
    api: FakeBotApi,
    mock: MockModel,
    home: TestHome,
    kernel: Background,
}

impl ApprovalScene {
    /// Starts the kernel; `prepare` may add to its home.
    fn start(prepare: impl FnOnce(&TestHome)) -> Self {
        let (api, mock) = (FakeBotApi::new(TOKEN), MockModel::new());
        let helper = "  instructions: You help.\n  uses_tools: [skill_registry, kernel]\n";
        let home = telegram_home(&api, &mock)
            .manifest("helper", &agent_manifest("helper", helper))
            .skill("beads", BEADS);
        prepare(&home);
        let kernel = start_supervised(&home);
        pair_people(&home, &api, ChannelRole::Owner, [OWNER]);
        Self { api, mock, home, kernel }
    }

    /// Starts the kernel with an approved extension, one line of which has changed since.
    fn with_changed_extension() -> Self {
        Self::start(|home| {
            home.write("sandbox/extensions/tea/manifest.yaml", TEA);
            home.write(SERVER_PATH, SERVER);
            home.approve("tea");
            home.write(SERVER_PATH, changed_server("green"));
        })
    }

    /// Lets the owner write to the bot, whose agent makes a call and ends after its result.
    fn request_call(&self, tool: &str, arguments: &Value) {
        self.mock.push(Step::calls(tool, &arguments.to_string()));
        self.mock.push(Step::text("That is all."));
        self.api.push_message(OWNER, 6, "Please");
    }

    fn request_proposal(&self) -> SentQuestion {
        let change = json!({
            "skill_id": "beads", "justification": "Louder.", "new_content": beads_with("THREE"),
        });
        self.request_call("propose_skill_update", &change);
        wait_for_question(&self.api, OWNER, "Proposed change of a skill")
    }

    fn request_build(&self) -> SentQuestion {
        self.request_call("build_extension", &json!({ "id": "tea" }));
        wait_for_question(&self.api, OWNER, "Build of an extension")
    }

    fn request_restart(&self) -> SentQuestion {
        self.request_call("request_restart", &json!({ "reason": "There are new tools." }));
        wait_for_question(&self.api, OWNER, "Restart of the kernel")
    }

    /// Returns the result of the agent's call.
    fn call_result(&self) -> String {
        self.mock.wait_for(2)[1]
            .messages()
            .iter()
            .rev()
            .find(|it| it.role == "tool")
            .unwrap()
            .text
            .clone()
    }

    /// Checks that both surfaces name an earlier decision on Telegram.
    fn check_decided_on_telegram(&self, id: &str, digest: &str, sent: &SentQuestion) {
        let client = ConsoleClient::log_in(&self.home);
        let late = decide_in_console(&client, id, digest, "refuse").expect(409);
        let decided = "decided as <strong>approve</strong> by owner Person on telegram";
        assert!(late.body.contains(decided), "{}", late.body);
        let again = sent.decide(&self.api, OWNER, "Refuse");
        assert_eq!(again, "Decided before: approve by owner Person (telegram).");
        self.wait_for_closure("Decided: approve — owner Person (telegram)");
    }

    /// Checks that both surfaces name an earlier decision in the console.
    fn check_decided_in_console(
        &self,
        client: &ConsoleClient,
        id: &str,
        digest: &str,
        sent: &SentQuestion,
    ) {
        let again = sent.decide(&self.api, OWNER, "Refuse");
        assert_eq!(again, "Decided before: approve by operator (console).");
        let late = decide_in_console(client, id, digest, "refuse").expect(409);
        let decided = "decided as <strong>approve</strong> by operator on console";
        assert!(late.body.contains(decided), "{}", late.body);
        self.wait_for_closure("Decided: approve — operator (console)");
    }

    /// Waits until the copy of the question in the chat has lost its buttons.
    fn wait_for_closure(&self, line: &str) {
        let edits = self.api.wait_for_calls("editMessageText", 1);
        assert!(edits[0].body["text"].as_str().unwrap().ends_with(line), "{:?}", edits[0]);
        assert_eq!(edits[0].body["reply_markup"], json!({"inline_keyboard": []}));
    }
}

fn changed_server(tea: &str) -> String {
    SERVER.replace("black", tea)
}

/// Returns the digest of a question's page, which shows all parts.
fn read_page(client: &ConsoleClient, id: &str, parts: &[&str]) -> String {
    assert!(client.get("/inbox").expect(200).body.contains(id));
    let page = client.get(&format!("/inbox/{id}")).expect(200).body;
    for part in parts {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("value=\"approve\""), "{page}");
    value_after(&page, "name=\"digest\" value=\"")
}

fn decide_in_console(client: &ConsoleClient, id: &str, digest: &str, choice: &str) -> ConsoleReply {
    client.post(&format!("/inbox/{id}"), &[("digest", digest), ("choice", choice)])
}

/// Returns the id and the digest of the only open question.
fn open_question(home: &TestHome) -> (String, String) {
    let question = only_question(home);
    let text = |field: &str| question[field].as_str().unwrap().to_owned();
    (text("id"), text("digest"))
}

/// Returns whether the files of the extension are those that are approved.
fn is_approved(home: &TestHome) -> bool {
    let listed = home.skillhost(["ext", "approvals", "--json"]).success().json();
    listed["approvals"][0]["state"] == "approved"
}

/// Checks that the message shows all that is decided on.
#[track_caller]
fn assert_shown(sent: &SentQuestion, parts: &[&str]) {
    assert_eq!(sent.labels(), ["Approve", "Refuse"]);
    for part in parts {
        assert!(sent.text.contains(part), "{part}: {}", sent.text);
    }
}

fn sha256_prefix(text: &str) -> String {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(text.as_bytes());
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn proposal_is_approved_on_telegram() {
    let scene = ApprovalScene::start(|_| {});
    let sent = scene.request_proposal();
    let (id, digest) = open_question(&scene.home);
    assert_shown(&sent, &["-three", "+THREE", "Louder.", &id, &digest[..12]]);
    assert_eq!(beads_text(&scene.home), BEADS);
    assert_eq!(sent.decide(&scene.api, OWNER, "Approve"), "Decided: approve.");
    assert_eq!(beads_text(&scene.home), beads_with("THREE"));
    scene.check_decided_on_telegram(&id, &digest, &sent);
    scene.kernel.interrupt().success();
}

#[test]
fn proposal_is_approved_in_console() {
    let scene = ApprovalScene::start(|_| {});
    let sent = scene.request_proposal();
    let (id, _) = open_question(&scene.home);
    let client = ConsoleClient::log_in(&scene.home);
    let digest = read_page(&client, &id, &["<del>three</del>", "<ins>THREE</ins>", "Louder."]);
    decide_in_console(&client, &id, &digest, "approve").expect(303);
    assert_eq!(beads_text(&scene.home), beads_with("THREE"));
    scene.check_decided_in_console(&client, &id, &digest, &sent);
    scene.kernel.interrupt().success();
}

#[test]
fn changed_skill_is_approved_nowhere() {
    let scene = ApprovalScene::start(|_| {});
    let sent = scene.request_proposal();
    let (id, digest) = open_question(&scene.home);
    let client = ConsoleClient::log_in(&scene.home);
    let edited = BEADS.replace("three", "drei");
    scene.home.write("sandbox/skills/beads/SKILL.md", &edited);
    let late = sent.decide(&scene.api, OWNER, "Approve");
    assert_eq!(late, "The question was withdrawn.");
    decide_in_console(&client, &id, &digest, "approve").expect(409);
    assert_eq!(beads_text(&scene.home), edited);
    // What remains of it can only be refused.
    let (stale, _) = open_question(&scene.home);
    let page = client.get(&format!("/inbox/{stale}")).expect(200).body;
    assert!(!page.contains("value=\"approve\"") && page.contains("value=\"refuse\""), "{page}");
    scene.kernel.interrupt().success();
}

#[test]
fn build_is_approved_on_telegram() {
    if python_is_missing() {
        return;
    }
    let scene = ApprovalScene::with_changed_extension();
    let sent = scene.request_build();
    let (id, digest) = open_question(&scene.home);
    let server = changed_server("green");
    let listed = format!("{}  server.py", sha256_prefix(&server));
    let (before, after) = ("Brews black tea.", "Brews green tea.");
    let parts = ["changed since the approval of", before, after, "a program, started as", &listed];
    assert_shown(&sent, &parts);
    // Every line of every file.
    for line in TEA.lines().chain(server.lines()) {
        assert!(sent.text.contains(line), "{line}: {}", sent.text);
    }
    assert!(!is_approved(&scene.home));
    assert_eq!(sent.decide(&scene.api, OWNER, "Approve"), "Decided: approve.");
    let result = scene.call_result();
    assert!(result.contains("`tea` 0.1.0 was built and installed"), "{result}");
    assert!(is_approved(&scene.home));
    scene.check_decided_on_telegram(&id, &digest, &sent);
    scene.kernel.interrupt().success();
}

#[test]
fn build_is_approved_in_console() {
    if python_is_missing() {
        return;
    }
    let scene = ApprovalScene::with_changed_extension();
    let sent = scene.request_build();
    let (id, _) = open_question(&scene.home);
    let client = ConsoleClient::log_in(&scene.home);
    let listed = format!("{}  server.py", sha256_prefix(&changed_server("green")));
    let parts =
        ["build_extension", "changed since the approval of", &listed, "for line in sys.stdin:"];
    let digest = read_page(&client, &id, &parts);
    decide_in_console(&client, &id, &digest, "approve").expect(303);
    let result = scene.call_result();
    assert!(result.contains("`tea` 0.1.0 was built and installed"), "{result}");
    assert!(is_approved(&scene.home));
    scene.check_decided_in_console(&client, &id, &digest, &sent);
    scene.kernel.interrupt().success();
}

#[test]
fn changed_files_are_built_nowhere() {
    if python_is_missing() {
        return;
    }
    for surface in ["telegram", "console"] {
        let scene = ApprovalScene::with_changed_extension();
        let sent = scene.request_build();
        let (id, digest) = open_question(&scene.home);
        scene.home.write(SERVER_PATH, changed_server("white"));
        match surface {
            "telegram" => {
                assert_eq!(sent.decide(&scene.api, OWNER, "Approve"), "Decided: approve.");
            }
            _ => {
                let client = ConsoleClient::log_in(&scene.home);
                decide_in_console(&client, &id, &digest, "approve").expect(303);
            }
        }
        let result = scene.call_result();
        assert!(result.contains("files of `tea` have changed since they were shown"), "{result}");
        assert!(!is_approved(&scene.home));
        scene.kernel.interrupt().success();
    }
}

#[test]
fn long_build_names_command_instead() {
    let scene = ApprovalScene::start(|home| {
        home.write("sandbox/extensions/tea/manifest.yaml", TEA);
        home.write(
            SERVER_PATH,
            format!("{SERVER}{}", "# A comment of a long program.\n".repeat(700)),
        );
    });
    let sent = {
        scene.request_call("build_extension", &json!({ "id": "tea" }));
        wait_for_question(&scene.api, OWNER, "cannot be shown completely here")
    };
    let (id, digest) = open_question(&scene.home);
    assert_eq!(sent.labels(), ["Refuse"]);
    assert!(sent.text.contains(&format!("skillhost inbox show {id}")), "{}", sent.text);
    // The console shows it completely.
    let client = ConsoleClient::log_in(&scene.home);
    assert_eq!(read_page(&client, &id, &["# A comment of a long program."]), digest);
    assert_eq!(sent.decide(&scene.api, OWNER, "Refuse"), "Decided: refuse.");
    let result = scene.call_result();
    assert!(result.contains("was not approved"), "{result}");
    scene.kernel.interrupt().success();
}

#[test]
fn restart_is_approved_on_telegram() {
    let scene = ApprovalScene::start(|_| {});
    let sent = scene.request_restart();
    let (id, digest) = open_question(&scene.home);
    assert_shown(
        &sent,
        &["arguments.reason: There are new tools.", "agent: helper", &digest[..12]],
    );
    assert_eq!(sent.decide(&scene.api, OWNER, "Approve"), "Decided: approve.");
    scene.kernel.line_with("kernel.restarted");
    // The next kernel goes on in the thread, and answers in the chat.
    wait_for_text(&scene.api, OWNER, "That is all.");
    scene.check_decided_on_telegram(&id, &digest, &sent);
    scene.kernel.interrupt().success();
}

#[test]
fn restart_is_approved_in_console() {
    let scene = ApprovalScene::start(|_| {});
    let sent = scene.request_restart();
    let (id, _) = open_question(&scene.home);
    let client = ConsoleClient::log_in(&scene.home);
    let digest = read_page(&client, &id, &["request_restart", "There are new tools."]);
    decide_in_console(&client, &id, &digest, "approve").expect(303);
    scene.kernel.line_with("kernel.restarted");
    wait_for_text(&scene.api, OWNER, "That is all.");
    // The next kernel has no sessions of the one before.
    let client = ConsoleClient::log_in(&scene.home);
    scene.check_decided_in_console(&client, &id, &digest, &sent);
    scene.kernel.interrupt().success();
}

#[test]
fn restart_for_group_is_decided_alone() {
    let scene = ApprovalScene::start(|_| {});
    pair_people(&scene.home, &scene.api, ChannelRole::Guest, [GUEST]);
    scene.mock.push(Step::calls("request_restart", r#"{"reason":"The group wants it."}"#));
    scene.mock.push(Step::text("That is all."));
    scene.api.push_update(&json!({"message": {
        "message_id": 7, "date": 1_700_000_000, "chat": {"id": GROUP, "type": "supergroup"},
        "from": {"id": OWNER, "is_bot": false, "first_name": "Person"},
        "text": "@helper_bot restart",
        "entities": [{"type": "mention", "offset": 0, "length": 11}],
    }}));
    let sent = wait_for_question(&scene.api, OWNER, "The group wants it.");
    assert_eq!(sent.decide(&scene.api, GUEST, "Approve"), "This question is not yours.");
    let (id, _) = open_question(&scene.home);
    assert_eq!(sent.decide(&scene.api, OWNER, "Refuse"), "Decided: refuse.");
    wait_for_text(&scene.api, GROUP, "That is all.");
    // Nothing of the question was sent to the group.
    let group = scene.api.calls("sendMessage").into_iter().filter(|it| it.body["chat_id"] == GROUP);
    assert!(group.clone().all(|it| !it.body["text"].as_str().unwrap().contains(&id)));
    scene.kernel.interrupt().success();
}

#[test]
fn new_agent_is_not_approved_on_telegram() {
    let scene = ApprovalScene::start(|_| {});
    let agent = json!({
        "id": "other", "name": "Other", "description": "Helps.", "instructions": "Help.",
    });
    scene.request_call("create_agent", &agent);
    let sent = wait_for_text(&scene.api, OWNER, "Only the operator decides about this");
    assert_eq!(sent.body["reply_markup"], Value::Null);
    let (id, digest) = open_question(&scene.home);
    let client = ConsoleClient::log_in(&scene.home);
    decide_in_console(&client, &id, &digest, "refuse").expect(303);
    let _ = scene.mock.wait_for(2);
    scene.kernel.interrupt().success();
}
