//! Runs that do not start, and effects that do not happen.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;
use skillhost_payload::ErrorKind;
use test_support::can_isolate;

use crate::fixture::{SkillFixture, has_program};

#[tokio::test]
async fn script_cannot_change_its_skill() {
    if !can_isolate() || !has_program("bash") {
        return;
    }
    let text = "cd \"$SKILL_DIR\"; echo x >> SKILL.md; echo y > new; rm -f a.sh; chmod 777 SKILL.md
mv SKILL.md other; ls; rm -rf \"$SKILL_DIR\"\n";
    let skill = SkillFixture::new(&[("a.sh", text)]);
    let before = skill.tree();
    let result = skill.run("a.sh", &[]).await;
    assert!(!result.is_success());
    assert_eq!(result.stdout, "SKILL.md\na.sh\n");
    assert_eq!(skill.tree(), before);
}

#[tokio::test]
async fn changed_file_is_a_conflict() {
    if !can_isolate() || !has_program("bash") {
        return;
    }
    let skill = SkillFixture::new(&[("a.sh", "echo approved\n")]);
    let plan = skill.plan("a.sh", &[]).unwrap();
    // What was approved runs, the directory may contain anything by then.
    skill.write("a.sh", "echo changed\n");
    assert_eq!(plan.run().await.unwrap().stdout, "approved\n");
}

#[test]
fn link_in_skill_is_not_run() {
    let skill = SkillFixture::new(&[]);
    symlink("/bin/sh", skill.root().join("link.sh")).unwrap();
    let error = skill.plan("link.sh", &[]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains("links"), "{}", error.message);
}

#[test]
fn wrong_calls_have_errors_with_hints() {
    let mut skill = SkillFixture::new(&[("data.txt", "x"), ("scripts/a.py", "print()\n")]);
    skill.write("tool", "#!/bin/cat\nx");
    let error = |skill: &SkillFixture, path: &str| skill.plan(path, &[]).unwrap_err();
    for (path, kind, text) in [
        ("missing.py", ErrorKind::NotFound, "not a file"),
        ("../a.py", ErrorKind::InvalidArgument, "path"),
        ("/etc/passwd", ErrorKind::InvalidArgument, "absolute"),
        ("a\nb", ErrorKind::InvalidArgument, "control"),
        ("", ErrorKind::InvalidArgument, "empty"),
        ("data.txt", ErrorKind::InvalidArgument, "no #! line"),
        ("tool", ErrorKind::InvalidArgument, "no known interpreter"),
    ] {
        let error = error(&skill, path);
        assert_eq!(error.kind, kind, "{path:?}: {}", error.message);
        assert!(error.message.contains(text), "{path:?}: {}", error.message);
        assert!(!error.hint.is_empty(), "{path:?}");
    }
    assert!(error(&skill, "missing.py").hint.contains("scripts/a.py"));
    assert!(error(&skill, "data.txt").hint.contains(".py, .sh"));
    skill.variables.insert("LD_PRELOAD".into(), "/x.so".into());
    assert!(error(&skill, "scripts/a.py").message.contains("LD_PRELOAD"));
    skill.variables.clear();
    for workdir in ["..", "/etc", "a/../..", "@skill/.."] {
        skill.workdir = workdir.into();
        assert!(skill.plan("scripts/a.py", &[]).is_err(), "{workdir}");
    }
    skill.workdir = ".".into();
    assert!(skill.plan("scripts/a.py", &["a\0b"]).is_err());
    assert!(skill.plan("scripts/a.py", &["x"; 65]).is_err());
    skill.sandbox = Some(json!({"limits": {"secnds": 3}}));
    let text = error(&skill, "scripts/a.py").message;
    assert!(text.contains("secnds"), "{text}");
    skill.sandbox = None;
    skill.operator.settings.is_off = true;
    assert_eq!(error(&skill, "scripts/a.py").kind, ErrorKind::Unavailable);
}

#[test]
fn missing_interpreter_is_named() {
    let mut skill = SkillFixture::new(&[("a.py", "print()\n")]);
    let command = vec!["no-such-python".to_owned()];
    skill.operator.settings.interpreters.insert(".py".into(), command);
    let error = skill.plan("a.py", &[]).unwrap_err();
    assert_eq!(
        (error.kind, &*error.message),
        (ErrorKind::NotFound, "interpreter `no-such-python` not found")
    );
}

#[test]
fn approval_shows_run_without_control_characters() {
    if !can_isolate() || !has_program("bash") {
        return;
    }
    let mut skill = SkillFixture::new(&[("a.sh", "true\n"), ("b\u{202e}.txt", "")]);
    skill.sandbox = Some(json!({"network": {"allowedDomains": ["evil.example.org"]}}));
    skill.variables.insert("A".into(), "b\n$ ok".into());
    let plan = skill.plan("a.sh", &["x\u{1b}[2J", "a\nisolation: none"]).unwrap();
    let text = plan.describe();
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    assert!(!text.lines().any(|line| line == "isolation: none"), "{text}");
    assert!(!text.lines().any(|line| line == "$ ok"), "{text}");
    for part in [
        "the script a.sh of the skill demo (root skills)",
        &skill.tree().digest,
        "--noprofile --norc a.sh $'x\\u{1b}[2J'",
        "not granted, although the skill requests it: allowedDomains evil.example.org",
        "allowWrite",
        "isolation: ",
        &plan.granted_policy().digest,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let again = skill.plan("a.sh", &[]).unwrap();
    assert_eq!(plan.policy().digest(), again.policy().digest(), "not bound to the private copy");
    drop(again);
    fs::write(skill.root().join("a.sh"), "false\n").unwrap();
    assert_eq!(skill.plan("a.sh", &[]).unwrap().granted_policy(), plan.granted_policy());
}

#[tokio::test]
async fn skill_layer_only_narrows() {
    if !can_isolate() || !has_program("bash") {
        return;
    }
    let mut skill = SkillFixture::new(&[("a.sh", "echo x > out; echo \"$?\"; cat a.sh\n")]);
    skill.sandbox =
        Some(json!({"filesystem": {"allowRead": [], "allowWrite": []}, "limits": {"seconds": 5}}));
    let plan = skill.plan("a.sh", &[]).unwrap();
    assert_eq!(plan.policy().policy.limits.seconds, Some(5));
    let result = plan.run().await.unwrap();
    assert_eq!(result.stdout, "1\n", "{}", result.stderr);
    assert!(!skill.work().join("out").exists());
}
