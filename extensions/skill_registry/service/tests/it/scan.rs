//! The results and the limits of a scan.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use skill_catalog::{PartialReason, ScanLimits, StoreError, StoreOptions};

use crate::scene::{Scene, assert_quiet, events, findings, ids, skill_text};

#[test]
fn skills_are_found_to_depth_six() {
    let scene = Scene::new();
    for dir in ["one", "1/two", "1/2/3/4/5/six", "1/2/3/4/5/6/seven"] {
        scene.skill(&format!("skills/{dir}"), "text");
    }
    scene.write("skills/README.md", "not a skill");
    scene.write("skills/docs/more.md", "not a skill");
    let store = scene.open();
    assert_eq!(ids(&store), ["one", "six", "two"]);
    assert_eq!(findings(&store), [("6".to_owned(), "scan.depth", true)]);
    assert!(store.snapshot().partial().is_none());
}

#[test]
fn skill_directory_is_not_descended() {
    let scene = Scene::new();
    scene.skill("skills/outer", "text");
    scene.skill("skills/outer/examples/inner", "text");
    assert_eq!(ids(&scene.open()), ["outer"]);
}

#[test]
fn ignored_directories_are_not_entered() {
    let scene = Scene::new();
    for dir in [".git/a", "node_modules/b", "drafts/c", "group/drafts/d", "e", ".hidden/f"] {
        scene.skill(&format!("skills/{dir}"), "text");
    }
    assert_eq!(ids(&scene.open()), ["c", "d", "e", "f"]);
    let ignoring = |patterns: &[&str]| {
        let ignore = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        ids(&scene.open_with(StoreOptions { ignore, ..scene.options(&["skills"]) }))
    };
    assert_eq!(ignoring(&["drafts"]), ["e", "f"]);
    assert_eq!(ignoring(&["group/drafts", ".*"]), ["c", "e"]);
    assert_eq!(ignoring(&["[a-d]"]), ["e", "f"]);
}

#[test]
fn contradictory_options_are_rejected() {
    let scene = Scene::new();
    let refused = |options: StoreOptions| {
        skill_catalog::Store::open(options, scene.clock.clone()).unwrap_err().to_string()
    };
    let mut twice = scene.options(&["skills", "more"]);
    twice.roots[1].label = "skills".to_owned();
    assert_eq!(refused(twice), "two roots have the label `skills`");
    for label in ["", "a@b", "a#1", "a/b"] {
        let mut options = scene.options(&["skills"]);
        options.roots[0].label = label.to_owned();
        let expected = StoreError::Label(label.to_owned()).to_string();
        assert_eq!(refused(options), expected);
    }
    let options = StoreOptions { ignore: vec!["a[".to_owned()], ..scene.options(&["skills"]) };
    assert!(refused(options).starts_with("ignore pattern `a[`: "));
}

#[test]
fn invalid_id_names_are_reported() {
    let scene = Scene::new();
    scene.skill("skills/fine", "text");
    scene.skill("skills/tick`tock", "text");
    scene.skill("skills/line\nbreak", "text");
    scene.skill(&format!("skills/{}", "x".repeat(129)), "text");
    scene.skill("skills/odd\u{202e}group/inside", "text");
    let raw = OsStr::from_bytes(b"raw\xFF");
    fs::create_dir(scene.path("skills").join(raw)).unwrap();
    fs::write(scene.path("skills").join(raw).join("SKILL.md"), skill_text("raw", "text")).unwrap();
    let store = scene.open_warm();
    // A group may have any name, because it has no id.
    assert_eq!(ids(&store), ["fine", "inside"]);
    let mut reported = findings(&store);
    reported.sort();
    let expected = [
        ("line\nbreak".to_owned(), "id.invalid", true),
        ("raw\u{fffd}".to_owned(), "id.encoding", true),
        ("tick`tock".to_owned(), "id.invalid", true),
        ("x".repeat(129), "id.invalid", true),
    ];
    assert_eq!(reported, expected);
    assert_quiet(&store);
}

#[test]
fn names_in_any_language_are_ids() {
    let scene = Scene::new();
    let names = ["Überblick", "naïve", "données", "проверка", "技能", "データ", "🦀", "with space"];
    for name in names {
        scene.skill(&format!("skills/{name}"), "text");
    }
    let store = scene.open_warm();
    let mut sorted = names.map(str::to_owned);
    sorted.sort();
    assert_eq!(ids(&store), sorted);
    for name in names {
        assert_eq!(store.snapshot().get(name).unwrap().description(), format!("About {name}."));
    }
}

#[test]
fn uppercase_skill_file_wins() {
    let scene = Scene::new();
    scene.write("skills/both/skill.md", skill_text("both", "lower"));
    scene.write("skills/both/SKILL.md", skill_text("both", "upper"));
    scene.write("skills/lower/skill.md", skill_text("lower", "lower"));
    scene.write("skills/mixed/Skill.md", skill_text("mixed", "mixed"));
    let store = scene.open();
    assert_eq!(ids(&store), ["both", "lower"]);
    assert_eq!(crate::scene::body(&store, "both").0, "upper");
}

#[test]
fn skill_file_in_root_is_reported() {
    let scene = Scene::new();
    scene.write("skills/SKILL.md", skill_text("skills", "text"));
    scene.skill("skills/a", "text");
    let store = scene.open();
    assert_eq!(ids(&store), ["a"]);
    assert_eq!(findings(&store), [("SKILL.md".to_owned(), "root.skillFile", true)]);
}

#[test]
fn skill_limit_makes_scan_partial() {
    let scene = Scene::new();
    for name in ["b", "c", "d"] {
        scene.skill(&format!("skills/{name}"), "text");
    }
    let limits = ScanLimits { skills: 3, ..ScanLimits::default() };
    let store = scene.open_with(StoreOptions { limits, ..scene.options(&["skills"]) });
    assert_eq!((ids(&store), store.snapshot().partial()), (names(&["b", "c", "d"]), None));
    // One that sorts before pushes another one out of the limit; it was there and stays.
    scene.skill("skills/a", "text");
    for _ in 0..3 {
        store.poll();
    }
    assert_eq!(ids(&store), ["a", "b", "c", "d"]);
    let snapshot = store.snapshot();
    let reasons = &snapshot.partial().unwrap().reasons;
    assert_eq!(*reasons, [PartialReason::SkillLimit { limit: 3 }]);
    assert_eq!(reasons[0].to_string(), "only the first 3 skills were taken");
}

#[test]
fn directory_limit_cuts_deepest() {
    let scene = Scene::new();
    for dir in ["x/a", "y/b", "z/deep/er/c"] {
        scene.skill(&format!("skills/{dir}"), "text");
    }
    let open = |directories: usize| {
        let limits = ScanLimits { directories, ..ScanLimits::default() };
        scene.open_with(StoreOptions { limits, ..scene.options(&["skills"]) })
    };
    let store = open(4);
    assert_eq!(ids(&store), ["a", "b"]);
    let snapshot = store.snapshot();
    let limit = PartialReason::DirectoryLimit { limit: 4 };
    assert_eq!(snapshot.partial().unwrap().reasons, [limit]);

    let store = open(6);
    assert_eq!((ids(&store), store.snapshot().partial()), (names(&["a", "b", "c"]), None));
    // A new directory displaces the deepest one; its earlier entry stays.
    scene.skill("skills/w/n", "text");
    let added = events(&store);
    assert_eq!(added.len(), 1);
    for _ in 0..3 {
        assert_eq!(events(&store), []);
    }
    assert_eq!(ids(&store), ["a", "b", "c", "n"]);
    assert!(store.snapshot().partial().is_some());
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn root_beyond_limit_keeps_skills() {
    let scene = Scene::new();
    scene.skill("skills/a", "text");
    scene.skill("team/b", "text");
    let limits = ScanLimits { skills: 2, ..ScanLimits::default() };
    let options = StoreOptions { limits, ..scene.options(&["skills", "team"]) };
    let store = scene.open_with(options);
    store.poll_full();
    assert_eq!(ids(&store), ["a", "b"]);
    for name in ["c", "d", "e"] {
        scene.skill(&format!("skills/{name}"), "text");
    }
    for _ in 0..3 {
        store.poll();
        assert_eq!(ids(&store), ["a", "b", "c"]);
        let snapshot = store.snapshot();
        let reasons = &snapshot.partial().unwrap().reasons;
        assert_eq!(*reasons, [PartialReason::SkillLimit { limit: 2 }]);
        assert_eq!(findings(&store), []);
    }
    assert_quiet(&store);
}
