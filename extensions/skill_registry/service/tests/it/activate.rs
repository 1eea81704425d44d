//! Activation of skills and the grants of `allowed-tools`.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use skill_catalog::{
    AgentScope, Audience, CatalogScope, RegistryError, SkillState, Store, SystemClock, TrustLevel,
};
use skill_format::{Digest, TokenCount};
use skill_ledger::{HumanActor, Ledger, LedgerErrorKind, LedgerSync};
use skill_service::activate_skill;
use skillhost_payload::{ActiveSkill, ErrorKind, SkillContent};

use crate::fixture::StoreFixture;
use crate::scenario::{ReviewScenario, agent, person};

fn write(fixture: &StoreFixture, id: &str, fields: &str) -> Digest {
    let text = format!("---\nname: {id}\ndescription: About {id}.\n{fields}---\nDo it.\n");
    fixture.write(&format!("skills/{id}/SKILL.md"), &text);
    Digest::compute(text.as_bytes())
}

fn activate(store: &Store, audience: Audience<'_>, id: &str) -> Result<ActiveSkill, RegistryError> {
    // A missing directory: no skill has an approval.
    let ledger = Ledger::new("/nonexistent/ledger".into(), Arc::new(SystemClock));
    activate_skill(store, &store.snapshot(), &ledger, audience, id, Path::new(""))
}

#[test]
fn activated_skill_names_its_tools() {
    let fixture = StoreFixture::new();
    let cases: [(&str, &str, Option<&[&str]>); 7] = [
        (
            "blanks",
            "allowed-tools: read_file  Bash(git add:*)\n",
            Some(&["read_file", "Bash(git add:*)"]),
        ),
        ("commas", "allowed-tools: read_file, write_file\n", Some(&["read_file", "write_file"])),
        ("list", "allowed-tools: [read_file, write_file]\n", Some(&["read_file", "write_file"])),
        ("items", "allowed-tools:\n  - read_file\n", Some(&["read_file"])),
        ("broken", "allowed-tools: Bash(git add\n", Some(&[])),
        ("empty", "allowed-tools: \"\"\n", None),
        ("absent", "", None),
    ];
    for (id, fields, _) in cases {
        write(&fixture, id, fields);
    }
    let store = fixture.open_warm();
    for (id, _, expected) in cases {
        let made = activate(&store, Audience::Model, id).unwrap();
        let tools = made.allowed_tools.as_ref().map(|tools| tools.iter().map(|t| &**t).collect());
        assert_eq!(tools, expected.map(<[&str]>::to_vec), "{id}");
        assert!(!made.grants, "{id}");
    }
    let digest = store.snapshot().get("absent").unwrap().digest().unwrap();
    let text =
        format!("<skill_content name=\"absent\" digest=\"{digest}\">\nDo it.\n</skill_content>");
    let content = SkillContent {
        tokens: TokenCount::estimate(&text).get(),
        text,
        digest: digest.to_string(),
        skill_id: "absent".to_owned(),
        source: fixture.path("skills/absent/SKILL.md").display().to_string(),
    };
    let expected = ActiveSkill {
        content,
        allowed_tools: None,
        grants: false,
        capabilities: None,
        precedes: Vec::new(),
        follows: Vec::new(),
    };
    assert_eq!(activate(&store, Audience::Operator, "absent"), Ok(expected));
    // A change since the last scan is returned, too.
    let digest = write(&fixture, "absent", "allowed-tools: echo\n").to_string();
    let now = activate(&store, Audience::Model, "absent").unwrap();
    assert_eq!((now.content.digest, now.allowed_tools), (digest, Some(vec!["echo".to_owned()])));
}

#[test]
fn activation_depends_on_audience() {
    let fixture = StoreFixture::new();
    write(&fixture, "both", "");
    write(&fixture, "users", "disable-model-invocation: true\n");
    write(&fixture, "models", "user-invocable: false\n");
    write(&fixture, "stopped", "");
    let mut options = fixture.options(&["skills"]);
    options.skills.insert("stopped".to_owned(), SkillState::Off);
    let store = fixture.open_with(options);
    let bound = ["users".to_owned(), "stopped".to_owned()];
    let binding =
        Audience::Agent(AgentScope { catalog: CatalogScope::None, bound: &bound, hidden: &[] });
    let (denied, gone) = (Some(ErrorKind::Denied), Some(ErrorKind::NotFound));
    // id, for any model, for an agent without a catalog that binds two skills, for a person.
    let cases = [
        ("both", None, gone, None),
        ("users", denied, None, None),
        ("models", None, gone, denied),
        ("stopped", gone, gone, denied),
        ("bith", gone, gone, gone),
    ];
    for (id, model, agent, operator) in cases {
        let kind = |audience| activate(&store, audience, id).err().map(|error| error.kind);
        let kinds = (kind(Audience::Model), kind(binding), kind(Audience::Operator));
        assert_eq!(kinds, (model, agent, operator), "{id}");
    }
    assert_eq!(activate(&store, Audience::Model, "bith").unwrap_err().similar, ["both"]);
}

#[test]
fn unapproved_skill_grants_no_tools() {
    let fixture = StoreFixture::new();
    write(&fixture, "demo", "allowed-tools: delete_path\n");
    let mut options = fixture.options(&["skills"]);
    options.roots[0].trust = TrustLevel::Untrusted;
    let made = activate(&fixture.open_with(options), Audience::Model, "demo").unwrap();
    assert_eq!((made.allowed_tools, made.grants), (Some(vec!["delete_path".to_owned()]), false));

    let scenario = ReviewScenario::empty();
    write(&scenario.fixture, "beads", "allowed-tools: delete_path\n");
    let store = scenario.fixture.open_warm();
    let keeper = LedgerSync::new(&scenario.ledger);
    let grants = || granted(&scenario, &store, "beads");
    scenario.other().report_created(&scenario.snapshot(), &agent(), "beads").unwrap();
    keeper.sync(&store, &[], false);
    assert!(!grants());
    let standing = scenario.ledger.approval_statuses(&scenario.snapshot()).unwrap();
    let tree = standing.values().next().unwrap().digest;
    scenario.other().approve_skill(&scenario.snapshot(), &person(), "beads", tree).unwrap();
    keeper.sync(&store, &[], false);
    assert!(grants());
    // No scan lies between the write and the check: only the exact approved files grant.
    scenario.fixture.write("skills/beads/run.sh", "rm -r /");
    assert!(!grants());
    fs::remove_file(scenario.fixture.path("skills/beads/run.sh")).unwrap();
    assert!(grants());
}

/// Returns `true` if `allowed-tools` of a skill has effect, determined as in the extension.
fn granted(scenario: &ReviewScenario, store: &Store, id: &str) -> bool {
    let (snapshot, base) = (store.snapshot(), Path::new(""));
    let made =
        activate_skill(store, &snapshot, &scenario.ledger, Audience::Model, id, base).unwrap();
    assert_eq!(scenario.ledger.take_notes(), []);
    made.grants
}

#[test]
fn allowed_tools_require_approval() {
    let scenario = ReviewScenario::empty();
    write(&scenario.fixture, "typed", "allowed-tools: move_path\n");
    let store = scenario.fixture.open_warm();
    let grants = || granted(&scenario, &store, "typed");
    assert!(!grants(), "a person wrote it and did not approve it");
    assert!(!scenario.data("registry.sqlite3").exists(), "a query creates no database");
    let approve = || {
        let tree = scenario.ledger.tree_of(&scenario.snapshot(), "typed").unwrap();
        scenario.other().approve_skill(&scenario.snapshot(), &person(), "typed", tree).unwrap();
    };
    approve();
    assert!(grants());
    let expected = [("typed".to_owned(), vec!["move_path".to_owned()], true)];
    let listed = || {
        let grants = scenario.ledger.tool_grants(&store, &scenario.snapshot()).unwrap();
        grants.into_iter().map(|it| (it.skill_id.to_string(), it.allowed_tools, it.approved))
    };
    assert!(listed().eq(expected));
    // Any edit revokes the approval, and so does any other file.
    write(&scenario.fixture, "typed", "allowed-tools: move_path, write_file\n");
    assert!(!grants());
    assert!(listed().all(|(_, _, approved)| !approved));
    approve();
    scenario.fixture.write("skills/typed/references/more.md", "more");
    assert!(!grants());
    // The text counts, not the time of the approval.
    fs::remove_file(scenario.fixture.path("skills/typed/references/more.md")).unwrap();
    assert!(grants());
}

#[test]
fn grants_survive_only_human_approval() {
    let scenario = ReviewScenario::empty();
    write(&scenario.fixture, "typed", "allowed-tools: move_path\n");
    let approved = || {
        let (snapshot, text) = (scenario.snapshot(), scenario.file("typed/SKILL.md").unwrap());
        let skill = snapshot.get("typed").unwrap();
        scenario.ledger.is_approved(skill, Digest::compute(text.as_bytes())).unwrap()
    };
    let tree = scenario.ledger.tree_of(&scenario.snapshot(), "typed").unwrap();
    scenario.ledger.approve_skill(&scenario.snapshot(), &person(), "typed", tree).unwrap();
    let (id, digest) = scenario.propose("typed", "Do it well.");
    scenario.approve(&id, digest).unwrap();
    assert!(approved(), "a person approved the change");
    let (id, digest) = scenario.propose("typed", "Do it otherwise.");
    let reviewer = HumanActor { name: "reviewer".to_owned(), via: "agent".to_owned() };
    scenario.ledger.approve(&scenario.snapshot(), &reviewer, &id, digest, None).unwrap();
    assert!(!approved(), "an agent approved the change");
}

#[test]
fn untrusted_skill_cannot_be_approved() {
    let scenario = ReviewScenario::empty();
    write(&scenario.fixture, "foreign", "allowed-tools: move_path\n");
    let mut options = scenario.fixture.options(&["skills"]);
    options.roots[0].trust = TrustLevel::Untrusted;
    let snapshot = scenario.fixture.open_with(options).snapshot();
    let tree = scenario.ledger.tree_of(&snapshot, "foreign").unwrap();
    let error = scenario.ledger.approve_skill(&snapshot, &person(), "foreign", tree).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::State);
    assert_eq!(error.to_string(), "`foreign` lies in the untrusted root `skills`");
}

#[test]
fn broken_ledger_grants_nothing() {
    let scenario = ReviewScenario::empty();
    write(&scenario.fixture, "typed", "allowed-tools: move_path\n");
    let store = scenario.fixture.open_warm();
    let tree = scenario.ledger.tree_of(&scenario.snapshot(), "typed").unwrap();
    scenario.ledger.approve_skill(&scenario.snapshot(), &person(), "typed", tree).unwrap();
    for name in ["registry.sqlite3", "registry.sqlite3-wal"] {
        scenario.fixture.write(&format!("data/{name}"), "no database ".repeat(1_000));
    }
    assert!(
        !activate_skill(
            &store,
            &store.snapshot(),
            &scenario.ledger,
            Audience::Model,
            "typed",
            Path::new("")
        )
        .unwrap()
        .grants
    );
    assert!(!scenario.ledger.take_notes().is_empty());
}
