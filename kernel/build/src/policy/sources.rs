//! What sources say to the compiler about other files.
//!
//! What is built is what was shown: sources take nothing in from elsewhere. Whatever gets past this
//! look at the text is found after the build, in the list of files that the compiler has read.

use skillhost_kernel::PlannedFile;

use crate::error::PolicyViolation;

/// Macros that put files into the code.
const INCLUDING: [&str; 3] = ["include", "include_str", "include_bytes"];

pub(super) fn check_sources(files: &[PlannedFile], refusals: &mut Vec<PolicyViolation>) {
    let mut refuse = |file: &str, line, what: String, remedy: &str| {
        refusals.push(PolicyViolation {
            file: file.to_owned(),
            line,
            what,
            remedy: remedy.to_owned(),
        });
    };
    if !files.iter().any(|file| file.path == "src/lib.rs") {
        refuse("src/lib.rs", None, "is not there".to_owned(), "write the extension there");
    }
    for file in files {
        let path = file.path.as_str();
        if path == "build.rs" {
            refuse(
                path,
                None,
                "a build script runs while it is built, and none may".to_owned(),
                "remove it; do at start or by hand what it would do",
            );
        }
        if path.ends_with("/Cargo.toml") {
            refuse(
                path,
                None,
                "a second crate, or a member of a workspace".to_owned(),
                "an extension is one crate; make it a module",
            );
        }
        if !path.ends_with(".rs") {
            continue;
        }
        let Ok(text) = std::str::from_utf8(&file.bytes) else {
            refuse(path, None, "is not UTF-8 text".to_owned(), "write it anew");
            continue;
        };
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(name) = INCLUDING.iter().find(|name| calls(line, name)) {
                refuse(
                    path,
                    Some(number),
                    format!("`{name}` takes in a file that need not be one of those shown"),
                    "write it as a constant",
                );
            }
            if names_a_path(line) {
                refuse(
                    path,
                    Some(number),
                    "`#[path = …]` takes in a file that need not be one of those shown".to_owned(),
                    "name the module's file as Rust looks for it",
                );
            }
        }
    }
}

/// Whether a line has the macro, under this name or given another one.
fn calls(line: &str, name: &str) -> bool {
    words(line, name).any(|rest| match name {
        "include" => rest.starts_with('!') || rest.starts_with("as "),
        _ => true,
    })
}

fn names_a_path(line: &str) -> bool {
    words(line, "path").any(|rest| {
        let value = rest.strip_prefix('=').map(str::trim_start);
        value.is_some_and(|value| value.starts_with(['"', 'r', 'c'])) && line.contains("#")
    })
}

/// What follows each place where a word stands by itself, blanks left out.
fn words<'l>(line: &'l str, word: &'l str) -> impl Iterator<Item = &'l str> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).filter_map(move |(at, _)| {
        let rest = &line[at + word.len()..];
        let alone = !line[..at].ends_with(part) && !rest.starts_with(part);
        alone.then(|| rest.trim_start())
    })
}
