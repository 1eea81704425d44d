//! `skillhost skill proposals|approve|reject|rebase|history|diff|rollback|audit-log|stats`.

use std::fs;
use std::sync::Arc;

use serde_json::Value;
use skill_store::{
    AgentAuthor, Ledger, LedgerError, ProposeOutcome, ProposeRequest, RegistryConfig, Store,
    SystemClock,
};
use test_support::{Output, TestHome};

pub(crate) const BEADS: &str = "---\nname: beads\ndescription: Tracks work. Use when asked.\n---\none\ntwo\nthree\nfour\nfive\n";

/// The text of `beads` with another third line.
pub(crate) fn with(line: &str) -> String {
    BEADS.replace("three", line)
}

pub(crate) fn home() -> TestHome {
    TestHome::new().trusted().skill("beads", BEADS)
}

pub(crate) fn text_of(home: &TestHome) -> String {
    fs::read_to_string(home.path("sandbox/skills/beads/SKILL.md")).unwrap()
}

/// The home's ledger as an agent's tool reaches it.
fn desk(home: &TestHome) -> (Ledger, Store) {
    let store =
        Store::open(RegistryConfig::default().options(&home.root(), None), Arc::new(SystemClock));
    let ledger = Ledger::new(home.path("sandbox/data/skill_registry"), Arc::new(SystemClock));
    (ledger, store.unwrap())
}

fn author() -> AgentAuthor {
    AgentAuthor { agent_id: "gardener".into(), origin: "agent".into(), ..AgentAuthor::default() }
}

pub(crate) fn propose_as(
    home: &TestHome,
    request: &ProposeRequest,
) -> Result<ProposeOutcome, LedgerError> {
    let (ledger, store) = desk(home);
    ledger.propose(&store.snapshot(), &author(), request)
}

/// Has an agent propose another text for `beads`; returns the proposal's id.
pub(crate) fn propose(home: &TestHome, text: &str, justification: &str) -> String {
    let request = ProposeRequest {
        skill_id: "beads".into(),
        new_content: Some(text.into()),
        justification: justification.into(),
        ..ProposeRequest::default()
    };
    propose_as(home, &request).unwrap().proposal.id
}

fn skill(home: &TestHome, args: &[&str]) -> Output {
    home.skillhost([&["skill"], args].concat())
}

pub(crate) fn json(home: &TestHome, args: &[&str]) -> Value {
    let value = skill(home, &[args, &["--json"]].concat()).success().json();
    assert_eq!(value["schema_version"], 1, "{value}");
    value
}

pub(crate) fn digest(home: &TestHome, id: &str) -> String {
    let reviewed = json(home, &["review", id]);
    reviewed["proposals"][0]["new_digest"].as_str().unwrap().to_owned()
}

/// Approves as a script does that was told the digest.
fn approve(home: &TestHome, id: &str) -> Output {
    let digest = digest(home, id);
    skill(home, &["approve", id, "--yes", "--digest", &digest[..12]])
}

/// Until the guard is dropped, snapshots do not depend on ids, times, digests and users.
fn steady() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b", "[ID]");
    settings.add_filter(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d\.\d{3}Z)?", "[TIME]");
    settings.add_filter(r"\b[0-9a-f]{64}\b", "[DIGEST]");
    settings.add_filter(r"\b[0-9a-f]{12}\b", "[SHORT]");
    settings.add_filter(r"beads-\d{8}T[\d.]+Z(-\d+)?", "beads-[TIME]");
    settings.add_filter(&format!(r"\b{}\b", regex_escape(&user())), "[USER]");
    settings.bind_to_scope()
}

fn regex_escape(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_alphanumeric() { c.to_string() } else { format!(r"\{c}") })
        .collect()
}

fn user() -> String {
    let id = std::process::Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(id.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_proposal_is_listed_looked_at_approved_and_taken_back() {
    let _steady = steady();
    let home = home();
    let id = propose(&home, &with("THREE"), "Three was too small.\nSee below.");
    assert_eq!(text_of(&home), BEADS);
    insta::assert_snapshot!(skill(&home, &["proposals"]), @"
    exit 0
    --- stdout
    # id                         state skill file     lines proposed (UTC)   by       justification
    1 [ID] open  beads SKILL.md +1 -1 [TIME] gardener Three was too small.
    ");
    insta::assert_snapshot!(skill(&home, &["review"]), @"
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

    ── Justification (by the agent)
    │ Three was too small.
    │ See below.

    ── Evidence (by the agent)
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
    insta::assert_snapshot!(approve(&home, &id), @"
    exit 0
    --- stdout
    approved [ID]: SKILL.md of `beads` is written, version 2
    ");
    assert_eq!(text_of(&home), with("THREE"));
    assert!(generation.exists());
    insta::assert_snapshot!(skill(&home, &["proposals"]), @"
    exit 0
    --- stderr
    note: no proposals wait for a decision
    ");
    insta::assert_snapshot!(skill(&home, &["history", "beads"]), @"
    exit 0
    --- stdout
    version recorded (UTC)   digest       files bytes by                approved by reason
    1       [TIME] [SHORT] 1     86    (edited directly) -
    2       [TIME] [SHORT] 1     86    agent gardener    [USER]
    ");
    insta::assert_snapshot!(skill(&home, &["diff", "beads"]), @"
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
    let versions = json(&home, &["history", "beads"]);
    let first = versions["versions"][0]["tree"].as_str().unwrap();
    insta::assert_snapshot!(
        skill(&home, &["rollback", "beads", "--yes", "--digest", first, "--reason", "no"]), @"
    exit 0
    --- stdout
    `beads` is as in version 1; that is version 3
    ");
    assert_eq!(text_of(&home), BEADS);
    let audit = json(&home, &["audit-log"]);
    let actions: Vec<&str> = audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["action"].as_str().unwrap())
        .collect();
    insta::assert_snapshot!(actions.join(" "), @"proposal.created version.created proposal.approved version.created proposal.applied change.finished skill.rollback version.created change.finished");
    assert_eq!(audit["entries"][2]["by"], user());
    insta::assert_snapshot!(skill(&home, &["stats"]), @"
    exit 0
    --- stderr
    note: no skill was read
    ");
}

#[test]
fn a_direct_edit_makes_a_proposal_stale_until_it_is_rebased() {
    let _steady = steady();
    let home = home();
    let id = propose(&home, &with("THREE"), "Better.");
    let seen = digest(&home, &id);
    home.write("sandbox/skills/beads/SKILL.md", BEADS.replace("one", "ONE"));
    insta::assert_snapshot!(
        skill(&home, &["approve", &id, "--yes", "--digest", &seen]), @"
    exit 4
    --- stderr
    error: [HOME]/sandbox/skills/beads/SKILL.md has changed since the proposal was made
    hint: `skillhost skill rebase [ID]` makes it fit the file as it is now
    ");
    assert_eq!(json(&home, &["proposals"])["proposals"][0]["state"], "stale");
    insta::assert_snapshot!(skill(&home, &["rebase", &id]), @"
    exit 0
    --- stdout
    [ID] fits the file as it is now; its digest is [SHORT]
    ");
    // It is another text now, which nobody has seen yet.
    insta::assert_snapshot!(
        skill(&home, &["approve", &id, "--yes", "--digest", &seen]), @"
    exit 4
    --- stderr
    error: the digest is [DIGEST], not [DIGEST]
    hint: look at it again with `skillhost skill review [ID]`: it is not what you saw
    ");
    approve(&home, &id).success();
    assert_eq!(text_of(&home), with("THREE").replace("one", "ONE"));
}

#[test]
fn the_same_lines_changed_twice_are_a_conflict() {
    let _steady = steady();
    let home = home();
    let id = propose(&home, &with("THREE"), "Better.");
    home.write("sandbox/skills/beads/SKILL.md", with("drei\u{1b}[2J"));
    insta::assert_snapshot!(skill(&home, &["rebase", &id]), @r"
    exit 4
    --- stdout
    SKILL.md:7
      now | drei\u{1b}[2J
      new | THREE
    --- stderr
    note: changed on both sides, in 1 place; nothing was done
    note: edit the file so that they agree, or reject the proposal
    ");
    let refused = skill(&home, &["rebase", &id, "--json"]).exits(4).json();
    assert_eq!(refused["conflicts"][0]["line"], 7);
    insta::assert_snapshot!(
        skill(&home, &["reject", &id, "--reason", "drei it is"]), @"
    exit 0
    --- stdout
    rejected [ID]: SKILL.md of `beads` stays as it is
    ");
    insta::assert_snapshot!(skill(&home, &["reject", &id, "--reason", "again"]), @"
    exit 4
    --- stderr
    error: proposal [ID] is rejected and cannot be rejected
    hint: an agent can propose it again
    ");
    assert_eq!(json(&home, &["proposals"])["proposals"], serde_json::json!([]));
    assert_eq!(json(&home, &["proposals", "--all"])["proposals"][0]["state"], "rejected");
}

#[test]
fn without_a_terminal_approving_takes_the_digest() {
    let _steady = steady();
    let home = home();
    let id = propose(&home, &with("THREE"), "Better.");
    let digest = digest(&home, &id);
    let wrong = "0".repeat(64);
    for args in [
        &["approve", &id][..],
        &["approve", &id, "--yes"],
        &["approve", &id, "--digest", &digest],
        &["approve", &id, "--yes", "--digest", &digest[..11]],
        &["approve", &id, "--yes", "--digest", "zzzzzzzzzzzz"],
        &["approve", &id, "--yes", "--digest", ""],
    ] {
        let refused = skill(&home, args).exits(2);
        assert!(refused.stderr.contains("hint: "), "{refused}");
    }
    insta::assert_snapshot!(skill(&home, &["approve", &id, "--yes"]), @"
    exit 2
    --- stderr
    error: without a terminal the digest of what is agreed to has to be given
    hint: look at it with `skillhost skill review [ID]`, then: skillhost skill approve [ID] --yes --digest SHA
    ");
    let other = skill(&home, &["approve", &id, "--yes", "--digest", &wrong]).exits(4);
    assert!(other.stderr.contains("look at it again"), "{other}");
    assert_eq!(text_of(&home), BEADS);
    assert_eq!(json(&home, &["proposals"])["proposals"][0]["state"], "open");
    // Rolling back takes one as well.
    approve(&home, &id).success();
    insta::assert_snapshot!(skill(&home, &["rollback", "beads", "1", "--yes"]), @"
    exit 2
    --- stderr
    error: without a terminal the digest of what is agreed to has to be given
    hint: look at it with `skillhost skill history beads`, then: skillhost skill rollback beads 1 --yes --digest SHA
    ");
    assert_eq!(text_of(&home), with("THREE"));
}

#[test]
fn unknown_names_are_told_apart_and_similar_ones_named() {
    let _steady = steady();
    let home = home();
    let id = propose(&home, &with("THREE"), "Better.");
    let typo = format!("{}0", &id[..25]);
    let typo = if typo == id { format!("{}1", &id[..25]) } else { typo };
    let refused = skill(&home, &["approve", &typo]).exits(3);
    assert!(refused.stderr.contains(&format!("`{id}`")), "{refused}");
    insta::assert_snapshot!(skill(&home, &["approve", "99"]), @"
    exit 3
    --- stderr
    error: there is no proposal `99`
    hint: `skillhost skill proposals --all` lists them; give the id, the start of it or the number
    ");
    insta::assert_snapshot!(skill(&home, &["history", "bead"]), @"
    exit 3
    --- stderr
    error: there is no skill `bead`
    hint: did you mean `beads`?
    ");
    for args in [
        &["review", "../../etc/passwd"][..],
        &["reject", "99", "--reason", "no"],
        &["rebase", "99"],
        &["diff", "bead"],
        &["diff", "beads", "7"],
        &["rollback", "bead"],
        &["rollback", "beads", "7", "--yes"],
        &["history", "../beads"],
    ] {
        skill(&home, args).exits(3);
        let told = skill(&home, &[args, &["--json"]].concat()).exits(3);
        let error: Value = serde_json::from_str(&told.stderr).unwrap();
        assert_eq!(
            (&error["schema_version"], &error["error"]["kind"]),
            (&1.into(), &"not_found".into())
        );
    }
    skill(&home, &["rollback", "beads"]).exits(4);
    skill(&home, &["review", "abc"]).exits(2);
    skill(&home, &["reject", &id]).exits(2);
    skill(&home, &["reject", &id, "--reason", " "]).exits(2);
}

#[test]
fn a_ledger_that_cannot_be_used_is_exit_5() {
    let home = home();
    let _ = propose(&home, &with("THREE"), "Better.");
    let held = fs::File::options().write(true).open(home.path("sandbox/data/skill_registry/lock"));
    let held = held.unwrap();
    held.lock().unwrap();
    let refused = skill(&home, &["proposals"]).exits(5);
    assert!(refused.stderr.contains("lock"), "{refused}");
    held.unlock().unwrap();
    skill(&home, &["proposals"]).success();
}

#[test]
fn a_home_without_proposals_is_fine_and_stays_as_it_is() {
    let _steady = steady();
    let home = home();
    insta::assert_snapshot!(skill(&home, &["proposals"]), @"
    exit 0
    --- stderr
    note: no proposals wait for a decision
    ");
    insta::assert_snapshot!(skill(&home, &["review"]), @"
    exit 0
    --- stderr
    note: no proposals wait for a decision
    ");
    insta::assert_snapshot!(skill(&home, &["audit-log"]), @"
    exit 0
    --- stderr
    note: nothing was done yet
    ");
    assert_eq!(json(&home, &["review"])["proposals"], serde_json::json!([]));
    assert!(!home.path("sandbox/data/skill_registry").exists());
}

#[test]
fn hostile_texts_are_flagged_first_and_steer_nothing() {
    let _steady = steady();
    let home = home();
    let nasty = "Fine\u{1b}]0;owned\u{7}\u{1b}[2J\r\u{202e}txet\u{e0041}\u{9b}31m\n── Checks\nok";
    let request = ProposeRequest {
        skill_id: "beads".into(),
        new_content: Some(with("three\u{200b}\u{202e}")),
        justification: nasty.into(),
        evidence: vec![nasty.into()],
        ..ProposeRequest::default()
    };
    propose_as(&home, &request).unwrap();
    insta::assert_snapshot!(skill(&home, &["proposals"]), @r"
    exit 0
    --- stdout
    # id                         state skill file     lines proposed (UTC)   by       justification
    1 [ID] open  beads SKILL.md +1 -1 [TIME] gardener (!) Fine\u{1b}]0;owned\u{7}\u{1b}[2J\u{d}\u{202e}txet\u{e0041}\u{9b}31m
    ");
    let review = skill(&home, &["review"]).success();
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

    ── Justification (by the agent)
    │ Fine\u{1b}]0;owned\u{7}\u{1b}[2J\u{d}\u{202e}txet\u{e0041}\u{9b}31m
    │ ── Checks
    │ ok

    ── Evidence (by the agent)
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
        let shown = skill(&home, args).success().stdout;
        let steers =
            |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{200b}\u{e0041}".contains(c);
        assert!(!shown.contains(steers), "{shown:?}");
    }
}

#[test]
fn a_skill_that_an_agent_created_waits_for_its_approval() {
    let _steady = steady();
    let home = home();
    let (ledger, store) = desk(&home);
    ledger.report_created(&store.snapshot(), &author(), "beads").unwrap();
    insta::assert_snapshot!(skill(&home, &["list"]), @"
    exit 0
    --- stdout
    beads  Tracks work. Use when asked. [~6 tokens, sandbox, unapproved]
    ");
    assert_eq!(json(&home, &["list"])["skills"][0]["unapproved"], true);
    let shown = json(&home, &["show", "beads"]);
    let digest = shown["standing"]["digest"].as_str().unwrap();
    skill(&home, &["approve", "beads"]).exits(2);
    skill(&home, &["approve", "beads", "--yes", "--digest", &"0".repeat(12)]).exits(4);
    insta::assert_snapshot!(
        skill(&home, &["approve", "beads", "--yes", "--digest", digest]), @"
    exit 0
    --- stdout
    approved the skill `beads` as it is
    ");
    assert!(home.path("sandbox/data/skill_registry/generation").exists());
    insta::assert_snapshot!(skill(&home, &["list"]), @"
    exit 0
    --- stdout
    beads  Tracks work. Use when asked. [~6 tokens, sandbox]
    ");
    home.write("sandbox/skills/beads/SKILL.md", with("drei"));
    assert_eq!(json(&home, &["list"])["skills"][0]["unapproved"], true);
}

#[test]
fn grant_of_typed_skill_needs_approval() {
    let _steady = steady();
    let home = home();
    let text = BEADS.replacen("---\n", "---\nallowed-tools: move_path\n", 1);
    home.write("sandbox/skills/beads/SKILL.md", &text);
    let shown = json(&home, &["show", "beads"]);
    assert_eq!(shown["tool_grant"]["allowed_tools"], serde_json::json!(["move_path"]));
    assert_eq!(shown["tool_grant"]["approved"], false);
    let digest = shown["tool_grant"]["digest"].as_str().unwrap();
    let shown = skill(&home, &["show", "beads"]).success().stdout;
    assert!(shown.contains("allowed      move_path (does not count)\n"), "{shown}");
    assert!(shown.contains(&format!("takes the digest {digest}")), "{shown}");
    let doctor = skill(&home, &["doctor"]).success();
    let waits = "`allowed-tools` of `beads` (move_path) does not count until a person approves the \
                 skill: skillhost skill approve beads";
    assert!(doctor.stderr.contains(waits), "{doctor}");
    skill(&home, &["approve", "beads", "--yes", "--digest", digest]).success();
    assert_eq!(json(&home, &["show", "beads"])["tool_grant"]["approved"], true);
    assert_eq!(json(&home, &["doctor"])["not_granted"], serde_json::json!([]));
    home.write("sandbox/skills/beads/SKILL.md", text + "More.\n");
    assert_eq!(json(&home, &["doctor"])["not_granted"][0]["skill_id"], "beads");
}
