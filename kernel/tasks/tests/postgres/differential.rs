//! Random operations, executed by the model in memory and by the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use skillhost_events::Clock;
use skillhost_tasks::{
    ClaimFilter, Decider, Decision, FailureReason, LostWorkers, MemoryQueue, NewQuestion, NewTask,
    NewWait, Operation, OperationResult, PostgresQueue, QueryResult, Question, QuestionKind, Queue,
    ReleaseReason, Task, TaskAmounts, TaskClaim, TaskFilter, TaskId, TaskKind, TaskOutcome,
    TaskProgress, TaskQuery, TaskSubmitter, WaitMode,
};

use super::server::PrivateServer;

/// The operations of a round; each has its own tables.
const ROUND: u64 = 1_000;
/// The operations of the test, unless `SKILLHOST_OPERATIONS` has another number.
const OPERATIONS: u64 = 2_000;
/// The tasks that the operations of a part of a round choose from.
const TASKS: u64 = 14;

/// A generator of numbers; the same seed gives the same ones.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn chance(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn choose<T: Clone>(&mut self, all: &[T]) -> T {
        let at = usize::try_from(self.below(all.len() as u64)).unwrap();
        all[at].clone()
    }
}

/// The texts of names; some have characters that the database cannot store.
const NAMES: [&str; 5] = ["a", "b", "two words", "\0", "\u{1}0é\0"];

/// Returns the id of a task.
fn id(part: u64, number: u64) -> TaskId {
    TaskId::parse(&format!("01{part:012}{number:012}")).unwrap()
}

/// Generates operations; the model has the tasks that make them likely to succeed.
struct Generator {
    numbers: Numbers,
    part: u64,
    questions: u64,
    known: Vec<Question>,
    tasks: Vec<Task>,
    outbox: Vec<i64>,
    now_ms: u64,
}

impl Generator {
    fn task(&mut self) -> TaskId {
        id(self.part, self.numbers.below(TASKS))
    }

    fn claim(&mut self) -> TaskClaim {
        let current: Vec<_> = self.tasks.iter().filter_map(Task::current_claim).collect();
        if current.is_empty() || self.numbers.chance(4) {
            return TaskClaim { task: self.task(), epoch: self.numbers.below(4) };
        }
        self.numbers.choose(&current)
    }

    fn name(&mut self) -> String {
        self.numbers.choose(&NAMES).to_owned()
    }

    fn new_task(&mut self) -> NewTask {
        let mut new = NewTask::new(TaskKind::Agent, self.name(), self.name());
        new.id = self.task();
        new.kind = self.numbers.choose(&[TaskKind::Agent, TaskKind::Tool, TaskKind::Ext]);
        new.lane = self.numbers.chance(3).then(|| self.name());
        new.priority = i32::try_from(self.numbers.below(3)).unwrap() - 1;
        new.due_ms = self.numbers.chance(4).then(|| self.now_ms + self.numbers.below(5_000));
        new.deadline_ms = self.numbers.chance(6).then(|| self.now_ms + self.numbers.below(60_000));
        new.budget.tokens = self.numbers.chance(3).then(|| self.numbers.below(1_000));
        new.parent = self.numbers.chance(3).then(|| self.task());
        new.after = (0..self.numbers.below(3)).map(|_| self.task()).collect();
        new.key = self.numbers.chance(3).then(|| self.name());
        new.scope = if self.numbers.chance(2) { self.name() } else { String::new() };
        new.submitter.thread = self.numbers.chance(2).then(|| self.name());
        new.submitter.correlation_id = self.numbers.chance(2).then(|| self.name());
        new
    }

    fn question(&mut self) -> NewQuestion {
        self.questions += 1;
        // Ids of several processes are not in the order of time.
        let first = self.numbers.below(1_000);
        NewQuestion {
            id: format!("q{first:03}{:09}", self.questions),
            thread: self.numbers.chance(2).then(|| self.name()),
            kind: self.numbers.choose(&[QuestionKind::Consent, QuestionKind::Choice]),
            asker: "worker".to_owned(),
            call: self.name(),
            title: self.name(),
            subject: self.numbers.choose(&["{}", "{\"a\":1}"]).to_owned(),
            options: self
                .numbers
                .choose(&[vec![], vec!["approve".to_owned(), "refuse".to_owned()]]),
        }
    }

    fn spent(&mut self) -> TaskAmounts {
        TaskAmounts { tokens: self.numbers.below(40), ..TaskAmounts::default() }
    }

    fn outcome(&mut self) -> TaskOutcome {
        match self.numbers.chance(3) {
            true => TaskOutcome::failed(FailureReason::Error, self.name()),
            false => {
                TaskOutcome::Completed { text: self.name(), structured: None, is_error: false }
            }
        }
    }

    fn filter(&mut self) -> ClaimFilter {
        let targets = match self.numbers.below(3) {
            0 => Vec::new(),
            1 => vec![(TaskKind::Agent, None), (TaskKind::Tool, Some(vec![self.name()]))],
            _ => {
                vec![(TaskKind::Ext, Some(vec![self.name(), self.name()])), (TaskKind::Agent, None)]
            }
        };
        ClaimFilter { targets }
    }

    fn operation(&mut self) -> Operation {
        match self.numbers.below(40) {
            0..9 => Operation::Submit(Box::new(self.new_task())),
            9..16 => Operation::Claim {
                worker: self.name(),
                filter: self.filter(),
                limit: usize::try_from(self.numbers.below(4)).unwrap(),
                lease_ms: self.numbers.below(30_000),
            },
            16..18 => {
                let claims = (0..self.numbers.below(4)).map(|_| self.claim()).collect();
                Operation::Heartbeat { claims, lease_ms: self.numbers.below(30_000) }
            }
            18 | 19 => Operation::Sweep {
                lost_workers: match self.numbers.chance(4) {
                    true => LostWorkers::All,
                    false => LostWorkers::Expired,
                },
            },
            20..23 => Operation::Record {
                claim: self.claim(),
                lines: (0..self.numbers.below(3)).map(|_| self.name()).collect(),
                spent: self.spent(),
                returned: self.spent(),
                progress: self.numbers.chance(3).then(TaskProgress::default),
            },
            23..26 => {
                let wait = NewWait {
                    questions: (0..self.numbers.below(3)).map(|_| self.question()).collect(),
                    tasks: (0..self.numbers.below(3)).map(|_| self.task()).collect(),
                    mode: self.numbers.choose(&[WaitMode::All, WaitMode::Any]),
                    until_ms: self
                        .numbers
                        .chance(3)
                        .then(|| self.now_ms + self.numbers.below(9_000)),
                };
                Operation::Wait { claim: self.claim(), wait }
            }
            26 => Operation::Ask(Box::new(self.question())),
            27..30 => {
                let Some(question) = self.known.last().cloned() else {
                    return Operation::Ask(Box::new(self.question()));
                };
                let question = if self.numbers.chance(2) {
                    self.numbers.choose(&self.known)
                } else {
                    question
                };
                Operation::Decide(Decision {
                    question: question.id,
                    digest: if self.numbers.chance(5) { String::new() } else { question.digest },
                    choice: self.numbers.choose(&["approve", "other\0"]).to_owned(),
                    reason: self.numbers.chance(2).then(|| self.name()),
                    decider: Decider { name: "operator".to_owned(), surface: "test".to_owned() },
                })
            }
            30 => Operation::Withdraw {
                thread: self.numbers.chance(2).then(|| self.name()),
                question: self.known.last().map(|question| question.id.clone()),
                reason: self.name(),
            },
            31 | 32 => Operation::Release {
                claim: self.claim(),
                reason: match self.numbers.chance(2) {
                    true => ReleaseReason::Stop,
                    false => ReleaseReason::Retry { error: self.name(), jitter: 100 },
                },
            },
            33 | 34 => Operation::Finish {
                claim: self.claim(),
                outcome: self.outcome(),
                spent: self.spent(),
            },
            35 => Operation::Cancel { task: self.task(), by: self.name() },
            36 => Operation::Retry {
                task: self.task(),
                id: id(self.part, TASKS + self.questions),
                fresh: self.numbers.chance(2),
                submitter: TaskSubmitter::default(),
            },
            37 => Operation::AcknowledgeOutbox { seqs: self.outbox.clone() },
            _ => Operation::BindHandle {
                sha256: self.name(),
                task: self.task(),
                principal: self.name(),
            },
        }
    }
}

/// Returns everything that a store contains about some tasks.
pub(crate) async fn dump(queue: &dyn Queue, tasks: &[TaskId]) -> Vec<QueryResult> {
    let filter = TaskFilter { limit: 10_000, ..TaskFilter::default() };
    let of_thread = TaskFilter { thread: Some("a".to_owned()), ..filter.clone() };
    let limit = 10_000;
    let questions =
        TaskQuery::Questions { state: None, kind: None, task: None, thread: None, limit };
    let mut queries = vec![
        TaskQuery::Tasks(filter),
        TaskQuery::Tasks(of_thread),
        questions,
        TaskQuery::Outbox { limit },
        TaskQuery::Counts,
        TaskQuery::NextDue,
        TaskQuery::Handle { sha256: "a".to_owned(), principal: "\0".to_owned() },
    ];
    for task in tasks {
        queries.push(TaskQuery::Input(task.clone()));
        queries.push(TaskQuery::Attempts(task.clone()));
        queries.push(TaskQuery::Lines { task: task.clone(), after: 0, limit });
        let root = Some(task.clone());
        queries.push(TaskQuery::Tasks(TaskFilter { root, ..TaskFilter::default() }));
    }
    let mut found = Vec::new();
    for query in queries {
        found.push(queue.read(query).await.unwrap());
    }
    found
}

/// Returns an outcome with errors as texts.
fn comparable(outcome: &OperationResult) -> String {
    match outcome {
        Ok(outcome) => format!("{outcome:?}"),
        Err(error) => format!("{:?}: {error} ({})", error.kind(), error.hint()),
    }
}

async fn run_round(server: &PrivateServer, round: u64, count: u64) {
    let now = Arc::new(AtomicU64::new(1_700_000_000_000));
    let clock = {
        let now = Arc::clone(&now);
        Clock::new(move || now.load(Ordering::Relaxed))
    };
    let memory = MemoryQueue::new(clock.clone());
    let schema = format!("round_{round}");
    let store = PostgresQueue::connect_with_clock(server.address(&schema), clock).await.unwrap();
    let mut generator = Generator {
        numbers: Numbers(round + 1),
        part: 0,
        questions: 0,
        known: Vec::new(),
        tasks: Vec::new(),
        outbox: Vec::new(),
        now_ms: 0,
    };
    for number in 0..count {
        generator.part = number / 250;
        generator.now_ms = now.load(Ordering::Relaxed);
        let operation = generator.operation();
        let expected = memory.execute(operation.clone()).await;
        let outcome = store.execute(operation.clone()).await;
        assert_eq!(
            comparable(&outcome),
            comparable(&expected),
            "round {round}, operation {number}: {operation:?}"
        );
        if generator.numbers.chance(3) {
            now.fetch_add(generator.numbers.below(8_000), Ordering::Relaxed);
        }
        if generator.numbers.chance(400) {
            // Questions expire after a week.
            now.fetch_add(8 * 24 * 3_600_000, Ordering::Relaxed);
        }
        let filter = TaskFilter { limit: 40, ..TaskFilter::default() };
        if let QueryResult::Tasks(tasks) = memory.read(TaskQuery::Tasks(filter)).await.unwrap() {
            generator.tasks = tasks;
        }
        let questions = TaskQuery::Questions {
            state: None,
            kind: None,
            task: None,
            thread: None,
            limit: 9_999,
        };
        if let QueryResult::Questions(all) = memory.read(questions).await.unwrap() {
            generator.known = all.into_iter().rev().take(20).rev().collect();
        }
        if let QueryResult::Outbox(rows) =
            memory.read(TaskQuery::Outbox { limit: 5 }).await.unwrap()
        {
            generator.outbox = rows.iter().map(|row| row.seq).collect();
        }
        if number % 100 == 99 || number + 1 == count {
            let ids: Vec<_> = (0..TASKS + 3).map(|task| id(generator.part, task)).collect();
            assert_eq!(dump(&store, &ids).await, dump(&memory, &ids).await, "{round} {number}");
        }
    }
    drop(store);
    let admin = server.admin().await;
    admin.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
}

#[tokio::test]
async fn random_operations_equal_memory_model() {
    let Some(server) = PrivateServer::start().await else { return };
    let count = std::env::var("SKILLHOST_OPERATIONS").ok().and_then(|text| text.parse().ok());
    let count: u64 = count.unwrap_or(OPERATIONS);
    let mut done = 0;
    let mut round = std::env::var("SKILLHOST_ROUND").map_or(0, |text| text.parse().unwrap());
    while done < count {
        let part = ROUND.min(count - done);
        run_round(&server, round, part).await;
        (done, round) = (done + part, round + 1);
    }
    println!("{done} operations, memory = PostgreSQL");
}
