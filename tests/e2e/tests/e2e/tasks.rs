//! Tests of `skillhost task` and `skillhost inbox` on stored tasks and questions; no kernel runs.

use std::fs;
use std::sync::Arc;

use serde_json::Value;
use skillhost_tasks::{NewQuestion, Question, QuestionKind, SqliteQueue, TaskQueue};
use test_support::TestHome;

use crate::fixtures::{agent_manifest, home};

/// Creates a home with the agent `worker`.
fn worker_home() -> TestHome {
    home().manifest(
        "worker",
        &agent_manifest("worker", "  integration_mode: tool\n  instructions: Work.\n"),
    )
}

/// Submits a task and returns it.
fn submit(home: &TestHome, args: &[&str]) -> Value {
    let mut command = vec!["task", "submit", "--json"];
    command.extend(args);
    home.skillhost(command).success().json()
}

fn id_of(submitted: &Value) -> String {
    submitted["task"]["id"].as_str().unwrap().to_owned()
}

/// Asks a question as an extension of the home would, and returns it.
fn ask(home: &TestHome, call: &str, kind: QuestionKind, options: &[&str]) -> Question {
    let question = NewQuestion {
        id: format!("01k0000000000000000000000{call}"),
        thread: Some("01thread".to_owned()),
        kind,
        asker: "worker".to_owned(),
        call: call.to_owned(),
        title: "call `write_file`".to_owned(),
        subject: "{\"tool\": \"write_file\", \"arguments\": {\"text\": \"one\\ntwo\\u001b[2J\"}}"
            .to_owned(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
    };
    let store = SqliteQueue::in_directory(&home.path("sandbox/data/kernel"));
    let queue = TaskQueue::new(Arc::new(store.clone()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let asked = queue.ask(question).await.unwrap();
        store.close().await;
        asked
    })
}

#[test]
fn task_is_stored_without_kernel() {
    let home = worker_home();
    assert!(home.skillhost(["task", "list"]).success().stderr.contains("no such tasks"));
    assert!(!home.path("sandbox/data/kernel/work.db").exists());
    let args = ["task", "submit", "work", "Review it\nand more", "--budget", "turns=3,cost=0.5"];
    let submitted = home.skillhost(args).success();
    let line = submitted.stdout.lines().next().unwrap();
    let id = line.strip_prefix("submitted ").unwrap().split(':').next().unwrap().to_owned();
    assert!(line.ends_with(": agent worker, ready"), "{submitted}");
    assert!(
        submitted.stdout.contains("no kernel runs; this starts it: skillhost run"),
        "{submitted}"
    );

    let listed = home.skillhost(["task", "list"]).success().stdout;
    assert!(listed.contains(&id) && listed.contains("Review it"), "{listed}");
    let listed = home.skillhost(["task", "list", "--state", "failed", "--json"]).success().json();
    assert_eq!((&listed["tasks"], &listed["next"]), (&Value::Array(Vec::new()), &Value::Null));
    let shown = home.skillhost(["task", "show", &id[..25], "--json"]).success().json();
    assert_eq!(shown["task"]["state"], "ready");
    assert_eq!(shown["task"]["budget"], serde_json::json!({ "turns": 3, "cost": 500_000 }));
    assert_eq!(shown["task"]["outcome"], Value::Null);
    assert_eq!(shown["input"], "Review it\nand more");
    let shown = home.skillhost(["task", "show", &id]).success().stdout;
    assert!(shown.contains("0 turns of 3 turns, $0.00 of $0.50"), "{shown}");
    assert!(shown.contains("  | and more\n"), "{shown}");
    let logs = home.skillhost(["task", "logs", &id]).success();
    assert!(logs.stderr.contains("has no lines yet; it is ready"), "{logs}");
    let status = home.skillhost(["status"]).exits(3).stdout;
    assert!(status.contains("tasks       1 ready"), "{status}");
}

#[test]
fn pages_of_tasks_are_complete() {
    let home = worker_home();
    let mut ids: Vec<_> =
        (0..3).map(|n| id_of(&submit(&home, &["worker", &n.to_string()]))).collect();
    ids.sort_by(|a, b| b.cmp(a));
    let page = home.skillhost(["task", "list", "--limit", "2", "--json"]).success().json();
    let next = page["next"].as_str().unwrap();
    assert_eq!(next, ids[1]);
    let rest = home.skillhost(["task", "list", "--before", next, "--json"]).success().json();
    assert_eq!(rest["tasks"][0]["id"], ids[2].as_str());
    assert_eq!(rest["next"], Value::Null);
}

#[test]
fn repeated_key_names_same_task() {
    let home = worker_home();
    let args = ["worker", "Review it", "--key", "review-1"];
    let first = submit(&home, &args);
    let again = submit(&home, &args);
    assert_eq!((&first["created"], &again["created"]), (&true.into(), &false.into()));
    assert_eq!(id_of(&first), id_of(&again));
    let other = home.skillhost(["task", "submit", "worker", "Other", "--key", "review-1"]).exits(4);
    assert!(other.stderr.contains("belongs to task"), "{other}");
    let listed = home.skillhost(["task", "list", "--json"]).success().json();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1);
}

#[test]
fn faulty_submission_stores_nothing() {
    let home = worker_home();
    let large = "x".repeat(100 * 1024);
    home.write("large.txt", large.repeat(3));
    for (args, status, message) in [
        (&["nobody", "x"][..], 3, "agent `nobody` not found"),
        (&["echo", "x"], 2, "extension `echo` is not an agent"),
        (&["worker"], 2, "an agent requires the text of the task"),
        (&["worker", " "], 2, "the text of the task is empty"),
        (&["worker", "x", "--budget", "turns=0"], 2, "budget `turns` is 0"),
        (&["worker", "x", "--budget", "time=5"], 2, "`time` requires a duration"),
        (&["worker", "x", "--deadline", "2020-01-01"], 2, "deadline has passed"),
        (&["worker", "x", "--after", "01k"], 3, "task `01k` not found"),
        (&["worker", "x", "--on-end", "wake"], 2, "requires a thread"),
        (&["--tool", "echo", "[]"], 2, "the arguments are not a JSON object"),
        (&["--tool", "echo", "worker", "x"], 2, "`--tool` requires only the arguments"),
    ] {
        let refused = home.skillhost(["task", "submit"].iter().chain(args)).exits(status);
        assert!(refused.stderr.contains(message), "{args:?}: {refused}");
        assert!(refused.stderr.contains("hint: ") || status == 2, "{refused}");
    }
    let script = "\"$0\" task submit worker - < large.txt";
    let mut command = home.command_of("sh".as_ref());
    command.current_dir(home.root()).args(["-c", script]).arg(test_support::binary());
    let refused = home.start(&mut command).finish().exits(2);
    assert!(refused.stderr.contains("input has 307200 bytes, at most 262144"), "{refused}");
    let listed = home.skillhost(["task", "list", "--json"]).success().json();
    assert_eq!(listed["tasks"], Value::Array(Vec::new()));
}

#[test]
fn cancelled_task_is_retried_once() {
    let home = worker_home();
    let first = id_of(&submit(&home, &["worker", "x", "--key", "k"]));
    home.skillhost(["task", "retry", &first]).exits(4);
    let cancelled = home.skillhost(["task", "cancel", &first]).success().stdout;
    assert_eq!(cancelled, format!("task {first} is cancelled, by operator\n"));
    home.skillhost(["task", "cancel", &first]).success();
    let second = home.skillhost(["task", "retry", &first, "--json"]).success().json();
    assert_eq!(second["task"]["retry_of"], first.as_str());
    let again = home.skillhost(["task", "retry", &first]).exits(4);
    assert!(again.stderr.contains(&id_of(&second)), "{again}");
    // The key names the newest of the chain.
    assert_eq!(id_of(&submit(&home, &["worker", "x", "--key", "k"])), id_of(&second));
    let waited = home.skillhost(["task", "submit", "worker", "y", "--after", &first, "--wait"]);
    let waited = waited.exits(1);
    assert!(waited.stderr.contains("the task failed: task `"), "{waited}");
    let shown = home.skillhost(["task", "show", &first]).success().stdout;
    assert!(shown.contains("cancelled  by operator"), "{shown}");
    home.skillhost(["task", "logs", &first, "--follow"]).success();
    home.skillhost(["task", "show", "zz"]).exits(3);
}

#[test]
fn approval_requires_inspected_digest() {
    let home = worker_home();
    let asked = ask(&home, "1", QuestionKind::Consent, &["approve", "refuse"]);
    let id = asked.id.as_str();
    let listed = home.skillhost(["inbox", "list"]).success().stdout;
    assert!(listed.contains(id) && listed.contains("consent"), "{listed}");
    let shown = home.skillhost(["inbox", "show", "01k"]).success().stdout;
    assert!(shown.contains("  >| two\\u{1b}[2J\n"), "{shown}");
    assert!(shown.contains(&format!("inbox approve {id} --digest {}\n", asked.digest)), "{shown}");
    let status = home.skillhost(["status"]).exits(3).stdout;
    assert!(status.contains("1 question: skillhost inbox list"), "{status}");

    let blind = home.skillhost(["inbox", "approve", id]).exits(2);
    assert!(blind.stderr.contains("requires a terminal, or the digest"), "{blind}");
    home.skillhost(["inbox", "answer", id, "approve"]).exits(2);
    home.skillhost(["inbox", "approve", id, "--digest", &asked.digest[..7]]).exits(2);
    let wrong = home.skillhost(["inbox", "approve", id, "--digest", "0123456789abcdef"]).exits(4);
    assert!(wrong.stderr.contains("asks about other bytes"), "{wrong}");
    let open = home.skillhost(["inbox", "list", "--json"]).success().json();
    assert_eq!(open["questions"][0]["state"], "open");

    let digest = asked.digest[..8].to_uppercase();
    let decided = home.skillhost(["inbox", "approve", id, "--digest", &digest]).success().stdout;
    assert_eq!(decided, format!("decided {id} as `approve`\n"));
    for args in [
        &["inbox", "approve", id, "--digest", &digest][..],
        &["inbox", "refuse", "01k"],
        &["inbox", "answer", id, "refuse"],
    ] {
        let second = home.skillhost(args).exits(4);
        assert!(
            second.stderr.contains("decided as `approve` by operator on terminal at 2"),
            "{second}"
        );
    }
    let shown = home.skillhost(["inbox", "show", id, "--json"]).success().json();
    assert_eq!(shown["question"]["choice"], "approve");
    assert_eq!(shown["commands"], Value::Array(Vec::new()));
    home.skillhost(["inbox", "show", "01z"]).exits(3);
}

#[test]
fn interrupted_call_has_three_answers() {
    let home = worker_home();
    let asked = ask(&home, "2", QuestionKind::Uncertain, &["happened", "again", "stop"]);
    let id = asked.id.as_str();
    home.skillhost(["inbox", "approve", id, "--digest", &asked.digest]).exits(2);
    let wrong = home.skillhost(["inbox", "answer", id, "perhaps"]).exits(2);
    assert!(wrong.stderr.contains("choose one of: happened, again, stop"), "{wrong}");
    home.skillhost(["inbox", "answer", id, "happened"]).success();
    let refused = ask(&home, "3", QuestionKind::Consent, &["approve", "refuse"]);
    home.skillhost(["inbox", "refuse", &refused.id, "--reason", "too broad"]).success();
    let shown = home.skillhost(["inbox", "show", &refused.id]).success().stdout;
    assert!(shown.contains("decided as `refuse` by operator on terminal"), "{shown}");
    assert!(shown.contains(": too broad"), "{shown}");
}

#[test]
fn approval_at_terminal_shows_subject() {
    let home = worker_home();
    let asked = ask(&home, "4", QuestionKind::Build, &["approve", "refuse"]);
    let mut command = home.command();
    command.args(["inbox", "approve", &asked.id]);
    let mut terminal = home.on_terminal(&mut command, (100, 40));
    terminal.wait_for("write_file");
    terminal.wait_for("approve? [y]es, [N]o");
    terminal.send("y\r");
    terminal.wait_for("as `approve`");
    assert_eq!(terminal.finish().output.status, 0);
}

#[test]
fn newer_work_file_is_kept() {
    let home = worker_home();
    let id = id_of(&submit(&home, &["worker", "x"]));
    let path = home.path("sandbox/data/kernel/work.db");
    let file = rusqlite::Connection::open(&path).unwrap();
    let version: i64 = file.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    file.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA user_version = 900").unwrap();
    drop(file);
    let newer = fs::read(&path).unwrap();
    for args in [&["task", "list"][..], &["task", "submit", "worker", "y"], &["inbox", "list"]] {
        let failed = home.skillhost(args).exits(5);
        assert!(failed.stderr.contains("hint: "), "{failed}");
    }
    let doctor = home.skillhost(["ext", "doctor"]).exits(1).stdout;
    assert!(doctor.contains("unhealthy tasks: not executed: "), "{doctor}");
    assert_eq!(fs::read(&path).unwrap(), newer);
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch(&format!("PRAGMA user_version = {version}")).unwrap();
    drop(file);
    home.skillhost(["task", "show", &id]).success();
}

#[test]
fn ids_are_completed_in_shell() {
    let home = worker_home();
    let id = id_of(&submit(&home, &["worker", "x", "--title", "Water the plants"]));
    let asked = ask(&home, "5", QuestionKind::Choice, &[]);
    let complete = |words: &[&str]| {
        let mut command = home.command();
        command.env("SKILLHOST_COMPLETE", "fish").args(["--", "skillhost"]).args(words);
        home.start(&mut command).finish().success().stdout
    };
    assert_eq!(complete(&["task", "show", &id[..20]]), format!("{id}\tWater the plants\n"));
    assert!(complete(&["inbox", "approve", "01k"]).starts_with(&asked.id));
    assert!(complete(&["task", "submit", "wor"]).starts_with("worker"));
}

#[test]
fn damaged_work_file_is_kept() {
    let home = worker_home();
    submit(&home, &["worker", "x"]);
    let path = home.path("sandbox/data/kernel/work.db");
    for name in ["work.db-wal", "work.db-shm"] {
        let _ = fs::remove_file(path.with_file_name(name));
    }
    let damaged: Vec<u8> = b"no database".iter().copied().cycle().take(20_000).collect();
    fs::write(&path, &damaged).unwrap();
    for args in [
        &["task", "list"][..],
        &["task", "submit", "worker", "y"],
        &["task", "show", "01k"],
        &["inbox", "list"],
    ] {
        let failed = home.skillhost(args).exits(5);
        assert!(failed.stderr.contains("the task store is damaged"), "{failed}");
        assert!(failed.stderr.contains("hint: "), "{failed}");
    }
    let status = home.skillhost(["status"]).exits(3).stdout;
    assert!(status.contains("tasks: the task store is damaged"), "{status}");
    let doctor = home.skillhost(["ext", "doctor"]).exits(1).stdout;
    assert!(
        doctor.contains("unhealthy tasks: not executed: the task store is damaged"),
        "{doctor}"
    );
    assert!(doctor.contains("restore `work.db` from a backup"), "{doctor}");
    assert_eq!(fs::read(&path).unwrap(), damaged);
}

#[test]
fn backup_has_tasks() {
    let home = worker_home();
    let id = id_of(&submit(&home, &["worker", "x", "--key", "k"]));
    home.skillhost(["backup", "../saved.tar.gz"]).success();
    home.skillhost(["task", "cancel", &id]).success();
    // Not over a home with newer tasks, unless these are moved aside.
    home.skillhost(["restore", "../saved.tar.gz"]).exits(4);
    home.skillhost(["restore", "../saved.tar.gz", "../copy", "--trust"]).success();
    let in_copy = home.outside().join("copy");
    let list = |args: &[&str]| {
        let mut command = home.command();
        home.start(command.current_dir(&in_copy).args(args)).finish().success().json()
    };
    let restored = list(&["task", "list", "--json"]);
    assert_eq!(restored["tasks"][0]["id"], id.as_str());
    assert_eq!(restored["tasks"][0]["state"], "ready");
    assert_eq!(list(&["task", "submit", "worker", "x", "--key", "k", "--json"])["created"], false);
}
