//! Proposals in `skillhost inbox`.

use std::fs;

use serde_json::Value;
use test_support::TestHome;

use crate::proposals::{BEADS, beads_home, beads_text, beads_with, propose_text, run_skill};

/// Returns the questions about proposals of `inbox list --json`.
fn inbox_questions(home: &TestHome) -> Vec<Value> {
    let listed = home.skillhost(["inbox", "list", "--json"]).success().json();
    listed["questions"].as_array().unwrap().clone()
}

fn inbox_question(home: &TestHome, id: &str) -> Value {
    home.skillhost(["inbox", "show", id, "--json"]).success().json()["question"].clone()
}

#[test]
fn proposal_is_decided_in_inbox() {
    let home = beads_home();
    // Reading creates no file.
    assert!(inbox_questions(&home).is_empty());
    assert!(!home.path("sandbox/data").exists());
    let proposal = propose_text(&home, &beads_with("THREE"), "Louder.");
    let question = inbox_questions(&home).remove(0);
    assert_eq!((&question["kind"], &question["asker"]), (&"proposal".into(), &"gardener".into()));
    let (id, digest) = (question["id"].as_str().unwrap(), question["digest"].as_str().unwrap());
    let page = home.skillhost(["inbox", "show", id]).success().stdout;
    for shown in ["Louder.", "+THREE", "-three", &proposal, "new_digest", digest, "inbox approve"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    // The same row is listed again.
    assert_eq!(inbox_questions(&home).remove(0)["id"], question["id"]);
    let approve = |digest: &str| home.skillhost(["inbox", "approve", id, "--digest", digest]);
    let other = approve(&"0".repeat(64)).exits(4);
    assert!(other.stderr.contains(digest), "{}", other.stderr);
    assert_eq!(beads_text(&home), BEADS);
    approve(digest).success();
    assert_eq!(beads_text(&home), beads_with("THREE"));
    let closed = inbox_question(&home, id);
    assert_eq!(
        (&closed["choice"], &closed["decider"]["surface"]),
        (&"approve".into(), &"inbox".into())
    );
    let late = home.skillhost(["inbox", "refuse", id]).exits(4);
    assert!(late.stderr.contains("decided as `approve` by "), "{}", late.stderr);
    assert!(late.stderr.contains(" on inbox at "), "{}", late.stderr);
    let log = run_skill(&home, &["audit-log", "--json"]).success().stdout;
    assert!(log.contains("\"inbox\""), "{log}");
    assert!(inbox_questions(&home).is_empty());
}

#[test]
fn skill_command_closes_inbox_question() {
    let home = beads_home();
    let proposal = propose_text(&home, &beads_with("THREE"), "Louder.");
    let question = inbox_questions(&home).remove(0);
    let (id, digest) = (question["id"].as_str().unwrap(), question["digest"].as_str().unwrap());
    run_skill(&home, &["proposal", "reject", &proposal, "--reason", "Too loud."]).success();
    let late = home.skillhost(["inbox", "approve", id, "--digest", digest]).exits(4);
    assert!(late.stderr.contains("decided as `refuse` by "), "{}", late.stderr);
    assert!(late.stderr.contains(" on cli at ") && late.stderr.contains("Too loud."));
    assert_eq!(beads_text(&home), BEADS);
}

#[test]
fn stale_proposal_is_only_refused() {
    let home = beads_home();
    let proposal = propose_text(&home, &beads_with("THREE"), "Louder.");
    let first = inbox_questions(&home).remove(0);
    let edited = BEADS.replace("three", "drei");
    fs::write(home.path("sandbox/skills/beads/SKILL.md"), &edited).unwrap();
    // What was inspected is no longer what would be executed.
    let (id, digest) = (first["id"].as_str().unwrap(), first["digest"].as_str().unwrap());
    let late = home.skillhost(["inbox", "approve", id, "--digest", digest]).exits(4);
    assert!(late.stderr.contains("withdrawn"), "{}", late.stderr);
    assert_eq!(beads_text(&home), edited);
    let stale = inbox_questions(&home).remove(0);
    let (id, digest) = (stale["id"].as_str().unwrap(), stale["digest"].as_str().unwrap());
    let page = home.skillhost(["inbox", "show", id]).success().stdout;
    assert!(page.contains("skill proposal rebase") && !page.contains("inbox approve"), "{page}");
    home.skillhost(["inbox", "approve", id, "--digest", digest]).exits(4);
    home.skillhost(["inbox", "refuse", id]).success();
    let listed = run_skill(&home, &["proposal", "list", "--all", "--json"]).success().stdout;
    assert!(listed.contains("rejected") && listed.contains(&proposal), "{listed}");
    assert_eq!(beads_text(&home), edited);
}
