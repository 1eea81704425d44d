//! Tests of `skillhost-lint.toml` and of the options of `skill lint` that work with it.

use std::fs;

use serde_json::{Value, json};
use test_support::{Output, TestHome};

use crate::fixtures::repository_root;

const HEAD: &str = "---\nname: beads\ndescription: Counts beads in jars. Use when the user asks how many beads there are.\n";

/// Creates a skill with a field of its own and a finding of `lint`.
fn typed_home() -> TestHome {
    TestHome::new().file(
        "skills/beads/SKILL.md",
        format!("{HEAD}type: guide\n---\nOpen `scripts\\count.py`.\n"),
    )
}

fn run_lint(home: &TestHome, args: &[&str]) -> Output {
    home.skillhost(["skill", "lint"].iter().chain(args))
}

/// Returns the rules of the findings and of the suppressed findings of the first skill.
fn rules_of(report: &Value) -> (Vec<&str>, Vec<&str>) {
    let rules = |key: &str| {
        let list = report["skills"][0][key].as_array();
        list.into_iter().flatten().map(|it| it["rule"].as_str().unwrap()).collect()
    };
    (rules("diagnostics"), rules("suppressed"))
}

#[test]
fn allowed_field_passes_lint_and_validate() {
    let home = typed_home();
    run_lint(&home, &["skills"]).exits(1);
    home.skillhost(["skill", "validate", "skills"]).exits(1);
    let home = home.file("skillhost-lint.toml", "allowed-fields = [\"type\"]\n");
    let report = run_lint(&home, &["skills", "--json"]).exits(1).json();
    assert_eq!(rules_of(&report), (vec!["backslash-path"], vec![]));
    home.skillhost(["skill", "validate", "skills"]).success();
    home.skillhost(["skill", "validate", "--no-policy", "skills"]).exits(1);
}

#[test]
fn settings_of_home_have_policy() {
    let home = typed_home().file("sandbox/x", "").settings(
        "lint:\n  allowed-fields: [type]\n  ignore:\n    - rules: [backslash-path]\n      reason: \
         for Windows\n    - rules: [large-file]\n      reason: unused\n",
    );
    // An entry is judged if everything below the policy is checked.
    let report = run_lint(&home, &[".", "--json"]).exits(1).json();
    assert_eq!(rules_of(&report), (vec![], vec!["backslash-path"]));
    let unused = &report["skills"][1];
    assert_eq!(
        (&unused["path"], &unused["diagnostics"][0]["line"]),
        (&json!("skillhost.yaml"), &json!(6))
    );
    home.skillhost(["skill", "validate", "skills"]).success();
    let config = home.skillhost(["config", "--json"]).success().json();
    let rows: Vec<_> = config["settings"].as_array().unwrap().iter().collect();
    let row = rows.iter().find(|row| row["key"] == "lint.allowed-fields").unwrap();
    assert_eq!(
        (&row["value"], &row["source"]),
        (&json!(["type"]), &json!("[HOME]/skillhost.yaml"))
    );
    // The nearest wins as a whole.
    home.write("skills/skillhost-lint.toml", "profile = \"spec\"\n");
    let report = run_lint(&home, &["skills", "--json"]).exits(1).json();
    assert_eq!(rules_of(&report).1, [""; 0]);
    fs::remove_file(home.path("skills/skillhost-lint.toml")).unwrap();
    insta::assert_snapshot!(run_lint(&home, &["--init"]), @"
    exit 4
    --- stderr
    error: skillhost.yaml has a policy: its table `lint`
    hint: edit it, or remove it first
    ");
    home.write("skillhost-lint.toml", "profile = \"spec\"\n");
    insta::assert_snapshot!(run_lint(&home, &["skills"]), @"
    exit 2
    --- stderr
    error: skillhost.yaml and skillhost-lint.toml next to it both have a policy
    hint: move the keys of one to the other
    ");
    fs::remove_file(home.path("skillhost-lint.toml")).unwrap();
    home.write("skillhost.yaml", "lint:\n  profile: specs\n");
    insta::assert_snapshot!(run_lint(&home, &["skills"]), @"
    exit 2
    --- stderr
    error: skillhost.yaml:2:12: profile `specs` not found
    hint: did you mean `spec`?
    ");
    // The kernel does not read it; only its shape is a matter of the settings.
    home.skillhost(["config"]).success();
    home.write("skillhost.yaml", "lint: [spec]\n");
    home.skillhost(["config"]).exits(2);
    let schema = home.skillhost(["schema", "settings"]).success().json();
    assert!(schema["properties"]["lint"]["properties"]["allowed-fields"].is_object(), "{schema}");
}

#[test]
fn severities_apply_to_lint_alone() {
    let home = typed_home().file(
        "skillhost-lint.toml",
        "[severity]\n\"frontmatter.unknownField\" = \"note\"\nbackslash-path = \"error\"\n",
    );
    let report = run_lint(&home, &["skills", "--json"]).exits(1).json();
    let found = report["skills"][0]["diagnostics"].as_array().unwrap();
    let levels: Vec<_> = found.iter().map(|it| (&it["rule"], &it["severity"])).collect();
    assert_eq!(
        levels,
        [
            (&json!("frontmatter.unknownField"), &json!("note")),
            (&json!("backslash-path"), &json!("error"))
        ]
    );
    home.skillhost(["skill", "validate", "skills"]).exits(1);
}

#[test]
fn ignored_findings_are_reported_as_suppressed() {
    let policy = "[[ignore]]\nrules = [\"frontmatter.*\"]\npaths = [\"skills/beads\"]\nreason = \"legacy\"\n\n[[ignore]]\nrules = [\"large-file\"]\nreason = \"none yet\"\n";
    let home = typed_home().file("skillhost-lint.toml", policy);
    insta::assert_snapshot!(run_lint(&home, &["."]), @r"
    exit 1
    --- stdout
    warning[backslash-path]: `scripts\count.py` is written with backslashes
     --> skills/beads/SKILL.md:6:6
      |
    6 | Open `scripts\count.py`.
      |      ^^^^^^^^^^^^^^^^^^^
      |
      = help: write it with slashes

    warning[suppression-unused]: no finding of `large-file` is ignored by this entry
     --> skillhost-lint.toml:6:1
      |
    6 | [[ignore]]
      | ^^^^^^^^^^
      |
      = help: remove it, or correct its paths

    1 skill: valid; 2 warnings, 1 suppressed
    1 fixable with --fix
    ");
    let report = run_lint(&home, &["skills", "--json"]).exits(1).json();
    assert_eq!(rules_of(&report), (vec!["backslash-path"], vec!["frontmatter.unknownField"]));
    let suppressed = &report["skills"][0]["suppressed"][0];
    assert_eq!(
        (&suppressed["suppressed_by"], &suppressed["reason"], &report["summary"]["suppressed"]),
        (&json!("policy"), &json!("legacy"), &json!(1))
    );
    let sarif = run_lint(&home, &["skills", "--format", "sarif"]).exits(1).json();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let suppressions: Vec<_> = results.iter().map(|it| &it["suppressions"]).collect();
    let external = json!([{ "justification": "legacy", "kind": "external", "status": "accepted" }]);
    assert_eq!(suppressions, [&Value::Null, &external]);
    // A part of the directory, or of the rules, does not tell whether an entry is used.
    for args in [&["skills/beads", "--json"][..], &[".", "--json", "--ignore", "name.*"][..]] {
        let report = run_lint(&home, args).exits(1).json();
        assert_eq!(report["skills"].as_array().unwrap().len(), 1, "{args:?}");
    }
}

#[test]
fn comment_is_reported_as_suppression_in_source() {
    let text =
        format!("{HEAD}# skillhost: allow(backslash-path)\n---\nOpen `scripts\\count.py`.\n");
    let home = TestHome::new().file("beads/SKILL.md", text);
    let report = run_lint(&home, &["beads", "--json"]).success().json();
    assert_eq!(report["skills"][0]["suppressed"][0]["suppressed_by"], "comment");
    let sarif = run_lint(&home, &["beads", "--format", "sarif"]).success().json();
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(result["suppressions"], json!([{ "kind": "inSource" }]));
}

#[test]
fn paths_choose_skills_for_all_commands() {
    let home = typed_home()
        .file("vendor/lids/SKILL.md", "---\ndescription: y\nname: x\n---\n")
        .file("skillhost-lint.toml", "[paths]\nexclude = [\"vendor\", \"skills/b*\"]\n");
    let report = run_lint(&home, &[".", "vendor/lids", "--json"]).success().json();
    assert_eq!((&report["skills"], &report["summary"]["excluded"]), (&json!([]), &json!(2)));
    home.skillhost(["skill", "validate", "vendor/lids/SKILL.md"]).success();
    home.skillhost(["skill", "fmt", "--check", "."]).success();
    home.skillhost(["skill", "fmt", "--check", "--no-policy", "vendor"]).exits(1);
}

#[test]
fn policy_of_repository_applies_below() {
    let home = typed_home()
        .file("repo/.git/HEAD", "ref")
        .file("repo/skillhost-lint.toml", "profile = \"lenient\"\n")
        .file("repo/a/b/beads/SKILL.md", format!("{HEAD}type: guide\n---\nCount.\n"))
        .file("other.toml", "profile = \"spec\"\n");
    run_lint(&home, &["repo/a/b/beads/SKILL.md"]).exits(1);
    let severity = |args: &[&str]| {
        let report = run_lint(&home, args).exits(1).json();
        report["skills"][0]["diagnostics"][0]["severity"].clone()
    };
    let path = "repo/a/b/beads";
    assert_eq!(severity(&[path, "--json"]), "warning");
    // The command line goes before the policy.
    assert_eq!(severity(&[path, "--json", "--profile", "spec"]), "error");
    assert_eq!(severity(&[path, "--json", "--policy", "other.toml"]), "error");
    assert_eq!(severity(&[path, "--json", "--no-policy"]), "error");
}

#[test]
fn invalid_policy_names_every_error() {
    let home = typed_home().file(
        "skillhost-lint.toml",
        "profil = \"spec\"\n[severity]\n\"name.formt\" = \"off\"\n[[ignore]]\nrules = []\n",
    );
    for command in ["lint", "validate", "fmt"] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(home.skillhost(["skill", command, "skills"]), @r#"
            exit 2
            --- stderr
            error: skillhost-lint.toml:1:1: unknown key `profil`
            hint: did you mean `profile`?
            hint: skillhost-lint.toml:3:1: rule `name.formt` not found; did you mean `name.format`?
            hint: skillhost-lint.toml:4:1: `ignore` without a reason; add `reason = "…"`: it is part of the reports
            "#);
        }
    }
    let home = home.file("skillhost-lint.toml", "profile = \"spec\n");
    insta::assert_snapshot!(run_lint(&home, &["skills"]), @r#"
    exit 2
    --- stderr
    error: skillhost-lint.toml:1:16: invalid TOML: invalid basic string, expected `"`
    "#);
    run_lint(&home, &["skills", "--policy", "none.toml"]).exits(3);
}

#[test]
fn selection_limits_rules_and_fixes() {
    let home = typed_home();
    let report = run_lint(&home, &["skills", "--json", "--select", "backslash-path"]).json();
    assert_eq!(rules_of(&report), (vec!["backslash-path"], vec![]));
    let report = run_lint(&home, &["skills", "--json", "--ignore", "backslash-path"]).json();
    assert_eq!(rules_of(&report), (vec!["frontmatter.unknownField"], vec![]));
    let before = fs::read(home.path("skills/beads/SKILL.md")).unwrap();
    run_lint(&home, &["skills", "--fix", "--select", "final-newline"]).success();
    assert_eq!(fs::read(home.path("skills/beads/SKILL.md")).unwrap(), before);
    insta::assert_snapshot!(run_lint(&home, &["skills", "--select", "backslash"]), @r"
    exit 3
    --- stderr
    error: rule `backslash` not found
    hint: similar rules: backslash-path
    ");
}

#[test]
fn dry_run_prints_diff_and_writes_nothing() {
    let home = TestHome::new()
        .file("beads/SKILL.md", format!("{HEAD}---\n# Count\n\nOpen `scripts\\count.py`.\n"));
    let before = fs::read(home.path("beads/SKILL.md")).unwrap();
    insta::assert_snapshot!(run_lint(&home, &["beads", "--fix", "--dry-run"]), @r"
    exit 1
    --- stdout
    beads/SKILL.md: 1 would be fixed
      @@ -5,3 +5,3 @@
       # Count
       
      -Open `scripts\count.py`.
      +Open `scripts/count.py`.

    warning[backslash-path]: `scripts\count.py` is written with backslashes
     --> beads/SKILL.md:7:6
      |
    7 | Open `scripts\count.py`.
      |      ^^^^^^^^^^^^^^^^^^^
      |
      = help: write it with slashes

    1 skill: valid; 1 warning, 1 would be fixed
    ");
    let report = run_lint(&home, &["beads", "--fix", "--dry-run", "--json"]).exits(1).json();
    let skill = &report["skills"][0];
    assert_eq!((&skill["would_fix"], skill.get("fixed")), (&json!(1), None));
    assert!(skill["diff"].as_str().unwrap().contains("+Open `scripts/count.py`."), "{skill}");
    assert_eq!(fs::read(home.path("beads/SKILL.md")).unwrap(), before);
    run_lint(&home, &["beads", "--dry-run"]).exits(2);
}

#[test]
fn totals_count_rules_and_fixable_findings() {
    let body = "---\nOpen `scripts\\count.py`. \nDone";
    let home = TestHome::new()
        .file("a/beads/SKILL.md", format!("{HEAD}type: x\n{body}"))
        .file("b/beads/SKILL.md", format!("{HEAD}{body}"));
    let output = run_lint(&home, &["a", "b"]).exits(1);
    let end = output.stdout.lines().rev().take(7).collect::<Vec<_>>();
    let end: Vec<_> = end.into_iter().rev().collect();
    insta::assert_snapshot!(end.join("\n"), @r"
      2  backslash-path (fixable)
      2  final-newline (fixable)
      2  trailing-whitespace (fixable)
      1  catalog-duplicate
      1  catalog-overlap
      1  frontmatter.unknownField
    6 fixable with --fix
    ");
}

#[test]
fn init_creates_valid_policy_once() {
    let home = typed_home();
    insta::assert_snapshot!(run_lint(&home, &["--init"]), @r"
    exit 0
    --- stdout
    created skillhost-lint.toml
    ");
    let report = run_lint(&home, &["skills", "--json"]).exits(1).json();
    assert_eq!(rules_of(&report).0, ["frontmatter.unknownField", "backslash-path"]);
    let text = fs::read_to_string(home.path("skillhost-lint.toml")).unwrap();
    run_lint(&home, &["--init"]).exits(4);
    // The examples in the comments are valid as well.
    let uncommented: Vec<_> = text
        .lines()
        .skip_while(|line| !line.starts_with("# Whose"))
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.contains(" = ") || rest.starts_with("[[") => rest,
            _ => line,
        })
        .collect();
    let home = home.file("skillhost-lint.toml", uncommented.join("\n"));
    let report = run_lint(&home, &["skills", "--json"]).exits(1).json();
    let paths: Vec<_> = report["skills"].as_array().unwrap().iter().map(|it| &it["path"]).collect();
    assert_eq!(paths, ["skills/beads/SKILL.md", "skillhost-lint.toml"], "{report}");
}

#[test]
fn watch_prints_changes_until_interrupted() {
    let home = typed_home();
    let watch = home.spawn(["skill", "lint", "--watch", "skills"]);
    watch.line_with("1 skill: invalid; 1 error, 1 warning");
    let path = home.path("skills/beads/SKILL.md");
    // The line of the other finding changes, which is no change of the finding.
    let text = format!("{HEAD}---\n\nOpen `scripts\\count.py`.\nCount. \n");
    home.write("edited", text);
    fs::rename(home.path("edited"), path).unwrap();
    watch.line_with("[trailing-whitespace]");
    watch.line_with("resolved[frontmatter.unknownField]: skills/beads/SKILL.md: ");
    assert_eq!(watch.line_with(" in all"), "1 new, 1 resolved; 2 in all");
    home.write("skillhost-lint.toml", "[severity]\ntrailing-whitespace = \"off\"\n");
    assert_eq!(watch.line_with(" in all"), "0 new, 1 resolved; 1 in all");
    let output = watch.interrupt().exits(130);
    let shown = output.stdout.matches("[backslash-path]").count();
    assert_eq!(shown, 1, "{output}");
    run_lint(&home, &["--watch", "--json", "skills"]).exits(2);
}

#[test]
#[cfg(target_os = "linux")]
fn watch_reads_skills_once_at_start() {
    use rustix::fs::inotify;
    let home = typed_home();
    let events = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    // Two equal events in sequence would be reported as one.
    let flags = inotify::WatchFlags::OPEN | inotify::WatchFlags::CLOSE;
    inotify::add_watch(&events, home.path("skills/beads/SKILL.md"), flags).unwrap();
    let watch = home.spawn(["skill", "lint", "--watch", "skills"]);
    watch.line_with("1 skill: invalid; 1 error, 1 warning");
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&events, &mut buffer);
    let mut opened = 0;
    while let Ok(event) = events.next() {
        opened += usize::from(event.events().contains(inotify::ReadFlags::OPEN));
    }
    // For the stamp with which later ones are compared, and for the check.
    assert_eq!(opened, 2);
    watch.interrupt().exits(130);
}

#[test]
fn documented_policy_is_valid() {
    let page = fs::read_to_string(repository_root().join("docs/lint.md")).unwrap();
    let policy = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let home = typed_home()
        .file(
            "skills/legacy/lids/SKILL.md",
            HEAD.replace("name: beads", "name: lids\nx: y") + "---\nShut.\n",
        )
        .file("skills/vendored/x/SKILL.md", "")
        .file("skillhost-lint.toml", policy);
    let report = run_lint(&home, &[".", "--json"]).exits(1).json();
    let summary = &report["summary"];
    assert_eq!(
        (&summary["skills"], &summary["errors"], &summary["suppressed"], &summary["excluded"]),
        (&json!(2), &json!(0), &json!(1), &json!(1)),
        "{report}"
    );
}
