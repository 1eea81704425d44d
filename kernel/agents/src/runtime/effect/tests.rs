use skillhost_payload::EffectChange;

use super::*;

fn change(kind: ChangeKind, path: &str, to: Option<&str>) -> EffectChange {
    let to = to.map(str::to_owned);
    EffectChange { path: path.into(), kind, to, diff: "@@ -0,0 +1 @@\n+x\n".into() }
}

#[test]
fn protected_paths_are_recognized() {
    let home = tempfile::tempdir().unwrap();
    let sandbox = home.path().join("sandbox");
    std::fs::create_dir_all(sandbox.join("extensions")).unwrap();
    std::os::unix::fs::symlink("extensions", sandbox.join("plugins")).unwrap();
    for path in [
        "sandbox/extensions/x/manifest.yaml",
        "sandbox/extensions",
        "sandbox/EXTENSIONS/x",
        "Sandbox/Extensions/x",
        "sandbox/agents/a",
        "sandbox/skills/s/SKILL.md",
        "sandbox/data/kernel/approvals.jsonl",
        "sandbox/notes/SKILL.md",
        "sandbox/notes/skill.MD",
        "sandbox/plugins/x",
        "sandbox",
        "sandbox/",
        "sandbox/notes/../extensions/x",
        "sandbox//extensions",
        "sandbox/notes\\..\\extensions",
        "skillhost.yaml",
        ".env",
        "manifests/x/manifest.yaml",
        "/etc/passwd",
        "../x",
        "",
    ] {
        assert!(is_protected_path(home.path(), path), "{path}");
    }
    for path in [
        "sandbox/notes/a.md",
        "sandbox/a",
        "sandbox/notes/extensions/a",
        "sandbox/extensions.md",
        "sandbox/notes/skill.md.txt",
        "sandbox/.env",
    ] {
        assert!(!is_protected_path(home.path(), path), "{path}");
    }
}

#[test]
fn move_checks_both_paths() {
    let home = Path::new("/nonexistent");
    let moved = |from, to| ToolEffect {
        changes: vec![
            change(ChangeKind::Create, "sandbox/notes/a", None),
            change(ChangeKind::Move, from, Some(to)),
        ],
        ..ToolEffect::default()
    };
    assert!(is_protected(home, &moved("sandbox/notes/x", "sandbox/extensions/x")));
    assert!(is_protected(home, &moved("sandbox/extensions/x", "sandbox/notes/x")));
    assert!(!is_protected(home, &moved("sandbox/notes/x", "sandbox/notes/y")));
}

#[test]
fn hidden_effect_is_rejected() {
    let mut effect = ToolEffect {
        changes: vec![
            change(ChangeKind::Create, "sandbox/extensions/x/a", None),
            change(ChangeKind::Move, "sandbox/b", Some("sandbox/extensions/b")),
        ],
        ..ToolEffect::default()
    };
    assert_eq!(
        format_details("move_path", &effect).unwrap(),
        "changes code that runs or instructions of agents:\n\
         create sandbox/extensions/x/a\n@@ -0,0 +1 @@\n+x\n\
         move sandbox/b to sandbox/extensions/b\n@@ -0,0 +1 @@\n+x\n"
    );
    effect.hidden = Some("`b` is a program or library, not text".into());
    let error = format_details("move_path", &effect).unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (
            ErrorKind::Denied,
            "call of `move_path` cannot be shown in full for approval: `b` is a program or \
             library, not text"
        )
    );
}
