//! The workflows of a ledger, and their permitted states after a failure.

use std::path::PathBuf;

use skill_format::Digest;
use skill_ledger::ProposalState;

use crate::fixture::id;
use crate::scenario::{ReviewScenario, agent, every_proposal, person, reading, text, wish};

/// A workflow: its initial state, and the operation that fails.
pub(crate) struct Workflow {
    pub(crate) name: &'static str,
    pub(crate) prepare: fn(&ReviewScenario),
    pub(crate) deed: fn(&ReviewScenario) -> bool,
    /// The permitted bodies of SKILL.md afterwards, the old one first.
    pub(crate) bodies: &'static [&'static str],
}

pub(crate) const ONE: &str = "one\ntwo\nthree";

/// Approves the first proposal, whose text has this body.
fn approve_first(scenario: &ReviewScenario, skill: &str, body: &str) -> bool {
    scenario.approve("1", Digest::compute(text(skill, body).as_bytes())).is_ok()
}

pub(crate) const WORKFLOWS: [Workflow; 13] = [
    Workflow {
        name: "propose",
        prepare: |_| {},
        deed: |scenario| scenario.ask(&wish("beads", "new")).is_ok(),
        bodies: &[ONE],
    },
    Workflow {
        name: "propose again",
        prepare: |scenario| drop(scenario.propose("beads", "new")),
        deed: |scenario| scenario.ask(&wish("beads", "new")).is_ok(),
        bodies: &[ONE],
    },
    Workflow {
        name: "approve",
        prepare: |scenario| drop(scenario.propose("beads", "new")),
        deed: |scenario| approve_first(scenario, "beads", "new"),
        bodies: &[ONE, "new"],
    },
    Workflow {
        name: "reject",
        prepare: |scenario| drop(scenario.propose("beads", "new")),
        deed: |scenario| scenario.ledger.reject(&person(), "1", "no").is_ok(),
        bodies: &[ONE],
    },
    Workflow {
        name: "rebase",
        prepare: |scenario| {
            scenario.propose("beads", "one\ntwo\n3");
            scenario.write("beads", &text("beads", "1\ntwo\nthree"));
            scenario.ledger.record_direct_edits(&scenario.snapshot(), &[id("beads")]).unwrap();
        },
        deed: |scenario| scenario.ledger.rebase(&scenario.snapshot(), &person(), "1").is_ok(),
        bodies: &["1\ntwo\nthree"],
    },
    Workflow {
        name: "rollback",
        prepare: |scenario| {
            scenario.history("beads");
            scenario.write("beads", &text("beads", "edited"));
            scenario.fixture.write("skills/beads/added/deep.md", "added");
            scenario.fixture.write("skills/beads/added/more.md", "more");
        },
        deed: |scenario| {
            scenario
                .ledger
                .rollback(&scenario.snapshot(), &person(), "beads", Some(1), None)
                .is_ok()
        },
        bodies: &["edited", ONE],
    },
    Workflow {
        name: "create",
        prepare: |scenario| drop(scenario.propose("pdf", "read")),
        deed: |scenario| approve_first(scenario, "pdf", "read"),
        bodies: &[ONE],
    },
    Workflow {
        name: "amend",
        prepare: |scenario| drop(scenario.propose("beads", "new")),
        deed: |scenario| {
            let better = text("beads", "better");
            scenario.ledger.amend(&scenario.snapshot(), &person(), "1", &better).is_ok()
        },
        bodies: &[ONE],
    },
    Workflow {
        name: "observe",
        prepare: edit_under_a_proposal,
        deed: |scenario| {
            scenario.ledger.record_direct_edits(&scenario.snapshot(), &[id("beads")]).is_ok()
        },
        bodies: &["edited"],
    },
    Workflow {
        name: "history",
        prepare: edit_under_a_proposal,
        deed: |scenario| scenario.ledger.history(&scenario.snapshot(), "beads").is_ok(),
        bodies: &["edited"],
    },
    Workflow {
        name: "report",
        prepare: |_| {},
        deed: |scenario| {
            scenario.ledger.report_created(&scenario.snapshot(), &agent(), "beads").is_ok()
        },
        bodies: &[ONE],
    },
    Workflow {
        name: "approve a skill",
        prepare: |scenario| {
            scenario.ledger.report_created(&scenario.snapshot(), &agent(), "beads").unwrap();
        },
        deed: |scenario| {
            let digest =
                scenario.ledger.history(&scenario.snapshot(), "beads").map(|last| last[0].tree);
            digest.is_ok_and(|digest| {
                let snapshot = scenario.snapshot();
                scenario.ledger.approve_skill(&snapshot, &person(), "beads", digest).is_ok()
            })
        },
        bodies: &[ONE],
    },
    Workflow {
        name: "read",
        prepare: |_| {},
        deed: |scenario| {
            scenario.ledger.record_activations(&[reading(1, "beads"), reading(1, "beads")]).is_ok()
        },
        bodies: &[ONE],
    },
];

fn edit_under_a_proposal(scenario: &ReviewScenario) {
    scenario.propose("beads", "new");
    scenario.history("beads");
    scenario.write("beads", &text("beads", "edited"));
}

/// Returns the current result of a workflow, other than the skill's files and the states of
/// proposals.
fn outcome(scenario: &ReviewScenario, workflow: &Workflow) -> String {
    match workflow.name {
        "amend" => scenario.ledger.proposal("1").unwrap().new_text.unwrap(),
        "observe" | "history" => {
            let last = scenario.ledger.version("beads", None).unwrap();
            let open = scenario.ledger.proposal("1").unwrap().summary.state;
            let text = last.files[0].text().unwrap();
            format!("{} {open} {}", last.version.number, text.contains("edited"))
        }
        "report" | "approve a skill" => {
            let standing = scenario.ledger.approval_statuses(&scenario.snapshot()).unwrap();
            format!("{:?}", standing.get(&id("beads")).map(|standing| standing.approved))
        }
        "read" => {
            let stats = scenario.ledger.stats(None).unwrap();
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
pub(crate) fn assert_whole(scenario: &ReviewScenario, workflow: &Workflow, what: &str) {
    let proposals = scenario.ledger.proposals(every_proposal());
    let proposals = proposals.unwrap_or_else(|error| panic!("{what}: {error}"));
    for proposal in &proposals {
        assert_ne!(proposal.state, ProposalState::Approved, "{what}: stuck");
        assert_ne!(proposal.state, ProposalState::Failed, "{what}: failed");
    }
    let body = scenario.body("beads");
    assert!(workflow.bodies.contains(&body.as_str()), "{what}: {body}");
    let applied = proposals.iter().any(|proposal| proposal.state == ProposalState::Applied);
    match workflow.name {
        "approve" => assert_eq!(applied, body == "new", "{what}"),
        "create" => {
            let made = scenario.file("pdf/SKILL.md");
            assert_eq!(made, applied.then(|| text("pdf", "read")), "{what}");
            assert_eq!(scenario.fixture.path("skills/pdf").exists(), applied, "{what}");
        }
        "rollback" => {
            // The tree equals one of the two versions.
            let old = body == "edited";
            assert_eq!(scenario.file("beads/added/deep.md").is_some(), old, "{what}");
            assert_eq!(scenario.file("beads/added/more.md").is_some(), old, "{what}");
        }
        _ => assert!(!applied, "{what}"),
    }
    let outcome = outcome(scenario, workflow);
    assert!(outcomes(workflow).contains(&outcome), "{what}: {outcome}");
    assert_eq!(scenario.leftovers(), Vec::<PathBuf>::new(), "{what}");
    if !scenario.data("registry.sqlite3").exists() {
        // The first step failed.
        return;
    }
    let check = "PRAGMA integrity_check";
    let conn = rusqlite::Connection::open(scenario.data("registry.sqlite3")).unwrap();
    let verdict: String = conn.query_row(check, [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok", "{what}");
    let pending = "SELECT count(*) FROM intents WHERE state = 'pending'";
    let pending: i64 = conn.query_row(pending, [], |row| row.get(0)).unwrap();
    assert_eq!(pending, 0, "{what}");
}

/// Repeats the operation unless it has succeeded; it must not fail permanently.
#[track_caller]
pub(crate) fn assert_repeatable(scenario: &ReviewScenario, workflow: &Workflow, what: &str) {
    let proposals = scenario.ledger.proposals(every_proposal());
    let done = proposals
        .unwrap()
        .iter()
        .any(|proposal| matches!(proposal.state, ProposalState::Applied | ProposalState::Rejected));
    let rolled_back = workflow.name == "rollback" && scenario.body("beads") == ONE;
    if !done && !rolled_back {
        assert!((workflow.deed)(scenario), "{what}: cannot be done any more");
    }
    assert_eq!(outcome(scenario, workflow), outcomes(workflow)[1], "{what}");
}
