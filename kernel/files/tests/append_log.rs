//! Append logs on a disk that becomes full.

use std::io;

use skillhost_files::{AppendLog, split_complete_lines};
use test_support::SmallDisk;

#[tokio::test]
async fn full_disk_removes_partial_line() {
    let disk = SmallDisk::with_room(10);
    let journal = AppendLog::new("j".into(), Box::new(disk.clone()), 0);
    journal.append(b"first\n".to_vec()).await.unwrap();
    let full = journal.append(b"second\n".to_vec()).await.unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    assert_eq!(disk.text(), "first\n");
    *disk.room.lock().unwrap() = 100;
    journal.append(b"third\n".to_vec()).await.unwrap();
    assert_eq!(disk.text(), "first\nthird\n");
}

#[tokio::test]
async fn retry_truncates_partial_line() {
    let disk = SmallDisk::with_room(8);
    let journal = AppendLog::new("j".into(), Box::new(disk.clone()), 0);
    journal.append(b"first\n".to_vec()).await.unwrap();
    *disk.stuck.lock().unwrap() = true;
    journal.append(b"second\n".to_vec()).await.unwrap_err();
    assert_eq!(disk.text(), "first\nse");
    let stuck = journal.append(b"third\n".to_vec()).await.unwrap_err();
    assert_eq!(stuck.kind(), io::ErrorKind::ReadOnlyFilesystem);
    *disk.stuck.lock().unwrap() = false;
    *disk.room.lock().unwrap() = 100;
    journal.append(b"third\n".to_vec()).await.unwrap();
    assert_eq!(disk.text(), "first\nthird\n");
}

#[test]
fn incomplete_line_is_split_off() {
    assert_eq!(split_complete_lines(b"a\nbc\nde"), (vec![&b"a"[..], b"bc"], 5));
    assert_eq!(split_complete_lines(b"a\n"), (vec![&b"a"[..]], 2));
    assert_eq!(split_complete_lines(b"a"), (vec![], 0));
    assert_eq!(split_complete_lines(b""), (vec![], 0));
}
