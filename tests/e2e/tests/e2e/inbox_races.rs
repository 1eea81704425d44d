//! Races of surfaces for the decision on one question: a terminal, a second process, the control
//! socket and the user of an MCP client.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};
use skillhost_control::{ControlRequest, ControlResponse, QuestionDecision, send_request};
use test_support::TestHome;

use crate::fixtures::{home as skill_home, skill_md, start_kernel};
use crate::mcp_client::{Client, VERSION};
use crate::mcp_consents::{consent_home, count_calls, newest_call, only_question, with_answer};

/// The number of races: small in the suite, 200 and more by the variable.
fn races() -> usize {
    std::env::var("SKILLHOST_RACES").ok().and_then(|count| count.parse().ok()).unwrap_or(3)
}

/// What a surface got to know.
#[derive(Debug)]
struct RaceResult {
    surface: &'static str,
    has_decided: bool,
    /// The message about the decision that counts, for a surface that was later.
    message: String,
}

/// A question in a race, with the home and the socket of its kernel.
struct Race<'a> {
    home: &'a TestHome,
    socket: PathBuf,
    question: Value,
    number: usize,
}

impl Race<'_> {
    fn text(&self, field: &str) -> &str {
        self.question[field].as_str().unwrap()
    }

    /// Returns the choice of the surface with a number: the surfaces never agree.
    fn approves(&self, surface: usize) -> bool {
        (self.number + surface).is_multiple_of(2)
    }

    fn decide_in_process(&self, approves: bool) -> RaceResult {
        let id = self.text("id");
        let output = match approves {
            true => self.home.skillhost(["inbox", "approve", id, "--digest", self.text("digest")]),
            false => self.home.skillhost(["inbox", "refuse", id, "--reason", "No."]),
        };
        assert!([0, 4].contains(&output.status), "{output}");
        let has_decided = output.status == 0;
        RaceResult { surface: "process", has_decided, message: output.stderr }
    }

    fn decide_on_terminal(&self, approves: bool) -> RaceResult {
        let answer = if approves { "approve" } else { "refuse" };
        let mut command = self.home.command();
        let command = command.args(["inbox", answer, self.text("id")]);
        let mut person = self.home.on_terminal(command, (100, 40));
        if approves {
            // The question may be closed before it is shown.
            person.send("y\n");
        }
        let session = person.finish();
        assert!([0, 4].contains(&session.output.status), "{}", session.output);
        let has_decided = session.output.status == 0;
        RaceResult { surface: "terminal", has_decided, message: session.output.stdout }
    }

    fn decide_at_socket(&self, approves: bool) -> RaceResult {
        let decision = QuestionDecision {
            question: self.text("id").to_owned(),
            digest: self.text("digest").to_owned(),
            choice: if approves { "approve" } else { "refuse" }.to_owned(),
            reason: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let request = ControlRequest::Decide(decision);
        match runtime.block_on(send_request(&self.socket, &request)).unwrap() {
            ControlResponse::Done(_) => {
                RaceResult { surface: "socket", has_decided: true, message: String::new() }
            }
            ControlResponse::Failed(error) => {
                RaceResult { surface: "socket", has_decided: false, message: error.message }
            }
        }
    }

    /// Lets all surfaces decide at once. The client answers the request of its server, which has the
    /// answers of `words`, and its call returns.
    fn run(
        &self,
        client: &mut Client,
        asked: &Value,
        call: u64,
        words: [&str; 2],
    ) -> Vec<RaceResult> {
        let start = Barrier::new(4);
        let word = words[usize::from(!self.approves(3))];
        let answer = json!({ "action": "accept", "content": { "decision": word, "reason": "R." } });
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer });
        thread::scope(|scope| {
            let at_start = |decide: fn(&Self, bool) -> RaceResult, number: usize| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    decide(self, self.approves(number))
                })
            };
            let others = [
                at_start(Self::decide_in_process, 0),
                at_start(Self::decide_on_terminal, 1),
                at_start(Self::decide_at_socket, 2),
            ];
            start.wait();
            client.send(&answer);
            let made = client.response(call)["result"].take();
            let mut results: Vec<_> =
                others.into_iter().map(|other| other.join().unwrap()).collect();
            let message = made["content"][0]["text"].as_str().unwrap().to_owned();
            let has_decided = self.closed()["decider"]["surface"] == "mcp";
            results.push(RaceResult { surface: "mcp", has_decided, message });
            results
        })
    }

    /// Returns the question as it is.
    fn closed(&self) -> Value {
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
            assert!(other.message.contains(by), "{by} {other:#?} {closed}");
        }
        closed
    }
}

/// Returns the only socket of a home's kernel.
fn socket_of(home: &TestHome) -> PathBuf {
    let entries = std::fs::read_dir(home.outside().join("run/skillhost")).unwrap();
    let mut sockets = entries.map(|entry| entry.unwrap().path());
    sockets.find(|path| path.extension().is_some_and(|it| it == "sock")).unwrap()
}

fn connect(home: &TestHome) -> Client {
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
        let race = Race { home: &home, socket, question, number };
        let results = race.run(&mut client, &asked, call, ["approve", "refuse"]);
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
        let race = Race { home: &home, socket, question, number };
        let results = race.run(&mut client, &asked, call, ["approve", "reject"]);
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
