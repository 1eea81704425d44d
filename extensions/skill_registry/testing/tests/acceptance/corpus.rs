//! The check of proposals with the skills and edits of `tests/fixtures/evals`: every unchanged,
//! cosmetic, copied and repeated edit is named as such, and changed inputs are never fresh.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use skill_ledger::{HumanActor, LedgerErrorKind};
use skill_testing::{
    AgentViews, RoutingHarness, RoutingSetup, SkillCases, load_cases, load_held_out, open_held_out,
    test_all_routing,
};

use crate::home::{FORMS, TestHome, home_with_forms, skill_text};

/// An edit of a skill of the fixtures.
#[derive(Deserialize)]
struct FixtureEdit {
    skill: String,
    kind: String,
    find: String,
    replace: String,
}

#[derive(Deserialize)]
struct FixtureEdits {
    good: Vec<FixtureEdit>,
    bad: Vec<FixtureEdit>,
}

/// Keeps the files of the distractors, which are otherwise written for each home.
fn keep_distractors() -> RoutingHarness {
    RoutingHarness::open(RoutingSetup::default()).unwrap()
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/evals")
}

fn read_edits() -> FixtureEdits {
    let text = fs::read_to_string(fixtures().join("proposals.yaml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

fn read_skill(id: &str) -> String {
    fs::read_to_string(fixtures().join("skills").join(id).join("SKILL.md")).unwrap()
}

fn skill_ids() -> Vec<String> {
    let entries = fs::read_dir(fixtures().join("skills")).unwrap();
    let mut ids: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    ids.sort();
    ids
}

fn apply_edit(edit: &FixtureEdit) -> String {
    let text = read_skill(&edit.skill);
    assert_eq!(text.matches(&edit.find).count(), 1, "{}: {}", edit.skill, edit.find);
    text.replace(&edit.find, &edit.replace)
}

/// Creates a home with one skill of the fixtures, its cases and its held-out cases.
fn home_of_skill(id: &str) -> TestHome {
    let home = TestHome::new();
    add_skill(&home, id);
    home
}

/// Creates a home with all skills of the fixtures and their cases.
fn home_of_all() -> TestHome {
    let home = TestHome::new();
    skill_ids().iter().for_each(|id| add_skill(&home, id));
    home
}

fn add_skill(home: &TestHome, id: &str) {
    let copy = |from: PathBuf, to: &str| {
        if let Ok(text) = fs::read_to_string(&from) {
            home.write(to, &text);
        }
    };
    home.write(&format!("skills/{id}/SKILL.md"), &read_skill(id));
    for name in ["triggers.json", "evals.json"] {
        let file = format!("skills/{id}/evals/{name}");
        copy(fixtures().join(&file), &file);
        copy(fixtures().join("held-out").join(id).join(name), &format!("data/evals/{id}/{name}"));
    }
}

/// Returns the strings in a field of the cases of a file.
fn case_texts(path: &Path, field: &str) -> Vec<String> {
    let Ok(text) = fs::read_to_string(path) else { return Vec::new() };
    let value: serde_yaml::Value = serde_yaml::from_str(&text).unwrap();
    let cases = value.get("evals").unwrap_or(&value).as_sequence().unwrap().clone();
    let texts = cases.iter().filter_map(|case| case.get(field)?.as_str().map(str::to_owned));
    // Shorter ones are no leak: six words in a row are required.
    texts.filter(|text| text.split_whitespace().count() >= 6).collect()
}

/// Runs a function for at least `count` texts of the fixtures: the original ones, then those with an
/// edit each. The function is given the home of the skill with this text, and the number.
fn for_texts(count: usize, mut check: impl FnMut(&TestHome, &str, &str, usize)) {
    let _shared = keep_distractors();
    let edits = read_edits();
    let edited = edits.good.iter().map(|edit| (edit.skill.clone(), apply_edit(edit)));
    let texts: Vec<(String, String)> =
        skill_ids().into_iter().map(|id| (id.clone(), read_skill(&id))).chain(edited).collect();
    let wanted = texts.iter().cycle().take(count);
    for (number, (id, text)) in wanted.enumerate() {
        let home = home_of_skill(id);
        home.write(&format!("skills/{id}/SKILL.md"), text);
        check(&home, id, text, number);
    }
}

#[test]
fn edits_fit_their_skills() {
    let edits = read_edits();
    assert_eq!(edits.good.len(), edits.bad.len());
    for edit in edits.good.iter().chain(&edits.bad) {
        assert_ne!(apply_edit(edit), read_skill(&edit.skill), "{}: {}", edit.kind, edit.find);
    }
}

#[test]
fn all_queries_of_fixtures_pass() {
    let home = home_of_all();
    let options = home.options();
    let setup = RoutingSetup { options, ..RoutingSetup::default() };
    let harness = RoutingHarness::open(setup).unwrap();
    let cases: Vec<SkillCases> = skill_ids()
        .iter()
        .map(|id| {
            let skill = harness.snapshot().get(id).unwrap().open_directory().unwrap();
            let mut cases = load_cases(&skill, id, 0);
            load_held_out(&mut cases, &open_held_out(&home.path("data"), id).unwrap());
            cases
        })
        .collect();
    let cases: Vec<&SkillCases> = cases.iter().collect();
    for report in test_all_routing(&harness, &cases, &AgentViews::default()) {
        let failed: Vec<_> = report.results.iter().filter(|it| it.failure.is_some()).collect();
        assert!(failed.is_empty(), "{}: {failed:?}", report.skill_id);
        assert_eq!(report.results.len(), 28, "{}", report.skill_id);
    }
}

/// The edits that the check refuses without a model; the others change what a model does.
#[test]
fn stealing_edits_are_refused() {
    let home = home_of_all();
    let _shared = keep_distractors();
    for edit in read_edits().bad.iter().filter(|edit| edit.kind == "steal_trigger") {
        let refused = home.refused(&edit.skill, &apply_edit(edit));
        assert!(refused.starts_with("routing: "), "{}: {refused}", edit.skill);
    }
}

#[test]
fn identical_edits_are_named() {
    for_texts(50, |home, id, text, _| {
        assert_eq!(home.refused(id, text), "no_change: SKILL.md already has exactly this text");
    });
}

#[test]
fn cosmetic_edits_are_named() {
    let mut kinds = [0; 5];
    for_texts(50, |home, id, text, number| {
        let kind = number % kinds.len();
        kinds[kind] += 1;
        let (head, body) = text.split_at(text.find("\n---\n").unwrap() + 5);
        let edited = match kind {
            0 => format!("{text}\n\n"),
            1 => format!("{head}{}", body.replace("\n\n", "\n\n\n")),
            2 => format!("{head}{}", body.replace(". ", ".  ")),
            // A wrapped line where another one was.
            3 => format!("{head}{}", body.replacen(". ", ".\n", 1)),
            _ => format!("{head}{}", body.replace("\n## ", "\n\n## ")),
        };
        assert_ne!(edited, text);
        let refused = home.refused(id, &edited);
        assert_eq!(refused, "cosmetic: only white space or the form differs", "{id}, {kind}");
    });
    assert!(kinds.iter().all(|count| *count >= 10), "{kinds:?}");
}

#[test]
fn copied_cases_are_named() {
    let _shared = keep_distractors();
    let (mut shown, mut counted) = (0, 0);
    let ids = skill_ids();
    // At least 60 in total.
    let wanted = 60_usize.div_ceil(ids.len() * 4);
    for id in ids {
        let own = fixtures().join("skills").join(&id).join("evals");
        let held_out = fixtures().join("held-out").join(&id);
        let mut copied = Vec::new();
        for (directory, is_private) in [(&own, false), (&held_out, true)] {
            let queries = case_texts(&directory.join("triggers.json"), "query");
            let prompts = case_texts(&directory.join("evals.json"), "prompt");
            copied.extend(queries.into_iter().take(wanted).map(|text| (text, is_private)));
            copied.extend(prompts.into_iter().take(wanted).map(|text| (text, is_private)));
        }
        let home = home_of_skill(&id);
        for (number, (text, is_private)) in copied.iter().enumerate() {
            let added = match number % 3 {
                0 => format!("\nExample: {text}\n"),
                1 => format!("\n- \"{}\" is typical.\n", text.to_uppercase()),
                _ => format!("\nPeople ask:\n> {}\n", text.replace(' ', "\n> ")),
            };
            let refused = home.refused(&id, &format!("{}{added}", read_skill(&id)));
            assert!(refused.starts_with("leak: the text has words of cases: "), "{refused}");
            if *is_private {
                assert!(refused.contains("held-out case") && !refused.contains(text.as_str()));
                counted += 1;
            } else {
                assert!(refused.contains(&format!("{id}/")), "{refused}");
                shown += 1;
            }
        }
    }
    assert!(shown + counted >= 60 && counted >= 10, "{shown} and {counted}");
}

#[test]
fn repeated_edits_are_named() {
    let person = HumanActor { name: "ada".to_owned(), via: "cli".to_owned() };
    let _shared = keep_distractors();
    let mut named = 0;
    // A correction of a few words has no passage that could be compared.
    let edits = read_edits().good;
    for edit in edits.iter().filter(|edit| edit.kind != "correction").take(25) {
        let (id, home) = (&edit.skill, home_of_skill(&edit.skill));
        let text = apply_edit(edit);
        let proposal = home.propose(id, &text).unwrap();
        home.ledger().reject(&person, &proposal.summary.id, "not needed here").unwrap();
        // The same text, and the same words in another notation.
        let noisy = text.replace(&edit.replace, &edit.replace.replace(", ", " , "));
        for again in [text, noisy] {
            let refused = home.refused(id, &again);
            let start = format!("repeated: proposal {}", proposal.summary.id);
            assert!(refused.starts_with(&start), "{id}, {}: {refused}", edit.kind);
            assert!(refused.ends_with(": not needed here"), "{refused}");
            named += 1;
        }
    }
    assert_eq!(named, 50);
}

#[test]
fn changed_inputs_are_never_fresh() {
    let _shared = keep_distractors();
    // More of them with SKILLHOST_LONG_TESTS: each one is a check of all queries.
    let count = if std::env::var_os("SKILLHOST_LONG_TESTS").is_some() { 500 } else { 25 };
    let query = |text: &str| format!("[{{\"query\": \"{text}\", \"should_trigger\": true}}]");
    for number in 0..count {
        let home = home_with_forms();
        home.skill("tax-notes", "Lists the duties of importers.", &["duties of importers"]);
        let added = format!("\nAsk whether form {number} is meant.\n");
        let proposal = home.propose("pdf-forms", &skill_text("pdf-forms", FORMS, &added)).unwrap();
        let expected = match number % 5 {
            0 => {
                let text = query(&format!("complete form {number}"));
                home.write("skills/pdf-forms/evals/triggers.json", &text);
                "evidence is stale: cases changed"
            }
            1 => {
                let text = query(&format!("complete the form {number}"));
                home.write("data/evals/pdf-forms/triggers.json", &text);
                "evidence is stale: cases changed"
            }
            2 => {
                let text = format!("{{\"evals\": [{{\"id\": {number}, \"prompt\": \"x\"}}]}}");
                home.write("skills/tax-notes/evals/evals.json", &text);
                "evidence is stale: cases changed"
            }
            3 => {
                let file = "skills/pdf-forms/SKILL.md";
                let text = skill_text("pdf-forms", FORMS, &format!("\nEdited {number}.\n"));
                home.write(file, &text);
                "has changed since the proposal was made"
            }
            _ => {
                // Another skill loses its own query, so that the result of the check differs.
                let text = skill_text("tax-notes", &format!("Number {number}."), "");
                home.write("skills/tax-notes/SKILL.md", &text);
                "evidence is stale: other skills changed"
            }
        };
        let error = home.approve(&proposal, None).unwrap_err();
        assert_eq!(error.reason(), LedgerErrorKind::Stale, "{number}: {error}");
        assert!(error.to_string().contains(expected), "{number}: {error}");
    }
}
