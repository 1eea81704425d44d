//! Roots that come and go.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use skill_catalog::{AgentScope, PartialReason, SkillEvent};
use skill_service::{ReadSkillArgs, read_skill};

use crate::fixture::{StoreFixture, assert_quiet, body, events, findings, id, ids};

#[test]
fn appearing_root_is_scanned() {
    let fixture = StoreFixture::new();
    let store = fixture.open_with(fixture.options(&["skills", "later"]));
    assert_eq!(findings(&store), [("later".to_owned(), "root.missing", true)]);
    assert!(store.snapshot().partial().is_none());
    assert_quiet(&store);
    let digest = fixture.skill("later/demo", "text");
    assert_eq!(events(&store), [SkillEvent::Added { id: id("demo"), digest: Some(digest) }]);
    assert_eq!(findings(&store), []);
    assert_quiet(&store);
}

#[test]
fn vanished_root_keeps_skills() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "text");
    fixture.skill("skills/group/inner", "text");
    fixture.skill("other/stays", "text");
    let store = fixture.open_with(fixture.options(&["skills", "other"]));
    store.poll_full();
    fs::rename(fixture.path("skills"), fixture.path("unmounted")).unwrap();
    let report = store.poll();
    assert_eq!((report.events, report.changed), (vec![], true));
    assert_eq!(ids(&store), ["demo", "inner", "stays"]);
    assert_eq!(findings(&store), [("skills".to_owned(), "root.vanished", true)]);
    let snapshot = store.snapshot();
    let reasons = &snapshot.partial().unwrap().reasons;
    let (label, path) = ("skills".to_owned(), fixture.path("skills"));
    assert_eq!(*reasons, [PartialReason::RootVanished { label, path }]);

    // Polls go on to look after the other roots, and the texts are served as they were last.
    for _ in 0..3 {
        assert_quiet(&store);
    }
    store.poll_full();
    assert_eq!(ids(&store), ["demo", "inner", "stays"]);
    assert_eq!(body(&store, "demo"), ("text".to_owned(), true));
    let args = ReadSkillArgs { skill_id: "inner".to_owned() };
    let answer = read_skill(&store, &snapshot, skill_catalog::Audience::Model, &args).unwrap();
    assert_eq!(answer.structured["state"], "last_good");
    assert_eq!(answer.structured["problem"]["rule"], "file.missing");
    let added = fixture.skill("other/new", "text");
    assert_eq!(events(&store), [SkillEvent::Added { id: id("new"), digest: Some(added) }]);

    fs::rename(fixture.path("unmounted"), fixture.path("skills")).unwrap();
    assert_eq!(events(&store), []);
    assert_eq!((findings(&store), store.snapshot().partial()), (vec![], None));
    assert_eq!(body(&store, "demo"), ("text".to_owned(), false));
    assert_quiet(&store);
}

#[test]
fn returned_root_is_rescanned() {
    let fixture = StoreFixture::new();
    let demo = fixture.skill("skills/demo", "text");
    let store = fixture.open_warm();
    fs::rename(fixture.path("skills"), fixture.path("old")).unwrap();
    store.poll();
    let next = fixture.skill("skills/next", "text");
    assert_eq!(events(&store), [SkillEvent::Added { id: id("next"), digest: Some(next) }]);
    assert_eq!(events(&store), [SkillEvent::Removed { id: id("demo"), digest: Some(demo) }]);
    assert_eq!(ids(&store), ["next"]);
    assert_quiet(&store);
}

#[test]
fn emptied_root_loses_skills() {
    let fixture = StoreFixture::new();
    let demo = fixture.skill("skills/demo", "text");
    let store = fixture.open_warm();
    fs::remove_dir_all(fixture.path("skills/demo")).unwrap();
    assert_eq!(events(&store), []);
    assert_eq!(events(&store), [SkillEvent::Removed { id: id("demo"), digest: Some(demo) }]);
}

#[test]
fn unmounted_root_keeps_skills() {
    let fixture = StoreFixture::new();
    fixture.skill("disk/demo", "text");
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
    if fs::metadata(other.path()).unwrap().dev()
        == fs::metadata(fixture.path("disk")).unwrap().dev()
    {
        return;
    }
    symlink(fixture.path("disk"), fixture.path("root")).unwrap();
    let store = fixture.open_with(fixture.options(&["root"]));
    store.poll_full();
    fs::remove_file(fixture.path("root")).unwrap();
    symlink(other.path(), fixture.path("root")).unwrap();
    for _ in 0..3 {
        assert_eq!(events(&store), []);
        assert_eq!(ids(&store), ["demo"]);
        assert_eq!(findings(&store), [("root".to_owned(), "root.vanished", true)]);
    }
    assert!(store.snapshot().partial().is_some());
    fs::remove_file(fixture.path("root")).unwrap();
    symlink(fixture.path("disk"), fixture.path("root")).unwrap();
    assert_eq!(events(&store), []);
    assert_eq!((findings(&store), body(&store, "demo")), (vec![], ("text".to_owned(), false)));
}

#[test]
fn file_as_root_is_error() {
    let fixture = StoreFixture::new();
    fixture.write("file", "text");
    let store = fixture.open_with(fixture.options(&["file"]));
    assert_eq!(findings(&store), [("file".to_owned(), "root.unreadable", true)]);
    assert!(store.snapshot().partial().is_some());
    assert_quiet(&store);
}

#[test]
fn store_without_roots_is_empty() {
    let fixture = StoreFixture::new();
    let store = fixture.open_with(fixture.options(&[]));
    assert_eq!((ids(&store), findings(&store)), (vec![], vec![]));
    assert_eq!(store.snapshot().catalog(AgentScope::default(), 8_000), None);
    assert_quiet(&store);
}
