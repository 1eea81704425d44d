//! Kills of the kernel at random moments while tasks run: with calls, subtasks, approvals, notices
//! and turns. Every task ends once, and no call whose effect is `once` is made twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mock_model::{MockModel, MockRequest, Step, Wire};
use serde_json::{Value, json};
use skillhost_tasks::{
    Decider, Decision, EndNotice, NewTask, QuestionKind, SubmitterOrigin, Task, TaskBudget,
    TaskFilter, TaskKind, TaskOutcome, TaskQuery, TaskState, TaskSubmitter,
};
use test_support::{STUCK_AFTER, TestHome, example_library};

use crate::agents_scene::{ask_agent, last_thread};
use crate::fixtures::{agent_manifest, shipped_manifest, start_kernel};
use crate::home_queue::HomeQueue;

/// More than any list of the test has.
const ALL: usize = 100_000;
/// The longest life of a kernel that works.
const LIFE_US: u64 = 250_000;
/// The longest life of a kernel that is killed at its start.
const START_US: u64 = 400_000;
/// The limit of model requests of some tasks.
const TURNS: u64 = 12;

/// The numbers of one test.
struct KillPlan {
    tasks: usize,
    kills: usize,
    seed: u64,
}

/// The number of model requests of each task, by the first line of its text.
type RequestCounts = Arc<Mutex<BTreeMap<String, u64>>>;

#[test]
fn killed_kernel_ends_each_task_once() {
    check_kills(&KillPlan { tasks: 10, kills: 12, seed: 1 });
}

/// The complete measurement; `SKILLHOST_KILLS` and `SKILLHOST_SEED` select others.
#[test]
#[ignore = "takes a quarter of an hour"]
fn thousand_kills_end_each_task_once() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("SKILLHOST_KILLS").map_or(1_000, |kills| usize::try_from(kills).unwrap());
    let seed = number("SKILLHOST_SEED").unwrap_or(2);
    check_kills(&KillPlan { tasks: kills * 3 / 10, kills, seed });
}

/// A home whose kernel is killed.
struct KilledHome {
    home: TestHome,
    thread: String,
    queue: HomeQueue,
    submitted: Vec<Task>,
    /// The dead letters that were retried.
    retried_turns: usize,
}

fn check_kills(plan: &KillPlan) {
    let mock = MockModel::new();
    let requests = answer_tasks(&mock);
    let home = kills_home(&mock);
    ask_agent(&home, "worker", "Begin").success();
    let thread = last_thread(&home);
    let queue = HomeQueue::open(&home);
    let mut killed = KilledHome { home, thread, queue, submitted: Vec::new(), retried_turns: 0 };
    let deciding = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let decider = HomeQueue::open(&killed.home);
        let asked = &deciding;
        scope.spawn(move || decide_questions(&decider, asked));
        // Also if a check fails, so that the scope ends.
        let _end = StopGuard(&deciding);
        killed.kill_kernels(plan);
        killed.finish_tasks();
    });
    let tasks = killed.all_tasks();
    killed.check_ends(&tasks);
    let calls = killed.check_effects(&tasks);
    let overspend = killed.check_spending(&tasks, &requests.lock().unwrap());
    killed.report(plan, &tasks, calls, overspend);
}

/// Clears the flag when dropped.
struct StopGuard<'a>(&'a AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl KilledHome {
    fn kill_kernels(&mut self, plan: &KillPlan) {
        let mut random = RandomMoments(plan.seed);
        for kill in 0..plan.kills {
            // A few at a time, so that every kernel has work.
            let due = 3 + plan.tasks * (kill + 1) / plan.kills;
            while self.submitted.len() < due.min(plan.tasks) {
                let new = new_task(self.submitted.len(), &self.thread);
                self.submitted.push(self.queue.submit(new));
            }
            let kernel = self.home.start(self.home.command().arg("run"));
            // Every fifth is killed while it starts.
            if random.below(5) > 0 {
                kernel.line_with("running; Ctrl-C ends it");
                std::thread::sleep(Duration::from_micros(random.below(LIFE_US)));
            } else {
                std::thread::sleep(Duration::from_micros(random.below(START_US)));
            }
            // Dropped, the kernel is killed.
            drop(kernel);
        }
    }

    /// Lets a kernel end all tasks in peace, and everything that follows from their ends.
    fn finish_tasks(&mut self) {
        let kernel = start_kernel(&self.home);
        // The test is stuck when nothing has ended for a time: a thousand kills leave much to do.
        let (mut left, mut start) = (usize::MAX, Instant::now());
        let is_open = |task: &Task| !task.state.is_terminal();
        loop {
            let open: Vec<_> = self.all_tasks().into_iter().filter(is_open).collect();
            let outbox = self.queue.runtime.block_on(self.queue.queue.outbox(1)).unwrap();
            let missing = self.submitted.iter().filter(|task| self.count_ends_in_thread(task) == 0);
            let missing: Vec<_> = missing.map(|task| (&task.id, task.on_end)).collect();
            if open.is_empty() && outbox.is_empty() && missing.is_empty() {
                break;
            }
            if open.len() + missing.len() < left {
                (left, start) = (open.len() + missing.len(), Instant::now());
            }
            if start.elapsed() > STUCK_AFTER {
                let dead = self.home.skillhost(["event", "dead-letters"]).success();
                let tail = self.home.skillhost(["event", "tail", "-n", "40"]).success();
                panic!("no ends of {missing:?}\n{outbox:?}\n{open:#?}\n{dead}\n{tail}");
            }
            // A message whose attempts all ended with the process is a dead letter, which an operator
            // retries: so a message that kills the kernel does not do it for ever.
            self.retry_turns();
            let store = self.queue.queue.store();
            self.queue.runtime.block_on(store.wait_for_change(Duration::from_millis(200)));
        }
        kernel.interrupt().success();
    }

    /// Retries the turns of `wake` that became dead letters. A notice must never be one.
    fn retry_turns(&mut self) {
        let dead = self.home.skillhost(["event", "dead-letters", "--json"]).success();
        for line in dead.stdout.lines() {
            let letter: Value = serde_json::from_str(line).unwrap();
            // Without any, the only line is an empty list.
            if letter["dead"].is_array() {
                return;
            }
            assert_eq!(letter["subscriber"], "kernel:user.message", "{letter}");
            self.home.skillhost(["event", "retry", &letter["id"].to_string()]).success();
            self.retried_turns += 1;
        }
    }

    fn all_tasks(&self) -> Vec<Task> {
        let filter = TaskFilter { limit: ALL, ..TaskFilter::default() };
        self.queue.runtime.block_on(self.queue.queue.list(filter)).unwrap()
    }

    /// Returns the number of notices of a task, or of messages, in the thread.
    fn count_ends_in_thread(&self, task: &Task) -> usize {
        let path = self.home.path(format!("sandbox/data/kernel/threads/{}.jsonl", self.thread));
        let key = format!(r#""task-{}""#, task.id);
        let text = fs::read_to_string(path).unwrap();
        let is_end = |line: &&str| {
            line.contains(&key)
                && (line.contains(r#""entry":"notice""#) || line.contains(r#""role":"user""#))
        };
        text.lines().filter(is_end).count()
    }

    /// Checks that each task has one end, one event and, where it has a thread, one notice.
    fn check_ends(&self, tasks: &[Task]) {
        let questions = self.queue.runtime.block_on(self.queue.queue.open_questions(ALL)).unwrap();
        assert!(questions.is_empty(), "{questions:#?}");
        let mut ends: BTreeMap<String, usize> = BTreeMap::new();
        for id in self.ended_ids() {
            *ends.entry(id).or_default() += 1;
        }
        assert_eq!(ends.len(), tasks.len());
        for task in tasks {
            assert_eq!(ends.get(task.id.as_str()), Some(&1), "events of {task:#?}");
            let query = TaskQuery::Attempts(task.id.clone());
            let attempts = self.queue.runtime.block_on(self.queue.queue.store().read(query));
            let skillhost_tasks::QueryResult::Attempts(attempts) = attempts.unwrap() else {
                panic!("not the attempts")
            };
            assert!(attempts.iter().all(|attempt| attempt.ended_ms.is_some()), "{attempts:#?}");
        }
        for task in &self.submitted {
            assert_eq!(self.count_ends_in_thread(task), 1, "notices of {task:#?}");
        }
    }

    fn ended_ids(&self) -> Vec<String> {
        let arguments = ["event", "tail", "--topic", "task.ended", "--lines", "100000", "--json"];
        let events = self.home.skillhost(arguments).success();
        let parse = |line: &str| serde_json::from_str::<Value>(line).ok();
        let events = events.stdout.lines().filter_map(parse);
        events.filter_map(|event| Some(event["payload"]["task"].as_str()?.to_owned())).collect()
    }

    /// Checks that no call with the effect `once` was made twice, by key or by task, and that calls
    /// with the effect `keyed` were repeated with their keys only; returns the number of calls.
    fn check_effects(&self, tasks: &[Task]) -> usize {
        let record = fs::read_to_string(self.home.path("record")).unwrap();
        let mut once: BTreeMap<&str, usize> = BTreeMap::new();
        let mut keys: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for line in record.lines() {
            if let Some((key, label)) =
                line.strip_prefix("bad bad ").and_then(|rest| rest.split_once(' '))
            {
                *once.entry(key).or_default() += 1;
                *once.entry(label).or_default() += 1;
            } else if let Some((key, label)) =
                line.strip_prefix("kept kept ").and_then(|rest| rest.split_once(' '))
            {
                keys.entry(label).or_default().insert(key);
            }
        }
        let doubled: Vec<_> = once.iter().filter(|(_, count)| **count > 1).collect();
        assert!(doubled.is_empty(), "{doubled:?}");
        assert!(keys.values().all(|keys| keys.len() == 1), "{keys:#?}");
        let completed = tasks.iter().filter(|task| task.state == TaskState::Completed).count();
        assert!(completed > 0);
        once.len() / 2 + keys.len()
    }

    /// Checks that at most one request of each task exceeds what it has spent, and its budget;
    /// returns the largest excess.
    fn check_spending(&self, tasks: &[Task], requests: &BTreeMap<String, u64>) -> u64 {
        let mut excess = 0;
        for task in tasks {
            let input = self.queue.runtime.block_on(self.queue.queue.input(&task.id)).unwrap();
            let made = requests.get(&input.unwrap()).copied().unwrap_or_default();
            let limit = task.budget.turns.unwrap_or(u64::MAX);
            let over = made.saturating_sub(task.spent.turns.min(limit));
            assert!(over <= 1, "{made} requests of {task:#?}");
            excess = excess.max(over);
        }
        excess
    }

    /// Writes the figures into the file that a variable names.
    fn report(&self, plan: &KillPlan, tasks: &[Task], calls: usize, overspend: u64) {
        let Some(path) = std::env::var_os("SKILLHOST_FIGURES") else { return };
        let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
        for task in tasks {
            let name = match &task.outcome {
                Some(TaskOutcome::Failed { reason, .. }) => format!("failed: {reason:?}"),
                _ => task.state.as_str().to_owned(),
            };
            *outcomes.entry(name).or_default() += 1;
        }
        let (mut lost, mut attempts) = (0, 0);
        for task in tasks {
            let query = TaskQuery::Attempts(task.id.clone());
            let read = self.queue.runtime.block_on(self.queue.queue.store().read(query));
            if let skillhost_tasks::QueryResult::Attempts(all) = read.unwrap() {
                attempts += all.len();
                lost += all.iter().filter(|one| one.how.as_deref() == Some("lost")).count();
            }
        }
        let query =
            TaskQuery::Questions { state: None, kind: None, task: None, thread: None, limit: ALL };
        let questions = self.queue.runtime.block_on(self.queue.queue.questions(query)).unwrap();
        let uncertain = questions.iter().filter(|one| one.kind == QuestionKind::Uncertain).count();
        let figures = json!({
            "kills": plan.kills,
            "seed": plan.seed,
            "tasks": {"submitted": self.submitted.len(), "all": tasks.len()},
            "outcomes": outcomes,
            "attempts": attempts,
            "attempts_cut_off": lost,
            "questions": {"all": questions.len(), "uncertain": uncertain},
            "dead_letters_retried": self.retried_turns,
            "calls_of_record": calls,
            "once_doubled": 0,
            "largest_overspend_requests": overspend,
        });
        fs::write(path, format!("{figures:#}\n")).unwrap();
    }
}

/// Creates a home with an agent whose tools record the key of each call: `bad` with the effect
/// `once`, `kept` with the effect `keyed`.
fn kills_home(mock: &MockModel) -> TestHome {
    let manifest = |id: &str, effect: &str| {
        format!("id: {id}\nname: A tool\nentrypoint: misbehave\nconfig: {{effect: {effect}}}\n")
    };
    let worker = "  instructions: You work.\n  uses_tools: [bad, kept, tasks, core_tools]\n";
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("core_tools", &shipped_manifest("core_tools"))
        .manifest("bad", &manifest("bad", "once"))
        .library("bad", "misbehave", &example_library("misbehave"))
        .manifest("kept", &manifest("kept", "keyed"))
        .library("kept", "misbehave", &example_library("misbehave"))
        .manifest("worker", &agent_manifest("worker", worker))
        .settings(&mock.settings(Wire::Openai))
        .trusted()
}

fn new_task(number: usize, thread: &str) -> NewTask {
    let turns = number.is_multiple_of(2).then_some(TURNS);
    NewTask {
        key: Some(format!("task {number}")),
        submitter: TaskSubmitter {
            origin: SubmitterOrigin::Operator,
            thread: Some(thread.to_owned()),
            agent: Some("worker".to_owned()),
            ..TaskSubmitter::default()
        },
        on_end: if number % 5 == 4 { EndNotice::Wake } else { EndNotice::Note },
        budget: TaskBudget { turns, ..TaskBudget::default() },
        ..NewTask::new(TaskKind::Agent, "worker", format!("Work {number}."))
    }
}

/// Answers each request from its messages alone, so that a killed run gets the same replies again.
fn answer_tasks(mock: &MockModel) -> RequestCounts {
    let counts = RequestCounts::default();
    let counted = Arc::clone(&counts);
    mock.answer_with(move |request| {
        let (text, results) = task_and_results(request);
        *counted.lock().unwrap().entry(text.clone()).or_default() += 1;
        let number = |prefix: &str| {
            text.strip_prefix(prefix)?.strip_suffix('.').and_then(|rest| rest.parse::<u64>().ok())
        };
        let record = |tool: &str, label: &str| {
            Step::calls(tool, &json!({"do": "key", "label": label}).to_string())
        };
        Some(match (number("Work "), number("Part "), results.as_slice()) {
            (Some(_), _, []) | (_, Some(_), []) => record("bad", &text),
            (Some(n), _, [_]) => match n % 4 {
                0 => Step::calls(
                    "submit_task",
                    &json!({"agent": "worker", "task": format!("Part {n}."), "key": "part",
                            "budget": {"turns": 4}})
                    .to_string(),
                ),
                1 => Step::calls(
                    "write_file",
                    &json!({"path": format!("note-{n}.txt"), "content": "kept"}).to_string(),
                ),
                2 => record("kept", &text),
                _ => record("bad", &format!("{text} again")),
            },
            (Some(n), _, [_, submitted]) if n % 4 == 0 => {
                let id =
                    submitted.split("\"task\":").nth(1).and_then(|rest| rest.split('"').nth(1));
                Step::calls("wait_for_tasks", &json!({"tasks": [id.unwrap_or("?")]}).to_string())
            }
            _ => Step::text("Done."),
        })
    });
    counts
}

/// Returns the text of a task and the results of its calls so far.
fn task_and_results(request: &MockRequest) -> (String, Vec<String>) {
    let messages = request.messages();
    let text = messages.iter().find(|message| message.role == "user");
    let results = messages.iter().filter(|message| message.role == "tool");
    let text = text.map(|message| message.text.lines().next().unwrap_or_default().to_owned());
    (text.unwrap_or_default(), results.map(|message| message.text.clone()).collect())
}

/// Decides every question until the flag is cleared: approvals are given, and a call that was cut off
/// has happened.
fn decide_questions(queue: &HomeQueue, deciding: &AtomicBool) {
    while deciding.load(Ordering::Relaxed) {
        for question in queue.runtime.block_on(queue.queue.open_questions(100)).unwrap() {
            let is_uncertain = question.kind == QuestionKind::Uncertain;
            let decision = Decision {
                question: question.id,
                digest: question.digest,
                choice: if is_uncertain { "happened" } else { "approve" }.to_owned(),
                reason: None,
                decider: Decider { name: "operator".into(), surface: "test".into() },
            };
            queue.runtime.block_on(queue.queue.decide(decision)).unwrap();
        }
        let store = queue.queue.store();
        queue.runtime.block_on(store.wait_for_change(Duration::from_millis(200)));
    }
}

/// A deterministic source of moments (xorshift64*).
struct RandomMoments(u64);

impl RandomMoments {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % limit
    }
}
