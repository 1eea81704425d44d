//! Tests of `skillhost run --supervised`: restarts, and replies that survive them.

use mock_model::{MockModel, MockRequest, Step};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use test_support::{Background, Terminal, TestHome};

use crate::agents_scene::{
    ToolBarrier, agents_home, format_messages, last_thread, misbehaving_home,
};
use crate::fixtures::{agent_manifest, home};

const RESTART: &str = r#"{"reason":"There are new tools."}"#;

/// Starts a supervised kernel with a short restart delay.
pub(crate) fn start_supervised_with(home: &TestHome, args: &[&str]) -> Background {
    let mut command = home.command();
    command.env("SKILLHOST_SUPERVISOR__DELAY_MS", "1").args(["run", "--supervised"]);
    home.start(command.args(args))
}

/// Starts a supervised kernel, and waits until it serves.
pub(crate) fn start_supervised(home: &TestHome) -> Background {
    let kernel = start_supervised_with(home, &[]);
    kernel.line_with("running; Ctrl-C ends it");
    kernel
}

/// Waits until a kernel has started and returns its process id.
pub(crate) fn wait_for_start(supervisor: &Background) -> Pid {
    let started: Value = serde_json::from_str(&supervisor.line_with("kernel.started")).unwrap();
    let id = i32::try_from(started["pid"].as_i64().unwrap()).unwrap();
    assert_ne!(u32::try_from(id).unwrap(), supervisor.id());
    Pid::from_raw(id).unwrap()
}

pub(crate) fn kill_kernel(kernel: Pid) {
    kill_process(kernel, Signal::KILL).unwrap();
}

/// Runs `ask` at a terminal, where approvals are possible.
pub(crate) fn ask_on_terminal(home: &TestHome, agent: &str, text: &str) -> Terminal {
    home.on_terminal(home.command().args(["ask", "--agent", agent, text]), (120, 40))
}

fn approve_call(person: &mut Terminal, tool: &str) {
    person.wait_for(&format!("asks to call {tool} of kernel"));
    person.wait_for("[N]o");
    person.send("y\n");
}

#[test]
fn restart_loads_extension_and_resumes_run() {
    let mock = MockModel::with([
        Step::calls("request_restart", RESTART),
        Step::text("The new agent is there."),
    ]);
    let home = agents_home(&mock);
    let kernel = start_supervised(&home);
    home.write(
        "sandbox/extensions/late/manifest.yaml",
        agent_manifest("late", "  instructions: Wait.\n"),
    );
    home.approve("late");
    home.write("sandbox/extensions/broken/manifest.yaml", "id: broken\nname: [\n");
    let mut person = ask_on_terminal(&home, "worker", "Restart");
    approve_call(&mut person, "request_restart");
    person.wait_for("the kernel restarts; waiting for it");
    person.wait_for("The new agent is there.");
    let session = person.finish();
    assert_eq!(session.output.status, 0, "{}", session.output);

    kernel.line_with("asks for a restart: There are new tools.");
    kernel.line_with("supervisor the kernel requested a restart");
    kernel.line_with("kernel.restarted");
    kernel.line_with("agent.replied");
    let requests = mock.requests();
    assert_eq!(requests.len(), 2);
    let messages = requests[1].messages();
    let roles: Vec<_> = messages.iter().map(|message| message.role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"]);
    let notice = &messages[3].text;
    assert!(notice.starts_with("<kernel_notice nonce=\""), "{notice}");
    assert!(notice.contains("as requested: There are new tools.\n"), "{notice}");
    assert!(notice.contains(", late.\n"), "{notice}");
    assert!(notice.contains("\nNot loaded: broken: "), "{notice}");
    // The next message has no second notice of the restart.
    mock.push(Step::text("Yes."));
    home.skillhost(["ask", "--agent", "worker", "There?"]).success();
    assert_eq!(format_messages(&mock.requests()[2]), "user: There?\n");
    kernel.interrupt().success();
}

#[test]
fn late_client_receives_reply() {
    let mock = MockModel::with([
        Step::calls("request_restart", RESTART),
        Step::text("Here I am again.").held(),
    ]);
    let home = agents_home(&mock);
    let kernel = start_supervised(&home);
    let mut person = ask_on_terminal(&home, "worker", "Restart");
    approve_call(&mut person, "request_restart");
    person.wait_for("waiting for it");
    // Dropping the terminal kills its client.
    drop(person);
    assert_eq!(mock.wait_for(2).len(), 2);
    let thread = last_thread(&home);
    let mut command = home.command();
    let later = home.start(command.args(["ask", "--thread", &thread]));
    mock.release();
    assert_eq!(later.finish().success().stdout, "Here I am again.\n");
    // The stored reply is available for a second client.
    let output = home.skillhost(["ask", "--thread", &thread]).success();
    assert_eq!(output.stdout, "Here I am again.\n");
    let thread_text = home.skillhost(["threads", "show", &thread]).success().stdout;
    assert!(thread_text.ends_with("\nassistant\nHere I am again.\n"), "{thread_text}");
    kernel.interrupt().success();
}

#[test]
fn killed_kernel_resumes_turn() {
    let mock = MockModel::with([
        Step::text("I try it.\n").call("bad", r#"{"do":"act","act":"hang"}"#),
        Step::text("Then I leave it."),
    ]);
    let home = misbehaving_home(&mock);
    let barrier = ToolBarrier::bind(&home);
    let supervisor = start_supervised_with(&home, &["--json"]);
    let kernel = wait_for_start(&supervisor);
    let ask = home.spawn(["ask", "--agent", "careless", "Try it"]);
    let blocked = barrier.wait_for_call();
    kill_kernel(kernel);
    drop(blocked);
    let output = ask.finish().success();
    assert_eq!(output.stdout, "I try it.\nThen I leave it.\n");
    assert!(output.stderr.contains("the kernel restarts; waiting for it"), "{output}");
    let restarting: Value =
        serde_json::from_str(&supervisor.line_with("supervisor.restarting")).unwrap();
    assert_eq!(restarting["payload"]["reason"], "was killed by signal 9");
    // The message is in the thread once, and the model sees the interrupted tool call.
    assert_eq!(
        format_messages(&mock.requests()[1]),
        "user: Try it\nassistant: I try it.\n → bad {\"do\":\"act\",\"act\":\"hang\"}\n\
         tool: the run was cut off before this call was answered; it may have happened\n"
    );
    assert_ne!(wait_for_start(&supervisor), kernel);
    supervisor.interrupt().success();
}

#[test]
fn crashing_message_becomes_dead_letter() {
    let mock = MockModel::new();
    mock.answer_with(|_| Some(Step::text("Never heard.").held()));
    let home = agents_home(&mock);
    home.write(
        "skillhost.yaml",
        mock.settings(mock_model::Wire::Openai) + "supervisor: {crashes: 9}\n",
    );
    let supervisor = start_supervised_with(&home, &["--json"]);
    let mut kernel = wait_for_start(&supervisor);
    let ask = home.spawn(["ask", "--agent", "worker", "Hi"]);
    for attempt in 1..=4 {
        assert_eq!(mock.wait_for(attempt).len(), attempt);
        kill_kernel(kernel);
        kernel = wait_for_start(&supervisor);
    }
    let output = ask.finish().exits(1);
    assert!(output.stderr.contains("error: delivery failed after 4 attempts"), "{output}");
    assert!(output.stderr.contains("skillhost event retry"), "{output}");
    assert_eq!(mock.requests().len(), 4);
    supervisor.interrupt().success();
}

#[test]
fn restart_limit_stops_supervisor() {
    let home = home();
    let supervisor = start_supervised_with(&home, &["--json"]);
    for _ in 0..5 {
        kill_kernel(wait_for_start(&supervisor));
    }
    let output = supervisor.finish().exits(70);
    let error: Value = serde_json::from_str(output.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(error["error"]["kind"], "crashed");
    assert_eq!(
        error["error"]["message"],
        "the kernel was killed by signal 9, the 5th time within minutes; it is not restarted"
    );
    assert_eq!(output.stdout.matches("supervisor.restarting").count(), 4, "{output}");
}

#[test]
fn permanent_start_error_is_reported_once() {
    let home = home();
    home.write("skillhost.yaml", "supervisor: {crashes: 0, delay: 1}\n");
    let output = home.skillhost(["run", "--supervised"]).exits(2);
    assert!(output.stderr.contains("unknown field `delay`"), "{output}");
    home.write("skillhost.yaml", "");
    let other = crate::fixtures::start_kernel(&home);
    let output = home.skillhost(["run", "--supervised"]).exits(4);
    assert_eq!(output.stderr.matches("skillhost already runs for [HOME]").count(), 1, "{output}");
    other.interrupt().success();
}

#[test]
fn second_supervisor_is_rejected() {
    let home = home();
    let supervisor = start_supervised(&home);
    let output = home.skillhost(["run", "--supervised"]).exits(4);
    let expected = format!(
        "error: kernel of this home is already supervised, by process {}\n\
         hint: see: skillhost status; stop it: skillhost stop; or use another --home\n",
        supervisor.id()
    );
    assert_eq!(output.stderr, expected);
    home.skillhost(["run"]).exits(4);
    assert_eq!(
        home.skillhost(["tool", "call", "echo", r#"{"text":"on"}"#]).success().stdout,
        "on\n"
    );
    supervisor.interrupt().success();
    // The stopped supervisor leaves no lock behind.
    start_supervised(&home).interrupt().success();
}

#[test]
fn kernel_ends_with_its_supervisor() {
    let home = home();
    let supervisor = start_supervised(&home);
    let id = i32::try_from(supervisor.id()).unwrap();
    kill_kernel(Pid::from_raw(id).unwrap());
    // The kernel shares the output, which closes only when both have exited.
    let output = supervisor.finish().exits(-9);
    assert!(output.stderr.contains("note: shutting down"), "{output}");
    start_supervised(&home).interrupt().success();
}

#[test]
fn concurrent_restart_request_is_rejected() {
    let mock = MockModel::new();
    // Both agents request a restart; the slow one is approved while the fast one waits for it.
    mock.answer_with(|request: &MockRequest| {
        let messages = request.messages();
        Some(match (messages[0].text.as_str(), messages.len()) {
            ("Fast", 1) => Step::calls("request_restart", RESTART),
            ("Slow", 1) => Step::calls("request_restart", RESTART).held(),
            (who, _) => Step::text(&format!("{who} is back.")),
        })
    });
    let home = agents_home(&mock);
    let kernel = start_supervised(&home);
    let mut slow = ask_on_terminal(&home, "worker", "Slow");
    assert_eq!(mock.wait_for(1).len(), 1);
    let mut fast = ask_on_terminal(&home, "orchestrator_agent", "Fast");
    approve_call(&mut fast, "request_restart");
    fast.wait_for("waiting for it");
    mock.release();
    approve_call(&mut slow, "request_restart");
    slow.wait_for("a restart is already in progress");
    slow.wait_for("Slow is back.");
    fast.wait_for("Fast is back.");
    assert_eq!((slow.finish().output.status, fast.finish().output.status), (0, 0));
    let output = kernel.interrupt().success();
    assert_eq!(output.stdout.matches("requested a restart").count(), 1, "{output}");
    assert_eq!(output.stdout.matches("kernel.restarted").count(), 1, "{output}");
    assert_eq!(mock.requests().len(), 4);
}

#[test]
fn delegated_agent_finishes_before_restart() {
    let mock = MockModel::with([
        Step::calls("delegate_task", r#"{"agent_id":"worker","task":"Get a new tool."}"#),
        Step::calls("request_restart", RESTART),
        Step::text("I have asked for it."),
        Step::text("It is there."),
    ]);
    let home = agents_home(&mock);
    let kernel = start_supervised(&home);
    let mut person = ask_on_terminal(&home, "orchestrator_agent", "I need a tool");
    approve_call(&mut person, "request_restart");
    person.wait_for("It is there.");
    assert_eq!(person.finish().output.status, 0);
    let requests = mock.requests();
    assert_eq!(requests.len(), 4);
    let messages = requests[3].messages();
    assert!(messages[2].text.contains("I have asked for it."), "{}", messages[2].text);
    assert!(messages[3].text.starts_with("<kernel_notice nonce=\""), "{}", messages[3].text);
    kernel.interrupt().success();
}

#[test]
fn restart_requires_supervisor() {
    let mock = MockModel::with([Step::calls("request_restart", RESTART), Step::text("I cannot.")]);
    let home = agents_home(&mock);
    let kernel = crate::fixtures::start_kernel(&home);
    let mut person = ask_on_terminal(&home, "worker", "Restart");
    approve_call(&mut person, "request_restart");
    person.wait_for("I cannot.");
    assert_eq!(person.finish().output.status, 0);
    let result = mock.requests()[1].last_text();
    assert!(result.contains("restart requires a supervisor"), "{result}");
    assert!(result.contains("skillhost run --supervised"), "{result}");
    kernel.interrupt().success();
}

#[test]
fn restart_requires_approval_each_time() {
    let mock = MockModel::with([Step::calls("request_restart", RESTART), Step::text("No.")]);
    let home = agents_home(&mock);
    let kernel = start_supervised(&home);
    let mut command = home.command();
    command.args(["ask", "--agent", "worker", "--approve", "request_restart", "Restart"]);
    let output = home.start(&mut command).finish().success();
    assert_eq!(output.stdout, "No.\n");
    assert!(output.stderr.contains("this call requires approval every time"), "{output}");
    assert!(!kernel.interrupt().success().stdout.contains("asks for a restart"));
}

#[test]
fn native_exit_is_a_crash() {
    let mock = MockModel::new();
    let home = misbehaving_home(&mock);
    let kernel = start_supervised(&home);
    for code in [0, 2, 75] {
        let deed = format!(r#"{{"do":"exit","code":{code}}}"#);
        let output = home.skillhost(["tool", "call", "bad", &deed]).exits(1);
        assert_eq!(
            output.stderr,
            "error: the kernel ended before it answered; the call of `bad` may have happened\n\
             hint: check its effect before you repeat it\n"
        );
        let format_messages = kernel.line_with("supervisor the kernel ended");
        assert!(
            format_messages.contains(&format!("ended out of order with exit code {code}; ")),
            "{format_messages}"
        );
        kernel.line_with("running; Ctrl-C ends it");
    }
    kernel.interrupt().success();
}

#[test]
fn silent_kernel_is_restarted() {
    let home = home();
    let mut command = home.command();
    command.env("SKILLHOST_SUPERVISOR__DELAY_MS", "1");
    command.env("SKILLHOST_SUPERVISOR__SILENCE_MS", "5000");
    let supervisor = home.start(command.args(["run", "--supervised", "--json"]));
    // A stopped process acts like a kernel whose threads are all blocked.
    let kernel = wait_for_start(&supervisor);
    kill_process(kernel, Signal::STOP).unwrap();
    let restarting: Value =
        serde_json::from_str(&supervisor.line_with("supervisor.restarting")).unwrap();
    let reason = "sent no heartbeat for 5 s and was killed";
    assert_eq!(restarting["payload"]["reason"], reason);
    assert_ne!(wait_for_start(&supervisor), kernel);
    supervisor.interrupt().success();
}

#[test]
fn kernel_exits_while_destructor_blocks() {
    let bad = "id: bad\nname: Bad\nentrypoint: misbehave\nconfig: {parts: {drop: block}}\n";
    let home = TestHome::new()
        .manifest("bad", bad)
        .library("bad", "misbehave", &test_support::example_library("misbehave"))
        .trusted();
    let barrier = std::os::unix::net::UnixListener::bind(home.path("gate")).unwrap();
    let kernel = start_supervised(&home);
    let output = kernel.interrupt().success();
    assert!(output.stderr.contains("did not end and is abandoned"), "{output}");
    drop(barrier);
}
