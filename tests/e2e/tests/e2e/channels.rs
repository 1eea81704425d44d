//! Tests of channels: pairing, messages, replies and buttons, with kills in between.

use std::collections::{BTreeMap, BTreeSet};

use mock_model::{MockModel, Step};
use serde_json::{Value, json};
use test_support::{TestHome, poll_until};

use crate::fixtures::start_kernel;
use crate::home_queue::{HomeQueue, kill};
use crate::inbox_races::connect;
use crate::mailbox::Mailbox;

/// Answers each message with an echo of it.
fn echoing_model() -> MockModel {
    let mock = MockModel::new();
    mock.answer_with(|request| Some(Step::text(&format!("Echo: {}", request.last_text()))));
    mock
}

/// Returns whether a text is in any file below a directory.
fn is_stored(directory: &std::path::Path, text: &str) -> bool {
    std::fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => is_stored(&path, text),
            // Sockets cannot be read.
            false => std::fs::read(&path).is_ok_and(|bytes| {
                bytes.windows(text.len()).any(|window| window == text.as_bytes())
            }),
        }
    })
}

fn journal_events(home: &TestHome, topic: &str) -> Vec<Value> {
    let journal = home.skillhost(["events", "tail", "-n", "5000", "--json"]).success().stdout;
    let events = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["topic"] == topic).collect()
}

#[test]
fn paired_person_gets_replies() {
    let mock = echoing_model();
    let mailbox = Mailbox::new(&mock, "");
    let home = &mailbox.home;
    let kernel = start_kernel(home);
    mailbox.pair(1, "1", &[]);
    mailbox.write(2, "hello", "1", "Hello");
    mailbox.wait_for_text("Echo: Hello");
    let system = mock.requests()[0].system();
    for part in [
        "through the channel `mailbox`, in a conversation with one person",
        "the owner with the id \"1\", who goes by the name \"Person 1\"",
        "Format of replies: plain text without markup; texts of more than 400",
        "untrusted: \"Person 1 likes short replies\"",
    ] {
        assert!(system.contains(part), "{part}: {system}");
    }
    // Before the blocks of extensions.
    let (channel, skills) = (system.find("[Channel]"), system.find("code-review"));
    assert!(channel.is_some() && channel < skills, "{system}");
    let peers = home.skillhost(["channel", "peers", "--json"]).success().json();
    assert_eq!(peers["peers"][0]["role"], "owner");
    let listed = home.skillhost(["channel", "list", "--json"]).success().json();
    let row = &listed["channels"][0];
    assert_eq!(
        (&row["loaded"], &row["owners"], &row["agent"]),
        (&true.into(), &1.into(), &"worker".into())
    );
    home.skillhost(["channel", "test", "mailbox", "Does it work?"]).success();
    mailbox.wait_for_text("Does it work?");
    let archive = home.outside().join("home.tar.gz");
    home.skillhost(["backup", archive.to_str().unwrap()]).success();
    let listed = std::process::Command::new("tar").arg("-tzf").arg(&archive).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("sandbox/data/kernel/channels.db\n"), "{listed}");
    let status = home.skillhost(["status"]).success().stdout;
    assert!(status.contains("mailbox: 1 owner, 0 guests"), "{status}");
    // The operator's own message in the thread is answered at the terminal alone.
    let thread = home.skillhost(["threads", "list", "--json"]).success().json();
    let thread = thread["threads"][0]["id"].as_str().unwrap().to_owned();
    home.skillhost(["ask", "--thread", &thread, "From the terminal"]).success();
    mailbox.write(3, "again", "1", "Again");
    mailbox.wait_for_text("Echo: Again");
    let sent = mailbox.sent();
    assert!(sent.iter().all(|it| !it["text"].as_str().unwrap().contains("From the terminal")));
    // Revoked, the person is a stranger.
    home.skillhost(["channel", "revoke", "mailbox", "1"]).success();
    home.skillhost(["channel", "revoke", "mailbox", "1"]).exits(3);
    mailbox.write(4, "late", "1", "unheard words");
    assert_eq!(mailbox.wait_for_outcome(4), "refused");
    kernel.interrupt().success();
    assert!(!is_stored(&home.path("sandbox"), "unheard words"));
    assert_eq!(mailbox.sent().len(), sent.len());
}

#[test]
fn commands_of_channels_check_arguments() {
    let mailbox = Mailbox::new(&MockModel::new(), "");
    let home = &mailbox.home;
    let pair = |options: &[&str]| home.skillhost(["channel", "pair"].iter().chain(options));
    let unknown = pair(&["mailbx"]).exits(3);
    assert!(unknown.stderr.contains("did you mean mailbox"), "{unknown}");
    let guest = pair(&["mailbox", "--role", "guest"]).exits(2);
    assert!(guest.stderr.contains("--agent ID"), "{guest}");
    pair(&["mailbox", "--agent", "worker"]).exits(2);
    let test = home.skillhost(["channel", "test", "mailbox"]).exits(3);
    assert!(test.stderr.contains("pair one: skillhost channel pair mailbox"), "{test}");
    let made = pair(&["mailbox", "--role", "guest", "--agent", "worker"]).success();
    assert!(made.stderr.contains("no kernel runs"), "{made}");
    home.skillhost(["channel", "peers"]).success();
}

#[test]
fn stranger_is_neither_answered_nor_stored() {
    let mock = echoing_model();
    let mailbox = Mailbox::new(&mock, "");
    let kernel = start_kernel(&mailbox.home);
    mailbox.write(1, "a", "9", "words of a stranger");
    mailbox.write(2, "b", "9", "/start ABCDE-FGHJK");
    assert_eq!(mailbox.wait_for_outcome(1), "refused");
    assert_eq!(mailbox.wait_for_outcome(2), "refused");
    kernel.interrupt().success();
    assert_eq!((mock.requests().len(), mailbox.sent()), (0, Vec::new()));
    assert!(!is_stored(&mailbox.home.path("sandbox"), "words of a stranger"));
}

#[test]
fn secret_is_stored_nowhere() {
    let mock = echoing_model();
    let mailbox = Mailbox::new(&mock, "");
    let kernel = start_kernel(&mailbox.home);
    mailbox.pair(1, "1", &[]);
    let key = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    mailbox.write(2, "key", "1", &format!("Use {key} please"));
    assert_eq!(mailbox.wait_for_outcome(2), "refused");
    mailbox.wait_for_text("seems to contain a secret (GitHub token)");
    kernel.interrupt().success();
    assert_eq!(mock.requests().len(), 0);
    assert!(!is_stored(&mailbox.home.path("sandbox"), key));
}

#[test]
fn kills_lose_and_double_no_message() {
    let mock = echoing_model();
    let mailbox = Mailbox::new(&mock, "");
    let home = &mailbox.home;
    let count = 40;
    let mut kernel = start_kernel(home);
    mailbox.pair(1, "1", &[]);
    let mut number = 2;
    for message in 0..count {
        let text = format!("Message {message}.");
        mailbox.write(number, &format!("id {message}"), "1", &text);
        if message == 0 {
            // A kill while the thread is created would leave an empty one.
            mailbox.wait_for_outcome(number);
        }
        number += 1;
        // Every fifth message is repeated by the platform.
        if message % 5 == 0 {
            mailbox.write(number, &format!("id {message}"), "1", &text);
            number += 1;
        }
        // Killed at any point of a message. In between one is answered: a message during which the
        // kernel ends four times is a dead letter.
        if message % 4 == 3 {
            mailbox.wait_for_text(&format!("Echo: Message {}.", message - 2));
            let pause = std::time::Duration::from_millis(message * 7 % 120);
            std::thread::sleep(pause);
            kill(kernel);
            kernel = start_kernel(home);
        }
    }
    mailbox.wait_for_outcome(number - 1);
    let echoes = || {
        let mut echoes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for sent in mailbox.sent() {
            let (text, key) = (sent["text"].as_str().unwrap(), sent["key"].as_str().unwrap());
            if text.starts_with("Echo: ") {
                echoes.entry(text.to_owned()).or_default().insert(key.to_owned());
            }
        }
        echoes
    };
    let count = usize::try_from(count).unwrap();
    // One reply and one delivery each: the same text has one key.
    let echoes = poll_until("an echo of each message", || {
        let echoes = echoes();
        if echoes.len() < count { Err(echoes) } else { Ok(echoes) }
    });
    assert!(echoes.values().all(|keys| keys.len() == 1), "{echoes:#?}");
    let replies = journal_events(home, "agent.replied");
    assert_eq!(replies.len(), count);
    kernel.interrupt().success();
    // One thread has each message once.
    let threads = home.skillhost(["threads", "list", "--json"]).success().json();
    assert_eq!(threads["threads"].as_array().unwrap().len(), 1, "{threads}");
}

#[test]
fn author_of_dead_message_gets_one_reply() {
    let mock = MockModel::with([Step::text("Lost.").held(), Step::text("Here again.")]);
    let mailbox = Mailbox::new(&mock, "events: {retry_ms: []}\n");
    let home = &mailbox.home;
    let kernel = start_kernel(home);
    mailbox.pair(1, "1", &[]);
    mailbox.write(2, "a", "1", "Hello");
    assert_eq!(mock.wait_for(1).len(), 1);
    kill(kernel);
    mock.release();
    // Its only attempt ended with the process.
    let kernel = start_kernel(home);
    mailbox.wait_for_text("The agent could not answer: all attempts failed.");
    mailbox.write(3, "b", "1", "Hello?");
    mailbox.wait_for_text("Here again.");
    kernel.interrupt().success();
    // Each start looks at the dead letters that there are.
    let kernel = start_kernel(home);
    mailbox.write(4, "c", "9", "A stranger");
    assert_eq!(mailbox.wait_for_outcome(4), "refused");
    kernel.interrupt().success();
    assert_eq!(journal_events(home, "event.dead").len(), 1);
    let is_failure = |sent: &&Value| sent["text"].as_str().unwrap().contains("could not answer");
    assert_eq!(mailbox.sent().iter().filter(is_failure).count(), 1);
}

#[test]
fn second_kernel_receives_no_message() {
    let mock = MockModel::new();
    let mailbox = Mailbox::new(&mock, "");
    let home = &mailbox.home;
    let kernel = start_kernel(home);
    mailbox.pair(1, "1", &[]);
    // A kernel of its own, with the same channel.
    let client = connect(home);
    for number in 2..30 {
        mailbox.write(number, &format!("id {number}"), "9", "words of a stranger");
        assert_eq!(mailbox.wait_for_outcome(number), "refused");
    }
    let outcomes = std::fs::read_to_string(home.path("outcomes.txt")).unwrap();
    assert_eq!(outcomes.lines().count(), 29, "{outcomes}");
    drop(client);
    kernel.interrupt().success();
}

#[test]
fn failed_delivery_is_one_event() {
    // Dropped at the end of the test: without it there are no replies.
    let mock = echoing_model();
    let mailbox = Mailbox::new(&mock, "");
    let home = &mailbox.home;
    let kernel = start_kernel(home);
    mailbox.pair(1, "1", &[]);
    home.write("throttle", "50");
    mailbox.write(2, "a", "1", "Hello");
    mailbox.wait_for_text("Echo: Hello");
    home.write("gone", "");
    home.skillhost(["channel", "test", "mailbox"]).exits(1);
    kernel.line_with("delivery.failed");
    assert_eq!(journal_events(home, "delivery.failed").len(), 1);
    kernel.interrupt().success();
}

#[test]
fn button_approves_what_was_shown() {
    let write = json!({ "path": "notes.txt", "content": "kept" }).to_string();
    let mock = MockModel::with([Step::calls("write_file", &write), Step::text("Written.")]);
    let mailbox = Mailbox::new(&mock, "");
    let kernel = start_kernel(&mailbox.home);
    mailbox.pair(1, "1", &[]);
    mailbox.write(2, "a", "1", "Write a note");
    let asked = mailbox.wait_for_sent(|sent| sent["buttons"].is_array());
    let text: String =
        mailbox.sent().iter().map(|it| it["text"].as_str().unwrap().to_owned()).collect();
    assert!(text.contains("arguments.path: notes.txt"), "{text}");
    assert_eq!(mailbox.press(3, &asked, 0, "9"), "This question is not yours.");
    assert!(!mailbox.home.path("sandbox/notes.txt").exists());
    assert_eq!(mailbox.press(4, &asked, 0, "1"), "Decided: approve.");
    mailbox.wait_for_text("Written.");
    let note = std::fs::read_to_string(mailbox.home.path("sandbox/notes.txt")).unwrap();
    assert_eq!(note, "kept");
    let edited = mailbox.wait_for_sent(|sent| sent["edits"] == asked["key"]);
    assert!(edited["buttons"].is_null(), "{edited}");
    assert!(
        edited["text"].as_str().unwrap().contains("Decided: approve — owner Person 1"),
        "{edited}"
    );
    kernel.interrupt().success();
}

#[test]
fn parked_question_is_answered_after_kill() {
    let write = json!({ "path": "notes.txt", "content": "kept" }).to_string();
    let mock = MockModel::with([Step::calls("write_file", &write), Step::text("Written.")]);
    let mailbox = Mailbox::new(&mock, "tasks: {live_ms: 200}\n");
    let kernel = start_kernel(&mailbox.home);
    mailbox.pair(1, "1", &[]);
    mailbox.write(2, "a", "1", "Write a note");
    let asked = mailbox.wait_for_sent(|sent| sent["buttons"].is_array());
    kill(kernel);
    let kernel = start_kernel(&mailbox.home);
    assert_eq!(mailbox.press(3, &asked, 0, "1"), "Decided: approve.");
    mailbox.wait_for_text("Written.");
    assert!(mailbox.home.path("sandbox/notes.txt").exists());
    kernel.interrupt().success();
}

#[test]
fn guest_reaches_no_workspace() {
    let mock = echoing_model();
    let workspaces = "workspaces:\n  - {label: shared, path: /usr/share}\n";
    let mailbox = Mailbox::new(&mock, workspaces);
    let kernel = start_kernel(&mailbox.home);
    mailbox.pair(1, "1", &["--role", "guest", "--agent", "orchestrator_agent"]);
    mailbox.write(2, "a", "1", "Hello");
    mailbox.wait_for_text("Echo: Hello");
    let system = mock.requests()[0].system();
    assert!(system.contains("A guest is not the operator"), "{system}");
    assert!(!system.contains("workspace:shared"), "{system}");
    mailbox.write(3, "b", "1", "/tasks");
    mailbox.wait_for_text("This command is for owners.");
    mailbox.pair(4, "2", &[]);
    mailbox.write(5, "c", "2", "Hi");
    mailbox.wait_for_text("Echo: Hi");
    let system = mock.requests()[1].system();
    assert!(system.contains("workspace:shared"), "{system}");
    kernel.interrupt().success();
}

#[test]
fn damaged_file_is_reported_and_kept() {
    let mailbox = Mailbox::new(&echoing_model(), "");
    let home = &mailbox.home;
    let damaged = "damaged ".repeat(200);
    home.write("sandbox/data/kernel/channels.db", &damaged);
    let doctor = home.skillhost(["ext", "doctor"]).exits(1);
    assert!(doctor.stdout.contains("channels: off:"), "{doctor}");
    assert!(doctor.stdout.contains("restore `channels.db` from a backup"), "{doctor}");
    let kernel = start_kernel(home);
    mailbox.write(1, "a", "1", "Hello");
    let status = home.skillhost(["status"]).success().stdout;
    assert!(status.contains("off: `channels.db` is damaged"), "{status}");
    kernel.interrupt().success();
    let path = home.path("sandbox/data/kernel/channels.db");
    assert_eq!(std::fs::read_to_string(path).unwrap(), damaged);
}

#[test]
fn ended_task_is_told_in_its_conversation() {
    let submit =
        json!({ "agent": "worker", "task": "Count to three", "on_end": "note" }).to_string();
    let mock = MockModel::new();
    mock.answer_with(move |request| {
        let messages = request.messages();
        Some(match messages.last() {
            Some(last) if last.role == "tool" => Step::text("Submitted."),
            Some(last) if last.text.contains("Count to three") => Step::text("One, two, three."),
            _ => Step::calls("submit_task", &submit),
        })
    });
    let mailbox = Mailbox::new(&mock, "");
    let manifest = crate::fixtures::agent_manifest(
        "worker",
        "  instructions: You work.\n  uses_tools: [tasks]\n",
    );
    mailbox.home.write("manifests/worker/manifest.yaml", manifest);
    let kernel = start_kernel(&mailbox.home);
    mailbox.pair(1, "1", &[]);
    mailbox.write(2, "a", "1", "Begin");
    mailbox.wait_for_text("has completed: Count to three");
    mailbox.wait_for_text("One, two, three.");
    let queue = HomeQueue::open(&mailbox.home);
    assert!(queue.list().iter().any(|task| task.target == "mailbox"));
    kernel.interrupt().success();
}
