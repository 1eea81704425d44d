//! Tests of the file of channels.

use std::fs;

use skillhost_control::ChannelRole;
use skillhost_payload::{ChannelCursor, ChannelPeer};

use super::*;

const MINUTE_MS: u64 = 60_000;

fn peer(id: &str) -> ChannelPeer {
    ChannelPeer { id: id.to_owned(), name: "Ada".to_owned() }
}

fn direct(chat: &str) -> ChannelConversation {
    ChannelConversation { id: chat.to_owned(), topic: None, is_group: false }
}

fn open(directory: &tempfile::TempDir) -> ChannelStore {
    ChannelStore::in_directory(directory.path())
}

#[tokio::test]
async fn code_pairs_one_person_for_ten_minutes() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let create = async |now_ms| {
        store.create_code("c", ChannelRole::Owner, Vec::new(), now_ms).await.unwrap()
    };
    let code = create(1_000).await;
    assert_eq!(code.expires_ms, 1_000 + 10 * MINUTE_MS);
    let redeem = async |channel: &str, code: &str, id: &str, now_ms| {
        store.redeem_code(channel, code, &peer(id), &direct(id), now_ms).await.unwrap()
    };
    // Of another channel, mistyped, too late.
    assert_eq!(redeem("d", &code.code, "1", 2_000).await, None);
    assert_eq!(redeem("c", "AAAAA-AAAAA", "1", 2_000).await, None);
    assert_eq!(redeem("c", &code.code, "1", code.expires_ms).await, None);
    let typed = code.code.to_lowercase().replace('-', " ");
    let paired = redeem("c", &typed, "1", code.expires_ms - 1).await.unwrap();
    assert_eq!((paired.role, paired.direct.clone()), (ChannelRole::Owner, Some(direct("1"))));
    assert_eq!(redeem("c", &code.code, "2", 2_000).await, None);
    assert_eq!(store.find_peer("c", "1").await.unwrap(), Some(paired));
    assert_eq!(store.find_peer("c", "2").await.unwrap(), None);
    assert!(store.revoke_peer("c", "1").await.unwrap());
    assert!(!store.revoke_peer("c", "1").await.unwrap());
    assert_eq!(store.list_peers(None).await.unwrap(), Vec::new());
    // The code is not in the file.
    let bytes = fs::read(directory.path().join("channels.db")).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(!text.contains(&code.code) && !text.contains(&code.code.replace('-', "")));
}

#[tokio::test]
async fn reading_creates_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    assert_eq!(store.find_peer("c", "1").await.unwrap(), None);
    assert_eq!(store.find_by_thread("t").await.unwrap(), None);
    assert_eq!(store.load_cursor("c").await.unwrap().value, None);
    assert!(!store.exists() && fs::read_dir(directory.path()).unwrap().next().is_none());
}

#[tokio::test]
async fn damaged_file_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("channels.db");
    fs::write(&path, b"not a database, but a text of more than a hundred bytes: ".repeat(20))
        .unwrap();
    let before = fs::read(&path).unwrap();
    let store = open(&directory);
    let error = store.find_peer("c", "1").await.unwrap_err();
    assert!(matches!(error, ChannelStoreError::Damaged(_)), "{error}");
    assert!(error.hint().contains("restore `channels.db`"));
    let cursor = ChannelCursor { value: Some("1".to_owned()) };
    store.store_cursor("c", cursor).await.unwrap_err();
    store.check_integrity().await.unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn newer_file_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let conn = Connection::open(directory.path().join("channels.db")).unwrap();
    conn.pragma_update(None, "user_version", 2).unwrap();
    drop(conn);
    let error = open(&directory).list_peers(None).await.unwrap_err();
    assert_eq!(error, ChannelStoreError::Newer { found: 2, supported: 1 });
}

#[tokio::test]
async fn cursor_is_bounded_and_durable() {
    let directory = tempfile::tempdir().unwrap();
    let cursor = |value: String| ChannelCursor { value: Some(value) };
    let store = open(&directory);
    store.store_cursor("c", cursor("x".repeat(4_096))).await.unwrap();
    let error = store.store_cursor("c", cursor("x".repeat(4_097))).await.unwrap_err();
    assert!(matches!(error, ChannelStoreError::TooLarge(_)), "{error}");
    store.store_cursor("c", cursor("17".to_owned())).await.unwrap();
    drop(store);
    assert_eq!(open(&directory).load_cursor("c").await.unwrap(), cursor("17".to_owned()));
    assert_eq!(open(&directory).load_cursor("d").await.unwrap().value, None);
}

#[tokio::test]
async fn earlier_threads_keep_their_conversation() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let conversation =
        ChannelConversation { id: "g".to_owned(), topic: Some("7".to_owned()), is_group: true };
    let record = |thread: &str| ConversationRecord {
        channel: "c".to_owned(),
        conversation: conversation.clone(),
        thread: thread.to_owned(),
        agent: "a".to_owned(),
        peer: "1".to_owned(),
        last_message: "m".to_owned(),
    };
    store.store_conversation(record("t1"), 1).await.unwrap();
    store.store_handled("m2", "New.", Some(record("t2")), 2).await.unwrap();
    assert_eq!(store.find_conversation("c", &conversation).await.unwrap(), Some(record("t2")));
    assert_eq!(store.find_by_thread("t1").await.unwrap(), Some(record("t2")));
    assert_eq!(store.list_threads(&record("t2")).await.unwrap(), ["t1", "t2"]);
    assert_eq!(store.find_handled("m2").await.unwrap().as_deref(), Some("New."));
    // Another topic of the chat is another conversation.
    let other = ChannelConversation { topic: None, ..conversation.clone() };
    assert_eq!(store.find_conversation("c", &other).await.unwrap(), None);
}

#[tokio::test]
async fn unsent_button_is_bound_by_first_press() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let button = |hash: &str, message: Option<&str>| ButtonRecord {
        hash: hash.to_owned(),
        question: "q".to_owned(),
        digest: "d".to_owned(),
        choice: "approve".to_owned(),
        channel: "c".to_owned(),
        peer: "1".to_owned(),
        conversation: direct("1"),
        message: message.map(str::to_owned),
    };
    store.store_buttons(vec![button("h", None), button("i", None)], 1).await.unwrap();
    store.bind_button("h".to_owned(), "m1".to_owned()).await.unwrap();
    let shown = ShownQuestion {
        question: "q".to_owned(),
        digest: "d".to_owned(),
        channel: "c".to_owned(),
        peer: "1".to_owned(),
        conversation: direct("1"),
        message: "m2".to_owned(),
    };
    store.store_shown(shown.clone(), vec!["h".to_owned(), "i".to_owned()], 1).await.unwrap();
    let find = async |hash: &str| store.find_button(hash.to_owned()).await.unwrap();
    assert_eq!(find("h").await, Some(button("h", Some("m1"))));
    assert_eq!(find("i").await, Some(button("i", Some("m2"))));
    assert_eq!(store.list_shown("q").await.unwrap(), [shown]);
    // Buttons of a revoked person are gone, and old ones are removed.
    store.revoke_peer("c", "1").await.unwrap();
    assert_eq!(find("h").await, None);
    store.store_buttons(vec![button("j", None)], 31 * 24 * 60 * MINUTE_MS).await.unwrap();
    assert_eq!(store.list_shown("q").await.unwrap(), []);
}
