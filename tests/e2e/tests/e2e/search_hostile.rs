//! Searching for what nobody would type, and while skills come and go.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use test_support::{Output, TestHome};

use crate::scene::{home, let_it_poll, running, skill};

/// The home with skills in several scripts.
fn polyglot() -> TestHome {
    home()
        .skill("tea", &skill("お茶を淹れる。急須を使うとき。", "湯を沸かす。"))
        .skill("salam", &skill("يرحب بالضيوف عند الوصول.", "قل مرحبا."))
        .skill("party", &skill("Celebrates 🎉 with confetti.", "Throw it."))
}

fn ids(found: &Value) -> Vec<&str> {
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

/// Calls `list_skills` with arguments on standard input, where they may be as long as they like.
fn list(home: &TestHome, arguments: &Value) -> Output {
    let input = home.outside().join("arguments.json");
    fs::write(&input, arguments.to_string()).unwrap();
    let mut command = home.command();
    command.args(["tool", "call", "--json", "list_skills", "-"]);
    home.start(command.stdin(Stdio::from(fs::File::open(&input).unwrap()))).finish()
}

#[test]
fn operators_of_the_full_text_search_are_words() {
    let home = polyglot();
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
        assert_eq!(ids(&found).first(), Some(&"greet"), "{query}: {found}");
    }
}

#[test]
fn what_has_no_words_finds_nothing() {
    let home = polyglot();
    for query in ["\"", "\"\"", "*", "()", "-", "''", "\\", "?!…", "\u{200f}\u{202e}", "\u{feff}"]
    {
        let found = search(&home, query);
        assert_eq!(ids(&found.json()), Vec::<&str>::new(), "{query:?}: {found}");
        assert!(!found.stderr.contains("panicked"), "{found}");
    }
}

#[test]
fn every_script_is_searched() {
    let home = polyglot();
    for (query, wanted) in [
        ("お茶", "tea"),
        ("急須", "tea"),
        ("بالضيوف", "salam"),
        ("\u{202e}مرحبا\u{202c}", "salam"),
        ("🎉 confetti 🎉", "party"),
        ("ＧＲＥＥＴＳ people", "greet"),
    ] {
        let found = search(&home, query).json();
        assert_eq!(ids(&found).first(), Some(&wanted), "{query}: {found}");
    }
}

#[test]
fn a_query_of_a_megabyte_is_answered() {
    let home = polyglot();
    // One argument of a command line holds 128 KiB.
    let part = format!("greets {}", "people ".repeat(14_000));
    let command = ["skill", "search", "--json"].into_iter().chain([&*part; 10]);
    let found = home.skillhost(command).success().json();
    assert_eq!(ids(&found).first(), Some(&"greet"));
    for filler in ["people ", "\"", "a* ", "\u{0}", "🎉", "お茶", "(", "\u{202e}"] {
        let query = format!("greets {}", filler.repeat((1 << 20) / filler.len()));
        let output = list(&home, &json!({ "query": query })).success();
        assert_eq!(output.json()["is_error"], false, "{filler:?}: {output}");
    }
}

#[test]
fn control_characters_are_white_space_to_a_search() {
    let home = polyglot();
    let output = list(&home, &json!({ "query": "greets\u{0}people\u{1b}[31m\u{7f}" })).success();
    let answer = output.json();
    assert_eq!(ids(&answer["structured"]).first(), Some(&"greet"), "{output}");
    assert!(!output.stdout.contains('\u{1b}'), "{output}");
}

#[test]
fn searches_go_on_while_skills_come_and_go() {
    let home = home();
    let kernel = running(&home);
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
                    // The answer is of one state of the skills.
                    let found = ids(&answer["structured"]).len();
                    assert_eq!(answer["structured"]["matched"], found, "{output}");
                }
            });
        }
        for round in 0..6 {
            let folder = format!("sandbox/skills/brew-{round}");
            home.write(format!("{folder}/SKILL.md"), skill("Brews tea.", "Boil water."));
            kernel.line_with(&format!("skill.added brew-{round} "));
            fs::remove_dir_all(home.path(&folder)).unwrap();
            kernel.line_with(&format!("skill.removed brew-{round} "));
        }
    });
    // What is there afterwards is what is found.
    home.write("sandbox/skills/last/SKILL.md", skill("Brews tea.", "Boil water."));
    let_it_poll(&home, &kernel, "sandbox/skills", "known");
    let query = r#"{"query":"brews tea"}"#;
    let answer = home.skillhost(["tool", "call", "--json", "list_skills", query]).success().json();
    assert_eq!(ids(&answer["structured"]), ["last"]);
    let output = kernel.interrupt().success();
    assert!(!output.stderr.contains("panicked"), "{output}");
}
