//! Runs with a model as evidence about proposals.

use std::time::Duration;

use skill_catalog::Clock as _;
use skill_evals::{
    ChangeVerdict, ComparisonArm, ModelDigests, ModelReport, PairedReport, SpentAmounts,
};
use skill_ledger::{
    AuditFilter, HumanActor, LedgerError, LedgerErrorKind, ModelCheckMode, Proposal,
    Recommendation, ReviewAdvice,
};
use skill_testing::{ComparedChange, load_all_cases};
use skillhost_files::{files_digest, read_tree};

use crate::home::{FORMS, TestHome, home_with_forms, skill_text};

/// Records runs with a model that compared a proposal with its base.
fn record_runs(
    home: &TestHome,
    proposal: &Proposal,
    verdict: ChangeVerdict,
) -> Result<(), LedgerError> {
    let skill = home.snapshot().get(&proposal.summary.skill_id).unwrap().open_directory().unwrap();
    let report = ModelReport {
        skill_id: proposal.summary.skill_id.clone(),
        model: "p/m".to_owned(),
        judge: None,
        agent: "clerk".to_owned(),
        seed: 7,
        baseline: ComparisonArm::OldSkill,
        digests: ModelDigests {
            cases: load_all_cases(&skill, &proposal.summary.skill_id, 0, None).digest(),
            baseline: digest_files(home, &proposal.summary.skill_id),
            ..ModelDigests::default()
        },
        directory: String::new(),
        cases: Vec::new(),
        arms: Vec::new(),
        recall: None,
        precision: None,
        comparison: Some(PairedReport {
            verdict: Some(verdict),
            runs: 12,
            train: Default::default(),
            held_out: Default::default(),
            reversed: 0,
        }),
        earlier: Vec::new(),
        spent: SpentAmounts { requests: 1, tokens: 10, usd: Some(0.000_000_4) },
        stopped: None,
        notes: Vec::new(),
    };
    let summary = &proposal.summary;
    let compared =
        ComparedChange { base: summary.base_digest, new: summary.new_digest, report: &report };
    let evidence = compared.to_evidence().unwrap();
    assert_eq!(evidence.cost_microdollars, Some(1), "a cost is never shown as 0");
    let person = HumanActor { name: "ada".to_owned(), via: "cli".to_owned() };
    home.ledger().record_model_evidence(&person, &summary.id, &evidence)
}

/// The digest of the files of a skill without its cases.
fn digest_files(home: &TestHome, id: &str) -> String {
    let mut files = read_tree(&home.path(&format!("skills/{id}"))).unwrap();
    files.retain(|file| !file.path.starts_with("evals/"));
    format!("sha256:{}", files_digest(&files))
}

fn with_more(more: &str) -> String {
    skill_text("pdf-forms", FORMS, more)
}

#[test]
fn model_verdict_decides_about_approval() {
    let home = home_with_forms();
    for (verdict, is_enough) in [
        (ChangeVerdict::Blocked, false),
        (ChangeVerdict::Unclear, false),
        (ChangeVerdict::Better, true),
        (ChangeVerdict::NotLower, true),
        (ChangeVerdict::Thin, true),
    ] {
        let text = with_more(&format!("\nAsk which year is meant, {}.\n", verdict.as_str()));
        let before = home.propose("pdf-forms", &text).unwrap();
        record_runs(&home, &before, verdict).unwrap();
        // The result is a part of what is approved.
        assert_eq!(home.approve(&before, None).unwrap_err().reason(), LedgerErrorKind::Digest);
        let tested = home.ledger().proposal(&before.summary.id).unwrap();
        let done = home.approve(&tested, None);
        if is_enough {
            done.unwrap();
            continue;
        }
        let error = done.unwrap_err();
        assert_eq!(error.reason(), LedgerErrorKind::Refused);
        let start = format!("the check has objections: model: {}: ", verdict.as_str());
        assert!(error.to_string().starts_with(&start), "{error}");
        for empty in ["", " \t"] {
            let error = home.approve(&tested, Some(empty)).unwrap_err();
            assert_eq!(error.reason(), LedgerErrorKind::Refused);
        }
        home.approve(&tested, Some("measured by hand")).unwrap();
        let filter = AuditFilter { proposal: Some(&tested.summary.id), ..AuditFilter::default() };
        let rows = home.ledger().audit(filter).unwrap();
        let approved = rows.iter().find(|row| row.action == "proposal.approved").unwrap();
        assert_eq!(approved.detail["reason"], "measured by hand");
        assert!(approved.detail["overridden"][0].as_str().unwrap().starts_with("model: "));
    }
}

#[test]
fn clock_change_keeps_evidence() {
    let home = home_with_forms();
    let start = home.clock.now();
    let years = Duration::from_secs(10 * 365 * 24 * 60 * 60);
    for (number, changed) in [start - years, start + years].into_iter().enumerate() {
        let text = with_more(&format!("\nAsk which year is meant, {number}.\n"));
        let proposal = home.propose("pdf-forms", &text).unwrap();
        record_runs(&home, &proposal, ChangeVerdict::Better).unwrap();
        home.clock.set(changed);
        let tested = home.ledger().proposal(&proposal.summary.id).unwrap();
        assert_eq!(home.approve(&tested, None).unwrap(), number as u64 + 2);
    }
}

#[test]
fn agent_overrides_no_objection() {
    let mut home = home_with_forms();
    home.is_required = false;
    let approve = |id: &str| {
        let summary = home.ledger().proposal(id).unwrap().summary;
        let recommendation = Recommendation {
            agent_id: "judge".to_owned(),
            advice: ReviewAdvice::Approve,
            reason: "It reads better.".to_owned(),
            run_id: "r".to_owned(),
            at_ms: 0,
        };
        let (ledger, digest) = (home.ledger(), summary.new_digest);
        let done = ledger.approve_for_agent(&home.snapshot(), id, digest, &recommendation);
        done.map(|applied| applied.version)
    };
    let refused = |id: &str| {
        let error = approve(id).unwrap_err();
        assert_eq!(error.reason(), LedgerErrorKind::Refused, "{error}");
        error.to_string()
    };
    // The words by which a skill is found are decided by people anyway.
    let worse = home.propose("pdf-forms", &skill_text("pdf-forms", "Helps with paper.", ""));
    let error = approve(&worse.unwrap().summary.id).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Denied, "{error}");
    // Nobody refuses the copy of a person.
    let copied = with_more("\nTo say which fields does this form have, list them.\n");
    let error = refused(&home.propose_by("operator", "pdf-forms", &copied).unwrap().summary.id);
    assert!(error.contains("\"which fields does this form have\""), "{error}");
    let proposal = home.propose("pdf-forms", &with_more("\nAsk which year is meant.\n")).unwrap();
    record_runs(&home, &proposal, ChangeVerdict::Unclear).unwrap();
    let error = refused(&proposal.summary.id);
    assert!(error.starts_with("the check has objections: model: unclear: "), "{error}");
    record_runs(&home, &proposal, ChangeVerdict::Better).unwrap();
    assert_eq!(approve(&proposal.summary.id).unwrap(), 2);
}

#[test]
fn changed_cases_make_runs_stale() {
    let home = home_with_forms();
    let proposal = home.propose("pdf-forms", &with_more("\nAsk which year is meant.\n")).unwrap();
    record_runs(&home, &proposal, ChangeVerdict::Better).unwrap();
    home.write("skills/pdf-forms/evals/evals.json", r#"{"evals": [{"id": 1, "prompt": "x"}]}"#);
    let id = &proposal.summary.id;
    let stale = home.approve(&home.ledger().proposal(id).unwrap(), None).unwrap_err();
    assert_eq!(stale.reason(), LedgerErrorKind::Stale);
    // The routing ran again; runs with a model do not run by themselves.
    let error = home.approve(&home.ledger().proposal(id).unwrap(), None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the check has objections: model: evidence is stale: cases changed"
    );
    record_runs(&home, &home.ledger().proposal(id).unwrap(), ChangeVerdict::Better).unwrap();
    home.approve(&home.ledger().proposal(id).unwrap(), None).unwrap();
}

#[test]
fn other_changed_files_make_runs_stale() {
    for path in ["references/fields.md", "evals/files/in.csv", "evals/check.sh"] {
        let home = home_with_forms();
        let evals = r#"{"evals": [{"id": 1, "prompt": "x", "files": ["evals/files/in.csv"],
            "assertions": [{"type": "custom", "value": "script: evals/check.sh"}]}]}"#;
        home.write("skills/pdf-forms/evals/evals.json", evals);
        home.write(&format!("skills/pdf-forms/{path}"), "before");
        let text = with_more("\nAsk which year is meant.\n");
        let proposal = home.propose("pdf-forms", &text).unwrap();
        record_runs(&home, &proposal, ChangeVerdict::Better).unwrap();
        let id = &proposal.summary.id;
        home.write(&format!("skills/pdf-forms/{path}"), "after!");
        let approve = || home.approve(&home.ledger().proposal(id).unwrap(), None);
        let stale = approve().unwrap_err().to_string();
        assert!(stale.contains("evidence is stale: "), "{path}: {stale}");
        // Another check of the queries does not make the runs count again.
        let again = approve().unwrap_err().to_string();
        assert!(again.contains("model: evidence is stale: "), "{path}: {again}");
    }
}

#[test]
fn mode_decides_about_missing_runs() {
    let mut home = home_with_forms();
    let text = |year: u32| with_more(&format!("\nAsk whether {year} is meant.\n"));
    home.models = ModelCheckMode::Require;
    let proposal = home.propose("pdf-forms", &text(2025)).unwrap();
    assert_eq!(
        home.approve(&proposal, None).unwrap_err().to_string(),
        "the check has objections: model: the cases of pdf-forms were not run with a model"
    );
    home.models = ModelCheckMode::WhenRun;
    home.approve(&proposal, None).unwrap();
    home.models = ModelCheckMode::Advise;
    let proposal = home.propose("pdf-forms", &text(2026)).unwrap();
    record_runs(&home, &proposal, ChangeVerdict::Blocked).unwrap();
    home.approve(&home.ledger().proposal(&proposal.summary.id).unwrap(), None).unwrap();
}

#[test]
fn runs_of_other_text_are_not_recorded() {
    let home = home_with_forms();
    let one = home.propose("pdf-forms", &with_more("\nAsk which year is meant.\n")).unwrap();
    let mut other = one.clone();
    other.summary.new_digest = other.summary.base_digest.unwrap();
    let error = record_runs(&home, &other, ChangeVerdict::Better).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Digest);
    home.approve(&one, None).unwrap();
    let error = record_runs(&home, &one, ChangeVerdict::Better).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::State);
}
