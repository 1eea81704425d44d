//! Skills that are proposed, created by agents, or removed, and the statistics of their use.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use skill_format::Digest;
use skill_ledger::{
    ActivationKind, ApprovalStatus, AuditFilter, LedgerErrorKind, ProposalState, ProposeRequest,
    ReviewFlag, SkillActivation, SkillStats, VersionAuthor,
};

use crate::fixture::{id, ids};
use crate::scenario::{ReviewScenario, agent, person, text, wish};

#[test]
fn new_skill_can_be_proposed() {
    let scenario = ReviewScenario::empty();
    let request = ProposeRequest {
        diff: Some(skill_diff::unified_diff("", &text("pdf", "Read it."), "SKILL.md")),
        new_content: None,
        ..wish("pdf", "")
    };
    let proposed = scenario.ask(&request).unwrap().proposal;
    assert_eq!(
        (proposed.base_digest, proposed.flags.as_slice()),
        (None, &[ReviewFlag::NewSkill][..])
    );
    assert!(!scenario.fixture.path("skills/pdf").exists());
    let applied = scenario.approve(&proposed.id, proposed.new_digest).unwrap();
    assert_eq!(applied.version, 1);
    assert_eq!(scenario.file("pdf/SKILL.md"), Some(text("pdf", "Read it.")));
    assert_eq!(ids(&scenario.store()), ["pdf"]);
    assert!(scenario.ledger.approval_statuses(&scenario.snapshot()).unwrap().is_empty());
    let history = scenario.history("pdf");
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].author, VersionAuthor::Agent(agent()));
}

#[test]
fn existing_directory_is_not_replaced() {
    let scenario = ReviewScenario::empty();
    let (first, digest) = scenario.propose("pdf", "first");
    scenario.fixture.write("skills/pdf/notes.txt", "mine");
    let error = scenario.approve(&first, digest).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Conflict);
    let path = scenario.fixture.path("skills/pdf");
    assert_eq!(error.to_string(), format!("{} exists but is not a skill", path.display()));
    assert_eq!(scenario.file("pdf/SKILL.md"), None);
    assert_eq!(scenario.ledger.proposal(&first).unwrap().summary.state, ProposalState::Open);

    scenario.fixture.write("skills/broken/SKILL.md", "no frontmatter");
    let error = scenario.ask(&wish("broken", "x")).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Conflict);
    assert!(error.to_string().contains("broken exists but is not a skill: "), "{error}");
}

#[test]
fn removed_skill_can_be_restored() {
    let scenario = ReviewScenario::new();
    let script = scenario.fixture.write("skills/beads/scripts/run.sh", "#!/bin/sh\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let before = scenario.history("beads");
    fs::remove_dir_all(scenario.fixture.path("skills/beads")).unwrap();
    let events = scenario.ledger.record_direct_edits(&scenario.snapshot(), &[id("beads")]).unwrap();
    assert_eq!(events.len(), 1);
    let history = scenario.history("beads");
    assert_eq!((history.len(), history[1].files), (2, 0));
    let back =
        scenario.ledger.rollback(&scenario.snapshot(), &person(), "beads", None, None).unwrap();
    assert_eq!((back.version, back.tree), (3, before[0].tree));
    assert_eq!(scenario.body("beads"), "one\ntwo\nthree");
    assert_eq!(fs::metadata(script).unwrap().permissions().mode() & 0o777, 0o755);
}

#[test]
fn versions_keep_executable_bits() {
    let scenario = ReviewScenario::new();
    let script = scenario.fixture.write("skills/beads/run.sh", "#!/bin/sh\n");
    let set = |mode| fs::set_permissions(&script, fs::Permissions::from_mode(mode)).unwrap();
    set(0o644);
    scenario.history("beads");
    set(0o755);
    assert_eq!(scenario.history("beads").len(), 2);
    scenario.ledger.rollback(&scenario.snapshot(), &person(), "beads", None, None).unwrap();
    assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o644);
    // A replaced file keeps its bits.
    set(0o750);
    let request = ProposeRequest {
        path: Some("run.sh".to_owned()),
        new_content: Some("#!/bin/sh\ntrue\n".to_owned()),
        ..wish("beads", "")
    };
    let proposal = scenario.ask(&request).unwrap().proposal;
    scenario.approve(&proposal.id, proposal.new_digest).unwrap();
    assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o750);
}

#[test]
fn links_are_not_followed() {
    let scenario = ReviewScenario::new();
    let outside = scenario.fixture.write("outside.md", "outside");
    std::os::unix::fs::symlink(&outside, scenario.fixture.path("skills/beads/link.md")).unwrap();
    std::os::unix::fs::symlink(scenario.fixture.path(""), scenario.fixture.path("skills/beads/up"))
        .unwrap();
    for path in ["link.md", "up/outside.md", "up/new.md"] {
        let request = ProposeRequest {
            path: Some(path.to_owned()),
            new_content: Some("inside".to_owned()),
            ..wish("beads", "")
        };
        let error = scenario.ask(&request).unwrap_err();
        assert_eq!(error.reason(), LedgerErrorKind::Denied, "{path}: {error}");
    }
    // The link appears after the proposal was created.
    let request = ProposeRequest {
        path: Some("dir/new.md".to_owned()),
        new_content: Some("inside".to_owned()),
        ..wish("beads", "")
    };
    let proposal = scenario.ask(&request).unwrap().proposal;
    let target = scenario.fixture.path("elsewhere");
    fs::create_dir(&target).unwrap();
    std::os::unix::fs::symlink(&target, scenario.fixture.path("skills/beads/dir")).unwrap();
    let error = scenario.approve(&proposal.id, proposal.new_digest).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Denied, "{error}");
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(outside).unwrap(), "outside");
    let state = scenario.ledger.proposal(&proposal.id).unwrap().summary.state;
    assert_eq!(state, ProposalState::Open);
}

#[test]
fn created_skill_is_not_approved() {
    let scenario = ReviewScenario::new();
    scenario.write("made", &text("made", "by an agent"));
    let snapshot = scenario.snapshot();
    scenario.ledger.report_created(&snapshot, &agent(), "made").unwrap();
    let standing = |approved: bool| {
        let all = scenario.ledger.approval_statuses(&scenario.snapshot()).unwrap();
        let digest = all[&id("made")].digest;
        assert_eq!(all.len(), 1);
        assert_eq!(all[&id("made")], ApprovalStatus { author: agent(), approved, digest });
        digest
    };
    let digest = standing(false);
    let history = scenario.ledger.history(&snapshot, "made").unwrap();
    assert_eq!(history[0].author, VersionAuthor::Agent(agent()));
    assert_eq!(history[0].tree, digest);

    let approve = |id: &str, digest| {
        scenario
            .ledger
            .approve_skill(&scenario.snapshot(), &person(), id, digest)
            .map_err(|e| e.reason())
    };
    assert_eq!(approve("made", Digest::compute(b"other")), Err(LedgerErrorKind::Digest));
    assert_eq!(approve("beads", digest), Err(LedgerErrorKind::Digest));
    assert_eq!(approve("nothing", digest), Err(LedgerErrorKind::NotFound));
    standing(false);
    approve("made", digest).unwrap();
    standing(true);

    // A change that a person applies keeps the approval, a direct edit does not.
    let (proposal, new) = scenario.propose("made", "better");
    scenario.approve(&proposal, new).unwrap();
    standing(true);
    scenario.fixture.write("skills/made/extra.sh", "rm -rf /");
    let edited = standing(false);
    approve("made", edited).unwrap();
    standing(true);
    scenario.ledger.report_created(&scenario.snapshot(), &agent(), "made").unwrap();
    standing(false);
    // The loss of the database approves no skill.
    fs::remove_file(scenario.data("registry.sqlite3")).unwrap();
    standing(false);
    fs::write(scenario.data("registry.sqlite3"), "garbage").unwrap();
    standing(false);
    let invalid = scenario.ledger.report_created(&snapshot, &agent(), "../x");
    assert_eq!(invalid.unwrap_err().reason(), LedgerErrorKind::Argument);
}

#[test]
fn reads_are_summed_up() {
    let scenario = ReviewScenario::new();
    let reading = |at_ms, skill: &str, kind, session: &str| SkillActivation {
        at_ms,
        skill_id: skill.to_owned(),
        kind,
        path: (kind == ActivationKind::Resource).then(|| "a.md".to_owned()),
        digest: Some(Digest::compute(b"x")),
        agent_id: "builder".to_owned(),
        session_id: session.to_owned(),
        turn_id: "t".to_owned(),
        origin: "agent".to_owned(),
        tokens: 10,
        call_number: None,
    };
    use ActivationKind::{Resource, Skill};
    scenario.ledger.record_activations(&[]).unwrap();
    assert!(!scenario.data("").exists());
    let batch = [
        reading(1, "beads", Skill, "s1"),
        reading(2, "pdf", Skill, "s1"),
        reading(3, "beads", Skill, "s2"),
        reading(4, "beads", Resource, "s2"),
    ];
    scenario.ledger.record_activations(&batch).unwrap();
    let stats = |skill_id: &str, reads, resource_reads, sessions, last_ms| SkillStats {
        skill_id: skill_id.to_owned(),
        reads,
        resource_reads,
        agents: 1,
        sessions,
        tokens: 10 * (reads + resource_reads),
        last_ms,
    };
    assert_eq!(
        scenario.ledger.stats(None),
        Ok(vec![stats("beads", 2, 1, 2, 4), stats("pdf", 1, 0, 1, 2)])
    );
    assert_eq!(scenario.ledger.stats(Some(3)), Ok(vec![stats("beads", 1, 1, 1, 4)]));
    assert_eq!(serde_json::to_value(ActivationKind::Skill).unwrap(), json!("skill"));
}

#[test]
fn oversized_skill_keeps_unrecorded_files() {
    let scenario = ReviewScenario::new();
    for nth in 0..600 {
        scenario.fixture.write(&format!("skills/beads/A/{nth:03}.txt"), format!("{nth}"));
    }
    let history = scenario.history("beads");
    assert_eq!((history[0].files, history[0].complete), (512, false));
    // A file that sorts first takes the place of another one in the version.
    scenario.fixture.write("skills/beads/A/!new.txt", "new");
    let (proposal, digest) = scenario.propose("beads", "ONE");
    scenario.approve(&proposal, digest).unwrap();
    scenario.ledger.rollback(&scenario.snapshot(), &person(), "beads", Some(1), None).unwrap();
    assert_eq!(scenario.body("beads"), "one\ntwo\nthree");
    assert_eq!(fs::read_dir(scenario.fixture.path("skills/beads/A")).unwrap().count(), 601);
}

#[test]
fn announced_skill_belongs_to_agent() {
    let scenario = ReviewScenario::empty();
    scenario.ledger.report_created(&scenario.snapshot(), &agent(), "pdf").unwrap();
    scenario.write("pdf", &text("pdf", "Read it."));
    // Another process sees it first.
    scenario.other().record_direct_edits(&scenario.snapshot(), &[id("pdf")]).unwrap();
    scenario.ledger.report_created(&scenario.snapshot(), &agent(), "pdf").unwrap();
    let history = scenario.history("pdf");
    let authors: Vec<_> = history.into_iter().map(|version| version.author).collect();
    assert_eq!(authors, [VersionAuthor::Agent(agent())]);
    let filter = AuditFilter { skill: Some("pdf"), ..AuditFilter::default() };
    let actions: Vec<_> =
        scenario.ledger.audit(filter).unwrap().into_iter().map(|entry| entry.action).collect();
    assert_eq!(actions.iter().filter(|action| *action == "skill.created").count(), 1);
    let standing = scenario.ledger.approval_statuses(&scenario.snapshot()).unwrap();
    let digest = standing[&id("pdf")].digest;
    let expected = ApprovalStatus { author: agent(), approved: false, digest };
    assert_eq!(standing[&id("pdf")], expected);
    // A later approval is the person's, and a new report revokes it.
    scenario.ledger.approve_skill(&scenario.snapshot(), &person(), "pdf", digest).unwrap();
    scenario.ledger.report_created(&scenario.snapshot(), &agent(), "pdf").unwrap();
    assert!(!scenario.ledger.approval_statuses(&scenario.snapshot()).unwrap()[&id("pdf")].approved);
}
