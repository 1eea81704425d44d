//! Clients that are killed before and after the commit of each kind of operation.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use skillhost_events::Clock;
use skillhost_tasks::{
    ClaimFilter, Decider, Decision, LostWorkers, MemoryQueue, NewQuestion, NewTask, NewWait,
    Operation, OperationOutcome, PostgresAddress, PostgresQueue, QueryResult, QuestionKind, Queue,
    ReleaseReason, TaskAmounts, TaskClaim, TaskId, TaskKind, TaskOutcome, TaskQuery, TaskSubmitter,
};
use test_support::STUCK_AFTER;
use tokio_postgres::Client;

use super::differential::dump;
use super::server::PrivateServer;

/// The time of the clocks.
const NOW: u64 = 1_000_000;
/// A deferred trigger waits for a lock within the commit.
const TRIGGERS: &str = "CREATE FUNCTION wait_in_commit() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NULL; END $$;";
/// The tables that operations write.
const TABLES: [&str; 6] = ["tasks", "questions", "outbox", "lines", "attempts", "handles"];

fn id(number: u64) -> TaskId {
    TaskId::parse(&format!("01{number:024}")).unwrap()
}

fn submit(number: u64, change: impl FnOnce(&mut NewTask)) -> Operation {
    let mut new = NewTask::new(TaskKind::Tool, "echo", "{}");
    new.id = id(number);
    change(&mut new);
    Operation::Submit(Box::new(new))
}

fn claim(limit: usize) -> Operation {
    let filter = ClaimFilter::default();
    Operation::Claim { worker: "w".to_owned(), filter, limit, lease_ms: 30_000 }
}

fn question(call: &str) -> NewQuestion {
    NewQuestion {
        id: format!("q-{call}"),
        thread: Some("t".to_owned()),
        kind: QuestionKind::Consent,
        asker: "a".to_owned(),
        call: call.to_owned(),
        title: String::new(),
        subject: "{}".to_owned(),
        options: Vec::new(),
    }
}

/// Returns the state that the operations start from, and the operations: one of each kind.
fn operations() -> (Vec<Operation>, Vec<Operation>) {
    let own = TaskClaim { task: id(1), epoch: 1 };
    let completed =
        TaskOutcome::Completed { text: "ok".to_owned(), structured: None, is_error: false };
    let digest = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    let setup = vec![
        submit(1, |_| ()),
        submit(2, |new| new.deadline_ms = Some(NOW + 1)),
        claim(1),
        submit(3, |new| new.parent = Some(id(1))),
        submit(4, |new| new.after = vec![id(1)]),
        submit(5, |_| ()),
        Operation::Cancel { task: id(5), by: "t".to_owned() },
        Operation::Ask(Box::new(question("first"))),
    ];
    let wait = NewWait { questions: vec![question("parked")], ..NewWait::default() };
    let kinds = vec![
        submit(9, |new| new.key = Some("k".to_owned())),
        claim(3),
        Operation::Heartbeat { claims: vec![own.clone()], lease_ms: 60_000 },
        Operation::Sweep { lost_workers: LostWorkers::All },
        Operation::Record {
            claim: own.clone(),
            lines: vec!["line".to_owned()],
            spent: TaskAmounts::default(),
            returned: TaskAmounts::default(),
            progress: None,
        },
        Operation::Wait { claim: own.clone(), wait },
        Operation::Ask(Box::new(question("second"))),
        Operation::Decide(Decision {
            question: "q-first".to_owned(),
            digest: digest.to_owned(),
            choice: "approve".to_owned(),
            reason: None,
            decider: Decider::default(),
        }),
        Operation::Withdraw {
            thread: Some("t".to_owned()),
            question: None,
            reason: "over".to_owned(),
        },
        Operation::Release { claim: own.clone(), reason: ReleaseReason::Stop },
        Operation::Release {
            claim: own.clone(),
            reason: ReleaseReason::Retry { error: "busy".to_owned(), jitter: 0 },
        },
        Operation::Finish { claim: own, outcome: completed, spent: TaskAmounts::default() },
        Operation::Cancel { task: id(4), by: "t".to_owned() },
        Operation::Retry {
            task: id(5),
            id: id(8),
            fresh: false,
            submitter: TaskSubmitter::default(),
        },
        Operation::AcknowledgeOutbox { seqs: vec![1, 2] },
        Operation::BindHandle { sha256: "a".to_owned(), task: id(1), principal: "\0".to_owned() },
    ];
    (setup, kinds)
}

/// Executes an operation in a process of its own; started by the test below.
#[tokio::test]
#[ignore = "a process of the other test"]
async fn victim_process() {
    let Ok(operation) = std::env::var("VICTIM_OPERATION") else { return };
    let [url, schema] = ["VICTIM_URL", "VICTIM_SCHEMA"].map(|name| std::env::var(name).unwrap());
    let address = PostgresAddress::parse(&url, &schema).unwrap();
    let queue = PostgresQueue::connect_with_clock(address, Clock::new(|| NOW)).await.unwrap();
    let operation: Operation = serde_json::from_str(&operation).unwrap();
    queue.execute(operation).await.unwrap();
}

fn spawn_victim(url: &str, schema: &str, operation: &Operation) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::victim_process", "--ignored"])
        .env("VICTIM_OPERATION", serde_json::to_string(operation).unwrap())
        .env("VICTIM_URL", format!("{url} application_name=victim"))
        .env("VICTIM_SCHEMA", schema)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until a number of sessions of the victim matches a condition.
async fn wait_for_sessions(admin: &Client, condition: &str, is_reached: impl Fn(i64) -> bool) {
    let statement = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'victim' {condition}"
    );
    let start = Instant::now();
    while !is_reached(admin.query_one(&statement, &[]).await.unwrap().get(0)) {
        assert!(start.elapsed() < STUCK_AFTER, "{condition}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn kill_at(server: &PrivateServer, number: usize, is_after: bool) {
    let (setup, mut kinds) = operations();
    let operation = kinds.swap_remove(number);
    let schema = format!("kill_{number}_{is_after}");
    let memory = MemoryQueue::new(Clock::new(|| NOW));
    let clock = Clock::new(|| NOW);
    let store = PostgresQueue::connect_with_clock(server.address(&schema), clock).await.unwrap();
    for operation in setup {
        let expected = memory.execute(operation.clone()).await.unwrap();
        assert_eq!(store.execute(operation).await.unwrap(), expected);
    }
    let (admin, holder) = (server.admin().await, server.admin().await);
    holder.batch_execute(&format!("SET search_path = {schema}; {TRIGGERS}")).await.unwrap();
    for table in TABLES {
        let trigger = format!(
            "CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE OR DELETE ON {table}
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_in_commit()"
        );
        holder.batch_execute(&trigger).await.unwrap();
    }
    let lock = match is_after {
        // The server has the request to commit, and the client never gets the answer.
        true => "BEGIN; SELECT pg_advisory_xact_lock(4711)".to_owned(),
        false => format!("BEGIN; LOCK {} IN SHARE ROW EXCLUSIVE MODE", TABLES.join(", ")),
    };
    holder.batch_execute(&lock).await.unwrap();
    let mut victim = spawn_victim(&server.url(), &schema, &operation);
    let waits = "AND wait_event_type = 'Lock'";
    wait_for_sessions(&admin, waits, |count| count > 0).await;
    victim.kill().unwrap();
    victim.wait().unwrap();
    holder.batch_execute("ROLLBACK").await.unwrap();
    wait_for_sessions(&admin, "", |count| count == 0).await;
    let before = dump(&memory, &[]).await;
    if is_after {
        memory.execute(operation.clone()).await.unwrap();
    }
    let ids: Vec<_> = (1..10).map(id).collect();
    assert_eq!(dump(&store, &ids).await, dump(&memory, &ids).await, "{operation:?} {is_after}");
    let is_unseen = matches!(operation, Operation::Record { .. } | Operation::BindHandle { .. });
    if is_after && !is_unseen {
        assert_ne!(dump(&store, &[]).await, before, "{operation:?}");
    }
    // The next client goes on from there.
    let found = store.read(TaskQuery::Task(id(1))).await.unwrap();
    assert!(matches!(found, QueryResult::Tasks(tasks) if tasks.len() == 1));
    let swept = store.execute(Operation::Sweep { lost_workers: LostWorkers::Expired }).await;
    assert!(matches!(swept, Ok(OperationOutcome::Swept(_))));
}

#[tokio::test]
async fn killed_client_leaves_whole_transactions() {
    let Some(server) = PrivateServer::start().await else { return };
    let count = operations().1.len();
    for number in 0..count {
        for is_after in [false, true] {
            kill_at(&server, number, is_after).await;
        }
    }
    println!("{count} kinds of operations, {} kills", 2 * count);
}
