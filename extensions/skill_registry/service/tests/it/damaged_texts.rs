//! Stored texts with a flipped bit.

use std::fs;

use rusqlite::Connection;
use skill_format::Digest;
use skill_ledger::{LedgerErrorKind, ProposalState};

use crate::scenario::{ReviewScenario, person, text};

/// Flips a bit in a stored text.
fn damage(scenario: &ReviewScenario, digest: Digest) {
    let database = Connection::open(scenario.data("registry.sqlite3")).unwrap();
    let select = "SELECT content FROM blobs WHERE digest = ?1";
    let mut content: Vec<u8> =
        database.query_row(select, [digest.as_bytes()], |row| row.get(0)).unwrap();
    *content.last_mut().unwrap() ^= 1;
    let update = "UPDATE blobs SET content = ?2 WHERE digest = ?1";
    assert_eq!(database.execute(update, (digest.as_bytes(), content)).unwrap(), 1);
}

#[test]
fn approve_writes_exactly_the_approved_text() {
    let scenario = ReviewScenario::new();
    let (proposal, digest) = scenario.propose("beads", "one\nTWO\nthree");
    damage(&scenario, digest);
    // The text is restored by the diff.
    scenario.approve(&proposal, digest).unwrap();
    assert_eq!(Digest::compute(scenario.file("beads/SKILL.md").unwrap().as_bytes()), digest);
}

#[test]
fn approve_rejects_damaged_text() {
    let scenario = ReviewScenario::new();
    let before = scenario.file("beads/SKILL.md");
    let (proposal, digest) = scenario.propose("beads", "one\nTWO\nthree");
    damage(&scenario, digest);
    let database = Connection::open(scenario.data("registry.sqlite3")).unwrap();
    database.execute("UPDATE proposals SET diff = '@@ -1 +1 @@\n-a\n+b\n'", []).unwrap();
    drop(database);
    let file = scenario.ledger.proposal(&proposal).unwrap().file;
    let mirror = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();

    let error = scenario.approve(&proposal, digest).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Corrupt);
    let path = scenario.fixture.path("skills/beads/SKILL.md");
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
    assert_eq!(scenario.file("beads/SKILL.md"), before);
    let stored = scenario.ledger.proposal(&proposal).unwrap();
    assert_eq!((stored.summary.state, stored.new_text), (ProposalState::Open, None));

    // The proposal's file is another copy of the diff.
    fs::write(&file, mirror).unwrap();
    scenario.approve(&proposal, digest).unwrap();
    assert_eq!(scenario.body("beads"), "one\nTWO\nthree");
}

#[test]
fn rollback_rejects_damaged_version() {
    let scenario = ReviewScenario::new();
    let original = scenario.file("beads/SKILL.md").unwrap();
    scenario.history("beads");
    scenario.write("beads", &text("beads", "later"));
    scenario.history("beads");
    let digest = Digest::compute(original.as_bytes());
    damage(&scenario, digest);

    let back = || scenario.ledger.rollback(&scenario.snapshot(), &person(), "beads", Some(1), None);
    for error in [back().unwrap_err(), scenario.ledger.version("beads", Some(1)).unwrap_err()] {
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
    assert_eq!(scenario.body("beads"), "later");

    // A file with this digest has the same text and repairs the stored one.
    scenario.write("beads", &original);
    scenario.history("beads");
    scenario.write("beads", &text("beads", "latest"));
    back().unwrap();
    assert_eq!(scenario.file("beads/SKILL.md"), Some(original));
}
