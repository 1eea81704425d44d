//! The search: an index that follows the snapshot, and the results before it is built.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use skill_catalog::{Audience, ManualClock, Skill, Snapshot, Store};
use skill_ledger::Ledger;
use skill_search::Ranker;
use skill_service::{
    ListSkillsArgs, RankingSource, SearchContext, SkillQuery, SkillSearcher, search_skills,
};

use crate::fixture::{StoreFixture, tick};

/// Writes a skill that is about something.
pub(crate) fn write(fixture: &StoreFixture, id: &str, description: &str, body: &str) {
    let text = format!("---\nname: {id}\ndescription: {description}\n---\n{body}\n");
    fixture.write(&format!("skills/{id}/SKILL.md"), text);
}

pub(crate) fn fixture() -> StoreFixture {
    let fixture = StoreFixture::new();
    write(&fixture, "pdf-forms", "Fills in PDF forms.", "# Fields\nRead every field of the form.");
    write(&fixture, "pull-requests", "Reviews a pull request.", "Look at the diff, then comment.");
    write(&fixture, "kubernetes", "Deploys to a cluster.", "# Rollback\nUndo the deployment.");
    write(&fixture, "tea", "Brews tea.", "Boil water. A pull of the lever is a request.");
    fixture.write(
        "skills/secret/SKILL.md",
        "---\nname: secret\ndescription: Fills in secret forms.\ntags: [Hidden, paper]\n\
         disable-model-invocation: true\n---\nBurn after reading.\n",
    );
    fixture
}

pub(crate) fn everybody(_: &Skill) -> bool {
    true
}

/// Returns the ids that a query finds, the best first, and their source.
fn found(
    searcher: &SkillSearcher,
    store: &Store,
    snapshot: &Arc<Snapshot>,
    query: &str,
) -> (Vec<String>, RankingSource) {
    let ranker = Ranker::standard();
    let admits = &everybody;
    let ask = SkillQuery { query, limit: 100, tags: &[], admits, ranker: &ranker, semantics: None };
    let ranked = searcher.search(store, snapshot, &ask);
    assert_eq!(ranked.matched, ranked.hits.len());
    assert!(ranked.hits.is_sorted_by(|a, b| a.score >= b.score), "{query}");
    (ranked.hits.iter().map(|hit| hit.skill.id().to_string()).collect(), ranked.by)
}

pub(crate) fn ids(searcher: &SkillSearcher, store: &Store, query: &str) -> Vec<String> {
    found(searcher, store, &store.snapshot(), query).0
}

pub(crate) fn tool(
    store: &Store,
    searcher: &SkillSearcher,
    audience: Audience<'_>,
    args: serde_json::Value,
) -> (String, serde_json::Value) {
    let (snapshot, ranker) = (store.snapshot(), Ranker::standard());
    let search =
        SearchContext { store, snapshot: &snapshot, searcher, ranker: &ranker, semantics: None };
    let args: ListSkillsArgs = serde_json::from_value(args).unwrap();
    let answer = search_skills(&search, audience, &args);
    (answer.text, answer.structured)
}

pub(crate) fn ledger(fixture: &StoreFixture) -> Ledger {
    let clock: Arc<ManualClock> = Arc::clone(&fixture.clock);
    Ledger::new(fixture.path("data"), clock)
}

fn by_index(generation: u64, current: bool) -> RankingSource {
    RankingSource::Index { generation, current }
}

#[test]
fn first_query_indexes_bodies() {
    let fixture = fixture();
    let store = fixture.open();
    let searcher = SkillSearcher::new();
    assert_eq!((searcher.generation(), searcher.heap_bytes()), (None, 0));
    let (hits, by) = found(&searcher, &store, &store.snapshot(), "undo a deployment");
    assert_eq!((hits, by), (vec!["kubernetes".to_owned()], by_index(1, true)));
    assert!(searcher.heap_bytes() > 100);
    assert_eq!(ids(&searcher, &store, "fields of a form"), ["pdf-forms", "secret"]);
    assert_eq!(ids(&searcher, &store, "the of and"), [""; 0]);
}

#[test]
fn listing_builds_no_index() {
    let fixture = fixture();
    let store = fixture.open();
    let searcher = SkillSearcher::with_catalog(&ledger(&fixture));
    let (text, _) = tool(&store, &searcher, Audience::Model, json!({"query": "  "}));
    assert_eq!(text.lines().next(), Some("4 skills"));
    assert_eq!(searcher.generation(), None);
    assert!(!fixture.path("data").exists());
}

#[test]
fn edits_are_found_by_next_query() {
    let fixture = fixture();
    let store = fixture.open_warm();
    let searcher = SkillSearcher::new();
    assert_eq!(ids(&searcher, &store, "zebra"), [""; 0]);
    let body = |text: &str| write(&fixture, "tea", "Brews tea.", text);
    tick(&fixture.path("skills/tea/SKILL.md"));
    body("Give the zebra water.");
    store.poll();
    assert_eq!(ids(&searcher, &store, "zebra"), ["tea"]);
    assert_eq!(ids(&searcher, &store, "boil"), [""; 0]);
    write(&fixture, "zoo", "Feeds a zebra.", "Hay.");
    store.poll();
    assert_eq!(ids(&searcher, &store, "zebra"), ["zoo", "tea"]);
    // A renamed skill keeps all its fields.
    fs::rename(fixture.path("skills/zoo"), fixture.path("skills/stable")).unwrap();
    store.poll();
    store.poll();
    assert_eq!(ids(&searcher, &store, "hay"), ["stable"]);
    fs::remove_dir_all(fixture.path("skills/stable")).unwrap();
    store.poll();
    store.poll();
    assert_eq!(ids(&searcher, &store, "zebra"), ["tea"]);
    // A rebuilt index gives the same result.
    let fresh = SkillSearcher::new();
    for query in ["zebra", "fills a form", "pull request", "deploy"] {
        let ask = |searcher: &SkillSearcher| found(searcher, &store, &store.snapshot(), query);
        assert_eq!(ask(&searcher), ask(&fresh), "{query}");
    }
}

#[test]
fn broken_skill_matches_last_good_text() {
    let fixture = fixture();
    let store = fixture.open_warm();
    let searcher = SkillSearcher::new();
    let snapshot = store.snapshot();
    // Invalid before the first query: the text comes from the cache.
    tick(&fixture.path("skills/tea/SKILL.md"));
    fixture.write("skills/tea/SKILL.md", "nothing");
    store.poll();
    assert_eq!(ids(&searcher, &store, "boil water"), ["tea"]);
    fs::remove_dir_all(fixture.path("skills/kubernetes")).unwrap();
    store.poll();
    store.poll();
    assert_eq!(ids(&searcher, &store, "cluster"), [""; 0]);
    // A holder of the earlier snapshot gets no hit that the index no longer has.
    assert_eq!(found(&searcher, &store, &snapshot, "cluster").0, [""; 0]);
    assert_eq!(found(&searcher, &store, &snapshot, "boil").1, by_index(3, false));
}

#[test]
fn unavailable_text_matches_by_frontmatter() {
    let fixture = fixture();
    let mut options = fixture.options(&["skills"]);
    options.cache_bytes = 0;
    let store = fixture.open_with(options);
    fixture.write("skills/tea/SKILL.md", "nothing");
    let searcher = SkillSearcher::new();
    assert_eq!(ids(&searcher, &store, "brews"), ["tea"]);
    assert_eq!(ids(&searcher, &store, "boil"), [""; 0]);
}

#[test]
fn shadowed_skills_are_not_searched() {
    let fixture = fixture();
    fixture.write("more/tea/SKILL.md", "---\nname: tea\ndescription: Other.\n---\nA samovar.\n");
    fixture.write("more/coffee/SKILL.md", "---\nname: coffee\ndescription: Roasts.\n---\nGrind.\n");
    let store = fixture.open_with(fixture.options(&["skills", "more"]));
    let searcher = SkillSearcher::new();
    assert_eq!(ids(&searcher, &store, "samovar"), [""; 0]);
    assert_eq!(ids(&searcher, &store, "grind"), ["coffee"]);
}

#[test]
fn large_catalog_does_not_delay_query() {
    let fixture = StoreFixture::new();
    for at in 0..70 {
        write(&fixture, &format!("s{at:02}"), &format!("About n{at}."), &format!("Deep b{at}."));
    }
    let store = fixture.open_warm();
    let searcher = SkillSearcher::with_catalog(&ledger(&fixture));
    let snapshot = store.snapshot();
    let ask = |query: &str| found(&searcher, &store, &snapshot, query);
    let one = |id: &str| vec![id.to_owned()];
    // Bodies are unknown so far, here and in the database.
    assert_eq!(ask("b33"), (vec![], RankingSource::Names));
    assert_eq!(ask("n33"), (one("s33"), RankingSource::Names));
    assert!(!fixture.path("data").exists());
    assert_eq!(searcher.sync_catalog(&store, &snapshot).unwrap(), 70);
    assert_eq!(searcher.sync_catalog(&store, &snapshot).unwrap(), 0);
    assert_eq!(ask("b33"), (one("s33"), RankingSource::Catalog));
    assert!(!searcher.wait_for_index(&snapshot, Duration::ZERO));
    searcher.build_index(&store, &snapshot);
    assert!(searcher.wait_for_index(&snapshot, Duration::ZERO));
    assert_eq!(ask("b33"), (one("s33"), by_index(1, true)));
    // A large later change is answered from the previous index.
    for at in 0..70 {
        write(&fixture, &format!("t{at:02}"), &format!("About m{at}."), "Deep.");
    }
    fs::remove_dir_all(fixture.path("skills/s33")).unwrap();
    store.poll();
    store.poll();
    let after = store.snapshot();
    let ask = |query: &str| found(&searcher, &store, &after, query);
    assert_eq!(ask("m12"), (vec![], by_index(1, false)));
    assert_eq!(ask("n33"), (vec![], by_index(1, false)));
    assert_eq!(ask("n32"), (one("s32"), by_index(1, false)));
    searcher.build_index(&store, &after);
    assert_eq!(ask("m12"), (one("t12"), by_index(after.generation(), true)));
}

#[test]
fn catalog_persists_and_follows_edits() {
    let fixture = StoreFixture::new();
    for at in 0..70 {
        write(&fixture, &format!("s{at:02}"), &format!("About n{at}."), &format!("Deep b{at}."));
    }
    let store = fixture.open_warm();
    let before = SkillSearcher::with_catalog(&ledger(&fixture));
    before.sync_catalog(&store, &store.snapshot()).unwrap();
    tick(&fixture.path("skills/s07/SKILL.md"));
    write(&fixture, "s07", "About n7.", "Deep zebra.");
    fs::remove_dir_all(fixture.path("skills/s08")).unwrap();

    let store = fixture.open_warm();
    let snapshot = store.snapshot();
    let searcher = SkillSearcher::with_catalog(&ledger(&fixture));
    let ask = |query: &str| found(&searcher, &store, &snapshot, query);
    // The catalog is stale; a removed skill is not in the result.
    assert_eq!(ask("b7"), (vec!["s07".to_owned()], RankingSource::Catalog));
    assert_eq!(ask("b8 n9"), (vec!["s09".to_owned()], RankingSource::Catalog));
    assert_eq!(searcher.sync_catalog(&store, &snapshot).unwrap(), 2);
    assert_eq!(ask("zebras"), (vec!["s07".to_owned()], RankingSource::Catalog));
    assert_eq!(ask("b7"), (vec![], RankingSource::Names));
    // Damage costs no more than the catalog.
    fs::write(fixture.path("data/registry.sqlite3"), "garbage".repeat(2_000)).unwrap();
    assert_eq!(ask("zebras"), (vec![], RankingSource::Names));
    assert_eq!(searcher.sync_catalog(&store, &snapshot).unwrap(), 69);
    assert_eq!(ask("zebras").1, RankingSource::Catalog);
}

#[test]
fn phrase_and_prefix_filters_are_required() {
    let fixture = fixture();
    let store = fixture.open_warm();
    let plain = SkillSearcher::new();
    let kept = SkillSearcher::with_catalog(&ledger(&fixture));
    kept.sync_catalog(&store, &store.snapshot()).unwrap();
    let found = |searcher: &SkillSearcher, query: &str| {
        let (_, answer) = tool(&store, searcher, Audience::Operator, json!({"query": query}));
        let skills = answer["skills"].as_array().unwrap().clone();
        let ids = skills.iter().map(|skill| skill["skill_id"].as_str().unwrap().to_owned());
        (ids.collect::<Vec<_>>(), answer["matched"].clone(), answer["unmet"].clone())
    };
    let check = |query: &str, ids: &[&str], unmet: &[&str]| {
        let expected =
            (ids.iter().map(|id| (*id).to_owned()).collect(), json!(ids.len()), json!(unmet));
        assert_eq!(found(&plain, query), expected, "{query}");
        assert_eq!(found(&kept, query), expected, "{query}, with the database");
    };
    check("pull request", &["pull-requests", "tea"], &[]);
    check("\"pull request\"", &["pull-requests"], &[]);
    check("\"a pull of the lever\"", &["tea"], &[]);
    check("kube*", &["kubernetes"], &[]);
    check("form* \"fills in\"", &["pdf-forms", "secret"], &[]);
    check("fill*", &["pdf-forms", "secret"], &[]);
    check("hid*", &["secret"], &[]);
    check("dep*", &["kubernetes"], &[]);
    check("brew \"no such phrase\"", &["tea"], &["\"no such phrase\""]);
    // Only stop words, which a ranker does not know.
    check("\"of the\"", &["pdf-forms", "tea"], &[]);
    // The database knows another text of it: the file counts.
    tick(&fixture.path("skills/tea/SKILL.md"));
    write(&fixture, "tea", "Brews tea.", "One lump or two.");
    store.poll();
    check("\"lump or two\"", &["tea"], &[]);
    check("\"of the\"", &["pdf-forms"], &[]);
}

#[test]
fn search_tool_reports_scores_and_fields() {
    let fixture = fixture();
    let store = fixture.open_warm();
    let searcher = SkillSearcher::new();
    let (text, answer) =
        tool(&store, &searcher, Audience::Operator, json!({"query": "forms", "limit": 1}));
    let score = answer["skills"][0]["score"].as_f64().unwrap();
    assert!(score > 0.0);
    assert_eq!(
        text,
        format!(
            "2 of 5 skills match, the best first\n\
             • `pdf-forms` — Fills in PDF forms. [~10 tokens; skills; score {score:.2} in name, \
             description, body]\n\
             (1 more: describe the task in more detail or raise the limit)"
        )
    );
    let expected = json!({
        "generation": 1, "total": 5, "matched": 2, "omitted": 1, "ranked_by": "index", "unmet": [],
        "skills": [{
            "skill_id": "pdf-forms", "description": "Fills in PDF forms.", "tags": [], "tokens": 10,
            "source": "skills", "trust": "operator", "model_invocable": true,
            "score": score, "matched": ["name", "description", "body"],
        }],
    });
    assert_eq!(answer, expected);
    // A model gets no sign of a skill that it may not invoke; tags narrow.
    let ids = |audience, args| -> Vec<String> {
        let (_, answer) = tool(&store, &searcher, audience, args);
        let skills = answer["skills"].as_array().unwrap();
        skills.iter().map(|skill| skill["skill_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(Audience::Model, json!({"query": "forms"})), ["pdf-forms"]);
    assert_eq!(ids(Audience::Model, json!({"query": "burn paper"})), [""; 0]);
    let tagged = json!({"query": "forms", "tags": ["paper", "HIDDEN"]});
    assert_eq!(ids(Audience::Operator, tagged.clone()), ["secret"]);
    assert_eq!(ids(Audience::Model, tagged), [""; 0]);
    let (text, _) = tool(&store, &searcher, Audience::Model, json!({"query": "xyzzy"}));
    assert_eq!(text, "None of the 4 skills matches.");
    let (text, _) =
        tool(&store, &searcher, Audience::Model, json!({"query": "tea \"x\u{1b}[2J\""}));
    assert_eq!(text.lines().nth(1), Some("(no skill has \"x 2j\": searched without it)"));
}

#[test]
fn empty_query_is_error() {
    let fixture = fixture();
    write(&fixture, "nihongo", "日本語の文章を校正する。", "誤字を直す。");
    write(&fixture, "shalom", "בודק איות בעברית.", "טקסט.");
    let store = fixture.open_warm();
    let plain = SkillSearcher::new();
    let kept = SkillSearcher::with_catalog(&ledger(&fixture));
    kept.sync_catalog(&store, &store.snapshot()).unwrap();
    // Without an index, as at the start.
    let catalog = |query: &str| {
        let words = json!({"query": query, "limit": 5});
        tool(&store, &kept, Audience::Model, words)
    };
    let queries = [
        "AND",
        "OR NOT",
        "NEAR(a b, 3)",
        "a AND (b",
        "\"",
        "\"\"\"",
        "*",
        "tea*\" OR \"",
        "name:tea",
        "name : tea",
        "{name body} : tea",
        "^tea",
        "- tea",
        "-tea",
        "+tea",
        "tea\0*",
        "\0",
        "\"\0\"",
        "🦀",
        "🦀*",
        "\"🦀\"",
        "👩‍👩‍👧‍👦 tea",
        "\u{202e}aet\u{202c}",
        "עברית",
        "日本語",
        "\"日本語\"",
        "日*",
        "'; DROP TABLE catalog; --",
        "%_",
        "\u{feff}tea",
        "\u{0300}\u{0301}",
        "tea\r\n\t\u{2028}",
    ];
    for query in queries {
        let (text, _) = tool(&store, &plain, Audience::Model, json!({"query": query}));
        assert!(text.contains("skills match") || text.contains("skill"), "{query}: {text}");
        let (again, _) = catalog(query);
        assert!(!again.is_empty(), "{query}");
    }
    let finds = |query: &str, id: &str| {
        let (_, answer) = tool(&store, &plain, Audience::Model, json!({"query": query}));
        assert_eq!(answer["skills"][0]["skill_id"], id, "{query}");
    };
    finds("日本語", "nihongo");
    finds("\"文章を\"", "nihongo");
    finds("校*", "nihongo");
    finds("בעברית", "shalom");
    finds("tea\0", "tea");
    let long = ["tea ".repeat(250_000), "x".repeat(1 << 20), "\"".repeat(1 << 20)];
    for query in long {
        let (text, _) = tool(&store, &plain, Audience::Model, json!({"query": query}));
        assert!(text.len() < 4_000, "{}", text.len());
        catalog(&query);
    }
}

#[test]
fn queries_do_not_wait_for_renewal() {
    let fixture = StoreFixture::new();
    for at in 0..40 {
        write(&fixture, &format!("s{at:02}"), "Steady oak.", "Steady.");
    }
    let store = fixture.open_warm();
    let searcher = SkillSearcher::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ask = || {
            let mut asked = 0;
            while !done.load(Ordering::Relaxed) || asked == 0 {
                let snapshot = store.snapshot();
                let (hits, _) = found(&searcher, &store, &snapshot, "oak maple");
                let hits: BTreeSet<String> = hits.into_iter().collect();
                // The unchanged skills are in every result, and no skill that the snapshot lacks.
                let known: BTreeSet<String> =
                    snapshot.skills().iter().map(|skill| skill.id().to_string()).collect();
                assert!(hits.is_subset(&known));
                assert_eq!(hits.iter().filter(|id| id.starts_with('s')).count(), 40);
                asked += 1;
            }
            asked
        };
        let askers = [scope.spawn(ask), scope.spawn(ask)];
        let renewing = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                searcher.build_index(&store, &store.snapshot());
            }
        });
        for round in 0..60 {
            write(&fixture, &format!("x{:02}", round % 7), &format!("Maple {round}."), "Leaf.");
            if round % 3 == 0 {
                let _ =
                    fs::remove_dir_all(fixture.path(&format!("skills/x{:02}", (round + 3) % 7)));
            }
            store.poll();
        }
        done.store(true, Ordering::Relaxed);
        renewing.join().unwrap();
        assert!(askers.map(|asker| asker.join().unwrap()).iter().all(|asked| *asked > 0));
    });
    // The final state gives the results of a rebuilt index.
    store.poll();
    store.poll();
    let fresh = SkillSearcher::new();
    let ask =
        |searcher: &SkillSearcher| found(searcher, &store, &store.snapshot(), "maple leaf oak");
    assert_eq!(ask(&searcher), ask(&fresh));
}
