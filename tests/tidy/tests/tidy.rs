//! The invariants of ARCHITECTURE.md that a compiler does not check.
#![expect(clippy::unwrap_used, reason = "a test that cannot read the tree has failed")]

#[path = "tidy/bundled.rs"]
mod bundled;
#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/code_map.rs"]
mod code_map;
#[path = "tidy/commands.rs"]
mod commands;
#[path = "tidy/edges.rs"]
mod edges;
#[path = "tidy/exports.rs"]
mod exports;
#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/invariants.rs"]
mod invariants;
#[path = "tidy/language.rs"]
mod language;
#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/links.rs"]
mod links;
#[path = "tidy/repository.rs"]
mod repository;
#[path = "tidy/rules.rs"]
mod rules;
#[path = "tidy/sizes.rs"]
mod sizes;
#[path = "tidy/walks.rs"]
mod walks;

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// Every file that is or would be tracked, relative to the root.
fn files() -> Vec<PathBuf> {
    let skipped = ["target", ".git", "data"];
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            if entry.file_type().unwrap().is_dir() {
                if !skipped.iter().any(|skip| name == *skip) {
                    folders.push(entry.path());
                }
            } else {
                found.push(entry.path().strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Rust sources, without the code examples of shipped skills.
fn rust_files() -> impl Iterator<Item = PathBuf> {
    files().into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
}

/// The part of a source before its unit tests, without comments.
fn code(path: &Path) -> String {
    let text = read(path);
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    text.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

fn in_any(path: &Path, places: &[&str]) -> bool {
    places.iter().any(|place| path.starts_with(place))
}

/// Panics with every finding at once.
#[track_caller]
fn none(what: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{what}:\n  {}", findings.join("\n  "));
}

#[test]
fn only_the_boundary_names_the_abi_and_only_it_is_unsafe() {
    let abi = [
        "kernel/contract/src",
        "kernel/sdk/src/guard.rs",
        "kernel/sdk/src/export.rs",
        "kernel/sdk/src/lib.rs",
        "kernel/sdk/src/link.rs",
        "kernel/core/src/loader.rs",
        "kernel/core/src/abi.rs",
    ];
    let exempt = ["tests/abi/examples", "tests/abi/frozen", "tests/tidy", "xtask"];
    let mut findings = Vec::new();
    for path in rust_files().filter(|path| !in_any(path, &exempt)) {
        let code = code(&path);
        let shown = path.display();
        if code.contains("abi_stable") && !in_any(&path, &abi) {
            findings.push(format!("{shown} names abi_stable"));
        }
        let clients = ["kernel/mcp", "kernel/process", "tests"];
        if code.contains("rmcp::") && !in_any(&path, &clients) {
            findings.push(format!("{shown} names rmcp"));
        }
        if code.contains("libloading::") && path != Path::new("kernel/core/src/loader.rs") {
            findings.push(format!("{shown} calls dlopen"));
        }
        let is_unsafe = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "#[unsafe("]
            .iter()
            .any(|word| code.contains(word));
        let boundary =
            ["kernel/core/src/loader.rs", "kernel/sdk/src/export.rs", "kernel/sandbox/src/sys.rs"];
        if is_unsafe && !in_any(&path, &boundary) {
            findings.push(format!("{shown} is unsafe"));
        }
    }
    none("outside the boundary", &findings);
}

#[test]
fn only_the_command_line_prints() {
    let printers = [
        "kernel/chat",
        // Instructions for cargo.
        "kernel/bundle/build.rs",
        "kernel/cli",
        // Passes standard error to the command of a client.
        "kernel/clients",
        "kernel/handlers/tests",
        "kernel/terminal",
        "extensions/skill_registry/commands",
        "kernel/process/tests",
        "kernel/sandbox/tests",
        "kernel/scripts/tests",
        "kernel/tasks/tests",
        "xtask",
        "tools",
        "tests",
        "extensions/skill_registry/service/tests",
    ];
    let macros = ["println!", "print!", "dbg!", "io::stdout()", "io::stderr()"];
    let findings: Vec<_> = rust_files()
        .filter(|path| !in_any(path, &printers))
        .filter(|path| macros.iter().any(|name| code(path).contains(name)))
        .map(|path| path.display().to_string())
        .collect();
    none("libraries return reports, they do not print", &findings);
}

#[test]
fn pure_crates_cannot_do_io() {
    for folder in [
        "kernel/contract",
        "kernel/payload",
        "kernel/manifest",
        "kernel/yaml",
        "extensions/skill_registry/compat",
        "extensions/skill_registry/diff",
        "extensions/skill_registry/format",
        "extensions/skill_registry/rules",
        "extensions/skill_registry/search",
        "extensions/skill_registry/tokens",
        "extensions/embedding/vectors",
    ] {
        let text = read(&Path::new(folder).join("clippy.toml"));
        for banned in ["std::fs", "std::env", "std::process"] {
            assert!(text.contains(banned), "{folder}/clippy.toml does not ban {banned}");
        }
        let io = ["std::fs", "std::net", "std::process", "std::env::"];
        let sources = rust_files().filter(|path| path.starts_with(Path::new(folder).join("src")));
        let findings: Vec<_> = sources
            .filter(|path| io.iter().any(|name| code(path).contains(name)))
            .map(|path| path.display().to_string())
            .collect();
        none("I/O in a pure crate", &findings);
    }
}

#[test]
fn only_store_modules_speak_sql() {
    let own = [
        "extensions/skill_registry/ledger/src/sqlite.rs",
        "extensions/skill_registry/ledger/src/sqlite",
        "kernel/events/src/store.rs",
        "kernel/channels/src/store.rs",
        "kernel/channels/src/store",
        "kernel/events/src/store",
        "kernel/tasks/src/postgres",
        "kernel/tasks/src/sqlite",
        // Copies databases of any owner as files, and knows no table.
        "kernel/backup/src/snapshot.rs",
        "kernel/backup/src/error.rs",
        // Measures the queues of others.
        "tools/apalis",
        "tools/graphile",
    ];
    let words = ["rusqlite", "SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM", "PRAGMA "];
    let findings: Vec<_> = rust_files()
        .filter(|path| !in_any(path, &own) && !in_any(path, &["tests/tidy"]))
        .filter(|path| !path.components().any(|part| part.as_os_str() == "tests"))
        .filter(|path| words.iter().any(|word| code(path).contains(word)))
        .map(|path| path.display().to_string())
        .collect();
    none("the database behind another module's back", &findings);
}

#[test]
fn no_package_has_failpoints() {
    // Failpoints need debug assertions, which the profiles of packages have off by default.
    let fault = read(Path::new("kernel/files/src/fault.rs"));
    assert!(fault.contains("#[cfg(not(debug_assertions))]"), "{fault}");
    let profiles = read(Path::new("Cargo.toml"));
    let (_, profiles) = profiles.split_once("[profile.release]").unwrap();
    assert!(profiles.contains("[profile.dist]") && !profiles.contains("debug-assertions"));
}

#[test]
fn every_crate_has_the_workspace_lints() {
    let findings: Vec<_> = files()
        .into_iter()
        .filter(|path| path.ends_with("Cargo.toml") && path != Path::new("Cargo.toml"))
        .filter(|path| !path.starts_with("sandbox"))
        .filter(|path| !read(path).contains("[lints]\nworkspace = true"))
        .map(|path| path.display().to_string())
        .collect();
    none("without [lints] workspace = true", &findings);
}

#[test]
fn shipped_manifests_name_their_schema() {
    let manifests = files();
    let manifests = manifests.iter().filter(|path| path.starts_with("manifests"));
    let manifests: Vec<_> = manifests.filter(|path| path.ends_with("manifest.yaml")).collect();
    assert!(manifests.len() >= 4, "{manifests:?}");
    for path in manifests {
        let first = read(path).lines().next().unwrap_or_default().to_owned();
        let schema = first.strip_prefix("# yaml-language-server: $schema=");
        let schema = schema.unwrap_or_else(|| panic!("{} does not name it", path.display()));
        assert!(root().join(path).parent().unwrap().join(schema).is_file(), "{schema}");
    }
}
