//! Tests of the input of `skillhost chat`: lines, pasted blocks, commands, completion, threads.

use mock_model::{MockModel, Step};
use test_support::{Terminal, TestHome};

use crate::agents_scene::{agents_home, ask_agent, format_messages, last_thread};
use crate::fixtures::start_kernel;

fn open_chat(home: &TestHome, args: &[&str]) -> Terminal {
    let mut chat = home.on_terminal(home.command().arg("chat").args(args), (100, 40));
    chat.wait_for("> ");
    chat
}

fn thread_ids(home: &TestHome) -> Vec<String> {
    let listed = home.skillhost(["thread", "list", "--json"]).success().json();
    let threads = listed["threads"].as_array().unwrap();
    threads.iter().map(|thread| thread["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn multiline_input_is_one_message() {
    let mock = MockModel::with([Step::text("One."), Step::text("Two.")]);
    let home = agents_home(&mock);
    let mut chat = open_chat(&home, &["--agent", "worker"]);
    chat.send("first\u{1b}\rsecond\nthird\r");
    chat.wait_for("One.");
    chat.wait_for("> ");
    chat.send("\u{1b}[200~a\r\n  b\r\n/quit\u{1b}[201~");
    chat.wait_for("/quit");
    chat.send("\r");
    chat.wait_for("Two.");
    chat.wait_for("> ");
    chat.send("/quit\r");
    let session = chat.finish();
    assert_eq!(session.output.status, 0, "{}", session.output);
    assert!(session.modes_restored);
    assert_eq!(format_messages(&mock.requests()[0]), "user: first\nsecond\nthird\n");
    assert_eq!(mock.requests()[1].last_text(), "a\n  b\n/quit");
}

#[test]
fn paths_and_names_are_completed() {
    let mock = MockModel::with([Step::text("Seen.")]);
    let home = agents_home(&mock).file("sandbox/notes/plan.md", "Plan.");
    let project = home.outside().join("project");
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(project.join("lib.rs"), "").unwrap();
    let project = project.to_str().unwrap();
    let mut chat = open_chat(&home, &["--agent", "worker", "--workspace", project]);
    chat.send("read @no\tpl\t @work\tli\t");
    chat.wait_for("read @notes/plan.md @workspace:project/lib.rs");
    chat.send("\r");
    chat.wait_for("Seen.");
    chat.wait_for("> ");
    chat.send("/model mo\t");
    chat.wait_for("/model mock/test-model");
    chat.send("\r");
    chat.wait_for("from now on with mock/test-model");
    chat.wait_for("> ");
    chat.send("/quit\r");
    assert_eq!(chat.finish().output.status, 0);
    let sent = "read @notes/plan.md @workspace:project/lib.rs";
    assert_eq!(mock.requests()[0].last_text(), sent);
}

/// Runs the commands that only look at the chat, in a kernel of its own or in the running one.
fn check_commands(home: &TestHome, mock: &MockModel) {
    let path = home.outside().join("lines");
    let lines = "Hi\n/cost\n/model\n/model /\n/model nobody/x\nlost\n/model default\n/tools\n/clear\nAgain\n/cost x\n";
    std::fs::write(&path, lines).unwrap();
    mock.push(Step::text("Hello.").usage(100, 20, 40));
    mock.push(Step::text("Anew."));
    let input = std::fs::File::open(&path).unwrap();
    let mut command = home.command();
    let output = home.start(command.args(["chat", "--agent", "worker"]).stdin(input)).finish();
    assert_eq!(output.status, 2, "{output}");
    let cost = "mock/test-model  1 request · 100 tokens in (40 cached), 20 out · price unknown\n";
    assert!(output.stdout.starts_with(&format!("Hello.\n{cost}")), "{output}");
    assert!(output.stdout.contains("\n* mock/test-model\n"), "{output}");
    assert!(output.stdout.contains("write_file"), "{output}");
    assert!(output.stdout.ends_with("Anew.\n"), "{output}");
    let malformed = "error: a model name requires the form provider/model";
    assert!(output.stderr.contains(malformed), "{output}");
    assert!(output.stderr.contains("error: nobody/x: provider `nobody` not found"), "{output}");
    assert!(output.stderr.contains("error: /cost takes no argument"), "{output}");
    // The first thread stays after `/clear`, and both can be resumed.
    let ids = thread_ids(home);
    assert_eq!(ids.len(), 2);
    for id in &ids {
        let command = format!("resume this thread: skillhost chat --thread {id}");
        assert!(output.stderr.contains(&command), "{output}");
    }
    assert_eq!(format_messages(mock.requests().last().unwrap()), "user: Again\n");
}

#[test]
fn commands_report_model_cost_and_tools() {
    let mock = MockModel::new();
    let home = agents_home(&mock);
    check_commands(&home, &mock);
}

#[test]
fn commands_match_in_running_kernel() {
    let mock = MockModel::new();
    let home = agents_home(&mock);
    let kernel = start_kernel(&home);
    check_commands(&home, &mock);
    kernel.interrupt().success();
}

#[test]
fn compact_summarizes_all_but_last_reply() {
    let steps = || {
        [
            Step::text("One."),
            Step::text("Two."),
            Step::text("It was about numbers."),
            Step::text("Three."),
        ]
    };
    let lines = "/compact\nfirst\nsecond\n/compact\nthird\n";
    let chat = |home: &TestHome| {
        let path = home.outside().join("lines");
        std::fs::write(&path, lines).unwrap();
        let mut command = home.command();
        let command = command.args(["chat", "--agent", "worker"]);
        home.start(command.stdin(std::fs::File::open(&path).unwrap())).finish().success()
    };
    let mock = MockModel::with(steps());
    let home = agents_home(&mock);
    let output = chat(&home);
    assert!(output.stderr.contains("the thread is too short to be summarized"), "{output}");
    assert!(output.stderr.contains("3 older messages were summarized, approx. "), "{output}");
    let requests = mock.requests();
    assert!(requests[2].last_text().contains("> first"), "{}", requests[2].last_text());
    let messages = format_messages(&requests[3]);
    assert!(messages.contains("It was about numbers."), "{messages}");
    assert!(messages.ends_with("assistant: Two.\nuser: third\n"), "{messages}");
    for step in steps() {
        mock.push(step);
    }
    let kernel = start_kernel(&home);
    let output = chat(&home);
    assert!(output.stderr.contains("3 older messages were summarized, approx. "), "{output}");
    kernel.interrupt().success();
    let messages = format_messages(&mock.requests()[7]);
    assert!(messages.ends_with("assistant: Two.\nuser: third\n"), "{messages}");
}

#[test]
fn failed_compaction_keeps_thread() {
    let mock = MockModel::with([Step::text("One."), Step::text("Two."), Step::key_refused()]);
    let home = agents_home(&mock);
    ask_agent(&home, "worker", "first").success();
    let thread = last_thread(&home);
    home.skillhost(["ask", "--thread", &thread, "second"]).success();
    let path = home.outside().join("lines");
    std::fs::write(&path, "/compact\n").unwrap();
    let mut command = home.command();
    let command = command.args(["chat", "--thread", &thread]);
    home.start(command.stdin(std::fs::File::open(&path).unwrap())).finish().exits(5);
    let shown = home.skillhost(["thread", "show", &thread, "--json"]).success().json();
    assert_eq!(shown["conversation"].as_array().unwrap().len(), 4);
}

#[test]
fn resumed_thread_shows_recap() {
    let mock = MockModel::with([
        Step::text("# Plan\n\n1. Look\n2. Leap\n"),
        Step::text("Other."),
        Step::text("Gone on."),
    ]);
    let home = agents_home(&mock);
    ask_agent(&home, "worker", "Make a plan").success();
    let first = last_thread(&home);
    ask_agent(&home, "orchestrator_agent", "Something else").success();
    let mut chat = home
        .on_terminal(home.command().args(["chat", "--continue", "--agent", "worker"]), (100, 40));
    chat.wait_for(&format!("talking to worker in thread {first}"));
    chat.wait_for("resumed: 2 messages");
    chat.wait_for("> Make a plan");
    chat.wait_for("1. Look");
    chat.wait_for("> ");
    chat.send("/resume\r");
    chat.wait_for("Something else");
    chat.wait_for("> ");
    // The threads share their first characters, which encode the time.
    chat.send("/resume 0\r");
    chat.wait_for("error: `0` is the start of 2 thread ids");
    chat.wait_for("> ");
    chat.send(&format!("/resume {}\r", last_thread(&home)));
    chat.wait_for("talking to orchestrator_agent in thread");
    chat.wait_for("> Something else");
    chat.wait_for("Other.");
    chat.wait_for("> ");
    chat.send("Go on\r");
    chat.wait_for("Gone on.");
    chat.wait_for("> ");
    chat.send("/quit\r");
    let session = chat.finish();
    assert_eq!(session.output.status, 0, "{}", session.output);
    let command = format!("resume this thread: skillhost chat --thread {}", last_thread(&home));
    assert!(session.output.stdout.contains(&command), "{}", session.output);
    let expected = "user: Something else\nassistant: Other.\nuser: Go on\n";
    assert_eq!(format_messages(&mock.requests()[2]), expected);
}

#[test]
fn thread_prefix_names_thread() {
    let mock = MockModel::with([Step::text("One."), Step::text("Two."), Step::text("Three.")]);
    let home = agents_home(&mock);
    ask_agent(&home, "worker", "first").success();
    let thread = last_thread(&home);
    let output = home.skillhost(["ask", "--thread", &thread[..20], "second"]).success();
    assert!(output.stderr.contains(&thread), "{output}");
    assert_eq!(home.skillhost(["ask", "--continue", "third"]).success().stdout, "Three.\n");
    let messages = "user: first\nassistant: One.\nuser: second\nassistant: Two.\nuser: third\n";
    assert_eq!(format_messages(&mock.requests()[2]), messages);
    let shown = home.skillhost(["thread", "show", &thread[..20]]).success();
    assert!(shown.stdout.starts_with(&thread), "{shown}");
    home.skillhost(["thread", "show", "zzz"]).exits(3);
    home.skillhost(["ask", "--thread", "../x", "Hi"]).exits(2);
    let output = home.skillhost(["ask", "--continue", "--thread", &thread, "Hi"]).exits(2);
    assert!(output.stderr.contains("cannot be used with"), "{output}");
    let output =
        home.skillhost(["ask", "--continue", "--agent", "orchestrator_agent", "x"]).exits(3);
    assert!(output.stderr.contains("no thread with `orchestrator_agent` to continue"), "{output}");
}

#[test]
fn failed_ask_leaves_no_thread() {
    let mock = MockModel::with([Step::key_refused(), Step::key_refused()]);
    let home = agents_home(&mock);
    let check = || {
        let output = home.skillhost(["ask", "--model", "nobody/x", "Hi"]).exits(3);
        assert!(!output.stderr.contains("resume the thread"), "{output}");
        assert_eq!(thread_ids(&home), [""; 0]);
    };
    check();
    let mut chat = open_chat(&home, &[]);
    chat.send("/quit\r");
    assert_eq!(chat.finish().output.status, 0);
    assert_eq!(thread_ids(&home), [""; 0]);
    let kernel = start_kernel(&home);
    check();
    let mut chat = open_chat(&home, &[]);
    chat.send("/agent worker\r");
    chat.wait_for("talking to worker");
    chat.wait_for("> ");
    chat.send("/quit\r");
    let session = chat.finish();
    assert!(!session.output.stdout.contains("resume this thread"), "{}", session.output);
    assert_eq!(thread_ids(&home), [""; 0]);
    // A message that is stored is kept, also without a reply.
    home.skillhost(["ask", "Hi"]).exits(5);
    assert_eq!(thread_ids(&home).len(), 1);
    kernel.interrupt().success();
}

#[test]
fn ten_thousand_threads_stay_usable() {
    let mock = MockModel::with([Step::text("One."), Step::text("Two.")]);
    let home = agents_home(&mock);
    ask_agent(&home, "worker", "first").success();
    let thread = last_thread(&home);
    for number in 0..10_000 {
        let id = format!("00old{number:06}");
        let header = format!(r#"{{"thread":"{id}","version":1,"agent":"worker","at":1}}"#);
        let message = r#"{"at":2,"entry":"message","message":{"role":"user","text":"Old"}}"#;
        let path = format!("sandbox/data/kernel/threads/{id}.jsonl");
        home.write(&path, format!("{header}\n{message}\n"));
        let times = std::fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
        let file = std::fs::File::options().write(true).open(home.path(&path)).unwrap();
        file.set_times(times).unwrap();
    }
    assert_eq!(home.skillhost(["ask", "--continue", "second"]).success().stdout, "Two.\n");
    assert_eq!(last_thread(&home), thread);
    assert_eq!(thread_ids(&home).len(), 10_001);
    let output = home.skillhost(["ask", "--thread", "00old", "x"]).exits(2);
    assert!(output.stderr.contains("`00old` is the start of 10000 thread ids"), "{output}");
    let mut chat = open_chat(&home, &[]);
    chat.send("/resume 00old00001\t");
    chat.wait_for("/resume 00old00001");
    chat.send("2\r");
    chat.wait_for("> Old");
    chat.wait_for("> ");
    chat.send("/quit\r");
    assert_eq!(chat.finish().output.status, 0);
}
