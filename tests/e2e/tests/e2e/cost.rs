//! `skillhost skill cost`: what skills cost, without a home or a kernel.

use std::fs;

use test_support::TestHome;

use crate::scene::{as_a_reader, steady};

const BREW: &str = "---\nname: brew\ndescription: Brews tea. Use when thirsty.\nmetadata:\n  requires: greet\n---\nBoil the water, then pour it over the leaves.\n";

fn skills() -> TestHome {
    TestHome::new()
        .file("kit/brew/SKILL.md", BREW)
        .file("kit/brew/references/teas.md", "# Teas\n\nÄrger mit grünem Tee: 80 °C.\n")
        .file("kit/brew/leaf.bin", [0u8, 159, 146, 150])
        .file("kit/greet/SKILL.md", "---\nname: greet\ndescription: Greets people.\n---\nSay hello.\n")
        .file(
            "kit/purge/SKILL.md",
            "---\nname: purge\ndescription: Deletes everything.\ndisable-model-invocation: true\n---\nDelete it.\n",
        )
}

#[test]
fn one_skill_is_shown_part_by_part() {
    let home = skills();
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "kit/brew"]), @"");
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "kit/brew/SKILL.md", "--estimate"]), @"");
}

#[test]
fn several_are_a_line_each_with_totals() {
    let home = skills();
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "kit"]), @"");
    // A skill that two paths lead to counts once.
    let twice = home.skillhost(["skill", "cost", "kit", "kit/brew"]).success();
    assert_eq!(twice, home.skillhost(["skill", "cost", "kit"]));
}

#[test]
fn json_says_how_was_counted() {
    let home = skills();
    insta::assert_snapshot!(steady(&home.skillhost(["skill", "cost", "kit/brew", "--json"]).success()), @"");
    let estimated = home.skillhost(["skill", "cost", "kit/brew", "--json", "--estimate"]).success();
    let exact = home.skillhost(["skill", "cost", "kit/brew", "--json"]).success().json();
    let mut estimated = estimated.json();
    assert_eq!(estimated["encoding"], serde_json::Value::Null);
    assert_eq!(estimated["total"]["body"]["o200k"], serde_json::Value::Null);
    // Nothing else differs.
    estimated["encoding"] = "o200k_base".into();
    for pointer in [
        "/total/catalog",
        "/total/available_skills",
        "/total/instructions",
        "/total/body",
        "/total/resources",
        "/skills/0/catalog_line",
        "/skills/0/available_skills",
        "/skills/0/instructions",
        "/skills/0/body",
        "/skills/0/resources/1",
    ] {
        let tokens = exact.pointer(pointer).unwrap()["o200k"].clone();
        assert!(tokens.is_u64(), "{pointer}");
        estimated.pointer_mut(pointer).unwrap()["o200k"] = tokens;
    }
    assert_eq!(estimated, exact);
}

#[test]
fn jsonl_is_a_line_a_skill_and_a_line_a_problem() {
    let home = skills().file("kit/hollow/SKILL.md", "");
    let output = home.skillhost(["skill", "cost", "kit", "gone", "--jsonl"]).exits(3);
    assert_eq!(output.stderr, "");
    let seen: Vec<String> = output
        .stdout
        .lines()
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(value["schema_version"], 1);
            let id = value["skill_id"].as_str().or(value["rule"].as_str());
            format!("{} {}", value["path"].as_str().unwrap(), id.unwrap())
        })
        .collect();
    assert_eq!(
        seen,
        [
            "kit/brew brew",
            "kit/greet greet",
            "kit/hollow/SKILL.md frontmatter.missing",
            "kit/purge purge",
            "gone path.notFound",
        ]
    );
}

#[test]
fn instructions_are_counted_as_agents_read_them() {
    let home = skills();
    let cost = home.skillhost(["skill", "cost", "kit/brew", "--json"]).success().json();
    let read = home.skillhost(["skill", "read", "brew", "--root", "kit", "--json"]).success();
    let text = read.json()["text"].as_str().unwrap().to_owned();
    let counted = &cost["skills"][0]["instructions"];
    assert_eq!(counted["chars"], text.chars().count());
    assert_eq!(counted["estimate"], text.chars().count().div_ceil(4));
}

#[test]
fn budgets_cut_what_is_too_much() {
    let mut home = TestHome::new();
    for number in 0..60 {
        let text = format!(
            "---\nname: skill-{number:02}\ndescription: {}\n---\nBody.\n",
            "Does many things well. ".repeat(10)
        );
        home = home.file(format!("kit/skill-{number:02}/SKILL.md"), text);
    }
    let clients = |args: &[&str]| {
        let output = home.skillhost(["skill", "cost", "kit", "--estimate"].iter().chain(args));
        let stdout = output.success().stdout;
        stdout.split("\n\n").nth(1).unwrap().to_owned()
    };
    insta::assert_snapshot!(clients(&[]), @"");
    insta::assert_snapshot!(clients(&["--window", "1000000"]), @"");
    insta::assert_snapshot!(clients(&["--window", "20000"]), @"");
    // The catalog is the one that is rendered.
    home.write(
        "skillhost.yaml",
        "extensions: {skill_registry: {roots: [{label: kit, path: kit, trust: operator}]}}",
    );
    let doctor = home.skillhost(["skill", "doctor", "--json"]).success().json();
    let cost = home.skillhost(["skill", "cost", "kit", "--json"]).success().json();
    for field in ["budget", "chars", "listed", "shortened", "without_description", "omitted"] {
        assert_eq!(cost["clients"][0][field], doctor["catalog"][field], "{field}");
    }
}

#[test]
fn paths_that_lead_nowhere_are_told_and_the_rest_is_counted() {
    let home = skills().file("empty/readme.txt", "x").file("kit/hollow/SKILL.md", "no fences");
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "gone"]), @"");
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "empty"]), @"");
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "kit/hollow"]), @"");
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "gone", "empty", "kit/greet", "--estimate"]), @"");
    let json = home.skillhost(["skill", "cost", "gone", "--json"]).exits(3);
    insta::assert_snapshot!(json.stdout, @"");
    assert_eq!(json.stderr, "");
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "kit", "--window", "0"]), @"");
}

#[test]
fn large_and_unreadable_files_stop_nothing() {
    let home = skills();
    fs::File::create(home.path("kit/brew/video.txt")).unwrap().set_len(20 << 30).unwrap();
    let huge = fs::File::create(home.path("kit/greet/SKILL.md")).unwrap();
    huge.set_len(20 << 30).unwrap();
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "kit", "--estimate"]), @"");
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_read_is_told() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = skills();
    let closed = home.path("kit/brew/references/teas.md");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    insta::assert_snapshot!(as_a_reader(&home, &["skill", "cost", "kit/brew", "--estimate"]), @"");
}
