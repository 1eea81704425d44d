//! Paths that lead out of a skill, and unusual paths that are valid.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use skill_catalog::{Audience, Store};
use skill_service::{ReadResourceArgs, ToolAnswer, read_skill_resource};
use skillhost_payload::ErrorKind;
use test_support::legal_paths;

use crate::fixture::StoreFixture;

pub(crate) const CANARY: &str = "CANARY: this lies outside";

/// Creates a skill three levels below the temporary directory, surrounded by canaries.
fn fixture() -> (StoreFixture, Store) {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "text");
    fixture.skill("skills/other", CANARY);
    fixture.write("skills/demo/references/guide.md", "inside");
    fixture.write("skills/demo/a/b/c/d/e/file.md", "inside");
    for rel in ["canary.txt", "skills/canary.txt", "outside/secret", "skills/other/secret"] {
        fixture.write(rel, CANARY);
    }
    let store = fixture.open();
    (fixture, store)
}

/// Reads a file of the skill `demo`.
pub(crate) fn read_demo(store: &Store, path: &str) -> Result<ToolAnswer, ErrorKind> {
    let args = ReadResourceArgs {
        skill_id: "demo".to_owned(),
        path: path.to_owned(),
        offset: None,
        limit: None,
    };
    read_skill_resource(&store.snapshot(), Audience::Model, &args).map_err(|error| error.kind)
}

fn read(store: &Store, path: &str) -> Result<String, ErrorKind> {
    let answer = read_demo(store, path)?;
    Ok(answer.structured["content"].as_str().unwrap().to_owned())
}

/// Combines every repeated way up with every target and every ending.
fn payloads(fixture: &StoreFixture) -> Vec<String> {
    let ups = [
        "../",
        "..\\",
        "./../",
        "a/../../",
        "references/../../",
        "..././",
        "....//",
        "..;/",
        "%2e%2e/",
        "%2e%2e%2f",
        "..%2f",
        "..%5c",
        "%252e%252e/",
        "..%c0%af",
        "%c0%ae%c0%ae/",
        "..%u2215",
        "\u{ff0e}\u{ff0e}/",
        "\u{2025}/",
        "..\u{2215}",
        "..\u{ff0f}",
        "..\0/",
        ".\u{200b}./",
        " ../",
        ".. /",
        "../\u{202e}",
        "~/../",
        "$HOME/../",
        "//../",
        "/../",
        "\\..\\",
    ];
    let targets = ["canary.txt", "outside/secret", "other/secret", "other/SKILL.md", "etc/passwd"];
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
    for rel in ["canary.txt", "outside/secret", "skills/demo/references/guide.md"] {
        let absolute = fixture.path(rel).display().to_string();
        for prefix in ["", "/", "//", "file://", "\\\\?\\", "C:", "c:/", "Z:\\", "references/"] {
            payloads.push(format!("{prefix}{absolute}"));
        }
    }
    payloads.extend(["", "/", ".", "..", "./", "../", "\0", "\\", "~", "-"].map(str::to_owned));
    payloads.push("../".repeat(3_000) + "canary.txt");
    payloads.push("a/".repeat(4_096));
    payloads.push("x".repeat(8 << 10));
    payloads
}

#[test]
fn generated_traversals_are_denied() {
    let (fixture, store) = fixture();
    let payloads = payloads(&fixture);
    assert!(payloads.len() >= 1_000, "{}", payloads.len());
    let mut kinds = BTreeMap::new();
    for payload in &payloads {
        match read(&store, payload) {
            Ok(text) => panic!("{payload:?} was read: {text}"),
            Err(kind) => *kinds.entry(format!("{kind:?}")).or_insert(0) += 1,
        }
    }
    // Every path is rejected by its form or its absence; none reaches the disk and fails there.
    let seen: Vec<&str> = kinds.keys().map(String::as_str).collect();
    assert_eq!(seen, ["Denied", "InvalidArgument", "NotFound"], "{kinds:?}");
}

#[test]
fn path_errors_have_hints() {
    let (_scene, store) = fixture();
    let error_for = |path: &str| {
        let args = ReadResourceArgs {
            skill_id: "demo".to_owned(),
            path: path.to_owned(),
            offset: None,
            limit: None,
        };
        let error = read_skill_resource(&store.snapshot(), Audience::Model, &args).unwrap_err();
        (error.kind, error.message, error.hint.to_string())
    };
    let relative =
        "give the path as read_skill lists it, relative to the skill's directory and with /";
    let cases = [
        ("../x", ErrorKind::Denied, "a path cannot have a component `.` or `..`", relative),
        ("/etc/passwd", ErrorKind::Denied, "a path cannot be absolute", relative),
        ("a\\b", ErrorKind::Denied, "a path cannot contain a backslash", relative),
        ("a\0b", ErrorKind::InvalidArgument, "a path cannot contain NUL", relative),
        (
            "%2e%2e/canary.txt",
            ErrorKind::NotFound,
            "`demo` has no file %2e%2e/canary.txt",
            "read_skill lists the files; a path is taken literally, nothing in it is decoded",
        ),
        (
            "references",
            ErrorKind::InvalidArgument,
            "references is a directory",
            "name a file; read_skill lists them",
        ),
        (
            "references/gide.md",
            ErrorKind::NotFound,
            "`demo` has no file references/gide.md",
            "did you mean `references/guide.md`?",
        ),
    ];
    for (path, kind, message, hint) in cases {
        assert_eq!(error_for(path), (kind, message.to_owned(), hint.to_owned()), "{path}");
    }
}

#[test]
fn every_legal_path_is_read() {
    let (fixture, store) = fixture();
    let mut paths = legal_paths("tab\there");
    // Backups of editors do not belong to the skill.
    paths.retain(|path| !path.ends_with('~'));
    assert!(paths.len() >= 200, "{}", paths.len());
    for path in &paths {
        fixture.write(&format!("skills/demo/{path}"), format!("content of {path}"));
    }
    for path in &paths {
        assert_eq!(read(&store, path), Ok(format!("content of {path}")), "{path:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    /// For any path: a file that is read lies in the skill and has exactly that path.
    #[test]
    fn only_skill_files_are_read(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "..", ".", "/", "//", "\\", "references", "guide.md", "a", "b", "c", "SKILL.md",
                "canary.txt", "other", "skills", "\0", "%2e", "%2f", "~", "C:", " ", "\u{2215}", "é",
            ]),
            0..12,
        ),
    ) {
        thread_local! {
            static SCENE: (StoreFixture, Store) = fixture();
        }
        let path = parts.concat();
        SCENE.with(|(fixture, store)| {
            if let Ok(text) = read(store, &path) {
                let literal = fixture.path("skills/demo").join(&path);
                prop_assert!(!path.split('/').any(|part| matches!(part, "" | "." | "..")));
                prop_assert_eq!(text, fs::read_to_string(literal).unwrap());
            }
            Ok(())
        })?;
    }
}
