//! Limits of the sizes of files and crates.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{code, in_any, none, read, rust_files};

/// The lines that a file may have.
const MAX_FILE: usize = 600;
/// The lines that a crate may have, with its unit tests: of the kernel and elsewhere.
const MAX_KERNEL_CRATE: usize = 5_000;
const MAX_CRATE: usize = 11_000;

/// Crates that have more lines, with a limit near their present size, and why they have not been
/// split yet.
const LARGER_CRATES: &[(&str, usize, &str)] = &[
    ("kernel/agents", 7_970, "its tools, its runs and the programs of skills call each other"),
    (
        "kernel/cli",
        5_080,
        "it wires every part of the product, and starts the kernels of skill tests",
    ),
    ("kernel/console", 5_400, "its pages draw the same rows, subjects and forms"),
    ("kernel/core", 5_600, "the table of tools and the programs in it follow one state"),
    ("kernel/home", 6_660, "its settings, approvals and manifests are checked as one state"),
    ("kernel/host", 6_080, "it assembles all parts of a kernel and handles its own events"),
    ("kernel/mcp", 6_300, "requests, transports, tasks and consents share sessions"),
    ("extensions/skill_registry/commands", 12_500, "one command line for all parts of a skill"),
    (
        "kernel/tasks",
        8_800,
        "its stores implement the rows of the state machine, which stay private, and a home opens one",
    ),
    (
        "kernel/sandbox",
        7_640,
        "children without isolation remain, the files of programs are found here, and files of the \
         user are protected through descriptors",
    ),
];

/// Documents and sources that are to be read at once.
const SHORT_FILES: &[(&str, usize)] = &[
    ("README.md", 120),
    ("ARCHITECTURE.md", 250),
    ("manifests/builder_agent/prompt.jinja2", 30),
    ("extensions/echo/src/lib.rs", 80),
];

/// Lines of code, without blank lines, comments and tests: what is frozen within a version of the
/// contract, the shapes that may grow with the commands that hints name, and the wiring.
const SHORT_SOURCES: &[(&[&str], usize)] = &[
    (&["kernel/contract/src"], 150),
    // The interfaces of all providers, that of tasks being the largest.
    (&["kernel/payload/src"], 1405),
    (&["extensions/skill_registry/plugin/src"], 720),
];

fn count_lines(path: &Path) -> usize {
    read(path).lines().count()
}

#[test]
fn files_stay_readable_in_one_sitting() {
    let mut findings: Vec<_> = rust_files()
        .map(|path| (count_lines(&path), path))
        .filter(|(count, _)| *count > MAX_FILE)
        .map(|(count, path)| format!("{} has {count} lines, at most {MAX_FILE}", path.display()))
        .collect();
    for (path, limit) in SHORT_FILES {
        let count = count_lines(Path::new(path));
        if count > *limit {
            findings.push(format!("{path} has {count} lines, at most {limit}"));
        }
    }
    for (places, limit) in SHORT_SOURCES {
        let own = rust_files().filter(|path| in_any(path, places));
        let filled = |path: PathBuf| code(&path).lines().filter(|l| !l.trim().is_empty()).count();
        let count: usize = own.map(filled).sum();
        if count > *limit {
            findings.push(format!("{} has {count} lines of code, at most {limit}", places[0]));
        }
    }
    none("too long", &findings);
}

#[test]
fn crates_stay_small() {
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for path in rust_files().filter(|path| in_any(path, &["kernel", "extensions", "xtask"])) {
        // Files that only have tests are no part of what has to be understood and compiled.
        let source = path.ancestors().find(|parent| parent.ends_with("src"));
        if let (Some(source), false) = (source, path.ends_with("tests.rs")) {
            let folder = source.parent().unwrap().display().to_string();
            *sizes.entry(folder).or_default() += count_lines(&path);
        }
    }
    let mut findings = Vec::new();
    for (folder, size) in &sizes {
        let usual = if folder.starts_with("kernel/") { MAX_KERNEL_CRATE } else { MAX_CRATE };
        let exception = LARGER_CRATES.iter().find(|(larger, ..)| larger == folder);
        match exception {
            None if *size > usual => findings.push(format!("{folder} has {size} lines")),
            Some(_) if *size <= usual => findings.push(format!("{folder} needs no exception")),
            Some((_, limit, _)) if size > limit => {
                findings.push(format!("{folder} has {size} lines, more than {limit}"));
            }
            // Close to the present size, so that what has been gained is not lost again.
            Some((_, limit, _)) if size + limit / 10 < *limit => {
                findings.push(format!("{folder} has {size} lines: lower {limit}"));
            }
            _ => {}
        }
    }
    let gone = LARGER_CRATES.iter().filter(|(folder, ..)| !sizes.contains_key(*folder));
    findings.extend(gone.map(|(folder, ..)| format!("{folder} does not exist")));
    none("sizes of crates", &findings);
}
