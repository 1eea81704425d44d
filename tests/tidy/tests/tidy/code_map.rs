//! The code map of ARCHITECTURE.md.

use std::path::{Path, PathBuf};

use super::{none, read, root};

/// The directories of the workspace's crates.
fn members() -> Vec<PathBuf> {
    let text = read(Path::new("Cargo.toml"));
    let (_, members) = text.split_once("members = [\n").unwrap();
    let (members, _) = members.split_once("\n]").unwrap();
    members.lines().filter_map(|line| line.split('"').nth(1)).map(PathBuf::from).collect()
}

/// The paths at the start of each line of the code map. `a/b, c` are `a/b` and `a/c`, or `c` if it is a
/// directory of the root.
fn mapped_paths(document: &str) -> Vec<PathBuf> {
    let (_, map) = document.split_once("\n## Code map\n").unwrap();
    let map = map.split("```").nth(1).unwrap();
    let mut paths = Vec::new();
    for line in map.lines().filter(|line| !line.is_empty()) {
        let names = line.split("  ").next().unwrap().split([',', ';']).map(str::trim);
        let folder = Path::new(names.clone().next().unwrap()).parent().unwrap().to_owned();
        paths.extend(names.map(|name| match root().join(name).exists() || name.contains('<') {
            true => PathBuf::from(name),
            false => folder.join(name),
        }));
    }
    paths
}

#[test]
fn code_map_names_every_crate() {
    let paths = mapped_paths(&read(Path::new("ARCHITECTURE.md")));
    let mut findings = Vec::new();
    for member in members() {
        if !paths.iter().any(|path| member.starts_with(path)) {
            findings.push(format!("{} is not in the map", member.display()));
        }
    }
    let is_example = |path: &PathBuf| path.to_string_lossy().contains('<');
    for path in paths.iter().filter(|path| !is_example(path) && !root().join(path).exists()) {
        findings.push(format!("{} does not exist", path.display()));
    }
    none("the code map and the crates differ", &findings);
}

#[test]
fn code_map_lines_list_paths() {
    let map = "\n## Code map\n\n```\nkernel/yaml        yaml-tree  YAML\nkernel/home, events  a, b; c\n\
               tests/tidy, bench; fuzz  x\nextensions/skill_registry/rules, compat  skill-rules: r\n```\n";
    let paths = mapped_paths(map);
    let expected = [
        "kernel/yaml",
        "kernel/home",
        "kernel/events",
        "tests/tidy",
        "tests/bench",
        "fuzz",
        "extensions/skill_registry/rules",
        "extensions/skill_registry/compat",
    ];
    assert_eq!(paths, expected.map(PathBuf::from));
}
