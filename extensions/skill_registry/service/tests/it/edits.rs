//! Changes of a skill by editors and other programs, each with the exact events and the served
//! content.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use skill_catalog::{SkillEvent, Store};
use skill_format::Digest;

use crate::fixture::{
    StoreFixture, assert_quiet, body, events, findings, id, ids, set_mtime, skill_text, tick,
};

const FILE: &str = "skills/demo/SKILL.md";

/// Makes a fixture with two skills and a store that has read them.
fn fixture() -> (StoreFixture, Store, Digest) {
    let fixture = StoreFixture::new();
    let first = fixture.skill("skills/demo", "version one");
    fixture.skill("skills/other", "untouched");
    let store = fixture.open_warm();
    assert_quiet(&store);
    tick(&fixture.path(FILE));
    (fixture, store, first)
}

fn changed(old: Digest, new: Digest) -> Vec<SkillEvent> {
    vec![SkillEvent::Changed { id: id("demo"), old: Some(old), new: Some(new) }]
}

fn served(text: &str) -> (String, bool) {
    (text.to_owned(), false)
}

#[test]
fn in_place_edit_is_detected() {
    let (fixture, store, first) = fixture();
    let second = fixture.skill("skills/demo", "version two, longer");
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version two, longer"));
    assert_quiet(&store);
}

#[test]
fn atomic_rename_is_detected() {
    let (fixture, store, first) = fixture();
    let text = skill_text("demo", "version two");
    let temporary = fixture.write("skills/demo/.SKILL.md.swp", &text);
    fs::rename(temporary, fixture.path(FILE)).unwrap();
    assert_eq!(events(&store), changed(first, Digest::compute(text.as_bytes())));
    assert_eq!(body(&store, "demo"), served("version two"));
    assert_quiet(&store);
}

#[test]
fn same_size_edit_is_detected() {
    let (fixture, store, first) = fixture();
    let second = fixture.skill("skills/demo", "version 2.0");
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version 2.0"));
    assert_quiet(&store);
}

#[test]
fn edit_with_restored_mtime_is_detected() {
    let (fixture, store, first) = fixture();
    let path = fixture.path(FILE);
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    let second = fixture.skill("skills/demo", "version 2.0");
    set_mtime(&path, before);
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version 2.0"));
    assert_quiet(&store);
}

#[test]
fn chmod_causes_no_event() {
    let (fixture, store, first) = fixture();
    fs::set_permissions(fixture.path(FILE), fs::Permissions::from_mode(0o600)).unwrap();
    let report = store.poll();
    assert_eq!((report.changed, report.opened, report.events), (false, 1, vec![]));
    assert_eq!(store.snapshot().get("demo").unwrap().digest(), Some(first));
    assert_eq!(body(&store, "demo"), served("version one"));
    assert_quiet(&store);
}

#[test]
fn recreation_between_polls_is_change() {
    let (fixture, store, first) = fixture();
    fs::remove_file(fixture.path(FILE)).unwrap();
    let second = fixture.skill("skills/demo", "version two");
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version two"));
    assert_quiet(&store);
}

#[test]
fn recreation_across_polls_is_change() {
    let (fixture, store, first) = fixture();
    fs::remove_file(fixture.path(FILE)).unwrap();
    assert_eq!(events(&store), []);
    assert_eq!(ids(&store), ["demo", "other"]);
    assert_eq!(body(&store, "demo"), ("version one".to_owned(), true));
    let second = fixture.skill("skills/demo", "version two");
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version two"));
    assert_quiet(&store);
}

#[test]
fn directory_rename_keeps_digest() {
    let (fixture, store, digest) = fixture();
    fs::rename(fixture.path("skills/demo"), fixture.path("skills/moved")).unwrap();
    let renamed = SkillEvent::Renamed { from: id("demo"), to: id("moved"), digest };
    assert_eq!(events(&store), [renamed]);
    assert_eq!(ids(&store), ["moved", "other"]);
    assert_eq!(body(&store, "moved"), served("version one"));
    assert_quiet(&store);
}

#[test]
fn partial_write_serves_last_good() {
    let (fixture, store, first) = fixture();
    let text = skill_text("demo", "version two");
    let mut file = fs::File::create(fixture.path(FILE)).unwrap();
    file.write_all(&text.as_bytes()[..20]).unwrap();
    let report = store.poll();
    assert_eq!((report.events, report.changed), (vec![], true));
    assert_eq!(body(&store, "demo"), ("version one".to_owned(), true));
    let snapshot = store.snapshot();
    assert_eq!(snapshot.get("demo").unwrap().digest(), Some(first));
    let rules: Vec<_> =
        findings(&store).into_iter().map(|(_, rule, skipped)| (rule, skipped)).collect();
    assert_eq!(rules, [("frontmatter.unclosed", false), ("file.lastGood", false)]);
    tick(&fixture.path(FILE));
    file.write_all(&text.as_bytes()[20..]).unwrap();
    drop(file);
    assert_eq!(events(&store), changed(first, Digest::compute(text.as_bytes())));
    assert_eq!(body(&store, "demo"), served("version two"));
    assert_eq!(findings(&store), []);
    assert_quiet(&store);
}

#[test]
fn emptied_file_serves_last_good() {
    let (fixture, store, first) = fixture();
    fixture.write(FILE, "");
    assert_eq!(events(&store), []);
    assert_eq!(body(&store, "demo"), ("version one".to_owned(), true));
    assert_quiet(&store);
    tick(&fixture.path(FILE));
    assert_eq!(fixture.skill("skills/demo", "version one"), first);
    assert_eq!(events(&store), []);
    assert_eq!(body(&store, "demo"), served("version one"));
    assert_eq!(findings(&store), []);
}

#[test]
fn swapped_symlink_is_change() {
    let fixture = StoreFixture::new();
    let first = fixture.write("skills/versions/one/SKILL.md", skill_text("demo", "version one"));
    let second = fixture.write("skills/versions/two/SKILL.md", skill_text("demo", "version two"));
    symlink("versions/one", fixture.path("skills/demo")).unwrap();
    let mut options = fixture.options(&["skills"]);
    options.ignore = vec!["versions".to_owned()];
    let store = fixture.open_with(options);
    store.poll_full();
    assert_eq!(ids(&store), ["demo"]);
    assert_eq!(body(&store, "demo"), served("version one"));
    tick(&fixture.path("skills/demo/SKILL.md"));

    symlink("versions/two", fixture.path("skills/next")).unwrap();
    fs::rename(fixture.path("skills/next"), fixture.path("skills/demo")).unwrap();
    let [old, new] = [first, second].map(|path| Digest::compute(&fs::read(path).unwrap()));
    assert_eq!(events(&store), changed(old, new));
    assert_eq!(body(&store, "demo"), served("version two"));
    assert_quiet(&store);
}

#[test]
fn symlinked_file_serves_last_good() {
    let (fixture, store, _) = fixture();
    let elsewhere = fixture.write("elsewhere.md", skill_text("demo", "from outside"));
    fs::remove_file(fixture.path(FILE)).unwrap();
    symlink(elsewhere, fixture.path(FILE)).unwrap();
    assert_eq!(events(&store), []);
    assert_eq!(body(&store, "demo"), ("version one".to_owned(), true));
    assert_eq!(
        findings(&store),
        [
            ("SKILL.md".to_owned(), "file.symlink", false),
            ("SKILL.md".to_owned(), "file.lastGood", false),
        ]
    );
}

#[test]
fn past_mtime_is_detected() {
    let (fixture, store, first) = fixture();
    let second = fixture.skill("skills/demo", "version 2.0");
    set_mtime(&fixture.path(FILE), UNIX_EPOCH + Duration::from_secs(1));
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version 2.0"));
    assert_quiet(&store);
}

#[test]
fn future_mtime_is_detected() {
    let (fixture, store, first) = fixture();
    let second = fixture.skill("skills/demo", "version 2.0");
    let far = SystemTime::now() + Duration::from_secs(100 * 365 * 86_400);
    set_mtime(&fixture.path(FILE), far);
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version 2.0"));
    assert_quiet(&store);
}

#[test]
fn file_case_change_is_silent() {
    let (fixture, store, first) = fixture();
    fs::rename(fixture.path(FILE), fixture.path("skills/demo/skill.md")).unwrap();
    assert_eq!(body(&store, "demo"), served("version one"));
    assert_eq!(events(&store), []);
    let snapshot = store.snapshot();
    let skill = snapshot.get("demo").unwrap();
    assert_eq!(skill.location(), fixture.path("skills/demo/skill.md"));
    assert_eq!(skill.digest(), Some(first));
    assert_eq!(body(&store, "demo"), served("version one"));
    assert_quiet(&store);
    // A second file with the preferred name takes precedence.
    let second = fixture.skill("skills/demo", "version two");
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version two"));
}

#[test]
fn directory_case_change_is_rename() {
    let (fixture, store, digest) = fixture();
    fs::rename(fixture.path("skills/demo"), fixture.path("skills/Demo")).unwrap();
    let renamed = SkillEvent::Renamed { from: id("demo"), to: id("Demo"), digest };
    assert_eq!(events(&store), [renamed]);
    assert_eq!(ids(&store), ["Demo", "other"]);
    assert_eq!(body(&store, "Demo"), served("version one"));
}

#[test]
fn added_and_removed_skills_are_reported() {
    let (fixture, store, first) = fixture();
    let added = fixture.skill("skills/new", "fresh");
    assert_eq!(events(&store), [SkillEvent::Added { id: id("new"), digest: Some(added) }]);
    assert_eq!(body(&store, "new"), served("fresh"));
    assert_quiet(&store);
    fs::remove_dir_all(fixture.path("skills/demo")).unwrap();
    assert_eq!(events(&store), []);
    assert_eq!(ids(&store), ["demo", "new", "other"]);
    assert_eq!(events(&store), [SkillEvent::Removed { id: id("demo"), digest: Some(first) }]);
    assert_eq!(ids(&store), ["new", "other"]);
    assert_quiet(&store);
}

#[test]
fn rename_of_unread_text_is_recognized() {
    let fixture = StoreFixture::new();
    let digest = fixture.skill("skills/demo", "version one");
    let store = fixture.open();
    fs::rename(fixture.path("skills/demo"), fixture.path("skills/moved")).unwrap();
    let renamed = SkillEvent::Renamed { from: id("demo"), to: id("moved"), digest };
    assert_eq!(events(&store), [renamed]);
}

#[test]
fn unread_text_has_no_old_digest() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "version one");
    let store = fixture.open();
    let new = fixture.skill("skills/demo", "version two, longer");
    let changed = SkillEvent::Changed { id: id("demo"), old: None, new: Some(new) };
    assert_eq!(events(&store), [changed]);
}

#[test]
fn broken_unread_file_stays_listed() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "version one");
    let store = fixture.open();
    fixture.write(FILE, "broken, and longer than it was before it was broken: no fence at all");
    assert_eq!(events(&store), []);
    assert_eq!(ids(&store), ["demo"]);
    let snapshot = store.snapshot();
    let error = store.read(snapshot.get("demo").unwrap()).unwrap_err();
    assert_eq!(error.kind, skillhost_payload::ErrorKind::Io);
    assert!(error.message.contains("no good text is held"), "{error}");
}

#[test]
fn undecodable_body_is_found() {
    let fixture = StoreFixture::new();
    let mut bytes = skill_text("demo", &"long body ".repeat(1_000)).into_bytes();
    bytes.extend([0xFF, 0xFE, 0xFD]);
    fixture.write(FILE, &bytes);
    let store = fixture.open();
    assert_eq!(ids(&store), ["demo"]);
    let report = store.poll_full();
    assert_eq!(report.events, [SkillEvent::Removed { id: id("demo"), digest: None }]);
    assert_eq!(ids(&store), Vec::<String>::new());
    let skipped: Vec<_> = findings(&store).into_iter().map(|(_, _, skipped)| skipped).collect();
    assert_eq!(skipped, [true]);
    assert_quiet(&store);
}

#[test]
fn moved_and_edited_file_is_new() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "version one");
    let store = fixture.open();
    fs::rename(fixture.path("skills/demo"), fixture.path("skills/moved")).unwrap();
    let text = skill_text("demo", "version two, written into the same file");
    let moved = fixture.write("skills/moved/SKILL.md", &text);
    let digest = Some(Digest::compute(&fs::read(moved).unwrap()));
    assert_eq!(events(&store), [SkillEvent::Added { id: id("moved"), digest }]);
    assert_eq!(events(&store), [SkillEvent::Removed { id: id("demo"), digest: None }]);
}

#[test]
fn moved_directory_keeps_identity() {
    let (fixture, store, first) = fixture();
    fs::create_dir(fixture.path("skills/group")).unwrap();
    fs::rename(fixture.path("skills/demo"), fixture.path("skills/group/demo")).unwrap();
    assert_eq!((events(&store), findings(&store)), (vec![], vec![]));
    let snapshot = store.snapshot();
    let demo = snapshot.get("demo").unwrap();
    assert_eq!((demo.digest(), demo.dir()), (Some(first), fixture.path("skills/group/demo")));
    assert_eq!(body(&store, "demo"), served("version one"));
    assert_quiet(&store);
}

#[test]
fn last_good_text_keeps_digest() {
    let fixture = StoreFixture::new();
    let text = skill_text("demo", "in sixteen bits");
    let bytes: Vec<u8> =
        [0xFEFF].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    fixture.write(FILE, &bytes);
    let store = fixture.open_warm();
    assert_eq!(body(&store, "demo"), served("in sixteen bits"));
    fixture.write(FILE, "broken");
    let snapshot = store.snapshot();
    let source = store.read(snapshot.get("demo").unwrap()).unwrap();
    assert_eq!((source.body(), source.digest), ("in sixteen bits\n", Digest::compute(&bytes)));
}
