//! `skillhost skill doctor`: how far each skill gets, without a kernel.

use std::fs;

use test_support::TestHome;

use crate::scene::{as_a_reader, steady};

fn text(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}. Use when asked.\n{more}---\nDo it.\n")
}

/// Two roots, the second one untrusted.
const ROOTS: &str = "\
extensions:
  skill_registry:
    ignore: [attic]
    roots:
      - {label: sandbox, path: sandbox/skills, trust: operator}
      - {label: team, path: team}
";

#[test]
fn a_sound_home_has_nothing_but_yes() {
    let home = TestHome::new().skill("brew", &text("brew", "")).skill("pour", &text("pour", ""));
    insta::assert_snapshot!(home.skillhost(["skill", "doctor"]), @"");
}

#[test]
fn the_first_no_has_its_reason() {
    let home = TestHome::new()
        .settings(ROOTS)
        .skill("brew", &text("brew", "requires: [pour, ghost]\n"))
        .skill("copied", &text("copied", ""))
        .file("team/copied/SKILL.md", text("copied", ""))
        .skill("greet", "---\ndescription: Greets people.\n---\nSay hello.\n")
        .skill("mute", "---\nname: mute\n---\nNothing.\n")
        .skill("odd`name", &text("odd", ""))
        .skill("attic/old", &text("old", ""))
        .skill("pour", &text("pour", ""))
        .file("team/pour/SKILL.md", text("pour", "license: MIT\n"))
        .file("team/stir/SKILL.md", text("stir", ""))
        .file(
            "team/stir/skill.yaml",
            "tools:\n  dependencies:\n    - {tool: Spoon, required: true, purpose: stirring}\n",
        )
        .skill("wipe", &text("wipe", "disable-model-invocation: true\n"));
    insta::assert_snapshot!(home.skillhost(["skill", "doctor", "--profile", "lenient"]), @"");
    insta::assert_snapshot!(steady(&home.skillhost(["skill", "doctor", "--json"]).exits(1)), @"");
}

#[test]
fn what_is_no_defect_ends_well() {
    let home = TestHome::new()
        .settings(ROOTS)
        .skill("wipe", &text("wipe", "disable-model-invocation: true\n"))
        .file("team/wipe/SKILL.md", text("wipe", "disable-model-invocation: true\n"))
        .file("team/stir/SKILL.md", text("stir", ""));
    insta::assert_snapshot!(home.skillhost(["skill", "doctor", "--profile", "lenient"]), @"");
}

#[test]
fn the_profile_decides_what_is_valid() {
    let home = TestHome::new().skill("claude-brew", &text("claude-brew", ""));
    home.skillhost(["skill", "doctor", "--profile", "spec"]).success();
    insta::assert_snapshot!(home.skillhost(["skill", "doctor", "--profile", "anthropic"]), @"");
    // It is loaded all the same.
    home.skillhost(["skill", "read", "claude-brew"]).success();
}

#[test]
fn the_budget_of_the_catalog_cuts_descriptions_and_then_skills() {
    let home = TestHome::new()
        .skill("brew", &text("brew", ""))
        .skill("pour", &text("pour", ""))
        .skill("stir", &text("stir", ""));
    let budget = |chars: u32| {
        home.write(
            "skillhost.yaml",
            format!("extensions: {{skill_registry: {{l1_budget_chars: {chars}}}}}"),
        );
        home.skillhost(["skill", "doctor"])
    };
    insta::assert_snapshot!(budget(130), @"");
    insta::assert_snapshot!(budget(115), @"");
}

#[test]
fn folders_can_be_named_instead_of_a_home() {
    let home = TestHome::new().file("a/brew/SKILL.md", text("brew", ""));
    fs::create_dir_all(home.path("b")).unwrap();
    insta::assert_snapshot!(home.skillhost(["skill", "doctor", "--root", "a", "--root", "b"]), @"");
    insta::assert_snapshot!(home.skillhost(["skill", "doctor", "--root", "b"]), @"");
    insta::assert_snapshot!(home.skillhost(["skill", "doctor", "--root", "gone"]), @"");
}

#[cfg(unix)]
#[test]
fn what_cannot_be_searched_or_followed_is_said() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let home = TestHome::new()
        .skill("brew", &text("brew", ""))
        .skill("closed/inner", &text("inner", ""))
        .skill("shut", &text("shut", ""))
        .file("elsewhere/pour/SKILL.md", text("pour", ""));
    symlink(home.path("elsewhere/pour"), home.path("sandbox/skills/pour")).unwrap();
    let mode = |path: &str, mode| {
        let path = home.path(path);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("sandbox/skills/closed", 0o000);
    mode("sandbox/skills/shut/SKILL.md", 0o000);
    let output = as_a_reader(&home, &["skill", "doctor"]);
    mode("sandbox/skills/closed", 0o755);
    insta::assert_snapshot!(output, @"");
}
