//! Only the effect that a person saw is written.

use std::fs;
use std::os::unix::fs::symlink;

use skillhost_sdk::{ChangeKind, ErrorKind, ToolEffect, Value, json};

use crate::yard::Yard;

fn effect(yard: &Yard, tool: &str, args: &Value) -> ToolEffect {
    yard.plan(tool, args).unwrap().effect(&yard.sandbox, true).unwrap()
}

/// Returns the kind, path and new path of every change.
fn changes(effect: &ToolEffect) -> Vec<(ChangeKind, &str, Option<&str>)> {
    effect.changes.iter().map(|it| (it.kind, &*it.path, it.to.as_deref())).collect()
}

#[test]
fn effects_name_every_change() {
    let yard = Yard::new();
    yard.write("work/manifest.yaml", "id: x\n");
    yard.write("work/src/lib.rs", "fn a() {}\n");
    let written = json!({"path": "notes/a.md", "content": "one\nTWO\nthree\n"});
    let modified = effect(&yard, "write_file", &written);
    assert_eq!(changes(&modified), [(ChangeKind::Modify, "sandbox/notes/a.md", None)]);
    assert_eq!(modified.changes[0].diff, "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n");
    let several = json!({"files": [
        {"path": "extensions/x/manifest.yaml", "content": "id: x\n"},
        {"path": "notes/a.md", "content": ""},
    ]});
    let several = effect(&yard, "write_files", &several);
    assert_eq!(
        changes(&several),
        [
            (ChangeKind::Create, "sandbox/extensions/x/manifest.yaml", None),
            (ChangeKind::Modify, "sandbox/notes/a.md", None)
        ]
    );
    assert_eq!(several.changes[0].diff, "@@ -0,0 +1 @@\n+id: x\n");
    let moved = effect(&yard, "move_path", &json!({"from": "work", "to": "extensions/x"}));
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
    let deleted = effect(&yard, "delete_path", &json!({"path": "work", "recursive": true}));
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
    assert_eq!(yard.text("notes/a.md").as_deref(), Some("one\ntwo\nthree\n"));
    assert!(yard.path("work/src/lib.rs").exists() && !yard.path("extensions").exists());
}

#[test]
fn only_the_approved_effect_is_written() {
    let yard = Yard::new();
    yard.write("work/manifest.yaml", "id: harmless\n");
    let calls = [
        ("move_path", json!({"from": "work", "to": "extensions/x"})),
        ("delete_path", json!({"path": "work", "recursive": true})),
        ("write_file", json!({"path": "work/manifest.yaml", "content": "id: x\n"})),
    ];
    let approved: Vec<_> =
        calls.iter().map(|(tool, args)| effect(&yard, tool, args).digest).collect();
    // Another call of the same reply needs no question for this.
    yard.write("work/manifest.yaml", "id: kernel\nentrypoint: evil\n");
    for ((tool, args), digest) in calls.iter().zip(&approved) {
        let plan = yard.plan(tool, args).unwrap();
        let error = plan.commit(&yard.sandbox, Some(digest)).unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::Conflict, "the files have changed since the approval"),
            "{tool}"
        );
    }
    assert_eq!(yard.text("work/manifest.yaml").unwrap(), "id: kernel\nentrypoint: evil\n");
    assert!(!yard.path("extensions").exists());
    yard.write("work/manifest.yaml", "id: harmless\n");
    let plan = yard.plan("move_path", &calls[0].1).unwrap();
    plan.commit(&yard.sandbox, Some(&approved[0])).unwrap();
    assert_eq!(yard.text("extensions/x/manifest.yaml").unwrap(), "id: harmless\n");
}

#[test]
fn unshowable_content_is_reported() {
    let yard = Yard::new();
    yard.write("work/libx.so", b"\x7fELF\0\0");
    let moved = json!({"from": "work", "to": "extensions/x"});
    let hidden = effect(&yard, "move_path", &moved).hidden.unwrap();
    assert_eq!(
        hidden,
        "`work/libx.so` cannot be shown: `work/libx.so` is a program or library, not text"
    );
    let long = json!({"path": "extensions/x/a", "content": "x\n".repeat(ToolEffect::TEXT_LIMIT)});
    let long = effect(&yard, "write_file", &long);
    assert_eq!(long.hidden.as_deref(), Some("the changes have more than 262144 bytes"));
    assert_eq!(long.changes[0].diff, "");
    // Without texts, no file is read.
    let plan = yard.plan("move_path", &moved).unwrap();
    let paths = plan.effect(&yard.sandbox, false).unwrap();
    assert_eq!(
        (changes(&paths), paths.hidden.as_deref()),
        (vec![(ChangeKind::Move, "sandbox/work", Some("sandbox/extensions/x"))], None)
    );
}

#[test]
fn several_files_are_written_atomically() {
    let yard = Yard::new();
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
        assert_eq!(yard.refusal("write_files", &files(last)).0, kind, "{last}");
        assert!(!yard.path("x").exists(), "{last}");
        assert_eq!(yard.text("notes/a.md").as_deref(), Some("one\ntwo\nthree\n"), "{last}");
    }
    let none = yard.refusal("write_files", &json!({"files": []}));
    assert_eq!(none.0, ErrorKind::InvalidArgument);
    let many: Vec<_> =
        (0..51).map(|at| json!({"path": format!("m/{at}"), "content": ""})).collect();
    assert_eq!(yard.refusal("write_files", &json!({ "files": many })).0, ErrorKind::TooLarge);
    let done = yard.call("write_files", &files("x/b.md")).unwrap();
    assert_eq!(done.text, "Written: created `x/a.md`, replaced `notes/a.md`, created `x/b.md`.");
    assert_eq!(yard.text("x/b.md").as_deref(), Some("last"));
}

#[test]
fn trees_with_links_are_not_moved() {
    let yard = Yard::new();
    yard.write("work/prompt.md", "x");
    let plan = yard.plan("move_path", &json!({"from": "work", "to": "moved"})).unwrap();
    symlink(yard.outside("canary.txt"), yard.path("work/prompt.jinja2")).unwrap();
    // Planned before the link was there, committed after.
    let late = plan.commit(&yard.sandbox, None).unwrap_err();
    let early = yard.refusal("move_path", &json!({"from": "work", "to": "moved"}));
    let message = "`work` holds links or special files".to_owned();
    let hint = "a person has to move it".to_owned();
    assert_eq!((late.kind(), late.message()), (ErrorKind::Denied, message.as_str()));
    assert_eq!(early, (ErrorKind::Denied, message, hint));
    assert!(yard.path("work/prompt.md").exists() && !yard.path("moved").exists());
    fs::remove_file(yard.path("work/prompt.jinja2")).unwrap();
    yard.call("move_path", &json!({"from": "work", "to": "moved"})).unwrap();
}
