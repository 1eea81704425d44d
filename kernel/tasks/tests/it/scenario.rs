//! Rows in every state, and one accepted operation of each kind on them.

use std::path::Path;
use std::time::Duration;

use skillhost_events::Clock;
use skillhost_tasks::{
    ClaimFilter, HandleBinding, LostWorkers, NewQuestion, NewTask, NewWait, Operation, Queue,
    ReleaseReason, SqliteQueue, TaskAmounts, TaskClaim, TaskId, TaskQueue, TaskSubmitter,
};

use crate::fixture::{START_MS, completed, decision, new_task, question, spent_tokens, tokens};

/// The number of kinds of operations.
pub(crate) const KINDS: usize = 15;

const RUNNING: u64 = 1;
const PARKED: u64 = 2;
const ENDED: u64 = 3;
const CHILD: u64 = 4;
const READY: u64 = 5;
const DEPENDENT: u64 = 6;

fn id(number: u64) -> TaskId {
    TaskId::parse(&format!("01{number:024}")).unwrap()
}

fn claim(number: u64) -> TaskClaim {
    TaskClaim { task: id(number), epoch: 1 }
}

fn task(number: u64) -> NewTask {
    NewTask { id: id(number), ..new_task() }
}

fn numbered_question(number: u64) -> NewQuestion {
    NewQuestion { id: id(number).to_string(), ..question("call", "{}") }
}

/// Opens the store of a directory.
pub(crate) fn open_store(directory: &Path, clock: Clock) -> SqliteQueue {
    SqliteQueue::new(directory.join("work.db"), clock)
}

/// Creates the rows in a directory; returns the open store.
pub(crate) async fn create_rows(directory: &Path) -> SqliteQueue {
    let store = open_store(directory, Clock::new(|| START_MS));
    let queue = TaskQueue::new(std::sync::Arc::new(store.clone()));
    let lease = Duration::from_secs(30);
    for number in [RUNNING, PARKED, ENDED] {
        queue.submit(NewTask { budget: tokens(100), ..task(number) }).await.unwrap();
        queue.claim("w", ClaimFilter::default(), 1, lease).await.unwrap();
    }
    let lines = vec!["line".to_owned()];
    let amounts = TaskAmounts::default();
    queue.record(claim(ENDED), lines, amounts, None).await.unwrap();
    queue.finish(claim(ENDED), completed(), amounts).await.unwrap();
    let wait = NewWait { questions: vec![numbered_question(90)], ..NewWait::default() };
    queue.wait(claim(PARKED), wait).await.unwrap();
    queue.submit(NewTask { parent: Some(id(RUNNING)), ..task(CHILD) }).await.unwrap();
    queue.submit(task(READY)).await.unwrap();
    queue.submit(NewTask { after: vec![id(RUNNING)], ..task(DEPENDENT) }).await.unwrap();
    store
}

/// Returns an operation that changes the rows.
pub(crate) fn operation(kind: usize) -> Operation {
    let retry = ReleaseReason::Retry { error: "busy".to_owned(), jitter: 0 };
    match kind {
        0 => {
            let (parent, key) = (Some(id(RUNNING)), Some("key".to_owned()));
            let handle = HandleBinding { sha256: "b".to_owned(), principal: "me".to_owned() };
            Operation::Submit(Box::new(NewTask { parent, key, handle: Some(handle), ..task(50) }))
        }
        1 => Operation::Claim {
            worker: "other".to_owned(),
            filter: ClaimFilter::default(),
            limit: 2,
            lease_ms: 30_000,
        },
        2 => Operation::Heartbeat { claims: vec![claim(RUNNING)], lease_ms: 60_000 },
        3 => Operation::Sweep { lost_workers: LostWorkers::All },
        4 => Operation::Record {
            claim: claim(RUNNING),
            lines: vec!["one".to_owned(), "two".to_owned()],
            spent: spent_tokens(7),
            returned: TaskAmounts::default(),
            progress: None,
        },
        5 => {
            let (questions, tasks) = (vec![numbered_question(91)], vec![id(CHILD)]);
            let wait = NewWait { questions, tasks, ..NewWait::default() };
            Operation::Wait { claim: claim(RUNNING), wait }
        }
        6 => {
            let thread = Some("t".to_owned());
            Operation::Ask(Box::new(NewQuestion { thread, ..numbered_question(92) }))
        }
        7 => Operation::Decide(decision(id(90).as_str(), "{}", "approve")),
        8 => {
            let (thread, question) = (None, Some(id(90).to_string()));
            Operation::Withdraw { thread, question, reason: "changed".to_owned() }
        }
        9 => Operation::Release { claim: claim(RUNNING), reason: retry },
        10 => Operation::Finish {
            claim: claim(RUNNING),
            outcome: completed(),
            spent: spent_tokens(9),
        },
        11 => Operation::Cancel { task: id(PARKED), by: "operator".to_owned() },
        12 => Operation::Retry {
            task: id(ENDED),
            id: id(51),
            fresh: false,
            submitter: TaskSubmitter::default(),
        },
        13 => Operation::AcknowledgeOutbox { seqs: vec![1, 2] },
        _ => Operation::BindHandle {
            sha256: "a".to_owned(),
            task: id(RUNNING),
            principal: "b".to_owned(),
        },
    }
}

/// Executes an operation of each kind on rows of its own, and checks that it changes them.
#[tokio::test]
async fn each_operation_changes_its_rows() {
    for kind in 0..KINDS {
        let home = tempfile::tempdir().unwrap();
        let store = create_rows(home.path()).await;
        let before = crate::all_rows::read_all_rows(&store).await;
        store.execute(operation(kind)).await.unwrap();
        assert_ne!(crate::all_rows::read_all_rows(&store).await, before, "operation {kind}");
    }
}
