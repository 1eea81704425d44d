//! Tests of suppressions and fixes.
#![expect(clippy::unwrap_used, reason = "a test without its text has failed")]

use proptest::prelude::*;
use skill_format::{SkillInput, find_fences, tree};
use skill_rules::{
    CheckOptions, CheckScope, FixOutcome, Profile, RuleSet, apply_fixes, check_skill,
};
use yaml_tree::Value;

const OPTIONS: CheckOptions = CheckOptions { profile: Profile::Spec, scope: CheckScope::Lint };

fn input(text: &str) -> SkillInput<'_> {
    SkillInput {
        dir_name: "bead-counter",
        file_name: Some("SKILL.md"),
        bytes: text.as_bytes(),
        files: None,
    }
}

/// Returns the findings with these lines between the fences and this body.
fn found(comments: &str, body: &str) -> Vec<String> {
    let text = format!(
        "---\nname: bead-counter\ndescription: Counts beads in a jar. Use when asked how many.\n{comments}---\n{body}"
    );
    let report = check_skill(&input(&text), OPTIONS);
    let found = report.findings.iter().map(|found| &found.diagnostic);
    found.map(|it| format!("{} {} {}", it.line, it.rule, it.message)).collect()
}

const ADVICE: &str = "Follow best practices.\n";
const FOUND: &str =
    "no-generic-instructions `Follow best practices` says nothing a model does not do anyway";

#[test]
fn frontmatter_comment_covers_file() {
    let none: [&str; 0] = [];
    let rule = "no-generic-instructions";
    assert_eq!(found("", ADVICE), [format!("5 {FOUND}")]);
    assert_eq!(found(&format!("# skillhost: allow({rule})\n"), ADVICE), none);
    assert_eq!(found(&format!("  #  skillhost: allow( {rule} )\n"), ADVICE), none);
    let trailing = format!("license: MIT # skillhost: allow({rule})\n");
    assert_eq!(found(&trailing, &format!("Count.\n\n{ADVICE}")), none);
    let two = format!("# skillhost: allow({rule}, final-newline)\n");
    assert_eq!(found(&two, "Follow best practices."), none);
}

#[test]
fn value_text_is_not_a_comment() {
    let rule = "no-generic-instructions";
    for value in [
        format!("license: \"MIT # skillhost: allow({rule})\"\n"),
        format!("license: MIT# skillhost: allow({rule})\n"),
        format!("license: |\n  MIT\n  # skillhost: allow({rule})\n"),
    ] {
        let text = found(&value, ADVICE);
        assert!(text.iter().any(|it| it.ends_with(FOUND)), "{value}: {text:?}");
    }
}

#[test]
fn body_comment_covers_block_or_line() {
    let none: [&str; 0] = [];
    let allow = "<!-- skillhost: allow(no-generic-instructions) -->";
    assert_eq!(found("", &format!("{allow}\n{ADVICE}")), none);
    assert_eq!(found("", &format!("{allow}\n\nCount, and\nfollow best practices.\n")), none);
    assert_eq!(found("", &format!("{allow}\n\n- Count\n- {ADVICE}")), none);
    assert_eq!(found("", &format!("- Count\n\n  {allow}\n\n  {ADVICE}")), none);
    assert_eq!(found("", &format!("Follow best practices. {allow}\n")), none);
    let unused = "suppression-unused nothing here is suppressed by `no-generic-instructions`";
    assert_eq!(
        found("", &format!("{allow}\nCount.\n\n{ADVICE}")),
        [format!("5 {unused}"), format!("8 {FOUND}")]
    );
    assert_eq!(
        found("", &format!("{ADVICE}\nCount. {allow}\n")),
        [format!("5 {FOUND}"), format!("7 {unused}")]
    );
    assert_eq!(found("", &format!("{ADVICE}\n{allow}\n")).len(), 2);
    assert_eq!(found("", &format!("`{allow}`\n\n{ADVICE}")), [format!("7 {FOUND}")]);
}

#[test]
fn many_suppressions_take_linear_time() {
    let comments = "# skillhost: allow(large-file)\n".repeat(1_000);
    let long =
        "Test it. <!-- skillhost: allow(large-file) --> Follow best practices. ".repeat(3_000);
    let reported = found(&comments, &long);
    let advice = reported.iter().filter(|it| it.contains(" no-generic-instructions ")).count();
    let unused = reported.iter().filter(|it| it.contains(" suppression-unused ")).count();
    assert_eq!((advice, unused), (3_000, 1_000));
}

#[test]
fn ineffective_suppressions_are_reported() {
    assert_eq!(
        found("# skillhost: allow(frontmatter.unknownField)\ncolour: red\n", "Count.\n"),
        [
            "4 suppression-unused `frontmatter.unknownField` is an error here, and errors cannot be suppressed",
            "5 frontmatter.unknownField `colour` is not a known field; it is kept but not used",
        ]
        .map(|line| line.to_owned())
    );
    let text = "---\n# skillhost: allow(gotcha-present, zzz, catalog-overlap)\nname: bead-counter\ndescription: Counts beads in a jar. Use when asked how many.\n---\nCount.\n";
    let report = check_skill(&input(text), OPTIONS);
    let reported: Vec<_> = report
        .findings
        .iter()
        .map(|found| &found.diagnostic)
        .map(|it| (it.line, it.column, &*it.message, it.help.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(
        reported,
        [
            (2, 20, "there is no rule `gotcha-present`", "did you mean `gotchas-present`?"),
            (2, 36, "there is no rule `zzz`", "`skillhost skill rules` lists them"),
        ]
    );
}

#[test]
fn validate_ignores_suppressions() {
    let text = "---\n# skillhost: allow(body.maxLines)\nname: bead-counter\ndescription: Counts beads.\n---\n";
    let options = CheckOptions { profile: Profile::Skillscraft, scope: CheckScope::Validate };
    let long = format!("{text}{}", "Count.\n".repeat(501));
    let rules: Vec<_> = check_skill(&input(&long), options)
        .findings
        .into_iter()
        .map(|it| it.diagnostic.rule)
        .collect();
    assert_eq!(rules, ["body.maxLines"]);
}

#[test]
fn fixable_findings_are_fixed() {
    let text = "---\nname: bead-counter\ndescription: Counts beads in a jar. Use when asked how many.\n---\nCount \u{200B}the  \nbe\u{200B}ads. \n\n```\nx \n```\n\nSee `references\\a.md` \r\nand [b](references\\b.md).";
    let fixed = apply_fixes(&input(text), &RuleSet::new(OPTIONS));
    assert_eq!(
        &fixed.text[text.find("Count ").unwrap()..],
        "Count the  \nbeads.\n\n```\nx \n```\n\nSee `references/a.md`\r\nand [b](references/b.md).\r\n"
    );
    assert!(fixed.report.findings.iter().all(|found| found.edits.is_empty()));
}

#[test]
fn significant_markdown_is_not_fixed() {
    let head =
        "---\nname: bead-counter\ndescription: Counts beads. Use when asked how many.\n---\n";
    for body in [
        "Run `count \nbeads` now.\n",
        "*\u{200B}word*\n",
        "\u{200B}# No title\n",
        "a*\u{200B}*b\n",
        "1\u{200B}. Count\n",
        "`a\u{200B}b`\n",
        "<p>a \n</p>\n",
        "Count\\\nbeads.\n",
    ] {
        let text = format!("{head}{body}");
        assert_eq!(apply_fixes(&input(&text), &RuleSet::new(OPTIONS)).text, text);
    }
}

#[test]
fn undecodable_file_is_unchanged() {
    let bytes = b"---\nname: x\n---\n\xFF \n";
    let input = SkillInput { bytes, ..input("") };
    let FixOutcome { edits, report, .. } = apply_fixes(&input, &RuleSet::new(OPTIONS));
    assert_eq!((edits, report.is_valid()), (0, false));
}

/// Returns the Markdown of a text, normalized for blanks at line ends.
fn events(text: &str) -> Vec<String> {
    let parser = pulldown_cmark::Parser::new_ext(text, pulldown_cmark::Options::ENABLE_TABLES);
    let mut events: Vec<String> = Vec::new();
    for event in parser {
        match (event, events.last_mut()) {
            (pulldown_cmark::Event::Text(text), Some(last)) if last.starts_with("text ") => {
                last.push_str(&text);
            }
            (pulldown_cmark::Event::Text(text), _) => events.push(format!("text {text}")),
            (event, _) => events.push(format!("{event:?}")),
        }
    }
    let trimmed = events.into_iter().map(|event| event.trim_end().to_owned());
    trimmed.filter(|event| event != "text").collect()
}

fn line() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("Count"),
        Just(" "),
        Just("  "),
        Just("\t"),
        Just("\u{200B}"),
        Just("`references\\a.md`"),
        Just("[a](scripts\\b.sh)"),
        Just("# "),
        Just("- "),
        Just("> "),
        Just("1. "),
        Just("```"),
        Just("---"),
        Just("|"),
        Just("*"),
        Just("<!-- x -->"),
        Just("\\"),
        Just("    "),
        Just("\u{202E}"),
        Just("\u{E0041}"),
        Just("\u{5D0}"),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn skill() -> impl Strategy<Value = String> {
    let end = prop_oneof![Just("\n"), Just("\r\n")];
    let lines = prop::collection::vec((line(), end.clone()), 0..12);
    let value = "[a-z\u{200B} #:']{0,12}";
    (value, end, lines, any::<bool>()).prop_map(|(value, end, lines, cut)| {
        let body: String = lines.into_iter().map(|(line, end)| line + end).collect();
        let body = if cut { body.trim_end_matches(['\r', '\n']) } else { &body };
        format!("---{end}name: bead-counter{end}description: Counts \u{200B}beads when {value} {end}---{end}{body}")
    })
}

fn frontmatter(text: &str) -> Value {
    let fences = find_fences(text).unwrap();
    tree::parse_frontmatter(&text[fences.yaml], 2).root
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fixes_preserve_frontmatter_and_converge(text in skill()) {
        let fixed = apply_fixes(&input(&text), &RuleSet::new(OPTIONS));
        prop_assert!(frontmatter(&text).same_content(&frontmatter(&fixed.text)));
        let fixable = fixed.report.findings.iter().filter(|found| !found.edits.is_empty());
        prop_assert_eq!(fixable.count(), 0);
        let again = apply_fixes(&input(&fixed.text), &RuleSet::new(OPTIONS));
        prop_assert_eq!((again.edits, &again.text), (0, &fixed.text));
    }

    #[test]
    fn whitespace_fixes_preserve_markdown(text in skill()) {
        let text = text.replace(['\u{200B}', '\\'], "");
        let fixed = apply_fixes(&input(&text), &RuleSet::new(OPTIONS)).text;
        let body = |text: &str| events(&format!("{}\n", text[find_fences(text).unwrap().body_start..].trim_end()));
        prop_assert_eq!(body(&text), body(&fixed));
    }
}
