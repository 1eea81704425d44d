//! Failures of every step of every writing workflow, in every way.

use std::path::PathBuf;
use std::process::Command;

use skill_ledger::{LedgerErrorKind, LedgerNote, ProposalFilter, ProposalState, ProposeRequest};
use skillhost_files::fault::{self, InjectedFault};

use crate::ledger_workflows::{ONE, WORKFLOWS, assert_repeatable, assert_whole};
use crate::scenario::{ReviewScenario, person, text, wish};

/// Makes every step of a workflow fail in every way.
fn sweep(name: &str) {
    let workflow = WORKFLOWS.iter().find(|workflow| workflow.name == name).unwrap();
    let scenario = ReviewScenario::new();
    (workflow.prepare)(&scenario);
    fault::arm_fault(usize::MAX, InjectedFault::Io);
    assert!((workflow.deed)(&scenario), "{name}");
    let steps = fault::disarm_faults();
    assert!(steps > 3, "{name} has {steps} steps");
    for at in 1..=steps {
        for fault in [InjectedFault::Io, InjectedFault::Full, InjectedFault::Short] {
            let what = format!("{name} with {fault:?} at step {at} of {steps}");
            let scenario = ReviewScenario::new();
            (workflow.prepare)(&scenario);
            fault::arm_fault(at, fault);
            (workflow.deed)(&scenario);
            assert!(fault::disarm_faults() >= at, "{what}: the step was not reached");
            // Regardless of the result, the next use finds a consistent state.
            assert_whole(&scenario, workflow, &what);
            assert_repeatable(&scenario, workflow, &what);
            assert_whole(&scenario, workflow, &what);
        }
    }
}

#[test]
fn failed_propose_is_atomic() {
    sweep("propose");
    sweep("propose again");
}

#[test]
fn failed_approve_is_atomic() {
    sweep("approve");
}

#[test]
fn failed_reject_is_atomic() {
    sweep("reject");
}

#[test]
fn failed_rebase_is_atomic() {
    sweep("rebase");
}

#[test]
fn failed_rollback_is_atomic() {
    sweep("rollback");
}

#[test]
fn failed_amend_is_atomic() {
    sweep("amend");
}

#[test]
fn failed_observation_is_atomic() {
    sweep("observe");
    sweep("history");
}

#[test]
fn failed_skill_approval_is_atomic() {
    sweep("report");
    sweep("approve a skill");
}

#[test]
fn failed_read_recording_is_atomic() {
    sweep("read");
}

#[test]
fn failed_creation_is_atomic() {
    sweep("create");
}

/// The program of the child process; without its variables it returns at once.
#[test]
fn fault_process() {
    let Ok(place) = std::env::var("SKILL_STORE_TEST_DESK") else { return };
    let name = std::env::var("SKILL_STORE_TEST_DEED").unwrap();
    let scenario = ReviewScenario::at(place.into());
    let Some(workflow) = WORKFLOWS.iter().find(|workflow| workflow.name == name) else {
        // Any use of the ledger completes interrupted changes.
        scenario.ledger.proposals(ProposalFilter::default()).unwrap();
        return;
    };
    if std::env::var_os("SKILL_STORE_TEST_EDIT").is_some() {
        edit_before_rename(
            &scenario,
            "skills/beads/SKILL.md",
            &text("beads", "edited concurrently"),
        );
    }
    (workflow.deed)(&scenario);
}

/// Saves a file like an editor right before the ledger replaces a file.
fn edit_before_rename(scenario: &ReviewScenario, rel: &str, text: &str) {
    let (path, temporary) = (scenario.fixture.path(rel), scenario.fixture.path("temporary"));
    let (mark, text) = (scenario.fixture.path("saved"), text.to_owned());
    fault::set_hook("file.rename", move || {
        std::fs::write(mark, "").unwrap();
        std::fs::write(&temporary, text).unwrap();
        std::fs::rename(&temporary, path).unwrap();
    });
}

fn state_of_first(scenario: &ReviewScenario) -> ProposalState {
    scenario.ledger.proposal("1").unwrap().summary.state
}

#[test]
fn late_edit_is_kept() {
    let scenario = ReviewScenario::new();
    let (id, digest) = scenario.propose("beads", "new");
    edit_before_rename(&scenario, "skills/beads/SKILL.md", &text("beads", "edited concurrently"));
    let error = scenario.approve(&id, digest).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Stale, "{error}");
    assert_eq!(scenario.body("beads"), "edited concurrently");
    assert_eq!(state_of_first(&scenario), ProposalState::Stale);
    assert_eq!(scenario.leftovers(), Vec::<PathBuf>::new());
    // A file that appears where a new one is to be created.
    let request = ProposeRequest {
        path: Some("notes.md".to_owned()),
        new_content: Some("proposed".to_owned()),
        ..wish("beads", "")
    };
    let proposal = scenario.ask(&request).unwrap().proposal;
    edit_before_rename(&scenario, "skills/beads/notes.md", "mine");
    let error = scenario.approve(&proposal.id, proposal.new_digest).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Stale, "{error}");
    assert_eq!(scenario.file("beads/notes.md").as_deref(), Some("mine"));
    // A file that is to be removed, among others that are to be changed.
    scenario.history("beads");
    scenario.fixture.write("skills/beads/z.md", "added");
    scenario.write("beads", &text("beads", "changed"));
    edit_before_rename(&scenario, "skills/beads/z.md", "edited");
    let back = scenario.ledger.rollback(&scenario.snapshot(), &person(), "beads", None, None);
    assert_eq!(back.unwrap_err().reason(), LedgerErrorKind::Conflict);
    assert_eq!(scenario.file("beads/z.md").as_deref(), Some("edited"));
    assert_eq!(scenario.body("beads"), "changed");
    assert_eq!(scenario.leftovers(), Vec::<PathBuf>::new());
}

#[test]
fn late_edit_survives_crash() {
    let workflow = WORKFLOWS.iter().find(|workflow| workflow.name == "approve").unwrap();
    let mut kept = 0;
    for at in 1.. {
        let scenario = ReviewScenario::new();
        (workflow.prepare)(&scenario);
        let mut child = child(&scenario, workflow.name);
        child.env("SKILL_STORE_TEST_EDIT", "1").env("SKILL_STORE_FAULT_AT", at.to_string());
        let status = child.output().unwrap().status;
        scenario.ledger.proposals(ProposalFilter::default()).unwrap();
        let expected = match scenario.body("beads").as_str() {
            "edited concurrently" => {
                kept += 1;
                ProposalState::Stale
            }
            body if scenario.fixture.path("saved").exists() => panic!("dying at step {at}: {body}"),
            // The process died before the file could be edited.
            "new" => ProposalState::Applied,
            "one\ntwo\nthree" => ProposalState::Open,
            body => panic!("dying at step {at}: {body}"),
        };
        assert_eq!(state_of_first(&scenario), expected, "dying at step {at}");
        assert_eq!(scenario.leftovers(), Vec::<PathBuf>::new(), "dying at step {at}");
        if status.success() {
            break;
        }
    }
    assert!(kept > 3, "{kept}");
}

/// Returns the command that runs an operation in another process.
fn child(scenario: &ReviewScenario, deed: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "ledger_faults::fault_process", "--nocapture"])
        .env("SKILL_STORE_TEST_DESK", scenario.fixture.path(""))
        .env("SKILL_STORE_TEST_DEED", deed)
        .env("RUST_BACKTRACE", "0");
    command
}

/// Checks that the copy of the records of created skills equals the database.
#[track_caller]
fn assert_mirror(scenario: &ReviewScenario, what: &str) {
    let standing = scenario.ledger.approval_statuses(&scenario.snapshot()).unwrap();
    let text = std::fs::read_to_string(scenario.data("created.json")).unwrap_or_default();
    let approved = |line: &serde_json::Value| !line["approved"].is_null();
    let mirrored: Vec<bool> = match text.as_str() {
        "" => Vec::new(),
        text => serde_json::from_str::<Vec<_>>(text).unwrap().iter().map(approved).collect(),
    };
    let known: Vec<bool> = standing.values().map(|standing| standing.approved).collect();
    assert_eq!(mirrored, known, "{what}");
}

#[test]
fn crash_is_atomic() {
    for workflow in &WORKFLOWS {
        let mut died = 0;
        for at in 1.. {
            let scenario = ReviewScenario::new();
            (workflow.prepare)(&scenario);
            let mut child = child(&scenario, workflow.name);
            let output = child.env("SKILL_STORE_FAULT_AT", at.to_string()).output();
            let status = output.unwrap().status;
            let what = format!("{} that dies at step {at}", workflow.name);
            assert_whole(&scenario, workflow, &what);
            // No other program changed a file, so every change can be completed.
            let notes = scenario.ledger.take_notes();
            let unfinished = |note: &LedgerNote| matches!(note, LedgerNote::Unfinished { .. });
            assert!(!notes.iter().any(unfinished), "{what}: {notes:?}");
            assert_mirror(&scenario, &what);
            assert_repeatable(&scenario, workflow, &what);
            assert_whole(&scenario, workflow, &what);
            if status.success() {
                break;
            }
            died += 1;
        }
        assert!(died > 3, "{} died {died} times", workflow.name);
    }
}

#[test]
fn crash_during_recovery_is_atomic() {
    let dies = |scenario: &ReviewScenario, deed: &str, at: usize| {
        let mut child = child(scenario, deed);
        !child.env("SKILL_STORE_FAULT_AT", at.to_string()).output().unwrap().status.success()
    };
    for name in ["approve", "rollback", "create"] {
        let workflow = WORKFLOWS.iter().find(|workflow| workflow.name == name).unwrap();
        let mut died = 0;
        'first: for first in (8..).step_by(5) {
            for second in (1..).step_by(3) {
                let scenario = ReviewScenario::new();
                (workflow.prepare)(&scenario);
                if !dies(&scenario, name, first) {
                    break 'first;
                }
                let again = dies(&scenario, "repair", second);
                let what = format!("{name} that dies at step {first}, then at {second}");
                assert_whole(&scenario, workflow, &what);
                if !again {
                    break;
                }
                died += 1;
            }
        }
        assert!(died > 10, "{name} died {died} times");
    }
}

/// Creates a scenario on which a process died with an approval recorded and the file not yet written.
fn interrupted() -> ReviewScenario {
    let workflow = WORKFLOWS.iter().find(|workflow| workflow.name == "approve").unwrap();
    for at in 1.. {
        let scenario = ReviewScenario::new();
        (workflow.prepare)(&scenario);
        let mut child = child(&scenario, "approve");
        let status = child.env("SKILL_STORE_FAULT_AT", at.to_string()).output().unwrap().status;
        assert!(!status.success(), "the approval was never interrupted there");
        let conn = rusqlite::Connection::open(scenario.data("registry.sqlite3")).unwrap();
        let pending = "SELECT count(*) FROM intents WHERE state = 'pending'";
        if conn.query_row(pending, [], |row| row.get::<_, i64>(0)).is_ok_and(|count| count == 1) {
            assert_eq!(scenario.body("beads"), ONE);
            return scenario;
        }
    }
    unreachable!("there are fewer steps than numbers")
}

#[test]
fn error_reports_written_files() {
    let mut counts = [0, 0];
    for at in 1.. {
        let scenario = ReviewScenario::new();
        let (id, digest) = scenario.propose("beads", "new");
        fault::arm_fault(at, InjectedFault::Full);
        let answer = scenario.approve(&id, digest);
        if fault::disarm_faults() < at {
            break;
        }
        let written = scenario.body("beads") == "new";
        let Err(error) = answer else {
            assert!(written, "failing at step {at}");
            continue;
        };
        let detail = "; the files are written, which is recorded at the next use";
        assert_eq!(error.to_string().ends_with(detail), written, "failing at step {at}: {error}");
        counts[usize::from(written)] += 1;
    }
    assert!(counts[0] > 5 && counts[1] >= 2, "{counts:?}");
}

#[test]
fn interrupted_change_is_completed() {
    let scenario = interrupted();
    let id = scenario.ledger.proposal("1").unwrap().summary.id;
    let finished = LedgerNote::Finished { skill_id: "beads".to_owned(), proposal: Some(id) };
    assert_eq!(scenario.ledger.take_notes(), [finished]);
    assert_eq!(scenario.body("beads"), "new");
    let (_, events) = scenario.other().events_since(0).unwrap();
    let topics: Vec<_> = events.iter().map(skill_ledger::LedgerEvent::topic).collect();
    assert_eq!(
        topics[2..],
        ["skill.proposal.approved", "skill.version.created", "skill.proposal.applied"]
    );
}

#[test]
fn failed_recovery_is_retried() {
    for at in 1.. {
        let scenario = interrupted();
        fault::arm_fault(at, InjectedFault::Io);
        let answer = scenario.ledger.proposals(ProposalFilter::default());
        if fault::disarm_faults() < at {
            break;
        }
        if answer.is_ok_and(|waiting| !waiting.is_empty()) {
            // The change is still pending: the skill is not touched before it is completed.
            assert_eq!(scenario.ledger.take_notes().len(), 1, "failing at step {at}");
        }
        assert_eq!(state_of_first(&scenario), ProposalState::Applied, "failing at step {at}");
        assert_eq!(scenario.body("beads"), "new", "failing at step {at}");
        assert_eq!(scenario.leftovers(), Vec::<PathBuf>::new(), "failing at step {at}");
    }
}

#[test]
fn abandoned_change_can_be_retried() {
    let scenario = interrupted();
    let (skill, away) = (scenario.fixture.path("skills/beads"), scenario.fixture.path("away"));
    std::fs::rename(&skill, &away).unwrap();
    std::os::unix::fs::symlink(&away, &skill).unwrap();
    let failed = scenario.ledger.proposal("1").unwrap();
    assert_eq!(failed.summary.state, ProposalState::Failed);
    assert_eq!(failed.decided.map(|decided| decided.by).as_deref(), Some("ada"));
    let notes = scenario.ledger.take_notes();
    let message = format!(
        "an interrupted change of `beads` was abandoned: {} is or passes through a symbolic link",
        skill.display()
    );
    assert_eq!(notes.iter().map(ToString::to_string).collect::<Vec<_>>(), [message]);
    std::fs::remove_file(&skill).unwrap();
    std::fs::rename(&away, &skill).unwrap();
    assert_eq!(scenario.body("beads"), ONE);
    let digest = failed.summary.new_digest;
    assert_eq!(scenario.approve("1", digest).unwrap_err().reason(), LedgerErrorKind::State);
    let amended = scenario.ledger.amend(&scenario.snapshot(), &person(), "1", &text("beads", "x"));
    assert_eq!(amended.unwrap_err().reason(), LedgerErrorKind::State);
    let rebased = scenario.ledger.rebase(&scenario.snapshot(), &person(), "1").unwrap();
    assert_eq!(rebased.proposal.summary.state, ProposalState::Open);
    scenario.approve("1", digest).unwrap();
    assert_eq!(scenario.body("beads"), "new");
}

#[test]
fn recovery_keeps_later_edits() {
    let scenario = interrupted();
    scenario.write("beads", &text("beads", "edited after the crash"));
    assert_eq!(state_of_first(&scenario), ProposalState::Stale);
    assert_eq!(scenario.body("beads"), "edited after the crash");
    let scenario = interrupted();
    std::fs::remove_dir_all(scenario.fixture.path("skills/beads")).unwrap();
    assert_eq!(state_of_first(&scenario), ProposalState::Stale);
    assert!(!scenario.fixture.path("skills/beads").exists());
}
