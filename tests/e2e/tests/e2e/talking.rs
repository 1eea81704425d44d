//! Tests of `ask` and `chat` through the kernel of `skillhost run`.

use mock_model::{MockModel, MockRequest, Step};
use serde_json::json;
use test_support::{Output, TestHome};

use crate::agents_scene::{
    REVIEW, agents_home, ask_agent, ask_in_thread, format_messages, last_thread,
};
use crate::fixtures::{shipped_manifest, start_kernel};

const WRITE: &str = r#"{"path": "notes.txt", "content": "kept"}"#;

fn run_chat(home: &TestHome, args: &[&str], lines: &str) -> Output {
    let path = home.outside().join("lines");
    std::fs::write(&path, lines).unwrap();
    let input = std::fs::File::open(&path).unwrap();
    home.start(home.command().arg("chat").args(args).stdin(input)).finish()
}

#[test]
fn running_kernel_answers_and_stores_events() {
    let mock = MockModel::with([
        Step::text("I look. ").call("echo", r#"{"text":"x"}"#),
        Step::text("Done."),
        Step::text("Still here."),
    ]);
    let home = agents_home(&mock);
    let kernel = start_kernel(&home);
    let output = ask_agent(&home, "worker", "Hi").success();
    assert_eq!(output.stdout, "I look. \nDone.\n");
    assert!(output.stderr.contains("→ echo"), "{output}");
    kernel.line_with("operator user.message");
    kernel.line_with("kernel agent.replied");
    // No client holds the thread between two turns.
    let thread = last_thread(&home);
    let output = home.skillhost(["ask", "--json", "--thread", &thread, "And now?"]).success();
    let mut json = output.json();
    assert!(json["run_id"].take().is_string());
    assert_eq!(
        json,
        json!({
            "schema_version": 1, "run_id": null, "thread": thread, "agent": "worker",
            "model": "mock/test-model", "text": "Still here.", "turns": 1,
            "usage": {"input": 10, "output": 5, "cached": 0, "estimated": false},
            "cost": null, "skills": [], "notes": [],
        })
    );
    assert_eq!(format_messages(&mock.requests()[2]).matches("user: ").count(), 2);
    kernel.interrupt().success();
}

#[test]
fn errors_match_own_kernel() {
    let mock = MockModel::with([Step::text("Hi."), Step::key_refused()]);
    let home = agents_home(&mock);
    ask_agent(&home, "worker", "Hi").success();
    let thread = last_thread(&home);
    let cases: [(&[&str], i32); 7] = [
        (&["ask", "--agent", "workr", "Hi"], 3),
        (&["ask", "--thread", "zzz", "Hi"], 3),
        (&["ask", "--thread", "../x", "Hi"], 2),
        (&["ask", "--thread", &thread, "--agent", "orchestrator_agent", "Hi"], 2),
        (&["ask", "--model", "nobody/model", "Hi"], 3),
        (&["ask", "--model", "/x", "Hi"], 3),
        (&["ask", "Hi"], 5),
    ];
    let errors = |args: &[&str], code| {
        let output = home.skillhost(args).exits(code);
        assert_eq!(output.stdout, "");
        // Each run starts its own thread.
        let lines = output.stderr.lines().filter(|l| !l.contains("resume the thread with"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let own_kernel: Vec<_> = cases.iter().map(|(args, code)| errors(args, *code)).collect();
    mock.push(Step::key_refused());
    let kernel = start_kernel(&home);
    for ((args, code), own_kernel) in cases.iter().zip(own_kernel) {
        assert_eq!(errors(args, *code), own_kernel, "{args:?}");
    }
    kernel.interrupt().success();
}

#[test]
fn approval_is_requested_from_client() {
    let write = || Step::calls("write_file", WRITE);
    let mock = MockModel::with([
        write(),
        Step::text("No."),
        write(),
        Step::text("Yes."),
        write(),
        Step::text("Written."),
    ]);
    let home = agents_home(&mock);
    let kernel = start_kernel(&home);
    let output = ask_agent(&home, "worker", "Write").success();
    assert_eq!(output.stdout, "No.\n");
    assert!(
        output
            .stderr
            .contains("note: `write_file` was not called: no approval channel is available")
    );
    assert!(!home.path("sandbox/notes.txt").exists());
    let args = ["ask", "--agent", "worker", "--approve", "write_file", "Write"];
    assert_eq!(home.skillhost(args).success().stdout, "Yes.\n");
    std::fs::remove_file(home.path("sandbox/notes.txt")).unwrap();
    let mut person =
        home.on_terminal(home.command().args(["ask", "--agent", "worker", "Write"]), (100, 40));
    person.wait_for("worker asks to call write_file of core_tools");
    person.wait_for("> content: \"kept\"");
    person.wait_for("[N]o");
    person.send("y\n");
    person.wait_for("Written.");
    assert_eq!(person.finish().output.status, 0);
    assert_eq!(std::fs::read_to_string(home.path("sandbox/notes.txt")).unwrap(), "kept");
    kernel.interrupt().success();
}

#[test]
fn chat_matches_own_kernel() {
    let steps = || [Step::text("Hello."), Step::text("I do."), Step::text("Who?")];
    let lines = "Hi\n\n/skill code-review do it\n/thread\n/skills\n/agents\n/nothing\n/reset\n//who am I\n\
                 /agent orchestrator_agent\n/agent x\n/thread\n";
    let mock = MockModel::with(steps());
    let home = agents_home(&mock);
    // A thread without a message is gone at the end, so not every id is listed.
    let without_thread_ids = |output: Output| {
        let words = output.stdout.split(' ').map(|word| {
            let (id, rest) = word.split_at_checked(26).unwrap_or((word, ""));
            let is_id = rest.starts_with('\n') && id.bytes().all(|b| b.is_ascii_alphanumeric());
            if is_id { format!("[THREAD]{rest}") } else { word.to_owned() }
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let own_kernel = without_thread_ids(run_chat(&home, &["--agent", "worker"], lines).success());
    let requests: Vec<_> = mock.requests().iter().map(format_messages).collect();
    for step in steps() {
        mock.push(step);
    }
    let kernel = start_kernel(&home);
    assert_eq!(
        without_thread_ids(run_chat(&home, &["--agent", "worker"], lines).success()),
        own_kernel
    );
    assert!(own_kernel.contains("active: code-review"), "{own_kernel}");
    let through_kernel: Vec<_> = mock.requests().iter().skip(3).map(format_messages).collect();
    assert_eq!(through_kernel, requests);
    assert_eq!(mock.requests()[4].system().matches(REVIEW).count(), 1);
    kernel.interrupt().success();
}

#[test]
fn ctrl_c_cancels_only_the_run() {
    let mock =
        MockModel::with([Step::text("It begins.\n").held_midway(), Step::text("Here I am.")]);
    let home = agents_home(&mock);
    let kernel = start_kernel(&home);
    let run = home.spawn(["ask", "--agent", "worker", "Talk"]);
    run.line_with("It begins.");
    let output = run.interrupt().exits(130);
    assert!(output.stderr.contains("error: run was cancelled\n"), "{output}");
    let output = ask_in_thread(&home, &last_thread(&home), "Still there?").success();
    assert_eq!(output.stdout, "Here I am.\n");
    assert_eq!(format_messages(&mock.requests()[1]), "user: Talk\nuser: Still there?\n");
    kernel.interrupt().success();
}

#[test]
fn concurrent_message_waits_for_reply() {
    let mock = MockModel::with([Step::text("One.").held(), Step::text("Two.")]);
    let home = agents_home(&mock);
    let kernel = start_kernel(&home);
    let first = home.spawn(["ask", "--agent", "worker", "Count"]);
    assert_eq!(mock.wait_for(1).len(), 1);
    let thread = last_thread(&home);
    let mut command = home.command();
    let second = home.start(command.args(["ask", "--thread", &thread, "Go on"]));
    kernel.line_with("operator user.message");
    kernel.line_with("operator user.message");
    mock.release();
    assert_eq!(first.finish().success().stdout, "One.\n");
    assert_eq!(second.finish().success().stdout, "Two.\n");
    assert_eq!(format_messages(&mock.requests()[1]), "user: Count\nassistant: One.\nuser: Go on\n");
    kernel.interrupt().success();
}

#[test]
fn next_kernel_finishes_interrupted_run() {
    let mock = MockModel::with([
        Step::text("I look.").call("write_file", WRITE).held(),
        Step::text("So it is."),
    ]);
    let home = agents_home(&mock);
    let kernel = start_kernel(&home);
    let args = ["ask", "--agent", "worker", "--approve", "write_file", "Look"];
    let run = home.spawn(args);
    assert_eq!(mock.wait_for(1).len(), 1);
    let pid = rustix::process::Pid::from_raw(kernel.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    mock.release();
    let output = run.finish().exits(1);
    assert!(output.stderr.contains("the kernel ended before it replied"), "{output}");
    kernel.finish().success();
    let thread = last_thread(&home);
    let output = home.skillhost(["ask", "--thread", &thread]).exits(1);
    assert!(output.stderr.contains("no run is active in thread"), "{output}");

    let kernel = start_kernel(&home);
    kernel.line_with("kernel agent.replied");
    let output = home.skillhost(["ask", "--thread", &thread]).success();
    assert_eq!(output.stdout, "So it is.\n");
    // No restart was requested, so the model gets no notice of one.
    let requests = mock.requests();
    let roles: Vec<_> = requests[1].messages().into_iter().map(|message| message.role).collect();
    assert_eq!(roles, ["user", "assistant", "tool"]);
    assert_eq!(requests.iter().map(MockRequest::last_text).next().unwrap(), "Look");
    kernel.interrupt().success();
}

#[test]
fn typed_secret_is_only_in_dotenv() {
    let args = r#"{"name":"FEED_KEY","reason":"To read the feed."}"#;
    let mock =
        MockModel::with([Step::calls("request_secure_input", args), Step::text("I have it.")]);
    let home = agents_home(&mock);
    home.write("manifests/echo/manifest.yaml", shipped_manifest("echo") + "secrets: [FEED_KEY]\n");
    let kernel = start_kernel(&home);
    let mut person =
        home.on_terminal(home.command().args(["ask", "--agent", "worker", "Get it"]), (100, 40));
    person.wait_for("worker asks for the secret FEED_KEY");
    person.wait_for("An empty line refuses");
    person.send("s3cret-feed\n");
    person.wait_for("I have it.");
    let session = person.finish();
    assert_eq!((session.output.status, session.modes_restored), (0, true), "{}", session.output);
    assert!(!session.output.stdout.contains("s3cret-feed"), "{}", session.output);
    let stored = std::fs::read_to_string(home.path(".env")).unwrap();
    assert!(stored.contains("s3cret-feed"), "{stored}");
    for request in mock.requests() {
        assert!(
            !format_messages(&request).contains("s3cret-feed"),
            "{}",
            format_messages(&request)
        );
    }
    let output = kernel.interrupt().success();
    assert!(!output.to_string().contains("s3cret-feed"), "{output}");
    for name in ["events.db", "events.db-wal"] {
        let bytes = std::fs::read(home.path(format!("sandbox/data/kernel/{name}")));
        let found = bytes.is_ok_and(|bytes| bytes.windows(11).any(|part| part == b"s3cret-feed"));
        assert!(!found, "{name}");
    }
}
