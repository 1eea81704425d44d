//! The searches of the tools.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use core_tools::{FileRoots, SearchArgs, WalkControl, search_text};
use skillhost_sdk::{ErrorKind, ToolArgs, json};

use crate::fixture::SandboxFixture;

/// Creates a fixture with a small tree in the directory `tree` of the sandbox.
fn fixture() -> SandboxFixture {
    let fixture = SandboxFixture::new();
    for (path, text) in [
        ("tree/a.rs", "fn alpha() {}\nfn beta() {}\n"),
        ("tree/deep/b.rs", "// alpha\n"),
        ("tree/c.md", "Alpha and alpha\nnothing\n"),
        ("tree/.hidden", "alpha\n"),
        ("tree/ignored.log", "alpha\n"),
        ("tree/target/out.rs", "alpha\n"),
        ("tree/kept.log", "alpha\n"),
        ("tree/.git/config", "alpha\n"),
        ("tree/.git/info/exclude", "excluded\n"),
        ("tree/excluded", "alpha\n"),
        ("tree/.gitignore", "*.log\n!kept.log\n/target\n"),
        ("tree/deep/.ignore", "*.tmp\n"),
        ("tree/deep/x.tmp", "alpha\n"),
    ] {
        fixture.write(path, text);
    }
    fixture.write("tree/binary.bin", b"alpha\0alpha\n");
    fixture
}

#[test]
fn matches_are_listed_by_path_and_line() {
    let fixture = fixture();
    let search = |args| fixture.call("search_text", &args).unwrap();
    let found = search(json!({"pattern": "alpha", "path": "tree"}));
    assert_eq!(
        found.text,
        "tree/a.rs\n  1: fn alpha() {}\ntree/c.md\n  1: Alpha and alpha\n\
         tree/deep/b.rs\n  1: // alpha\ntree/kept.log\n  1: alpha\n\
         [4 matches in 4 files; 4 files searched; 1 not searched: binary, too large or not readable]"
    );
    assert_eq!(
        found.structured["matches"][0],
        json!({"path": "tree/a.rs", "line": 1, "text": "fn alpha() {}"})
    );
    assert_eq!(found.structured["complete"], true);
    let context = search(json!({"pattern": "beta", "path": "tree", "context": 1}));
    assert!(context.text.starts_with("tree/a.rs\n  1- fn alpha() {}\n  2: fn beta() {}\n["));
    let globbed = search(json!({"pattern": "alpha", "path": "tree", "glob": "*.rs"}));
    // As in ripgrep: an ignored directory stays closed, an ignored file that the glob names counts.
    assert!(globbed.text.ends_with("[2 matches in 2 files; 2 files searched]"), "{}", globbed.text);
    let none = search(json!({"pattern": "no such text", "path": "tree"}));
    assert!(none.text.starts_with("[no matches; 4 files searched"), "{}", none.text);
    let all = search(json!({"pattern": "alpha", "path": "tree", "all": true, "files_only": true}));
    assert!(!all.text.contains(".git/config"), "{}", all.text);
    assert!(all.text.contains("tree/.hidden (1)\n"), "{}", all.text);
    assert_eq!(all.structured["total_files"], 9);
}

#[test]
fn patterns_are_literal_or_regular() {
    let fixture = fixture();
    let total =
        |args| fixture.call("search_text", &args).unwrap().structured["total_matches"].clone();
    assert_eq!(total(json!({"pattern": "fn \\w+\\(", "path": "tree"})), 2);
    assert_eq!(total(json!({"pattern": "alpha()", "path": "tree", "literal": true})), 1);
    assert_eq!(total(json!({"pattern": "ALPHA", "path": "tree", "ignore_case": true})), 4);
    assert_eq!(total(json!({"pattern": "^nothing$", "path": "tree"})), 1);
    for (pattern, glob) in [("", "*"), ("(", "*"), ("a\\nb", "*"), ("a", "[z-a]"), ("(?=x)", "*")] {
        let args = json!({"pattern": pattern, "glob": glob});
        let (kind, _, hint) = fixture.refusal("search_text", &args);
        assert_eq!(kind, ErrorKind::InvalidArgument, "{pattern} {glob}");
        assert!(!hint.is_empty());
    }
    // Within the limit of the program size, and without backtracking.
    let (kind, ..) = fixture.refusal("search_text", &json!({"pattern": "(a{1000}){1000}{1000}"}));
    assert_eq!(kind, ErrorKind::InvalidArgument);
}

#[test]
fn deep_directories_are_counted() {
    let fixture = SandboxFixture::new();
    let mut directory = fixture.path("deep");
    (0..70).for_each(|_| directory.push("d"));
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("x"), "hit\n").unwrap();
    fixture.write("deep/y", "hit\n");
    let found = fixture.call("find_files", &json!({"path": "deep"})).unwrap();
    assert_eq!(found.text, "deep/y\n[1 file; 1 names or directories are not readable]");
    let found = fixture.call("search_text", &json!({"pattern": "hit", "path": "deep"})).unwrap();
    assert_eq!(
        (&found.structured["total_matches"], &found.structured["files_skipped"]),
        (&json!(1), &json!(1))
    );
}

#[test]
fn exact_limit_is_complete() {
    let fixture = SandboxFixture::new();
    fixture.write("exact/a", "one\nhit\ntwo\n");
    let args = json!({"pattern": "hit", "path": "exact", "limit": 1, "context": 1});
    let found = fixture.call("search_text", &args).unwrap();
    assert!(found.text.starts_with("exact/a\n  1- one\n  2: hit\n  3- two\n["), "{}", found.text);
    assert_eq!(found.structured["complete"], true);
}

#[test]
fn limits_keep_first_paths() {
    let fixture = SandboxFixture::new();
    for number in 0..600 {
        fixture.write(&format!("many/{number:03}"), "hit\nhit\nmiss\n");
    }
    let search = |limit: usize| {
        let args = json!({"pattern": "hit", "path": "many", "limit": limit});
        fixture.call("search_text", &args).unwrap()
    };
    for _ in 0..5 {
        let found = search(3);
        assert_eq!(
            found.text,
            "many/000\n  1: hit\n  2: hit\nmany/001\n  1: hit\n[1200 matches in 600 files; 600 \
             files searched; not all are listed; narrow the pattern, path or glob]"
        );
        assert_eq!(found.structured["complete"], false);
    }
    assert_eq!(search(9_999).structured["matches"].as_array().unwrap().len(), 1_000);
    fixture.write("long", format!("{}needle{}", "é".repeat(300), "x".repeat(9_000)));
    let long = fixture.call("search_text", &json!({"pattern": "needle"})).unwrap();
    assert!(long.text.len() < 600 && long.text.contains('…'), "{}", long.text);
    let files = |args| fixture.call("find_files", &args).unwrap();
    let page = files(json!({"path": "many", "offset": 598, "limit": 1}));
    assert_eq!(page.text, "many/598\n[600 files; continue with offset 599]");
    let last = files(json!({"path": "many", "offset": 599}));
    assert_eq!(last.text, "many/599\n[600 files]");
}

#[test]
fn files_are_found_by_glob() {
    let fixture = fixture();
    let find = |args| fixture.call("find_files", &args).unwrap().text;
    assert_eq!(
        find(json!({"path": "tree", "glob": "**/*.rs"})),
        "tree/a.rs\ntree/deep/b.rs\n[2 files]"
    );
    assert_eq!(
        find(json!({"path": "tree", "glob": "!*.rs"})),
        "tree/binary.bin\ntree/c.md\ntree/kept.log\n[3 files]"
    );
    // The ignore files above the directory apply, too.
    fixture.write("tree/deep/more.log", "x");
    assert_eq!(find(json!({"path": "tree/deep"})), "tree/deep/b.rs\n[1 file]");
    let all = find(json!({"all": true}));
    assert!(!all.contains("data/x/secret") && all.contains("notes/a.md"), "{all}");
    let (kind, ..) = fixture.refusal("find_files", &json!({"path": "data"}));
    assert_eq!(kind, ErrorKind::Denied);
    let (kind, ..) = fixture.refusal("find_files", &json!({"path": "none"}));
    assert_eq!(kind, ErrorKind::NotFound);
    let (kind, ..) = fixture.refusal("find_files", &json!({"path": "notes/a.md"}));
    assert_eq!(kind, ErrorKind::InvalidArgument);
}

#[test]
fn links_and_ignore_bombs_are_harmless() {
    let fixture = fixture();
    symlink(fixture.outside("outside"), fixture.path("tree/out")).unwrap();
    symlink(fixture.outside("canary.txt"), fixture.path("tree/link.rs")).unwrap();
    symlink(".", fixture.path("tree/loop")).unwrap();
    fixture.write("tree/deep/.gitignore", "[\n".repeat(100_000) + "b.rs\n");
    let found =
        fixture.call("search_text", &json!({"pattern": "CANARY|alpha", "path": "tree"})).unwrap();
    assert!(!found.text.contains("CANARY"), "{}", found.text);
    fs::remove_file(fixture.path("tree/.gitignore")).unwrap();
    symlink(fixture.outside("canary.txt"), fixture.path("tree/.gitignore")).unwrap();
    // A link is no ignore file.
    let found = fixture.call("find_files", &json!({"path": "tree", "glob": "*.log"})).unwrap();
    assert_eq!(found.structured["total"], 2);
}

#[test]
fn walk_ends_when_cancelled_or_late() {
    let fixture = fixture();
    let roots = FileRoots::new(&fixture.outside("home"));
    let args: SearchArgs =
        ToolArgs::new(r#"{"pattern": "alpha", "path": "tree"}"#).parse().unwrap();
    let late = search_text(&roots, &args, &WalkControl::new(Instant::now())).unwrap();
    assert!(late.text.contains("the time was over"), "{}", late.text);
    assert_eq!(late.structured["complete"], false);
    let control = WalkControl::new(Instant::now() + Duration::from_secs(60));
    drop(control.cancel_on_drop());
    let cancelled = search_text(&roots, &args, &control).unwrap();
    assert_eq!(cancelled.structured["files_searched"], 0);
}
