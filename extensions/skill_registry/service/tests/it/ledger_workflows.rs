//! The workflows of a ledger, and their permitted states after a failure.

use std::path::PathBuf;

use skill_format::Digest;
use skill_ledger::ProposalState;

use crate::desk::{Desk, agent, every_proposal, person, reading, text, wish};
use crate::scene::id;

/// A workflow: its initial state, and the operation that fails.
pub(crate) struct Workflow {
    pub(crate) name: &'static str,
    pub(crate) prepare: fn(&Desk),
    pub(crate) deed: fn(&Desk) -> bool,
    /// The permitted bodies of SKILL.md afterwards, the old one first.
    pub(crate) bodies: &'static [&'static str],
}

pub(crate) const ONE: &str = "one\ntwo\nthree";

/// Approves the first proposal, whose text has this body.
fn approve_first(desk: &Desk, skill: &str, body: &str) -> bool {
    desk.approve("1", Digest::compute(text(skill, body).as_bytes())).is_ok()
}

pub(crate) const WORKFLOWS: [Workflow; 13] = [
    Workflow {
        name: "propose",
        prepare: |_| {},
        deed: |desk| desk.ask(&wish("beads", "new")).is_ok(),
        bodies: &[ONE],
    },
    Workflow {
        name: "propose again",
        prepare: |desk| drop(desk.propose("beads", "new")),
        deed: |desk| desk.ask(&wish("beads", "new")).is_ok(),
        bodies: &[ONE],
    },
    Workflow {
        name: "approve",
        prepare: |desk| drop(desk.propose("beads", "new")),
        deed: |desk| approve_first(desk, "beads", "new"),
        bodies: &[ONE, "new"],
    },
    Workflow {
        name: "reject",
        prepare: |desk| drop(desk.propose("beads", "new")),
        deed: |desk| desk.ledger.reject(&person(), "1", "no").is_ok(),
        bodies: &[ONE],
    },
    Workflow {
        name: "rebase",
        prepare: |desk| {
            desk.propose("beads", "one\ntwo\n3");
            desk.write("beads", &text("beads", "1\ntwo\nthree"));
            desk.ledger.record_direct_edits(&desk.snapshot(), &[id("beads")]).unwrap();
        },
        deed: |desk| desk.ledger.rebase(&desk.snapshot(), &person(), "1").is_ok(),
        bodies: &["1\ntwo\nthree"],
    },
    Workflow {
        name: "rollback",
        prepare: |desk| {
            desk.history("beads");
            desk.write("beads", &text("beads", "edited"));
            desk.scene.write("skills/beads/added/deep.md", "added");
            desk.scene.write("skills/beads/added/more.md", "more");
        },
        deed: |desk| {
            desk.ledger.rollback(&desk.snapshot(), &person(), "beads", Some(1), None).is_ok()
        },
        bodies: &["edited", ONE],
    },
    Workflow {
        name: "create",
        prepare: |desk| drop(desk.propose("pdf", "read")),
        deed: |desk| approve_first(desk, "pdf", "read"),
        bodies: &[ONE],
    },
    Workflow {
        name: "amend",
        prepare: |desk| drop(desk.propose("beads", "new")),
        deed: |desk| {
            let better = text("beads", "better");
            desk.ledger.amend(&desk.snapshot(), &person(), "1", &better).is_ok()
        },
        bodies: &[ONE],
    },
    Workflow {
        name: "observe",
        prepare: edit_under_a_proposal,
        deed: |desk| desk.ledger.record_direct_edits(&desk.snapshot(), &[id("beads")]).is_ok(),
        bodies: &["edited"],
    },
    Workflow {
        name: "history",
        prepare: edit_under_a_proposal,
        deed: |desk| desk.ledger.history(&desk.snapshot(), "beads").is_ok(),
        bodies: &["edited"],
    },
    Workflow {
        name: "report",
        prepare: |_| {},
        deed: |desk| desk.ledger.report_created(&desk.snapshot(), &agent(), "beads").is_ok(),
        bodies: &[ONE],
    },
    Workflow {
        name: "approve a skill",
        prepare: |desk| {
            desk.ledger.report_created(&desk.snapshot(), &agent(), "beads").unwrap();
        },
        deed: |desk| {
            let digest = desk.ledger.history(&desk.snapshot(), "beads").map(|last| last[0].tree);
            digest.is_ok_and(|digest| {
                let snapshot = desk.snapshot();
                desk.ledger.approve_skill(&snapshot, &person(), "beads", digest).is_ok()
            })
        },
        bodies: &[ONE],
    },
    Workflow {
        name: "read",
        prepare: |_| {},
        deed: |desk| {
            desk.ledger.record_activations(&[reading(1, "beads"), reading(1, "beads")]).is_ok()
        },
        bodies: &[ONE],
    },
];

fn edit_under_a_proposal(desk: &Desk) {
    desk.propose("beads", "new");
    desk.history("beads");
    desk.write("beads", &text("beads", "edited"));
}

/// Returns the current result of a workflow, other than the skill's files and the states of
/// proposals.
fn outcome(desk: &Desk, workflow: &Workflow) -> String {
    match workflow.name {
        "amend" => desk.ledger.proposal("1").unwrap().new_text.unwrap(),
        "observe" | "history" => {
            let last = desk.ledger.version("beads", None).unwrap();
            let open = desk.ledger.proposal("1").unwrap().summary.state;
            let text = last.files[0].text().unwrap();
            format!("{} {open} {}", last.version.number, text.contains("edited"))
        }
        "report" | "approve a skill" => {
            let standing = desk.ledger.approval_statuses(&desk.snapshot()).unwrap();
            format!("{:?}", standing.get(&id("beads")).map(|standing| standing.approved))
        }
        "read" => {
            let stats = desk.ledger.stats(None).unwrap();
            let reads = stats.first().map_or(0, |stats| stats.reads);
            // Reads that were recorded although the call failed are recorded again by the next
            // attempt.
            format!("{}", reads.min(2))
        }
        _ => String::new(),
    }
}

/// Returns the results of a workflow before and after the operation.
fn outcomes(workflow: &Workflow) -> [String; 2] {
    match workflow.name {
        "amend" => ["new", "better"].map(|body| text("beads", body)),
        "observe" => ["1 open false", "2 stale true"].map(str::to_owned),
        "history" => ["1 open false", "2 open true"].map(str::to_owned),
        "report" => ["None", "Some(false)"].map(str::to_owned),
        "approve a skill" => ["Some(false)", "Some(true)"].map(str::to_owned),
        "read" => ["0", "2"].map(str::to_owned),
        _ => [String::new(), String::new()],
    }
}

/// Checks that no file is torn, no proposal is stuck and no leftover remains after the next use of
/// the ledger.
#[track_caller]
pub(crate) fn assert_whole(desk: &Desk, workflow: &Workflow, what: &str) {
    let proposals = desk.ledger.proposals(every_proposal());
    let proposals = proposals.unwrap_or_else(|error| panic!("{what}: {error}"));
    for proposal in &proposals {
        assert_ne!(proposal.state, ProposalState::Approved, "{what}: stuck");
        assert_ne!(proposal.state, ProposalState::Failed, "{what}: failed");
    }
    let body = desk.body("beads");
    assert!(workflow.bodies.contains(&body.as_str()), "{what}: {body}");
    let applied = proposals.iter().any(|proposal| proposal.state == ProposalState::Applied);
    match workflow.name {
        "approve" => assert_eq!(applied, body == "new", "{what}"),
        "create" => {
            let made = desk.file("pdf/SKILL.md");
            assert_eq!(made, applied.then(|| text("pdf", "read")), "{what}");
            assert_eq!(desk.scene.path("skills/pdf").exists(), applied, "{what}");
        }
        "rollback" => {
            // The tree equals one of the two versions.
            let old = body == "edited";
            assert_eq!(desk.file("beads/added/deep.md").is_some(), old, "{what}");
            assert_eq!(desk.file("beads/added/more.md").is_some(), old, "{what}");
        }
        _ => assert!(!applied, "{what}"),
    }
    let outcome = outcome(desk, workflow);
    assert!(outcomes(workflow).contains(&outcome), "{what}: {outcome}");
    assert_eq!(desk.leftovers(), Vec::<PathBuf>::new(), "{what}");
    if !desk.data("registry.sqlite3").exists() {
        // The first step failed.
        return;
    }
    let check = "PRAGMA integrity_check";
    let conn = rusqlite::Connection::open(desk.data("registry.sqlite3")).unwrap();
    let verdict: String = conn.query_row(check, [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok", "{what}");
    let pending = "SELECT count(*) FROM intents WHERE state = 'pending'";
    let pending: i64 = conn.query_row(pending, [], |row| row.get(0)).unwrap();
    assert_eq!(pending, 0, "{what}");
}

/// Repeats the operation unless it has succeeded; it must not fail permanently.
#[track_caller]
pub(crate) fn assert_repeatable(desk: &Desk, workflow: &Workflow, what: &str) {
    let proposals = desk.ledger.proposals(every_proposal());
    let done = proposals
        .unwrap()
        .iter()
        .any(|proposal| matches!(proposal.state, ProposalState::Applied | ProposalState::Rejected));
    let rolled_back = workflow.name == "rollback" && desk.body("beads") == ONE;
    if !done && !rolled_back {
        assert!((workflow.deed)(desk), "{what}: cannot be done any more");
    }
    assert_eq!(outcome(desk, workflow), outcomes(workflow)[1], "{what}");
}
