//! The ordinary use of the tools.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::thread;

use skillhost_sdk::{ErrorKind, json};

use crate::fixture::SandboxFixture;

fn digest(fixture: &SandboxFixture, path: &str) -> String {
    let read = fixture.call("read_file", &json!({ "path": path })).unwrap();
    read.structured["digest"].as_str().unwrap().to_owned()
}

#[test]
fn text_is_read_by_lines() {
    let fixture = SandboxFixture::new();
    let digest = digest(&fixture, "notes/a.md");
    let read = |args| fixture.call("read_file", &args).unwrap();
    let whole = read(json!({"path": "notes/a.md"}));
    assert_eq!(whole.text, format!("one\ntwo\nthree\n[lines 1 to 3 of 3; sha256 {digest}]"));
    let part = read(json!({"path": "notes/a.md", "offset": 2, "limit": 1}));
    assert_eq!(
        part.text,
        format!("two\n[lines 2 to 2 of 3; continue with offset 3; sha256 {digest}]")
    );
    let expected = json!({
        "path": "notes/a.md", "content": "two\n", "digest": digest, "size": 14, "first_line": 2,
        "lines": 1, "total_lines": 3, "next_offset": 3, "cut": false,
    });
    assert_eq!(part.structured, expected);
    let past = read(json!({"path": "notes/a.md", "offset": 9}));
    assert_eq!(past.text, format!("[the file has 3 lines; sha256 {digest}]"));
    let (kind, message, hint) =
        fixture.refusal("read_file", &json!({"path": "sandbox/notes/a.md"}));
    assert_eq!(
        (kind, &*message, &*hint),
        (
            ErrorKind::NotFound,
            "`sandbox/notes/a.md` not found in the sandbox",
            "paths start below the sandbox: `notes/a.md`"
        )
    );
    assert_eq!(fixture.refusal("read_file", &json!({"path": "notes"})).1, "`notes` is a directory");
    assert_eq!(
        fixture.refusal("read_file", &json!({"path": "a", "line": 1})).0,
        ErrorKind::InvalidArgument
    );
}

#[test]
fn write_requires_expected_digest() {
    let fixture = SandboxFixture::new();
    let write = |path: &str, content: &str, expected: Option<&str>| {
        let args = json!({"path": path, "content": content, "expected_digest": expected});
        fixture.call("write_file", &args)
    };
    let old = digest(&fixture, "notes/a.md");
    let script = fixture.path("notes/a.md");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
    let done = write("notes/a.md", "new\n", Some(&old)).unwrap();
    let new = digest(&fixture, "notes/a.md");
    assert_eq!(done.text, format!("Replaced `notes/a.md`: 1 lines, 4 bytes; sha256 {new}."));
    assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o750);
    let stale = write("notes/a.md", "newer\n", Some(&old)).unwrap_err();
    assert_eq!(
        (stale.kind(), stale.message()),
        (ErrorKind::Conflict, &*format!("`notes/a.md` has the digest {new}, not the expected one"))
    );
    assert_eq!(
        write("notes/a.md", "x", Some("none")).unwrap_err().message(),
        "`notes/a.md` already exists"
    );
    assert_eq!(
        write("notes/b.md", "x", Some(&old)).unwrap_err().message(),
        "`notes/b.md` not found"
    );
    assert_eq!(fixture.text("notes/a.md").as_deref(), Some("new\n"));
    let done = write("deep/er/b.md", "b", Some("none")).unwrap();
    assert!(done.text.starts_with("Created `deep/er/b.md`: 1 lines, 1 bytes"), "{}", done.text);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(
        write("notes/a.md", "x", None).unwrap_err().message(),
        "`notes/a.md` is write-protected"
    );
    // No temporary file remains.
    let names = fs::read_dir(fixture.path("notes")).unwrap();
    assert_eq!(names.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>(), ["a.md"]);
}

#[test]
fn overtaken_plan_is_conflict() {
    let fixture = SandboxFixture::new();
    let args = json!({"path": "notes/a.md", "content": "mine"});
    let plan = fixture.plan("write_file", &args).unwrap();
    fixture.write("notes/a.md", "theirs");
    let error = plan.commit(&fixture.sandbox, None).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::Conflict, "`notes/a.md` has changed since it was looked at")
    );
    assert_eq!(fixture.text("notes/a.md").as_deref(), Some("theirs"));
    let plan =
        fixture.plan("write_file", &json!({"path": "notes/b.md", "content": "mine"})).unwrap();
    fixture.write("notes/b.md", "theirs");
    assert_eq!(plan.commit(&fixture.sandbox, None).unwrap_err().kind(), ErrorKind::Conflict);
    let plan =
        fixture.plan("move_path", &json!({"from": "notes/a.md", "to": "notes/c.md"})).unwrap();
    fixture.write("notes/c.md", "theirs");
    assert_eq!(
        plan.commit(&fixture.sandbox, None).unwrap_err().message(),
        "`notes/c.md` already exists"
    );
    assert_eq!(fixture.text("notes/c.md").as_deref(), Some("theirs"));
}

#[test]
fn concurrent_writers_see_last_text() {
    let fixture = Arc::new(SandboxFixture::new());
    fixture.write("notes/count", "0");
    let (threads, rounds) = (4, 50);
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                let mut done = 0;
                while done < rounds {
                    let read = fixture.call("read_file", &json!({"path": "notes/count"})).unwrap();
                    let count: u32 = read.structured["content"].as_str().unwrap().parse().unwrap();
                    let args = json!({
                        "path": "notes/count", "content": (count + 1).to_string(),
                        "expected_digest": read.structured["digest"],
                    });
                    match fixture.call("write_file", &args) {
                        Ok(_) => done += 1,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
                    }
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    assert_eq!(fixture.text("notes/count"), Some((threads * rounds).to_string()));
}

#[test]
fn patch_is_atomic_across_files() {
    let fixture = SandboxFixture::new();
    let old = "one\ntwo\nthree\n";
    let first = skill_diff::unified_diff(old, "one\n2\nthree\n", "notes/a.md");
    let second = skill_diff::unified_diff("", "new\n", "notes/deep/b.md");
    let patch = format!("{first}{second}");
    let done = fixture.call("apply_patch", &json!({ "patch": patch })).unwrap();
    assert_eq!(done.text, "Applied: changed `notes/a.md`, created `notes/deep/b.md`.");
    assert_eq!(fixture.text("notes/a.md").as_deref(), Some("one\n2\nthree\n"));
    assert_eq!(fixture.text("notes/deep/b.md").as_deref(), Some("new\n"));

    let third = skill_diff::unified_diff("one\n2\nthree\n", "one\n3\nthree\n", "notes/a.md");
    let cases = [
        (
            format!("{third}{}", skill_diff::unified_diff("a\n", "b\n", "notes/deep/b.md")),
            ErrorKind::Conflict,
            "read_file again and make the diff against that text",
        ),
        (
            format!("{third}{}", skill_diff::unified_diff("a\n", "b\n", "notes/none.md")),
            ErrorKind::NotFound,
            "a new file has `--- /dev/null`",
        ),
        (
            format!("{third}--- a/notes/deep/b.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-new\n"),
            ErrorKind::InvalidArgument,
            "use delete_path",
        ),
        (
            format!("{third}--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n"),
            ErrorKind::Denied,
            "give a path below the sandbox, with /, as list_directory shows it: skills/x/SKILL.md",
        ),
        (
            "no diff at all".to_owned(),
            ErrorKind::InvalidArgument,
            "begin the part of each file with `--- a/PATH` and `+++ b/PATH`; a new file has \
             `--- /dev/null`",
        ),
    ];
    for (patch, kind, hint) in cases {
        let refusal = fixture.refusal("apply_patch", &json!({ "patch": patch }));
        assert_eq!((refusal.0, &*refusal.2), (kind, hint), "{patch}");
    }
    assert_eq!(fixture.text("notes/a.md").as_deref(), Some("one\n2\nthree\n"));
    assert!(!fixture.path("notes/none.md").exists());
    // Two sections for one file, and text outside of any section, are reported.
    let again = skill_diff::unified_diff("one\n3\nthree\n", "one\n3\n4\n", "notes/a.md");
    let done =
        fixture.call("apply_patch", &json!({"patch": format!("```diff\n{third}{again}```\n")}));
    assert!(done.unwrap().text.starts_with("Applied: changed `notes/a.md`.\nNote: `notes/a.md`: "));
    assert_eq!(fixture.text("notes/a.md").as_deref(), Some("one\n3\n4\n"));
}

#[test]
fn directories_are_moved_and_deleted_completely() {
    let fixture = SandboxFixture::new();
    fixture.write("notes/sub/deep/x", "x");
    let moved =
        fixture.call("move_path", &json!({"from": "notes/sub", "to": "other/place"})).unwrap();
    assert_eq!(moved.text, "Moved `notes/sub` to `other/place`.");
    assert_eq!(fixture.text("other/place/deep/x").as_deref(), Some("x"));
    let cases = [
        (json!({"from": "other", "to": "other/place/in"}), ErrorKind::InvalidArgument),
        (json!({"from": "other", "to": "other"}), ErrorKind::InvalidArgument),
        (json!({"from": "gone", "to": "x"}), ErrorKind::NotFound),
        (json!({"from": "other/place", "to": "notes/a.md"}), ErrorKind::Conflict),
        (json!({"from": "notes/a.md", "to": "other/place"}), ErrorKind::Conflict),
    ];
    for (args, kind) in cases {
        assert_eq!(fixture.refusal("move_path", &args).0, kind, "{args}");
    }
    let delete = |path: &str, recursive: bool| {
        fixture.call("delete_path", &json!({"path": path, "recursive": recursive}))
    };
    let error = delete("other", false).unwrap_err();
    assert_eq!(
        (error.message(), error.hint()),
        ("`other` is a directory with 3 entries", "with recursive: true all of it is deleted")
    );
    assert_eq!(delete("other", true).unwrap().text, "Deleted `other` and the 3 entries in it.");
    assert_eq!(delete("notes/a.md", false).unwrap().text, "Deleted `notes/a.md`.");
    assert_eq!(delete("notes", false).unwrap().text, "Deleted `notes`.");
    assert_eq!(delete("notes", false).unwrap_err().kind(), ErrorKind::NotFound);
    let left: Vec<_> =
        fs::read_dir(fixture.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn directory_is_listed_in_pages() {
    let fixture = SandboxFixture::new();
    for number in 0..450 {
        fixture.write(&format!("many/{number:03}"), "x");
    }
    let list = |args| fixture.call("list_directory", &args).unwrap();
    let (mut seen, mut at) = (Vec::new(), Some(0));
    while let Some(offset) = at {
        let page = list(json!({"path": "many", "offset": offset})).structured;
        let names = page["entries"].as_array().unwrap();
        seen.extend(names.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()));
        at = page["next_offset"].as_u64();
    }
    assert_eq!(seen, (0..450).map(|number| format!("{number:03}")).collect::<Vec<_>>());
    let page = list(json!({"path": "many", "offset": 448, "limit": 1}));
    assert_eq!(page.text, "448 (1 bytes)\n[450 entries; continue with offset 449]");
    fs::create_dir(fixture.path("empty")).unwrap();
    assert_eq!(list(json!({"path": "empty"})).text, "[empty directory]");
}
