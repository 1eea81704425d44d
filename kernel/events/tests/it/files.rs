//! Journal files that are damaged, foreign, newer or inaccessible.

use std::fs;

use skillhost_events::{JournalErrorKind, TailQuery};

use crate::rig::{Rig, event, subscriber};

fn names(rig: &Rig) -> Vec<String> {
    let entries = fs::read_dir(rig.path().parent().unwrap()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.ends_with(".lock")).collect();
    names.sort();
    names
}

#[tokio::test]
async fn append_quarantines_invalid_database() {
    let rig = Rig::new();
    fs::create_dir(rig.path().parent().unwrap()).unwrap();
    fs::write(
        rig.path(),
        "not a database at all, and longer than a header of one hundred bytes\n".repeat(9),
    )
    .unwrap();
    let error = rig
        .second_process()
        .tail(TailQuery { limit: 1, ..TailQuery::default() })
        .await
        .unwrap_err();
    assert_eq!(error.kind(), JournalErrorKind::Corrupt);
    assert_eq!(names(&rig), ["events.db"], "a reader moves no file");
    assert_eq!(rig.append("a", 1).await.id, 1);
    rig.journal.close().await;
    assert_eq!(names(&rig), ["events.db", "events.db.corrupt-1"]);
    assert_eq!(rig.append("a", 2).await.id, 2);
}

#[tokio::test]
async fn recover_detects_damaged_page() {
    let rig = Rig::new();
    for n in 0..200 {
        rig.append("a", n).await;
    }
    rig.journal.close().await;
    let mut bytes = fs::read(rig.path()).unwrap();
    let (from, to) = (bytes.len() - 8192, bytes.len() - 4096);
    bytes[from..to].fill(0xa5);
    fs::write(rig.path(), bytes).unwrap();
    assert_eq!(rig.journal.recover(4, crate::rig::MAX_DELAY).await.unwrap().len(), 0);
    assert_eq!(rig.journal.take_quarantined().await, [rig.path().with_extension("db.corrupt-1")]);
    assert_eq!(rig.journal.take_quarantined().await.len(), 0, "each path is returned once");
    assert_eq!(rig.append("a", 1).await.id, 1);
}

#[tokio::test]
async fn foreign_database_is_quarantined() {
    let rig = Rig::new();
    fs::create_dir(rig.path().parent().unwrap()).unwrap();
    let conn = rusqlite::Connection::open(rig.path()).unwrap();
    conn.execute_batch("CREATE TABLE mine (x)").unwrap();
    drop(conn);
    assert_eq!(rig.append("a", 1).await.id, 1);
    rig.journal.close().await;
    assert_eq!(names(&rig), ["events.db", "events.db.corrupt-1"]);
}

#[tokio::test]
async fn newer_journal_is_not_changed() {
    let rig = Rig::new();
    rig.append("a", 1).await;
    rig.journal.close().await;
    let conn = rusqlite::Connection::open(rig.path()).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    drop(conn);
    let error = rig.journal.append(event("a", 2)).await.unwrap_err();
    assert_eq!(error.kind(), JournalErrorKind::Newer);
    assert_eq!(names(&rig), ["events.db"]);
}

#[tokio::test]
async fn moved_file_is_reopened() {
    let rig = Rig::new();
    rig.journal.set_subscribers(vec![subscriber("s", "a")]).await.unwrap();
    rig.append("a", 1).await;
    for suffix in ["", "-wal", "-shm"] {
        let mut path = rig.path().into_os_string();
        path.push(suffix);
        let mut aside = rig.path().with_extension("db.corrupt-1").into_os_string();
        aside.push(suffix);
        fs::rename(path, aside).unwrap();
    }
    assert_eq!(rig.append("a", 2).await.id, 1, "it is the first of the new file");
    assert_eq!(
        rig.second_process()
            .tail(TailQuery { limit: 9, ..TailQuery::default() })
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(rig.claim().await.len(), 1, "and it has the subscribers");
}

#[tokio::test]
async fn unwritable_path_gives_io_error() {
    let rig = Rig::new();
    fs::write(rig.path().parent().unwrap(), "not a directory").unwrap();
    let failed = rig.journal.append(event("a", 1)).await.unwrap_err();
    assert_eq!(failed.kind(), JournalErrorKind::Io);
}

#[tokio::test]
async fn concurrent_appends_are_all_stored() {
    let rig = Rig::new();
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let journal = rig.second_process();
        tasks.push(tokio::spawn(async move {
            for n in 0..25 {
                journal.append(event("a", n)).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let all = rig.journal.tail(TailQuery { limit: 1000, ..TailQuery::default() }).await.unwrap();
    assert_eq!(all.iter().map(|event| event.id).collect::<Vec<_>>(), (1..=100).collect::<Vec<_>>());
}
