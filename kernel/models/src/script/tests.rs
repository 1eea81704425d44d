use serde_json::json;
use skillhost_conversation::{ModelTool, TokenUsage};

use super::*;

fn user(text: &str) -> Message {
    Message::User { text: text.to_owned() }
}

fn request(messages: Vec<Message>, tools: &[&str]) -> ModelRequest {
    let tool = |name: &&str| ModelTool {
        name: (*name).to_owned(),
        description: String::new(),
        input_schema: json!({}),
    };
    ModelRequest { messages, tools: tools.iter().map(tool).collect(), ..ModelRequest::default() }
}

fn model(text: &str) -> ScriptModel {
    let script = ModelScript::parse(Path::new("s.yaml"), text).unwrap();
    let metadata = ModelMetadata { name: "script/s".to_owned(), context_window: None, price: None };
    ScriptModel::new(script, metadata, Arc::default())
}

async fn reply(model: &ScriptModel, request: &ModelRequest) -> (String, Vec<(String, String)>) {
    let reply = model.complete(request).await.unwrap();
    (reply.text, reply.calls.into_iter().map(|call| (call.name, call.arguments)).collect())
}

/// Runs a model until a reply without calls, with tool results from a table by name and arguments.
/// Returns the calls and the last text.
async fn play(model: &ScriptModel, text: &str, tools: &[(&str, &str, &str)]) -> Vec<String> {
    let names: Vec<_> = tools.iter().map(|(name, ..)| *name).collect();
    let mut messages = vec![user(text)];
    let mut lines = Vec::new();
    loop {
        let reply = model.complete(&request(messages.clone(), &names)).await.unwrap();
        let calls = reply.calls.clone();
        messages.push(Message::Assistant { text: reply.text.clone(), calls: calls.clone() });
        if calls.is_empty() {
            lines.push(reply.text);
            return lines;
        }
        for call in calls {
            lines.push(format!("{} {}", call.name, call.arguments));
            let found = tools.iter().find(|it| it.0 == call.name && call.arguments.contains(it.1));
            messages.push(Message::Tool {
                call_id: call.id,
                name: call.name,
                text: found.map_or("not found", |it| it.2).to_owned(),
                is_error: found.is_none(),
            });
        }
    }
}

#[tokio::test]
async fn first_matching_rule_replies() {
    let model = model(
        "
rules:
  - when: {user: [Hello, WORLD], turn: 0}
    say: \"{{model}} hears {{user}} with {{tools}}\"
    call: [{tool: t, arguments: {say: '{{user}}', n: 1}}, {tool: u}]
  - when: {answered: t, failed: true}
    say: failed
  - when: {answered: t, answer: fine}
    say: |-
      {{quote t 2}}
      {{line t three}}/{{all t#1}}/{{all t#9}}/{{line system house}}
  - say: else
",
    );
    let mut hello = request(vec![user("hello, world")], &["t", "u"]);
    hello.system = "rules\n of the house \n".to_owned();
    let calls = [("t", "{\"say\":\"hello, world\",\"n\":1}"), ("u", "{}")];
    let calls = calls.map(|(name, arguments)| (name.to_owned(), arguments.to_owned()));
    let (text, lines) = reply(&model, &hello).await;
    assert_eq!(text, "script/s hears hello, world with t, u");
    assert_eq!(lines, calls);

    let answer = |text: &str, is_error| Message::Tool {
        call_id: "c".to_owned(),
        name: "t".to_owned(),
        text: text.to_owned(),
        is_error,
    };
    let mut answered = hello.clone();
    answered.messages.push(Message::Assistant { text: String::new(), calls: vec![] });
    answered.messages.push(answer("one, fine\n\ntwo\n three ", false));
    let text = "> one, fine\n> two\nthree/one, fine\n\ntwo\n three //of the house";
    assert_eq!(reply(&model, &answered).await, (text.to_owned(), vec![]));
    answered.messages.push(answer("no", true));
    assert_eq!(reply(&model, &answered).await.0, "failed");
    assert_eq!(reply(&model, &request(vec![user("hello")], &[])).await.0, "else");
}

#[tokio::test]
async fn reply_streams_line_by_line() {
    let model = model("rules: [{say: \"one\\ntwo\"}]");
    let mut pieces = Vec::new();
    let request = request(vec![user("12345678")], &[]);
    let reply = model.stream(&request, &mut |piece| pieces.push(piece)).await.unwrap();
    let expected = ["one\n", "two"].map(|line| ReplyChunk::Text(line.to_owned()));
    assert_eq!(pieces, expected);
    let usage = TokenUsage { input: 2, output: 2, cached: 0, estimated: true };
    assert_eq!(reply, ModelReply { text: "one\ntwo".to_owned(), usage, ..ModelReply::default() });
}

#[tokio::test]
async fn missing_rule_is_an_error() {
    let model = model("rules: [{when: {user: hello}, say: hi}]");
    let error = model.complete(&request(vec![user("bye")], &[])).await.unwrap_err();
    assert_eq!(error.to_string(), "script/s: no rule of the script matches the request");
    assert_eq!(error.kind, ModelErrorKind::Refused);
}

#[test]
fn invalid_script_reports_position() {
    let lines = |text: &str| ModelScript::parse(Path::new("s.yaml"), text).unwrap_err().to_string();
    let cases = [
        ("rules:\n  - when: {usr: a}\n    say: b\n", "s.yaml:2:", "unknown field `usr`"),
        ("rules:\n  - when: {}\n", "s.yaml:2:", "a rule requires `say` or `call`"),
        ("rules:\n  - say: ok\n  - say: '{{time}}'\n", "s.yaml:3:", "unknown placeholder `time`"),
        ("rules:\n  - say: '{{model'\n", "s.yaml:2:", "not closed"),
        ("rules:\n  - call: {tool: t, arguments: {a: ['{{all t#0}}']}}\n", "s.yaml:2:", "from 1"),
        ("rules:\n  - say: [\n", "s.yaml:", ""),
        ("rule: []\n", "s.yaml:1:1", "unknown field `rule`"),
    ];
    for (text, place, words) in cases {
        let lines = lines(text);
        assert!(lines.starts_with(place) && lines.contains(words), "{text}: {lines}");
    }
}

#[test]
fn unreadable_script_names_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.yaml");
    assert!(
        matches!(ModelScript::load(&path), Err(ScriptError::Io { path: named, .. }) if named == path)
    );
    std::fs::write(&path, vec![b' '; (1 << 20) + 1]).unwrap();
    let error = ModelScript::load(&path).unwrap_err().to_string();
    assert_eq!(error, format!("{}: larger than 1 MiB", path.display()));
    std::fs::write(&path, "rules: [{say: x}]").unwrap();
    assert_eq!(ModelScript::load(&path).unwrap().rules.len(), 1);
}

fn bundled_model() -> ScriptModel {
    let metadata =
        ModelMetadata { name: "script/demo".to_owned(), context_window: None, price: None };
    ScriptModel::new(ModelScript::bundled(), metadata, Arc::default())
}

#[tokio::test]
async fn bundled_script_reviews_echo() {
    let ask = "Review the echo extension for best practices";
    let tools = [
        ("read_skill", "code-review", "Skill loaded: code-review"),
        ("list_directory", "\"extensions\"", "echo/"),
        ("list_directory", "extensions/echo\"", "manifest.yaml"),
        ("read_file", "manifest.yaml", "id: echo\n\nname: Echo"),
    ];
    let lines = play(&bundled_model(), ask, &tools).await;
    let calls = [
        "read_skill {\"skill_id\":\"code-review\"}",
        "list_directory {\"path\":\"extensions\"}",
        "list_directory {\"path\":\"extensions/echo\"}",
        "read_file {\"path\":\"extensions/echo/manifest.yaml\"}",
    ];
    assert_eq!(lines[..4], calls);
    assert!(lines[4].contains("\n> id: echo\n> name: Echo\n"), "{}", lines[4]);

    // Without sources the model reads the template and reports the failed call.
    let tools = [tools[0], ("list_directory", "nowhere", ""), ("read_file", "nowhere", "")];
    let lines = play(&bundled_model(), ask, &tools).await;
    assert!(lines[2].starts_with("read_file") && lines[2].contains("tool-provider"), "{lines:?}");
    assert!(lines[3].contains("> not found"), "{}", lines[3]);
}

#[tokio::test]
async fn bundled_script_builds_extension() {
    let ask = "Create an extension that monitors RSS feeds";
    let tools = [
        ("read_skill_resource", "process-python/server.py", "TOOLS = ["),
        ("write_files", "rss_monitor/server.py", "Created 2 files."),
        ("build_extension", "rss_monitor", "It was built."),
        ("request_restart", "rss_monitor is built", "The kernel restarts."),
    ];
    let lines = play(&bundled_model(), ask, &tools).await;
    let called: Vec<_> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    let expected = tools.iter().map(|(name, ..)| *name).chain(["rss_monitor"]);
    assert_eq!(called, expected.collect::<Vec<_>>(), "{lines:?}");
    // The program is written as it is: a placeholder in it would have been replaced.
    assert!(lines[1].contains("def check_feeds():") && !lines[1].contains("{{"), "{}", lines[1]);

    // Without a supervisor, and without Python.
    let lines = play(&bundled_model(), ask, &tools[..3]).await;
    assert!(lines[3].contains("in use from the next start"), "{}", lines[3]);
    let denied = [tools[0], tools[1], ("build_extension", "nowhere", ""), tools[3]];
    let lines = play(&bundled_model(), ask, &denied).await;
    assert!(lines[3].contains("`python3` must be installed"), "{}", lines[3]);
    let denied = [tools[0], ("write_files", "nowhere", ""), tools[2], tools[3]];
    let lines = play(&bundled_model(), ask, &denied).await;
    assert!(lines[2].starts_with("The files of rss_monitor were not written"), "{}", lines[2]);

    // The orchestrator delegates the task and continues after the restart.
    let tools = [("builder_agent", "monitors RSS feeds", "It is built.")];
    let lines = play(&bundled_model(), ask, &tools).await;
    assert_eq!(lines[1], "builder_agent answers:\n\n> It is built.\n");
    let notice = "<kernel_notice nonce=\"1\">\nrestarted: rss_monitor is built\n</kernel_notice>";
    let lines = play(&bundled_model(), notice, &[("feeds_check", "{}", "1 new entries")]).await;
    assert!(lines[1].contains("> 1 new entries\n"), "{}", lines[1]);
    let lines = play(&bundled_model(), notice, &[("extensions_doctor", "{}", "rejected")]).await;
    assert!(lines[1].contains("has no tool:\n\n> rejected\n"), "{}", lines[1]);
}

#[tokio::test]
async fn bundled_script_delegates() {
    let tools = [("delegate_task", "builder_agent", "It is built.")];
    let lines = play(&bundled_model(), "Ask builder_agent for a tool", &tools).await;
    let task = "{\"agent_id\":\"builder_agent\",\"task\":\"Ask builder_agent for a tool\"}";
    assert_eq!(lines[0], format!("delegate_task {task}"));
    assert_eq!(lines[1], "builder_agent answers:\n\n> It is built.\n");

    let lines = play(&bundled_model(), "Hello", &[]).await;
    assert!(lines[0].starts_with("I am script/demo, a script"), "{}", lines[0]);
    assert!(lines[0].contains("models: {default: "), "{}", lines[0]);
}

#[tokio::test]
async fn chance_follows_seed() {
    let text =
        |seed: u64| format!("seed: {seed}\nrules: [{{chance: 0.7, say: yes it is}}, {{say: no}}]");
    let play = async |seed: u64| {
        let model = model(&text(seed));
        let mut replies = Vec::new();
        for _ in 0..200 {
            replies.push(reply(&model, &request(vec![user("x")], &[])).await.0 == "yes it is");
        }
        replies
    };
    let first = play(1).await;
    assert_eq!(first, play(1).await);
    assert_ne!(first, play(2).await);
    let count = first.iter().filter(|is_first| **is_first).count();
    assert!((120..=160).contains(&count), "{count}");
}

#[test]
fn chance_outside_range_is_rejected() {
    for chance in ["1.5", "-0.1", ".nan"] {
        let text = format!("rules:\n- {{chance: {chance}, say: x}}\n");
        let error = ModelScript::parse(Path::new("s.yaml"), &text).unwrap_err();
        assert!(error.to_string().contains("`chance` is a number from 0 to 1"), "{error}");
    }
}
