//! Changes of a skill by editors and other programs, each with the exact events and the served
//! content.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use skill_catalog::{SkillEvent, Store};
use skill_format::Digest;

use crate::scene::{
    Scene, assert_quiet, body, events, findings, id, ids, set_mtime, skill_text, tick,
};

const FILE: &str = "skills/demo/SKILL.md";

/// Makes a scene with two skills and a store that has read them.
fn scene() -> (Scene, Store, Digest) {
    let scene = Scene::new();
    let first = scene.skill("skills/demo", "version one");
    scene.skill("skills/other", "untouched");
    let store = scene.open_warm();
    assert_quiet(&store);
    tick(&scene.path(FILE));
    (scene, store, first)
}

fn changed(old: Digest, new: Digest) -> Vec<SkillEvent> {
    vec![SkillEvent::Changed { id: id("demo"), old: Some(old), new: Some(new) }]
}

fn served(text: &str) -> (String, bool) {
    (text.to_owned(), false)
}

#[test]
fn in_place_edit_is_detected() {
    let (scene, store, first) = scene();
    let second = scene.skill("skills/demo", "version two, longer");
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version two, longer"));
    assert_quiet(&store);
}

#[test]
fn atomic_rename_is_detected() {
    let (scene, store, first) = scene();
    let text = skill_text("demo", "version two");
    let temporary = scene.write("skills/demo/.SKILL.md.swp", &text);
    fs::rename(temporary, scene.path(FILE)).unwrap();
    assert_eq!(events(&store), changed(first, Digest::compute(text.as_bytes())));
    assert_eq!(body(&store, "demo"), served("version two"));
    assert_quiet(&store);
}

#[test]
fn same_size_edit_is_detected() {
    let (scene, store, first) = scene();
    let second = scene.skill("skills/demo", "version 2.0");
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version 2.0"));
    assert_quiet(&store);
}

#[test]
fn edit_with_restored_mtime_is_detected() {
    let (scene, store, first) = scene();
    let path = scene.path(FILE);
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    let second = scene.skill("skills/demo", "version 2.0");
    set_mtime(&path, before);
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version 2.0"));
    assert_quiet(&store);
}

#[test]
fn chmod_causes_no_event() {
    let (scene, store, first) = scene();
    fs::set_permissions(scene.path(FILE), fs::Permissions::from_mode(0o600)).unwrap();
    let report = store.poll();
    assert_eq!((report.changed, report.opened, report.events), (false, 1, vec![]));
    assert_eq!(store.snapshot().get("demo").unwrap().digest(), Some(first));
    assert_eq!(body(&store, "demo"), served("version one"));
    assert_quiet(&store);
}

#[test]
fn recreation_between_polls_is_change() {
    let (scene, store, first) = scene();
    fs::remove_file(scene.path(FILE)).unwrap();
    let second = scene.skill("skills/demo", "version two");
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version two"));
    assert_quiet(&store);
}

#[test]
fn recreation_across_polls_is_change() {
    let (scene, store, first) = scene();
    fs::remove_file(scene.path(FILE)).unwrap();
    assert_eq!(events(&store), []);
    assert_eq!(ids(&store), ["demo", "other"]);
    assert_eq!(body(&store, "demo"), ("version one".to_owned(), true));
    let second = scene.skill("skills/demo", "version two");
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version two"));
    assert_quiet(&store);
}

#[test]
fn directory_rename_keeps_digest() {
    let (scene, store, digest) = scene();
    fs::rename(scene.path("skills/demo"), scene.path("skills/moved")).unwrap();
    let renamed = SkillEvent::Renamed { from: id("demo"), to: id("moved"), digest };
    assert_eq!(events(&store), [renamed]);
    assert_eq!(ids(&store), ["moved", "other"]);
    assert_eq!(body(&store, "moved"), served("version one"));
    assert_quiet(&store);
}

#[test]
fn partial_write_serves_last_good() {
    let (scene, store, first) = scene();
    let text = skill_text("demo", "version two");
    let mut file = fs::File::create(scene.path(FILE)).unwrap();
    file.write_all(&text.as_bytes()[..20]).unwrap();
    let report = store.poll();
    assert_eq!((report.events, report.changed), (vec![], true));
    assert_eq!(body(&store, "demo"), ("version one".to_owned(), true));
    let snapshot = store.snapshot();
    assert_eq!(snapshot.get("demo").unwrap().digest(), Some(first));
    let rules: Vec<_> =
        findings(&store).into_iter().map(|(_, rule, skipped)| (rule, skipped)).collect();
    assert_eq!(rules, [("frontmatter.unclosed", false), ("file.lastGood", false)]);
    tick(&scene.path(FILE));
    file.write_all(&text.as_bytes()[20..]).unwrap();
    drop(file);
    assert_eq!(events(&store), changed(first, Digest::compute(text.as_bytes())));
    assert_eq!(body(&store, "demo"), served("version two"));
    assert_eq!(findings(&store), []);
    assert_quiet(&store);
}

#[test]
fn emptied_file_serves_last_good() {
    let (scene, store, first) = scene();
    scene.write(FILE, "");
    assert_eq!(events(&store), []);
    assert_eq!(body(&store, "demo"), ("version one".to_owned(), true));
    assert_quiet(&store);
    tick(&scene.path(FILE));
    assert_eq!(scene.skill("skills/demo", "version one"), first);
    assert_eq!(events(&store), []);
    assert_eq!(body(&store, "demo"), served("version one"));
    assert_eq!(findings(&store), []);
}

#[test]
fn swapped_symlink_is_change() {
    let scene = Scene::new();
    let first = scene.write("skills/versions/one/SKILL.md", skill_text("demo", "version one"));
    let second = scene.write("skills/versions/two/SKILL.md", skill_text("demo", "version two"));
    symlink("versions/one", scene.path("skills/demo")).unwrap();
    let mut options = scene.options(&["skills"]);
    options.ignore = vec!["versions".to_owned()];
    let store = scene.open_with(options);
    store.poll_full();
    assert_eq!(ids(&store), ["demo"]);
    assert_eq!(body(&store, "demo"), served("version one"));
    tick(&scene.path("skills/demo/SKILL.md"));

    symlink("versions/two", scene.path("skills/next")).unwrap();
    fs::rename(scene.path("skills/next"), scene.path("skills/demo")).unwrap();
    let [old, new] = [first, second].map(|path| Digest::compute(&fs::read(path).unwrap()));
    assert_eq!(events(&store), changed(old, new));
    assert_eq!(body(&store, "demo"), served("version two"));
    assert_quiet(&store);
}

#[test]
fn symlinked_file_serves_last_good() {
    let (scene, store, _) = scene();
    let elsewhere = scene.write("elsewhere.md", skill_text("demo", "from outside"));
    fs::remove_file(scene.path(FILE)).unwrap();
    symlink(elsewhere, scene.path(FILE)).unwrap();
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
    let (scene, store, first) = scene();
    let second = scene.skill("skills/demo", "version 2.0");
    set_mtime(&scene.path(FILE), UNIX_EPOCH + Duration::from_secs(1));
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version 2.0"));
    assert_quiet(&store);
}

#[test]
fn future_mtime_is_detected() {
    let (scene, store, first) = scene();
    let second = scene.skill("skills/demo", "version 2.0");
    let far = SystemTime::now() + Duration::from_secs(100 * 365 * 86_400);
    set_mtime(&scene.path(FILE), far);
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version 2.0"));
    assert_quiet(&store);
}

#[test]
fn file_case_change_is_silent() {
    let (scene, store, first) = scene();
    fs::rename(scene.path(FILE), scene.path("skills/demo/skill.md")).unwrap();
    assert_eq!(body(&store, "demo"), served("version one"));
    assert_eq!(events(&store), []);
    let snapshot = store.snapshot();
    let skill = snapshot.get("demo").unwrap();
    assert_eq!(skill.location(), scene.path("skills/demo/skill.md"));
    assert_eq!(skill.digest(), Some(first));
    assert_eq!(body(&store, "demo"), served("version one"));
    assert_quiet(&store);
    // A second file with the preferred name takes precedence.
    let second = scene.skill("skills/demo", "version two");
    assert_eq!(events(&store), changed(first, second));
    assert_eq!(body(&store, "demo"), served("version two"));
}

#[test]
fn directory_case_change_is_rename() {
    let (scene, store, digest) = scene();
    fs::rename(scene.path("skills/demo"), scene.path("skills/Demo")).unwrap();
    let renamed = SkillEvent::Renamed { from: id("demo"), to: id("Demo"), digest };
    assert_eq!(events(&store), [renamed]);
    assert_eq!(ids(&store), ["Demo", "other"]);
    assert_eq!(body(&store, "Demo"), served("version one"));
}

#[test]
fn added_and_removed_skills_are_reported() {
    let (scene, store, first) = scene();
    let added = scene.skill("skills/new", "fresh");
    assert_eq!(events(&store), [SkillEvent::Added { id: id("new"), digest: Some(added) }]);
    assert_eq!(body(&store, "new"), served("fresh"));
    assert_quiet(&store);
    fs::remove_dir_all(scene.path("skills/demo")).unwrap();
    assert_eq!(events(&store), []);
    assert_eq!(ids(&store), ["demo", "new", "other"]);
    assert_eq!(events(&store), [SkillEvent::Removed { id: id("demo"), digest: Some(first) }]);
    assert_eq!(ids(&store), ["new", "other"]);
    assert_quiet(&store);
}

#[test]
fn rename_of_unread_text_is_recognized() {
    let scene = Scene::new();
    let digest = scene.skill("skills/demo", "version one");
    let store = scene.open();
    fs::rename(scene.path("skills/demo"), scene.path("skills/moved")).unwrap();
    let renamed = SkillEvent::Renamed { from: id("demo"), to: id("moved"), digest };
    assert_eq!(events(&store), [renamed]);
}

#[test]
fn unread_text_has_no_old_digest() {
    let scene = Scene::new();
    scene.skill("skills/demo", "version one");
    let store = scene.open();
    let new = scene.skill("skills/demo", "version two, longer");
    let changed = SkillEvent::Changed { id: id("demo"), old: None, new: Some(new) };
    assert_eq!(events(&store), [changed]);
}

#[test]
fn broken_unread_file_stays_listed() {
    let scene = Scene::new();
    scene.skill("skills/demo", "version one");
    let store = scene.open();
    scene.write(FILE, "broken, and longer than it was before it was broken: no fence at all");
    assert_eq!(events(&store), []);
    assert_eq!(ids(&store), ["demo"]);
    let snapshot = store.snapshot();
    let error = store.read(snapshot.get("demo").unwrap()).unwrap_err();
    assert_eq!(error.kind, skillhost_payload::ErrorKind::Io);
    assert!(error.message.contains("no good text is held"), "{error}");
}

#[test]
fn undecodable_body_is_found() {
    let scene = Scene::new();
    let mut bytes = skill_text("demo", &"long body ".repeat(1_000)).into_bytes();
    bytes.extend([0xFF, 0xFE, 0xFD]);
    scene.write(FILE, &bytes);
    let store = scene.open();
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
    let scene = Scene::new();
    scene.skill("skills/demo", "version one");
    let store = scene.open();
    fs::rename(scene.path("skills/demo"), scene.path("skills/moved")).unwrap();
    let text = skill_text("demo", "version two, written into the same file");
    let moved = scene.write("skills/moved/SKILL.md", &text);
    let digest = Some(Digest::compute(&fs::read(moved).unwrap()));
    assert_eq!(events(&store), [SkillEvent::Added { id: id("moved"), digest }]);
    assert_eq!(events(&store), [SkillEvent::Removed { id: id("demo"), digest: None }]);
}

#[test]
fn moved_directory_keeps_identity() {
    let (scene, store, first) = scene();
    fs::create_dir(scene.path("skills/group")).unwrap();
    fs::rename(scene.path("skills/demo"), scene.path("skills/group/demo")).unwrap();
    assert_eq!((events(&store), findings(&store)), (vec![], vec![]));
    let snapshot = store.snapshot();
    let demo = snapshot.get("demo").unwrap();
    assert_eq!((demo.digest(), demo.dir()), (Some(first), scene.path("skills/group/demo")));
    assert_eq!(body(&store, "demo"), served("version one"));
    assert_quiet(&store);
}

#[test]
fn last_good_text_keeps_digest() {
    let scene = Scene::new();
    let text = skill_text("demo", "in sixteen bits");
    let bytes: Vec<u8> =
        [0xFEFF].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    scene.write(FILE, &bytes);
    let store = scene.open_warm();
    assert_eq!(body(&store, "demo"), served("in sixteen bits"));
    scene.write(FILE, "broken");
    let snapshot = store.snapshot();
    let source = store.read(snapshot.get("demo").unwrap()).unwrap();
    assert_eq!((source.body(), source.digest), ("in sixteen bits\n", Digest::compute(&bytes)));
}
