//! Journal files that are damaged, foreign, newer or inaccessible.

use std::fs;

use skillhost_events::{JournalErrorKind, TailQuery};

use crate::fixture::{JournalFixture, event, subscriber};

fn names(fixture: &JournalFixture) -> Vec<String> {
    let entries = fs::read_dir(fixture.path().parent().unwrap()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.ends_with(".lock")).collect();
    names.sort();
    names
}

#[tokio::test]
async fn append_quarantines_invalid_database() {
    let fixture = JournalFixture::new();
    fs::create_dir(fixture.path().parent().unwrap()).unwrap();
    fs::write(
        fixture.path(),
        "not a database at all, and longer than a header of one hundred bytes\n".repeat(9),
    )
    .unwrap();
    let error = fixture
        .second_process()
        .tail(TailQuery { limit: 1, ..TailQuery::default() })
        .await
        .unwrap_err();
    assert_eq!(error.kind(), JournalErrorKind::Corrupt);
    assert_eq!(names(&fixture), ["events.db"], "a reader moves no file");
    assert_eq!(fixture.append("a", 1).await.id, 1);
    fixture.journal.close().await;
    assert_eq!(names(&fixture), ["events.db", "events.db.corrupt-1"]);
    assert_eq!(fixture.append("a", 2).await.id, 2);
}

#[tokio::test]
async fn recover_detects_damaged_page() {
    let fixture = JournalFixture::new();
    for n in 0..200 {
        fixture.append("a", n).await;
    }
    fixture.journal.close().await;
    let mut bytes = fs::read(fixture.path()).unwrap();
    let (from, to) = (bytes.len() - 8192, bytes.len() - 4096);
    bytes[from..to].fill(0xa5);
    fs::write(fixture.path(), bytes).unwrap();
    assert_eq!(fixture.journal.recover(4, crate::fixture::MAX_DELAY).await.unwrap().len(), 0);
    assert_eq!(
        fixture.journal.take_quarantined().await,
        [fixture.path().with_extension("db.corrupt-1")]
    );
    assert_eq!(fixture.journal.take_quarantined().await.len(), 0, "each path is returned once");
    assert_eq!(fixture.append("a", 1).await.id, 1);
}

#[tokio::test]
async fn foreign_database_is_quarantined() {
    let fixture = JournalFixture::new();
    fs::create_dir(fixture.path().parent().unwrap()).unwrap();
    let conn = rusqlite::Connection::open(fixture.path()).unwrap();
    conn.execute_batch("CREATE TABLE mine (x)").unwrap();
    drop(conn);
    assert_eq!(fixture.append("a", 1).await.id, 1);
    fixture.journal.close().await;
    assert_eq!(names(&fixture), ["events.db", "events.db.corrupt-1"]);
}

#[tokio::test]
async fn newer_journal_is_not_changed() {
    let fixture = JournalFixture::new();
    fixture.append("a", 1).await;
    fixture.journal.close().await;
    let conn = rusqlite::Connection::open(fixture.path()).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    drop(conn);
    let error = fixture.journal.append(event("a", 2)).await.unwrap_err();
    assert_eq!(error.kind(), JournalErrorKind::Newer);
    assert_eq!(names(&fixture), ["events.db"]);
}

#[tokio::test]
async fn moved_file_is_reopened() {
    let fixture = JournalFixture::new();
    fixture.journal.set_subscribers(vec![subscriber("s", "a")]).await.unwrap();
    fixture.append("a", 1).await;
    for suffix in ["", "-wal", "-shm"] {
        let mut path = fixture.path().into_os_string();
        path.push(suffix);
        let mut aside = fixture.path().with_extension("db.corrupt-1").into_os_string();
        aside.push(suffix);
        fs::rename(path, aside).unwrap();
    }
    assert_eq!(fixture.append("a", 2).await.id, 1, "it is the first of the new file");
    assert_eq!(
        fixture
            .second_process()
            .tail(TailQuery { limit: 9, ..TailQuery::default() })
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(fixture.claim().await.len(), 1, "and it has the subscribers");
}

#[tokio::test]
async fn unwritable_path_gives_io_error() {
    let fixture = JournalFixture::new();
    fs::write(fixture.path().parent().unwrap(), "not a directory").unwrap();
    let failed = fixture.journal.append(event("a", 1)).await.unwrap_err();
    assert_eq!(failed.kind(), JournalErrorKind::Io);
}

#[tokio::test]
async fn concurrent_appends_are_all_stored() {
    let fixture = JournalFixture::new();
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let journal = fixture.second_process();
        tasks.push(tokio::spawn(async move {
            for n in 0..25 {
                journal.append(event("a", n)).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let all =
        fixture.journal.tail(TailQuery { limit: 1000, ..TailQuery::default() }).await.unwrap();
    assert_eq!(all.iter().map(|event| event.id).collect::<Vec<_>>(), (1..=100).collect::<Vec<_>>());
}
