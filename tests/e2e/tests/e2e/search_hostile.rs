//! Tests of searches with hostile queries and during changes of skills.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use test_support::{Output, TestHome};

use crate::fixtures::{home, skill_md, start_kernel, wait_for_poll};

/// Creates a home with skills in several scripts.
fn polyglot_home() -> TestHome {
    home()
        .skill("tea", &skill_md("お茶を淹れる。急須を使うとき。", "湯を沸かす。"))
        .skill("salam", &skill_md("يرحب بالضيوف عند الوصول.", "قل مرحبا."))
        .skill("party", &skill_md("Celebrates 🎉 with confetti.", "Throw it."))
}

fn skill_ids(found: &Value) -> Vec<&str> {
    found["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skill| skill["skill_id"].as_str().unwrap())
        .collect()
}

fn search(home: &TestHome, query: &str) -> Output {
    home.skillhost(["skill", "search", "--json", "--", query]).success()
}

/// Calls `list_skills` with the arguments on standard input, which has no length limit.
fn list_skills(home: &TestHome, arguments: &Value) -> Output {
    let input = home.outside().join("arguments.json");
    fs::write(&input, arguments.to_string()).unwrap();
    let mut command = home.command();
    command.args(["tool", "call", "--json", "list_skills", "-"]);
    home.start(command.stdin(Stdio::from(fs::File::open(&input).unwrap()))).finish()
}

#[test]
fn search_operators_are_words() {
    let home = polyglot_home();
    for query in [
        "greets OR",
        "greets AND NOT NEAR",
        "NEAR(greets people, 2)",
        "name:greets",
        "{name description} : greets",
        "^greets",
        "-greets",
        "+greets",
        "(greets",
        "greets)",
        "greets'); DROP TABLE skills; --",
        "greets \"",
        "greets \"\"",
        "greets \\\" \\",
        "\"greets people\"",
        "greet*",
        "greets *",
        "greets ?1 $1 @x :x",
        "greets %s %n {} {0}",
    ] {
        let found = search(&home, query).json();
        assert_eq!(skill_ids(&found).first(), Some(&"greet"), "{query}: {found}");
    }
}

#[test]
fn query_without_words_is_empty() {
    let home = polyglot_home();
    for query in ["\"", "\"\"", "*", "()", "-", "''", "\\", "?!…", "\u{200f}\u{202e}", "\u{feff}"]
    {
        let found = search(&home, query);
        assert_eq!(skill_ids(&found.json()), Vec::<&str>::new(), "{query:?}: {found}");
        assert!(!found.stderr.contains("panicked"), "{found}");
    }
}

#[test]
fn every_script_is_searchable() {
    let home = polyglot_home();
    for (query, expected) in [
        ("お茶", "tea"),
        ("急須", "tea"),
        ("بالضيوف", "salam"),
        ("\u{202e}مرحبا\u{202c}", "salam"),
        ("🎉 confetti 🎉", "party"),
        ("ＧＲＥＥＴＳ people", "greet"),
    ] {
        let found = search(&home, query).json();
        assert_eq!(skill_ids(&found).first(), Some(&expected), "{query}: {found}");
    }
}

#[test]
fn megabyte_query_is_answered() {
    let home = polyglot_home();
    // One argument of a program is limited to 128 KiB.
    let part = format!("greets {}", "people ".repeat(14_000));
    let command = ["skill", "search", "--json"].into_iter().chain([&*part; 10]);
    let found = home.skillhost(command).success().json();
    assert_eq!(skill_ids(&found).first(), Some(&"greet"));
    for filler in ["people ", "\"", "a* ", "\u{0}", "🎉", "お茶", "(", "\u{202e}"] {
        let query = format!("greets {}", filler.repeat((1 << 20) / filler.len()));
        let output = list_skills(&home, &json!({ "query": query })).success();
        assert_eq!(output.json()["is_error"], false, "{filler:?}: {output}");
    }
}

#[test]
fn control_characters_separate_words() {
    let home = polyglot_home();
    let output =
        list_skills(&home, &json!({ "query": "greets\u{0}people\u{1b}[31m\u{7f}" })).success();
    let answer = output.json();
    assert_eq!(skill_ids(&answer["structured"]).first(), Some(&"greet"), "{output}");
    assert!(!output.stdout.contains('\u{1b}'), "{output}");
}

#[test]
fn search_works_during_skill_changes() {
    let home = home();
    let kernel = start_kernel(&home);
    std::thread::scope(|scope| {
        for words in ["greets people", "brews tea", "\"brews tea\"", "bre*"].repeat(2) {
            let home = &home;
            scope.spawn(move || {
                let query = json!({ "query": words }).to_string();
                for _ in 0..12 {
                    let args = ["tool", "call", "--json", "list_skills", &query];
                    let output = home.skillhost(args).success();
                    let answer = output.json();
                    assert_eq!(answer["is_error"], false, "{output}");
                    // A result must come from one state of the skills.
                    let found = skill_ids(&answer["structured"]).len();
                    assert_eq!(answer["structured"]["matched"], found, "{output}");
                }
            });
        }
        for round in 0..6 {
            let directory = format!("sandbox/skills/brew-{round}");
            home.write(format!("{directory}/SKILL.md"), skill_md("Brews tea.", "Boil water."));
            kernel.line_with(&format!("skill.added brew-{round} "));
            fs::remove_dir_all(home.path(&directory)).unwrap();
            kernel.line_with(&format!("skill.removed brew-{round} "));
        }
    });
    // After the changes, the search finds the final state.
    home.write("sandbox/skills/last/SKILL.md", skill_md("Brews tea.", "Boil water."));
    wait_for_poll(&home, &kernel, "sandbox/skills", "known");
    let query = r#"{"query":"brews tea"}"#;
    let answer = home.skillhost(["tool", "call", "--json", "list_skills", query]).success().json();
    assert_eq!(skill_ids(&answer["structured"]), ["last"]);
    let output = kernel.interrupt().success();
    assert!(!output.stderr.contains("panicked"), "{output}");
}
