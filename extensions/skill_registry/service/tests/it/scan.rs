//! The results and the limits of a scan.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use skill_catalog::{PartialReason, ScanLimits, StoreError, StoreOptions};

use crate::fixture::{StoreFixture, assert_quiet, events, findings, ids, skill_text};

#[test]
fn skills_are_found_to_depth_six() {
    let fixture = StoreFixture::new();
    for dir in ["one", "1/two", "1/2/3/4/5/six", "1/2/3/4/5/6/seven"] {
        fixture.skill(&format!("skills/{dir}"), "text");
    }
    fixture.write("skills/README.md", "not a skill");
    fixture.write("skills/docs/more.md", "not a skill");
    let store = fixture.open();
    assert_eq!(ids(&store), ["one", "six", "two"]);
    assert_eq!(findings(&store), [("6".to_owned(), "scan.depth", true)]);
    assert!(store.snapshot().partial().is_none());
}

#[test]
fn skill_directory_is_not_descended() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/outer", "text");
    fixture.skill("skills/outer/examples/inner", "text");
    assert_eq!(ids(&fixture.open()), ["outer"]);
}

#[test]
fn ignored_directories_are_not_entered() {
    let fixture = StoreFixture::new();
    for dir in [".git/a", "node_modules/b", "drafts/c", "group/drafts/d", "e", ".hidden/f"] {
        fixture.skill(&format!("skills/{dir}"), "text");
    }
    assert_eq!(ids(&fixture.open()), ["c", "d", "e", "f"]);
    let ignoring = |patterns: &[&str]| {
        let ignore = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        ids(&fixture.open_with(StoreOptions { ignore, ..fixture.options(&["skills"]) }))
    };
    assert_eq!(ignoring(&["drafts"]), ["e", "f"]);
    assert_eq!(ignoring(&["group/drafts", ".*"]), ["c", "e"]);
    assert_eq!(ignoring(&["[a-d]"]), ["e", "f"]);
}

#[test]
fn contradictory_options_are_rejected() {
    let fixture = StoreFixture::new();
    let refused = |options: StoreOptions| {
        skill_catalog::Store::open(options, fixture.clock.clone()).unwrap_err().to_string()
    };
    let mut twice = fixture.options(&["skills", "more"]);
    twice.roots[1].label = "skills".to_owned();
    assert_eq!(refused(twice), "two roots have the label `skills`");
    for label in ["", "a@b", "a#1", "a/b"] {
        let mut options = fixture.options(&["skills"]);
        options.roots[0].label = label.to_owned();
        let expected = StoreError::Label(label.to_owned()).to_string();
        assert_eq!(refused(options), expected);
    }
    let options = StoreOptions { ignore: vec!["a[".to_owned()], ..fixture.options(&["skills"]) };
    assert!(refused(options).starts_with("ignore pattern `a[`: "));
}

#[test]
fn invalid_id_names_are_reported() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/fine", "text");
    fixture.skill("skills/tick`tock", "text");
    fixture.skill("skills/line\nbreak", "text");
    fixture.skill(&format!("skills/{}", "x".repeat(129)), "text");
    fixture.skill("skills/odd\u{202e}group/inside", "text");
    let raw = OsStr::from_bytes(b"raw\xFF");
    fs::create_dir(fixture.path("skills").join(raw)).unwrap();
    fs::write(fixture.path("skills").join(raw).join("SKILL.md"), skill_text("raw", "text"))
        .unwrap();
    let store = fixture.open_warm();
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
    let fixture = StoreFixture::new();
    let names = ["Überblick", "naïve", "données", "проверка", "技能", "データ", "🦀", "with space"];
    for name in names {
        fixture.skill(&format!("skills/{name}"), "text");
    }
    let store = fixture.open_warm();
    let mut sorted = names.map(str::to_owned);
    sorted.sort();
    assert_eq!(ids(&store), sorted);
    for name in names {
        assert_eq!(store.snapshot().get(name).unwrap().description(), format!("About {name}."));
    }
}

#[test]
fn uppercase_skill_file_wins() {
    let fixture = StoreFixture::new();
    fixture.write("skills/both/skill.md", skill_text("both", "lower"));
    fixture.write("skills/both/SKILL.md", skill_text("both", "upper"));
    fixture.write("skills/lower/skill.md", skill_text("lower", "lower"));
    fixture.write("skills/mixed/Skill.md", skill_text("mixed", "mixed"));
    let store = fixture.open();
    assert_eq!(ids(&store), ["both", "lower"]);
    assert_eq!(crate::fixture::body(&store, "both").0, "upper");
}

#[test]
fn skill_file_in_root_is_reported() {
    let fixture = StoreFixture::new();
    fixture.write("skills/SKILL.md", skill_text("skills", "text"));
    fixture.skill("skills/a", "text");
    let store = fixture.open();
    assert_eq!(ids(&store), ["a"]);
    assert_eq!(findings(&store), [("SKILL.md".to_owned(), "root.skillFile", true)]);
}

#[test]
fn skill_limit_makes_scan_partial() {
    let fixture = StoreFixture::new();
    for name in ["b", "c", "d"] {
        fixture.skill(&format!("skills/{name}"), "text");
    }
    let limits = ScanLimits { skills: 3, ..ScanLimits::default() };
    let store = fixture.open_with(StoreOptions { limits, ..fixture.options(&["skills"]) });
    assert_eq!((ids(&store), store.snapshot().partial()), (names(&["b", "c", "d"]), None));
    // One that sorts before pushes another one out of the limit; it was there and stays.
    fixture.skill("skills/a", "text");
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
    let fixture = StoreFixture::new();
    for dir in ["x/a", "y/b", "z/deep/er/c"] {
        fixture.skill(&format!("skills/{dir}"), "text");
    }
    let open = |directories: usize| {
        let limits = ScanLimits { directories, ..ScanLimits::default() };
        fixture.open_with(StoreOptions { limits, ..fixture.options(&["skills"]) })
    };
    let store = open(4);
    assert_eq!(ids(&store), ["a", "b"]);
    let snapshot = store.snapshot();
    let limit = PartialReason::DirectoryLimit { limit: 4 };
    assert_eq!(snapshot.partial().unwrap().reasons, [limit]);

    let store = open(6);
    assert_eq!((ids(&store), store.snapshot().partial()), (names(&["a", "b", "c"]), None));
    // A new directory displaces the deepest one; its earlier entry stays.
    fixture.skill("skills/w/n", "text");
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
    let fixture = StoreFixture::new();
    fixture.skill("skills/a", "text");
    fixture.skill("team/b", "text");
    let limits = ScanLimits { skills: 2, ..ScanLimits::default() };
    let options = StoreOptions { limits, ..fixture.options(&["skills", "team"]) };
    let store = fixture.open_with(options);
    store.poll_full();
    assert_eq!(ids(&store), ["a", "b"]);
    for name in ["c", "d", "e"] {
        fixture.skill(&format!("skills/{name}"), "text");
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
