//! The audiences of skills: states, scopes, and the block of a turn.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use skill_catalog::{
    AgentScope, Audience, CatalogScope, Skill, SkillState, Snapshot, Store, SystemClock,
};
use skill_ledger::{ActivationLog, Ledger, LedgerSync};
use skill_search::Ranker;
use skill_service::{
    BlockRequest, CatalogBlocks, ListSkillsArgs, RankedSkills, ReadResourceArgs, ReadSkillArgs,
    SkillQuery, SkillSearcher, explain_catalog, list_skills, read_skill, read_skill_resource,
    skill_content, tool_specs,
};
use skillhost_payload::ErrorKind;

use crate::fixture::StoreFixture;

fn write(fixture: &StoreFixture, id: &str, more: &str, description: &str) {
    let text = format!("---\nname: {id}\ndescription: {description}\n{more}---\nBody of {id}.\n");
    fixture.write(&format!("skills/{id}/SKILL.md"), text);
    fixture.write(&format!("skills/{id}/notes.md"), "Notes.");
}

/// Creates five skills, one of each state, and one whose frontmatter reserves it for users.
fn fixture() -> (StoreFixture, Store) {
    let fixture = StoreFixture::new();
    for id in ["fully", "named", "private", "stopped"] {
        write(&fixture, id, "", &format!("About {id} things."));
    }
    write(&fixture, "own", "disable-model-invocation: true\n", "About own things.");
    let mut options = fixture.options(&["skills"]);
    options.skills = serde_json::from_value(json!({
        "named": "name-only", "priv*": "user-only", "stopped": "off", "own": "on",
    }))
    .unwrap();
    let store = fixture.open_with(options);
    (fixture, store)
}

fn strings(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

/// Returns the kind of an error, or `None`.
fn kind<T>(result: Result<T, skill_catalog::RegistryError>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind)
}

#[test]
fn states_define_audiences() {
    let (_scene, store) = fixture();
    let snapshot = store.snapshot();
    let bound = strings(&["fully", "named", "private", "stopped", "own"]);
    let binding =
        Audience::Agent(AgentScope { catalog: CatalogScope::None, bound: &bound, hidden: &[] });
    // id, state, in the catalog, read by models, read by an agent that binds it, may be bound.
    let denied = Some(ErrorKind::Denied);
    let gone = Some(ErrorKind::NotFound);
    let cases = [
        ("fully", SkillState::On, true, None, None, None),
        ("named", SkillState::NameOnly, true, None, None, None),
        ("private", SkillState::UserOnly, false, denied, None, None),
        ("own", SkillState::UserOnly, false, denied, None, None),
        ("stopped", SkillState::Off, false, gone, gone, denied),
    ];
    let catalog = snapshot.catalog(AgentScope::default(), 8_000).unwrap().text.to_string();
    assert!(catalog.contains("• `fully` — About fully things.\n• `named`\n"), "{catalog}");
    for (id, state, listed, read, read_bound, binds) in cases {
        let skill = snapshot.get(id).unwrap();
        assert_eq!(snapshot.state(skill), state, "{id}");
        assert_eq!(catalog.contains(&format!("`{id}`")), listed, "{id}");
        let reads = |audience| {
            let args = ReadSkillArgs { skill_id: id.to_owned() };
            let skill = kind(read_skill(&store, &snapshot, audience, &args));
            let (skill_id, path) = (id.to_owned(), "notes.md".to_owned());
            let args = ReadResourceArgs { skill_id, path, offset: None, limit: None };
            assert_eq!(kind(read_skill_resource(&snapshot, audience, &args)), skill, "{id}");
            skill
        };
        assert_eq!(reads(Audience::Model), read, "{id}");
        assert_eq!(reads(binding), read_bound, "{id}");
        assert_eq!(reads(Audience::Operator), None, "{id}");
        assert_eq!(kind(skill_content(&store, &snapshot, id, Path::new(""))), binds, "{id}");
    }
    let error = skill_content(&store, &snapshot, "stopped", Path::new("")).unwrap_err();
    assert_eq!(
        (error.message.as_str(), error.hint.to_string().as_str()),
        (
            "`stopped` is off: skillhost.yaml has extensions.skill_registry.skills.stopped: off",
            "run `skillhost skill enable stopped`, or do not bind the skill",
        )
    );
    let list = |audience| list_skills(&snapshot, audience, &ListSkillsArgs::default()).text;
    assert_eq!(
        list(Audience::Model),
        "2 skills\n\
         • `fully` — About fully things. [~4 tokens; skills]\n\
         • `named` — About named things. [~4 tokens; skills, name-only]"
    );
    let operator = list(Audience::Operator);
    for mark in ["`private` — About private things. [~5 tokens; skills, user-only]", ", off]"] {
        assert!(operator.contains(mark), "{operator}");
    }
}

/// Returns the skills that a model of a scope sees, by every access.
fn shown(store: &Store, scope: AgentScope<'_>) -> Vec<String> {
    let (snapshot, audience) = (store.snapshot(), Audience::Agent(scope));
    let listed = list_skills(&snapshot, audience, &ListSkillsArgs::default()).structured;
    let ids: Vec<String> = listed["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skill| skill["skill_id"].as_str().unwrap().to_owned())
        .collect();
    let catalog = snapshot.catalog(scope, 8_000);
    let lines: Vec<String> = catalog
        .iter()
        .flat_map(|catalog| catalog.text.lines())
        .filter_map(|line| Some(line.strip_prefix("• `")?.split('`').next()?.to_owned()))
        .collect();
    assert_eq!(lines, ids, "{scope:?}");
    let tools = tool_specs(&snapshot, audience);
    let schema = &tools.iter().find(|tool| tool.name == "read_skill").unwrap().input_schema;
    let offered: Option<Vec<String>> =
        serde_json::from_value(schema["properties"]["skill_id"]["enum"].clone()).unwrap();
    assert_eq!(offered.unwrap_or_default(), ids, "{scope:?}");
    for skill in snapshot.skills() {
        let id = skill.id().as_str();
        let read =
            read_skill(store, &snapshot, audience, &ReadSkillArgs { skill_id: id.to_owned() });
        let is_bound = scope.bound.iter().any(|bound| bound == id);
        assert_eq!(read.is_ok(), ids.iter().any(|shown| shown == id) || is_bound, "{scope:?} {id}");
    }
    let similar = snapshot.similar("code-reviw", audience);
    assert!(similar.iter().all(|id| ids.contains(id)), "{scope:?}: {similar:?}");
    ids
}

#[test]
fn scope_applies_to_every_access() {
    let fixture = StoreFixture::new();
    for id in ["code-old", "code-review", "code-style", "deploy"] {
        write(&fixture, id, "", &format!("About {id}."));
    }
    let store = fixture.open();
    let bound = strings(&["deploy"]);
    let globs = |include: &[&str], exclude: &[&str]| (strings(include), strings(exclude));
    let all = ["code-old", "code-review", "code-style", "deploy"];
    let simple = [
        (CatalogScope::All, &all[..]),
        (CatalogScope::Declared, &["deploy"]),
        (CatalogScope::None, &[]),
    ];
    for (catalog, expected) in simple {
        assert_eq!(shown(&store, AgentScope { catalog, bound: &bound, hidden: &[] }), expected);
    }
    let cases = [
        (globs(&["code-*"], &[]), &all[..3]),
        (globs(&["*"], &["*-old", "deploy"]), &all[1..3]),
        (globs(&["code-*"], &["code-old"]), &all[1..3]),
        (globs(&[], &[]), &[]),
        (globs(&["nothing-*"], &[]), &[]),
        // An invalid glob must not reveal the skills that it was written to hide.
        (globs(&["*"], &["a["]), &[]),
    ];
    for ((include, exclude), expected) in cases {
        let catalog = CatalogScope::Globs { include: &include, exclude: &exclude };
        assert_eq!(
            shown(&store, AgentScope { catalog, bound: &[], hidden: &[] }),
            expected,
            "{include:?} {exclude:?}"
        );
    }
    let (include, exclude) = globs(&["code-*", "cod"], &["a[", "x*"]);
    let scope = AgentScope {
        catalog: CatalogScope::Globs { include: &include, exclude: &exclude },
        bound: &[],
        hidden: &[],
    };
    let snapshot = store.snapshot();
    let unmatched = snapshot.view(scope).unmatched(&snapshot);
    assert_eq!(
        serde_json::to_value(unmatched).unwrap(),
        json!([
            {"pattern": "cod", "reason": "it matches no skill"},
            {"pattern": "x*", "reason": "it matches no skill"},
            {"pattern": "a[", "reason": "it is not a valid glob: unclosed character class; missing ']'"},
        ])
    );
}

#[test]
fn scope_hides_other_skills() {
    let fixture = StoreFixture::new();
    write(&fixture, "code-review", "", "About reviews.");
    let store = fixture.open();
    let scope = AgentScope { catalog: CatalogScope::None, bound: &[], hidden: &[] };
    let read = |id: &str| {
        let args = ReadSkillArgs { skill_id: id.to_owned() };
        read_skill(&store, &store.snapshot(), Audience::Agent(scope), &args).unwrap_err()
    };
    for id in ["code-review", "code-review@skills"] {
        let (hidden, missing) = (read(id), read("code-reviews"));
        assert_eq!(hidden.message, format!("skill `{id}` not found"));
        assert_eq!((hidden.kind, hidden.hint), (missing.kind, missing.hint));
    }
}

/// A large catalog and the builder of its blocks.
struct Large {
    fixture: StoreFixture,
    store: Store,
    blocks: CatalogBlocks,
    searcher: SkillSearcher,
}

impl Large {
    fn new(skills: &[(&str, &str)]) -> Self {
        let fixture = StoreFixture::new();
        for number in 0..200 {
            let filler = "Keeps shelves of unrelated things in their places, year after year. \
                Use when the shelves are full and nobody else is there to carry them away.";
            write(&fixture, &format!("filler-{number:03}"), "", filler);
        }
        for (id, description) in skills {
            write(&fixture, id, "", description);
        }
        let store = fixture.open_warm();
        Self { fixture, store, blocks: CatalogBlocks::new(40), searcher: SkillSearcher::new() }
    }

    fn search(
        &self,
        snapshot: &Arc<Snapshot>,
        prompt: &str,
        admits: &dyn Fn(&Skill) -> bool,
    ) -> RankedSkills {
        self.searcher.build_index(&self.store, snapshot);
        let ranker = Ranker::reference();
        let ask = SkillQuery {
            query: prompt,
            limit: 100,
            tags: &[],
            admits,
            ranker: &ranker,
            semantics: None,
        };
        self.searcher.search(&self.store, snapshot, &ask)
    }

    fn turn<'a>(scope: AgentScope<'a>, session_id: &'a str, prompt: &'a str) -> BlockRequest<'a> {
        BlockRequest { scope, session_id, agent_id: "agent", prompt, budget_chars: 3_000 }
    }

    fn block(&self, session_id: &str, prompt: &str) -> Arc<str> {
        let snapshot = self.store.snapshot();
        let turn = Self::turn(AgentScope::default(), session_id, prompt);
        let ready = self.blocks.cached_block(&snapshot, &turn);
        let search = |admits: &dyn Fn(&Skill) -> bool| self.search(&snapshot, prompt, admits);
        let block = self.blocks.render_block(&snapshot, &turn, &search).unwrap();
        assert!(ready.is_none_or(|ready| ready.as_ref() == Some(&block)));
        block
    }
}

const SHARED: [(&str, &str); 3] = [
    ("zebra-care", "Feeds zebras."),
    ("violin-repair", "Mends violins."),
    ("quilt-making", "Sews quilts."),
];

#[test]
fn session_block_appends_changes() {
    let large = Large::new(&SHARED);
    let first = large.block("s", "please feed the zebras");
    let head =
        "<available_skills>\n[Available Skills]\n• `zebra-care` — Feeds zebras.\n• `filler-000`\n";
    assert!(first.starts_with(head), "{first}");
    let cut = first.find("\n(").unwrap() + 1;
    // The same prompt again, a prompt of no skill's: the same bytes.
    assert_eq!(large.block("s", "please feed the zebras"), first);
    assert_eq!(large.block("s", "go on"), first);
    let second = large.block("s", "and tune my violin");
    let (_, news) = second.split_at(cut);
    assert_eq!(second[..cut], first[..cut]);
    assert!(news.starts_with("new:\n• `violin-repair` — Mends violins.\n("), "{news}");
    // Another session starts with the matches of its own prompt.
    assert!(
        large
            .block("t", "tune my violin")
            .starts_with("<available_skills>\n[Available Skills]\n• `violin-repair`")
    );
    // Hot removal: gone after one more poll.
    std::fs::remove_dir_all(large.fixture.path("skills/zebra-care")).unwrap();
    large.store.poll();
    large.store.poll();
    let third = large.block("s", "and sew a quilt");
    let before = second.rfind("\n(").unwrap() + 1;
    assert_eq!(third[..before], second[..before]);
    let news = "new:\n• `quilt-making` — Sews quilts.\nremoved: `zebra-care`\n(";
    assert!(third[before..].starts_with(news), "{third}");
    // A line has changed: the block is rebuilt.
    large.fixture.write(
        "skills/quilt-making/SKILL.md",
        "---\nname: quilt-making\ndescription: Sews large quilts.\n---\nBody.\n",
    );
    large.store.poll_full();
    let fourth = large.block("s", "and sew a quilt");
    let head = "<available_skills>\n[Available Skills]\n• `quilt-making` — Sews large quilts.\n• `filler-000`\n";
    assert!(fourth.starts_with(head), "{fourth}");
}

#[test]
fn bound_and_recent_skills_precede() {
    let large = Large::new(&SHARED);
    let bound = strings(&["quilt-making"]);
    let scope = AgentScope { catalog: CatalogScope::All, bound: &bound, hidden: &[] };
    large.blocks.record_read("s", "agent", "violin-repair");
    large.blocks.record_read("s", "other", "filler-007");
    let snapshot = large.store.snapshot();
    let search = |admits: &dyn Fn(&Skill) -> bool| large.search(&snapshot, "zebras", admits);
    let block =
        large.blocks.render_block(&snapshot, &Large::turn(scope, "s", "zebras"), &search).unwrap();
    let head = "<available_skills>\n[Available Skills]\n• `quilt-making` — Sews quilts.\n\
        • `violin-repair` — Mends violins.\n• `zebra-care` — Feeds zebras.\n• `filler-000`\n";
    assert!(block.starts_with(head), "{block}");
    assert!(block.chars().count() <= 3_000);
}

#[test]
fn small_catalog_is_listed_and_shared() {
    let large = Large::new(&SHARED);
    let snapshot = large.store.snapshot();
    let never = |_: &dyn Fn(&Skill) -> bool| -> RankedSkills { panic!("no search is needed") };
    let include = strings(&["*-care", "*-repair"]);
    let few = CatalogScope::Globs { include: &include, exclude: &[] };
    let few = Large::turn(AgentScope { catalog: few, bound: &[], hidden: &[] }, "s", "zebras");
    let roomy =
        BlockRequest { budget_chars: 60_000, ..Large::turn(AgentScope::default(), "s", "zebras") };
    for turn in [few, roomy] {
        assert_eq!(large.blocks.cached_block(&snapshot, &turn), None);
        let block = large.blocks.render_block(&snapshot, &turn, &never).unwrap();
        let ready = large.blocks.cached_block(&snapshot, &turn).unwrap().unwrap();
        assert!(Arc::ptr_eq(&block, &ready));
        let other = BlockRequest { session_id: "other", prompt: "violins", ..turn };
        assert!(Arc::ptr_eq(
            &block,
            &large.blocks.cached_block(&snapshot, &other).unwrap().unwrap()
        ));
        let again = || drop(large.blocks.cached_block(&snapshot, &other));
        assert_eq!(allocation_counter::measure(again).count_total, 0);
    }
    let none = Large::turn(
        AgentScope { catalog: CatalogScope::None, bound: &[], hidden: &[] },
        "s",
        "zebras",
    );
    assert_eq!(large.blocks.render_block(&snapshot, &none, &never), None);
    assert_eq!(large.blocks.cached_block(&snapshot, &none), Some(None));
}

#[test]
fn offers_are_counted_once_per_turn() {
    let large = Large::new(&SHARED);
    let snapshot = large.store.snapshot();
    let ledger_home = StoreFixture::new();
    let ledger = Ledger::new(ledger_home.path("data"), Arc::new(SystemClock));
    let log = ActivationLog::new(Arc::clone(large.blocks.offers()));
    let count = || {
        assert!(LedgerSync::new(&ledger).flush_completely(&log).trouble.is_none());
        let usage = ledger.skill_usage(None).unwrap();
        let of = |id: &str| {
            let found = usage.iter().find(|usage| usage.skill_id == id);
            found.map_or((0, 0), |found| (found.counts.offered, found.counts.surfaced))
        };
        let most = usage.iter().map(|usage| usage.counts.offered).max();
        (usage.len(), most, of("zebra-care"))
    };
    let include = strings(&["*-care", "*-repair"]);
    let few = CatalogScope::Globs { include: &include, exclude: &[] };
    let few = Large::turn(AgentScope { catalog: few, bound: &[], hidden: &[] }, "s", "zebras");
    large.blocks.render_block(&snapshot, &few, &|_| panic!("no search is needed")).unwrap();
    large.blocks.cached_block(&snapshot, &few).unwrap().unwrap();
    let (listed, most, zebra) = count();
    // A complete list surfaces no skill.
    assert_eq!((listed > 1, most, zebra), (true, Some(2), (2, 0)));
    let picked = Large::turn(AgentScope::default(), "s", "feed the zebras");
    large.block("s", "feed the zebras");
    large.blocks.cached_block(&snapshot, &picked).unwrap().unwrap();
    assert_eq!(count().2, (4, 2));
    // Another prompt keeps the line, and no longer matches it.
    large.block("s", "tune my violin");
    assert_eq!(count().2, (5, 2));
    // An explanation is no turn.
    let search = |admits: &dyn Fn(&Skill) -> bool| large.search(&snapshot, "zebras", admits);
    drop(explain_catalog(&large.blocks, &snapshot, &picked, &search));
    assert_eq!(count().2, (5, 2));
}

#[test]
fn picked_block_is_reused_within_turn() {
    let large = Large::new(&SHARED);
    let snapshot = large.store.snapshot();
    let turn = Large::turn(AgentScope::default(), "s", "feed the zebras");
    assert_eq!(large.blocks.cached_block(&snapshot, &turn), None);
    let block = large.block("s", "feed the zebras");
    let ready = large.blocks.cached_block(&snapshot, &turn).unwrap().unwrap();
    assert!(Arc::ptr_eq(&block, &ready));
    for other in [
        BlockRequest { prompt: "tune my violin", ..turn },
        BlockRequest { session_id: "t", ..turn },
        BlockRequest { agent_id: "other", ..turn },
        BlockRequest { budget_chars: turn.budget_chars - 1, ..turn },
    ] {
        assert_eq!(large.blocks.cached_block(&snapshot, &other), None, "{other:?}");
    }
    // A changed catalog requires another search.
    write(&large.fixture, "violin-repair", "", "Mends violins and bows.");
    large.store.poll();
    assert_eq!(large.blocks.cached_block(&large.store.snapshot(), &turn), None);
}

#[test]
fn explanation_names_reason_for_omission() {
    let large = Large::new(&SHARED);
    write(&large.fixture, "secret", "disable-model-invocation: true\n", "Zebras in secret.");
    let mut options = large.fixture.options(&["skills"]);
    options.skills = BTreeMap::from([
        ("violin-repair".to_owned(), SkillState::Off),
        ("violni".to_owned(), SkillState::Off),
    ]);
    let store = large.fixture.open_with(options);
    let snapshot = store.snapshot();
    let (include, exclude) = (strings(&["*"]), strings(&["quilt-*", "nothing-*"]));
    let catalog = CatalogScope::Globs { include: &include, exclude: &exclude };
    let turn = Large::turn(AgentScope { catalog, bound: &[], hidden: &[] }, "s", "feed zebras");
    let searcher = SkillSearcher::new();
    searcher.build_index(&store, &snapshot);
    let ranker = Ranker::reference();
    let search = |admits: &dyn Fn(&Skill) -> bool| {
        let ask = SkillQuery {
            query: "feed zebras",
            limit: 100,
            tags: &[],
            admits,
            ranker: &ranker,
            semantics: None,
        };
        searcher.search(&store, &snapshot, &ask)
    };
    let answer = explain_catalog(&large.blocks, &snapshot, &turn, &search);
    let of = |id: &str| -> Value {
        let skills = answer.structured["skills"].as_array().unwrap();
        let skill = skills.iter().find(|skill| skill["skill_id"] == id).unwrap();
        json!([skill["visible"], skill["in_block"], skill["absent"], skill["rank"]])
    };
    assert_eq!(of("zebra-care"), json!([true, true, null, 1]));
    assert_eq!(of("secret"), json!([false, false, "user_only", null]));
    assert_eq!(of("violin-repair"), json!([false, false, "off", null]));
    assert_eq!(of("quilt-making"), json!([false, false, "scope", null]));
    assert_eq!(of("filler-199"), json!([true, false, "budget", null]));
    assert_eq!(answer.structured["unmatched_globs"][0]["pattern"], "nothing-*");
    assert_eq!(answer.structured["unmatched_settings"][0]["pattern"], "violni");
    let report = &answer.structured["block"];
    assert_eq!(report["listed"].as_u64().unwrap() + report["omitted"].as_u64().unwrap(), 201);
    assert!(
        answer.text.starts_with("201 of 204 skills visible; picked for the prompt\n"),
        "{}",
        answer.text
    );
    for line in [
        "\n  1. zebra-care ",
        "\n1 off in the settings: violin-repair\n",
        "\n1 for users only: secret\n",
        "\n1 outside the agent's catalog: quilt-making\n",
        "\nno effect: `nothing-*` of catalog: it matches no skill\n",
        "\nno effect: `violni` of skills in the settings: skill not found",
    ] {
        assert!(answer.text.contains(line), "{line}: {}", answer.text);
    }
    // Explaining leaves no trace in a session.
    assert!(
        large
            .block("s", "feed zebras")
            .starts_with("<available_skills>\n[Available Skills]\n• `zebra-care`")
    );
}
