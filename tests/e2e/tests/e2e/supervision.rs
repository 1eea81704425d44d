//! `skillhost run --supervised`: what ends is started again, and what was said is answered.

use mock_model::{Asked, MockModel, Step};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use test_support::{Background, Terminal, TestHome};

use crate::agents_scene::{Gate, agents, last_thread, said, with_misbehaving};
use crate::scene::{agent, home};

const RESTART: &str = r#"{"reason":"There are new tools."}"#;

/// What starts a supervised kernel that does not wait long.
fn supervised_with(home: &TestHome, args: &[&str]) -> Background {
    let mut command = home.command();
    command.env("SKILLHOST_SUPERVISOR__DELAY_MS", "1").args(["run", "--supervised"]);
    home.start(command.args(args))
}

fn supervised(home: &TestHome) -> Background {
    let kernel = supervised_with(home, &[]);
    kernel.line_with("running; Ctrl-C ends it");
    kernel
}

/// Waits until a kernel has started, and returns its process.
fn started(supervisor: &Background) -> Pid {
    let started: Value = serde_json::from_str(&supervisor.line_with("kernel.started")).unwrap();
    let id = i32::try_from(started["pid"].as_i64().unwrap()).unwrap();
    assert_ne!(u32::try_from(id).unwrap(), supervisor.id());
    Pid::from_raw(id).unwrap()
}

fn kill(kernel: Pid) {
    kill_process(kernel, Signal::KILL).unwrap();
}

/// `ask` by a person who can be asked.
fn asking(home: &TestHome, agent: &str, text: &str) -> Terminal {
    home.on_terminal(home.command().args(["ask", "--agent", agent, text]), (120, 40))
}

fn allow(person: &mut Terminal, tool: &str) {
    person.wait_for(&format!("asks to call {tool} of kernel"));
    person.wait_for("[N]o");
    person.send("y\n");
}

#[test]
fn what_an_agent_wanted_to_restart_for_is_there_and_the_reply_arrives() {
    let mock = MockModel::with([
        Step::calls("request_restart", RESTART),
        Step::text("The new agent is there."),
    ]);
    let home = agents(&mock);
    let kernel = supervised(&home);
    home.write("sandbox/extensions/late/manifest.yaml", agent("late", "  instructions: Wait.\n"));
    home.approve("late");
    home.write("sandbox/extensions/broken/manifest.yaml", "id: broken\nname: [\n");
    let mut person = asking(&home, "worker", "Restart");
    allow(&mut person, "request_restart");
    person.wait_for("the kernel is started again; waiting for it");
    person.wait_for("The new agent is there.");
    let left = person.finish();
    assert_eq!(left.output.status, 0, "{}", left.output);

    kernel.line_with("asks for a restart: There are new tools.");
    kernel.line_with("supervisor the kernel asked to be started again");
    kernel.line_with("kernel.restarted");
    kernel.line_with("agent.replied");
    let asked = mock.requests();
    assert_eq!(asked.len(), 2);
    let messages = asked[1].messages();
    let roles: Vec<_> = messages.iter().map(|message| message.role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"]);
    let notice = &messages[3].text;
    assert!(notice.starts_with("<kernel_notice nonce=\""), "{notice}");
    assert!(notice.contains("as asked: There are new tools.\n"), "{notice}");
    assert!(notice.contains(", late.\n"), "{notice}");
    assert!(notice.contains("\nNot loaded: broken: "), "{notice}");
    // The next thing that is said does not hear of it again.
    mock.push(Step::text("Yes."));
    home.skillhost(["ask", "--agent", "worker", "There?"]).success();
    assert_eq!(said(&mock.requests()[2]), "user: There?\n");
    kernel.interrupt().success();
}

#[test]
fn an_answer_waits_for_whoever_comes_later() {
    let mock = MockModel::with([
        Step::calls("request_restart", RESTART),
        Step::text("Here I am again.").held(),
    ]);
    let home = agents(&mock);
    let kernel = supervised(&home);
    let mut person = asking(&home, "worker", "Restart");
    allow(&mut person, "request_restart");
    person.wait_for("waiting for it");
    // Dropping it kills it.
    drop(person);
    assert_eq!(mock.wait_for(2).len(), 2);
    let thread = last_thread(&home);
    let mut command = home.command();
    let later = home.start(command.args(["ask", "--thread", &thread]));
    mock.release();
    assert_eq!(later.finish().success().stdout, "Here I am again.\n");
    // And once more, from the thread.
    let output = home.skillhost(["ask", "--thread", &thread]).success();
    assert_eq!(output.stdout, "Here I am again.\n");
    let shown = home.skillhost(["threads", "show", &thread]).success().stdout;
    assert!(shown.ends_with("\nassistant\nHere I am again.\n"), "{shown}");
    kernel.interrupt().success();
}

#[test]
fn a_kernel_that_is_killed_in_the_middle_of_a_turn_goes_on_with_it() {
    let mock = MockModel::with([
        Step::text("I try it.\n").call("bad", r#"{"do":"act","act":"hang"}"#),
        Step::text("Then I leave it."),
    ]);
    let home = with_misbehaving(&mock);
    let gate = Gate::of(&home);
    let supervisor = supervised_with(&home, &["--json"]);
    let kernel = started(&supervisor);
    let ask = home.spawn(["ask", "--agent", "careless", "Try it"]);
    let held = gate.reached();
    kill(kernel);
    drop(held);
    let output = ask.finish().success();
    assert_eq!(output.stdout, "I try it.\nThen I leave it.\n");
    assert!(output.stderr.contains("the kernel is started again; waiting for it"), "{output}");
    let restarting: Value =
        serde_json::from_str(&supervisor.line_with("supervisor.restarting")).unwrap();
    assert_eq!(restarting["payload"]["reason"], "was killed by signal 9");
    // It was heard once, and the model knows what happened to its call.
    assert_eq!(
        said(&mock.requests()[1]),
        "user: Try it\nassistant: I try it.\n → bad {\"do\":\"act\",\"act\":\"hang\"}\n\
         tool: the run was cut off before this call was answered; it may have happened\n"
    );
    assert_ne!(started(&supervisor), kernel);
    supervisor.interrupt().success();
}

#[test]
fn a_message_that_ends_the_kernel_again_and_again_is_given_up() {
    let mock = MockModel::new();
    mock.answer_with(|_| Some(Step::text("Never heard.").held()));
    let home = agents(&mock);
    home.write(
        "skillhost.yaml",
        mock.settings(mock_model::Wire::Openai) + "supervisor: {crashes: 9}\n",
    );
    let supervisor = supervised_with(&home, &["--json"]);
    let mut kernel = started(&supervisor);
    let ask = home.spawn(["ask", "--agent", "worker", "Hi"]);
    for attempt in 1..=4 {
        assert_eq!(mock.wait_for(attempt).len(), attempt);
        kill(kernel);
        kernel = started(&supervisor);
    }
    let output = ask.finish().exits(1);
    assert!(output.stderr.contains("error: it was given up after 4 attempts"), "{output}");
    assert!(output.stderr.contains("skillhost events retry"), "{output}");
    assert_eq!(mock.requests().len(), 4);
    supervisor.interrupt().success();
}

#[test]
fn a_kernel_that_crashes_again_and_again_is_left_alone() {
    let home = home();
    let supervisor = supervised_with(&home, &["--json"]);
    for _ in 0..5 {
        kill(started(&supervisor));
    }
    let output = supervisor.finish().exits(70);
    let error: Value = serde_json::from_str(output.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(error["error"]["kind"], "crashed");
    assert_eq!(
        error["error"]["message"],
        "the kernel was killed by signal 9, the 5th time within minutes; it is not started again"
    );
    assert_eq!(output.stdout.matches("supervisor.restarting").count(), 4, "{output}");
}

#[test]
fn what_cannot_be_mended_by_another_start_is_told_once() {
    let home = home();
    home.write("skillhost.yaml", "supervisor: {crashes: 0, delay: 1}\n");
    let output = home.skillhost(["run", "--supervised"]).exits(2);
    assert!(output.stderr.contains("unknown field `delay`"), "{output}");
    home.write("skillhost.yaml", "");
    let other = crate::scene::running(&home);
    let output = home.skillhost(["run", "--supervised"]).exits(4);
    assert_eq!(output.stderr.matches("skillhost already runs for [HOME]").count(), 1, "{output}");
    other.interrupt().success();
}

#[test]
fn one_supervisor_has_a_home() {
    let home = home();
    let supervisor = supervised(&home);
    let output = home.skillhost(["run", "--supervised"]).exits(4);
    let expected = format!(
        "error: the kernel of this home is supervised already, by process {}\n\
         hint: stop the other one, or use another --home\n",
        supervisor.id()
    );
    assert_eq!(output.stderr, expected);
    home.skillhost(["run"]).exits(4);
    assert_eq!(
        home.skillhost(["tool", "call", "echo", r#"{"text":"on"}"#]).success().stdout,
        "on\n"
    );
    supervisor.interrupt().success();
    // Nothing is left that hinders the next one.
    supervised(&home).interrupt().success();
}

#[test]
fn a_kernel_does_not_outlive_its_supervisor() {
    let home = home();
    let supervisor = supervised(&home);
    let id = i32::try_from(supervisor.id()).unwrap();
    kill(Pid::from_raw(id).unwrap());
    // The kernel has the same output: it ends when both have ended.
    let output = supervisor.finish().exits(-9);
    assert!(output.stderr.contains("note: shutting down"), "{output}");
    supervised(&home).interrupt().success();
}

#[test]
fn a_second_restart_is_refused_while_one_is_under_way() {
    let mock = MockModel::new();
    // Both ask for it; the slow one gets its answer when the other one rests already.
    mock.answer_with(|asked: &Asked| {
        let messages = asked.messages();
        Some(match (messages[0].text.as_str(), messages.len()) {
            ("Fast", 1) => Step::calls("request_restart", RESTART),
            ("Slow", 1) => Step::calls("request_restart", RESTART).held(),
            (who, _) => Step::text(&format!("{who} is back.")),
        })
    });
    let home = agents(&mock);
    let kernel = supervised(&home);
    let mut slow = asking(&home, "worker", "Slow");
    assert_eq!(mock.wait_for(1).len(), 1);
    let mut fast = asking(&home, "orchestrator_agent", "Fast");
    allow(&mut fast, "request_restart");
    fast.wait_for("waiting for it");
    mock.release();
    allow(&mut slow, "request_restart");
    slow.wait_for("a restart is under way");
    slow.wait_for("Slow is back.");
    fast.wait_for("Fast is back.");
    assert_eq!((slow.finish().output.status, fast.finish().output.status), (0, 0));
    let output = kernel.interrupt().success();
    assert_eq!(output.stdout.matches("asked to be started again").count(), 1, "{output}");
    assert_eq!(output.stdout.matches("kernel.restarted").count(), 1, "{output}");
    assert_eq!(mock.requests().len(), 4);
}

#[test]
fn an_agent_that_was_handed_a_task_can_ask_for_it_and_finishes_first() {
    let mock = MockModel::with([
        Step::calls("delegate_task", r#"{"agent_id":"worker","task":"Get a new tool."}"#),
        Step::calls("request_restart", RESTART),
        Step::text("I have asked for it."),
        Step::text("It is there."),
    ]);
    let home = agents(&mock);
    let kernel = supervised(&home);
    let mut person = asking(&home, "orchestrator_agent", "I need a tool");
    allow(&mut person, "request_restart");
    person.wait_for("It is there.");
    assert_eq!(person.finish().output.status, 0);
    let asked = mock.requests();
    assert_eq!(asked.len(), 4);
    let messages = asked[3].messages();
    assert!(messages[2].text.contains("I have asked for it."), "{}", messages[2].text);
    assert!(messages[3].text.starts_with("<kernel_notice nonce=\""), "{}", messages[3].text);
    kernel.interrupt().success();
}

#[test]
fn a_kernel_that_nobody_supervises_is_not_restarted_and_says_what_would_help() {
    let mock = MockModel::with([Step::calls("request_restart", RESTART), Step::text("I cannot.")]);
    let home = agents(&mock);
    let kernel = crate::scene::running(&home);
    let mut person = asking(&home, "worker", "Restart");
    allow(&mut person, "request_restart");
    person.wait_for("I cannot.");
    assert_eq!(person.finish().output.status, 0);
    let told = mock.requests()[1].last_text();
    assert!(told.contains("nothing is there that would start the kernel again"), "{told}");
    assert!(told.contains("skillhost run --supervised"), "{told}");
    kernel.interrupt().success();
}

#[test]
fn a_restart_needs_consent_whoever_is_asked() {
    let mock = MockModel::with([Step::calls("request_restart", RESTART), Step::text("No.")]);
    let home = agents(&mock);
    let kernel = supervised(&home);
    let mut command = home.command();
    command.args(["ask", "--agent", "worker", "--approve", "request_restart", "Restart"]);
    let output = home.start(&mut command).finish().success();
    assert_eq!(output.stdout, "No.\n");
    assert!(output.stderr.contains("this call asks every time"), "{output}");
    assert!(!kernel.interrupt().success().stdout.contains("asks for a restart"));
}

#[test]
fn native_exit_is_a_crash() {
    let mock = MockModel::new();
    let home = with_misbehaving(&mock);
    let kernel = supervised(&home);
    for code in [0, 2, 75] {
        let deed = format!(r#"{{"do":"exit","code":{code}}}"#);
        let output = home.skillhost(["tool", "call", "bad", &deed]).exits(1);
        assert_eq!(
            output.stderr,
            "error: the kernel ended before it answered; the call of `bad` may have happened\n\
             hint: look whether it has before you do it again\n"
        );
        let said = kernel.line_with("supervisor the kernel ended");
        assert!(said.contains(&format!("ended out of order with exit code {code}; ")), "{said}");
        kernel.line_with("running; Ctrl-C ends it");
    }
    kernel.interrupt().success();
}

#[test]
fn silent_kernel_is_killed_and_started_again() {
    let home = home();
    let mut command = home.command();
    command.env("SKILLHOST_SUPERVISOR__DELAY_MS", "1");
    command.env("SKILLHOST_SUPERVISOR__SILENCE_MS", "5000");
    let supervisor = home.start(command.args(["run", "--supervised", "--json"]));
    // Nothing in it runs any more, as if every thread were blocked.
    let kernel = started(&supervisor);
    kill_process(kernel, Signal::STOP).unwrap();
    let restarting: Value =
        serde_json::from_str(&supervisor.line_with("supervisor.restarting")).unwrap();
    let reason = "gave no sign of life for 5 s and was killed";
    assert_eq!(restarting["payload"]["reason"], reason);
    assert_ne!(started(&supervisor), kernel);
    supervisor.interrupt().success();
}

#[test]
fn kernel_ends_while_a_destructor_blocks() {
    let bad = "id: bad\nname: Bad\nentrypoint: misbehave\nconfig: {parts: {drop: block}}\n";
    let home = TestHome::new()
        .manifest("bad", bad)
        .library("bad", "misbehave", &test_support::example_library("misbehave"))
        .trusted();
    let gate = std::os::unix::net::UnixListener::bind(home.path("gate")).unwrap();
    let kernel = supervised(&home);
    let output = kernel.interrupt().success();
    assert!(output.stderr.contains("does not end, and is left behind"), "{output}");
    drop(gate);
}
