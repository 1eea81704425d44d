//! Four kernels on one PostgreSQL queue that are stopped longer than their leases at random moments:
//! each task ends once, and no write of a stopped kernel is accepted when it continues.
//!
//! Triggers in the database record which connection claims, ends and writes, independently of the
//! checks of the store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mock_model::{MockModel, Step};
use rustix::process::Signal;
use serde_json::{Value, json};
use test_support::{PostgresServer, TestHome, poll_until};

use crate::fixtures::start_kernel;
use crate::fleet::{LEASE_MS, machine, signal, submit};

const KERNELS: usize = 4;
/// The calls of each task, which the model answers one at a time.
const CALLS: usize = 4;
/// The interval of the model's replies.
const REPLY_INTERVAL: Duration = Duration::from_millis(60);

/// Records the connections: `claim` with the worker, `end` and `line` with the worker that has the
/// task, and `stale` for a line of another claim.
const AUDIT: &str = "
    CREATE TABLE skillhost.audit (pid int, kind text, task text, worker text);
    CREATE FUNCTION skillhost.audit_task() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO skillhost.audit SELECT pg_backend_pid(), 'claim', NEW.id, NEW.doc::json->>'worker'
            WHERE NEW.state = 'running' AND OLD.state <> 'running';
        INSERT INTO skillhost.audit SELECT pg_backend_pid(), 'end', NEW.id, OLD.doc::json->>'worker'
            WHERE NEW.state = 'completed';
        RETURN NEW;
    END $$;
    CREATE FUNCTION skillhost.audit_line() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO skillhost.audit
            SELECT pg_backend_pid(),
                CASE WHEN (doc::json->>'epoch')::bigint = NEW.epoch THEN 'line' ELSE 'stale' END,
                id, doc::json->>'worker'
            FROM skillhost.tasks WHERE id = NEW.task;
        RETURN NEW;
    END $$;
    CREATE TRIGGER audit AFTER UPDATE ON skillhost.tasks
        FOR EACH ROW EXECUTE FUNCTION skillhost.audit_task();
    CREATE TRIGGER audit AFTER INSERT ON skillhost.lines
        FOR EACH ROW EXECUTE FUNCTION skillhost.audit_line();";

/// Counts lines and ends of connections that have claimed for other workers than the task's.
const FOREIGN: &str = "
    SELECT count(*) FROM skillhost.audit written
    WHERE kind IN ('line', 'end')
        AND pid IN (SELECT pid FROM skillhost.audit WHERE kind = 'claim')
        AND NOT EXISTS (SELECT FROM skillhost.audit claim WHERE claim.kind = 'claim'
            AND claim.pid = written.pid AND claim.worker = written.worker)";

#[test]
fn frozen_kernels_write_nothing_stale() {
    check_freezes(10, 3, 1);
}

/// The complete measurement; `SKILLHOST_FIGURES` names a file for the figures, `SKILLHOST_SEED` selects
/// other moments.
#[test]
#[ignore = "takes minutes"]
fn many_freezes_write_nothing_stale() {
    let seed = std::env::var("SKILLHOST_SEED").ok().and_then(|text| text.parse().ok());
    check_freezes(160, 40, seed.unwrap_or(2));
}

/// Submits tasks to four kernels and stops two of them in each round.
fn check_freezes(tasks: usize, rounds: usize, seed: u64) {
    let Some(server) = PostgresServer::start() else { return };
    let mock = MockModel::new();
    mock.answer_with(|request| {
        let messages = request.messages();
        let results = messages.iter().filter(|message| message.role == "tool").count();
        let progress = json!({"done": results, "total": CALLS, "text": "works"}).to_string();
        Some(match results < CALLS {
            true => Step::calls("report_progress", &progress).held(),
            false => Step::text("Done.").held(),
        })
    });
    let homes: Vec<_> = (0..KERNELS).map(|_| machine(&server, &mock, "worker")).collect();
    let kernels: Vec<_> = homes.iter().map(start_kernel).collect();
    let _ = server.query(AUDIT);
    let is_working = AtomicBool::new(true);
    let mut owners = BTreeMap::new();
    std::thread::scope(|scope| {
        let _end = ReplyEnd(&is_working);
        for number in 0..tasks {
            let at = number % KERNELS;
            owners.insert(submit(&homes[at], "worker", "Do it"), at);
        }
        // Every kernel has a task, so that the first stops find work.
        wait_for_count(&server, "tasks WHERE state = 'running'", KERNELS);
        scope.spawn(|| {
            while is_working.load(Ordering::Relaxed) {
                mock.release();
                std::thread::sleep(REPLY_INTERVAL);
            }
        });
        let mut random = RandomNumbers(seed);
        for _ in 0..rounds {
            let first = random.below(KERNELS);
            let second = (first + 1 + random.below(KERNELS - 1)) % KERNELS;
            for at in [first, second] {
                signal(&kernels[at], Signal::STOP);
            }
            let beyond = u64::try_from(100 + random.below(400)).unwrap();
            std::thread::sleep(Duration::from_millis(LEASE_MS + beyond));
            for at in [second, first] {
                signal(&kernels[at], Signal::CONT);
            }
            std::thread::sleep(Duration::from_millis(u64::try_from(random.below(300)).unwrap()));
        }
        wait_for_count(&server, "tasks WHERE state NOT IN ('completed', 'failed')", 0);
        wait_for_count(&server, "outbox", 0);
    });
    for kernel in kernels {
        kernel.interrupt().success();
    }
    let count = |from: &str| count_rows(&server, from);
    assert_eq!(count("tasks"), tasks);
    assert_eq!(count("audit WHERE kind = 'stale'"), 0);
    assert_eq!(server.query(FOREIGN), "0");
    // Each task was ended by one claim and lost by all others, unless it was lost too often.
    let failed = count("tasks WHERE state = 'failed'");
    let reason = "state = 'failed' AND doc::json->'outcome'->>'reason' = 'lost'";
    assert_eq!(count(&format!("tasks WHERE {reason}")), failed);
    assert!(failed * 10 <= tasks, "{failed} of {tasks} tasks were lost");
    assert_eq!(count("attempts WHERE how = 'completed'"), tasks - failed);
    assert_eq!(count("attempts WHERE ended_ms IS NULL"), 0);
    let lost = count("attempts WHERE how = 'lost'");
    assert!(lost > 0, "no kernel was stopped while it worked");
    let workers = "SELECT count(DISTINCT worker) FROM skillhost.audit WHERE kind = 'claim'";
    // On a slow machine one may have claimed none of a few tasks.
    assert!(server.query(workers).parse::<usize>().unwrap() > 1);
    let accepted = count("audit WHERE kind = 'line'");
    assert!(accepted >= tasks, "{accepted} lines");
    for (at, home) in homes.iter().enumerate() {
        check_ends(home, at, &owners);
    }
    // The triggers find what they look for.
    let task = owners.keys().next().unwrap();
    let values = format!("('{task}', 1000000, 1000000, '{{}}')");
    let _ = server.query(&format!("INSERT INTO skillhost.lines VALUES {values}"));
    assert_eq!(count("audit WHERE kind = 'stale'"), 1);
    if let Some(path) = std::env::var_os("SKILLHOST_FIGURES") {
        let figures = json!({
            "tasks": tasks, "kernels": KERNELS, "stops": rounds * 2, "attempts_lost": lost,
            "completed": tasks - failed, "failed_as_lost": failed,
            "lines_accepted": accepted, "stale_lines": 0, "foreign_writes": 0, "seed": seed,
        });
        std::fs::write(path, format!("{figures}\n")).unwrap();
    }
}

/// Ends the replies of the model when dropped.
struct ReplyEnd<'a>(&'a AtomicBool);

impl Drop for ReplyEnd<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A generator of numbers; the same seed gives the same ones.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

fn count_rows(server: &PostgresServer, from: &str) -> usize {
    server.query(&format!("SELECT count(*) FROM skillhost.{from}")).parse().unwrap()
}

fn wait_for_count(server: &PostgresServer, from: &str, wanted: usize) {
    poll_until(from, || {
        let count = count_rows(server, from);
        if count == wanted { Ok(()) } else { Err(count) }
    });
}

/// Checks that the journal of a home has one event about the end of each task that it has submitted,
/// and none of others.
fn check_ends(home: &TestHome, at: usize, owners: &BTreeMap<String, usize>) {
    let arguments = ["event", "tail", "--topic", "task.ended", "--lines", "100000", "--json"];
    let events = home.skillhost(arguments).success();
    let mut ended = Vec::new();
    for line in events.stdout.lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        ended.extend(event["payload"]["task"].as_str().map(str::to_owned));
    }
    ended.sort();
    let own = owners.iter().filter(|(_, owner)| **owner == at).map(|(task, _)| task.clone());
    assert_eq!(ended, own.collect::<Vec<_>>());
}
