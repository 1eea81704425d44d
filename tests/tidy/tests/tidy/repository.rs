//! The repository itself: its commands, its texts and its tests.

use std::fs;
use std::path::Path;

use super::{files, none, read, root};

#[test]
fn ci_runs_the_same_as_people() {
    let text = read(Path::new(".ci/run"));
    let commands: Vec<_> = text.lines().filter(|line| line.starts_with("cargo")).collect();
    assert_eq!(commands, ["cargo xtask test"]);
    assert_eq!(text.lines().last(), Some("cargo xtask test"));
    for fresh in ["CARGO_HOME=\"$fresh/", "CARGO_TARGET_DIR=\"$fresh/", "rm -rf \"$fresh\""] {
        assert!(text.contains(fresh), "{fresh}");
    }
}

#[test]
fn the_product_speaks_of_itself_alone() {
    // Assembled here, so that this file does not contain them.
    let words = [
        ["/work", "/main"].concat(),
        ["/work", "/scratch"].concat(),
        ["/root", "/"].concat(),
        ["index.", "crates.io"].concat(),
        ["static.", "crates.io"].concat(),
    ];
    let text_files = ["rs", "md", "toml", "yaml", "yml", "jinja2", "in", "json", "txt", "snap"];
    let mut findings = Vec::new();
    for path in files() {
        let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        if !text_files.contains(&extension.as_str()) {
            continue;
        }
        let bytes = fs::read(root().join(&path)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for word in &words {
            if text.contains(word.as_str()) {
                findings.push(format!("{} has {word}", path.display()));
            }
        }
    }
    none("paths of a machine or hosts of a registry", &findings);
}

#[test]
fn every_test_file_is_part_of_its_binary() {
    let search = "extensions/skill_registry/search/tests/search";
    for folder in ["tests/e2e/tests/e2e", "tests/abi/tests/boundary", search] {
        let main = read(&Path::new(folder).join("main.rs"));
        let mut modules = 0;
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            if path.extension().is_some_and(|extension| extension == "rs") && name != "main" {
                assert!(main.contains(&format!("mod {name};")), "{folder}/{name}.rs is forgotten");
                modules += 1;
            }
        }
        assert!(modules > 5, "{folder}");
    }
}
