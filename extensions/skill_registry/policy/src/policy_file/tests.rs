//! Tests of `policy_file`.

use super::*;

fn errors(text: &str) -> Vec<String> {
    let errors = parse_policy(text).err().unwrap_or_default();
    let line = |error: &PolicyError| match &error.help {
        Some(help) => format!("{error}; {help}"),
        None => error.to_string(),
    };
    errors.iter().map(line).collect()
}

#[test]
fn complete_policy_is_read() {
    let policy = parse_policy(
        "profile = \"anthropic\"\nallowed-fields = [\"type\"]\n\n[severity]\n\"gotchas-present\" = \
         \"off\"\nname.format = \"warning\"\n\n[paths]\ninclude = [\"skills\"]\nexclude = \
         [\"skills/old\"]\n\n[[ignore]]\nrules = [\"name.*\", \"large-file\"]\npaths = \
         [\"skills/a\"]\nreason = \"legacy\"\n",
    )
    .unwrap();
    assert_eq!(policy.profile, Some(Profile::Anthropic));
    assert_eq!(policy.allowed_fields, ["type"]);
    let levels = [("gotchas-present", RuleLevel::Off), ("name.format", RuleLevel::Warning)];
    assert_eq!(policy.levels, levels);
    assert!(policy.include.is_some() && policy.exclude.is_some());
    let [entry] = &policy.ignores[..] else { panic!("{:?}", policy.ignores) };
    assert_eq!((entry.line, entry.column, &*entry.reason), (12, 1, "legacy"));
    assert!(entry.rules.contains(&"name.format") && entry.rules.contains(&"large-file"));
}

#[test]
fn empty_policy_is_valid() {
    for text in ["", "# nothing yet\n", "[paths]\n", "[severity]\n"] {
        assert_eq!(errors(text), [""; 0], "{text:?}");
    }
}

#[test]
fn unknown_names_have_suggestions() {
    assert_eq!(
        errors(
            "profil = \"spec\"\nzzz = 1\n[severity]\n\"gotcha-present\" = \"of\"\n[paths]\n\
             excludes = []\n[[ignore]]\nrules = [\"name.formt\"]\nreson = \"x\"\n"
        ),
        [
            "1:1: unknown key `profil`; did you mean `profile`?",
            "2:1: unknown key `zzz`; the keys are `profile`, `allowed-fields`, `severity`, `paths`, \
             `ignore`",
            "4:1: rule `gotcha-present` not found; did you mean `gotchas-present`?",
            "4:20: `of` is not a severity; did you mean `off`?",
            "6:1: unknown key `paths.excludes`; did you mean `exclude`?",
            "7:1: `ignore` without a reason; add `reason = \"…\"`: it is part of the reports",
            "8:10: rule `name.formt` not found; did you mean `name.format`?",
            "9:1: unknown key `ignore.reson`; did you mean `reason`?",
        ]
    );
    assert_eq!(
        errors("profile = \"specs\"\n"),
        ["1:11: profile `specs` not found; did you mean `spec`?"]
    );
}

#[test]
fn wrong_types_are_reported() {
    assert_eq!(
        errors("profile = 1\nallowed-fields = { a = 1 }\nseverity = []\npaths = \"x\"\n[ignore]\n"),
        [
            "1:11: `profile` is integer instead of a text",
            "2:18: `allowed-fields` is table instead of a list of texts",
            "3:12: `severity` is array instead of a table",
            "4:9: `paths` is string instead of a table",
            "5:1: `ignore` is table instead of a list of tables: write `[[ignore]]`",
        ]
    );
    assert_eq!(
        errors("[[ignore]]\nreason = \" \"\nrules = [1]\npaths = [\"../x\"]\n"),
        [
            "1:1: `ignore` without a reason; add `reason = \"…\"`: it is part of the reports",
            "3:10: `ignore.rules` is integer instead of a text",
            "4:10: `../x` is not a pattern: `../x` leads out of the directory; write a path relative \
             to this file, with `*`, `**` and `?`",
        ]
    );
}

fn settings_errors(text: &str) -> Vec<String> {
    let errors = parse_settings_policy(text).err().unwrap_or_default();
    let line = |error: &PolicyError| match &error.help {
        Some(help) => format!("{error}; {help}"),
        None => error.to_string(),
    };
    errors.iter().map(line).collect()
}

#[test]
fn settings_have_same_keys() {
    let policy = parse_settings_policy(
        "models: {default: a/b}\nlint:\n  profile: anthropic\n  allowed-fields: [type]\n  \
         severity:\n    gotchas-present: off\n    name.format: warning\n  paths:\n    \
         include: [skills]\n    exclude: skills/old\n  ignore:\n    - rules: [name.*, \
         large-file]\n      paths: [skills/a]\n      reason: legacy\n",
    )
    .unwrap()
    .unwrap();
    assert_eq!(policy.profile, Some(Profile::Anthropic));
    assert_eq!(policy.allowed_fields, ["type"]);
    let levels = [("gotchas-present", RuleLevel::Off), ("name.format", RuleLevel::Warning)];
    assert_eq!(policy.levels, levels);
    assert!(policy.include.is_some() && policy.exclude.is_some());
    let [entry] = &policy.ignores[..] else { panic!("{:?}", policy.ignores) };
    assert_eq!((entry.line, entry.column, &*entry.reason), (12, 7, "legacy"));
    for text in ["", "models: {}", "# lint\n", "extensions: {lint: {x: 1}}", "- lint"] {
        assert!(parse_settings_policy(text).unwrap().is_none(), "{text:?}");
    }
    assert!(parse_settings_policy("lint: {}").unwrap().is_some());
}

#[test]
fn settings_errors_have_places() {
    assert_eq!(
        settings_errors(
            "lint:\n  profil: spec\n  severity: {gotcha-present: of}\n  paths: []\n  ignore:\n    \
             - paths: ../x\n"
        ),
        [
            "2:3: unknown key `profil`; did you mean `profile`?",
            "3:14: rule `gotcha-present` not found; did you mean `gotchas-present`?",
            "3:30: `of` is not a severity; did you mean `off`?",
            "4:10: `paths` is a list instead of a mapping",
            "6:7: `ignore` without `rules`; add `rules: [RULE]`",
            "6:7: `ignore` without a reason; add `reason: …`: it is part of the reports",
            "6:14: `../x` is not a pattern: `../x` leads out of the directory; write a path relative \
             to this file, with `*`, `**` and `?`",
        ]
    );
    assert_eq!(settings_errors("lint:\n"), ["1:5: `lint` is empty instead of a mapping"]);
    assert_eq!(settings_errors("lint: [a]"), ["1:7: `lint` is a list instead of a mapping"]);
    assert_eq!(
        settings_errors("lint: {profile: spec, profile: spec}\n"),
        ["1:23: `profile` is there twice"]
    );
    for text in ["lint: {", "lint: &a {}\nx: *a", "\"lint\": !t {}", "lint: {}\n---\nlint: {}"] {
        let found = settings_errors(text);
        assert!(found.len() == 1 && found[0].contains("invalid YAML: "), "{text:?}: {found:?}");
    }
    let deep = format!("lint: {}", "[".repeat(100_000));
    assert_eq!(settings_errors(&deep).len(), 1);
}

#[test]
fn invalid_toml_has_position() {
    let found = errors("profile = \"spec\"\nallowed-fields = [\n");
    assert!(found[0].starts_with("2:") || found[0].starts_with("3:"), "{found:?}");
    assert!(found[0].contains("invalid TOML: "), "{found:?}");
    for text in ["\u{0}", "= 1", "[[[", "a = \"", "\u{feff}[x", "a.b.c.d = 1\na = 2"] {
        assert!(!errors(text).is_empty(), "{text:?}");
    }
}
