//! Stored texts with a flipped bit.

use std::fs;

use rusqlite::Connection;
use skill_format::Digest;
use skill_ledger::{LedgerErrorKind, ProposalState};

use crate::desk::{Desk, person, text};

/// Flips a bit in a stored text.
fn damage(desk: &Desk, digest: Digest) {
    let database = Connection::open(desk.data("registry.sqlite3")).unwrap();
    let select = "SELECT content FROM blobs WHERE digest = ?1";
    let mut content: Vec<u8> =
        database.query_row(select, [digest.as_bytes()], |row| row.get(0)).unwrap();
    *content.last_mut().unwrap() ^= 1;
    let update = "UPDATE blobs SET content = ?2 WHERE digest = ?1";
    assert_eq!(database.execute(update, (digest.as_bytes(), content)).unwrap(), 1);
}

#[test]
fn approve_writes_exactly_the_approved_text() {
    let desk = Desk::new();
    let (proposal, digest) = desk.propose("beads", "one\nTWO\nthree");
    damage(&desk, digest);
    // The text is restored by the diff.
    desk.approve(&proposal, digest).unwrap();
    assert_eq!(Digest::compute(desk.file("beads/SKILL.md").unwrap().as_bytes()), digest);
}

#[test]
fn approve_rejects_damaged_text() {
    let desk = Desk::new();
    let before = desk.file("beads/SKILL.md");
    let (proposal, digest) = desk.propose("beads", "one\nTWO\nthree");
    damage(&desk, digest);
    let database = Connection::open(desk.data("registry.sqlite3")).unwrap();
    database.execute("UPDATE proposals SET diff = '@@ -1 +1 @@\n-a\n+b\n'", []).unwrap();
    drop(database);
    let file = desk.ledger.proposal(&proposal).unwrap().file;
    let mirror = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();

    let error = desk.approve(&proposal, digest).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Corrupt);
    let path = desk.scene.path("skills/beads/SKILL.md");
    let expected = format!(
        "proposal {proposal} of `beads`: the stored text of {} is damaged: it does not have the \
         digest {digest}",
        path.display()
    );
    assert_eq!(error.to_string(), expected);
    assert!(
        error.hint().to_string().contains(&format!("`skill proposal reject {proposal}`")),
        "{}",
        error.hint()
    );
    assert_eq!(desk.file("beads/SKILL.md"), before);
    let stored = desk.ledger.proposal(&proposal).unwrap();
    assert_eq!((stored.summary.state, stored.new_text), (ProposalState::Open, None));

    // The proposal's file is another copy of the diff.
    fs::write(&file, mirror).unwrap();
    desk.approve(&proposal, digest).unwrap();
    assert_eq!(desk.body("beads"), "one\nTWO\nthree");
}

#[test]
fn rollback_rejects_damaged_version() {
    let desk = Desk::new();
    let original = desk.file("beads/SKILL.md").unwrap();
    desk.history("beads");
    desk.write("beads", &text("beads", "later"));
    desk.history("beads");
    let digest = Digest::compute(original.as_bytes());
    damage(&desk, digest);

    let back = || desk.ledger.rollback(&desk.snapshot(), &person(), "beads", Some(1), None);
    for error in [back().unwrap_err(), desk.ledger.version("beads", Some(1)).unwrap_err()] {
        assert_eq!(error.reason(), LedgerErrorKind::Corrupt);
        let expected = format!(
            "version 1 of `beads`: the stored text of beads/SKILL.md is damaged: it does not have \
             the digest {digest}"
        );
        assert_eq!(error.to_string(), expected);
        assert!(
            error.hint().to_string().contains("or roll back to another version"),
            "{}",
            error.hint()
        );
    }
    assert_eq!(desk.body("beads"), "later");

    // A file with this digest has the same text and repairs the stored one.
    desk.write("beads", &original);
    desk.history("beads");
    desk.write("beads", &text("beads", "latest"));
    back().unwrap();
    assert_eq!(desk.file("beads/SKILL.md"), Some(original));
}
