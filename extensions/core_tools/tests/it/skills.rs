//! Skills: existing ones are read-only, new ones are announced beforehand.

use std::collections::BTreeMap;
use std::fs;

use skillhost_sdk::{ErrorKind, json};

use crate::fixture::{SandboxFixture, uses};

const NEW: &str = "---\nname: new\ndescription: New.\n---\nDo it.\n";

fn tree(fixture: &SandboxFixture, rel: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![fixture.path(rel)];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                found.insert(
                    path.strip_prefix(fixture.path("")).unwrap().display().to_string(),
                    text,
                );
            }
        }
    }
    found
}

#[test]
fn skill_files_are_read_only() {
    let fixture = SandboxFixture::new();
    fixture.write("team/group/other/skill.md", "---\ndescription: Lower case.\n---\n");
    let before = tree(&fixture, "");
    let parts = [
        ("skills/demo/SKILL.md", "demo"),
        ("skills/demo/references/guide.md", "demo"),
        ("skills/demo/references", "demo"),
        ("skills/demo/new/file.md", "demo"),
        ("team/group/other/x", "other"),
    ];
    for (path, id) in parts {
        for (tool, args) in uses(path) {
            if matches!(tool, "read_file" | "list_directory") {
                continue;
            }
            let (kind, message, hint) = fixture.refusal(tool, &args);
            let expected = format!("`{path}` belongs to the skill `{id}`, which is read-only");
            assert_eq!((kind, message), (ErrorKind::Denied, expected), "{tool}");
            let expected = format!("propose the change: propose_skill_update with skill_id `{id}`");
            assert_eq!(hint, expected, "{tool}");
        }
    }
    // Nor can the directory be deleted or hidden.
    for (path, message) in [
        ("skills/demo", "`skills/demo` belongs to the skill `demo`, which is read-only"),
        ("skills", "`skills` is part of every sandbox"),
        ("Skills", "`Skills` is part of every sandbox"),
        ("team/group", "`team/group` holds skills"),
        ("team", "`team` holds skills"),
    ] {
        for (tool, args) in [
            ("delete_path", json!({"path": path, "recursive": true})),
            ("move_path", json!({"from": path, "to": "elsewhere"})),
        ] {
            assert_eq!(fixture.refusal(tool, &args).1, message, "{tool}");
        }
    }
    assert_eq!(tree(&fixture, ""), before);
    let read =
        fixture.call("read_file", &json!({"path": "skills/demo/references/guide.md"})).unwrap();
    assert_eq!(read.structured["content"], "inside");
    let listed = fixture.call("list_directory", &json!({"path": "skills"})).unwrap();
    assert_eq!(listed.text, "demo/ (skill, read-only)\n[1 entries]");
}

#[test]
fn new_skill_is_announced_first() {
    let fixture = SandboxFixture::new();
    let write = json!({"path": "skills/new/SKILL.md", "content": NEW});
    let plan = fixture.plan("write_file", &write).unwrap();
    assert_eq!(plan.new_skills(), ["new"]);
    assert!(!fixture.path("skills/new").exists());
    plan.commit(&fixture.sandbox, None).unwrap();
    assert_eq!(fixture.text("skills/new/SKILL.md").as_deref(), Some(NEW));

    let diff = |path: &str, text: &str| skill_diff::unified_diff("", text, path);
    let patch = diff("skills/group/two/SKILL.md", NEW) + &diff("skills/group/two/a.md", "a\n");
    let plan = fixture.plan("apply_patch", &json!({ "patch": patch })).unwrap();
    assert_eq!(plan.new_skills(), ["two"]);
    plan.commit(&fixture.sandbox, None).unwrap();
    assert_eq!(fixture.text("skills/group/two/a.md").as_deref(), Some("a\n"));

    fixture.write("notes/draft.md", NEW);
    let moved = json!({"from": "notes/draft.md", "to": "skills/three/SKILL.md"});
    let plan = fixture.plan("move_path", &moved).unwrap();
    assert_eq!(plan.new_skills(), ["three"]);
    plan.commit(&fixture.sandbox, None).unwrap();
    assert_eq!(fixture.text("skills/three/SKILL.md").as_deref(), Some(NEW));

    // Its other files come before; they are no skill yet.
    let other = json!({"path": "skills/four/references/a.md", "content": "a"});
    assert_eq!(fixture.plan("write_file", &other).unwrap().new_skills(), [""; 0]);
}

#[test]
fn hidden_or_hiding_skill_is_rejected() {
    let fixture = SandboxFixture::new();
    fixture.write("skills/group/inner/SKILL.md", NEW);
    let own = "a skill has a directory of its own: skills/<id>/SKILL.md";
    let cases = [
        ("SKILL.md", "`SKILL.md` would make a directory of skills a skill", own),
        ("skills/SKILL.md", "`skills/SKILL.md` would make a directory of skills a skill", own),
        ("skills/group/SKILL.md", "`skills/group/SKILL.md` would hide the skills below it", own),
        (
            "skills/x/skill.md",
            "`skills/x/skill.md` would be a skill's file",
            "write it as SKILL.md",
        ),
        (
            "skills/x/Skill.MD",
            "`skills/x/Skill.MD` would be a skill's file",
            "write it as SKILL.md",
        ),
    ];
    for (path, message, hint) in cases {
        for (tool, args) in uses(path) {
            let is_new = tool == "write_file" || tool == "apply_patch" || args["to"] == path;
            if is_new {
                let expected = (ErrorKind::Denied, message.to_owned(), hint.to_owned());
                assert_eq!(fixture.refusal(tool, &args), expected, "{tool}");
            }
        }
    }
}
