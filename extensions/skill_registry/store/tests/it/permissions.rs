//! Files and directories that may not be read.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use skill_store::PartialReason;

use crate::scene::{Scene, assert_quiet, body, events, findings, ids};

/// Runs something without the power to read everything; nothing if that power cannot be dropped.
fn unprivileged<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        return Some(work());
    }
    std::thread::scope(|scope| {
        let dropped = scope.spawn(|| {
            // Only this thread becomes nobody.
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

fn scene() -> Scene {
    let scene = Scene::new();
    set_mode(&scene.path(""), 0o755);
    scene
}

#[test]
fn a_file_that_may_not_be_read_is_reported_and_taken_up_when_it_may() {
    let scene = scene();
    scene.skill("skills/open", "text");
    let secret = scene.skill("skills/secret", "text");
    set_mode(&scene.path("skills/secret/SKILL.md"), 0o000);
    let Some(store) = unprivileged(|| {
        let store = scene.open();
        assert_eq!(ids(&store), ["open"]);
        assert_eq!(findings(&store), [("SKILL.md".to_owned(), "file.unreadable", true)]);
        assert_quiet(&store);
        store
    }) else {
        return;
    };
    set_mode(&scene.path("skills/secret/SKILL.md"), 0o644);
    unprivileged(|| {
        let added = store.poll().events;
        assert_eq!(added.len(), 1);
        assert_eq!(store.snapshot().get("secret").unwrap().digest(), Some(secret));
        assert_quiet(&store);
    });
}

#[test]
fn a_file_that_may_not_be_read_any_more_keeps_its_last_good_version() {
    let scene = scene();
    scene.skill("skills/demo", "text");
    let store = scene.open_warm();
    set_mode(&scene.path("skills/demo/SKILL.md"), 0o000);
    unprivileged(|| {
        assert_eq!(events(&store), []);
        assert_eq!(body(&store, "demo"), ("text".to_owned(), true));
        let rules: Vec<_> = findings(&store).into_iter().map(|(_, rule, _)| rule).collect();
        assert_eq!(rules, ["file.unreadable", "file.lastGood"]);
        assert_quiet(&store);
    });
}

#[test]
fn a_directory_that_may_not_be_searched_makes_the_scan_partial_and_keeps_what_was_there() {
    let scene = scene();
    scene.skill("skills/group/inner", "text");
    scene.skill("skills/group/deep/er/far", "text");
    scene.skill("skills/demo", "text");
    scene.skill("skills/other", "text");
    let store = scene.open_warm();
    for dir in ["skills/group", "skills/demo"] {
        set_mode(&scene.path(dir), 0o000);
    }
    fs::remove_dir_all(scene.path("skills/other")).unwrap();
    let checked = unprivileged(|| {
        assert_eq!(events(&store), []);
        let removed = events(&store);
        // What is seen to be gone goes, partial or not.
        assert_eq!(removed.len(), 1);
        assert_eq!(removed[0].id().as_str(), "other");
        for _ in 0..2 {
            assert_quiet(&store);
        }
        // No pass is run for what cannot be seen: three skills and the four directories above.
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
        assert_eq!(paths, [scene.path("skills/demo"), scene.path("skills/group")]);
    });
    for dir in ["skills/group", "skills/demo"] {
        set_mode(&scene.path(dir), 0o755);
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
fn a_root_that_may_not_be_read_is_an_error() {
    let scene = scene();
    scene.skill("skills/demo", "text");
    set_mode(&scene.path("skills"), 0o000);
    unprivileged(|| {
        let store = scene.open();
        assert_eq!(ids(&store), Vec::<String>::new());
        assert_eq!(findings(&store), [("skills".to_owned(), "root.unreadable", true)]);
        assert!(store.snapshot().partial().is_some());
        assert_quiet(&store);
    });
    set_mode(&scene.path("skills"), 0o755);
}
