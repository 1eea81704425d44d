//! Edits of the skills in `tests/fixtures/evals` through the whole check: routing and leaks when they
//! are proposed, runs with a noisy scripted model, the approval of a person without a reason.
//!
//! The model stands for the effect of an edit: each case has a rate at which it passes, and the text of
//! the skill that the model reads decides whether the rate is raised or lowered.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skill_catalog::{SkillRoot, Store, StoreOptions, SystemClock, TrustLevel};
use skill_ledger::{
    HumanActor, Ledger, LedgerErrorKind, ModelCheckMode, ProposeOutcome, ProposeRequest,
};
use skill_testing::AcceptanceCheck;
use test_support::TestHome;

use crate::fixtures::{agent_manifest, repository_root, shipped_manifest};
use crate::proposals::test_author;

const SETTINGS: &str =
    "models:\n  default: m/m\n  providers:\n    m: {wire: script, script: model.yaml}\n";

/// The visible and the held-out cases.
const CASES: (usize, usize) = (12, 8);

/// The change of the rates by an edit that matters.
const EFFECT: f64 = 0.18;

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

/// The changes of the rates of visible and of held-out cases.
type RateChange = (f64, f64);

/// The end of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
enum EditEnd {
    /// It was not filed, because of routing, a copied case, or a rule.
    Refused,
    /// It was tested; the verdict, and whether a person can approve it without a reason.
    Tested { verdict: String, is_approved: bool },
}

fn fixtures() -> PathBuf {
    repository_root().join("tests/fixtures/evals")
}

fn read_edits() -> FixtureEdits {
    serde_yaml::from_str(&fs::read_to_string(fixtures().join("proposals.yaml")).unwrap()).unwrap()
}

fn read_skill(id: &str) -> String {
    fs::read_to_string(fixtures().join("skills").join(id).join("SKILL.md")).unwrap()
}

/// The change of rates that an edit of a kind stands for.
fn effect_of(kind: &str) -> RateChange {
    match kind {
        "clearer_step" | "new_gotcha" | "better_description" | "example" | "correction" => {
            (EFFECT, EFFECT)
        }
        // It fits the assertions that its author could read.
        "reward_hack" => (EFFECT, -EFFECT),
        _ => (-EFFECT, -EFFECT),
    }
}

fn open_checked(home: &TestHome) -> (Ledger, Store) {
    let path = home.path("sandbox/skills");
    let root = SkillRoot { label: "sandbox".to_owned(), path, trust: TrustLevel::Operator };
    let options = StoreOptions { roots: vec![root], ..StoreOptions::default() };
    let data = home.path("sandbox/data/skill_registry");
    let check = AcceptanceCheck::new(options.clone(), data.clone(), true, ModelCheckMode::WhenRun);
    let ledger = Ledger::new(data, Arc::new(SystemClock)).set_check(Arc::new(check));
    (ledger, Store::open(options, Arc::new(SystemClock)).unwrap())
}

/// Creates a home with all skills of the fixtures and all their cases.
fn home_of_all() -> TestHome {
    let home = TestHome::new();
    for entry in fs::read_dir(fixtures().join("skills")).unwrap() {
        let id = entry.unwrap().file_name().into_string().unwrap();
        home.write(format!("sandbox/skills/{id}/SKILL.md"), read_skill(&id));
        for name in ["triggers.json", "evals.json"] {
            let own = fs::read(fixtures().join("skills").join(&id).join("evals").join(name));
            home.write(format!("sandbox/skills/{id}/evals/{name}"), own.unwrap());
            let held_out = fs::read(fixtures().join("held-out").join(&id).join(name)).unwrap();
            home.write(format!("sandbox/data/skill_registry/evals/{id}/{name}"), held_out);
        }
    }
    home
}

fn propose(
    (ledger, store): &(Ledger, Store),
    id: &str,
    text: &str,
) -> Result<ProposeOutcome, LedgerErrorKind> {
    let request = ProposeRequest {
        skill_id: id.to_owned(),
        new_content: Some(text.to_owned()),
        justification: "It works better.".to_owned(),
        ..ProposeRequest::default()
    };
    ledger.propose(&store.snapshot(), &test_author(), &request).map_err(|error| error.reason())
}

/// Writes the rules of a model whose passes depend on the text that it reads. The result of
/// `read_skill` has the digest of the SKILL.md, which differs wherever the versions differ.
fn write_model(id: &str, new: &str, change: RateChange, seed: usize) -> String {
    let digest: String = Sha256::digest(new).iter().map(|byte| format!("{byte:02x}")).collect();
    let seen = format!("answer: ['{digest}']");
    let mut rules = format!(
        "seed: {seed}\nrules:\n  - {{when: {{turn: 0}}, call: {{tool: read_skill, arguments: {{skill_id: {id}}}}}}}\n"
    );
    let all = CASES.0 + CASES.1;
    for case in 0..all {
        // From .35 to .95, .65 on average; neighbors are far apart.
        let rate = 0.35 + 0.6 * ((case * 7 % all) as f64) / (all - 1) as f64;
        let gain = if case < CASES.0 { change.0 } else { change.1 };
        let changed = (rate + gain).clamp(0.0, 1.0);
        let when = format!("user: case{case:02}, answered: read_skill");
        let _ = write!(
            rules,
            "  - {{when: {{{when}, {seen}}}, chance: {changed:.3}, say: well done}}
  - {{when: {{{when}, {seen}}}, say: not so}}
  - {{when: {{{when}}}, chance: {rate:.3}, say: well done}}
"
        );
    }
    rules + "  - say: not so\n"
}

/// Creates the home of one skill with prompts for the model.
fn home_of_model(id: &str, model: &str) -> TestHome {
    let prompts = |numbers: std::ops::Range<usize>| {
        let case = |number: usize| {
            json!({"id": number, "prompt": format!("Do the work of case{number:02}."),
                "assertions": [{"type": "contains", "value": "done"}]})
        };
        json!({"evals": numbers.map(case).collect::<Vec<Value>>()}).to_string()
    };
    let agent = "  instructions: You work.\n  uses_tools: [skill_registry]\n";
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("orchestrator_agent", &agent_manifest("orchestrator_agent", agent))
        .skill(id, &read_skill(id))
        .file(format!("sandbox/skills/{id}/evals/evals.json"), prompts(0..CASES.0))
        .file(
            format!("sandbox/data/skill_registry/evals/{id}/evals.json"),
            prompts(CASES.0..CASES.0 + CASES.1),
        )
        .file("model.yaml", model)
        .settings(SETTINGS)
        .trusted()
}

/// Runs an edit through the check.
fn check_edit(
    all: &(Ledger, Store),
    edit: &FixtureEdit,
    change: RateChange,
    seed: usize,
) -> EditEnd {
    let base = read_skill(&edit.skill);
    let new = base.replace(&edit.find, &edit.replace);
    match propose(all, &edit.skill, &new) {
        Ok(_) => {}
        Err(LedgerErrorKind::Refused | LedgerErrorKind::Invalid) => return EditEnd::Refused,
        Err(other) => panic!("{}: {other:?}", edit.find),
    }
    let home = home_of_model(&edit.skill, &write_model(&edit.skill, &new, change, seed));
    let opened = open_checked(&home);
    let proposal = propose(&opened, &edit.skill, &new).unwrap().proposal.id;
    let against = format!("proposal:{proposal}");
    let args = ["skill", "test", &edit.skill, "--model", "m/m", "--against", &against, "--json"];
    let report = home.skillhost(args).json();
    let tested = &report["models"][0];
    let notes = tested["notes"].to_string();
    assert!(notes.contains("recorded for the review"), "{notes}");
    let (ledger, store) = &opened;
    let digest = ledger.proposal(&proposal).unwrap().summary.review_digest();
    let person = HumanActor { name: "ada".to_owned(), via: "cli".to_owned() };
    let done = ledger.approve(&store.snapshot(), &person, &proposal, digest, None);
    EditEnd::Tested {
        verdict: tested["comparison"]["verdict"].as_str().unwrap().to_owned(),
        is_approved: done.is_ok(),
    }
}

fn approved(ends: &[EditEnd]) -> usize {
    let is_approved = |end: &&EditEnd| matches!(end, EditEnd::Tested { is_approved: true, .. });
    ends.iter().filter(is_approved).count()
}

fn count(ends: &[EditEnd], wanted: &str) -> usize {
    let is_wanted = |end: &&EditEnd| match end {
        EditEnd::Refused => wanted == "refused",
        EditEnd::Tested { verdict, .. } => verdict == wanted,
    };
    ends.iter().filter(is_wanted).count()
}

/// Returns an edit with the effect of its kind.
fn with_effect(edit: &FixtureEdit) -> (&FixtureEdit, RateChange) {
    (edit, effect_of(&edit.kind))
}

/// Checks edits on both processors.
fn check_edits<'a>(edits: impl Iterator<Item = (&'a FixtureEdit, RateChange)>) -> Vec<EditEnd> {
    let edits: Vec<_> = edits.collect();
    let (next, ends) = (Mutex::new(0), Mutex::new(vec![EditEnd::Refused; edits.len()]));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                // Proposals for the same text merge, so that each thread has a ledger of its own.
                let home = home_of_all();
                let all = open_checked(&home);
                loop {
                    let index = {
                        let mut next = next.lock().unwrap();
                        *next += 1;
                        *next - 1
                    };
                    let Some((edit, change)) = edits.get(index) else { break };
                    let end = check_edit(&all, edit, *change, index);
                    // The limit of waiting proposals is not what is tested.
                    let (ledger, _) = &all;
                    let person = HumanActor { name: "ada".to_owned(), via: "cli".to_owned() };
                    for waiting in ledger.proposals(Default::default()).unwrap() {
                        ledger.reject(&person, &waiting.id, "tested elsewhere").unwrap();
                    }
                    ends.lock().unwrap()[index] = end;
                }
            });
        }
    });
    ends.into_inner().unwrap()
}

/// Writes the figures into the file that a variable names.
fn write_figures(groups: &[(&str, &[EditEnd])]) {
    let Some(path) = std::env::var_os("SKILLHOST_FIGURES") else { return };
    let mut text = String::new();
    for (name, ends) in groups {
        let verdicts = ["refused", "blocked", "unclear", "not_lower", "better", "thin"];
        let counts = verdicts.map(|verdict| format!("{verdict} {}", count(ends, verdict)));
        let (done, all, counts) = (approved(ends), ends.len(), counts.join(", "));
        let _ = writeln!(text, "{name}: approved {done} of {all}: {counts}");
        let _ = writeln!(text, "  {ends:?}");
    }
    fs::write(path, text).unwrap();
}

#[test]
fn effects_of_edits_are_found() {
    let edits = read_edits();
    let find = |edits: &'_ [FixtureEdit], kind: &str| {
        edits.iter().position(|edit| edit.kind == kind).unwrap()
    };
    let good = &edits.good[find(&edits.good, "new_gotcha")];
    let flipped = &edits.bad[find(&edits.bad, "flip_step")];
    let stolen = &edits.bad[find(&edits.bad, "steal_trigger")];
    let ends = check_edits([good, flipped, stolen].into_iter().map(with_effect));
    assert_eq!(approved(&ends[..1]), 1, "{ends:?}");
    assert_eq!(count(&ends[1..2], "blocked"), 1, "{ends:?}");
    assert_eq!(count(&ends[2..], "refused"), 1, "{ends:?}");
}

#[test]
#[ignore = "takes almost an hour"]
fn two_hundred_edits_have_stated_rates() {
    let edits = read_edits();
    let good = check_edits(edits.good.iter().map(with_effect));
    let bad = check_edits(edits.bad.iter().map(with_effect));
    let unchanged = check_edits(edits.good.iter().map(|edit| (edit, (0.0, 0.0))));
    write_figures(&[("good", &good), ("bad", &bad), ("unchanged", &unchanged)]);
    assert!(approved(&good) >= 90, "{}", approved(&good));
    assert!(approved(&bad) <= 2, "{}", approved(&bad));
    assert!(count(&unchanged, "blocked") <= 5, "{}", count(&unchanged, "blocked"));
    assert!(count(&unchanged, "better") <= 2, "{}", count(&unchanged, "better"));
}
