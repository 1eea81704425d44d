//! Tests of `propose_skill_update`: stored proposals, their events and their limits.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use skill_catalog::{Snapshot, Store, SystemClock};
use skill_ledger::{HumanActor, Ledger, ProposalFilter};
use skill_service::RegistryConfig;
use test_support::{Output, TestHome};

use crate::fixtures::{home, skill_md, start_kernel};

const GREET: &str = "sandbox/skills/greet/SKILL.md";

fn call_propose(home: &TestHome, arguments: &Value) -> Output {
    home.skillhost(["tool", "call", "propose_skill_update", &arguments.to_string(), "--json"])
}

fn greeting_change(body: &str) -> Value {
    let text = skill_md("Greets people. Use when somebody arrives.", body);
    json!({ "skill_id": "greet", "new_content": text, "justification": "It is warmer." })
}

/// Opens the ledger and a snapshot as a person at another terminal does.
fn open_ledger(home: &TestHome) -> (Ledger, Arc<Snapshot>) {
    let clock = Arc::new(SystemClock);
    let options = RegistryConfig::default().options(&home.root(), None);
    let store = Store::open(options, Arc::<SystemClock>::clone(&clock)).unwrap();
    (Ledger::new(home.path("sandbox/data/skill_registry"), clock), store.snapshot())
}

fn operator() -> HumanActor {
    HumanActor { name: "ada".to_owned(), via: "cli".to_owned() }
}

fn proposal_files(home: &TestHome) -> Vec<String> {
    let dir = home.path("sandbox/data/skill_registry/proposals");
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut texts: Vec<_> =
        entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    texts.sort();
    texts
}

#[test]
fn proposal_does_not_change_skill() {
    let home = home();
    let before = fs::read(home.path(GREET)).unwrap();
    let listed = home.skillhost(["tool", "call", "list_skills"]).success();
    let diff = "@@ -4 +4 @@\n-Say hello to them.\n+Say hello to them, by name.\n";
    let answer = call_propose(
        &home,
        &json!({
            "skill_id": "greet",
            "diff": diff,
            "justification": "People like their names.",
            "evidence": ["run 1: ignored", "run 2: smiled"],
        }),
    );
    let answer = answer.success().json();
    let made = &answer["structured"];
    let seen = ["number", "state", "merged", "count", "skill_id", "path", "added", "removed"];
    let seen: Vec<_> = seen.iter().map(|key| &made[*key]).collect();
    assert_eq!(json!(seen), json!([1, "open", false, 1, "greet", "SKILL.md", 1, 1]));
    let id = made["proposal"].as_str().unwrap();
    let text = answer["text"].as_str().unwrap();
    let expected = format!(
        "Proposal 1 ({id}) is recorded: SKILL.md of `greet`, 1 lines added, 1 removed. Nothing is \
         changed: a person decides. Continue with the skill as it is."
    );
    assert!(text.starts_with(&expected), "{text}");

    let [file] = &proposal_files(&home)[..] else { panic!("one file") };
    for part in [id, "## Diff", "+Say hello to them, by name.", "## Justification"] {
        assert!(file.contains(part), "{file}");
    }
    for part in ["People like their names.", "## Evidence", "run 2: smiled"] {
        assert!(file.contains(part), "{file}");
    }
    assert_eq!(fs::read(home.path(GREET)).unwrap(), before);
    assert_eq!(home.skillhost(["tool", "call", "list_skills"]).success(), listed);
}

#[test]
fn repeated_proposal_is_counted() {
    let home = home();
    call_propose(&home, &greeting_change("Say hi.")).success();
    let second = call_propose(&home, &greeting_change("Say hi.")).success().json();
    assert_eq!(second["structured"]["merged"], true);
    assert_eq!(second["structured"]["count"], 2);
    let text = second["text"].as_str().unwrap();
    assert!(text.starts_with("The same proposal was made before: number 1 ("), "{text}");
    assert_eq!(proposal_files(&home).len(), 1);
    let other = call_propose(&home, &greeting_change("Say hey.")).success().json();
    assert_eq!(other["structured"]["merged"], false);
    assert_eq!(proposal_files(&home).len(), 2);
}

#[test]
fn new_skill_proposal_has_full_text() {
    let home = home();
    let text = "---\nname: tea\ndescription: Brews tea. Use when thirsty.\n---\nBoil water.\n";
    let new = json!({ "skill_id": "tea", "new_content": text, "justification": "They asked." });
    let made = call_propose(&home, &new).success().json();
    assert_eq!(made["structured"]["base_digest"], Value::Null);
    assert_eq!(made["structured"]["flags"], json!([{ "flag": "new_skill" }]));
    assert!(!home.path("sandbox/skills/tea").exists());
}

#[test]
fn proposal_errors_help_the_model() {
    let home = home();
    let rejection = |change: Value| {
        let mut arguments = json!({ "skill_id": "greet", "justification": "Better." });
        arguments.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let output = call_propose(&home, &arguments);
        let error: Value = serde_json::from_str(output.stderr.trim()).unwrap();
        let error = &error["error"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!(
            "{}: {}\nhint: {}",
            text(&error["kind"]),
            text(&error["message"]),
            text(&error["hints"][0])
        )
    };
    let mismatch = "@@ -3,2 +3,2 @@\n ---\n-Say hello to her.\n+Say hi.\n";
    insta::assert_snapshot!(rejection(json!({ "diff": mismatch })), @"
    conflict: the diff does not apply to SKILL.md: hunk 1 does not apply: at line 4 the diff has `Say hello to her.`, the file has `Say hello to them.`
    hint: read the file again and make the diff against its current text, or give new_content
    ");
    insta::assert_snapshot!(rejection(json!({ "skill_id": "gret", "diff": mismatch })), @"
    not_found: skill `gret` not found
    hint: did you mean `greet`?
    ");
    insta::assert_snapshot!(rejection(json!({ "path": "../../../escape.md", "new_content": "x" })), @"
    denied: a path cannot have a component `.` or `..`
    hint: give the path as read_skill lists it, relative to the skill's directory
    ");
    insta::assert_snapshot!(rejection(json!({ "skill_id": "../greet", "new_content": "x" })), @"
    not_found: skill `../greet` not found
    hint: did you mean `greet`?
    ");
    insta::assert_snapshot!(rejection(json!({ "new_content": "no frontmatter" })), @"
    invalid_argument: the new SKILL.md is not valid: 1:1: error[frontmatter.missing]: the file does not start with `---`
    hint: start the file with a line `---`, then `name:` and `description:`, then a line `---`
    ");
    insta::assert_snapshot!(rejection(json!({})), @"
    invalid_argument: the request has neither diff nor new_content
    hint: give the change as a unified diff, or the whole new text as new_content
    ");
    insta::assert_snapshot!(rejection(json!({ "new_content": "x", "justification": " " })), @"
    invalid_argument: the justification is empty
    hint: give the reason for the change: the decision is based on it
    ");
    insta::assert_snapshot!(rejection(json!({ "new_content": "x", "approve": true })), @"
    invalid_argument: arguments of `propose_skill_update` are not valid: unknown field `approve`
    hint: see the tool's input schema: skillhost tool list --json
    ");
    assert_eq!(proposal_files(&home), Vec::<String>::new());
}

#[test]
fn run_prints_proposal_events() {
    let home = home();
    let kernel = start_kernel(&home);
    let made = call_propose(&home, &greeting_change("Say hi.")).success().json();
    let id = made["structured"]["proposal"].as_str().unwrap().to_owned();
    let created = kernel.line_with("skill.proposal.created greet");
    assert!(created.contains(&format!("proposal={id}")), "{created}");

    // The approval comes from another process.
    let (ledger, snapshot) = open_ledger(&home);
    let proposal = ledger.proposal(&id).unwrap();
    ledger.approve(&snapshot, &operator(), &id, proposal.summary.new_digest, None).unwrap();
    let mut lines = Vec::new();
    for topic in ["skill.proposal.approved", "skill.proposal.applied"] {
        lines.push(kernel.line_with(topic).replace(&id, "[ID]"));
    }
    insta::assert_snapshot!(lines.join("\n"), @"
    skill_registry skill.proposal.approved greet by=ada new_digest=9ca34c072f52 path=SKILL.md proposal=[ID]
    skill_registry skill.proposal.applied greet by=ada new_digest=9ca34c072f52 path=SKILL.md proposal=[ID] version=2
    ");
    let text = fs::read_to_string(home.path(GREET)).unwrap();
    assert_eq!(text, greeting_change("Say hi.")["new_content"].as_str().unwrap());

    // A manual edit is a version of its own and makes the proposal stale.
    let made = call_propose(&home, &greeting_change("Say good day.")).success().json();
    kernel.line_with("skill.proposal.created greet");
    home.write(GREET, skill_md("Greets people. Use when somebody arrives.", "Wave."));
    let version = kernel.line_with("skill.version.created greet author=external");
    assert!(version.contains("version=3"), "{version}");
    let stale = kernel.line_with("skill.proposal.stale greet");
    assert!(stale.contains(made["structured"]["proposal"].as_str().unwrap()), "{stale}");
    kernel.interrupt().success();
}

#[test]
fn skill_reads_are_counted() {
    let home = home().file("sandbox/skills/greet/notes.txt", "Ada\n");
    let read = || {
        home.skillhost(["tool", "call", "read_skill", r#"{"skill_id":"greet"}"#]).success();
        let page = r#"{"skill_id":"greet","path":"notes.txt"}"#;
        home.skillhost(["tool", "call", "read_skill_resource", page]).success();
    };
    let counted = || {
        let stats = open_ledger(&home).0.stats(None).unwrap();
        stats.into_iter().map(|one| (one.skill_id, one.reads, one.resource_reads)).collect()
    };
    read();
    let first_counts: Vec<_> = counted();
    assert_eq!(first_counts, [("greet".to_owned(), 1, 1)]);
    let kernel = start_kernel(&home);
    read();
    home.skillhost(["tool", "call", "read_skill", r#"{"skill_id":"nobody"}"#]).exits(3);
    kernel.interrupt().success();
    let second_counts: Vec<_> = counted();
    assert_eq!(second_counts, [("greet".to_owned(), 2, 2)]);
}

#[test]
fn unusable_ledger_stops_only_proposals() {
    let home = home();
    // A directory in place of the database makes the ledger unusable.
    home.write("sandbox/data/skill_registry/registry.sqlite3/x", "");
    let kernel = start_kernel(&home);
    let output = call_propose(&home, &greeting_change("Say hi."));
    assert_eq!(output.status, 5, "{output}");
    home.skillhost(["tool", "call", "read_skill", r#"{"skill_id":"greet"}"#]).success();
    let output = kernel.interrupt().success();
    assert!(output.stderr.contains("the ledger cannot be used"), "{output}");
    let doctor = home.skillhost(["ext", "doctor"]);
    assert!(doctor.stdout.contains("skill_registry"), "{doctor}");
    assert!(open_ledger(&home).0.proposals(ProposalFilter::default()).is_err());
}

#[test]
fn operator_proposals_name_the_operator() {
    let home = home();
    call_propose(&home, &greeting_change("Say hello warmly.")).success();
    let listed = home.skillhost(["skill", "proposals"]).success();
    assert!(listed.stdout.contains(" the operator It is warmer."), "{listed}");
    let review = home.skillhost(["skill", "review", "1"]).success();
    assert!(review.stdout.contains(" by the operator"), "{review}");
}
