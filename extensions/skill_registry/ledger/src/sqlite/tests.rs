use super::*;
use crate::records::catalog_row::{CatalogRow, CatalogTerm};

fn stamp(now_ms: i64) -> ChangeStamp {
    ChangeStamp { now_ms, instance: "here".to_owned() }
}

fn open(path: &Path) -> DbResult<(LedgerDatabase, bool)> {
    LedgerDatabase::open(path, Duration::from_millis(50), false)
}

#[test]
fn ids_sort_after_clock_change() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join(FILE);
    let mut ids = Vec::new();
    for now_ms in [5_000, 5_000, 1_000, 6_000, -7, 6_000] {
        let (mut db, _) = open(&path).unwrap();
        for _ in 0..3 {
            ids.push(db.write(&stamp(now_ms), |tx| tx.new_id()).unwrap());
        }
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    assert_eq!(Ulid::from_string(&ids[17]).unwrap().timestamp_ms(), 6_000);
}

#[test]
fn failed_transaction_is_rolled_back() {
    let temp = tempfile::tempdir().unwrap();
    let (mut db, unused) = open(&temp.path().join(FILE)).unwrap();
    assert!(unused);
    let entry = NewAuditEntry { action: "a", via: "disk", ..NewAuditEntry::default() };
    let failed = db.write(&stamp(1), |tx| -> DbResult<()> {
        tx.append_audit(&entry)?;
        Err(LedgerError::new(LedgerErrorKind::State, "no", ""))
    });
    assert_eq!(failed.unwrap_err().reason(), LedgerErrorKind::State);
    let audit = |db: &mut LedgerDatabase| {
        db.read(&stamp(1), |tx| tx.audit_entries(&Default::default())).unwrap().len()
    };
    assert_eq!(audit(&mut db), 0);
    db.write(&stamp(1), |tx| tx.append_audit(&entry)).unwrap();
    assert_eq!(audit(&mut db), 1);
    drop(db);
    assert!(!open(&temp.path().join(FILE)).unwrap().1);
}

#[test]
fn foreign_files_are_rejected() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join(FILE);
    std::fs::write(&path, "this is not a database, whatever its name says".repeat(100)).unwrap();
    assert!(open(&path).unwrap_err().is_corrupt());
    std::fs::write(&path, "").unwrap();
    assert!(open(&path).unwrap().1);
    std::fs::remove_file(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute("CREATE TABLE something (x)", []).unwrap();
    drop(other);
    assert!(open(&path).unwrap_err().is_corrupt());
}

#[test]
fn newer_database_is_not_changed() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join(FILE);
    drop(open(&path).unwrap());
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", schema::LATEST + 1).unwrap();
    drop(newer);
    let before = std::fs::read(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Newer);
    assert_eq!(error.to_string(), "the database has version 9, this program knows up to 8");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn locked_database_times_out() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join(FILE);
    drop(open(&path).unwrap());
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (mut db, _) = open(&path).unwrap();
    let error = db.write(&stamp(1), |tx| tx.new_id()).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Locked);
    drop(other);
    db.write(&stamp(1), |tx| tx.new_id()).unwrap();
    assert_eq!(db.integrity_report().unwrap(), "ok");
}

fn row(id: &str, body: &str) -> CatalogRow {
    let fields = [id, "About it.", "tag", "", body].map(str::to_owned);
    CatalogRow { skill_id: id.to_owned(), digest: Digest::compute(body.as_bytes()), fields }
}

fn term(words: &str, prefix: bool) -> CatalogTerm {
    CatalogTerm { words: words.to_owned(), prefix }
}

#[test]
fn search_terms_are_never_operators() {
    let temp = tempfile::tempdir().unwrap();
    let (mut db, _) = open(&temp.path().join(FILE)).unwrap();
    let rows = [row("tea", "near and or not"), row("b", "zebra")];
    db.write(&stamp(1), |tx| tx.renew_catalog(&rows, &[])).unwrap();
    let words = [
        "AND",
        "NEAR",
        "near and",
        "a AND (b",
        "\"",
        "\"\"",
        "*",
        "tea*",
        "tea\" OR \"",
        "name:tea",
        "{name} : tea",
        "^tea",
        "-tea",
        "+",
        "tea\0x",
        "\0",
        "🦀",
        "日本語",
        "",
        " ",
        ")",
        "'; DROP",
    ];
    for words in words {
        for prefix in [false, true] {
            let terms = [term(words, prefix), term("tea", false)];
            let best = db.read(&stamp(1), |tx| tx.rank_catalog(&terms)).unwrap();
            assert_eq!(best.unwrap()[0].skill_id, "tea", "{words}");
            db.read(&stamp(1), |tx| tx.matching_catalog_rows(&terms)).unwrap();
        }
    }
    let holders = |db: &mut LedgerDatabase, terms: &[CatalogTerm]| {
        db.read(&stamp(1), |tx| tx.matching_catalog_rows(terms)).unwrap().unwrap()
    };
    assert_eq!(holders(&mut db, &[term("near and", false), term("te", true)]), ["tea"]);
    assert_eq!(holders(&mut db, &[term("and near", false)]), [""; 0]);
    let best = db.read(&stamp(1), |tx| tx.rank_catalog(&[term("tea", false), term("or", false)]));
    assert_eq!(best.unwrap().unwrap()[0].fields, ["name", "body"]);
}

#[test]
fn damaged_catalog_can_be_emptied() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join(FILE);
    let (mut db, _) = open(&path).unwrap();
    let rows = [row("tea", "boil"), row("zoo", "zebra")];
    db.write(&stamp(1), |tx| {
        tx.append_audit(&NewAuditEntry { action: "a", via: "disk", ..NewAuditEntry::default() })?;
        tx.renew_catalog(&rows, &[])
    })
    .unwrap();
    drop(db);
    let raw = Connection::open(&path).unwrap();
    raw.execute("DELETE FROM catalog_words_data WHERE id > 10", []).unwrap();
    drop(raw);
    let (mut db, unused) = LedgerDatabase::open(&path, Duration::from_millis(50), true).unwrap();
    assert!(!unused);
    let zebra = [term("zebra", false)];
    assert_eq!(db.read(&stamp(1), |tx| tx.rank_catalog(&zebra)).unwrap(), None);
    assert_eq!(db.read(&stamp(1), |tx| tx.matching_catalog_rows(&zebra)).unwrap(), None);
    db.write(&stamp(1), |tx| tx.empty_catalog()).unwrap();
    assert_eq!(db.read(&stamp(1), |tx| tx.catalog_rows()).unwrap(), []);
    db.write(&stamp(1), |tx| tx.renew_catalog(&rows, &[])).unwrap();
    let found = db.read(&stamp(1), |tx| tx.rank_catalog(&zebra)).unwrap().unwrap();
    assert_eq!(found[0].skill_id, "zoo");
    assert_eq!(db.read(&stamp(1), |tx| tx.audit_entries(&Default::default())).unwrap().len(), 1);
    assert_eq!(db.integrity_report().unwrap(), "ok");
}
