//! Tests of failing models, tools and journals, and of the thread that each failure leaves.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use mock_model::{MockModel, Step, Wire};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use test_support::TestHome;

use crate::agents_scene::{
    ToolBarrier, agents_home, ask_agent, ask_in_thread, format_messages, last_thread,
    misbehaving_home,
};

#[test]
fn model_corrects_invalid_arguments() {
    let mock = MockModel::with([
        Step::calls("echo", r#"{"text": "#),
        Step::calls("echo", r#"{"texts": "hi"}"#),
        Step::calls("ecko", r#"{"text": "hi"}"#),
        Step::calls("echo", r#"{"text": "hi"}"#),
        Step::text("It says hi."),
    ]);
    let home = agents_home(&mock);
    let output = ask_agent(&home, "worker", "Say hi").success();
    assert_eq!(output.stdout, "It says hi.\n");
    let results: Vec<_> = mock.requests().iter().map(mock_model::MockRequest::last_text).collect();
    assert!(results[1].contains("JSON"), "{}", results[1]);
    assert!(results[2].contains("texts") && results[2].contains("text"), "{}", results[2]);
    assert!(results[3].contains("ecko") && results[3].contains("echo"), "{}", results[3]);
    assert_eq!(results[4], "hi");
    assert_eq!(output.stderr.matches("failed").count(), 3, "{output}");
}

#[test]
fn tool_panic_is_reported_to_model() {
    let mock = MockModel::with([
        Step::calls("bad", r#"{"do": "act", "act": "panic"}"#),
        Step::calls("bad", r#"{"do": "build"}"#),
        Step::text("It panicked once."),
    ]);
    let home = misbehaving_home(&mock);
    let output = ask_agent(&home, "careless", "Try it").success();
    assert_eq!(output.stdout, "It panicked once.\n");
    let requests = mock.requests();
    assert!(requests[1].last_text().contains("panicked"), "{}", requests[1].last_text());
    assert!(requests[2].last_text().contains("misbehave"), "{}", requests[2].last_text());
}

/// Starts a tool call that does not return.
fn start_hanging_call() -> (MockModel, TestHome, ToolBarrier) {
    let mock =
        MockModel::with([Step::text("I try it.\n").call("bad", r#"{"do":"act","act":"hang"}"#)]);
    let home = misbehaving_home(&mock);
    let barrier = ToolBarrier::bind(&home);
    (mock, home, barrier)
}

/// Requires that the thread continues and that the model sees the interrupted tool call.
fn assert_thread_resumes(mock: &MockModel, home: &TestHome) {
    mock.push(Step::text("Then I leave it."));
    let thread = last_thread(home);
    let output = ask_in_thread(home, &thread, "What happened?").success();
    assert_eq!(output.stdout, "Then I leave it.\n");
    let request = mock.requests().pop().unwrap();
    assert_eq!(
        format_messages(&request),
        "user: Try it\nassistant: I try it.\n → bad {\"do\":\"act\",\"act\":\"hang\"}\n\
         tool: the run was cut off before this call was answered; it may have happened\n\
         user: What happened?\n"
    );
}

#[test]
fn ctrl_c_cancels_hanging_tool_call() {
    let (mock, home, barrier) = start_hanging_call();
    let run = home.spawn(["ask", "--agent", "careless", "Try it"]);
    let blocked = barrier.wait_for_call();
    let output = run.interrupt().exits(130);
    drop(blocked);
    assert_eq!(output.stdout, "I try it.\n");
    assert!(output.stderr.contains("error: run was cancelled\n"), "{output}");
    assert_thread_resumes(&mock, &home);
}

#[test]
fn thread_resumes_after_kill() {
    let (mock, home, barrier) = start_hanging_call();
    let mut command = home.command();
    command.args(["ask", "--agent", "careless", "Try it"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = command.spawn().unwrap();
    let blocked = barrier.wait_for_call();
    kill_process(Pid::from_child(&run), Signal::KILL).unwrap();
    assert_eq!(run.wait().unwrap().signal(), Some(9));
    drop(blocked);
    // A reader sees the stored messages before the thread is resumed.
    let stored =
        home.skillhost(["threads", "show", &last_thread(&home), "--json"]).success().json();
    assert_eq!(stored["conversation"].as_array().unwrap().len(), 2);
    assert_thread_resumes(&mock, &home);
}

#[test]
fn ctrl_c_keeps_user_message() {
    // The model has sent text, but its reply is not complete.
    let mock = MockModel::with([Step::text("It begins.\n").held_midway()]);
    let home = agents_home(&mock);
    let run = home.spawn(["ask", "--agent", "worker", "Tell me"]);
    run.line_with("It begins.");
    let output = run.interrupt().exits(130);
    assert_eq!(output.stdout, "It begins.\n");
    mock.push(Step::text("Again."));
    let output = ask_in_thread(&home, &last_thread(&home), "Once more").success();
    assert_eq!(output.stdout, "Again.\n");
    assert_eq!(format_messages(&mock.requests()[1]), "user: Tell me\nuser: Once more\n");
}

#[test]
fn truncated_stream_is_discarded() {
    let mock = MockModel::with([
        Step::text("What is lost").with_stream_error("server_error", "overloaded"),
        Step::text("What counts."),
    ]);
    let home = agents_home(&mock);
    let output = ask_agent(&home, "worker", "Tell me").success();
    assert_eq!(output.stdout, "What is lost\nWhat counts.\n");
    assert!(output.stderr.contains("the reply above is void and starts over"), "{output}");
    // Only the complete reply is stored.
    mock.push(Step::text("Yes."));
    ask_in_thread(&home, &last_thread(&home), "Sure?").success();
    assert_eq!(
        format_messages(&mock.requests()[2]),
        "user: Tell me\nassistant: What counts.\nuser: Sure?\n"
    );
}

#[test]
fn busy_thread_is_rejected() {
    let mock = MockModel::with([Step::text("One.\n").held_midway(), Step::text("Two.")]);
    let home = agents_home(&mock);
    let first = home.spawn(["ask", "--agent", "worker", "Count"]);
    assert_eq!(mock.wait_for(1).len(), 1);
    let thread = last_thread(&home);
    let output = ask_in_thread(&home, &thread, "Faster").exits(4);
    assert_eq!(output.stdout, "");
    assert_eq!(
        output.stderr.lines().filter(|line| !line.starts_with("note: ")).collect::<Vec<_>>(),
        [
            format!("error: thread `{thread}` is in use by another process"),
            "hint: end the other chat, or start a new thread without --thread".to_owned(),
        ]
    );
    mock.release();
    assert_eq!(first.finish().success().stdout, "One.\n");
    assert_eq!(ask_in_thread(&home, &thread, "Faster").success().stdout, "Two.\n");
}

#[test]
fn model_error_has_hint() {
    let mock = MockModel::new();
    let home = agents_home(&mock);
    let keyed = format!(
        "models:\n  default: mock/test-model\n  providers:\n    mock: {{wire: openai, base_url: \
         \"{}\", key: MOCK_KEY, retries: 0}}\n",
        mock.base_url(Wire::Openai)
    );
    home.write("skillhost.yaml", &keyed);
    let output = ask_agent(&home, "worker", "Hi").exits(5);
    assert!(output.stderr.contains("MOCK_KEY"), "{output}");
    assert_eq!(mock.requests().len(), 0);

    // The error must not contain the rejected key.
    home.write(".env", "MOCK_KEY=s3cret-key\n");
    mock.push(Step::key_refused());
    let output = ask_agent(&home, "worker", "Hi").exits(5);
    assert_eq!(mock.requests()[0].key(), Some("s3cret-key"));
    assert!(!output.to_string().contains("s3cret-key"), "{output}");
    assert!(output.stderr.contains("hint: "), "{output}");

    mock.push(Step::unknown_model());
    ask_agent(&home, "worker", "Hi").exits(3);
    for model in ["nobody/model", "/no-provider"] {
        let output = home.skillhost(["ask", "--model", model, "Hi"]).exits(3);
        assert!(output.stderr.contains(model), "{output}");
    }
    mock.push(Step::status(500, "out of order"));
    let output = home.skillhost(["ask", "Hi", "--json"]).exits(1);
    assert_eq!(output.stdout, "");
    let error = output.stderr.lines().last().unwrap();
    let error: serde_json::Value = serde_json::from_str(error).unwrap();
    assert_eq!(error["schema_version"], 1);
    assert_eq!(error["error"]["kind"], "unavailable", "{error}");
    assert_eq!(mock.requests().len(), 3);
}

#[test]
fn empty_reply_is_retried_once() {
    let mock = MockModel::with([
        Step::empty(),
        Step::text("Sorry. Here I am."),
        Step::only_reasoning("Hm."),
        Step::only_reasoning("Hm, hm."),
    ]);
    let home = agents_home(&mock);
    assert_eq!(ask_agent(&home, "worker", "Hi").success().stdout, "Sorry. Here I am.\n");
    let output = ask_agent(&home, "worker", "Hi").exits(1);
    assert!(output.stderr.contains("returned an empty reply"), "{output}");
    assert_eq!(mock.requests().len(), 4);
}

#[test]
fn reply_is_printed_once() {
    let mock = MockModel::with([Step::text("Cut sh").cut_short()]);
    let home = agents_home(&mock);
    let output = ask_agent(&home, "worker", "Hi").success();
    assert_eq!(output.stdout, "Cut sh\n");
    assert!(output.stderr.contains("was truncated at the output limit"), "{output}");

    mock.push(Step::text("I say it.").call("echo", r#"{"text":"x"}"#));
    mock.push(Step::text("In one piece."));
    let contents = format!(
        "models:\n  default: mock/test-model\n  providers:\n    mock: {{wire: openai, base_url: \
         \"{}\", stream: false}}\n",
        mock.base_url(Wire::Openai)
    );
    home.write("skillhost.yaml", &contents);
    assert_eq!(ask_agent(&home, "worker", "Hi").success().stdout, "I say it.\nIn one piece.\n");
    assert!(!mock.requests()[2].stream);
}

#[test]
fn repeated_tool_call_stops_run() {
    let mock = MockModel::new();
    mock.answer_with(|_| Some(Step::calls("echo", r#"{"text":"again"}"#)));
    let home = agents_home(&mock);
    let output = ask_agent(&home, "worker", "Go").exits(1);
    assert!(output.stderr.contains("model repeats the same call: echo"), "{output}");
    assert_eq!(mock.requests().len(), 5);
}

#[test]
fn unknown_agent_or_thread_gets_hint() {
    let mock = MockModel::new();
    let home = agents_home(&mock);
    let error = |args: &[&str], code| {
        let output = home.skillhost(args).exits(code);
        assert_eq!(output.stdout, "");
        let lines = output.stderr.lines().filter(|line| !line.starts_with("note: "));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        error(&["ask", "--agent", "workr", "Hi"], 3),
        "error: agent `workr` not found\nhint: did you mean worker?\nhint: see: skillhost agent list"
    );
    assert_eq!(
        error(&["ask", "--thread", "0", "Hi"], 3),
        "error: thread `0` not found\nhint: see: skillhost thread list"
    );
    assert_eq!(
        error(&["threads", "show", "../x"], 2),
        "error: `../x` is not a valid thread id\n\
         hint: use 1 to 64 lower-case letters, digits and hyphens\n\
         hint: see: skillhost thread list"
    );
    mock.push(Step::text("Hi."));
    ask_agent(&home, "worker", "Hi").success();
    let thread = last_thread(&home);
    assert_eq!(
        error(&["ask", "--thread", &thread, "--agent", "orchestrator_agent", "Hi"], 2),
        format!(
            "error: thread `{thread}` is with `worker`, not with `orchestrator_agent`\n\
             hint: leave --agent out, or begin a thread with that agent by leaving --thread out"
        )
    );
    assert_eq!(mock.requests().len(), 1);
}

#[test]
fn damaged_thread_is_reported() {
    let mock = MockModel::with([Step::text("One."), Step::text("Two.")]);
    let home = agents_home(&mock);
    ask_agent(&home, "worker", "Count").success();
    let thread = last_thread(&home);
    let path = format!("sandbox/data/kernel/threads/{thread}.jsonl");
    let contents = std::fs::read(home.path(&path)).unwrap();
    home.write(&path, &contents[..contents.len() - 3]);
    let output = ask_in_thread(&home, &thread, "Go on").success();
    let note = format!("thread {thread}: last entry was incomplete and has been dropped");
    assert!(output.stderr.contains(&note), "{output}");
    assert_eq!(format_messages(&mock.requests()[1]), "user: Count\nuser: Go on\n");

    let broken = String::from_utf8(contents).unwrap().replacen("\"entry\"", "\"exit\"", 1);
    home.write(&path, &broken);
    let output = ask_in_thread(&home, &thread, "Go on").exits(5);
    assert!(output.stderr.contains(&format!("[HOME]/{path}:2: ")), "{output}");
    let listed = home.skillhost(["threads", "list", "--json"]).success().json();
    assert!(listed["threads"][0]["problem"].is_string(), "{listed}");
    assert_eq!(std::fs::read_to_string(home.path(&path)).unwrap(), broken);
}

#[test]
fn json_reply_is_one_object() {
    let mock = MockModel::with([Step::calls("echo", r#"{"text":"x"}"#), Step::text("Done.")]);
    let home = agents_home(&mock);
    let price = "  known: {mock/test-model: {price: {input: 100000, output: 200000}}}\n";
    home.write("skillhost.yaml", mock.settings(Wire::Openai) + price);
    let output = home.skillhost(["ask", "--agent", "worker", "--json", "Hi"]).success();
    let mut json = output.json();
    assert!(json["run_id"].take().is_string());
    assert_eq!(json["thread"].take(), json!(last_thread(&home)));
    assert_eq!(
        json,
        json!({
            "schema_version": 1, "run_id": null, "thread": null, "agent": "worker",
            "model": "mock/test-model", "text": "Done.", "turns": 2,
            "usage": {"input": 20, "output": 10, "cached": 0, "estimated": false},
            "cost": 4.0, "skills": [], "notes": [],
        })
    );
    assert_eq!(output.stderr, "");
}
