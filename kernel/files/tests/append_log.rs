//! Append logs on a disk that becomes full.

use std::io;

use skillhost_files::{AppendLog, AppendSink, split_complete_lines};
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

/// A sink that panics once, in the middle of its first write.
struct PanickingDisk(SmallDisk, bool);

impl AppendSink for PanickingDisk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if std::mem::replace(&mut self.1, true) {
            return self.0.append(bytes);
        }
        let _ = self.0.append(&bytes[..2]);
        panic!("a bug of the sink");
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.truncate(length)
    }
}

#[tokio::test]
async fn panicking_write_ends_no_log() {
    let (faulty, other) = (SmallDisk::with_room(100), SmallDisk::with_room(100));
    let journal = AppendLog::new("j".into(), Box::new(PanickingDisk(faulty.clone(), false)), 0);
    journal.append(b"first\n".to_vec()).await.unwrap_err();
    assert_eq!(faulty.text(), "fi");
    let log = AppendLog::new("k".into(), Box::new(other.clone()), 0);
    log.append(b"line\n".to_vec()).await.unwrap();
    assert_eq!(other.text(), "line\n");
    journal.append(b"second\n".to_vec()).await.unwrap();
    assert_eq!(faulty.text(), "second\n");
}

#[test]
fn incomplete_line_is_split_off() {
    assert_eq!(split_complete_lines(b"a\nbc\nde"), (vec![&b"a"[..], b"bc"], 5));
    assert_eq!(split_complete_lines(b"a\n"), (vec![&b"a"[..]], 2));
    assert_eq!(split_complete_lines(b"a"), (vec![], 0));
    assert_eq!(split_complete_lines(b""), (vec![], 0));
}
