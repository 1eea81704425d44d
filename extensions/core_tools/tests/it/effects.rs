//! Only the effect that a person saw is written.

use std::fs;
use std::os::unix::fs::symlink;

use skillhost_sdk::{ChangeKind, ErrorKind, ToolEffect, Value, json};

use crate::fixture::SandboxFixture;

fn effect(fixture: &SandboxFixture, tool: &str, args: &Value) -> ToolEffect {
    fixture.plan(tool, args).unwrap().effect(&fixture.sandbox, true).unwrap()
}

/// Returns the kind, path and new path of every change.
fn changes(effect: &ToolEffect) -> Vec<(ChangeKind, &str, Option<&str>)> {
    effect.changes.iter().map(|it| (it.kind, &*it.path, it.to.as_deref())).collect()
}

#[test]
fn effects_name_every_change() {
    let fixture = SandboxFixture::new();
    fixture.write("work/manifest.yaml", "id: x\n");
    fixture.write("work/src/lib.rs", "fn a() {}\n");
    let written = json!({"path": "notes/a.md", "content": "one\nTWO\nthree\n"});
    let modified = effect(&fixture, "write_file", &written);
    assert_eq!(changes(&modified), [(ChangeKind::Modify, "sandbox/notes/a.md", None)]);
    assert_eq!(modified.changes[0].diff, "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n");
    let several = json!({"files": [
        {"path": "extensions/x/manifest.yaml", "content": "id: x\n"},
        {"path": "notes/a.md", "content": ""},
    ]});
    let several = effect(&fixture, "write_files", &several);
    assert_eq!(
        changes(&several),
        [
            (ChangeKind::Create, "sandbox/extensions/x/manifest.yaml", None),
            (ChangeKind::Modify, "sandbox/notes/a.md", None)
        ]
    );
    assert_eq!(several.changes[0].diff, "@@ -0,0 +1 @@\n+id: x\n");
    let moved = effect(&fixture, "move_path", &json!({"from": "work", "to": "extensions/x"}));
    assert_eq!(
        changes(&moved),
        [
            (ChangeKind::Move, "sandbox/work", Some("sandbox/extensions/x")),
            (
                ChangeKind::Move,
                "sandbox/work/manifest.yaml",
                Some("sandbox/extensions/x/manifest.yaml")
            ),
            (ChangeKind::Move, "sandbox/work/src", Some("sandbox/extensions/x/src")),
            (ChangeKind::Move, "sandbox/work/src/lib.rs", Some("sandbox/extensions/x/src/lib.rs")),
        ]
    );
    assert_eq!(moved.changes[3].diff, "@@ -0,0 +1 @@\n+fn a() {}\n");
    let deleted = effect(&fixture, "delete_path", &json!({"path": "work", "recursive": true}));
    let paths: Vec<_> = deleted.changes.iter().map(|it| (it.kind, &*it.path)).collect();
    assert_eq!(
        paths,
        ["", "/manifest.yaml", "/src", "/src/lib.rs"]
            .map(|rest| format!("sandbox/work{rest}"))
            .iter()
            .map(|path| (ChangeKind::Delete, &**path))
            .collect::<Vec<_>>()
    );
    // A plan changes no file.
    assert_eq!(fixture.text("notes/a.md").as_deref(), Some("one\ntwo\nthree\n"));
    assert!(fixture.path("work/src/lib.rs").exists() && !fixture.path("extensions").exists());
}

#[test]
fn only_the_approved_effect_is_written() {
    let fixture = SandboxFixture::new();
    fixture.write("work/manifest.yaml", "id: harmless\n");
    let calls = [
        ("move_path", json!({"from": "work", "to": "extensions/x"})),
        ("delete_path", json!({"path": "work", "recursive": true})),
        ("write_file", json!({"path": "work/manifest.yaml", "content": "id: x\n"})),
    ];
    let approved: Vec<_> =
        calls.iter().map(|(tool, args)| effect(&fixture, tool, args).digest).collect();
    // Another call of the same reply needs no question for this.
    fixture.write("work/manifest.yaml", "id: kernel\nentrypoint: evil\n");
    for ((tool, args), digest) in calls.iter().zip(&approved) {
        let plan = fixture.plan(tool, args).unwrap();
        let error = plan.commit(&fixture.sandbox, Some(digest)).unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::Conflict, "the files have changed since the approval"),
            "{tool}"
        );
    }
    assert_eq!(fixture.text("work/manifest.yaml").unwrap(), "id: kernel\nentrypoint: evil\n");
    assert!(!fixture.path("extensions").exists());
    fixture.write("work/manifest.yaml", "id: harmless\n");
    let plan = fixture.plan("move_path", &calls[0].1).unwrap();
    plan.commit(&fixture.sandbox, Some(&approved[0])).unwrap();
    assert_eq!(fixture.text("extensions/x/manifest.yaml").unwrap(), "id: harmless\n");
}

#[test]
fn unshowable_content_is_reported() {
    let fixture = SandboxFixture::new();
    fixture.write("work/libx.so", b"\x7fELF\0\0");
    let moved = json!({"from": "work", "to": "extensions/x"});
    let hidden = effect(&fixture, "move_path", &moved).hidden.unwrap();
    assert_eq!(
        hidden,
        "`work/libx.so` cannot be shown: `work/libx.so` is a program or library, not text"
    );
    let long = json!({"path": "extensions/x/a", "content": "x\n".repeat(ToolEffect::TEXT_LIMIT)});
    let long = effect(&fixture, "write_file", &long);
    assert_eq!(long.hidden.as_deref(), Some("the changes have more than 262144 bytes"));
    assert_eq!(long.changes[0].diff, "");
    // Without texts, no file is read.
    let plan = fixture.plan("move_path", &moved).unwrap();
    let paths = plan.effect(&fixture.sandbox, false).unwrap();
    assert_eq!(
        (changes(&paths), paths.hidden.as_deref()),
        (vec![(ChangeKind::Move, "sandbox/work", Some("sandbox/extensions/x"))], None)
    );
}

#[test]
fn several_files_are_written_atomically() {
    let fixture = SandboxFixture::new();
    let files = |last: &str| {
        json!({"files": [
            {"path": "x/a.md", "content": "a"},
            {"path": "notes/a.md", "content": "new"},
            {"path": last, "content": "last"},
        ]})
    };
    for (last, kind) in [
        ("../out", ErrorKind::Denied),
        ("skills/demo/SKILL.md", ErrorKind::Denied),
        ("X/A.md", ErrorKind::InvalidArgument),
        ("x/a.md/b", ErrorKind::InvalidArgument),
        ("notes", ErrorKind::InvalidArgument),
    ] {
        assert_eq!(fixture.refusal("write_files", &files(last)).0, kind, "{last}");
        assert!(!fixture.path("x").exists(), "{last}");
        assert_eq!(fixture.text("notes/a.md").as_deref(), Some("one\ntwo\nthree\n"), "{last}");
    }
    let none = fixture.refusal("write_files", &json!({"files": []}));
    assert_eq!(none.0, ErrorKind::InvalidArgument);
    let many: Vec<_> =
        (0..51).map(|at| json!({"path": format!("m/{at}"), "content": ""})).collect();
    assert_eq!(fixture.refusal("write_files", &json!({ "files": many })).0, ErrorKind::TooLarge);
    let done = fixture.call("write_files", &files("x/b.md")).unwrap();
    assert_eq!(done.text, "Written: created `x/a.md`, replaced `notes/a.md`, created `x/b.md`.");
    assert_eq!(fixture.text("x/b.md").as_deref(), Some("last"));
}

#[test]
fn trees_with_links_are_not_moved() {
    let fixture = SandboxFixture::new();
    fixture.write("work/prompt.md", "x");
    let plan = fixture.plan("move_path", &json!({"from": "work", "to": "moved"})).unwrap();
    symlink(fixture.outside("canary.txt"), fixture.path("work/prompt.jinja2")).unwrap();
    // Planned before the link was there, committed after.
    let late = plan.commit(&fixture.sandbox, None).unwrap_err();
    let early = fixture.refusal("move_path", &json!({"from": "work", "to": "moved"}));
    let message = "`work` holds links or special files".to_owned();
    let hint = "a person has to move it".to_owned();
    assert_eq!((late.kind(), late.message()), (ErrorKind::Denied, message.as_str()));
    assert_eq!(early, (ErrorKind::Denied, message, hint));
    assert!(fixture.path("work/prompt.md").exists() && !fixture.path("moved").exists());
    fs::remove_file(fixture.path("work/prompt.jinja2")).unwrap();
    fixture.call("move_path", &json!({"from": "work", "to": "moved"})).unwrap();
}
