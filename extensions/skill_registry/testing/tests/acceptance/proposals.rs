//! Changes that are accepted, refused and shown.

use skill_catalog::AgentAuthor;
use skill_ledger::{HumanActor, LedgerErrorKind, ProposeRequest};
use skill_testing::{load_all_cases, open_held_out};

use crate::home::{FORMS, TestHome, home_with_forms, skill_text};

#[test]
fn accepted_proposal_has_evidence() {
    let home = home_with_forms();
    let new = skill_text("pdf-forms", FORMS, "\nAsk which year is meant.\n");
    let proposal = home.propose("pdf-forms", &new).unwrap();
    let found = proposal.summary.acceptance.as_ref().unwrap();
    assert_eq!((found.queries, found.passed_before, found.passed_after), (2, 2, 2));
    assert_eq!(found.describe(), "2 queries: 2 passed before, 2 now, none is worse");
    assert_ne!(proposal.summary.review_digest(), proposal.summary.new_digest);
    // The digest of the text alone does not approve the evidence.
    let person = HumanActor { name: "ada".to_owned(), via: "cli".to_owned() };
    let (id, text) = (&proposal.summary.id, proposal.summary.new_digest);
    let error = home.ledger().approve(&home.snapshot(), &person, id, text, None).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Digest);
    assert_eq!(home.approve(&proposal, None).unwrap(), 2);
}

#[test]
fn home_without_cases_has_no_evidence() {
    let home = TestHome::new();
    home.skill("pdf-forms", FORMS, &[]);
    let new = skill_text("pdf-forms", FORMS, "\nAsk which year is meant.\n");
    let proposal = home.propose("pdf-forms", &new).unwrap();
    assert_eq!(proposal.summary.acceptance, None);
    assert_eq!(proposal.summary.review_digest(), proposal.summary.new_digest);
    home.approve(&proposal, None).unwrap();
}

#[test]
fn trial_records_no_proposal() {
    let home = home_with_forms();
    let try_text = |text: &str| {
        let request = ProposeRequest {
            skill_id: "pdf-forms".to_owned(),
            new_content: Some(text.to_owned()),
            justification: "It reads better.".to_owned(),
            ..ProposeRequest::default()
        };
        home.ledger().try_change(&home.snapshot(), &request)
    };
    let good = skill_text("pdf-forms", FORMS, "\nAsk which year is meant.\n");
    let trial = try_text(&good).unwrap();
    assert_eq!((trial.objection, trial.acceptance.map(|found| found.queries)), (None, Some(2)));
    // The objection is the error of a proposal, and its cases are apart.
    let leak = skill_text("pdf-forms", FORMS, "\nSee which fields does this form have.\n");
    let worse = skill_text("pdf-forms", "Reads letters.", "");
    for text in [&leak, &worse] {
        let trial = try_text(text).unwrap();
        let objection = trial.objection.unwrap().to_string();
        assert_eq!(objection, home.refused("pdf-forms", text));
        let found = trial.acceptance.unwrap();
        assert!(found.leaks.iter().chain(&found.regressions).any(|line| objection.contains(line)));
    }
    let same = skill_text("pdf-forms", FORMS, "");
    for text in [&same, &format!("{same}\n\n")] {
        assert_eq!(try_text(text).unwrap_err().reason(), LedgerErrorKind::Refused);
    }
    assert_eq!(home.ledger().proposals(skill_ledger::ProposalFilter::default()).unwrap(), []);
    // A rejected edit is repeated, in a trial as well.
    let proposal = home.propose("pdf-forms", &good).unwrap();
    let person = HumanActor { name: "ada".to_owned(), via: "cli".to_owned() };
    home.ledger().reject(&person, &proposal.summary.id, "no").unwrap();
    let repeated = try_text(&good).unwrap_err().to_string();
    assert!(repeated.starts_with("repeated: proposal "), "{repeated}");
}

#[test]
fn useless_edits_are_named() {
    let home = home_with_forms();
    let before = skill_text("pdf-forms", FORMS, "");
    assert_eq!(
        home.refused("pdf-forms", &before),
        "no_change: SKILL.md already has exactly this text"
    );
    for cosmetic in [
        before.replace("first. Read", "first.\nRead"),
        before.replace("\n\n", "\n\n\n"),
        format!("{before}\n\n"),
        before.replace("Open the", "  Open   the"),
        // The canonical form has the name first and no quotes that YAML does not need.
        before.replace(
            &format!("name: pdf-forms\ndescription: {FORMS}"),
            &format!("description: {FORMS}\nname: \"pdf-forms\""),
        ),
    ] {
        assert_eq!(
            home.refused("pdf-forms", &cosmetic),
            "cosmetic: only white space or the form differs"
        );
    }
}

#[test]
fn skill_of_agent_is_compared_too() {
    let home = home_with_forms();
    home.write("skills/pdf-forms/evals/suite.yaml", "agent: clerk\n");
    let error = home.refused("pdf-forms", &skill_text("pdf-forms", "Helps with paper.", ""));
    assert!(error.starts_with("routing: pdf-forms/q1 "), "{error}");
}

#[test]
fn author_reads_no_result_of_held_out_case() {
    let home = home_with_forms();
    home.skill("kettle", "Brews tea of green leaves.", &["tea of green leaves"]);
    home.write(
        "data/evals/kettle/triggers.json",
        r#"[{"query": "some green leaves", "should_trigger": true}]"#,
    );
    let error = home.refused("kettle", &skill_text("kettle", "Helps with plants.", ""));
    assert!(error.ends_with("; 1 held-out case"), "{error}");
    assert!(!error.contains("held-out/") && !error.contains("some green"), "{error}");
}

#[test]
fn repeated_names_are_findings() {
    let home = home_with_forms();
    let evals = |id: &str| format!("{{\"evals\": [{{\"id\": \"{id}\", \"prompt\": \"x\"}}]}}");
    home.write("skills/pdf-forms/evals/evals.json", &evals("held-out/1"));
    home.write("data/evals/pdf-forms/evals.json", &evals("1"));
    let skill = home.snapshot().get("pdf-forms").unwrap().open_directory().unwrap();
    let held_out = open_held_out(&home.path("data"), "pdf-forms").unwrap();
    let cases = load_all_cases(&skill, "pdf-forms", 0, Some(&held_out));
    let errors: Vec<_> = cases.errors().map(|(_, finding)| finding.message.as_str()).collect();
    assert_eq!(errors, ["another prompt has the name `held-out/1` too"]);
}

#[test]
fn text_of_case_is_a_leak() {
    let home = home_with_forms();
    home.write(
        "data/evals/pdf-forms/triggers.json",
        r#"[{"query": "please put my name into the rental contract", "should_trigger": true}]"#,
    );
    home.write(
        "skills/pdf-forms/evals/evals.json",
        r#"{"evals": [{"id": "months", "prompt": "x",
            "assertions": [{"type": "contains", "value": "March, July"}]}]}"#,
    );
    let add = |more: &str| skill_text("pdf-forms", FORMS, more);
    assert_eq!(
        home.refused("pdf-forms", &add("\nTo say which fields does this form have, list them.\n")),
        "leak: the text has words of cases: pdf-forms/q2 \"which fields does this form have\""
    );
    assert_eq!(
        home.refused("pdf-forms", &add("\nAlways name March, July.\n")),
        "leak: the text has words of cases: pdf-forms/months \"March, July\""
    );
    let held_out = home.refused("pdf-forms", &add("\nPut my name into the rental contract.\n"));
    assert_eq!(held_out, "leak: the text has words of cases: 1 held-out case");
}

/// Returns a word that no other text has.
fn subject(number: usize) -> String {
    let letter = |n: usize| char::from(b'b' + u8::try_from(n % 20).unwrap());
    format!("qu{}a{}o{}ix", letter(number), letter(number / 20), letter(number / 400))
}

/// Returns a second word of a subject.
fn subject_pair(number: usize) -> String {
    subject(number + 300)
}

fn stolen_query(number: usize) -> String {
    format!("{} {} {}", subject(number), subject_pair(number), subject(number + 600))
}

#[test]
fn all_stolen_queries_are_listed() {
    let home = TestHome::new();
    let mut words = Vec::new();
    for number in 0..200 {
        let subject = subject(number);
        // The first twenty have two better matches for their query, so that they are third.
        if number < 20 {
            let query = stolen_query(number);
            home.skill(&format!("skill-{number}"), &format!("About {subject}."), &[&query]);
            for place in ["one", "two"] {
                let description = format!("Knows {query}.");
                home.skill(&format!("near-{number}-{place}"), &description, &[]);
            }
            // Two of the three words of the query, where the skill itself has one.
            words.push(format!("{subject} {}", subject_pair(number)));
        } else {
            let query = format!("tell me about {subject}");
            home.skill(&format!("skill-{number}"), &format!("About {subject}."), &[&query]);
        }
    }
    let description = format!("Knows {}.", words.join(", "));
    let refused = home.refused("knows-all", &skill_text("knows-all", &description, ""));
    let stolen: Vec<&str> = refused.strip_prefix("routing: ").unwrap().split("; ").collect();
    assert_eq!(stolen.len(), 20, "{stolen:?}");
    for number in 0..20 {
        let query = stolen_query(number);
        let line = format!("skill-{number}/q1 \"{query}\" passed, now ranked 4, behind ");
        assert!(stolen.iter().any(|stolen| stolen.starts_with(&line)), "{line}: {stolen:?}");
    }
}

#[test]
fn regression_needs_reason_of_person() {
    let mut home = home_with_forms();
    home.is_required = false;
    // Without its words the skill is not found any more.
    let new = skill_text("pdf-forms", "Helps with paper.", "");
    let proposal = home.propose("pdf-forms", &new).unwrap();
    let found = proposal.summary.acceptance.clone().unwrap();
    assert_eq!((found.passed_before, !found.regressions.is_empty()), (2, true));
    assert!(found.regressions[0].starts_with("pdf-forms/q1 \"complete the W-9\" passed, now "));
    let error = home.approve(&proposal, None).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Refused);
    assert!(error.to_string().starts_with("the check has objections: pdf-forms/q1"), "{error}");
    assert_eq!(home.approve(&proposal, Some("it is being renamed")).unwrap(), 2);
}

#[test]
fn copied_case_needs_reason_of_person() {
    let home = home_with_forms();
    let copied = "\nTo say which fields does this form have, list them.\n";
    let text = skill_text("pdf-forms", FORMS, copied);
    let proposal = home.propose_by("operator", "pdf-forms", &text).unwrap();
    for reason in [None, Some(""), Some(" \t")] {
        let error = home.approve(&proposal, reason).unwrap_err();
        assert_eq!(error.reason(), LedgerErrorKind::Refused, "{error}");
    }
    assert_eq!(home.approve(&proposal, Some("the question is a usual one")).unwrap(), 2);
}

#[test]
fn removed_cases_do_not_remove_objections() {
    let mut home = home_with_forms();
    home.is_required = false;
    let new = skill_text("pdf-forms", "Helps with paper.", "");
    let proposal = home.propose("pdf-forms", &new).unwrap();
    std::fs::remove_file(home.path("skills/pdf-forms/evals/triggers.json")).unwrap();
    let error = home.approve(&proposal, None).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Stale);
    assert_eq!(error.to_string(), "evidence is stale: cases changed");
}

#[test]
fn indentation_of_script_is_a_change() {
    let home = home_with_forms();
    let script = "for n in range(3):\n    print(n)\n    done()\n";
    home.write("skills/pdf-forms/scripts/x.py", script);
    let author = AgentAuthor { origin: "agent".to_owned(), ..AgentAuthor::default() };
    let request = |new: String| ProposeRequest {
        skill_id: "pdf-forms".to_owned(),
        path: Some("scripts/x.py".to_owned()),
        new_content: Some(new),
        justification: "It is called once.".to_owned(),
        ..ProposeRequest::default()
    };
    let dedented = request(script.replace("    done()", "done()"));
    home.ledger().propose(&home.snapshot(), &author, &dedented).unwrap();
}

#[test]
fn changed_cases_make_evidence_stale() {
    let home = home_with_forms();
    let new = skill_text("pdf-forms", FORMS, "\nAsk which year is meant.\n");
    let proposal = home.propose("pdf-forms", &new).unwrap();
    home.write(
        "skills/pdf-forms/evals/triggers.json",
        r#"[{"query": "complete the W-9", "should_trigger": true}]"#,
    );
    let error = home.approve(&proposal, None).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Stale);
    assert_eq!(error.to_string(), "evidence is stale: cases changed");
    // The new result is recorded; its digest differs, so that it has to be reviewed.
    let again = home.ledger().proposal(&proposal.summary.id).unwrap();
    assert_ne!(again.summary.review_digest(), proposal.summary.review_digest());
    assert_eq!(home.approve(&proposal, None).unwrap_err().reason(), LedgerErrorKind::Digest);
    assert_eq!(home.approve(&again, None).unwrap(), 2);
}

#[test]
fn other_skills_may_change_without_effect() {
    let home = home_with_forms();
    let new = skill_text("pdf-forms", FORMS, "\nAsk which year is meant.\n");
    let proposal = home.propose("pdf-forms", &new).unwrap();
    home.skill("pottery", "Shapes clay.", &[]);
    assert_eq!(home.approve(&proposal, None).unwrap(), 2);
}

#[test]
fn rejected_edit_is_not_filed_again() {
    let home = home_with_forms();
    let line = "\nAlways open the form in the viewer first, as scanned forms have no fields.\n";
    let new = skill_text("pdf-forms", FORMS, line);
    let proposal = home.propose("pdf-forms", &new).unwrap();
    let person = HumanActor { name: "ada".to_owned(), via: "cli".to_owned() };
    home.ledger().reject(&person, &proposal.summary.id, "the viewer is not installed").unwrap();
    for repeated in [
        new.clone(),
        new.replace("viewer first,", "viewer first:"),
        new.replace("# pdf-forms\n", "# PDF forms\n").replace(line, &line.to_uppercase()),
    ] {
        let message = home.refused("pdf-forms", &repeated);
        assert!(message.starts_with("repeated: proposal "), "{message}");
        assert!(message.ends_with(": the viewer is not installed"), "{message}");
    }
    home.propose("pdf-forms", &skill_text("pdf-forms", FORMS, "\nAsk which year is meant.\n"))
        .unwrap();
}

#[test]
fn person_sees_result_but_is_not_refused() {
    let home = home_with_forms();
    let cosmetic = skill_text("pdf-forms", FORMS, "\n");
    home.propose_by("operator", "pdf-forms", &cosmetic).unwrap();
    let worse = skill_text("pdf-forms", "Helps with paper.", "");
    let proposal = home.propose_by("operator", "pdf-forms", &worse).unwrap();
    assert!(!proposal.summary.acceptance.unwrap().regressions.is_empty());
    let person = HumanActor { name: "ada".to_owned(), via: "cli".to_owned() };
    home.ledger().reject(&person, &proposal.summary.id, "not now").unwrap();
    home.propose_by("operator", "pdf-forms", &worse).unwrap();
    let same = skill_text("pdf-forms", FORMS, "");
    let error = home.propose_by("operator", "pdf-forms", &same).unwrap_err();
    assert!(error.to_string().starts_with("no_change"), "{error}");
}
