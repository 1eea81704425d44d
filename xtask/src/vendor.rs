//! The crates that the SDK is built from, as `install` and `package` copy them to its sources.
//!
//! With them the first native extension of an installed copy is built without network. They come
//! from cargo's registry of this machine, which has them since the product was built; `cargo
//! vendor` would fetch those of every other platform as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::file_transfer::FileTransfer;
use crate::process::cargo_command;
use crate::workspace::{Result, root, target};

/// The directory next to the SDK in which `ext build` looks.
const VENDOR: &str = "vendor";
/// The largest directories of published crates; no library is built from them.
const UNUSED: [&str; 4] = ["tests", "test-macros", "benches", "examples"];
/// The version of the directory's layout.
const LAYOUT: &str = "1";

/// Creates `vendor/` and a lock file of exactly these crates in a workspace of the SDK.
///
/// They are collected once for each lock file, in cargo's target directory.
pub(crate) fn vendor(workspace: &Path, transfer: FileTransfer) -> Result<()> {
    let caches = target().join("sdk-vendor");
    fs::create_dir_all(&caches)?;
    let lock = File::create(caches.join(".lock"))?;
    lock.lock()?;
    let host = host()?;
    let cache = caches.join(key(workspace, &host)?);
    if !cache.join("Cargo.lock").is_file() {
        let temporary = caches.join(".new");
        remove_folder(&temporary)?;
        collect(workspace, &temporary, &host)?;
        remove_folder(&cache)?;
        fs::rename(&temporary, &cache)?;
    }
    remove_folder(&workspace.join(VENDOR))?;
    transfer_folder(&cache.join(VENDOR), &workspace.join(VENDOR), &[], transfer)?;
    fs::copy(cache.join("Cargo.lock"), workspace.join("Cargo.lock"))?;
    Ok(())
}

/// Returns a digest of all inputs that determine the set of crates.
fn key(workspace: &Path, host: &str) -> Result<String> {
    let mut digest = Sha256::new();
    digest.update(format!("{LAYOUT} {host}\n"));
    for file in
        ["Cargo.toml", "Cargo.lock", "sdk/Cargo.toml", "contract/Cargo.toml", "payload/Cargo.toml"]
    {
        digest.update(fs::read(workspace.join(file))?);
    }
    Ok(hex(&digest.finalize())[..16].to_owned())
}

/// Collects the crates of a workspace in a new directory.
fn collect(workspace: &Path, to: &Path, host: &str) -> Result<()> {
    let stage = to.join("stage");
    copy_folder(workspace, &stage, &[VENDOR])?;
    let metadata = metadata_of(&stage, host)?;
    // Cargo has now removed the crates from it that the SDK does not need.
    let lock: Lock = toml::from_str(&fs::read_to_string(stage.join("Cargo.lock"))?)?;
    let packages = metadata.packages.iter().filter(|package| package.source.is_some());
    let mut present = BTreeSet::new();
    for package in packages {
        let locked = lock
            .package
            .iter()
            .find(|locked| locked.name == package.name && locked.version == package.version);
        let checksum = locked.and_then(|locked| locked.checksum.as_deref()).ok_or_else(|| {
            format!("{} {} does not come from a registry", package.name, package.version)
        })?;
        let folder = to.join(VENDOR).join(package.folder());
        let from = package.manifest_path.parent().ok_or("a manifest without a directory")?;
        copy_folder(from, &folder, &UNUSED)?;
        write_checksums(&folder, checksum)?;
        present.insert((&*package.name, &*package.version));
    }
    // Cargo resolves for all platforms, so that it wants to see the crates of others, too.
    for locked in needed_elsewhere(&lock, &present) {
        let Some(checksum) = &locked.checksum else { continue };
        let folder = to.join(VENDOR).join(format!("{}-{}", locked.name, locked.version));
        fs::create_dir_all(folder.join("src"))?;
        fs::write(folder.join("Cargo.toml"), placeholder(locked, &metadata)?)?;
        fs::write(folder.join("src/lib.rs"), "compile_error!(\"a crate of other platforms\");\n")?;
        write_checksums(&folder, checksum)?;
    }
    // The build proves that all are present, and removes the unneeded crates of placeholders from
    // the lock file.
    let vendor = serde_json::Value::from(to.join(VENDOR).to_string_lossy());
    let mut resolve = metadata_command(&stage);
    resolve.args(["--offline", "--config", "source.crates-io.replace-with=\"skillhost-sdk\""]);
    resolve.arg("--config").arg(format!("source.skillhost-sdk.directory={vendor}"));
    output_of(resolve.env("CARGO_HOME", to.join("home")))?;
    remove_folder(&to.join("home"))?;
    fs::copy(stage.join("Cargo.lock"), to.join("Cargo.lock"))?;
    remove_folder(&stage)
}

fn metadata_of(workspace: &Path, host: &str) -> Result<Metadata> {
    let metadata = |offline: &[&str]| {
        let mut command = metadata_command(workspace);
        output_of(command.args(["--filter-platform", host]).args(offline))
    };
    // Without a reachable registry the fetched crates must suffice; missing ones are fetched.
    let output = metadata(&["--offline"]).or_else(|_| metadata(&[]))?;
    Ok(serde_json::from_slice(&output)?)
}

fn metadata_command(workspace: &Path) -> Command {
    let mut command = cargo_command(["metadata", "--format-version", "1", "--manifest-path"]);
    command.arg(workspace.join("Cargo.toml"));
    command
}

/// Returns the locked packages that the present ones need on other platforms.
fn needed_elsewhere<'l>(lock: &'l Lock, present: &BTreeSet<(&str, &str)>) -> Vec<&'l Locked> {
    let is_present = |locked: &&Locked| present.contains(&(&*locked.name, &*locked.version));
    let needed: BTreeSet<_> =
        lock.package.iter().filter(is_present).flat_map(|locked| &locked.dependencies).collect();
    // A dependency is its name, with the version after it where there are several.
    let is_needed = |locked: &&Locked| {
        needed.contains(&locked.name)
            || needed.contains(&format!("{} {}", locked.name, locked.version))
    };
    lock.package.iter().filter(|locked| !is_present(locked)).filter(is_needed).collect()
}

/// Returns the manifest of a crate that other platforms need: its name and the requested features.
fn placeholder(locked: &Locked, metadata: &Metadata) -> Result<String> {
    let mut features = BTreeSet::new();
    for package in &metadata.packages {
        for dependency in package.dependencies.iter().filter(|it| it.name == locked.name) {
            features.extend(dependency.features.iter().map(String::as_str));
            let alias = dependency.rename.as_ref().unwrap_or(&dependency.name);
            let enabled = package.features.values().flatten();
            features.extend(enabled.filter_map(|feature| {
                let (name, feature) = feature.split_once('/')?;
                (name.trim_end_matches('?') == alias).then_some(feature)
            }));
        }
    }
    let mut text = format!(
        "# A placeholder: no crate of this platform needs it.\n\
         [package]\nname = {:?}\nversion = {:?}\nedition = \"2021\"\n\n[features]\n",
        locked.name, locked.version
    );
    for feature in features.into_iter().filter(|feature| *feature != "default") {
        writeln!(text, "{feature:?} = []")?;
    }
    Ok(text)
}

/// Writes the checksums that cargo compares a vendored crate with.
fn write_checksums(folder: &Path, package: &str) -> Result<()> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
                files.insert(name, hex(&Sha256::digest(fs::read(&path)?)));
            }
        }
    }
    let text = serde_json::json!({ "files": files, "package": package }).to_string();
    fs::write(folder.join(".cargo-checksum.json"), text)?;
    Ok(())
}

/// Copies the regular files of a directory, except some directories at its top.
fn copy_folder(from: &Path, to: &Path, without: &[&str]) -> Result<()> {
    transfer_folder(from, to, without, FileTransfer::Copy)
}

fn transfer_folder(from: &Path, to: &Path, without: &[&str], transfer: FileTransfer) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        if kind.is_dir() && !without.iter().any(|skipped| name == **skipped) {
            transfer_folder(&entry.path(), &to.join(&name), &[], transfer)?;
        } else if kind.is_file() && name != ".cargo-ok" {
            transfer.create(&entry.path(), &to.join(&name))?;
        }
    }
    Ok(())
}

fn remove_folder(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", path.display()).into())
        }
        _ => Ok(()),
    }
}

/// Returns the platform that the compiler builds for.
pub(crate) fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = output_of(Command::new(rustc).arg("-vV").current_dir(root()))?;
    let text = String::from_utf8(output)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc does not name its host")?.to_owned())
}

fn output_of(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let shown = crate::process::display_command(command);
    Err(format!("{shown}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    /// The source of the crate; `None` for the crates of the workspace.
    source: Option<String>,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    features: BTreeMap<String, Vec<String>>,
}

impl Package {
    fn folder(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    rename: Option<String>,
    features: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Debug, Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}
