//! Hostile entries in the sandbox.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use skillhost_sdk::{ErrorKind, json};

use crate::fixture::{CANARY, SandboxFixture, uses};

#[test]
fn links_are_not_followed_moved_or_deleted() {
    let fixture = SandboxFixture::new();
    let before = fixture.canaries();
    symlink(fixture.outside("outside"), fixture.path("out")).unwrap();
    symlink(fixture.outside("canary.txt"), fixture.path("notes/link")).unwrap();
    symlink("nowhere", fixture.path("notes/dangling")).unwrap();
    symlink("data", fixture.path("alias")).unwrap();
    symlink("a.md", fixture.path("notes/near")).unwrap();
    let paths = [
        "out/secret",
        "out/new",
        "notes/link",
        "notes/dangling",
        "alias/x/secret",
        "alias/new",
        "notes/near",
        "notes/link/x",
    ];
    for path in paths {
        for (tool, args) in uses(path) {
            // A link at the new name is a conflict.
            let (kind, message, _) = fixture.refusal(tool, &args);
            assert!(
                matches!(kind, ErrorKind::Denied | ErrorKind::Conflict),
                "{tool} {path}: {kind:?} {message}"
            );
        }
    }
    let message = "`notes/link` is or passes through a symbolic link".to_owned();
    let hint = "links are not followed; name the target if it is inside".to_owned();
    let refusal = fixture.refusal("read_file", &json!({"path": "notes/link"}));
    assert_eq!(refusal, (ErrorKind::Denied, message, hint));
    let (kind, message, _) =
        fixture.refusal("delete_path", &json!({"path": "notes", "recursive": true}));
    assert_eq!((kind, &*message), (ErrorKind::Denied, "`notes` holds links or special files"));
    let listed = fixture.call("list_directory", &json!({"path": "notes"})).unwrap();
    assert!(listed.text.contains("link (symbolic link, not followed)"), "{}", listed.text);
    assert_eq!(fixture.canaries(), before);
    assert!(fs::symlink_metadata(fixture.path("notes/link")).unwrap().is_symlink());
}

#[test]
fn swapped_directory_cannot_escape_sandbox() {
    let fixture = SandboxFixture::new();
    fixture.write("work/dir/secret", "inside");
    let before = fixture.canaries();
    let (dir, link) = (fixture.path("work/dir"), fixture.path("work/link"));
    symlink(fixture.outside("outside"), &link).unwrap();
    let done = AtomicBool::new(false);
    let swaps = thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let mut swaps = 0_u64;
            while !done.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &dir, rustix::fs::CWD, &link, flags)
                    .unwrap();
                swaps += 1;
            }
            swaps
        });
        for round in 0..10_000 {
            if let Ok(read) = fixture.call("read_file", &json!({"path": "work/dir/secret"})) {
                assert_eq!(read.structured["content"], "inside");
            }
            if round % 8 == 0 {
                let name = format!("work/dir/new-{round}");
                // A refusal is as good as a write; both must stay inside.
                let _ = fixture.call("write_file", &json!({"path": name, "content": "inside"}));
                let _ = fixture.call("delete_path", &json!({ "path": name }));
            }
        }
        done.store(true, Ordering::Relaxed);
        swapper.join().unwrap()
    });
    assert!(swaps > 0);
    assert_eq!(fixture.canaries(), before);
}

#[test]
fn hard_link_is_reported_not_written() {
    let fixture = SandboxFixture::new();
    let before = fixture.canaries();
    fs::hard_link(fixture.outside("canary.txt"), fixture.path("notes/twin")).unwrap();
    let read = fixture.call("read_file", &json!({"path": "notes/twin"})).unwrap();
    assert!(read.text.contains("the file has another name (hard link) elsewhere"), "{}", read.text);
    let patch = skill_diff::unified_diff(CANARY, "new\n", "notes/twin");
    fixture.call("apply_patch", &json!({ "patch": patch })).unwrap();
    assert_eq!(
        (fixture.text("notes/twin").as_deref(), fixture.canaries()),
        (Some("new\n"), before.clone())
    );
    fs::remove_file(fixture.path("notes/twin")).unwrap();
    fs::hard_link(fixture.outside("canary.txt"), fixture.path("notes/twin")).unwrap();
    fixture.call("write_file", &json!({"path": "notes/twin", "content": "new"})).unwrap();
    assert_eq!(
        (fixture.text("notes/twin").as_deref(), fixture.canaries()),
        (Some("new"), before.clone())
    );
    fixture.call("delete_path", &json!({"path": "notes/twin"})).unwrap();
    assert_eq!(fixture.canaries(), before);
}

#[test]
fn fifo_is_reported_without_blocking() {
    let fixture = SandboxFixture::new();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, fixture.path("notes/pipe"), fifo, mode, 0).unwrap();
    for (tool, args) in uses("notes/pipe") {
        let (kind, message, _) = fixture.refusal(tool, &args);
        let expected = match kind {
            ErrorKind::Conflict => "`notes/pipe` already exists",
            _ => "`notes/pipe` is a special file",
        };
        assert_eq!(message, expected, "{tool}");
    }
    let listed = fixture.call("list_directory", &json!({"path": "notes"})).unwrap();
    assert_eq!(listed.text, "a.md (14 bytes)\npipe (special file, not followed)\n[2 entries]");
}

#[test]
fn sparse_gigabyte_is_rejected_unread() {
    let fixture = SandboxFixture::new();
    let file = fs::File::create(fixture.path("notes/huge")).unwrap();
    file.set_len(1 << 30).unwrap();
    assert!(fs::metadata(fixture.path("notes/huge")).unwrap().blocks() < 1_000);
    let patch = "--- a/notes/huge\n+++ b/notes/huge\n@@ -1 +1 @@\n-a\n+b\n";
    for (tool, args) in [
        ("read_file", json!({"path": "notes/huge"})),
        ("write_file", json!({"path": "notes/huge", "content": "small"})),
        ("apply_patch", json!({ "patch": patch })),
    ] {
        let (kind, message, _) = fixture.refusal(tool, &args);
        let expected =
            "`notes/huge` has 1073741824 bytes, more than the 4194304 that can be handled";
        assert_eq!((kind, &*message), (ErrorKind::TooLarge, expected), "{tool}");
    }
    let big = "x".repeat((4 << 20) + 1);
    let refusal = fixture.refusal("write_file", &json!({"path": "notes/big", "content": big}));
    assert_eq!((refusal.0, fixture.text("notes/big")), (ErrorKind::TooLarge, None));
    fixture.call("delete_path", &json!({"path": "notes/huge"})).unwrap();
}

#[test]
fn non_utf8_content_is_reported() {
    let fixture = SandboxFixture::new();
    fs::write(fixture.path("notes").join(OsStr::from_bytes(b"caf\xe9")), "x").unwrap();
    fixture.write("notes/latin", b"caf\xe9\n");
    fixture.write("notes/wide", b"\xff\xfea\0");
    fixture.write("notes/odd\u{1b}[2K\n", "x");
    let listed = fixture.call("list_directory", &json!({"path": "notes"})).unwrap();
    assert_eq!(
        listed.text,
        "a.md (14 bytes)\nlatin (5 bytes)\nodd\\u{1b}[2K\\u{a} (1 bytes)\nwide (4 bytes)\n\
         [1 names are not UTF-8 and cannot be reached; 4 entries]"
    );
    let (kind, message, hint) = fixture.refusal("read_file", &json!({"path": "notes/latin"}));
    let expected = "`notes/latin` is not UTF-8: byte 3 is not the start of a character";
    assert_eq!((kind, &*message), (ErrorKind::InvalidArgument, expected));
    assert_eq!(hint, "have it converted to UTF-8");
    let (_, message, _) =
        fixture.refusal("write_file", &json!({"path": "notes/wide", "content": ""}));
    assert_eq!(message, "`notes/wide` is a text in UTF-16, not in UTF-8");
    fixture.call("delete_path", &json!({"path": "notes", "recursive": true})).unwrap();
    assert!(!fixture.path("notes").exists());
}
