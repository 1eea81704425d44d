//! Skills that are proposed, created by agents, or removed, and the statistics of their use.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use skill_format::Digest;
use skill_ledger::{
    ActivationKind, ApprovalStatus, AuditFilter, LedgerErrorKind, ProposalState, ProposeRequest,
    ReviewFlag, SkillActivation, SkillStats, VersionAuthor,
};

use crate::desk::{Desk, agent, person, text, wish};
use crate::scene::{id, ids};

#[test]
fn new_skill_can_be_proposed() {
    let desk = Desk::empty();
    let request = ProposeRequest {
        diff: Some(skill_diff::unified_diff("", &text("pdf", "Read it."), "SKILL.md")),
        new_content: None,
        ..wish("pdf", "")
    };
    let proposed = desk.ask(&request).unwrap().proposal;
    assert_eq!(
        (proposed.base_digest, proposed.flags.as_slice()),
        (None, &[ReviewFlag::NewSkill][..])
    );
    assert!(!desk.scene.path("skills/pdf").exists());
    let applied = desk.approve(&proposed.id, proposed.new_digest).unwrap();
    assert_eq!(applied.version, 1);
    assert_eq!(desk.file("pdf/SKILL.md"), Some(text("pdf", "Read it.")));
    assert_eq!(ids(&desk.store()), ["pdf"]);
    assert!(desk.ledger.approval_statuses(&desk.snapshot()).unwrap().is_empty());
    let history = desk.history("pdf");
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].author, VersionAuthor::Agent(agent()));
}

#[test]
fn existing_directory_is_not_replaced() {
    let desk = Desk::empty();
    let (first, digest) = desk.propose("pdf", "first");
    desk.scene.write("skills/pdf/notes.txt", "mine");
    let error = desk.approve(&first, digest).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Conflict);
    let path = desk.scene.path("skills/pdf");
    assert_eq!(error.to_string(), format!("{} exists but is not a skill", path.display()));
    assert_eq!(desk.file("pdf/SKILL.md"), None);
    assert_eq!(desk.ledger.proposal(&first).unwrap().summary.state, ProposalState::Open);

    desk.scene.write("skills/broken/SKILL.md", "no frontmatter");
    let error = desk.ask(&wish("broken", "x")).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Conflict);
    assert!(error.to_string().contains("broken exists but is not a skill: "), "{error}");
}

#[test]
fn removed_skill_can_be_restored() {
    let desk = Desk::new();
    let script = desk.scene.write("skills/beads/scripts/run.sh", "#!/bin/sh\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let before = desk.history("beads");
    fs::remove_dir_all(desk.scene.path("skills/beads")).unwrap();
    let events = desk.ledger.record_direct_edits(&desk.snapshot(), &[id("beads")]).unwrap();
    assert_eq!(events.len(), 1);
    let history = desk.history("beads");
    assert_eq!((history.len(), history[1].files), (2, 0));
    let back = desk.ledger.rollback(&desk.snapshot(), &person(), "beads", None, None).unwrap();
    assert_eq!((back.version, back.tree), (3, before[0].tree));
    assert_eq!(desk.body("beads"), "one\ntwo\nthree");
    assert_eq!(fs::metadata(script).unwrap().permissions().mode() & 0o777, 0o755);
}

#[test]
fn versions_keep_executable_bits() {
    let desk = Desk::new();
    let script = desk.scene.write("skills/beads/run.sh", "#!/bin/sh\n");
    let set = |mode| fs::set_permissions(&script, fs::Permissions::from_mode(mode)).unwrap();
    set(0o644);
    desk.history("beads");
    set(0o755);
    assert_eq!(desk.history("beads").len(), 2);
    desk.ledger.rollback(&desk.snapshot(), &person(), "beads", None, None).unwrap();
    assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o644);
    // A replaced file keeps its bits.
    set(0o750);
    let request = ProposeRequest {
        path: Some("run.sh".to_owned()),
        new_content: Some("#!/bin/sh\ntrue\n".to_owned()),
        ..wish("beads", "")
    };
    let proposal = desk.ask(&request).unwrap().proposal;
    desk.approve(&proposal.id, proposal.new_digest).unwrap();
    assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o750);
}

#[test]
fn links_are_not_followed() {
    let desk = Desk::new();
    let outside = desk.scene.write("outside.md", "outside");
    std::os::unix::fs::symlink(&outside, desk.scene.path("skills/beads/link.md")).unwrap();
    std::os::unix::fs::symlink(desk.scene.path(""), desk.scene.path("skills/beads/up")).unwrap();
    for path in ["link.md", "up/outside.md", "up/new.md"] {
        let request = ProposeRequest {
            path: Some(path.to_owned()),
            new_content: Some("inside".to_owned()),
            ..wish("beads", "")
        };
        let error = desk.ask(&request).unwrap_err();
        assert_eq!(error.reason(), LedgerErrorKind::Denied, "{path}: {error}");
    }
    // The link appears after the proposal was created.
    let request = ProposeRequest {
        path: Some("dir/new.md".to_owned()),
        new_content: Some("inside".to_owned()),
        ..wish("beads", "")
    };
    let proposal = desk.ask(&request).unwrap().proposal;
    let target = desk.scene.path("elsewhere");
    fs::create_dir(&target).unwrap();
    std::os::unix::fs::symlink(&target, desk.scene.path("skills/beads/dir")).unwrap();
    let error = desk.approve(&proposal.id, proposal.new_digest).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Denied, "{error}");
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(outside).unwrap(), "outside");
    let state = desk.ledger.proposal(&proposal.id).unwrap().summary.state;
    assert_eq!(state, ProposalState::Open);
}

#[test]
fn created_skill_is_not_approved() {
    let desk = Desk::new();
    desk.write("made", &text("made", "by an agent"));
    let snapshot = desk.snapshot();
    desk.ledger.report_created(&snapshot, &agent(), "made").unwrap();
    let standing = |approved: bool| {
        let all = desk.ledger.approval_statuses(&desk.snapshot()).unwrap();
        let digest = all[&id("made")].digest;
        assert_eq!(all.len(), 1);
        assert_eq!(all[&id("made")], ApprovalStatus { author: agent(), approved, digest });
        digest
    };
    let digest = standing(false);
    let history = desk.ledger.history(&snapshot, "made").unwrap();
    assert_eq!(history[0].author, VersionAuthor::Agent(agent()));
    assert_eq!(history[0].tree, digest);

    let approve = |id: &str, digest| {
        desk.ledger.approve_skill(&desk.snapshot(), &person(), id, digest).map_err(|e| e.reason())
    };
    assert_eq!(approve("made", Digest::compute(b"other")), Err(LedgerErrorKind::Digest));
    assert_eq!(approve("beads", digest), Err(LedgerErrorKind::Digest));
    assert_eq!(approve("nothing", digest), Err(LedgerErrorKind::NotFound));
    standing(false);
    approve("made", digest).unwrap();
    standing(true);

    // A change that a person applies keeps the approval, a direct edit does not.
    let (proposal, new) = desk.propose("made", "better");
    desk.approve(&proposal, new).unwrap();
    standing(true);
    desk.scene.write("skills/made/extra.sh", "rm -rf /");
    let edited = standing(false);
    approve("made", edited).unwrap();
    standing(true);
    desk.ledger.report_created(&desk.snapshot(), &agent(), "made").unwrap();
    standing(false);
    // The loss of the database approves no skill.
    fs::remove_file(desk.data("registry.sqlite3")).unwrap();
    standing(false);
    fs::write(desk.data("registry.sqlite3"), "garbage").unwrap();
    standing(false);
    let invalid = desk.ledger.report_created(&snapshot, &agent(), "../x");
    assert_eq!(invalid.unwrap_err().reason(), LedgerErrorKind::Argument);
}

#[test]
fn reads_are_summed_up() {
    let desk = Desk::new();
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
    };
    use ActivationKind::{Resource, Skill};
    desk.ledger.record_activations(&[]).unwrap();
    assert!(!desk.data("").exists());
    let batch = [
        reading(1, "beads", Skill, "s1"),
        reading(2, "pdf", Skill, "s1"),
        reading(3, "beads", Skill, "s2"),
        reading(4, "beads", Resource, "s2"),
    ];
    desk.ledger.record_activations(&batch).unwrap();
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
        desk.ledger.stats(None),
        Ok(vec![stats("beads", 2, 1, 2, 4), stats("pdf", 1, 0, 1, 2)])
    );
    assert_eq!(desk.ledger.stats(Some(3)), Ok(vec![stats("beads", 1, 1, 1, 4)]));
    assert_eq!(serde_json::to_value(ActivationKind::Skill).unwrap(), json!("skill"));
}

#[test]
fn oversized_skill_keeps_unrecorded_files() {
    let desk = Desk::new();
    for nth in 0..600 {
        desk.scene.write(&format!("skills/beads/A/{nth:03}.txt"), format!("{nth}"));
    }
    let history = desk.history("beads");
    assert_eq!((history[0].files, history[0].complete), (512, false));
    // A file that sorts first takes the place of another one in the version.
    desk.scene.write("skills/beads/A/!new.txt", "new");
    let (proposal, digest) = desk.propose("beads", "ONE");
    desk.approve(&proposal, digest).unwrap();
    desk.ledger.rollback(&desk.snapshot(), &person(), "beads", Some(1), None).unwrap();
    assert_eq!(desk.body("beads"), "one\ntwo\nthree");
    assert_eq!(fs::read_dir(desk.scene.path("skills/beads/A")).unwrap().count(), 601);
}

#[test]
fn announced_skill_belongs_to_agent() {
    let desk = Desk::empty();
    desk.ledger.report_created(&desk.snapshot(), &agent(), "pdf").unwrap();
    desk.write("pdf", &text("pdf", "Read it."));
    // Another process sees it first.
    desk.other().record_direct_edits(&desk.snapshot(), &[id("pdf")]).unwrap();
    desk.ledger.report_created(&desk.snapshot(), &agent(), "pdf").unwrap();
    let history = desk.history("pdf");
    let authors: Vec<_> = history.into_iter().map(|version| version.author).collect();
    assert_eq!(authors, [VersionAuthor::Agent(agent())]);
    let filter = AuditFilter { skill: Some("pdf"), ..AuditFilter::default() };
    let actions: Vec<_> =
        desk.ledger.audit(filter).unwrap().into_iter().map(|entry| entry.action).collect();
    assert_eq!(actions.iter().filter(|action| *action == "skill.created").count(), 1);
    let standing = desk.ledger.approval_statuses(&desk.snapshot()).unwrap();
    let digest = standing[&id("pdf")].digest;
    let expected = ApprovalStatus { author: agent(), approved: false, digest };
    assert_eq!(standing[&id("pdf")], expected);
    // A later approval is the person's, and a new report revokes it.
    desk.ledger.approve_skill(&desk.snapshot(), &person(), "pdf", digest).unwrap();
    desk.ledger.report_created(&desk.snapshot(), &agent(), "pdf").unwrap();
    assert!(!desk.ledger.approval_statuses(&desk.snapshot()).unwrap()[&id("pdf")].approved);
}
