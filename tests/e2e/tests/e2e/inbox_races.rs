//! Races of surfaces for the decision on one question: a terminal, a second process, the control
//! socket and the user of an MCP client.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use mock_model::{MockModel, Step};
use serde_json::{Value, json};
use skillhost_control::{ControlRequest, ControlResponse, QuestionDecision, send_request};
use skillhost_tasks::{
    ClaimFilter, NewQuestion, NewTask, NewWait, QuestionKind, SubmitterOrigin, TaskId, TaskKind,
    TaskSubmitter,
};
use test_support::TestHome;

use crate::agents_scene::agents_home;
use crate::fixtures::{home as skill_home, skill_md, start_kernel};
use crate::home_queue::HomeQueue;
use crate::mailbox::Mailbox;
use crate::mcp_client::{Client, VERSION};
use crate::mcp_consents::{consent_home, count_calls, newest_call, only_question, with_answer};

/// The number of races: small in the suite, 200 and more by the variable.
pub(crate) fn races() -> usize {
    std::env::var("SKILLHOST_RACES").ok().and_then(|count| count.parse().ok()).unwrap_or(3)
}

/// A surface that decides any question.
#[derive(Debug, Clone, Copy)]
enum InboxSurface {
    Process,
    Terminal,
    Socket,
}

const INBOX_SURFACES: [InboxSurface; 3] =
    [InboxSurface::Process, InboxSurface::Terminal, InboxSurface::Socket];

/// What a surface got to know.
#[derive(Debug)]
pub(crate) struct RaceResult {
    pub(crate) surface: &'static str,
    pub(crate) has_decided: bool,
    /// The message about the decision that counts, for a surface that was later; `None` where it is
    /// told nothing but the end.
    pub(crate) message: Option<String>,
}

/// A question in a race, with the home and the socket of its kernel.
pub(crate) struct Race<'a> {
    pub(crate) home: &'a TestHome,
    pub(crate) socket: PathBuf,
    pub(crate) question: Value,
    pub(crate) number: usize,
    pub(crate) choices: [&'static str; 2],
}

impl Race<'_> {
    pub(crate) fn text(&self, field: &str) -> &str {
        self.question[field].as_str().unwrap()
    }

    /// Returns the choice of the surface with a number: the surfaces never agree.
    pub(crate) fn choice(&self, surface: usize) -> &'static str {
        self.choices[(self.number + surface) % 2]
    }

    pub(crate) fn decide_in_process(&self, choice: &str) -> RaceResult {
        let id = self.text("id");
        let output = match choice {
            "approve" => {
                self.home.skillhost(["inbox", "approve", id, "--digest", self.text("digest")])
            }
            "refuse" => self.home.skillhost(["inbox", "refuse", id, "--reason", "No."]),
            answer => self.home.skillhost(["inbox", "answer", id, answer]),
        };
        assert!([0, 4].contains(&output.status), "{output}");
        let has_decided = output.status == 0;
        RaceResult { surface: "process", has_decided, message: Some(output.stderr) }
    }

    fn decide_on_terminal(&self, choice: &str) -> RaceResult {
        let mut command = self.home.command();
        let command = match choice {
            "approve" | "refuse" => command.args(["inbox", choice, self.text("id")]),
            answer => command.args(["inbox", "answer", self.text("id"), answer]),
        };
        let mut person = self.home.on_terminal(command, (100, 40));
        if choice == "approve" {
            // The question may be closed before it is shown.
            person.send("y\n");
        }
        let session = person.finish();
        assert!([0, 4].contains(&session.output.status), "{}", session.output);
        let has_decided = session.output.status == 0;
        RaceResult { surface: "terminal", has_decided, message: Some(session.output.stdout) }
    }

    pub(crate) fn decide_at_socket(&self, choice: &str) -> RaceResult {
        let decision = QuestionDecision {
            question: self.text("id").to_owned(),
            digest: self.text("digest").to_owned(),
            choice: choice.to_owned(),
            reason: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let request = ControlRequest::Decide(decision);
        let message = match runtime.block_on(send_request(&self.socket, &request)).unwrap() {
            ControlResponse::Done(_) => None,
            ControlResponse::Failed(error) => Some(error.message),
        };
        RaceResult { surface: "socket", has_decided: message.is_none(), message }
    }

    /// Lets the surfaces decide at once, each in a thread of its own, and the caller as the last one.
    fn run(
        &self,
        surfaces: &[InboxSurface],
        own: impl FnOnce(&'static str) -> RaceResult,
    ) -> Vec<RaceResult> {
        let start = Barrier::new(surfaces.len() + 1);
        thread::scope(|scope| {
            let decide = |(number, surface): (usize, &InboxSurface)| {
                let (start, surface) = (&start, *surface);
                scope.spawn(move || {
                    start.wait();
                    let choice = self.choice(number);
                    match surface {
                        InboxSurface::Process => self.decide_in_process(choice),
                        InboxSurface::Terminal => self.decide_on_terminal(choice),
                        InboxSurface::Socket => self.decide_at_socket(choice),
                    }
                })
            };
            let others: Vec<_> = surfaces.iter().enumerate().map(decide).collect();
            start.wait();
            let own = own(self.choice(surfaces.len()));
            let others = others.into_iter().map(|other| other.join().unwrap());
            others.chain([own]).collect()
        })
    }

    /// Lets all surfaces decide at once. The client answers the request of its server, in whose words
    /// a refusal may be another one, and its call returns.
    fn run_with_call(
        &self,
        client: &mut Client,
        asked: &Value,
        call: u64,
        refusal: &str,
    ) -> Vec<RaceResult> {
        let mut results = self.run(&INBOX_SURFACES, |choice| {
            let word = if choice == "refuse" { refusal } else { choice };
            let content = json!({ "decision": word, "reason": "R." });
            let answer = json!({ "action": "accept", "content": content });
            client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer }));
            let made = client.response(call)["result"].take();
            let message = Some(made["content"][0]["text"].as_str().unwrap().to_owned());
            RaceResult { surface: "mcp", has_decided: false, message }
        });
        results[3].has_decided = self.closed()["decider"]["surface"] == "mcp";
        results
    }

    /// Returns the question as it is.
    pub(crate) fn closed(&self) -> Value {
        let shown = self.home.skillhost(["inbox", "show", self.text("id"), "--json"]);
        shown.success().json()["question"].clone()
    }

    /// Checks that one surface has decided, and that the others name the decision and who made it.
    fn check(&self, results: &[RaceResult]) -> Value {
        let closed = self.closed();
        let decided: Vec<_> = results.iter().filter(|result| result.has_decided).collect();
        assert_eq!(decided.len(), 1, "{results:#?} {closed}");
        let is_client = closed["decider"]["surface"] == "mcp";
        assert_eq!(decided[0].surface == "mcp", is_client, "{results:#?} {closed}");
        let by = closed["decider"]["name"].as_str().unwrap();
        for other in results.iter().filter(|result| !result.has_decided) {
            let message = other.message.as_deref().unwrap_or(by);
            assert!(message.contains(by), "{by} {other:#?} {closed}");
        }
        closed
    }
}

/// Returns the only socket of a home's kernel.
pub(crate) fn socket_of(home: &TestHome) -> PathBuf {
    let entries = std::fs::read_dir(home.outside().join("run/skillhost")).unwrap();
    let mut sockets = entries.map(|entry| entry.unwrap().path());
    sockets.find(|path| path.extension().is_some_and(|it| it == "sock")).unwrap()
}

pub(crate) fn connect(home: &TestHome) -> Client {
    let mut client = Client::spawn(home.command().arg("mcp"));
    client.initialize(VERSION, &json!({ "elicitation": {} }));
    client
}

#[test]
fn consent_races_have_one_decision() {
    let home = consent_home("mcp: {consent: elicitation}\n");
    let kernel = start_kernel(&home);
    let mut client = connect(&home);
    let mut approved = 0;
    let mut winners = BTreeSet::new();
    for number in 0..races() {
        let call = json!({ "name": "bad", "arguments": { "do": "key" } });
        let call = client.send_request("tools/call", call);
        let asked = client.notification("elicitation/create");
        let (question, socket) = (only_question(&home), socket_of(&home));
        let choices = ["approve", "refuse"];
        let race = Race { home: &home, socket, question, number, choices };
        let results = race.run_with_call(&mut client, &asked, call, "refuse");
        let closed = race.check(&results);
        approved += usize::from(closed["choice"] == "approve");
        winners.extend(results.iter().filter(|it| it.has_decided).map(|it| it.surface));
        // What was decided is what was done.
        assert_eq!(count_calls(&home), approved, "{results:#?}");
    }
    // Otherwise it would be no race.
    assert!(winners.len() > 1 || races() < 100, "{winners:?}");
    kernel.interrupt().success();
}

#[test]
fn proposal_races_have_one_decision() {
    let home = skill_home().settings("mcp: {review: elicitation}");
    let text = || std::fs::read_to_string(home.path("sandbox/skills/greet/SKILL.md")).unwrap();
    let kernel = start_kernel(&home);
    let mut client = connect(&home);
    for number in 0..races() {
        let body = format!("Bow {number} times.");
        let call = json!({
            "name": "propose_skill_update",
            "arguments": {
                "skill_id": "greet", "justification": "Politer.",
                "new_content": skill_md("Greets people. Use when somebody arrives.", &body),
            },
        });
        let call = client.send_request("tools/call", call);
        let asked = client.notification("elicitation/create");
        let (question, socket) = (only_question(&home), socket_of(&home));
        let choices = ["approve", "refuse"];
        let race = Race { home: &home, socket, question, number, choices };
        let results = race.run_with_call(&mut client, &asked, call, "reject");
        let closed = race.check(&results);
        assert_eq!(text().contains(&body), closed["choice"] == "approve", "{results:#?}");
    }
    kernel.interrupt().success();
}

#[test]
fn changed_bytes_of_races_are_not_executed() {
    let home = consent_home("mcp: {consent: elicitation}\n");
    let path = "sandbox/extensions/x/manifest.yaml";
    let manifest = || std::fs::read_to_string(home.path(path)).unwrap();
    let mut client = Client::spawn(home.command().arg("mcp"));
    for number in 0..races() {
        home.write(path, format!("id: shown{number}\n"));
        let content = format!("id: wanted{number}\n");
        let arguments = json!({ "path": "extensions/x/manifest.yaml", "content": content });
        let call = newest_call("write_file", &arguments);
        let asked = client.result("tools/call", &call);
        let question = only_question(&home);
        let changed = format!("id: changed{number}\n");
        home.write(path, &changed);
        // Approved as shown, by the client or the inbox, it is not what would be done.
        let (id, digest) = (question["id"].as_str().unwrap(), question["digest"].as_str().unwrap());
        if number.is_multiple_of(2) {
            home.skillhost(["inbox", "approve", id, "--digest", digest]).success();
        }
        let answer = json!({ "action": "accept", "content": { "decision": "approve" } });
        let made = client.result("tools/call", with_answer(&call, &asked, &answer));
        assert_eq!((&made["isError"], manifest()), (&json!(true), changed), "{made}");
    }
}

#[test]
fn changed_skills_of_races_are_not_executed() {
    let home = skill_home().settings("mcp: {review: elicitation}");
    let path = "sandbox/skills/greet/SKILL.md";
    let text = || std::fs::read_to_string(home.path(path)).unwrap();
    let description = "Greets people. Use when somebody arrives.";
    let mut client = connect(&home);
    for number in 0..races() {
        let wanted = skill_md(description, &format!("Bow {number} times."));
        let call = json!({
            "name": "propose_skill_update",
            "arguments": {
                "skill_id": "greet", "justification": "Politer.", "new_content": wanted,
            },
        });
        let call = client.send_request("tools/call", call);
        let asked = client.notification("elicitation/create");
        let question = only_question(&home);
        let changed = skill_md(description, &format!("Wave {number} times."));
        home.write(path, &changed);
        let (id, digest) = (question["id"].as_str().unwrap(), question["digest"].as_str().unwrap());
        if number.is_multiple_of(2) {
            home.skillhost(["inbox", "approve", id, "--digest", digest]).exits(4);
        }
        let answer = json!({ "action": "accept", "content": { "decision": "approve" } });
        client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer }));
        let made = client.response(call);
        assert_eq!(text(), changed, "{made}");
        // The next race has one question again.
        let stale = only_question(&home);
        home.skillhost(["inbox", "refuse", stale["id"].as_str().unwrap()]).success();
    }
}

/// Lets a task of a client wait for a question; returns the client's handle of the task.
fn park_task(queue: &HomeQueue, kind: QuestionKind, choices: [&str; 2], number: usize) -> String {
    let handle = format!("{number:040x}");
    let principal = "mcp:stdio".to_owned();
    let submitter = TaskSubmitter {
        origin: SubmitterOrigin::Mcp,
        principal: Some(principal.clone()),
        ..TaskSubmitter::default()
    };
    let task = queue.submit(NewTask {
        submitter,
        ..NewTask::new(TaskKind::Tool, "echo", format!("{{\"text\":\"{number}\"}}"))
    });
    let question = NewQuestion {
        id: TaskId::generate().to_string(),
        thread: None,
        kind,
        asker: "worker".into(),
        call: "call".into(),
        title: "Where to?".into(),
        subject: json!({ "question": "Where to?", "number": number }).to_string(),
        options: choices.map(str::to_owned).to_vec(),
    };
    queue.runtime.block_on(async {
        let (filter, lease) = (ClaimFilter::default(), Duration::from_secs(60));
        let claimed = queue.queue.claim("test", filter, 1, lease).await.unwrap().remove(0);
        let claim = claimed.task.current_claim().unwrap();
        let wait = NewWait { questions: vec![question], ..NewWait::default() };
        queue.queue.wait(claim, wait).await.unwrap();
        let sha256 = sha256_hex(handle.as_bytes());
        queue.queue.bind_handle(sha256, task.id.clone(), principal).await.unwrap();
    });
    handle
}

pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn task_question_races_have_one_decision() {
    // The client may answer a choice, and with the setting a consent.
    let kinds = [
        (QuestionKind::Consent, ["approve", "refuse"], true),
        (QuestionKind::Choice, ["north", "south"], true),
        (QuestionKind::Uncertain, ["again", "stop"], false),
        (QuestionKind::Build, ["approve", "refuse"], false),
    ];
    // No worker takes the tasks that go on.
    let home = consent_home("tasks: {workers: 0}\nmcp: {consent: elicitation}\n");
    let queue = HomeQueue::open(&home);
    let kernel = start_kernel(&home);
    let mut client = Client::spawn(home.command().arg("mcp"));
    let kinds = kinds.into_iter().flat_map(|kind| std::iter::repeat_n(kind, races()));
    for (number, (kind, choices, is_permitted)) in kinds.enumerate() {
        let handle = park_task(&queue, kind, choices, number);
        let (question, socket) = (only_question(&home), socket_of(&home));
        let race = Race { home: &home, socket, question, number, choices };
        let id = race.text("id").to_owned();
        let mut results = race.run(&INBOX_SURFACES, |choice| {
            let content = json!({ "answer": choice, "decision": choice });
            update_task(&mut client, &handle, &id, &content)
        });
        results[3].has_decided = race.closed()["decider"]["surface"] == "mcp";
        let closed = race.check(&results);
        assert!(is_permitted || !results[3].has_decided, "{closed}");
        // The decision has woken the task once; the next race has a task of its own.
        let task = queue.only_ready_task();
        assert!(task.waits.questions.is_empty(), "{task:?}");
        queue.cancel(&task.id);
    }
    kernel.interrupt().success();
}

/// Answers the question of a task as its MCP client; the reply acknowledges it, whichever decision
/// counts.
pub(crate) fn update_task(
    client: &mut Client,
    handle: &str,
    question: &str,
    content: &Value,
) -> RaceResult {
    let mut update = newest_call("", &json!({}));
    let extensions = json!({ "io.modelcontextprotocol/tasks": {} });
    update["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"] = extensions;
    update["taskId"] = json!(handle);
    update["inputResponses"] = json!({ question: { "action": "accept", "content": content } });
    let _ = client.result("tasks/update", update);
    RaceResult { surface: "mcp", has_decided: false, message: None }
}

#[test]
fn button_races_have_one_decision() {
    let mock = MockModel::new();
    let mailbox = Mailbox::new(&mock, "");
    let home = &mailbox.home;
    let kernel = start_kernel(home);
    mailbox.pair(1, "1", &[]);
    mock.push(Step::text("Hello."));
    mailbox.write(2, "hello", "1", "Hello");
    mailbox.wait_for_text("Hello.");
    let listed = home.skillhost(["threads", "list", "--json"]).success().json();
    let thread = listed["threads"][0]["id"].as_str().unwrap().to_owned();
    let queue = HomeQueue::open(home);
    let mut winners = BTreeSet::new();
    for number in 0..races() {
        let new = NewQuestion {
            id: TaskId::generate().to_string(),
            thread: Some(thread.clone()),
            kind: QuestionKind::Consent,
            asker: "worker".into(),
            call: format!("live:{number}"),
            title: "race".into(),
            subject: json!({ "tool": "race", "number": number }).to_string(),
            options: vec!["approve".into(), "refuse".into()],
        };
        let asked = queue.runtime.block_on(queue.queue.ask(new)).unwrap();
        let sent = mailbox.wait_for_sent(|sent| {
            sent["buttons"].is_array() && sent["text"].as_str().unwrap().contains(&asked.id)
        });
        let (question, socket) = (only_question(home), socket_of(home));
        let choices = ["approve", "refuse"];
        let race = Race { home, socket, question, number, choices };
        let results = race.run(&INBOX_SURFACES, |choice| {
            let button = usize::from(choice == "refuse");
            let reply = mailbox.press(3 + number, &sent, button, "1");
            let has_decided = reply == format!("Decided: {choice}.");
            RaceResult { surface: "button", has_decided, message: Some(reply) }
        });
        let closed = race.check(&results);
        winners.extend(results.iter().filter(|it| it.has_decided).map(|it| it.surface));
        // Every copy loses its buttons and names the decision.
        let edited = mailbox.wait_for_sent(|edited| edited["edits"] == sent["key"]);
        let text = edited["text"].as_str().unwrap();
        let decided = format!("Decided: {}", closed["choice"].as_str().unwrap());
        assert!(text.contains(&decided) && edited["buttons"].is_null(), "{edited}");
    }
    assert!(winners.len() > 1 || races() < 100, "{winners:?}");
    kernel.interrupt().success();
}

#[test]
fn conversation_races_have_one_decision() {
    let mock = MockModel::new();
    let home = agents_home(&mock);
    let kernel = start_kernel(&home);
    for number in 0..races() {
        let file = format!("notes{number}.txt");
        let write = json!({ "path": file, "content": "kept" }).to_string();
        mock.push(Step::calls("write_file", &write));
        mock.push(Step::text("Done.").held());
        let mut ask = home.command();
        ask.args(["ask", "--agent", "worker", "Write"]);
        let mut person = home.on_terminal(&mut ask, (100, 40));
        person.wait_for("[N]o");
        let (question, socket) = (only_question(&home), socket_of(&home));
        let choices = ["approve", "refuse"];
        let race = Race { home: &home, socket, question, number, choices };
        let surfaces = [InboxSurface::Process, InboxSurface::Socket];
        let mut results = race.run(&surfaces, |choice| {
            person.send(if choice == "approve" { "y\n" } else { "n\n" });
            RaceResult { surface: "terminal", has_decided: false, message: None }
        });
        let is_elsewhere = results.iter().any(|result| result.has_decided);
        if is_elsewhere {
            let closed = race.closed();
            let decider = &closed["decider"];
            let (name, surface) = (&decider["name"], &decider["surface"]);
            let by = format!("by {} ({})", name.as_str().unwrap(), surface.as_str().unwrap());
            person.wait_for(&by);
        }
        results[2].has_decided = !is_elsewhere;
        let _ = mock.wait_for(2 * number + 2);
        mock.release();
        let session = person.finish();
        assert_eq!(session.output.status, 0, "{}", session.output);
        let closed = race.check(&results);
        let is_written = home.path(format!("sandbox/{file}")).exists();
        assert_eq!(is_written, closed["choice"] == "approve", "{results:#?}");
    }
    kernel.interrupt().success();
}
