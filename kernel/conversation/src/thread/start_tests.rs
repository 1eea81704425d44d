//! Recorded starts of calls: what a later process knows of them.

use skillhost_payload::CallEffect;
use test_support::SmallDisk;

use super::store::testing::reread;
use super::tests::{answer, calls, cut_off, on_disk, start, unmade, user, wait};
use super::*;
use crate::model::ModelToolCall;

fn started(count: u32, effect: CallEffect) -> CallAttempts {
    CallAttempts::Started { count, effect, arguments: None }
}

fn attempts(thread: &mut Thread) -> Vec<(String, CallAttempts)> {
    thread.open_calls().into_iter().map(|open| (open.call.id, open.attempts)).collect()
}

/// Returns the complete lines of a journal in memory.
fn journal(disk: &SmallDisk) -> Vec<u8> {
    disk.bytes.lock().unwrap().clone()
}

#[test]
fn started_call_is_known_after_replay() {
    let disk = SmallDisk::with_room(usize::MAX);
    let mut thread = on_disk(&disk);
    wait(thread.push(user("do"))).unwrap();
    wait(thread.push(calls(&["1", "2", "3"]))).unwrap();
    assert_eq!(attempts(&mut thread)[0], ("1".into(), CallAttempts::None));
    // Parallel calls share the thread while they record their starts.
    let parallel = async {
        let (one, two) = (
            thread.start_call(start("1", CallEffect::Once)),
            thread.start_call(start("2", CallEffect::Keyed)),
        );
        let (one, two) = tokio::join!(one, two);
        one.and(two)
    };
    wait(parallel).unwrap();
    // The record is on disk on return, and no later change is needed for it.
    let mut again = reread(&journal(&disk)).unwrap();
    let expected = [
        ("1".to_owned(), started(1, CallEffect::Once)),
        ("2".to_owned(), started(1, CallEffect::Keyed)),
        ("3".to_owned(), CallAttempts::None),
    ];
    assert_eq!(attempts(&mut again), expected);
    assert_eq!(attempts(&mut thread), expected);
    wait(thread.push(answer("1", "done"))).unwrap();
    wait(thread.start_call(start("2", CallEffect::Once))).unwrap();
    let mut again = reread(&journal(&disk)).unwrap();
    let expected =
        [("2".to_owned(), started(2, CallEffect::Once)), ("3".to_owned(), CallAttempts::None)];
    assert_eq!(attempts(&mut again), expected);
}

#[test]
fn torn_start_was_not_made() {
    let disk = SmallDisk::with_room(usize::MAX);
    let mut thread = on_disk(&disk);
    wait(thread.push(calls(&["1"]))).unwrap();
    let before = journal(&disk).len();
    let begun = CallStart { arguments: Some("{\"a\":1}".into()), ..start("1", CallEffect::Once) };
    wait(thread.start_call(begun)).unwrap();
    let bytes = journal(&disk);
    for end in before..bytes.len() {
        let mut again = reread(&bytes[..end]).unwrap();
        assert_eq!(attempts(&mut again), [("1".to_owned(), CallAttempts::None)], "{end}");
    }
    let mut again = reread(&bytes).unwrap();
    let arguments = Some("{\"a\":1}".to_owned());
    let expected = CallAttempts::Started { count: 1, effect: CallEffect::Once, arguments };
    assert_eq!(attempts(&mut again), [("1".to_owned(), expected)]);
    // Without room, the caller learns that the call must not be made.
    *disk.room.lock().unwrap() = bytes.len();
    let error = wait(thread.start_call(start("1", CallEffect::Once))).unwrap_err();
    assert!(matches!(error, ThreadError::Io { .. }), "{error}");
    assert!(matches!(attempts(&mut thread)[0].1, CallAttempts::Started { count: 1, .. }));
}

#[test]
fn earlier_journal_has_unknown_attempts() {
    let disk = SmallDisk::with_room(usize::MAX);
    drop(on_disk(&disk));
    let mut bytes = journal(&disk);
    let reply = serde_json::json!({
        "at": 1, "entry": "message",
        "message": {"role": "assistant", "text": "", "calls": [
            {"id": "1", "name": "echo", "arguments": "{}"},
        ]},
    });
    bytes.extend(line::with_checksum(serde_json::to_vec(&reply).unwrap()));
    let mut thread = reread(&bytes).unwrap();
    assert_eq!(attempts(&mut thread), [("1".to_owned(), CallAttempts::Unknown)]);
    wait(thread.close_open_calls()).unwrap();
    assert_eq!(thread.messages().last(), Some(&cut_off("1")));
    assert!(thread.is_uncertain("echo", "{}"));
}

#[test]
fn call_key_survives_compaction_and_reset() {
    let disk = SmallDisk::with_room(usize::MAX);
    let mut thread = on_disk(&disk);
    let mut keys = std::collections::BTreeSet::new();
    for round in 0..4 {
        wait(thread.push(user("do"))).unwrap();
        wait(thread.push(calls(&["1", "2"]))).unwrap();
        let open: Vec<_> = thread.open_calls().into_iter().map(|open| open.key).collect();
        let mut again = reread(&journal(&disk)).unwrap();
        let replayed: Vec<_> = again.open_calls().into_iter().map(|open| open.key).collect();
        assert_eq!(open, replayed);
        keys.extend(open);
        match round {
            0 => wait(thread.compact("summary".into(), thread.messages().len())).unwrap(),
            1 => wait(thread.reset()).unwrap(),
            _ => {}
        }
    }
    let mut other = Thread::in_memory("worker");
    wait(other.push(calls(&["1"]))).unwrap();
    keys.insert(other.open_calls().remove(0).key);
    assert_eq!(keys.len(), 9, "each call has a key of its own");
    assert!(keys.iter().all(|key| key.len() == 64));
}

#[test]
fn closed_call_is_uncertain_if_started() {
    let disk = SmallDisk::with_room(usize::MAX);
    let mut thread = on_disk(&disk);
    let call = |id: &str, arguments: &str| ModelToolCall {
        id: id.into(),
        name: "echo".into(),
        arguments: arguments.into(),
    };
    let reply = vec![call("1", r#"{"a":1,"b":2}"#), call("2", r#"{"a":2}"#), call("3", "no JSON")];
    wait(thread.push(Message::Assistant { text: String::new(), calls: reply })).unwrap();
    wait(thread.start_call(start("1", CallEffect::Once))).unwrap();
    wait(thread.start_call(start("3", CallEffect::Keyed))).unwrap();
    wait(thread.close_open_calls()).unwrap();
    assert_eq!(thread.messages()[1..], [cut_off("1"), unmade("2"), cut_off("3")]);
    wait(thread.reset()).unwrap();
    for thread in [&thread, &reread(&journal(&disk)).unwrap()] {
        assert!(thread.is_uncertain("echo", r#"{"b":2, "a":1}"#));
        assert!(thread.is_uncertain("echo", "no JSON"));
        assert!(!thread.is_uncertain("echo", r#"{"a":2}"#));
        assert!(!thread.is_uncertain("other", "no JSON"));
    }
}
