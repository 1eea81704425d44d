//! What can go wrong while an agent runs, and what is left of its thread.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use mock_model::{MockModel, Step, Wire};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use test_support::TestHome;

use crate::agents_scene::{Gate, agents, ask, go_on, last_thread, said, with_misbehaving};

#[test]
fn arguments_that_make_no_sense_are_mended_by_the_model() {
    let mock = MockModel::with([
        Step::calls("echo", r#"{"text": "#),
        Step::calls("echo", r#"{"texts": "hi"}"#),
        Step::calls("ecko", r#"{"text": "hi"}"#),
        Step::calls("echo", r#"{"text": "hi"}"#),
        Step::text("It says hi."),
    ]);
    let home = agents(&mock);
    let output = ask(&home, "worker", "Say hi").success();
    assert_eq!(output.stdout, "It says hi.\n");
    let answers: Vec<_> = mock.requests().iter().map(mock_model::Asked::last_text).collect();
    assert!(answers[1].contains("JSON"), "{}", answers[1]);
    assert!(answers[2].contains("texts") && answers[2].contains("text"), "{}", answers[2]);
    assert!(answers[3].contains("ecko") && answers[3].contains("echo"), "{}", answers[3]);
    assert_eq!(answers[4], "hi");
    assert_eq!(output.stderr.matches("failed").count(), 3, "{output}");
}

#[test]
fn a_tool_that_panics_is_told_to_the_model() {
    let mock = MockModel::with([
        Step::calls("bad", r#"{"do": "act", "act": "panic"}"#),
        Step::calls("bad", r#"{"do": "build"}"#),
        Step::text("It panicked once."),
    ]);
    let home = with_misbehaving(&mock);
    let output = ask(&home, "careless", "Try it").success();
    assert_eq!(output.stdout, "It panicked once.\n");
    let asked = mock.requests();
    assert!(asked[1].last_text().contains("panicked"), "{}", asked[1].last_text());
    assert!(asked[2].last_text().contains("misbehave"), "{}", asked[2].last_text());
}

/// Begins a call that never ends.
fn hanging() -> (MockModel, TestHome, Gate) {
    let mock =
        MockModel::with([Step::text("I try it.\n").call("bad", r#"{"do":"act","act":"hang"}"#)]);
    let home = with_misbehaving(&mock);
    let gate = Gate::of(&home);
    (mock, home, gate)
}

/// The thread goes on, and the model knows what happened to its call.
fn resumes(mock: &MockModel, home: &TestHome) {
    mock.push(Step::text("Then I leave it."));
    let thread = last_thread(home);
    let output = go_on(home, &thread, "What happened?").success();
    assert_eq!(output.stdout, "Then I leave it.\n");
    let asked = mock.requests().pop().unwrap();
    assert_eq!(
        said(&asked),
        "user: Try it\nassistant: I try it.\n → bad {\"do\":\"act\",\"act\":\"hang\"}\n\
         tool: the run was cut off before this call was answered; it may have happened\n\
         user: What happened?\n"
    );
}

#[test]
fn ctrl_c_ends_a_turn_whose_tool_hangs() {
    let (mock, home, gate) = hanging();
    let run = home.spawn(["ask", "--agent", "careless", "Try it"]);
    let held = gate.reached();
    let output = run.interrupt().exits(130);
    drop(held);
    assert_eq!(output.stdout, "I try it.\n");
    assert!(output.stderr.contains("error: the run was cancelled\n"), "{output}");
    resumes(&mock, &home);
}

#[test]
fn a_killed_process_leaves_a_thread_that_goes_on() {
    let (mock, home, gate) = hanging();
    let mut command = home.command();
    command.args(["ask", "--agent", "careless", "Try it"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = command.spawn().unwrap();
    let held = gate.reached();
    kill_process(Pid::from_child(&run), Signal::KILL).unwrap();
    assert_eq!(run.wait().unwrap().signal(), Some(9));
    drop(held);
    // Whoever looks at it before it goes on sees what was said.
    let shown = home.skillhost(["threads", "show", &last_thread(&home), "--json"]).success().json();
    assert_eq!(shown["conversation"].as_array().unwrap().len(), 2);
    resumes(&mock, &home);
}

#[test]
fn ctrl_c_during_a_stream_keeps_what_was_asked() {
    // The text is there, and the reply has not ended.
    let mock = MockModel::with([Step::text("It begins.\n").held_midway()]);
    let home = agents(&mock);
    let run = home.spawn(["ask", "--agent", "worker", "Tell me"]);
    run.line_with("It begins.");
    let output = run.interrupt().exits(130);
    assert_eq!(output.stdout, "It begins.\n");
    mock.push(Step::text("Again."));
    let output = go_on(&home, &last_thread(&home), "Once more").success();
    assert_eq!(output.stdout, "Again.\n");
    assert_eq!(said(&mock.requests()[1]), "user: Tell me\nuser: Once more\n");
}

#[test]
fn half_a_stream_is_void_and_said_to_be() {
    let mock = MockModel::with([
        Step::text("What is lost").told("server_error", "overloaded"),
        Step::text("What counts."),
    ]);
    let home = agents(&mock);
    let output = ask(&home, "worker", "Tell me").success();
    assert_eq!(output.stdout, "What is lost\nWhat counts.\n");
    assert!(output.stderr.contains("the reply above is void and begins anew"), "{output}");
    // What counts is what is kept.
    mock.push(Step::text("Yes."));
    go_on(&home, &last_thread(&home), "Sure?").success();
    assert_eq!(said(&mock.requests()[2]), "user: Tell me\nassistant: What counts.\nuser: Sure?\n");
}

#[test]
fn a_thread_is_one_conversation_at_a_time() {
    let mock = MockModel::with([Step::text("One.\n").held_midway(), Step::text("Two.")]);
    let home = agents(&mock);
    let first = home.spawn(["ask", "--agent", "worker", "Count"]);
    assert_eq!(mock.wait_for(1).len(), 1);
    let thread = last_thread(&home);
    let output = go_on(&home, &thread, "Faster").exits(4);
    assert_eq!(output.stdout, "");
    assert_eq!(
        output.stderr.lines().filter(|line| !line.starts_with("note: ")).collect::<Vec<_>>(),
        [
            format!("error: thread `{thread}` is in use by another process"),
            "hint: end the other chat, or begin another thread by leaving --thread out".to_owned(),
        ]
    );
    mock.release();
    assert_eq!(first.finish().success().stdout, "One.\n");
    assert_eq!(go_on(&home, &thread, "Faster").success().stdout, "Two.\n");
}

#[test]
fn a_model_that_cannot_be_asked_is_an_error_with_a_hint() {
    let mock = MockModel::new();
    let home = agents(&mock);
    let keyed = format!(
        "models:\n  default: mock/test-model\n  providers:\n    mock: {{wire: openai, base_url: \
         \"{}\", key: MOCK_KEY, retries: 0}}\n",
        mock.base_url(Wire::Openai)
    );
    home.write("skillhost.yaml", &keyed);
    let output = ask(&home, "worker", "Hi").exits(5);
    assert!(output.stderr.contains("MOCK_KEY"), "{output}");
    assert_eq!(mock.requests().len(), 0);

    // A key that is refused is not repeated.
    home.write(".env", "MOCK_KEY=s3cret-key\n");
    mock.push(Step::key_refused());
    let output = ask(&home, "worker", "Hi").exits(5);
    assert_eq!(mock.requests()[0].key(), Some("s3cret-key"));
    assert!(!output.to_string().contains("s3cret-key"), "{output}");
    assert!(output.stderr.contains("hint: "), "{output}");

    mock.push(Step::unknown_model());
    ask(&home, "worker", "Hi").exits(3);
    for model in ["nobody/model", "no-slash"] {
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
fn a_model_that_says_nothing_is_asked_once_more() {
    let mock = MockModel::with([
        Step::empty(),
        Step::text("Sorry. Here I am."),
        Step::only_reasoning("Hm."),
        Step::only_reasoning("Hm, hm."),
    ]);
    let home = agents(&mock);
    assert_eq!(ask(&home, "worker", "Hi").success().stdout, "Sorry. Here I am.\n");
    let output = ask(&home, "worker", "Hi").exits(1);
    assert!(output.stderr.contains("said nothing"), "{output}");
    assert_eq!(mock.requests().len(), 4);
}

#[test]
fn a_reply_is_printed_once_however_it_comes() {
    let mock = MockModel::with([Step::text("Cut sh").cut_short()]);
    let home = agents(&mock);
    let output = ask(&home, "worker", "Hi").success();
    assert_eq!(output.stdout, "Cut sh\n");
    assert!(output.stderr.contains("was cut off: it is too long"), "{output}");

    mock.push(Step::text("I say it.").call("echo", r#"{"text":"x"}"#));
    mock.push(Step::text("In one piece."));
    let whole = format!(
        "models:\n  default: mock/test-model\n  providers:\n    mock: {{wire: openai, base_url: \
         \"{}\", stream: false}}\n",
        mock.base_url(Wire::Openai)
    );
    home.write("skillhost.yaml", &whole);
    assert_eq!(ask(&home, "worker", "Hi").success().stdout, "I say it.\nIn one piece.\n");
    assert!(!mock.requests()[2].stream);
}

#[test]
fn the_same_call_for_ever_is_ended() {
    let mock = MockModel::new();
    mock.answer_with(|_| Some(Step::calls("echo", r#"{"text":"again"}"#)));
    let home = agents(&mock);
    let output = ask(&home, "worker", "Go").exits(1);
    assert!(output.stderr.contains("the model makes the same call again and again"), "{output}");
    assert_eq!(mock.requests().len(), 5);
}

#[test]
fn unknown_agents_and_threads_are_told_with_what_is_near() {
    let mock = MockModel::new();
    let home = agents(&mock);
    let error = |args: &[&str], code| {
        let output = home.skillhost(args).exits(code);
        assert_eq!(output.stdout, "");
        let lines = output.stderr.lines().filter(|line| !line.starts_with("note: "));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        error(&["ask", "--agent", "workr", "Hi"], 3),
        "error: no agent `workr`\nhint: did you mean worker?\nhint: see: skillhost agent list"
    );
    assert_eq!(
        error(&["ask", "--thread", "0", "Hi"], 3),
        "error: no thread `0`\nhint: see: skillhost threads list"
    );
    assert_eq!(
        error(&["threads", "show", "../x"], 2),
        "error: `../x` is not the id of a thread\n\
         hint: an id has 1 to 64 lower-case letters, digits and hyphens\n\
         hint: see: skillhost threads list"
    );
    mock.push(Step::text("Hi."));
    ask(&home, "worker", "Hi").success();
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
fn a_journal_that_was_cut_or_broken_is_told() {
    let mock = MockModel::with([Step::text("One."), Step::text("Two.")]);
    let home = agents(&mock);
    ask(&home, "worker", "Count").success();
    let thread = last_thread(&home);
    let path = format!("sandbox/data/kernel/threads/{thread}.jsonl");
    let whole = std::fs::read(home.path(&path)).unwrap();
    home.write(&path, &whole[..whole.len() - 3]);
    let output = go_on(&home, &thread, "Go on").success();
    let note = format!("thread {thread}: the last entry was not written to its end");
    assert!(output.stderr.contains(&note), "{output}");
    assert_eq!(said(&mock.requests()[1]), "user: Count\nuser: Go on\n");

    let broken = String::from_utf8(whole).unwrap().replacen("\"entry\"", "\"exit\"", 1);
    home.write(&path, &broken);
    let output = go_on(&home, &thread, "Go on").exits(5);
    assert!(output.stderr.contains(&format!("[HOME]/{path}:2: ")), "{output}");
    let listed = home.skillhost(["threads", "list", "--json"]).success().json();
    assert!(listed["threads"][0]["problem"].is_string(), "{listed}");
    assert_eq!(std::fs::read_to_string(home.path(&path)).unwrap(), broken);
}

#[test]
fn an_answer_as_json_is_one_object() {
    let mock = MockModel::with([Step::calls("echo", r#"{"text":"x"}"#), Step::text("Done.")]);
    let home = agents(&mock);
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
