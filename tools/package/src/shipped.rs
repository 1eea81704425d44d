//! The crates that a package contains: linked into its programs, or as sources of the SDK.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_lock::Lockfile;
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

use crate::Result;
use crate::tree::PackageTree;

/// The directory of the SDK in an installed prefix.
const SDK: &str = "share/skillhost/sdk";
/// The first line of the manifest of a crate that only other platforms need.
const PLACEHOLDER: &[u8] = b"# A placeholder";

/// A crate that is shipped.
#[derive(Debug, Clone)]
pub struct ShippedCrate {
    /// The name of the crate.
    pub name: String,
    /// The version of the crate.
    pub version: String,
    /// One line about it.
    pub description: Option<String>,
    /// An SPDX expression; `None` if the crate only has a file.
    pub license: Option<String>,
    /// The SHA-256 digest of the published archive; `None` for the crates of the product.
    pub checksum: Option<String>,
    /// The directory of its sources on this machine.
    pub directory: PathBuf,
    /// Whether it is linked into a program or library.
    pub is_linked: bool,
    /// Whether its sources are part of the SDK.
    pub is_source: bool,
    /// Names and versions of the shipped crates that it needs.
    pub dependencies: BTreeSet<(String, String)>,
}

/// The selection of crates and features that the product was built with.
#[derive(Debug, Clone)]
pub struct BuildSelection<'a> {
    /// The directory of the workspace.
    pub workspace: &'a Path,
    /// The packages that were built.
    pub packages: &'a [String],
    /// The platform that was built for.
    pub target: &'a str,
    /// Whether the default features were disabled.
    pub no_default_features: bool,
}

/// Finds the crates of a build and of an installed prefix, by name and version.
///
/// Crates that only run during the build are left out: build scripts and procedural macros.
///
/// # Errors
/// Cargo fails, or a crate is not in the lock file.
pub fn find_crates(
    selection: &BuildSelection<'_>,
    prefix: &PackageTree,
) -> Result<Vec<ShippedCrate>> {
    let linked = linked_crates(selection)?;
    let sources = source_crates(prefix)?;
    let metadata = read_metadata(selection)?;
    let lock = Lockfile::load(selection.workspace.join("Cargo.lock"))?;
    let checksums: BTreeMap<(String, String), String> = lock
        .packages
        .iter()
        .filter_map(|package| {
            let id = (package.name.to_string(), package.version.to_string());
            Some((id, package.checksum.as_ref()?.to_string()))
        })
        .collect();
    let mut dependencies = dependencies_by_crate(&metadata);
    let mut crates = BTreeMap::new();
    for package in &metadata.packages {
        let id = (package.name.to_string(), package.version.to_string());
        let (is_linked, is_source) = (linked.contains(&id), sources.contains(&id));
        if !is_linked && !is_source {
            continue;
        }
        let checksum = checksums.get(&id).cloned();
        if package.source.is_some() && checksum.is_none() {
            return Err(format!("{} {} is not in Cargo.lock", id.0, id.1).into());
        }
        let directory = package.manifest_path.parent().ok_or("a manifest without a directory")?;
        let mut dependencies = dependencies.remove(&id).unwrap_or_default();
        dependencies.retain(|id| linked.contains(id) || sources.contains(id));
        let shipped = ShippedCrate {
            name: id.0.clone(),
            version: id.1.clone(),
            description: package.description.clone(),
            license: package.license.clone(),
            checksum,
            directory: directory.into(),
            is_linked,
            is_source,
            dependencies,
        };
        crates.insert(id, shipped);
    }
    if let Some((name, version)) = linked.union(&sources).find(|id| !crates.contains_key(*id)) {
        return Err(format!("cargo metadata does not list {name} {version}").into());
    }
    Ok(crates.into_values().collect())
}

/// Returns the crates that are linked, as cargo selects them for a build.
fn linked_crates(selection: &BuildSelection<'_>) -> Result<BTreeSet<(String, String)>> {
    let mut command = Command::new(cargo());
    command.current_dir(selection.workspace);
    // With another value cargo lists all members of the workspace.
    command.env("CARGO_RESOLVER_FEATURE_UNIFICATION", "selected");
    command.args(["tree", "--locked", "--offline", "--edges", "normal,no-proc-macro"]);
    command.args(["--prefix", "none", "--format", "{p}", "--target", selection.target]);
    command.args(selection.packages.iter().flat_map(|package| ["--package", package]));
    if selection.no_default_features {
        command.arg("--no-default-features");
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().filter_map(parse_tree_line).collect())
}

/// Parses a line of `cargo tree` such as `serde v1.0.2 (*)`.
fn parse_tree_line(line: &str) -> Option<(String, String)> {
    let (name, rest) = line.split_once(" v")?;
    let version = rest.split(' ').next()?;
    Some((name.to_owned(), version.to_owned()))
}

/// Returns the crates of the SDK's vendored sources.
fn source_crates(prefix: &PackageTree) -> Result<BTreeSet<(String, String)>> {
    let Some(lock) = prefix.contents(&format!("{SDK}/Cargo.lock")) else {
        return Ok(BTreeSet::new());
    };
    let lock: Lockfile = std::str::from_utf8(lock)?.parse()?;
    let ids = lock.packages.iter().map(|it| (it.name.to_string(), it.version.to_string()));
    let is_vendored = |(name, version): &(String, String)| {
        prefix
            .contents(&format!("{SDK}/vendor/{name}-{version}/Cargo.toml"))
            .is_some_and(|manifest| !manifest.starts_with(PLACEHOLDER))
    };
    Ok(ids.filter(is_vendored).collect())
}

fn read_metadata(selection: &BuildSelection<'_>) -> Result<Metadata> {
    let mut command = MetadataCommand::new();
    command.cargo_path(cargo()).current_dir(selection.workspace);
    let options = ["--locked", "--offline", "--filter-platform", selection.target];
    Ok(command.other_options(options.map(str::to_owned)).exec()?)
}

/// Returns the dependencies of each crate that are linked with it.
fn dependencies_by_crate(
    metadata: &Metadata,
) -> BTreeMap<(String, String), BTreeSet<(String, String)>> {
    let ids: BTreeMap<_, _> = metadata
        .packages
        .iter()
        .map(|package| (&package.id, (package.name.to_string(), package.version.to_string())))
        .collect();
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    nodes
        .filter_map(|node| {
            let normal = node.deps.iter().filter(|dependency| {
                dependency.dep_kinds.iter().any(|info| info.kind == DependencyKind::Normal)
            });
            let needed = normal.filter_map(|dependency| ids.get(&dependency.pkg).cloned());
            Some((ids.get(&node.id)?.clone(), needed.collect()))
        })
        .collect()
}

/// Returns the cargo that runs this program.
fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the crates of this program, as an example of a build.
    pub(crate) fn own_crates() -> Vec<ShippedCrate> {
        let target = Command::new("rustc").arg("-vV").output().unwrap();
        let text = String::from_utf8(target.stdout).unwrap();
        let target = text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
        let selection = BuildSelection {
            workspace: Path::new(env!("CARGO_MANIFEST_DIR")),
            packages: &["skillhost-package".to_owned()],
            target,
            no_default_features: false,
        };
        find_crates(&selection, &PackageTree::default()).unwrap()
    }

    #[test]
    fn crates_of_builds_are_left_out() {
        let crates = own_crates();
        let find = |name: &str| crates.iter().find(|it| it.name == name);
        let tar = find("tar").unwrap();
        assert!(tar.is_linked && !tar.is_source);
        assert_eq!(tar.checksum.as_ref().unwrap().len(), 64);
        assert_eq!(tar.license.as_deref(), Some("MIT OR Apache-2.0"));
        assert!(tar.directory.join("Cargo.toml").is_file());
        assert!(find("zstd-sys").is_some());
        let own = find("skillhost-package").unwrap();
        assert_eq!(own.checksum, None);
        assert!(own.dependencies.iter().any(|(name, _)| name == "tar"));
        // A crate for build scripts, a procedural macro.
        for name in ["cc", "clap_derive"] {
            assert!(find(name).is_none(), "{name}");
        }
    }

    #[test]
    fn placeholders_are_not_sources() {
        let mut prefix = PackageTree::default();
        let package = |name: &str| {
            format!(
                "[[package]]\nname = \"{name}\"\nversion = \"1.0.0\"\nsource = \
                 \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"{}\"\n\n",
                "0".repeat(64)
            )
        };
        let lock = format!("version = 4\n\n{}{}", package("bytes"), package("windows-sys"));
        prefix.insert_file(&format!("{SDK}/Cargo.lock"), 0o644, lock);
        for (name, text) in [("bytes", "[package]\n"), ("windows-sys", "# A placeholder: x\n")] {
            prefix.insert_file(&format!("{SDK}/vendor/{name}-1.0.0/Cargo.toml"), 0o644, text);
        }
        let sources = source_crates(&prefix).unwrap();
        assert_eq!(Vec::from_iter(sources), [("bytes".to_owned(), "1.0.0".to_owned())]);
    }
}
