//! `skillhost skill proposal list|approve|reject|rebase|history|diff|rollback|audit-log|stats`.

use std::fs;
use std::sync::Arc;

use serde_json::Value;
use skill_catalog::{AgentAuthor, Store, SystemClock};
use skill_ledger::{Ledger, LedgerError, ProposeOutcome, ProposeRequest};
use skill_service::RegistryConfig;
use test_support::{Output, TestHome};

pub(crate) const BEADS: &str = "---\nname: beads\ndescription: Tracks work. Use when asked.\n---\none\ntwo\nthree\nfour\nfive\n";

/// Returns the text of `beads` with another third line.
pub(crate) fn beads_with(line: &str) -> String {
    BEADS.replace("three", line)
}

pub(crate) fn beads_home() -> TestHome {
    TestHome::new().trusted().skill("beads", BEADS)
}

pub(crate) fn beads_text(home: &TestHome) -> String {
    fs::read_to_string(home.path("sandbox/skills/beads/SKILL.md")).unwrap()
}

/// Opens the home's ledger as an agent's tool does.
fn open_ledger(home: &TestHome) -> (Ledger, Store) {
    let store =
        Store::open(RegistryConfig::default().options(&home.root(), None), Arc::new(SystemClock));
    let ledger = Ledger::new(home.path("sandbox/data/skill_registry"), Arc::new(SystemClock));
    (ledger, store.unwrap())
}

pub(crate) fn test_author() -> AgentAuthor {
    AgentAuthor { agent_id: "gardener".into(), origin: "agent".into(), ..AgentAuthor::default() }
}

pub(crate) fn propose_request(
    home: &TestHome,
    request: &ProposeRequest,
) -> Result<ProposeOutcome, LedgerError> {
    let (ledger, store) = open_ledger(home);
    ledger.propose(&store.snapshot(), &test_author(), request)
}

/// Proposes another text for `beads` as an agent and returns the proposal's id.
pub(crate) fn propose_text(home: &TestHome, text: &str, justification: &str) -> String {
    let request = ProposeRequest {
        skill_id: "beads".into(),
        new_content: Some(text.into()),
        justification: justification.into(),
        ..ProposeRequest::default()
    };
    propose_request(home, &request).unwrap().proposal.id
}

pub(crate) fn run_skill(home: &TestHome, args: &[&str]) -> Output {
    home.skillhost([&["skill"], args].concat())
}

pub(crate) fn skill_json(home: &TestHome, args: &[&str]) -> Value {
    let value = run_skill(home, &[args, &["--json"]].concat()).success().json();
    assert_eq!(value["schema_version"], 1, "{value}");
    value
}

pub(crate) fn proposal_digest(home: &TestHome, id: &str) -> String {
    let reviewed = skill_json(home, &["review", id]);
    reviewed["proposals"][0]["new_digest"].as_str().unwrap().to_owned()
}

/// Approves a proposal with its digest, as a script does.
fn approve_proposal(home: &TestHome, id: &str) -> Output {
    let digest = proposal_digest(home, id);
    run_skill(home, &["approve", id, "--yes", "--digest", &digest[..12]])
}

/// Removes ids, times, digests and users from snapshots until the guard is dropped.
fn bind_filters() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b", "[ID]");
    settings.add_filter(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d\.\d{3}Z)?", "[TIME]");
    settings.add_filter(r"\b[0-9a-f]{64}\b", "[DIGEST]");
    settings.add_filter(r"\b[0-9a-f]{12}\b", "[SHORT]");
    settings.add_filter(r"beads-\d{8}T[\d.]+Z(-\d+)?", "beads-[TIME]");
    settings.add_filter(&format!(r"\b{}\b", regex_escape(&user_name())), "[USER]");
    settings.bind_to_scope()
}

fn regex_escape(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_alphanumeric() { c.to_string() } else { format!(r"\{c}") })
        .collect()
}

fn user_name() -> String {
    let id = std::process::Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(id.stdout).unwrap().trim().to_owned()
}

#[test]
fn proposal_is_reviewed_approved_and_reverted() {
    let _filters = bind_filters();
    let home = beads_home();
    let id = propose_text(&home, &beads_with("THREE"), "Three was too small.\nSee below.");
    assert_eq!(beads_text(&home), BEADS);
    insta::assert_snapshot!(run_skill(&home, &["proposals"]), @"
    exit 0
    --- stdout
    # id                         state skill file     lines proposed (UTC)   by       justification
    1 [ID] open  beads SKILL.md +1 -1 [TIME] gardener Three was too small.
    ");
    insta::assert_snapshot!(run_skill(&home, &["review"]), @"
    exit 0
    --- stdout
    beads  SKILL.md
    proposal   [ID] (number 1)
    state      open
    proposed   [TIME] by agent `gardener`
    digest     [DIGEST]

    ── Diff  +1 -1
    @@ -4,6 +4,6 @@
     ---
     one
     two
    -three
    +THREE
     four
     five

    ── Justification (by the author)
    │ Three was too small.
    │ See below.

    ── Evidence (by the author)
    none

    ── Checks
    no rule finds more or less than before
    tokens 22 → 22 (+0)

    ── Base
    the file is what the proposal was made for
    file       [HOME]/sandbox/data/skill_registry/proposals/beads-[TIME].md
    ");
    let generation = home.path("sandbox/data/skill_registry/generation");
    assert!(!generation.exists());
    insta::assert_snapshot!(approve_proposal(&home, &id), @"
    exit 0
    --- stdout
    approved [ID]: SKILL.md of `beads` is written, version 2
    ");
    assert_eq!(beads_text(&home), beads_with("THREE"));
    assert!(generation.exists());
    insta::assert_snapshot!(run_skill(&home, &["proposals"]), @"
    exit 0
    --- stderr
    note: no proposals wait for a decision
    ");
    insta::assert_snapshot!(run_skill(&home, &["history", "beads"]), @"
    exit 0
    --- stdout
    version recorded (UTC)   digest       files bytes by                approved by reason
    1       [TIME] [SHORT] 1     86    (edited directly) -
    2       [TIME] [SHORT] 1     86    agent gardener    [USER]
    ");
    insta::assert_snapshot!(run_skill(&home, &["diff", "beads"]), @"
    exit 0
    --- stdout
    SKILL.md  changed
    @@ -4,6 +4,6 @@
     ---
     one
     two
    -three
    +THREE
     four
     five
    ");
    let versions = skill_json(&home, &["history", "beads"]);
    let first = versions["versions"][0]["tree"].as_str().unwrap();
    insta::assert_snapshot!(
        run_skill(&home, &["rollback", "beads", "--yes", "--digest", first, "--reason", "no"]), @"
    exit 0
    --- stdout
    `beads` is as in version 1; that is version 3
    ");
    assert_eq!(beads_text(&home), BEADS);
    let audit = skill_json(&home, &["audit-log"]);
    let count = |option: &str, value: &str| {
        let log = skill_json(&home, &["audit-log", option, value]);
        log["entries"].as_array().unwrap().len()
    };
    let all = audit["entries"].as_array().unwrap().len();
    assert_eq!((count("--after", "1"), count("--since", "1")), (all - 1, all - 1));
    assert_eq!((count("--since", "2000-02-28"), count("--since", "9000-01-01T00:00Z")), (all, 0));
    home.skillhost(["skill", "audit-log", "--since", "yesterday"]).exits(2);
    let actions: Vec<&str> = audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["action"].as_str().unwrap())
        .collect();
    insta::assert_snapshot!(actions.join(" "), @"proposal.created version.created proposal.approved version.created proposal.applied change.finished skill.rollback version.created change.finished");
    assert_eq!(audit["entries"][2]["by"], user_name());
    insta::assert_snapshot!(run_skill(&home, &["stats"]), @"
    exit 0
    --- stderr
    note: no skill was offered or read
    ");
}

#[test]
fn rebase_updates_stale_proposal() {
    let _filters = bind_filters();
    let home = beads_home();
    let id = propose_text(&home, &beads_with("THREE"), "Better.");
    let seen = proposal_digest(&home, &id);
    home.write("sandbox/skills/beads/SKILL.md", BEADS.replace("one", "ONE"));
    insta::assert_snapshot!(
        run_skill(&home, &["approve", &id, "--yes", "--digest", &seen]), @"
    exit 4
    --- stderr
    error: [HOME]/sandbox/skills/beads/SKILL.md has changed since the proposal was made
    hint: run `skillhost skill proposal rebase [ID]` to rebase it onto the current file
    ");
    assert_eq!(skill_json(&home, &["proposals"])["proposals"][0]["state"], "stale");
    insta::assert_snapshot!(run_skill(&home, &["rebase", &id]), @"
    exit 0
    --- stdout
    [ID] fits the file as it is now; its digest is [SHORT]
    ");
    // The rebased text differs from the one that was reviewed.
    insta::assert_snapshot!(
        run_skill(&home, &["approve", &id, "--yes", "--digest", &seen]), @"
    exit 4
    --- stderr
    error: the digest is sha256:[DIGEST], not sha256:[DIGEST]
    hint: look at it again with `skillhost skill proposal review [ID]`: it is not what you saw
    ");
    approve_proposal(&home, &id).success();
    assert_eq!(beads_text(&home), beads_with("THREE").replace("one", "ONE"));
}

#[test]
fn overlapping_changes_are_conflict() {
    let _filters = bind_filters();
    let home = beads_home();
    let id = propose_text(&home, &beads_with("THREE"), "Better.");
    home.write("sandbox/skills/beads/SKILL.md", beads_with("drei\u{1b}[2J"));
    insta::assert_snapshot!(run_skill(&home, &["rebase", &id]), @r"
    exit 4
    --- stdout
    SKILL.md:7
      now | drei\u{1b}[2J
      new | THREE
    --- stderr
    note: changed on both sides, in 1 place; nothing was done
    note: edit the file so that they agree, or reject the proposal
    ");
    let denied = run_skill(&home, &["rebase", &id, "--json"]).exits(4).json();
    assert_eq!(denied["conflicts"][0]["line"], 7);
    insta::assert_snapshot!(
        run_skill(&home, &["reject", &id, "--reason", "drei it is"]), @"
    exit 0
    --- stdout
    rejected [ID]: SKILL.md of `beads` stays as it is
    ");
    insta::assert_snapshot!(run_skill(&home, &["reject", &id, "--reason", "again"]), @"
    exit 4
    --- stderr
    error: proposal [ID] is rejected and cannot be rejected
    hint: an agent can propose it again
    ");
    assert_eq!(skill_json(&home, &["proposals"])["proposals"], serde_json::json!([]));
    assert_eq!(skill_json(&home, &["proposals", "--all"])["proposals"][0]["state"], "rejected");
}

#[test]
fn approval_without_terminal_requires_digest() {
    let _filters = bind_filters();
    let home = beads_home();
    let id = propose_text(&home, &beads_with("THREE"), "Better.");
    let digest = proposal_digest(&home, &id);
    let wrong = "0".repeat(64);
    for args in [
        &["approve", &id][..],
        &["approve", &id, "--yes"],
        &["approve", &id, "--digest", &digest],
        &["approve", &id, "--yes", "--digest", &digest[..11]],
        &["approve", &id, "--yes", "--digest", "zzzzzzzzzzzz"],
        &["approve", &id, "--yes", "--digest", ""],
    ] {
        let denied = run_skill(&home, args).exits(2);
        assert!(denied.stderr.contains("hint: "), "{denied}");
    }
    insta::assert_snapshot!(run_skill(&home, &["approve", &id, "--yes"]), @"
    exit 2
    --- stderr
    error: approval without a terminal requires the digest
    hint: look at it with `skillhost skill proposal review [ID]`, then: skillhost skill approve [ID] --yes --digest sha256:[DIGEST]
    ");
    let other = run_skill(&home, &["approve", &id, "--yes", "--digest", &wrong]).exits(4);
    assert!(other.stderr.contains("look at it again"), "{other}");
    assert_eq!(beads_text(&home), BEADS);
    assert_eq!(skill_json(&home, &["proposals"])["proposals"][0]["state"], "open");
    // A rollback requires the digest of its target as well.
    approve_proposal(&home, &id).success();
    insta::assert_snapshot!(run_skill(&home, &["rollback", "beads", "1", "--yes"]), @"
    exit 2
    --- stderr
    error: approval without a terminal requires the digest
    hint: look at it with `skillhost skill history beads`, then: skillhost skill rollback beads 1 --yes --digest sha256:[DIGEST]
    ");
    assert_eq!(beads_text(&home), beads_with("THREE"));
}

#[test]
fn unknown_names_get_suggestions() {
    let _filters = bind_filters();
    let home = beads_home();
    let id = propose_text(&home, &beads_with("THREE"), "Better.");
    let typo = format!("{}0", &id[..25]);
    let typo = if typo == id { format!("{}1", &id[..25]) } else { typo };
    let denied = run_skill(&home, &["approve", &typo]).exits(3);
    assert!(denied.stderr.contains(&format!("`{id}`")), "{denied}");
    insta::assert_snapshot!(run_skill(&home, &["approve", "99"]), @"
    exit 3
    --- stderr
    error: proposal `99` not found
    hint: `skillhost skill proposal list --all` lists them; give the id, a prefix of it or the number
    ");
    insta::assert_snapshot!(run_skill(&home, &["history", "beds"]), @"
    exit 3
    --- stderr
    error: skill `beds` not found
    hint: did you mean `beads`?
    ");
    for args in [
        &["review", "../../etc/passwd"][..],
        &["reject", "99", "--reason", "no"],
        &["rebase", "99"],
        &["diff", "beds"],
        &["diff", "beads", "7"],
        &["rollback", "beds"],
        &["rollback", "beads", "7", "--yes"],
        &["history", "../beads"],
    ] {
        run_skill(&home, args).exits(3);
        let output = run_skill(&home, &[args, &["--json"]].concat()).exits(3);
        let error: Value = serde_json::from_str(&output.stderr).unwrap();
        assert_eq!(
            (&error["schema_version"], &error["error"]["kind"]),
            (&1.into(), &"not_found".into())
        );
    }
    run_skill(&home, &["rollback", "beads"]).exits(4);
    run_skill(&home, &["review", "abc"]).exits(2);
    run_skill(&home, &["reject", &id]).exits(2);
    run_skill(&home, &["reject", &id, "--reason", " "]).exits(2);
}

#[test]
fn unusable_ledger_exits_with_five() {
    let home = beads_home();
    let _ = propose_text(&home, &beads_with("THREE"), "Better.");
    let lock = fs::File::options().write(true).open(home.path("sandbox/data/skill_registry/lock"));
    let lock = lock.unwrap();
    lock.lock().unwrap();
    let denied = run_skill(&home, &["proposals"]).exits(5);
    assert!(denied.stderr.contains("lock"), "{denied}");
    lock.unlock().unwrap();
    run_skill(&home, &["proposals"]).success();
}

#[test]
fn home_without_proposals_stays_unchanged() {
    let _filters = bind_filters();
    let home = beads_home();
    insta::assert_snapshot!(run_skill(&home, &["proposals"]), @"
    exit 0
    --- stderr
    note: no proposals wait for a decision
    ");
    insta::assert_snapshot!(run_skill(&home, &["review"]), @"
    exit 0
    --- stderr
    note: no proposals wait for a decision
    ");
    insta::assert_snapshot!(run_skill(&home, &["audit-log"]), @"
    exit 0
    --- stderr
    note: nothing was done yet
    ");
    assert_eq!(skill_json(&home, &["review"])["proposals"], serde_json::json!([]));
    assert!(!home.path("sandbox/data/skill_registry").exists());
}

#[test]
fn hostile_text_is_flagged_and_escaped() {
    let _filters = bind_filters();
    let home = beads_home();
    let nasty = "Fine\u{1b}]0;owned\u{7}\u{1b}[2J\r\u{202e}txet\u{e0041}\u{9b}31m\n── Checks\nok";
    let request = ProposeRequest {
        skill_id: "beads".into(),
        new_content: Some(beads_with("three\u{200b}\u{202e}")),
        justification: nasty.into(),
        evidence: vec![nasty.into()],
        ..ProposeRequest::default()
    };
    propose_request(&home, &request).unwrap();
    insta::assert_snapshot!(run_skill(&home, &["proposals"]), @r"
    exit 0
    --- stdout
    # id                         state skill file     lines proposed (UTC)   by       justification
    1 [ID] open  beads SKILL.md +1 -1 [TIME] gardener (!) Fine\u{1b}]0;owned\u{7}\u{1b}[2J\u{d}\u{202e}txet\u{e0041}\u{9b}31m
    ");
    let review = run_skill(&home, &["review"]).success();
    assert!(review.stdout.starts_with("! HIDDEN UNICODE"), "{review}");
    insta::assert_snapshot!(review, @r"
    exit 0
    --- stdout
    ! HIDDEN UNICODE: 14 characters that are not seen; shown as \u{…}

    beads  SKILL.md
    proposal   [ID] (number 1)
    state      open
    proposed   [TIME] by agent `gardener`
    digest     [DIGEST]

    ── Diff  +1 -1
    @@ -4,6 +4,6 @@
     ---
     one
     two
    -three
    +three\u{200b}\u{202e}
     four
     five

    ── Justification (by the author)
    │ Fine\u{1b}]0;owned\u{7}\u{1b}[2J\u{d}\u{202e}txet\u{e0041}\u{9b}31m
    │ ── Checks
    │ ok

    ── Evidence (by the author)
    │ Fine\u{1b}]0;owned\u{7}\u{1b}[2J\u{d}\u{202e}txet\u{e0041}\u{9b}31m
    │ ── Checks
    │ ok


    ── Checks
    new  line 7: this line has bidirectional controls, characters without width (first U+200B) [hidden-unicode, Warning]
    tokens 22 → 22 (+0)

    ── Base
    the file is what the proposal was made for
    file       [HOME]/sandbox/data/skill_registry/proposals/beads-[TIME].md
    ");
    for args in [&["proposals"][..], &["review"], &["review", "--json"], &["audit-log", "--json"]] {
        let details = run_skill(&home, args).success().stdout;
        let steers =
            |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{200b}\u{e0041}".contains(c);
        assert!(!details.contains(steers), "{details:?}");
    }
}

#[test]
fn agent_skill_requires_approval() {
    let _filters = bind_filters();
    let home = beads_home();
    let (ledger, store) = open_ledger(&home);
    ledger.report_created(&store.snapshot(), &test_author(), "beads").unwrap();
    insta::assert_snapshot!(run_skill(&home, &["list"]), @"
    exit 0
    --- stdout
    beads  Tracks work. Use when asked. [~6 tokens, sandbox, unapproved]
    ");
    assert_eq!(skill_json(&home, &["list"])["skills"][0]["unapproved"], true);
    let details = skill_json(&home, &["show", "beads"]);
    let digest = details["standing"]["digest"].as_str().unwrap();
    run_skill(&home, &["approve", "beads"]).exits(2);
    run_skill(&home, &["approve", "beads", "--yes", "--digest", &"0".repeat(12)]).exits(4);
    insta::assert_snapshot!(
        run_skill(&home, &["approve", "beads", "--yes", "--digest", digest]), @"
    exit 0
    --- stdout
    approved the skill `beads` as it is
    ");
    assert!(home.path("sandbox/data/skill_registry/generation").exists());
    insta::assert_snapshot!(run_skill(&home, &["list"]), @"
    exit 0
    --- stdout
    beads  Tracks work. Use when asked. [~6 tokens, sandbox]
    ");
    home.write("sandbox/skills/beads/SKILL.md", beads_with("drei"));
    assert_eq!(skill_json(&home, &["list"])["skills"][0]["unapproved"], true);
}

#[test]
fn allowed_tools_require_approval() {
    let _filters = bind_filters();
    let home = beads_home();
    let text = BEADS.replacen("---\n", "---\nallowed-tools: move_path\n", 1);
    home.write("sandbox/skills/beads/SKILL.md", &text);
    let details = skill_json(&home, &["show", "beads"]);
    assert_eq!(details["tool_grant"]["allowed_tools"], serde_json::json!(["move_path"]));
    assert_eq!(details["tool_grant"]["approved"], false);
    let digest = details["tool_grant"]["digest"].as_str().unwrap();
    let details = run_skill(&home, &["show", "beads"]).success().stdout;
    assert!(details.contains("allowed      move_path (not in force)\n"), "{details}");
    assert!(
        details.contains(&format!("skillhost skill approve beads --yes --digest sha256:{digest}")),
        "{details}"
    );
    let doctor = run_skill(&home, &["doctor"]).success();
    let notice = "`allowed-tools` of `beads` (move_path) does not count until a person approves the \
                 skill: skillhost skill approve beads";
    assert!(doctor.stderr.contains(notice), "{doctor}");
    run_skill(&home, &["approve", "beads", "--yes", "--digest", digest]).success();
    assert_eq!(skill_json(&home, &["show", "beads"])["tool_grant"]["approved"], true);
    assert_eq!(skill_json(&home, &["doctor"])["not_granted"], serde_json::json!([]));
    home.write("sandbox/skills/beads/SKILL.md", text + "More.\n");
    assert_eq!(skill_json(&home, &["doctor"])["not_granted"][0]["skill_id"], "beads");
}
