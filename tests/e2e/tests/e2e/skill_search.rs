//! Tests of `skillhost skill search` and of `list_skills` with a query.

use std::fs;

use serde_json::json;
use test_support::TestHome;

use crate::fixtures::{home, skill_md, start_kernel};

/// Creates a home with only skills: no manifest, no trust, no settings.
fn skills_home() -> TestHome {
    let named = |name: &str, description: &str, more: &str, body: &str| {
        format!("---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n")
    };
    TestHome::new()
        .trusted()
        .skill(
            "pdf-forms",
            &named("pdf-forms", "Fills in PDF forms.", "tags: [paper]\n", "# Fields\nRead them."),
        )
        .skill(
            "pull-requests",
            &named("pull-requests", "Reviews a pull request.", "", "Look at the diff."),
        )
        .skill("tea", &named("tea", "Brews tea.", "", "A pull of the lever is a request."))
}

#[test]
fn skills_are_found_by_purpose() {
    let home = skills_home();
    // The scores of the reference ranker are stable across changes of the index.
    let ranker = ["--ranker", "reference"];
    let search =
        |words: &[&str]| home.skillhost(["skill", "search"].iter().chain(words).chain(&ranker));
    insta::assert_snapshot!(search(&["filling", "a", "form"]), @"
    exit 0
    --- stdout
    pdf-forms   14.08  Fills in PDF forms. [name, description]
    --- stderr
    note: 1 warning; `skillhost skill show ID` prints those of a skill
    ");
    // Words in the body count, and the best match is first.
    insta::assert_snapshot!(search(&["pull", "lever", "--limit", "1"]), @"
    exit 0
    --- stdout
    tea    9.41  Brews tea. [body]
    --- stderr
    note: 1 more; --limit shows them
    note: 1 warning; `skillhost skill show ID` prints those of a skill
    ");
    insta::assert_snapshot!(search(&["\"pull request\"", "rev*"]), @"
    exit 0
    --- stdout
    pull-requests   11.56  Reviews a pull request. [name, description]
    --- stderr
    note: 1 warning; `skillhost skill show ID` prints those of a skill
    ");
    insta::assert_snapshot!(search(&["tea \"of china\""]), @r#"
    exit 0
    --- stdout
    tea    9.97  Brews tea. [name, description]
    --- stderr
    note: no skill has "of china": searched without it
    note: 1 warning; `skillhost skill show ID` prints those of a skill
    "#);
    insta::assert_snapshot!(search(&["pull", "--tag", "paper"]), @"
    exit 0
    --- stderr
    note: none of 3 skills matches
    note: 1 warning; `skillhost skill show ID` prints those of a skill
    ");
    insta::assert_snapshot!(search(&["xyzzy"]), @"
    exit 0
    --- stderr
    note: none of 3 skills matches
    note: 1 warning; `skillhost skill show ID` prints those of a skill
    ");
    insta::assert_snapshot!(search(&[" "]), @"
    exit 2
    --- stderr
    error: the query is empty
    hint: say what the skill is for; `skillhost skill list` prints all of them
    ");
    // A search creates no files.
    let entries: Vec<_> = fs::read_dir(home.path("sandbox")).unwrap().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
}

#[test]
fn search_explains_scores() {
    let home = skills_home();
    let args = ["skill", "search", "pull request", "--ranker", "bm25f", "--explain"];
    insta::assert_snapshot!(home.skillhost(args), @"
    exit 0
    --- stdout
    pull-requests    1.93  Reviews a pull request. [name, description]
    tea              0.31  Brews tea. [body]

    pull-requests has \"pull\" in its name and description, \"request\" in its name and description.
    tea has \"pull\" in its body, \"request\" in its body.

    ranker bm25f, 2 candidates
    term    in query in skills weight
    pull    1        2         0.5895
    request 1        2         0.5895

    pull-requests  1.9290
    pull (name, description); request (name, description)
    feature   value  weight contribution
    lex       1.9290 1.0000 1.9290
    sqrt(lex) 1.3889 0.0000 0.0000

    tea  0.3052
    pull (body); request (body)
    feature   value  weight contribution
    lex       0.3052 1.0000 0.3052
    sqrt(lex) 0.5524 0.0000 0.0000
    --- stderr
    note: 1 warning; `skillhost skill show ID` prints those of a skill
    ");
    let args = ["skill", "search", "fields", "--json", "--explain"];
    let found = home.skillhost(args).success().json();
    let hit = &found["explanation"]["hits"][0];
    assert_eq!((&hit["id"], &hit["fields"]), (&json!("pdf-forms"), &json!(["headings", "body"])));
    assert_eq!(hit["score"], found["skills"][0]["score"]);
    let parts = hit["contributions"].as_array().unwrap().iter();
    let sum: f64 = parts.map(|part| part["contribution"].as_f64().unwrap()).sum();
    assert!((sum - hit["score"].as_f64().unwrap()).abs() < 1e-9, "{hit}");
}

#[test]
fn search_json_matches_tool() {
    let home = skills_home();
    let args = ["skill", "search", "tea", "--json", "--ranker", "reference"];
    let mut found = home.skillhost(args).success().json();
    let score = found["skills"][0]["score"].take();
    assert!(score.as_f64().is_some_and(|score| score > 0.0), "{score}");
    let expected = json!({
        "generation": 1, "schema_version": 1, "total": 3, "matched": 1, "omitted": 0, "unmet": [],
        "ranked_by": "index", "ranker": "reference",
        "skills": [{
            "skill_id": "tea", "description": "Brews tea.", "tags": [], "tokens": 9,
            "source": "sandbox", "trust": "operator", "model_invocable": true, "score": null,
            "matched": ["name", "description"],
        }],
    });
    assert_eq!(found, expected);
}

#[test]
fn any_text_is_valid_query() {
    let (home, shipped) = (skills_home(), home());
    let hostile = [
        "AND",
        "NEAR(a b, 3)",
        "\"",
        "tea* OR \"",
        "{body} : tea",
        "name:tea",
        "-- '; DROP",
        "^tea",
        "🦀",
        "\u{202e}aet",
        "עברית",
        "代码审查",
        "\u{0}tea",
    ];
    for query in hostile {
        // Arguments of a program cannot contain NUL bytes.
        if !query.contains('\0') {
            home.skillhost(["skill", "search", "--", query]).success();
        }
        let call = json!({ "query": query }).to_string();
        shipped.skillhost(["tool", "call", "list_skills", &call]).success();
    }
    let long = "pull ".repeat(20_000);
    let found = home.skillhost(["skill", "search", "--limit", "1", &long]).success();
    assert!(found.stdout.starts_with("pull-requests"), "{}", found.stdout);
}

#[test]
fn search_finds_new_skill() {
    let home = home();
    let kernel = start_kernel(&home);
    let search = |query: &str| {
        let call = json!({ "query": query }).to_string();
        home.skillhost(["tool", "call", "list_skills", &call]).success().stdout
    };
    assert!(search("somebody arriving").contains("• `greet` — Greets people."));
    assert!(search("zebra").starts_with("None of the 1 skills matches."));
    home.write("sandbox/skills/zoo/SKILL.md", skill_md("Feeds animals.", "Hay for the zebra."));
    kernel.line_with("skill.added zoo ");
    assert!(search("zebras").contains("• `zoo` — Feeds animals."), "{}", search("zebras"));
    kernel.interrupt().success();
}

#[test]
fn large_catalog_index_survives_restart() {
    let mut home = home();
    for at in 0..70 {
        let text = skill_md(&format!("About topic{at}."), &format!("Deep inside is word{at}."));
        home = home.skill(&format!("s{at:02}"), &text);
    }
    let search = |query: &str| {
        let call = json!({ "query": query }).to_string();
        home.skillhost(["tool", "call", "list_skills", &call, "--json"]).success().json()
    };
    let kernel = start_kernel(&home);
    let database = home.path("sandbox/data/skill_registry/registry.sqlite3");
    let found = search("word33");
    assert_eq!(found["structured"]["skills"][0]["skill_id"], "s33", "{found}");
    kernel.interrupt().success();
    assert!(database.is_file());
    // Without the service, the search uses the stored index or a temporary one.
    let found = search("word33");
    assert_eq!(found["structured"]["skills"][0]["skill_id"], "s33", "{found}");
    // The skill list requires no index.
    fs::remove_dir_all(home.path("sandbox/data")).unwrap();
    home.skillhost(["skill", "list"]).success();
    home.skillhost(["skill", "search", "word33"]).success();
    assert!(!home.path("sandbox/data").exists());
}
