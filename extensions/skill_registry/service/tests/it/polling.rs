//! The cost of polls, and their results with wrong stamps.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use skill_catalog::{AgentScope, GenerationFile, SkillEvent, StoreOptions};

use crate::fixture::{StoreFixture, assert_quiet, body, events, id, ids, skill_text, tick};

#[test]
fn unchanged_poll_opens_no_file() {
    let fixture = StoreFixture::new();
    for name in ["a", "b", "c"] {
        fixture.skill(&format!("skills/{name}"), "text");
        fixture.write(&format!("skills/{name}/references/more.md"), "more");
    }
    fixture.skill("skills/group/d", "text");
    fixture.write("skills/lower/skill.md", skill_text("lower", "text"));
    let store = fixture.open();
    let before = store.snapshot();
    let report = store.poll();
    assert_eq!((report.opened, report.changed, report.full_pass), (0, false, false));
    // Five files, the two directories above them, and a look for the name that would go before
    // `skill.md`.
    assert_eq!(report.stats, 5 + 2 + 1);
    assert!(Arc::ptr_eq(&before, &store.snapshot()));
    let catalogs = [
        before.catalog(AgentScope::default(), 8_000).unwrap(),
        store.snapshot().catalog(AgentScope::default(), 8_000).unwrap(),
    ];
    assert!(Arc::ptr_eq(&catalogs[0], &catalogs[1]));
}

#[test]
fn change_rereads_one_file() {
    let fixture = StoreFixture::new();
    for name in ["a", "b", "c"] {
        fixture.skill(&format!("skills/{name}"), "text");
    }
    let store = fixture.open_warm();
    fixture.skill("skills/b", "another text");
    let report = store.poll();
    assert_eq!((report.opened, report.events.len()), (1, 1));
    fixture.skill("skills/d", "text");
    let report = store.poll();
    assert_eq!((report.opened, report.events.len()), (1, 1));
}

#[test]
fn unrelated_change_keeps_snapshot() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/a", "text");
    let store = fixture.open_warm();
    let (before, catalog) =
        (store.snapshot(), store.snapshot().catalog(AgentScope::default(), 8_000).unwrap());
    fs::create_dir(fixture.path("skills/empty")).unwrap();
    let report = store.poll();
    assert_eq!((report.changed, report.opened, report.generation), (false, 0, before.generation()));
    assert!(Arc::ptr_eq(
        &store.snapshot().catalog(AgentScope::default(), 8_000).unwrap(),
        &catalog
    ));
    // A change of the body creates a new snapshot with an equal catalog.
    fixture.skill("skills/a", "another text");
    assert!(store.poll().changed);
    assert_eq!(store.snapshot().generation(), before.generation() + 1);
    assert_eq!(*store.snapshot().catalog(AgentScope::default(), 8_000).unwrap(), *catalog);
}

#[test]
fn young_stamps_are_not_trusted() {
    let fixture = StoreFixture::new();
    let path = fixture.path("skills/a/SKILL.md");
    fixture.skill("skills/a", "text");
    fixture.clock.set(SystemTime::now());
    let store = fixture.open_warm();
    let opened: Vec<usize> = [1, 2, 3, 0]
        .map(|seconds| {
            fixture.clock.advance(Duration::from_secs(seconds));
            store.poll().opened
        })
        .to_vec();
    // Read while its stamp is young, once more when it is not, and never again.
    assert_eq!(opened, [1, 1, 0, 0]);
    // The same with a write that the stamps show.
    tick(&path);
    fixture.skill("skills/a", "a longer text");
    fixture.clock.set(SystemTime::now());
    assert_eq!(events(&store).len(), 1);
    assert_eq!(store.poll().opened, 1);
}

#[test]
fn full_pass_runs_every_five_minutes() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/a", "text");
    fixture.skill("skills/b", "text");
    let store = fixture.open_warm();
    let full = |seconds: u64| {
        fixture.clock.advance(Duration::from_secs(seconds));
        let report = store.poll();
        (report.full_pass, report.opened, report.changed)
    };
    assert_eq!(full(299), (false, 0, false));
    assert_eq!(full(1), (true, 2, false));
    assert_eq!(full(299), (false, 0, false));
    assert_eq!(full(2), (true, 2, false));
    // A clock that is set back does not put it off.
    fixture.clock.set(SystemTime::now());
    assert!(store.poll().full_pass);
}

#[test]
fn last_good_texts_stay_bounded() {
    let fixture = StoreFixture::new();
    let long = "word ".repeat(2_000);
    for name in ["a", "b", "c", "d"] {
        fixture.skill(&format!("skills/{name}"), &long);
    }
    let options = StoreOptions { cache_bytes: 25_000, ..fixture.options(&["skills"]) };
    let store = fixture.open_with(options);
    store.poll_full();
    for name in ["a", "d"] {
        fixture.write(&format!("skills/{name}/SKILL.md"), "broken");
    }
    store.poll();
    assert_eq!(body(&store, "a"), (long.trim().to_owned(), true));
    let snapshot = store.snapshot();
    assert!(store.read(snapshot.get("d").unwrap()).is_err());
    // A requested text replaces one that only a pass has read.
    assert_eq!(body(&store, "c"), (long.trim().to_owned(), false));
    fixture.write("skills/c/SKILL.md", "broken");
    assert_eq!(body(&store, "c"), (long.trim().to_owned(), true));
}

#[test]
fn skill_directory_becomes_group_and_back() {
    let fixture = StoreFixture::new();
    let outer = fixture.skill("skills/outer", "text");
    fixture.skill("skills/outer/inner", "hidden while outer is a skill");
    let store = fixture.open_warm();
    assert_eq!(ids(&store), ["outer"]);
    fs::remove_file(fixture.path("skills/outer/SKILL.md")).unwrap();
    let added = events(&store);
    assert!(matches!(&added[..], [SkillEvent::Added { id, .. }] if id.as_str() == "inner"));
    assert_eq!(events(&store), [SkillEvent::Removed { id: id("outer"), digest: Some(outer) }]);
    assert_eq!(ids(&store), ["inner"]);
    assert_quiet(&store);
    fixture.skill("skills/outer", "text");
    assert_eq!(events(&store), [SkillEvent::Added { id: id("outer"), digest: Some(outer) }]);
    assert_eq!(events(&store).len(), 1);
    assert_eq!(ids(&store), ["outer"]);
    assert_quiet(&store);
}

#[test]
fn removed_group_needs_second_poll() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/group/deep/a", "a");
    fixture.skill("skills/group/b", "b");
    fixture.skill("skills/c", "c");
    let store = fixture.open_warm();
    fs::rename(fixture.path("skills/group"), fixture.path("gone")).unwrap();
    assert_eq!(events(&store), []);
    assert_eq!(ids(&store), ["a", "b", "c"]);
    let topics: Vec<_> =
        events(&store).iter().map(|event| (event.topic(), event.id().to_string())).collect();
    assert_eq!(topics, [("skill.removed", "a".to_owned()), ("skill.removed", "b".to_owned())]);
    assert_quiet(&store);
    // A group that comes back before that was never away.
    fs::rename(fixture.path("gone"), fixture.path("skills/group")).unwrap();
    assert_eq!(events(&store).len(), 2);
    fs::rename(fixture.path("skills/group"), fixture.path("gone")).unwrap();
    assert_eq!(events(&store), []);
    fs::rename(fixture.path("gone"), fixture.path("skills/group")).unwrap();
    assert_eq!(events(&store), []);
    assert_eq!(ids(&store), ["a", "b", "c"]);
    assert_quiet(&store);
}

#[test]
fn generation_file_announces_foreign_write() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/a", "text");
    let store = fixture.open_warm();
    let data = fixture.path("data");
    let generation = GenerationFile::new(&data);
    assert!(!generation.has_changed());
    fixture.skill("skills/b", "text");
    GenerationFile::touch(&data).unwrap();
    assert!(generation.has_changed());
    assert_eq!(store.poll().events.len(), 1);
    assert!(!generation.has_changed());
}

#[test]
fn readers_keep_pinned_snapshot() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/a", "text");
    let store = fixture.open_warm();
    let pinned = store.snapshot();
    fs::remove_dir_all(fixture.path("skills/a")).unwrap();
    store.poll();
    store.poll();
    assert_eq!(ids(&store), Vec::<String>::new());
    assert_eq!(pinned.get("a").unwrap().description(), "About a.");
    assert!(pinned.generation() < store.snapshot().generation());
}
