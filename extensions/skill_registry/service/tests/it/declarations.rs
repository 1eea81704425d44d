//! Declared tools and conflicts of skills, and their effect on lists, reads, loads and bindings.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use skill_catalog::{Audience, Snapshot, Store};
use skill_service::{
    BlockRequest, CatalogBlocks, DeclarationIndex, ListSkillsArgs, LoadSkillsArgs, ReadSkillArgs,
    activate_skill, audience_without, list_skills, read_skill, skill_tree,
};
use skillhost_payload::{
    AgentTool, AgentTools, CallContext, CallOrigin, ErrorKind, SkillFileScope, SkillRef,
    SkillSecurity,
};

use crate::fixture::StoreFixture;

const NEEDS_BASH: &str =
    "tools: {dependencies: [{tool: Bash, required: true, purpose: x, minVersion: '2.0'}]}\n";

/// The skills of a store with their declarations.
struct DeclaredHome {
    fixture: StoreFixture,
    store: Arc<Store>,
    index: DeclarationIndex,
}

impl DeclaredHome {
    /// Creates skills, each with the text of its `skill.yaml`.
    fn new(skills: &[(&str, &str)]) -> Self {
        let fixture = StoreFixture::new();
        for (id, declared) in skills {
            fixture.skill(&format!("skills/{id}"), "Body.");
            if !declared.is_empty() {
                fixture.write(&format!("skills/{id}/skill.yaml"), declared);
            }
        }
        let store = Arc::new(fixture.open_warm());
        let index = DeclarationIndex::new(Arc::clone(&store));
        index.refresh();
        Self { fixture, store, index }
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.store.snapshot()
    }

    fn set_tools(&self, agent: &str, tools: &[(&str, &str)]) {
        self.index.set_agent_tools(vec![agent_tools(agent, tools)]);
    }

    fn listed(&self, context: &CallContext) -> Vec<String> {
        let hidden = self.index.hidden_skills(context);
        let audience = audience_without(context, &hidden);
        let answer = list_skills(&self.snapshot(), audience, &ListSkillsArgs::default());
        let skills = answer.structured["skills"].as_array().unwrap();
        skills.iter().map(|skill| skill["skill_id"].as_str().unwrap().to_owned()).collect()
    }

    fn read(&self, context: &CallContext, id: &str) -> Result<Value, (ErrorKind, String)> {
        let hidden = self.index.hidden_skills(context);
        let args = ReadSkillArgs { skill_id: id.to_owned() };
        let audience = audience_without(context, &hidden);
        let answer = read_skill(&self.store, &self.snapshot(), audience, &args);
        let answer = answer.map_err(|error| (error.kind, error.message))?;
        Ok(answer.with_notes(self.index.conflict_notes(&self.snapshot(), context, id)).structured)
    }

    fn load(&self, context: &CallContext, args: Value) -> Result<(), (ErrorKind, String)> {
        let args: LoadSkillsArgs = serde_json::from_value(args).unwrap();
        let checked = self.index.check_load(&self.snapshot(), context, &args);
        checked.map_err(|error| (error.kind, error.message))
    }

    fn binding(&self, tools: &[(&str, &str)], ids: &[&str]) -> Vec<String> {
        let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
        let problems = self.index.check_binding(&agent_tools("a", tools), &ids);
        problems.into_iter().map(|problem| problem.message).collect()
    }
}

fn agent_tools(agent: &str, tools: &[(&str, &str)]) -> AgentTools {
    let tools = tools.iter().map(|(name, version)| AgentTool {
        name: (*name).to_owned(),
        version: (!version.is_empty()).then(|| (*version).to_owned()),
    });
    AgentTools { agent_id: agent.to_owned(), tools: tools.collect() }
}

fn caller(agent: &str) -> CallContext {
    CallContext { agent_id: agent.to_owned(), ..CallContext::default() }
}

fn active(ids: &[&str]) -> CallContext {
    let skill =
        |id: &&str| SkillRef { skill_id: (*id).to_owned(), digest: String::new(), tree: None };
    CallContext { active_skills: ids.iter().map(skill).collect(), ..CallContext::default() }
}

#[test]
fn missing_tool_hides_skill_of_one_agent() {
    let home = DeclaredHome::new(&[("csv-tools", NEEDS_BASH), ("plain", "")]);
    let builder = caller("builder_agent");
    // Without the agents' tools nothing is hidden.
    assert_eq!(home.listed(&builder), ["csv-tools", "plain"]);
    home.set_tools("builder_agent", &[("Bash", "1.9"), ("Read", "")]);
    assert_eq!(home.listed(&builder), ["plain"]);
    assert_eq!(home.listed(&caller("other")), ["csv-tools", "plain"]);
    let message = "csv-tools: Bash ≥ 2.0 is missing (found 1.9) for builder_agent";
    let error = (ErrorKind::Ineligible, message.to_owned());
    assert_eq!(home.read(&builder, "csv-tools").unwrap_err(), error);
    assert_eq!(home.load(&builder, json!({"names": ["plain", "csv-tools"]})).unwrap_err(), error);
    let checked = home.index.check_eligible(&home.snapshot(), &builder, "csv-tools");
    assert_eq!(checked.map_err(|error| error.message), Err(message.to_owned()));
    let hidden = home.index.hidden_skills(&builder);
    let blocks = CatalogBlocks::new(100);
    let audience = audience_without(&builder, &hidden);
    let turn = BlockRequest {
        scope: audience.scope().unwrap(),
        session_id: "s",
        agent_id: "builder_agent",
        prompt: "x",
        budget_chars: 10_000,
    };
    let block = blocks.render_block(&home.snapshot(), &turn, &|_| unreachable!("few skills"));
    let block = block.unwrap();
    assert!(block.contains("plain") && !block.contains("csv-tools"), "{block}");
    home.set_tools("builder_agent", &[("Bash", "2.0")]);
    assert_eq!(home.listed(&builder), ["csv-tools", "plain"]);
    assert!(home.read(&builder, "csv-tools").is_ok());
    assert_eq!(home.listed(&CallContext { origin: CallOrigin::Operator, ..builder }).len(), 2);
}

#[test]
fn frontmatter_declares_like_skill_yaml() {
    let home = DeclaredHome::new(&[("plain", "")]);
    let text = "---\nname: fm\ndescription: About fm.\nmetadata:\n  tools: |\n    dependencies:\n      \
                - {tool: Bash, required: true, purpose: x}\n---\nBody.\n";
    home.fixture.write("skills/fm/SKILL.md", text);
    home.store.poll_full();
    home.index.refresh();
    home.set_tools("a", &[]);
    assert_eq!(home.listed(&caller("a")), ["plain"]);
    // The same length, so that only the declaration differs.
    home.fixture
        .write("skills/fm/SKILL.md", text.replace("true,", "no  ,").replace("no  ", "false"));
    home.store.poll_full();
    home.index.refresh();
    assert_eq!(home.listed(&caller("a")), ["fm", "plain"]);
}

#[test]
fn changed_skill_yaml_is_read_again() {
    let home = DeclaredHome::new(&[("csv-tools", "")]);
    home.set_tools("a", &[]);
    assert_eq!(home.listed(&caller("a")), ["csv-tools"]);
    let before = home.index.revision();
    let file = home.fixture.write("skills/csv-tools/skill.yaml", NEEDS_BASH);
    home.index.refresh();
    assert_eq!(home.listed(&caller("a")), Vec::<String>::new());
    assert!(home.index.revision() > before);
    let unchanged = home.index.revision();
    home.index.refresh();
    assert_eq!(home.index.revision(), unchanged);
    fs::remove_file(file).unwrap();
    home.index.refresh();
    assert_eq!(home.listed(&caller("a")), ["csv-tools"]);
}

#[test]
fn conflict_counts_in_either_direction() {
    let conflicts = "composition: {dependencies: [], conflicts: [b, a]}\n";
    let home = DeclaredHome::new(&[("a", conflicts), ("b", ""), ("c", "")]);
    let conflict = |one: &str, other: &str| {
        (
            ErrorKind::Conflict,
            format!("`{one}` conflicts with `{other}`: they must not be used together"),
        )
    };
    let add = |names: &[&str]| json!({"names": names, "mode": "add"});
    assert_eq!(home.load(&active(&["b"]), add(&["a"])).unwrap_err(), conflict("a", "b"));
    assert_eq!(home.load(&active(&["a"]), add(&["b"])).unwrap_err(), conflict("b", "a"));
    assert_eq!(home.load(&active(&[]), add(&["b", "c", "a"])).unwrap_err(), conflict("a", "b"));
    // A skill that conflicts with itself may be loaded, and again.
    assert_eq!(home.load(&active(&["a"]), add(&["a", "c"])), Ok(()));
    assert_eq!(home.load(&active(&["b"]), json!({"names": ["a"]})), Ok(()));
    let bound = CallContext { uses_skills: vec!["b".to_owned()], ..CallContext::default() };
    assert_eq!(home.load(&bound, json!({"names": ["a"]})).unwrap_err(), conflict("a", "b"));
    let note = "`b` conflicts with the active skill `a`: follow only one of them";
    assert_eq!(home.read(&active(&["a", "c"]), "b").unwrap()["notes"], json!([note]));
    assert_eq!(home.read(&active(&["c"]), "b").unwrap()["notes"], json!([]));
    assert_eq!(home.binding(&[], &["a", "b"]), ["`a` conflicts with `b`"]);
    assert_eq!(home.binding(&[], &["b", "c", "a"]), ["`b` conflicts with `a`"]);
    assert_eq!(home.binding(&[], &["a", "c"]), Vec::<String>::new());
}

#[test]
fn bound_skill_needs_its_tools() {
    let home = DeclaredHome::new(&[("csv-tools", NEEDS_BASH), ("plain", "")]);
    let missing = "csv-tools: Bash ≥ 2.0 is missing for a";
    assert_eq!(home.binding(&[], &["plain", "csv-tools", "gone"]), [missing]);
    assert_eq!(home.binding(&[("Bash", "2.1")], &["plain", "csv-tools"]), Vec::<String>::new());
}

#[test]
fn activation_has_capabilities_and_order() {
    let declared = "\
security:
  modifiesFiles: false
  capabilities:
    - {capability: 'file:write', reason: x}
    - {capability: 'file:read', reason: x}
    - {capability: '*', reason: x}
composition: {dependencies: [{skillName: plain, reason: x}], executionOrder: before}
";
    let home = DeclaredHome::new(&[("a", declared), ("plain", ""), ("broken", "")]);
    home.fixture.write("skills/broken/skill.yaml", b"\xff");
    let ledger =
        skill_ledger::Ledger::new(home.fixture.path("data"), Arc::new(skill_catalog::SystemClock));
    let activate = |id: &str| {
        let (snapshot, base) = (home.snapshot(), home.fixture.path(""));
        activate_skill(&home.store, &snapshot, &ledger, Audience::Model, id, &base).unwrap()
    };
    let skill = activate("a");
    // `modifiesFiles: false` contradicts `file:write`, and the narrower statement counts.
    assert_eq!(skill.capabilities, Some(vec!["*".to_owned(), "file:read".to_owned()]));
    assert_eq!((skill.precedes, skill.follows), (vec!["plain".to_owned()], vec![]));
    assert_eq!(activate("plain").capabilities, None);
    // A file that cannot be read may state anything.
    assert_eq!(activate("broken").capabilities, Some(vec![]));
    let tree = |id: &str| {
        let snapshot = home.snapshot();
        skill_tree(&home.store, &snapshot, Audience::Operator, Some(id)).unwrap().security
    };
    let stated = SkillSecurity { modifies_files: Some(false), ..SkillSecurity::default() };
    assert_eq!((tree("a"), tree("plain")), (Some(stated), None));
    let narrowest = tree("broken").unwrap();
    assert_eq!(narrowest.file_scope, Some(SkillFileScope::SkillDirectory));
    assert_eq!(narrowest.requires_network, Some(false));
}

#[test]
fn home_without_declarations_hides_nothing() {
    let home = DeclaredHome::new(&[("plain", "")]);
    home.set_tools("a", &[("x", "1")]);
    assert!(home.index.hidden_skills(&caller("a")).is_empty());
    let context = caller("a");
    let counted = allocation_counter::measure(|| {
        let hidden = home.index.hidden_skills(&context);
        assert!(hidden.is_empty());
    });
    assert_eq!(counted.count_total, 0);
}
