//! Random operations, the same for the same seed.

use skillhost_tasks::{
    ClaimFilter, Decider, Decision, FailureReason, HandleBinding, LostWorkers, NewQuestion,
    NewTask, NewWait, Operation, Question, QuestionKind, ReleaseReason, Task, TaskAmounts,
    TaskClaim, TaskId, TaskKind, TaskOutcome, TaskProgress, TaskSubmitter, WaitMode,
};

/// Names; some have characters that stores may treat in their own way.
const NAMES: [&str; 5] = ["a", "b", "two words", "it's \"é\"", "\u{1}\0%"];
/// The number of recent tasks that operations choose from.
pub(crate) const RECENT: u64 = 24;

/// A generator of numbers.
pub(crate) struct RandomNumbers(pub(crate) u64);

impl RandomNumbers {
    /// Returns a number below a limit that is not 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Returns `true` once in a number of times.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn choose<T: Clone>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()].clone()
    }
}

/// A generator of operations. The rows of the model make likely that some succeed.
pub(crate) struct OperationGenerator {
    pub(crate) numbers: RandomNumbers,
    pub(crate) now_ms: u64,
    pub(crate) tasks: Vec<Task>,
    pub(crate) questions: Vec<Question>,
    pub(crate) outbox: Vec<i64>,
    /// The number of ids so far.
    ids: u64,
}

impl OperationGenerator {
    pub(crate) fn new(seed: u64) -> Self {
        let (tasks, questions, outbox) = (Vec::new(), Vec::new(), Vec::new());
        Self { numbers: RandomNumbers(seed), now_ms: 0, tasks, questions, outbox, ids: 0 }
    }

    fn new_id(&mut self) -> TaskId {
        self.ids += 1;
        // Ids of several processes are not in the order of their submissions.
        let first = self.ids + self.numbers.below(4);
        TaskId::parse(&format!("01{first:012}{:012}", self.ids)).unwrap()
    }

    fn new_question_id(&mut self) -> String {
        self.ids += 1;
        // Clocks of several processes differ.
        format!("01{:012}{:012}", self.numbers.below(1_000), self.ids)
    }

    /// Returns the id of a recent task, and sometimes one that does not exist.
    fn known_id(&mut self) -> TaskId {
        match self.tasks.is_empty() || self.numbers.once_in(40) {
            true => self.new_id(),
            false => self.numbers.choose(&self.tasks).id,
        }
    }

    fn known_ids(&mut self, limit: u64) -> Vec<TaskId> {
        (0..self.numbers.below(limit)).map(|_| self.known_id()).collect()
    }

    /// Returns a claim: a current one, one that ended, or one that never was.
    fn claim(&mut self) -> TaskClaim {
        let current: Vec<_> = self.tasks.iter().filter_map(Task::current_claim).collect();
        if current.is_empty() || self.numbers.once_in(5) {
            return TaskClaim { task: self.known_id(), epoch: self.numbers.below(4) };
        }
        let claim = self.numbers.choose(&current);
        match self.numbers.once_in(8) {
            true => TaskClaim { epoch: claim.epoch - 1, ..claim },
            false => claim,
        }
    }

    fn name(&mut self) -> String {
        self.numbers.choose(&NAMES).to_owned()
    }

    fn maybe_name(&mut self, once_in: u64) -> Option<String> {
        self.numbers.once_in(once_in).then(|| self.name())
    }

    /// Returns a time around the present, rarely one that is far away.
    fn time(&mut self) -> u64 {
        match self.numbers.below(12) {
            0 => self.numbers.below(1 << 50),
            1..4 => self.now_ms.saturating_sub(self.numbers.below(20_000)),
            _ => self.now_ms + self.numbers.below(40_000),
        }
    }

    fn maybe_time(&mut self, once_in: u64) -> Option<u64> {
        self.numbers.once_in(once_in).then(|| self.time())
    }

    fn amounts(&mut self) -> TaskAmounts {
        let numbers = &mut self.numbers;
        TaskAmounts {
            turns: numbers.below(3),
            tokens: if numbers.once_in(50) { u64::MAX } else { numbers.below(40) },
            time_ms: numbers.below(9),
            cost: numbers.below(9),
        }
    }

    fn new_task(&mut self) -> NewTask {
        let kind = self.numbers.choose(&[
            TaskKind::Agent,
            TaskKind::Tool,
            TaskKind::Ext,
            TaskKind::Deliver,
        ]);
        let mut new = NewTask::new(kind, self.name(), self.name());
        new.id = if self.numbers.once_in(50) { self.known_id() } else { self.new_id() };
        new.title = self.name();
        new.lane = self.maybe_name(3);
        new.priority = i32::try_from(self.numbers.below(3)).unwrap() - 1;
        new.due_ms = self.maybe_time(4);
        new.deadline_ms = self.maybe_time(8);
        new.budget.tokens = self.numbers.once_in(3).then(|| self.numbers.below(900));
        new.budget.turns = self.numbers.once_in(5).then(|| 1 + self.numbers.below(20));
        new.parent = self.numbers.once_in(2).then(|| self.known_id());
        new.after = if self.numbers.once_in(3) { self.known_ids(4) } else { Vec::new() };
        new.key = self.maybe_name(3);
        new.scope = self.maybe_name(2).unwrap_or_default();
        new.submitter = self.submitter();
        new.handle = self
            .numbers
            .once_in(4)
            .then(|| HandleBinding { sha256: self.name(), principal: self.name() });
        new
    }

    fn submitter(&mut self) -> TaskSubmitter {
        TaskSubmitter {
            agent: self.maybe_name(4),
            thread: self.maybe_name(2),
            correlation_id: self.maybe_name(3),
            ..TaskSubmitter::default()
        }
    }

    fn new_question(&mut self) -> NewQuestion {
        let kinds = [QuestionKind::Consent, QuestionKind::Choice, QuestionKind::Uncertain];
        let options = [vec![], vec!["approve".to_owned(), "refuse".to_owned()]];
        NewQuestion {
            id: self.new_question_id(),
            thread: self.maybe_name(2),
            kind: self.numbers.choose(&kinds),
            asker: self.name(),
            call: self.name(),
            title: self.name(),
            subject: self.numbers.choose(&["{}", "{\"a\":1}"]).to_owned(),
            options: self.numbers.choose(&options),
        }
    }

    fn known_question(&mut self) -> Option<Question> {
        let all = &self.questions;
        (!all.is_empty()).then(|| self.numbers.choose(all))
    }

    fn outcome(&mut self) -> TaskOutcome {
        match self.numbers.below(4) {
            0 => TaskOutcome::failed(FailureReason::Error, self.name()),
            1 => TaskOutcome::Cancelled { by: self.name() },
            _ => TaskOutcome::Completed {
                text: self.name(),
                structured: self.numbers.once_in(3).then(|| serde_json::json!({ "n": 1.5 })),
                is_error: self.numbers.once_in(4),
            },
        }
    }

    fn filter(&mut self) -> ClaimFilter {
        let targets = match self.numbers.below(3) {
            0 => {
                vec![(TaskKind::Ext, Some(vec![self.name(), self.name()])), (TaskKind::Agent, None)]
            }
            _ => Vec::new(),
        };
        ClaimFilter { targets }
    }

    fn wait(&mut self) -> NewWait {
        NewWait {
            questions: (0..self.numbers.below(3)).map(|_| self.new_question()).collect(),
            tasks: self.known_ids(4),
            mode: self.numbers.choose(&[WaitMode::All, WaitMode::Any]),
            until_ms: self.maybe_time(3),
        }
    }

    fn decision(&mut self, question: Question) -> Operation {
        let choice = match question.options.is_empty() || self.numbers.once_in(6) {
            true => self.name(),
            false => "approve".to_owned(),
        };
        Operation::Decide(Decision {
            question: question.id,
            digest: if self.numbers.once_in(5) { String::new() } else { question.digest },
            choice,
            reason: self.maybe_name(2),
            decider: Decider { name: self.name(), surface: "test".to_owned() },
        })
    }

    /// Returns the next operation.
    pub(crate) fn next(&mut self) -> Operation {
        match self.numbers.below(40) {
            0..9 => Operation::Submit(Box::new(self.new_task())),
            9..17 => Operation::Claim {
                worker: self.name(),
                filter: self.filter(),
                limit: usize::try_from(self.numbers.below(4)).unwrap(),
                lease_ms: self.numbers.below(30_000),
            },
            17 => {
                let claims = (0..self.numbers.below(4)).map(|_| self.claim()).collect();
                Operation::Heartbeat { claims, lease_ms: self.numbers.below(30_000) }
            }
            18 => Operation::Sweep {
                lost_workers: self.numbers.choose(&[
                    LostWorkers::Expired,
                    LostWorkers::Expired,
                    LostWorkers::All,
                ]),
            },
            19..22 => Operation::Record {
                claim: self.claim(),
                lines: (0..self.numbers.below(3)).map(|_| self.name()).collect(),
                spent: self.amounts(),
                returned: self.amounts(),
                progress: self.numbers.once_in(3).then(|| TaskProgress {
                    done: 0.5,
                    total: Some(3.0),
                    text: self.name(),
                }),
            },
            22..25 => Operation::Wait { claim: self.claim(), wait: self.wait() },
            25 => Operation::Ask(Box::new(self.new_question())),
            26..30 => match self.known_question() {
                Some(question) => self.decision(question),
                None => Operation::Ask(Box::new(self.new_question())),
            },
            30 => Operation::Withdraw {
                thread: self.maybe_name(2),
                question: self.known_question().map(|question| question.id),
                reason: self.name(),
            },
            31 | 32 => Operation::Release {
                claim: self.claim(),
                reason: match self.numbers.once_in(2) {
                    true => ReleaseReason::Stop,
                    false => ReleaseReason::Retry { error: self.name(), jitter: 100 },
                },
            },
            33..36 => Operation::Finish {
                claim: self.claim(),
                outcome: self.outcome(),
                spent: self.amounts(),
            },
            36 => Operation::Cancel { task: self.known_id(), by: self.name() },
            37 => Operation::Retry {
                task: self.known_id(),
                id: self.new_id(),
                fresh: self.numbers.once_in(2),
                submitter: self.submitter(),
            },
            38 => Operation::AcknowledgeOutbox { seqs: self.outbox.clone() },
            _ => Operation::BindHandle {
                sha256: self.name(),
                task: self.known_id(),
                principal: self.name(),
            },
        }
    }
}
