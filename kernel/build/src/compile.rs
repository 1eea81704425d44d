//! Has cargo build a plan: what was shown, in a folder of the kernel's own, in a clean environment.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use skillhost_kernel::{BuildSettings, PlannedFile};
use tokio::process::Command;

use crate::error::BuildError;
use crate::group::{self, ProcessLimits};
use crate::messages::{CargoOutput, truncate};
use crate::place::{BuildPaths, write_all};
use crate::policy::CrateRecipe;

/// What cargo and the compiler need of the environment; everything else could steer them.
const KEPT: [&str; 8] = [
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SYSTEMROOT",
];

/// Bytes of cargo's messages that are read.
const MESSAGES: usize = 64 * 1024 * 1024;
/// Bytes of its other words that are told.
const WORDS: usize = 2 * 1024;

/// A library that was built.
#[derive(Debug)]
pub(crate) struct CompiledLibrary {
    pub(crate) library: PathBuf,
    /// The compiler's warnings about the crate; may be empty.
    pub(crate) warnings: String,
}

/// Builds the library of a crate.
///
/// # Errors
/// [`BuildError::Compile`] with the compiler's messages, and how cargo ended otherwise.
pub(crate) async fn compile_crate(
    place: &BuildPaths,
    (files, digest): (&[PlannedFile], &str),
    recipe: &CrateRecipe,
    sdk: &Path,
    settings: &BuildSettings,
) -> Result<CompiledLibrary, BuildError> {
    let folder = place.sources(digest);
    let steering = |file: &&PlannedFile| !["Cargo.toml", "Cargo.lock"].contains(&&*file.path);
    let mut copied: Vec<_> = files.iter().filter(steering).cloned().collect();
    let own = |path: &str, bytes| PlannedFile { path: path.to_owned(), bytes, executable: false };
    copied.push(own("Cargo.toml", recipe.manifest(sdk).into_bytes()));
    if let Some(lock) = lock_of(sdk) {
        copied.push(own("Cargo.lock", lock));
    }
    write_all(&folder, &copied)?;
    let target = BuildPaths::target(&place.home);
    let manifest = folder.join("Cargo.toml");
    let cargo = |sources: &[OsString]| {
        let mut command = Command::new("cargo");
        command
            .args(["build", "--release", "--offline", "--lib", "--message-format=json"])
            .arg("--manifest-path")
            .arg(&manifest)
            .arg("--target-dir")
            .arg(&target)
            .args(sources)
            // Cargo reads configuration from the working directory and every folder above it, and
            // rustup a choice of toolchain.
            .current_dir("/")
            .env_clear()
            .envs(inherited_environment())
            .envs([("CARGO_INCREMENTAL", "0"), ("CARGO_TERM_COLOR", "never")]);
        let (time, memory) = (settings.time_limit(), settings.memory_limit());
        let what =
            ("the build", "make it smaller; build.time_limit_ms in skillhost.yaml is the limit");
        group::run_limited(command, ProcessLimits { time, memory, stdout: MESSAGES }, what)
    };
    let vendored = vendored_source_args(sdk);
    let mut ended = cargo(&vendored).await?;
    // What is vendored is what the SDK needs; a source of crates is replaced as a whole, so that
    // allowed crates beside it are looked for, with all others, where cargo keeps them.
    let wants_more = !vendored.is_empty() && !recipe.dependencies.is_empty();
    if wants_more && !ended.status.success() && lacks_crates(&ended.stderr) {
        ended = cargo(&[]).await?;
    }
    let said = CargoOutput::read(&ended.stdout, &manifest);
    if let Some(signal) = ended.signal() {
        return Err(BuildError::Killed { program: "cargo".to_owned(), signal });
    }
    if !ended.status.success() {
        let words = ended.stderr.replace(&format!("{}/", folder.display()), "");
        return Err(compile_error(&said, words.trim(), &manifest, settings));
    }
    let library = said.library.clone().ok_or_else(|| BuildError::Compile {
        messages: "cargo names no library".to_owned(),
        hint: String::new(),
    })?;
    check_reviewed_sources(&library, &folder, sdk)?;
    Ok(CompiledLibrary { library, warnings: said.text() })
}

fn compile_error(
    said: &CargoOutput,
    words: &str,
    manifest: &Path,
    settings: &BuildSettings,
) -> BuildError {
    let out_of_memory = ["memory allocation of", "Cannot allocate memory", "SIGABRT", "SIGKILL"];
    if said.has_errors() {
        return BuildError::Compile { messages: said.text(), hint: String::new() };
    }
    let hint = match () {
        () if out_of_memory.iter().any(|sign| words.contains(sign)) => format!(
            "each process of a build may have {} MiB: build.memory_limit_mib in skillhost.yaml",
            settings.memory_limit_mib
        ),
        () if lacks_crates(words) => format!(
            "extensions are built offline, and crates are missing on this machine; fetch them \
             once, with network: cargo fetch --manifest-path {}",
            quoted(&manifest.to_string_lossy())
        ),
        () => String::new(),
    };
    // The end of what cargo says is why it gave up.
    let start = words.len().saturating_sub(WORDS);
    let start = (start..words.len()).find(|at| words.is_char_boundary(*at)).unwrap_or(start);
    BuildError::Compile { messages: truncate(&words[start..], WORDS), hint }
}

/// Whether cargo gave up because it may not ask a registry.
fn lacks_crates(words: &str) -> bool {
    let signs = ["--offline", "no matching package", "failed to select a version"];
    signs.iter().any(|sign| words.contains(sign))
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The versions that the installation was built with: what is on this machine, most likely.
fn lock_of(sdk: &Path) -> Option<Vec<u8>> {
    sdk.ancestors().skip(1).take(2).find_map(|folder| fs::read(folder.join("Cargo.lock")).ok())
}

/// Has crates taken from the installation's vendored sources, where there are any.
fn vendored_source_args(sdk: &Path) -> Vec<OsString> {
    let Some(vendor) = sdk.parent().map(|folder| folder.join("vendor")).filter(|v| v.is_dir())
    else {
        return Vec::new();
    };
    let quoted = serde_json::Value::from(vendor.to_string_lossy());
    vec![
        "--config".into(),
        // A name that no configuration of a user has.
        "source.crates-io.replace-with=\"skillhost-sdk\"".into(),
        "--config".into(),
        format!("source.skillhost-sdk.directory={quoted}").into(),
    ]
}

fn inherited_environment() -> impl Iterator<Item = (&'static str, OsString)> {
    KEPT.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)))
}

/// Looks at the list of files that the compiler has read: those of the copy, and the SDK's.
fn check_reviewed_sources(library: &Path, folder: &Path, sdk: &Path) -> Result<(), BuildError> {
    let list = library.with_extension("d");
    let text = fs::read_to_string(&list).map_err(BuildError::io(&list))?;
    let shown = [folder, sdk.parent().unwrap_or(sdk)];
    let unseen: BTreeSet<_> = dependencies(&text)
        .into_iter()
        .filter(|path| {
            let path = Path::new(path);
            let steps_out = path.components().any(|part| part.as_os_str() == "..");
            steps_out || !shown.iter().any(|folder| path.starts_with(folder))
        })
        .collect();
    match unseen.is_empty() {
        true => Ok(()),
        false => Err(BuildError::UnreviewedFiles { files: unseen.into_iter().collect() }),
    }
}

/// What stands behind the colons of a list in the form of make: blanks in names have a backslash.
fn dependencies(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let Some((_, rest)) = line.split_once(": ") else { continue };
        let rest = rest.replace("\\ ", "\0");
        found.extend(rest.split_whitespace().map(|path| path.replace('\0', " ")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_not_shown_is_found_in_the_compilers_list() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("libtea.d");
        let library = list.with_extension("so");
        let check = |text: &str| {
            fs::write(&list, text).unwrap();
            check_reviewed_sources(
                &library,
                Path::new("/h/a home/src-1"),
                Path::new("/opt/sdk/sdk"),
            )
        };
        let fine = "/t/libtea.so: /h/a\\ home/src-1/src/lib.rs /opt/sdk/contract/src/lib.rs\n";
        check(fine).unwrap();
        for path in ["/etc/passwd", "/h/a\\ home/src-2/src/lib.rs", "/h/a\\ home/src-1/../x.rs"] {
            let Err(BuildError::UnreviewedFiles { files }) =
                check(&format!("{} {path}\n", fine.trim()))
            else {
                panic!("{path}");
            };
            assert_eq!(files, [path.replace("\\ ", " ")]);
        }
        fs::remove_file(&list).unwrap();
        let missing = check_reviewed_sources(&library, Path::new("/a"), Path::new("/b/c"));
        assert!(matches!(missing, Err(BuildError::Io { .. })));
    }

    #[test]
    fn what_cargo_says_beside_its_messages_is_told_with_what_to_do() {
        let settings = BuildSettings { memory_limit_mib: 64, ..BuildSettings::default() };
        let manifest = Path::new("/h/a home/src-1/Cargo.toml");
        let failed =
            |words: &str| super::compile_error(&CargoOutput::default(), words, manifest, &settings);
        let BuildError::Compile { messages, hint } =
            failed("error: no matching package named `feed-rs` found")
        else {
            panic!();
        };
        assert_eq!(messages, "error: no matching package named `feed-rs` found");
        assert_eq!(
            hint,
            "extensions are built offline, and crates are missing on this machine; fetch them \
             once, with network: cargo fetch --manifest-path '/h/a home/src-1/Cargo.toml'"
        );
        let error = failed("rustc died (signal: 6, SIGABRT: process abort signal)");
        assert!(error.hint().contains("64 MiB"), "{}", error.hint());
        let long = failed(&"ü".repeat(5_000)).to_string();
        assert!(long.len() < WORDS + 100, "{}", long.len());
    }
}
