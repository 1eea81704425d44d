//! Tests of `skillhost skill rules`.

use test_support::TestHome;

#[test]
fn rules_are_listed_with_findings() {
    let output = TestHome::new().skillhost(["skill", "rules"]).success();
    let line = output.stdout.lines().find(|line| line.starts_with("name.matchesDirectory "));
    let words: Vec<_> = line.unwrap_or_default().split_whitespace().collect();
    let expected = "name.matchesDirectory error validation the name is not the directory's name";
    assert_eq!(words.join(" "), expected);
    let header: Vec<_> =
        output.stdout.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(header, ["RULE", "SPEC", "GROUP", "FIX", "FINDS"]);
}

#[test]
fn named_rule_is_explained() {
    let home = TestHome::new();
    let page = home.skillhost(["skill", "rules", "file.bom"]).success().stdout;
    insta::assert_snapshot!(page.split("## Why").next().unwrap_or_default(), @"
    # file.bom

    The file starts with a byte order mark.

    | `lenient` | `spec` | `reference` | `skillscraft` | `seed-strict` | `anthropic` |
    | --- | --- | --- | --- | --- | --- |
    | warning | warning | off | off | off | warning |

    `skillhost skill fmt` or `skillhost skill lint --fix` fixes it.

    ## What it does

    Reports a UTF-8 byte order mark at the start of the file. Loading drops it. The stricter profiles
    find no frontmatter in such a file (`frontmatter.missing`).
    ");
    let explained = home.skillhost(["skill", "lint", "--explain", "file.bom"]).success().stdout;
    assert_eq!(explained, page);
    let json =
        home.skillhost(["skill", "rules", "file.bom", "name.type", "--json"]).success().json();
    let ids: Vec<_> = json["rules"].as_array().unwrap().iter().map(|rule| &rule["id"]).collect();
    assert_eq!(ids, ["file.bom", "name.type"]);
    assert_eq!(json["rules"][0]["page"], page);
    assert_eq!(json["rules"][1]["levels"]["seed-strict"], "error");
}

#[test]
fn unknown_rule_gets_suggestions() {
    insta::assert_snapshot!(TestHome::new().skillhost(["skill", "rules", "name.formt"]), @"
    exit 3
    --- stderr
    error: rule `name.formt` not found
    hint: similar rules: name.format, name.portability, name.type
    ");
}
