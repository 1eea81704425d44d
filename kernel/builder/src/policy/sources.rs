//! The policy for references to other files in sources.
//!
//! A build uses only reviewed files, so sources must not include others. References that this
//! textual check misses are found after the build, in the compiler's list of read files.

use skillhost_files::TreeFile;

use crate::error::PolicyViolation;

/// The macros that include files in the code.
const INCLUDE_MACROS: [&str; 3] = ["include", "include_str", "include_bytes"];

/// Reports sources that may include unreviewed files, and files of other crates.
pub(super) fn check_sources(files: &[TreeFile], violations: &mut Vec<PolicyViolation>) {
    let mut report = |file: &str, line, what: String, remedy: &str| {
        violations.push(PolicyViolation {
            file: file.to_owned(),
            line,
            what,
            remedy: remedy.to_owned(),
        });
    };
    if !files.iter().any(|file| file.path == "src/lib.rs") {
        report("src/lib.rs", None, "not found".to_owned(), "write the extension there");
    }
    for file in files {
        let path = file.path.as_str();
        if path == "build.rs" {
            report(
                path,
                None,
                "a build script is not allowed".to_owned(),
                "remove it; do its work at start or by hand",
            );
        }
        if path.ends_with("/Cargo.toml") {
            report(
                path,
                None,
                "a second crate or workspace member is not allowed".to_owned(),
                "an extension is one crate; make it a module",
            );
        }
        if !path.ends_with(".rs") {
            continue;
        }
        let Ok(text) = std::str::from_utf8(&file.bytes) else {
            report(path, None, "is not UTF-8 text".to_owned(), "convert it to UTF-8");
            continue;
        };
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(name) = INCLUDE_MACROS.iter().find(|name| has_macro(line, name)) {
                report(
                    path,
                    Some(number),
                    format!("`{name}` may include a file that was not reviewed"),
                    "write it as a constant",
                );
            }
            if has_path_attribute(line) {
                report(
                    path,
                    Some(number),
                    "`#[path = …]` may include a file that was not reviewed".to_owned(),
                    "use the module's default file name",
                );
            }
        }
    }
}

/// Returns `true` if a line calls or renames a macro.
fn has_macro(line: &str, name: &str) -> bool {
    after_word(line, name).any(|rest| match name {
        // `include` is also a common name of variables and fields.
        "include" => rest.starts_with('!') || rest.starts_with("as "),
        _ => true,
    })
}

fn has_path_attribute(line: &str) -> bool {
    after_word(line, "path").any(|rest| {
        let value = rest.strip_prefix('=').map(str::trim_start);
        // The value may be a plain, a raw or a C string.
        value.is_some_and(|value| value.starts_with(['"', 'r', 'c'])) && line.contains("#")
    })
}

/// Returns the trimmed rest of a line after each occurrence of a separate word.
fn after_word<'l>(line: &'l str, word: &'l str) -> impl Iterator<Item = &'l str> {
    let is_word_char = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).filter_map(move |(at, _)| {
        let rest = &line[at + word.len()..];
        let alone = !line[..at].ends_with(is_word_char) && !rest.starts_with(is_word_char);
        alone.then(|| rest.trim_start())
    })
}
