use std::fs;
use std::io;

use proptest::prelude::*;
use skillhost_home::{Home, HomeSource};
use test_support::SmallDisk;

use skillhost_payload::CallEffect;

use super::store::testing::{first_line, reread};
use super::*;
use crate::model::ModelToolCall;

struct StoreFixture {
    directory: tempfile::TempDir,
    threads: ThreadStore,
}

fn fixture() -> StoreFixture {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("sandbox")).unwrap();
    let threads = ThreadStore::new(&Home::open(directory.path(), HomeSource::Argument).unwrap());
    StoreFixture { directory, threads }
}

impl StoreFixture {
    fn journal(&self, id: &str) -> std::path::PathBuf {
        self.directory.path().join(format!("sandbox/data/kernel/threads/{id}.jsonl"))
    }
}

/// Waits for the append-log thread.
pub(super) fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

#[test]
fn open_thread_is_not_deleted() {
    let StoreFixture { directory: _directory, threads } = fixture();
    let thread = threads.create("a").unwrap();
    let id = thread.id().to_owned();
    assert!(matches!(threads.delete(&id), Err(ThreadError::Busy { .. })));
    drop(thread);
    assert_eq!(threads.ids().unwrap(), std::slice::from_ref(&id));
    threads.delete(&id).unwrap();
    assert_eq!(threads.ids().unwrap(), [""; 0]);
    assert!(matches!(threads.delete(&id), Err(ThreadError::NotFound { .. })));
    assert!(matches!(threads.delete("../x"), Err(ThreadError::BadId { .. })));
}

pub(super) fn user(text: &str) -> Message {
    Message::User { text: text.into() }
}

pub(super) fn calls(ids: &[&str]) -> Message {
    let call =
        |id: &&str| ModelToolCall { id: (*id).into(), name: "echo".into(), arguments: "{}".into() };
    Message::Assistant { text: String::new(), calls: ids.iter().map(call).collect() }
}

pub(super) fn answer(id: &str, text: &str) -> Message {
    Message::Tool { call_id: id.into(), name: "echo".into(), text: text.into(), is_error: false }
}

pub(super) fn unmade(id: &str) -> Message {
    let text = UNMADE_CALL_RESULT.into();
    Message::Tool { call_id: id.into(), name: "echo".into(), text, is_error: true }
}

pub(super) fn start(id: &str, effect: CallEffect) -> CallStart {
    CallStart { call_id: id.into(), effect, arguments: None }
}

pub(super) fn cut_off(id: &str) -> Message {
    let text = ABORTED_CALL_RESULT.into();
    Message::Tool { call_id: id.into(), name: "echo".into(), text, is_error: true }
}

fn skill(id: &str, digest: &str) -> SkillRef {
    SkillRef { skill_id: id.into(), digest: digest.into(), tree: None }
}

fn skills(thread: &Thread) -> Vec<(&str, &str, bool)> {
    let in_messages = |s: &'_ ThreadSkill| s.in_messages;
    let skills = thread.skills().iter();
    skills.map(|s| (s.skill.skill_id.as_str(), s.skill.digest.as_str(), in_messages(s))).collect()
}

/// A thread whose journal is in memory.
pub(super) fn on_disk(disk: &SmallDisk) -> Thread {
    let line = first_line("t", "worker");
    disk.bytes.lock().unwrap().extend(&line);
    let journal = AppendLog::new("journal".into(), Box::new(disk.clone()), line.len() as u64);
    Thread { journal: Some(journal), id: "t".into(), ..Thread::in_memory("worker") }
}

#[test]
fn reopened_thread_keeps_contents() {
    let fixture = fixture();
    let mut thread = fixture.threads.create("worker").unwrap();
    let id = thread.id().to_owned();
    wait(thread.push(user("first\nline two"))).unwrap();
    wait(thread.push(calls(&["1"]))).unwrap();
    wait(thread.push(answer("1", "the skill's text"))).unwrap();
    wait(thread.activate(skill("code-review", "d1"), true)).unwrap();
    let messages = thread.messages().to_vec();
    drop(thread);
    let thread = fixture.threads.open(&id).unwrap();
    assert_eq!((thread.id(), thread.agent(), thread.recovery_note()), (&*id, "worker", None));
    assert_eq!(thread.messages(), messages);
    assert_eq!(skills(&thread), [("code-review", "d1", true)]);
    drop(thread);

    let contents = fixture.threads.read(&id).unwrap();
    assert_eq!(contents.messages, messages);
    let list = fixture.threads.list().unwrap();
    assert_eq!(list, [contents.summary]);
    assert_eq!((list[0].title.as_str(), list[0].messages), ("first", 3));
    assert!(list[0].changed >= list[0].began && list[0].began > 0);
}

#[test]
fn entry_names_are_stable() {
    // A later version opens the threads of this one, and the other way round.
    for line in [
        r#"{"entry":"left_out","before":2}"#,
        r#"{"entry":"compacted","summary":"s","keep_from":1}"#,
        r#"{"entry":"reset"}"#,
        r#"{"entry":"message","message":{"role":"user","text":"t"}}"#,
        r#"{"entry":"call_begun","call_id":"1","effect":"once"}"#,
        r#"{"entry":"call_begun","call_id":"1","effect":"keyed","arguments":"{}"}"#,
        r#"{"entry":"skill","skill":{"skill_id":"a","digest":"d"},"in_messages":true}"#,
    ] {
        let entry: entry::ThreadEntry = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&entry).unwrap(), line);
    }
}

#[test]
fn second_open_returns_busy() {
    let fixture = fixture();
    let first = fixture.threads.create("worker").unwrap();
    let id = first.id().to_owned();
    assert!(matches!(fixture.threads.open(&id), Err(ThreadError::Busy { id: busy }) if busy == id));
    assert_eq!(fixture.threads.read(&id).unwrap().messages, []);
    drop(first);
    let second = fixture.threads.open(&id).unwrap();
    assert!(matches!(fixture.threads.open(&id), Err(ThreadError::Busy { .. })));
    drop(second);
    fixture.threads.open(&id).unwrap();
}

#[test]
fn truncated_entry_is_dropped() {
    let fixture = fixture();
    let mut thread = fixture.threads.create("worker").unwrap();
    let id = thread.id().to_owned();
    wait(thread.push(user("kept"))).unwrap();
    let path = fixture.journal(&id);
    let before = fs::read(&path).unwrap();
    wait(thread.push(user("cut — somewhere"))).unwrap();
    drop(thread);
    let after = fs::read(&path).unwrap();
    for length in before.len()..after.len() {
        fs::write(&path, &after[..length]).unwrap();
        let mut thread = fixture.threads.open(&id).unwrap();
        assert_eq!(thread.messages(), [user("kept")], "{length}");
        assert_eq!(thread.recovery_note().is_some(), length > before.len(), "{length}");
        wait(thread.push(user("next"))).unwrap();
        drop(thread);
        let thread = fixture.threads.open(&id).unwrap();
        assert_eq!(thread.messages(), [user("kept"), user("next")], "{length}");
        assert_eq!(thread.recovery_note(), None);
    }
}

#[test]
fn flipped_bit_reports_damaged_line() {
    let disk = SmallDisk::with_room(usize::MAX);
    let mut thread = on_disk(&disk);
    for text in ["first", "second", "third"] {
        wait(thread.push(user(text))).unwrap();
    }
    let complete = disk.text();
    // In the middle and at the end, where the line is still valid JSON.
    for (text, line) in [("second", 3), ("third", 4)] {
        let flipped = complete.replacen(text, &text.replacen('d', "e", 1), 1);
        let error = reread(flipped.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), format!("journal:{line}: checksum does not match the line"));
    }
    assert_eq!(reread(complete.as_bytes()).unwrap().messages().len(), 3);
}

#[test]
fn line_without_checksum_is_read() {
    let disk = SmallDisk::with_room(usize::MAX);
    let mut thread = on_disk(&disk);
    wait(thread.push(user("new"))).unwrap();
    let old = r#"{"at":1,"entry":"message","message":{"role":"user","text":"old"}}"#;
    let message = serde_json::to_string(&user("old")).unwrap();
    let old = old.replace(r#"{"role":"user","text":"old"}"#, &message);
    let journal = disk.text() + &old + "\n";
    assert_eq!(reread(journal.as_bytes()).unwrap().messages(), [user("new"), user("old")]);
}

#[test]
fn zeroed_last_line_is_dropped() {
    let mut journal = first_line("t", "worker");
    let disk = SmallDisk::with_room(usize::MAX);
    let mut thread = on_disk(&disk);
    wait(thread.push(user("kept"))).unwrap();
    let complete = disk.bytes.lock().unwrap().clone();
    journal.clone_from(&complete);
    journal.extend([0; 40]);
    journal.push(b'\n');
    assert_eq!(reread(&journal).unwrap().messages(), [user("kept")]);
    // In the middle this is damage, not an incomplete last line.
    journal.extend(&complete[first_line("t", "worker").len()..]);
    let error = reread(&journal).unwrap_err();
    assert!(matches!(error, ThreadError::Damaged { line: 3, .. }), "{error}");
}

#[test]
fn aborted_turn_closes_open_calls() {
    let mut thread = Thread::in_memory("worker");
    wait(thread.push(user("do"))).unwrap();
    wait(thread.push(calls(&["1", "2", "3"]))).unwrap();
    wait(thread.push(answer("2", "done"))).unwrap();
    assert_eq!(wait(thread.close_open_calls()).unwrap(), 2);
    let closed =
        [user("do"), calls(&["1", "2", "3"]), answer("2", "done"), unmade("1"), unmade("3")];
    assert_eq!(thread.messages(), closed);
    assert_eq!(wait(thread.close_open_calls()).unwrap(), 0);
    assert_eq!(thread.messages(), closed);
    assert_eq!(wait(Thread::in_memory("worker").close_open_calls()).unwrap(), 0);
}

#[test]
fn message_status_survives_compaction_and_reset() {
    let disk = SmallDisk::with_room(usize::MAX);
    let mut thread = on_disk(&disk);
    assert_eq!(thread.message_status("m1"), None);
    wait(thread.push_user_message("first".into(), "m1".into())).unwrap();
    wait(thread.push(calls(&["1"]))).unwrap();
    // A message of the kernel is neither a user message nor a reply.
    wait(thread.push(user("<kernel_notice>"))).unwrap();
    assert_eq!(thread.message_status("m1"), Some(MessageStatus::Open));
    let reply = |text: &str| Message::Assistant { text: text.into(), calls: Vec::new() };
    wait(thread.push(reply("the answer"))).unwrap();
    wait(thread.push(reply("more"))).unwrap();
    wait(thread.push_user_message("second".into(), "m2".into())).unwrap();
    wait(thread.push_user_message("third".into(), "m3".into())).unwrap();
    wait(thread.compact("summary".into(), 3)).unwrap();
    let statuses = |thread: &Thread| ["m1", "m2", "m3"].map(|id| thread.message_status(id));
    let answered = Some(MessageStatus::Answered("the answer".into()));
    let expected = [answered.clone(), Some(MessageStatus::Superseded), Some(MessageStatus::Open)];
    assert_eq!(statuses(&thread), expected);
    assert_eq!(statuses(&reread(&disk.bytes.lock().unwrap()).unwrap()), expected);
    wait(thread.reset()).unwrap();
    let expected = [answered, Some(MessageStatus::Superseded), Some(MessageStatus::Superseded)];
    assert_eq!(statuses(&thread), expected);
    assert_eq!(statuses(&reread(&disk.bytes.lock().unwrap()).unwrap()), expected);
}

#[test]
fn user_message_follows_tool_result() {
    let disk = SmallDisk::with_room(usize::MAX);
    let mut thread = on_disk(&disk);
    wait(thread.push(calls(&["1"]))).unwrap();
    wait(thread.push(user("and now?"))).unwrap();
    let expected = [calls(&["1"]), unmade("1"), user("and now?")];
    assert_eq!(thread.messages(), expected);
    assert_eq!(reread(&disk.bytes.lock().unwrap()).unwrap().messages(), expected);
}

#[test]
fn compaction_keeps_skills_active() {
    let mut thread = Thread::in_memory("worker");
    wait(thread.push(user("one"))).unwrap();
    wait(thread.push(calls(&["1"]))).unwrap();
    wait(thread.push(answer("1", "old text"))).unwrap();
    wait(thread.activate(skill("old", "d1"), true)).unwrap();
    wait(thread.activate(skill("invoked", "d2"), false)).unwrap();
    wait(thread.push(calls(&["2"]))).unwrap();
    wait(thread.push(answer("2", "new text"))).unwrap();
    wait(thread.activate(skill("new", "d3"), true)).unwrap();

    let bad = wait(thread.compact("summary".into(), 4)).unwrap_err();
    assert!(matches!(bad, ThreadError::BadCut { keep_from: 4, messages: 5 }), "{bad}");
    let bad = wait(thread.compact("summary".into(), 6)).unwrap_err();
    assert!(matches!(bad, ThreadError::BadCut { keep_from: 6, messages: 5 }), "{bad}");

    wait(thread.compact("summary".into(), 3)).unwrap();
    assert_eq!(thread.messages(), [user("summary"), calls(&["2"]), answer("2", "new text")]);
    let expected = [("old", "d1", false), ("invoked", "d2", false), ("new", "d3", true)];
    assert_eq!(skills(&thread), expected);
    // Later changes find the text at its new index after the compaction.
    wait(thread.elide_tool_results(2)).unwrap();
    assert_eq!(skills(&thread), expected);
    wait(thread.compact("shorter".into(), 1)).unwrap();
    assert_eq!(skills(&thread), expected);
    wait(thread.compact("all of it".into(), 3)).unwrap();
    assert_eq!(thread.messages(), [user("all of it")]);
    assert_eq!(skills(&thread)[2], ("new", "d3", false));
}

#[test]
fn in_messages_follows_latest_digest() {
    let mut thread = Thread::in_memory("worker");
    wait(thread.activate(skill("s", "d1"), true)).unwrap();
    assert_eq!(skills(&thread), [("s", "d1", false)], "no message could have it");
    wait(thread.push(answer("1", "text"))).unwrap();
    wait(thread.activate(skill("s", "d1"), true)).unwrap();
    assert_eq!(skills(&thread), [("s", "d1", true)]);
    wait(thread.activate(skill("s", "d1"), false)).unwrap();
    assert_eq!(skills(&thread), [("s", "d1", true)], "the text has not gone away");
    wait(thread.activate(skill("s", "d2"), false)).unwrap();
    assert_eq!(skills(&thread), [("s", "d2", false)], "but it is another now");
}

#[test]
fn skills_change_with_their_receipts() {
    let disk = SmallDisk::with_room(usize::MAX);
    let mut thread = on_disk(&disk);
    wait(thread.push(user("go"))).unwrap();
    let (a, b) = (skill("a", "d1"), skill("b", "d2"));
    let steps: [(&str, &[&SkillRef]); 4] =
        [("a", &[&a]), ("a b", &[&a, &b]), ("b", &[&b]), ("", &[])];
    for (round, (receipt, active)) in steps.into_iter().enumerate() {
        let id = round.to_string();
        wait(thread.push(calls(&[&id]))).unwrap();
        let active = active.iter().map(|skill| (*skill).clone()).collect();
        wait(thread.change_skills(active, answer(&id, receipt), None)).unwrap();
    }
    // Wherever a crash cuts the journal, the skills are those of the last receipt.
    let journal = disk.bytes.lock().unwrap().clone();
    for end in first_line("t", "worker").len()..=journal.len() {
        let thread = reread(&journal[..end]).unwrap();
        let last = thread.messages().iter().rev().find_map(|message| match message {
            Message::Tool { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let names: Vec<_> = skills(&thread).iter().map(|(id, ..)| *id).collect();
        assert_eq!(names.join(" "), last.unwrap_or_default(), "{end}");
    }
}

#[test]
fn unloaded_text_stays_known_until_its_message_goes() {
    let mut thread = Thread::in_memory("worker");
    let (a, changed) = (skill("a", "d1"), skill("a", "d2"));
    wait(thread.push(calls(&["1"]))).unwrap();
    wait(thread.change_skills(vec![a.clone()], answer("1", "text"), Some(a.clone()))).unwrap();
    assert_eq!(skills(&thread), [("a", "d1", true)]);
    wait(thread.change_skills(Vec::new(), answer("2", "none"), None)).unwrap();
    wait(thread.change_skills(vec![a.clone()], answer("3", "a"), None)).unwrap();
    assert_eq!(skills(&thread), [("a", "d1", true)], "the message still has it");
    wait(thread.change_skills(vec![changed], answer("4", "a"), None)).unwrap();
    assert_eq!(skills(&thread), [("a", "d2", false)], "not this text");
    wait(thread.change_skills(vec![a], answer("5", "a"), None)).unwrap();
    wait(thread.compact("summary".into(), 6)).unwrap();
    assert_eq!(skills(&thread), [("a", "d1", false)]);
}

#[test]
fn entry_of_later_version_is_never_dropped() {
    let disk = SmallDisk::with_room(usize::MAX);
    let mut thread = on_disk(&disk);
    wait(thread.push(user("kept"))).unwrap();
    let later = line::with_checksum(br#"{"at":1,"entry":"mood","mood":"good"}"#.to_vec());
    let journal = [disk.bytes.lock().unwrap().as_slice(), &later].concat();
    for end in [&b""[..], &later] {
        let error = reread(&[&*journal, end].concat()).unwrap_err();
        assert!(matches!(error, ThreadError::LaterEntry { line: 3, .. }), "{error}");
        assert_eq!(error.hint(), "resume it with the kernel version that wrote it");
    }
    // Half of it is what a crash leaves, in every version.
    assert_eq!(reread(&journal[..journal.len() - 2]).unwrap().messages(), [user("kept")]);
}

#[test]
fn elision_and_reset_remove_contents() {
    let mut thread = Thread::in_memory("worker");
    wait(thread.push(calls(&["1"]))).unwrap();
    wait(thread.push(answer("1", "long"))).unwrap();
    wait(thread.activate(skill("s", "d1"), true)).unwrap();
    wait(thread.push(answer("2", "kept"))).unwrap();
    wait(thread.activate(skill("t", "d2"), true)).unwrap();
    assert!(matches!(wait(thread.elide_tool_results(4)), Err(ThreadError::BadCut { .. })));
    wait(thread.elide_tool_results(2)).unwrap();
    assert_eq!(thread.messages(), [calls(&["1"]), answer("1", ELIDED_RESULT), answer("2", "kept")]);
    assert_eq!(skills(&thread), [("s", "d1", false), ("t", "d2", true)]);
    wait(thread.reset()).unwrap();
    assert_eq!((thread.messages(), thread.skills()), (&[][..], &[][..]));
}

#[test]
fn full_disk_keeps_earlier_entries() {
    let disk = SmallDisk::with_room(usize::MAX);
    let mut thread = on_disk(&disk);
    wait(thread.push(user("kept"))).unwrap();
    *disk.room.lock().unwrap() = disk.bytes.lock().unwrap().len() + 20;
    let error = wait(thread.push(user("too much"))).unwrap_err();
    assert!(
        matches!(&error, ThreadError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    );
    assert_eq!(thread.messages(), [user("kept")]);
    assert_eq!(reread(&disk.bytes.lock().unwrap()).unwrap().messages(), [user("kept")]);
    *disk.room.lock().unwrap() = usize::MAX;
    wait(thread.push(user("now it fits"))).unwrap();
    let expected = [user("kept"), user("now it fits")];
    assert_eq!(reread(&disk.bytes.lock().unwrap()).unwrap().messages(), expected);
}

#[test]
fn invalid_ids_are_rejected() {
    let fixture = fixture();
    let thread = fixture.threads.create("worker").unwrap();
    // A journal that a relative path would reach.
    fs::copy(fixture.journal(thread.id()), fixture.directory.path().join("sandbox/data/x.jsonl"))
        .unwrap();
    let long = "a".repeat(65);
    for id in ["", "../../x", "..", ".", "/x", "a/b", "a.b", "A", "a b", "a\0", "ü", "a_b", &long]
    {
        let bad = |result: Result<(), ThreadError>| match result {
            Err(ThreadError::BadId { id: bad }) => assert_eq!(bad, id),
            other => panic!("{id}: {other:?}"),
        };
        bad(fixture.threads.open(id).map(drop));
        bad(fixture.threads.read(id).map(drop));
    }
    let mut wrong = thread.id().to_owned();
    wrong.replace_range(25..26, "-");
    let error = fixture.threads.open(&wrong).unwrap_err();
    assert!(
        matches!(&error, ThreadError::NotFound { similar, .. } if similar == &[thread.id()]),
        "{error}"
    );
    assert_eq!(error.to_string(), format!("thread `{wrong}` not found"));
}

#[test]
fn unsupported_version_is_rejected_and_listed() {
    let fixture = fixture();
    let id = fixture.threads.create("worker").unwrap().id().to_owned();
    let path = fixture.journal(&id);
    let header = fs::read_to_string(&path).unwrap().replace("\"version\":1", "\"version\":2");
    fs::write(&path, &header).unwrap();
    let error = fixture.threads.open(&id).unwrap_err();
    assert!(matches!(error, ThreadError::Version { version: 2, .. }), "{error}");
    let list = fixture.threads.list().unwrap();
    assert_eq!(list[0].problem.as_deref(), Some(&*error.to_string()));
    assert_eq!(fs::read_to_string(&path).unwrap(), header);
    fs::write(&path, "").unwrap();
    let error = fixture.threads.open(&id).unwrap_err();
    assert!(matches!(error, ThreadError::Damaged { line: 1, .. }), "{error}");
}

fn message() -> impl Strategy<Value = Message> {
    let text = "\\PC{0,12}|[\\x00-\\x20\"\\\\]{0,4}";
    let call = ("[a-c]", "[a-z.]{1,6}", text).prop_map(|(id, name, arguments)| ModelToolCall {
        id,
        name,
        arguments,
    });
    prop_oneof![
        text.prop_map(|text| Message::User { text }),
        (text, prop::collection::vec(call, 0..3))
            .prop_map(|(text, calls)| Message::Assistant { text, calls }),
        ("[a-c]", "[a-z.]{1,6}", text, any::<bool>()).prop_map(
            |(call_id, name, text, is_error)| Message::Tool { call_id, name, text, is_error }
        ),
    ]
}

#[derive(Debug, Clone)]
enum Act {
    Push(Message),
    Hear(String, String),
    Activate(SkillRef, bool),
    Change(Vec<SkillRef>, Message, Option<SkillRef>),
    Compact(String, usize),
    LeaveOut(usize),
    Settle,
    Start(String, bool),
    Reset,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => message().prop_map(Act::Push),
        2 => ("\\PC{0,8}", "[m-o]").prop_map(|(text, id)| Act::Hear(text, id)),
        3 => ("[a-c]", "[x-z]", any::<bool>())
            .prop_map(|(id, digest, there)| Act::Activate(skill(&id, &digest), there)),
        2 => (prop::collection::vec(("[a-c]", "[x-z]"), 0..3), message(), any::<bool>())
            .prop_map(|(active, result, there)| {
                let active: Vec<_> =
                    active.iter().map(|(id, digest)| skill(id, digest)).collect();
                let carried = active.last().filter(|_| there).cloned();
                Act::Change(active, result, carried)
            }),
        1 => ("\\PC{0,8}", 0..9_usize).prop_map(|(text, from)| Act::Compact(text, from)),
        1 => (0..9_usize).prop_map(Act::LeaveOut),
        1 => Just(Act::Settle),
        2 => ("[a-c]", any::<bool>()).prop_map(|(id, once)| Act::Start(id, once)),
        1 => Just(Act::Reset),
    ]
}

fn perform(thread: &mut Thread, act: Act) -> bool {
    match act {
        Act::Push(message) => wait(thread.push(message)).is_ok(),
        Act::Hear(text, id) => wait(thread.push_user_message(text, id)).is_ok(),
        Act::Activate(skill, there) => wait(thread.activate(skill, there)).is_ok(),
        Act::Change(active, result, carried) => {
            wait(thread.change_skills(active, result, carried)).is_ok()
        }
        Act::Compact(summary, from) => wait(thread.compact(summary, from)).is_ok(),
        Act::LeaveOut(before) => wait(thread.elide_tool_results(before)).is_ok(),
        Act::Settle => wait(thread.close_open_calls()).is_ok(),
        Act::Start(id, once) => {
            let effect = if once { CallEffect::Once } else { CallEffect::Keyed };
            let is_ok = wait(thread.start_call(start(&id, effect))).is_ok();
            thread.apply_starts();
            is_ok
        }
        Act::Reset => wait(thread.reset()).is_ok(),
    }
}

proptest! {
    #[test]
    fn replayed_journal_equals_thread(
        acts in prop::collection::vec((act(), any::<bool>()), 0..24),
    ) {
        let disk = SmallDisk::with_room(usize::MAX);
        let mut thread = on_disk(&disk);
        let mut reference = Thread::in_memory("worker");
        for (act, full) in acts {
            if full {
                // On a full disk every change fails, except for one that writes no line.
                let room = disk.bytes.lock().unwrap().len();
                *disk.room.lock().unwrap() = room;
                let before = thread.state.clone();
                perform(&mut thread, act.clone());
                prop_assert_eq!(&thread.state, &before);
                *disk.room.lock().unwrap() = usize::MAX;
            }
            prop_assert_eq!(perform(&mut thread, act.clone()), perform(&mut reference, act));
            prop_assert_eq!(&thread.state, &reference.state);
            let again = reread(&disk.bytes.lock().unwrap()).unwrap();
            prop_assert_eq!(&again.state, &reference.state);
        }
    }
}
