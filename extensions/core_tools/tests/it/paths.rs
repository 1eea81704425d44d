//! Paths that want out, and paths that have every right to be used.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use skillhost_sdk::{ErrorKind, json};
use test_support::legal_paths;

use crate::fixture::{SandboxFixture, uses};

/// Generates ways up, each repeated, in front of each target, with each ending.
fn payloads(fixture: &SandboxFixture) -> Vec<String> {
    let ups = [
        "../",
        "..\\",
        "./../",
        "a/../../",
        "skills/../../",
        "..././",
        "....//",
        "..\0/",
        ".\u{7}./",
        "\n../",
        "//../",
        "/../",
        "\\..\\",
        "C:/../",
        "notes//../../",
    ];
    let targets =
        ["canary.txt", "outside/secret", "home/canary.txt", "data/x/secret", "etc/passwd"];
    let ends = ["", "\0.md", "/", "/.", "%00", "/../../canary.txt", "::$DATA"];
    let mut payloads = Vec::new();
    for up in ups {
        for times in 1..=4 {
            for target in targets {
                for end in ends {
                    payloads.push(format!("{}{target}{end}", up.repeat(times)));
                }
            }
        }
    }
    for rel in ["canary.txt", "outside/secret", "home/sandbox/notes/a.md"] {
        let absolute = fixture.outside(rel).display().to_string();
        for prefix in ["", "/", "//", "\\\\?\\", "C:", "c:/", "Z:\\", "notes/../"] {
            payloads.push(format!("{prefix}{absolute}"));
        }
    }
    payloads.extend(["", "/", ".", "..", "./", "../", "\0", "\\"].map(str::to_owned));
    payloads.push("../".repeat(3_000) + "canary.txt");
    payloads.push("a/".repeat(4_096) + "a");
    payloads.push("x".repeat(8 << 10));
    payloads
}

#[test]
fn traversal_cannot_escape_sandbox() {
    let fixture = SandboxFixture::new();
    let before = fixture.canaries();
    let payloads = payloads(&fixture);
    assert!(payloads.len() >= 1_000, "{}", payloads.len());
    let mut kinds = BTreeMap::new();
    for payload in &payloads {
        for (tool, args) in uses(payload) {
            // A diff cannot name some paths as they are: the blank or quoted name is another one.
            let (kind, ..) = fixture.refusal(tool, &args);
            *kinds.entry(format!("{kind:?}")).or_insert(0) += 1;
        }
    }
    let seen: Vec<&str> = kinds.keys().map(String::as_str).collect();
    assert_eq!(seen, ["Denied", "InvalidArgument"], "{kinds:?}");
    assert_eq!(fixture.canaries(), before);
    assert_eq!(fixture.text("notes/a.md").as_deref(), Some("one\ntwo\nthree\n"));
}

#[test]
fn dots_in_names_are_literal() {
    let fixture = SandboxFixture::new();
    let before = fixture.canaries();
    for up in [
        "%2e%2e/",
        "..%2f",
        "%252e%252e/",
        "..;/",
        "\u{ff0e}\u{ff0e}/",
        "..\u{2215}",
        "~/",
        "$HOME/",
    ] {
        let path = format!("{up}canary.txt");
        assert_eq!(fixture.refusal("read_file", &json!({ "path": path })).0, ErrorKind::NotFound);
        fixture.call("write_file", &json!({"path": path, "content": "mine"})).unwrap();
        assert_eq!(fixture.text(&path).as_deref(), Some("mine"), "{path}");
    }
    assert_eq!(fixture.canaries(), before);
}

#[test]
fn private_data_is_hidden_from_tools() {
    let fixture = SandboxFixture::new();
    let before = fixture.canaries();
    for path in ["data", "data/x", "data/x/secret", "data/new", "DATA", "Data/x/secret", "dAtA/new"]
    {
        for (tool, args) in uses(path) {
            let (kind, message, hint) = fixture.refusal(tool, &args);
            assert_eq!(kind, ErrorKind::Denied, "{tool} {path}: {message}");
            assert_eq!(message, format!("`{path}` is private data"), "{tool}");
            assert_eq!(hint, "sandbox/data belongs to the extensions; use their tools");
        }
    }
    // Of this name there may be others.
    fixture.call("write_file", &json!({"path": "notes/data/x", "content": "mine"})).unwrap();
    let top = fixture.call("list_directory", &json!({})).unwrap();
    assert_eq!(top.text, "notes/\nskills/\n[2 entries]");
    assert_eq!(fixture.canaries(), before);
}

#[test]
fn legal_paths_work_with_all_tools() {
    let fixture = SandboxFixture::new();
    // Only the sandbox's own `data` is private.
    let paths = legal_paths("data");
    assert!(paths.len() >= 200, "{}", paths.len());
    for path in &paths {
        let call = |tool: &str, args| {
            fixture.call(tool, &args).unwrap_or_else(|error| panic!("{tool} {path}: {error}"))
        };
        let content = format!("content of {path}\n");
        call("write_file", json!({"path": path, "content": content}));
        let read = call("read_file", json!({ "path": path }));
        assert_eq!(read.structured["content"], content);
        let new = format!("{content}more\n");
        let patch = skill_diff::unified_diff(&content, &new, path);
        call("apply_patch", json!({ "patch": patch }));
        assert_eq!(fixture.text(path), Some(new));
        call("move_path", json!({"from": path, "to": "elsewhere/it"}));
        call("move_path", json!({"from": "elsewhere/it", "to": path}));
        if let Some((dir, name)) = path.rsplit_once('/') {
            let listed = call("list_directory", json!({ "path": dir })).structured;
            let names = listed["entries"].as_array().unwrap();
            assert!(names.iter().any(|entry| entry["name"] == name), "{path}: {listed}");
        }
        call("delete_path", json!({ "path": path }));
        assert_eq!(fixture.text(path), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// Asserts for every path that the file which is read or written is the one that it names
    /// literally.
    #[test]
    fn only_sandbox_files_are_touched(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "..", ".", "/", "//", "\\", "notes", "a.md", "a", "b", "skills", "demo", "data",
                "canary.txt", "SKILL.md", "\0", "%2e", "%2f", "~", "C:", " ", "\u{2215}", "é",
            ]),
            0..12,
        ),
    ) {
        let path = parts.concat();
        let fixture = SandboxFixture::new();
        let before = fixture.canaries();
        let is_literal = !path.split('/').any(|part| matches!(part, "" | "." | ".."));
        if let Ok(done) = fixture.call("read_file", &json!({ "path": path })) {
            prop_assert!(is_literal);
            prop_assert_eq!(done.structured["content"].as_str().map(str::to_owned), fixture.text(&path));
        }
        for (tool, args) in uses(&path) {
            let done = fixture.call(tool, &args);
            prop_assert!(is_literal || tool == "apply_patch" || done.is_err(), "{} {:?}", tool, path);
        }
        prop_assert_eq!(fixture.canaries(), before);
        prop_assert!(fs::read_to_string(fixture.path("skills/demo/SKILL.md")).unwrap().contains("Do it."));
    }
}
