//! Builds a plan with cargo: the reviewed files, in a private directory, in a clean environment.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use skillhost_files::TreeFile;
use skillhost_home::{BuildSettings, without_links};
use skillhost_sandbox::{IsolationReport, LaunchSpec, ProcessLimits};

use crate::build_paths::{BuildPaths, create_private, write_files};
use crate::containment::{BuildContainment, ContainedExit, RunAction, RunPaths, Toolchain};
use crate::error::BuildError;
use crate::messages::{CargoOutput, truncate};
use crate::policy::CrateRecipe;

/// The inherited environment variables; any other one could change the build.
const INHERITED: [&str; 8] = [
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SYSTEMROOT",
];

/// The directory for temporary files in cargo's target directory.
const TEMPORARY: &str = ".tmp";

/// The limit of cargo's messages, in bytes.
const MAX_STDOUT: usize = 64 * 1024 * 1024;
/// The maximum length of other output of cargo in an error, in bytes.
const MAX_STDERR: usize = 2 * 1024;

/// A built library.
#[derive(Debug)]
pub(crate) struct CompiledLibrary {
    pub(crate) library: PathBuf,
    /// The compiler's warnings about the crate; may be empty.
    pub(crate) warnings: String,
    /// The isolation of the compiler.
    pub(crate) isolation: IsolationReport,
}

/// Builds the library of a crate.
///
/// # Errors
/// [`BuildError::Compile`] with the compiler's messages, [`BuildError::Killed`] and the errors of
/// [`BuildContainment::run`].
pub(crate) async fn compile_crate(
    place: &BuildPaths,
    (files, digest): (&[TreeFile], &str),
    recipe: &CrateRecipe,
    sdk: &Path,
    (settings, containment): (&BuildSettings, &BuildContainment),
) -> Result<CompiledLibrary, BuildError> {
    let directory = place.sources(digest);
    // The crate's own versions of these files could change the build, so both are replaced.
    let is_source = |file: &&TreeFile| !["Cargo.toml", "Cargo.lock"].contains(&&*file.path);
    let mut copied: Vec<_> = files.iter().filter(is_source).cloned().collect();
    let own = |path: &str, bytes| TreeFile { path: path.to_owned(), bytes, executable: false };
    copied.push(own("Cargo.toml", recipe.manifest(sdk).into_bytes()));
    // Cargo adds the crate to it, and in isolation may write no other file of the directory.
    copied.push(own("Cargo.lock", read_lock_file(sdk).unwrap_or_default()));
    write_files(&directory, &copied)?;
    // The paths in messages and in the list of read files are those of the isolated compiler.
    let directory = without_links(&directory);
    let target = BuildPaths::target(&place.home);
    create_private(&target.join(TEMPORARY))?;
    let target = without_links(&target);
    let manifest = directory.join("Cargo.toml");
    let toolchain = Toolchain::find(&cargo_launch(&manifest, &target, &[], None)).await?;
    let paths = RunPaths {
        readable: readable_sources(&directory, sdk, &toolchain),
        writable: vec![target.clone(), directory.join("Cargo.lock")],
    };
    let limits = ProcessLimits {
        time: settings.time_limit(),
        memory: Some(settings.memory_limit()),
        stdout: MAX_STDOUT,
    };
    let cargo = async |sources: &[OsString]| {
        let launch = cargo_launch(&manifest, &target, sources, Some(&toolchain));
        let hint = "shorten the build, or raise build.time_limit_ms in skillhost.yaml";
        containment.run(&launch, &paths, RunAction { what: "the build", hint, limits }).await
    };
    let vendored = vendored_source_args(sdk);
    let ContainedExit { mut exit, mut isolation } = cargo(&vendored).await?;
    // The vendored crates are those of the SDK, and cargo can replace a source only completely. For
    // additional allowed crates, all crates are looked up in cargo's own cache.
    let has_more = !vendored.is_empty() && !recipe.dependencies.is_empty();
    if has_more && !exit.status.success() && lacks_crates(&exit.stderr) {
        ContainedExit { exit, isolation } = cargo(&[]).await?;
    }
    let output = CargoOutput::read(&exit.stdout, &manifest);
    if let Some(signal) = exit.signal() {
        return Err(BuildError::Killed { program: "cargo".to_owned(), signal });
    }
    if !exit.status.success() {
        // Authors know their files relative to the extension, not to the private copy.
        let words = exit.stderr.replace(&format!("{}/", directory.display()), "");
        return Err(compile_error(&output, words.trim(), &manifest, settings));
    }
    let library = output.library.clone().ok_or_else(|| BuildError::Compile {
        messages: "cargo reported no library".to_owned(),
        hint: String::new(),
    })?;
    check_reviewed_sources(&library, &directory, sdk)?;
    Ok(CompiledLibrary { library, warnings: output.text(), isolation })
}

/// Returns what the compiler reads: the reviewed files, the SDK with its workspace, the toolchain
/// and the crates of the registry.
fn readable_sources(directory: &Path, sdk: &Path, toolchain: &Toolchain) -> Vec<PathBuf> {
    let mut readable = vec![directory.to_owned(), sdk.parent().unwrap_or(sdk).to_owned()];
    // The SDK inherits fields of the workspace.
    readable.extend(sdk.ancestors().skip(2).take(2).map(|above| above.join("Cargo.toml")));
    readable.extend(toolchain.readable.iter().cloned());
    readable
}

/// Returns the build of a manifest, with additional arguments for the sources of its crates.
fn cargo_launch(
    manifest: &Path,
    target: &Path,
    sources: &[OsString],
    toolchain: Option<&Toolchain>,
) -> LaunchSpec {
    let words = ["build", "--release", "--offline", "--lib", "--message-format=json"];
    let mut arguments: Vec<OsString> = words.iter().map(Into::into).collect();
    arguments.extend(["--manifest-path".into(), manifest.into()]);
    arguments.extend(["--target-dir".into(), target.into()]);
    arguments.extend_from_slice(sources);
    let mut environment: BTreeMap<OsString, OsString> =
        inherited_environment().map(|(name, value)| (name.into(), value)).collect();
    environment.insert("CARGO_INCREMENTAL".into(), "0".into());
    environment.insert("CARGO_TERM_COLOR".into(), "never".into());
    // A wrapper in the operator's configuration is outside of what an isolated build reads.
    environment.insert("RUSTC_WRAPPER".into(), OsString::new());
    let mut program = PathBuf::from("cargo");
    if let Some(toolchain) = toolchain {
        program.clone_from(&toolchain.cargo);
        environment.insert("PATH".into(), toolchain.search_path.clone());
        // Not every isolation level has a private `/tmp`.
        environment.insert("TMPDIR".into(), target.join(TEMPORARY).into());
    }
    // Cargo reads configuration from the working directory and its parents, and rustup the choice
    // of a toolchain.
    LaunchSpec { program, arguments, environment, folder: "/".into() }
}

fn compile_error(
    output: &CargoOutput,
    words: &str,
    manifest: &Path,
    settings: &BuildSettings,
) -> BuildError {
    let out_of_memory = ["memory allocation of", "Cannot allocate memory", "SIGABRT", "SIGKILL"];
    if output.has_errors() {
        return BuildError::Compile { messages: output.text(), hint: String::new() };
    }
    let hint = match () {
        () if out_of_memory.iter().any(|sign| words.contains(sign)) => format!(
            "raise build.memory_limit_mib in skillhost.yaml ({} MiB)",
            settings.memory_limit_mib
        ),
        () if lacks_crates(words) => format!(
            "extensions are built offline, and crates are missing on this machine; fetch them \
             once, with network: cargo fetch --manifest-path {}",
            quote_for_shell(&manifest.to_string_lossy())
        ),
        () => String::new(),
    };
    // Cargo prints the cause of a failure at the end.
    let start = words.len().saturating_sub(MAX_STDERR);
    let start = (start..words.len()).find(|at| words.is_char_boundary(*at)).unwrap_or(start);
    BuildError::Compile { messages: truncate(&words[start..], MAX_STDERR), hint }
}

/// Returns `true` if cargo failed because it may not access a registry.
fn lacks_crates(words: &str) -> bool {
    let signs = ["--offline", "no matching package", "failed to select a version"];
    signs.iter().any(|sign| words.contains(sign))
}

/// Quotes a word for a shell.
fn quote_for_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Reads the lock file of the installation, whose versions are probably present on this machine.
fn read_lock_file(sdk: &Path) -> Option<Vec<u8>> {
    sdk.ancestors()
        .skip(1)
        .take(2)
        .find_map(|directory| fs::read(directory.join("Cargo.lock")).ok())
}

/// Returns the options for the vendored sources of the installation, or none without them.
fn vendored_source_args(sdk: &Path) -> Vec<OsString> {
    let Some(vendor) =
        sdk.parent().map(|directory| directory.join("vendor")).filter(|v| v.is_dir())
    else {
        return Vec::new();
    };
    let quoted = serde_json::Value::from(vendor.to_string_lossy());
    vec![
        "--config".into(),
        // The name must not collide with a source in the user's configuration.
        "source.crates-io.replace-with=\"skillhost-sdk\"".into(),
        "--config".into(),
        format!("source.skillhost-sdk.directory={quoted}").into(),
    ]
}

fn inherited_environment() -> impl Iterator<Item = (&'static str, OsString)> {
    INHERITED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)))
}

/// Checks that the compiler has read only files of the copy and of the SDK.
fn check_reviewed_sources(library: &Path, directory: &Path, sdk: &Path) -> Result<(), BuildError> {
    let list = library.with_extension("d");
    let text = fs::read_to_string(&list).map_err(BuildError::io(&list))?;
    let reviewed = [directory, sdk.parent().unwrap_or(sdk)];
    let unreviewed: BTreeSet<_> = parse_dependencies(&text)
        .into_iter()
        .filter(|path| {
            let path = Path::new(path);
            // `starts_with` compares components and would accept a path that leaves the directory.
            let steps_out = path.components().any(|part| part.as_os_str() == "..");
            steps_out || !reviewed.iter().any(|directory| path.starts_with(directory))
        })
        .collect();
    match unreviewed.is_empty() {
        true => Ok(()),
        false => Err(BuildError::UnreviewedFiles { files: unreviewed.into_iter().collect() }),
    }
}

/// Returns the dependencies of a list in the format of make, in which blanks have a backslash.
fn parse_dependencies(text: &str) -> Vec<String> {
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
    fn unreviewed_file_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let list = directory.path().join("libtea.d");
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
    fn cargo_failure_has_hint() {
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
        assert!(long.len() < MAX_STDERR + 100, "{}", long.len());
    }
}
