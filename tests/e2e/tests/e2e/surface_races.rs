//! Races of five surfaces for one decision: a client of the control socket, a second process, a form
//! of the console, a button of a chat, and the user of an MCP client.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use mock_model::MockModel;
use serde_json::{Value, json};
use skillhost_tasks::{
    ClaimFilter, NewQuestion, NewTask, NewWait, QuestionKind, SubmitterOrigin, TaskId, TaskKind,
    TaskSubmitter,
};
use test_support::Background;

use crate::console_client::ConsoleClient;
use crate::fixtures::{skill_md, start_kernel};
use crate::home_queue::HomeQueue;
use crate::inbox_races::{Race, RaceResult, connect, races, sha256_hex, socket_of, update_task};
use crate::mailbox::Mailbox;
use crate::mcp_client::Client;
use crate::mcp_consents::only_question;

const CHOICES: [&str; 2] = ["approve", "refuse"];
const SKILL: &str = "sandbox/skills/greet/SKILL.md";

/// A kernel that all surfaces reach, and what they need.
struct RaceScene {
    mailbox: Mailbox,
    /// Killed at the end: with many races it runs for longer than a command of a test may.
    _kernel: Background,
    console: ConsoleClient,
    queue: HomeQueue,
    client: Client,
    /// The number of the next file of the mailbox.
    next_file: usize,
}

/// A decision of a surface, in a thread of its own.
type SurfaceDecision<'a> = Box<dyn FnOnce(&'static str) -> RaceResult + Send + 'a>;

impl RaceScene {
    /// Starts a kernel whose owner has a conversation in the mailbox.
    fn start(mock: &MockModel) -> Self {
        // No worker takes the tasks that go on; deliveries have workers of their own.
        let settings = "tasks: {workers: 0}\nmcp: {consent: elicitation, review: elicitation}\n";
        let mailbox = Mailbox::new(mock, settings);
        mailbox.home.write(SKILL, greeting("Say hello to them."));
        let kernel = start_kernel(&mailbox.home);
        mailbox.pair(1, "1", &[]);
        mock.push(mock_model::Step::text("Hello."));
        mailbox.write(2, "hello", "1", "Hello");
        mailbox.wait_for_text("Hello.");
        let console = ConsoleClient::log_in(&mailbox.home);
        let queue = HomeQueue::open(&mailbox.home);
        let client = connect(&mailbox.home);
        Self { mailbox, _kernel: kernel, console, queue, client, next_file: 3 }
    }

    /// Lets all surfaces decide a question at once; `choices` are taken in turns. `answer`
    /// lets the user of the MCP client decide.
    fn run(
        &mut self,
        number: usize,
        question: Value,
        choices: [&'static str; 2],
        answer: impl FnOnce(&mut Client, &'static str, &str) -> RaceResult + Send,
    ) -> (Vec<RaceResult>, Value) {
        let home = &self.mailbox.home;
        let race = Race { home, socket: socket_of(home), question, number, choices };
        let (id, digest) = (race.text("id").to_owned(), race.text("digest").to_owned());
        let mailbox = &self.mailbox;
        let sent = mailbox.wait_for_question(&id);
        let (console, client, file) = (&self.console, &mut self.client, self.next_file);
        self.next_file += 1;
        let mut surfaces: Vec<SurfaceDecision<'_>> = vec![
            Box::new(|choice| race.decide_at_socket(choice)),
            Box::new(|choice| race.decide_in_process(choice)),
            Box::new(|choice| decide_in_console(console, &id, &digest, choice)),
            Box::new(|choice| {
                let reply = mailbox.press(file, &sent, usize::from(choice == "refuse"), "1");
                let has_decided = reply == format!("Decided: {choice}.");
                RaceResult { surface: "mailbox", has_decided, message: Some(reply) }
            }),
            Box::new(|choice| answer(client, choice, &id)),
        ];
        // Each surface is the first to start, in turns.
        let count = surfaces.len();
        surfaces.rotate_left(number % count);
        let mut results = decide_at_once(&race, surfaces);
        let closed = race.closed();
        for result in results.iter_mut().filter(|result| result.surface == "mcp") {
            result.has_decided = closed["decider"]["surface"] == "mcp";
        }
        (results, closed)
    }

    /// Checks that one surface has decided, that the others name who did, and that the button is gone.
    fn check(&self, results: &[RaceResult], closed: &Value) -> &'static str {
        let decided: Vec<_> = results.iter().filter(|result| result.has_decided).collect();
        let [decided] = decided[..] else { panic!("{results:#?} {closed}") };
        let by = closed["decider"]["name"].as_str().unwrap();
        let surface = closed["decider"]["surface"].as_str().unwrap();
        let is_named = match decided.surface {
            "socket" => ["socket", "terminal"].contains(&surface),
            "process" => ["inbox", "terminal"].contains(&surface),
            own => own == surface,
        };
        assert!(is_named, "{results:#?} {closed}");
        for other in results.iter().filter(|result| !result.has_decided) {
            // The update of a task's question is acknowledged without a message.
            let message = other.message.as_deref().unwrap_or(by);
            assert!(message.contains(by), "{by} {other:#?} {closed}");
        }
        let choice = closed["choice"].as_str().unwrap();
        let sent = self.mailbox.wait_for_question(closed["id"].as_str().unwrap());
        let edited = self.mailbox.wait_for_sent(|edited| edited["edits"] == sent["key"]);
        let text = edited["text"].as_str().unwrap();
        assert!(text.contains(&format!("Decided: {choice} — {by}")), "{edited}");
        assert!(edited["buttons"].is_null(), "{edited}");
        decided.surface
    }

    /// Lets a task of the client, which the person in the mailbox has started, wait for a consent;
    /// returns the client's handle of the task.
    fn park_task(&self, number: usize) -> (TaskId, String) {
        let home = &self.mailbox.home;
        let listed = home.skillhost(["threads", "list", "--json"]).success().json();
        let handle = format!("{number:040x}");
        let principal = "mcp:stdio".to_owned();
        let submitter = TaskSubmitter {
            origin: SubmitterOrigin::Mcp,
            principal: Some(principal.clone()),
            thread: listed["threads"][0]["id"].as_str().map(str::to_owned),
            ..TaskSubmitter::default()
        };
        let input = format!("{{\"text\":\"{number}\"}}");
        let task =
            self.queue.submit(NewTask { submitter, ..NewTask::new(TaskKind::Tool, "echo", input) });
        let question = NewQuestion {
            id: TaskId::generate().to_string(),
            thread: None,
            kind: QuestionKind::Consent,
            asker: "worker".into(),
            call: "call".into(),
            title: "race".into(),
            subject: json!({ "tool": "race", "number": number }).to_string(),
            options: CHOICES.map(str::to_owned).to_vec(),
        };
        let queue = &self.queue.queue;
        self.queue.runtime.block_on(async {
            let filter = ClaimFilter { targets: vec![(TaskKind::Tool, None)] };
            let lease = Duration::from_secs(60);
            let claimed = queue.claim("test", filter, 1, lease).await.unwrap().remove(0);
            let claim = claimed.task.current_claim().unwrap();
            let wait = NewWait { questions: vec![question], ..NewWait::default() };
            queue.wait(claim, wait).await.unwrap();
            let sha256 = sha256_hex(handle.as_bytes());
            queue.bind_handle(sha256, task.id.clone(), principal).await.unwrap();
        });
        (task.id, handle)
    }

    /// Lets the client propose a text; returns its call and the request to its user.
    fn propose(&mut self, text: &str) -> (u64, Value) {
        let arguments =
            json!({ "skill_id": "greet", "justification": "Politer.", "new_content": text });
        let call = json!({ "name": "propose_skill_update", "arguments": arguments });
        let call = self.client.send_request("tools/call", call);
        (call, self.client.notification("elicitation/create"))
    }
}

fn decide_in_console(
    client: &ConsoleClient,
    id: &str,
    digest: &str,
    choice: &'static str,
) -> RaceResult {
    let path = format!("/inbox/{id}");
    let reply = client.post(&path, &[("digest", digest), ("choice", choice)]);
    assert!([303, 409].contains(&reply.status), "{reply:?}");
    let has_decided = reply.status == 303;
    RaceResult { surface: "console", has_decided, message: Some(reply.body) }
}

/// Lets all surfaces decide at once, each in a thread of its own.
fn decide_at_once(race: &Race<'_>, surfaces: Vec<SurfaceDecision<'_>>) -> Vec<RaceResult> {
    let start = Barrier::new(surfaces.len());
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, decide) in surfaces.into_iter().enumerate() {
            let (start, choice) = (&start, race.choice(number));
            threads.push(scope.spawn(move || {
                start.wait();
                decide(choice)
            }));
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Returns the answer of a client's user to a request of its server, and the result of the call.
fn answer_request(client: &mut Client, asked: &Value, call: u64, choice: &str) -> RaceResult {
    let word = if choice == "refuse" { "reject" } else { choice };
    let content = json!({ "decision": word, "reason": "R." });
    let answer = json!({ "action": "accept", "content": content });
    client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer }));
    let made = client.response(call)["result"].take();
    let message = Some(made["content"][0]["text"].as_str().unwrap().to_owned());
    RaceResult { surface: "mcp", has_decided: false, message }
}

fn greeting(body: &str) -> String {
    skill_md("Greets people. Use when a person arrives.", body)
}

/// Prints how often each surface was the first, if the number of races says something about it.
#[expect(clippy::print_stderr, reason = "the figure is the result")]
fn report_winners(winners: &BTreeMap<&'static str, usize>) {
    eprintln!("the first surface of {} races: {winners:?}", races());
    // Otherwise it would be no race.
    assert!(winners.len() > 1 || races() < 100, "{winners:?}");
}

#[test]
fn five_surfaces_decide_consent_once() {
    let mock = MockModel::new();
    let mut scene = RaceScene::start(&mock);
    let mut winners = BTreeMap::new();
    for number in 0..races() {
        let (task, handle) = scene.park_task(number);
        let question = only_question(&scene.mailbox.home);
        let (results, closed) = scene.run(number, question, CHOICES, |client, choice, id| {
            update_task(client, &handle, id, &json!({ "decision": choice }))
        });
        *winners.entry(scene.check(&results, &closed)).or_default() += 1;
        // The decision has woken the task once.
        let woken = scene.queue.find(&task);
        assert!(woken.waits.questions.is_empty(), "{woken:?}");
        scene.queue.cancel(&task);
    }
    report_winners(&winners);
}

#[test]
fn five_surfaces_decide_proposal_once() {
    let mock = MockModel::new();
    let mut scene = RaceScene::start(&mock);
    let path = scene.mailbox.home.path(SKILL);
    let mut winners = BTreeMap::new();
    for number in 0..races() {
        let body = format!("Bow {number} times.");
        let (call, asked) = scene.propose(&greeting(&body));
        let question = only_question(&scene.mailbox.home);
        let (results, closed) = scene.run(number, question, CHOICES, |client, choice, _| {
            answer_request(client, &asked, call, choice)
        });
        *winners.entry(scene.check(&results, &closed)).or_default() += 1;
        let is_changed = std::fs::read_to_string(&path).unwrap().contains(&body);
        assert_eq!(is_changed, closed["choice"] == "approve", "{results:#?}");
    }
    report_winners(&winners);
}

#[test]
fn five_surfaces_approve_no_changed_skill() {
    let mock = MockModel::new();
    let mut scene = RaceScene::start(&mock);
    for number in 0..races() {
        let (call, asked) = scene.propose(&greeting(&format!("Bow {number} times.")));
        let changed = greeting(&format!("Wave {number} times."));
        let question = only_question(&scene.mailbox.home);
        // A question that is closed before it was sent has no button.
        scene.mailbox.wait_for_question(question["id"].as_str().unwrap());
        let home = scene.mailbox.home.root();
        std::fs::write(home.join(SKILL), &changed).unwrap();
        let (results, closed) = scene.run(number, question, ["approve"; 2], |client, choice, _| {
            answer_request(client, &asked, call, choice)
        });
        let decided: BTreeSet<_> =
            results.iter().filter(|it| it.has_decided).map(|it| it.surface).collect();
        assert!(decided.is_empty() && closed["state"] == "withdrawn", "{results:#?} {closed}");
        assert_eq!(std::fs::read_to_string(home.join(SKILL)).unwrap(), changed, "{results:#?}");
        // The next race has one question again.
        let stale = only_question(&scene.mailbox.home);
        let refused = ["inbox", "refuse", stale["id"].as_str().unwrap()];
        scene.mailbox.home.skillhost(refused).success();
    }
}
