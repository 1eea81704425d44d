//! The pages of the web console, without JavaScript.

use mock_model::{MockModel, Step, Wire};
use serde_json::Value;
use test_support::{TestHome, poll_until};

use crate::agents_scene::{agents_home, ask_agent, last_thread};
use crate::console_client::{ConsoleClient, ConsoleReply, EventLines, value_after};
use crate::fixtures::{shipped_manifest, start_kernel};
use crate::proposals::{BEADS, beads_text, beads_with, propose_text};

const WRITE: &str = r#"{"path": "notes.txt", "content": "kept"}"#;

/// The pages of the navigation.
pub(crate) const PAGES: [&str; 11] = [
    "/",
    "/inbox",
    "/threads",
    "/tasks",
    "/skills",
    "/proposals",
    "/events",
    "/schedules",
    "/extensions",
    "/channels",
    "/settings",
];

/// A text with markup, quotes, a right-to-left override and a template.
pub(crate) const HOSTILE: &str =
    "<img src=x onerror=alert(1)>\"'`--><script>alert(2)</script>\u{202e}${7*7}";

fn beads_home() -> TestHome {
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .skill("beads", BEADS)
        .trusted()
}

/// A home whose kernel asks clients for a moment only, then parks the run.
fn impatient_home(mock: &MockModel) -> TestHome {
    let settings = format!("{}tasks: {{live_ms: 300}}\n", mock.settings(Wire::Openai));
    agents_home(mock).settings(&settings)
}

/// Returns the only open question.
fn open_question(home: &TestHome) -> Value {
    let listed = home.skillhost(["inbox", "list", "--json"]).success().json();
    let [question] = listed["questions"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    question.clone()
}

/// Starts a thread with a form; returns its path.
fn start_thread(client: &ConsoleClient, agent: &str, text: &str) -> String {
    let form = client.get("/threads").expect(200).body;
    let id = value_after(&form, "name=\"message_id\" value=\"");
    let fields = [("agent", agent), ("message_id", &*id), ("text", text)];
    client.post("/threads", &fields).expect(303).header("location").unwrap().to_owned()
}

/// Reads a page until it has a text; the kernel writes it in the background.
#[track_caller]
pub(crate) fn wait_for_text(client: &ConsoleClient, path: &str, text: &str) -> String {
    poll_until(text, || {
        let page = client.get(path).expect(200).body;
        if page.contains(text) { Ok(page) } else { Err(page) }
    })
}

fn decide(client: &ConsoleClient, question: &Value, choice: &str) -> ConsoleReply {
    let id = question["id"].as_str().unwrap();
    let digest = question["digest"].as_str().unwrap();
    client.post(&format!("/inbox/{id}"), &[("digest", digest), ("choice", choice)])
}

#[test]
fn every_page_is_drawn() {
    let mock = MockModel::new();
    let home = agents_home(&mock);
    let _kernel = start_kernel(&home);
    let client = ConsoleClient::log_in(&home);
    for path in PAGES {
        let page = client.get(path).expect(200).body;
        assert!(page.contains("<h1>") && page.contains("aria-current=\"page\""), "{path}: {page}");
        assert!(!page.contains("http://") || path == "/settings", "{path}: {page}");
    }
    for path in ["/inbox/none", "/tasks/none", "/threads/none", "/skills/none", "/nowhere"] {
        client.get(path).expect(404);
    }
}

#[test]
fn message_is_answered_without_script() {
    let mock = MockModel::with([
        Step::text("I *look*. ").call("echo", r#"{"text":"x"}"#),
        Step::text("Done.\n\n- one\n"),
        Step::text("Again."),
    ]);
    let home = agents_home(&mock);
    let _kernel = start_kernel(&home);
    let client = ConsoleClient::log_in(&home);
    let path = start_thread(&client, "worker", "Hello <b>you</b>");
    let page = wait_for_text(&client, &path, "<li>one</li>");
    assert!(page.contains("I <em>look</em>.") && page.contains("Hello &lt;b&gt;you&lt;/b&gt;"));
    assert!(page.contains("<span class=\"tool\">echo</span>"), "{page}");
    let id = value_after(&page, "name=\"message_id\" value=\"");
    let fields = [("message_id", &*id), ("text", "More")];
    client.post(&path, &fields).expect(303);
    // A form that is sent twice is one message.
    client.post(&path, &fields).expect(303);
    wait_for_text(&client, &path, "Again.");
    assert_eq!(mock.requests().len(), 3);
    client.post(&path, &[("message_id", "x"), ("text", "  ")]).expect(400);
    client.post("/threads", &[("agent", "missing"), ("text", "Hi")]).expect(404);
}

#[test]
fn reply_is_streamed() {
    let mock = MockModel::with([
        Step::text("I look. ").call("echo", r#"{"text":"x"}"#),
        Step::text("Hello there, all of you."),
    ]);
    let home = agents_home(&mock);
    let _kernel = start_kernel(&home);
    ask_agent(&home, "worker", "Hi").success();
    let thread = last_thread(&home);
    mock.push(Step::text("Streamed <i>text</i>."));
    let client = ConsoleClient::log_in(&home);
    let mut events = client.stream(&format!("/api/threads/{thread}/events"));
    assert!(events.next_data().contains("\"idle\""));
    let path = format!("/api/threads/{thread}/messages");
    let sent = client.post_json(&path, r#"{"message_id": "m-1", "text": "And?"}"#).expect(202);
    assert_eq!(sent.body, r#"{"message_id":"m-1"}"#);
    let (mut names, mut text) = (Vec::new(), String::new());
    while names.last().is_none_or(|name| name != "RUN_FINISHED") {
        let event: Value = serde_json::from_str(&events.next_data()).unwrap();
        let name = event["type"].as_str().unwrap().to_owned();
        text.push_str(event["delta"].as_str().unwrap_or_default());
        if name != "CUSTOM" && names.last() != Some(&name) {
            names.push(name);
        }
    }
    assert_eq!(text, "Streamed <i>text</i>.");
    let expected = [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ];
    assert_eq!(names, expected);
    for body in
        ["", "{}", r#"{"message_id": "a/b", "text": "x"}"#, r#"{"message_id": "a", "text": ""}"#]
    {
        let refused = client.post_json(&path, body).expect(400);
        assert!(refused.body.contains("\"error\""), "{}", refused.body);
    }
    client.post_json("/api/threads/none/messages", r#"{"message_id":"b","text":"x"}"#).expect(404);
}

/// Reads the events of a stream until one of a type; returns the text of the reply so far.
fn read_reply(events: &mut EventLines, until: &str) -> String {
    let mut text = String::new();
    loop {
        let event: Value = serde_json::from_str(&events.next_data()).unwrap();
        match event["type"].as_str().unwrap() {
            // A stream begins with the reply from its beginning.
            "RUN_STARTED" => text.clear(),
            "TEXT_MESSAGE_CONTENT" => text.push_str(event["delta"].as_str().unwrap()),
            _ => {}
        }
        if event["type"] == until || event["name"] == until {
            return text;
        }
    }
}

#[test]
fn interrupted_stream_loses_no_text() {
    let whole = "One two three four five.";
    let mock = MockModel::with([Step::text("Hello."), Step::text(whole).held_midway()]);
    let home = agents_home(&mock);
    let _kernel = start_kernel(&home);
    ask_agent(&home, "worker", "Hi").success();
    let thread = last_thread(&home);
    let client = ConsoleClient::log_in(&home);
    let path = format!("/api/threads/{thread}/events");
    let mut events = client.stream(&path);
    let message = r#"{"message_id": "m-1", "text": "Count"}"#;
    let send = format!("/api/threads/{thread}/messages");
    client.post_json(&send, message).expect(202);
    let before = read_reply(&mut events, "TEXT_MESSAGE_CONTENT");
    assert!(!before.is_empty() && whole.starts_with(&before), "{before}");
    // The browser is offline, and sends its message again as it has read no response.
    drop(events);
    client.post_json(&send, message).expect(202);
    let mut again = client.stream(&path);
    let resumed = read_reply(&mut again, "TEXT_MESSAGE_CONTENT");
    assert!(resumed.starts_with(&before), "{before} {resumed}");
    mock.release();
    let rest = read_reply(&mut again, "RUN_FINISHED");
    assert_eq!(resumed + &rest, whole);
    // Offline until the reply has ended: the page has it, and the stream says that nothing runs.
    drop(again);
    assert_eq!(read_reply(&mut client.stream(&path), "idle"), "");
    wait_for_text(&client, &format!("/threads/{thread}"), whole);
    assert_eq!(mock.requests().len(), 2);
}

#[test]
fn parked_call_is_approved_once() {
    let mock = MockModel::with([Step::calls("write_file", WRITE), Step::text("Written.")]);
    let home = impatient_home(&mock);
    let kernel = start_kernel(&home);
    let client = ConsoleClient::log_in(&home);
    let thread = start_thread(&client, "worker", "Write it");
    wait_for_text(&client, &thread, "class=\"question\"");
    let question = open_question(&home);
    let id = question["id"].as_str().unwrap();
    let page = client.get(&format!("/inbox/{id}")).expect(200).body;
    for part in ["write_file", "notes.txt", "kept", question["digest"].as_str().unwrap(), "Approve"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(client.get("/inbox").body.contains(id));
    // Other bytes than those on the page are not approved.
    let mut other = question.clone();
    other["digest"] = "0".repeat(64).into();
    let refused = decide(&client, &other, "approve").expect(409);
    assert!(refused.body.contains("Your decision does not count"), "{}", refused.body);
    client.post(&format!("/inbox/{id}"), &[("digest", "")]).expect(400);
    decide(&client, &question, "approve").expect(303);
    wait_for_text(&client, &thread, "Written.");
    let late = decide(&client, &question, "refuse").expect(409);
    assert!(
        late.body.contains("decided as <strong>approve</strong> by operator on console"),
        "{}",
        late.body
    );
    let late = home.skillhost(["inbox", "refuse", id]).exits(4);
    assert!(late.stderr.contains("decided as `approve` by operator on console"), "{late}");
    kernel.interrupt().success();
}

#[test]
fn console_and_terminal_decide_once() {
    let mock = MockModel::new();
    for _ in 0..5 {
        mock.push(Step::calls("write_file", WRITE));
        mock.push(Step::text("Written."));
    }
    let home = impatient_home(&mock);
    let _kernel = start_kernel(&home);
    let client = ConsoleClient::log_in(&home);
    for _ in 0..5 {
        let thread = start_thread(&client, "worker", "Write it");
        wait_for_text(&client, &thread, "class=\"question\"");
        let question = open_question(&home);
        let (id, digest) = (question["id"].as_str().unwrap(), question["digest"].as_str().unwrap());
        let (web, terminal) = std::thread::scope(|scope| {
            let web = scope.spawn(|| decide(&client, &question, "approve").status);
            let terminal =
                scope.spawn(|| home.skillhost(["inbox", "approve", id, "--digest", digest]).status);
            (web.join().unwrap(), terminal.join().unwrap())
        });
        assert!(matches!((web, terminal), (303, 4) | (409, 0)), "{web} {terminal}");
        wait_for_text(&client, &thread, "Written.");
    }
}

#[test]
fn proposal_is_shown_and_approved() {
    let home = beads_home();
    let _kernel = start_kernel(&home);
    propose_text(&home, &beads_with("THREE <b>"), HOSTILE);
    let client = ConsoleClient::log_in(&home);
    assert!(client.get("/proposals").expect(200).body.contains("change SKILL.md of"));
    let question = open_question(&home);
    let id = question["id"].as_str().unwrap();
    let page = client.get(&format!("/inbox/{id}")).expect(200).body;
    for part in ["<del>three</del>", "<ins>THREE &lt;b&gt;</ins>", "&lt;script&gt;", "U+202E"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("<img") && !page.contains('\u{202e}'), "{page}");
    decide(&client, &question, "approve").expect(303);
    assert_eq!(beads_text(&home), beads_with("THREE <b>"));
    let page = client.get(&format!("/inbox/{id}")).body;
    assert!(page.contains("by operator on console"), "{page}");
    let log = home.skillhost(["skill", "audit-log", "--json"]).success().stdout;
    assert!(log.contains("\"console\""), "{log}");
}

#[test]
fn stale_proposal_is_not_approved() {
    let home = beads_home();
    let _kernel = start_kernel(&home);
    propose_text(&home, &beads_with("THREE"), "Louder.");
    let client = ConsoleClient::log_in(&home);
    client.get("/inbox").expect(200);
    let shown = open_question(&home);
    // The file changes while the page is open.
    let edited = BEADS.replace("three", "drei");
    home.write("sandbox/skills/beads/SKILL.md", &edited);
    let mut reply = decide(&client, &shown, "approve");
    // The registry polls the directory; until then the ledger itself refuses.
    assert!(matches!(reply.status, 409), "{}", reply.body);
    assert_eq!(beads_text(&home), edited);
    reply = client.get("/inbox");
    assert_eq!(reply.status, 200);
}

#[test]
fn saved_edit_is_a_proposal() {
    let home = beads_home();
    let _kernel = start_kernel(&home);
    let client = ConsoleClient::log_in(&home);
    let page = client.get("/skills/beads").expect(200).body;
    assert!(page.contains("Tracks work.") && page.contains("/skills/beads/edit"), "{page}");
    assert!(client.get("/skills?q=work").expect(200).body.contains("/skills/beads"));
    let editor = client.get("/skills/beads/edit?file=SKILL.md").expect(200).body;
    assert!(editor.contains("Save as a proposal") && editor.contains("three\n"), "{editor}");
    // A browser sends other line breaks than the file has.
    let text = beads_with("THREE").replace('\n', "\r\n");
    let fields = [("file", "SKILL.md"), ("content", &*text), ("justification", "Louder.")];
    client.post("/skills/beads/edit", &fields).expect(303);
    assert_eq!(beads_text(&home), BEADS);
    let question = open_question(&home);
    decide(&client, &question, "approve").expect(303);
    assert_eq!(beads_text(&home), beads_with("THREE"));
    let same = beads_with("THREE").replace('\n', "\r\n");
    let fields = [("file", "SKILL.md"), ("content", &*same), ("justification", "Again.")];
    client.post("/skills/beads/edit", &fields).expect(400);
    let outside = client.get("/skills/beads/edit?file=..%2f..%2fskillhost.yaml").status;
    assert!(matches!(outside, 400 | 403), "{outside}");
}

#[test]
fn earlier_version_is_proposed() {
    let home = beads_home();
    let _kernel = start_kernel(&home);
    propose_text(&home, &beads_with("THREE"), HOSTILE);
    let client = ConsoleClient::log_in(&home);
    client.get("/inbox").expect(200);
    decide(&client, &open_question(&home), "approve").expect(303);
    home.write("sandbox/skills/beads/SKILL.md", beads_with("drei <b>"));
    let page = wait_for_text(&client, "/skills/beads", "/skills/beads/versions/1\"");
    assert!(page.contains("an edit of the files") && page.contains("current"), "{page}");
    assert_own_elements(&page);
    let compared = client.get("/skills/beads/versions/1").expect(200).body;
    assert!(compared.contains("drei &lt;b&gt;") && compared.contains("<ins>three</ins>"));
    assert_own_elements(&compared);
    client.post("/skills/beads/versions/1/restore", &[("file", "none")]).expect(404);
    client.post("/skills/beads/versions/1/restore", &[("file", "SKILL.md")]).expect(303);
    assert_eq!(beads_text(&home), beads_with("drei <b>"));
    let question = open_question(&home);
    decide(&client, &question, "approve").expect(303);
    assert_eq!(beads_text(&home), BEADS);
    let same = client.get("/skills/beads/versions/1").expect(200).body;
    assert!(same.contains("The current files equal this version"), "{same}");
    for path in ["/skills/beads/versions/99", "/skills/beads/versions/x", "/skills/no/versions/1"] {
        client.get(path).expect(404);
    }
}

#[test]
fn tasks_are_listed_and_retried() {
    let mock = MockModel::with([Step::key_refused(), Step::text("Reviewed.")]);
    let home = agents_home(&mock);
    let _kernel = start_kernel(&home);
    let args = ["task", "submit", "worker", "Review <i>it</i>", "--wait", "--json"];
    home.skillhost(args).exits(1);
    let client = ConsoleClient::log_in(&home);
    let page = client.get("/tasks?state=failed&kind=agent").expect(200).body;
    assert!(page.contains("Review &lt;i&gt;it&lt;/i&gt;"), "{page}");
    assert!(client.get("/tasks?state=running").body.contains("There are no such tasks"));
    let path = format!("/tasks/{}", value_after(&page, "href=\"/tasks/"));
    let shown = client.get(&path).expect(200).body;
    assert!(shown.contains("Retry from where it stopped") && shown.contains("Attempts"), "{shown}");
    let retried = client.post(&format!("{path}/retry"), &[]).expect(303);
    let next = retried.header("location").unwrap().to_owned();
    assert_ne!(next, path);
    // The reply is in the log of the task before its end.
    let ended = wait_for_text(&client, &next, "completed");
    assert!(ended.contains("Reviewed."), "{ended}");
    client.post(&format!("{next}/cancel"), &[]).expect(303);
    assert!(client.get(&next).body.contains("completed"));
}

#[test]
fn hostile_texts_are_escaped() {
    let mock = MockModel::new();
    let home = agents_home(&mock);
    let _kernel = start_kernel(&home);
    let client = ConsoleClient::log_in(&home);
    let texts = crate::console_client::hostile_texts();
    assert_eq!(texts.len(), 500);
    // Ten messages of fifty texts each: as the user's, the model's, a tool's and a title.
    for group in texts.chunks(50) {
        let text = group.join("\n\n");
        let call = serde_json::json!({ "text": text }).to_string();
        mock.push(Step::text(&text).call("echo", &call));
        mock.push(Step::text(&text));
        let thread = start_thread(&client, "worker", &text);
        wait_for_text(&client, &thread, "class=\"badge is-good\"");
        let page = wait_for_text(&client, &thread, "class=\"message assistant\"");
        assert_own_elements(&page);
    }
    for path in PAGES {
        assert_own_elements(&client.get(path).expect(200).body);
    }
    for text in &texts {
        let query = crate::console_client::encode_form(&[("q", text), ("topic", text)]);
        assert_own_elements(&client.get(&format!("/events?{query}")).expect(200).body);
    }
}

/// Checks that a page has no element, attribute or hidden character of a text.
#[track_caller]
pub(crate) fn assert_own_elements(page: &str) {
    let elements = [
        "a",
        "article",
        "body",
        "br",
        "button",
        "code",
        "col",
        "colgroup",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "em",
        "fieldset",
        "figcaption",
        "figure",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "head",
        "header",
        "hr",
        "html",
        "input",
        "label",
        "legend",
        "li",
        "line",
        "link",
        "main",
        "meta",
        "nav",
        "ol",
        "option",
        "p",
        "pre",
        "rect",
        "s",
        "script",
        "section",
        "select",
        "span",
        "strong",
        "summary",
        "svg",
        "table",
        "tbody",
        "td",
        "textarea",
        "th",
        "thead",
        "time",
        "title",
        "tr",
        "ul",
        "blockquote",
        "ins",
        "del",
        "!DOCTYPE",
    ];
    for tag in page.split('<').skip(1) {
        let name = tag.trim_start_matches('/').split([' ', '>']).next().unwrap();
        assert!(elements.contains(&name), "<{name} in {page}");
        let inside = tag.split('>').next().unwrap();
        // The names of the attributes: what is outside of quotes.
        let names: String = inside.split('"').step_by(2).collect();
        for name in ["on", "style=", "srcdoc=", "formaction="] {
            assert!(!names.contains(&format!(" {name}")), "<{inside}>");
        }
        assert!(
            !inside.contains("href=\"javascript:") && !inside.contains("href=\"data:"),
            "<{inside}>"
        );
    }
    assert_eq!(page.matches("<script").count(), 1, "{page}");
    assert!(!page.contains('\u{202e}') && !page.contains('\u{200b}'), "hidden character");
}
