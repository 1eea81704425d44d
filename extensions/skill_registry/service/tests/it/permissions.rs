//! Files and directories that may not be read.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use skill_catalog::PartialReason;

use crate::fixture::{StoreFixture, assert_quiet, body, events, findings, ids};

/// Runs work without the privilege to read every file; returns `None` if it cannot be dropped.
fn unprivileged<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        return Some(work());
    }
    std::thread::scope(|scope| {
        let dropped = scope.spawn(|| {
            // Only this thread changes its user to `nobody`.
            let nobody = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).ok()?;
            Some(work())
        });
        dropped.join().unwrap()
    })
}

fn set_mode(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn fixture() -> StoreFixture {
    let fixture = StoreFixture::new();
    set_mode(&fixture.path(""), 0o755);
    fixture
}

#[test]
fn unreadable_file_is_reported_until_readable() {
    let fixture = fixture();
    fixture.skill("skills/open", "text");
    let secret = fixture.skill("skills/secret", "text");
    set_mode(&fixture.path("skills/secret/SKILL.md"), 0o000);
    let Some(store) = unprivileged(|| {
        let store = fixture.open();
        assert_eq!(ids(&store), ["open"]);
        assert_eq!(findings(&store), [("SKILL.md".to_owned(), "file.unreadable", true)]);
        assert_quiet(&store);
        store
    }) else {
        return;
    };
    set_mode(&fixture.path("skills/secret/SKILL.md"), 0o644);
    unprivileged(|| {
        let added = store.poll().events;
        assert_eq!(added.len(), 1);
        assert_eq!(store.snapshot().get("secret").unwrap().digest(), Some(secret));
        assert_quiet(&store);
    });
}

#[test]
fn unreadable_file_serves_last_good_text() {
    let fixture = fixture();
    fixture.skill("skills/demo", "text");
    let store = fixture.open_warm();
    set_mode(&fixture.path("skills/demo/SKILL.md"), 0o000);
    unprivileged(|| {
        assert_eq!(events(&store), []);
        assert_eq!(body(&store, "demo"), ("text".to_owned(), true));
        let rules: Vec<_> = findings(&store).into_iter().map(|(_, rule, _)| rule).collect();
        assert_eq!(rules, ["file.unreadable", "file.lastGood"]);
        assert_quiet(&store);
    });
}

#[test]
fn unsearchable_directory_makes_scan_partial() {
    let fixture = fixture();
    fixture.skill("skills/group/inner", "text");
    fixture.skill("skills/group/deep/er/far", "text");
    fixture.skill("skills/demo", "text");
    fixture.skill("skills/other", "text");
    let store = fixture.open_warm();
    for dir in ["skills/group", "skills/demo"] {
        set_mode(&fixture.path(dir), 0o000);
    }
    fs::remove_dir_all(fixture.path("skills/other")).unwrap();
    let checked = unprivileged(|| {
        assert_eq!(events(&store), []);
        let removed = events(&store);
        // An observed absence removes the entry even in a partial scan.
        assert_eq!(removed.len(), 1);
        assert_eq!(removed[0].id().as_str(), "other");
        for _ in 0..2 {
            assert_quiet(&store);
        }
        // No pass runs for the unreadable entry: three skills and the four directories above.
        assert_eq!(store.poll().stats, 3 + 4);
        assert_eq!(store.poll_full().events, []);
        assert_eq!(ids(&store), ["demo", "far", "inner"]);
        assert_eq!(body(&store, "inner"), ("text".to_owned(), true));
        let snapshot = store.snapshot();
        let mut paths: Vec<_> = snapshot
            .partial()
            .unwrap()
            .reasons
            .iter()
            .map(|reason| match reason {
                PartialReason::Unreadable { path, message } => {
                    assert!(message.starts_with("Permission denied"), "{message}");
                    path.clone()
                }
                other => panic!("{other:?}"),
            })
            .collect();
        paths.sort();
        assert_eq!(paths, [fixture.path("skills/demo"), fixture.path("skills/group")]);
    });
    for dir in ["skills/group", "skills/demo"] {
        set_mode(&fixture.path(dir), 0o755);
    }
    if checked.is_some() {
        unprivileged(|| {
            assert_eq!(events(&store), []);
            assert_eq!((findings(&store), store.snapshot().partial()), (vec![], None));
            assert_eq!(body(&store, "inner"), ("text".to_owned(), false));
            assert_eq!(body(&store, "demo"), ("text".to_owned(), false));
            assert_quiet(&store);
        });
    }
}

#[test]
fn unreadable_root_is_error() {
    let fixture = fixture();
    fixture.skill("skills/demo", "text");
    set_mode(&fixture.path("skills"), 0o000);
    unprivileged(|| {
        let store = fixture.open();
        assert_eq!(ids(&store), Vec::<String>::new());
        assert_eq!(findings(&store), [("skills".to_owned(), "root.unreadable", true)]);
        assert!(store.snapshot().partial().is_some());
        assert_quiet(&store);
    });
    set_mode(&fixture.path("skills"), 0o755);
}
