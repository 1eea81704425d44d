//! `cargo xtask package`: archives, a Debian package, a container image and a bill of materials.
//!
//! The packages are made by `tools/package`, a workspace of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::docs::build_book;
use crate::file_transfer::FileTransfer;
use crate::install::{BuildProfile, PRODUCT, build_product, lay_out};
use crate::process::{cargo_command, display_command, run_command};
use crate::vendor::host;
use crate::workspace::{Result, root, target};

/// The maintainer of the Debian package, unless the variables of Debian's tools name one.
const MAINTAINER: (&str, &str) = ("The skillhost contributors", "skillhost@localhost");
/// The release of Debian for trials on other systems.
const DEFAULT_SUITE: &str = "stable";

#[derive(Debug, Args)]
pub(crate) struct PackageArgs {
    /// Package a debug build, compressed little
    #[arg(long)]
    debug: bool,
    /// Package the previous build instead of a new one
    #[arg(long)]
    no_build: bool,
    /// Leave out the documentation as HTML pages
    #[arg(long)]
    no_html: bool,
    /// Install and use each package in a root directory of its own
    #[arg(long = "try")]
    trial: bool,
    /// Release of Debian to try with [default: that of this machine, else stable]
    #[arg(long, value_name = "NAME", requires = "trial")]
    suite: Option<String>,
}

/// Makes all packages in `target/package`.
pub(crate) fn cmd_package(args: &PackageArgs) -> Result<()> {
    let profile = if args.debug { BuildProfile::Debug } else { BuildProfile::Dist };
    if !args.no_build {
        build_product(profile)?;
    }
    let time = source_date()?;
    let prefix = target().join("package-prefix");
    if prefix.exists() {
        fs::remove_dir_all(&prefix)?;
    }
    lay_out(&profile.directory(), &prefix, FileTransfer::Copy)?;
    if !args.no_html {
        build_book(&prefix.join("share/doc/skillhost/html"))?;
    }
    let packages = target().join("package");
    let mut make = package_command("make");
    make.arg("--workspace").arg(root()).arg("--prefix").arg(&prefix);
    make.arg("--output").arg(&packages).args(["--product-version", env!("CARGO_PKG_VERSION")]);
    make.args(["--target", &host()?, "--time", &time.to_string()]);
    make.args(["--maintainer", &maintainer()]);
    make.args(PRODUCT.iter().flat_map(|name| ["--package", name]));
    if args.debug {
        make.arg("--fast");
    }
    if !profile.has_default_features() {
        make.arg("--no-default-features");
    }
    run_command(&mut make)?;
    if args.trial {
        try_packages(&packages, args.suite.clone())?;
    }
    Ok(())
}

fn try_packages(packages: &Path, suite: Option<String>) -> Result<()> {
    let mut command = package_command("try");
    command.arg("--packages").arg(packages);
    command.args(["--product-version", env!("CARGO_PKG_VERSION")]);
    command.arg("--cache").arg(target().join("package-roots"));
    command.arg("--suite").arg(suite.unwrap_or_else(debian_suite));
    run_command(&mut command)
}

/// Returns a command of the program that makes packages; cargo builds it first if necessary.
fn package_command(name: &str) -> Command {
    let mut command = cargo_command(["run", "--locked", "--quiet", "--manifest-path"]);
    command.arg(manifest()).arg("--target-dir").arg(target_directory()).args(["--", name]);
    command
}

/// The manifest of the program that makes packages.
pub(crate) fn manifest() -> PathBuf {
    root().join("tools/package/Cargo.toml")
}

/// The directory that cargo builds that program to.
pub(crate) fn target_directory() -> PathBuf {
    target().join("package-builder")
}

/// Returns the time of all files in packages: `SOURCE_DATE_EPOCH`, else that of the commit.
fn source_date() -> Result<u64> {
    if let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(text.trim().parse().map_err(|_| "SOURCE_DATE_EPOCH is not a number")?);
    }
    let mut command = Command::new("git");
    command.current_dir(root()).args(["log", "-1", "--format=%ct"]);
    let output = command.output().ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let time = text.and_then(|text| text.parse().ok());
    let shown = display_command(&command);
    Ok(time.ok_or_else(|| format!("`{shown}` failed; set SOURCE_DATE_EPOCH to a time"))?)
}

/// Returns the maintainer that the variables of Debian's tools name.
fn maintainer() -> String {
    let variable = |name: &str, default: &str| {
        let value = std::env::var(name).unwrap_or_else(|_| default.to_owned());
        value.replace(['\n', '\r', '<', '>'], " ")
    };
    let (name, address) = MAINTAINER;
    format!("{} <{}>", variable("DEBFULLNAME", name), variable("DEBEMAIL", address))
}

/// Returns the release of this machine, if it is one of Debian.
fn debian_suite() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = |name: &str| {
        text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim_matches('"').to_owned()))
    };
    match (value("ID="), value("VERSION_CODENAME=")) {
        (Some(id), Some(suite)) if id == "debian" => suite,
        _ => DEFAULT_SUITE.to_owned(),
    }
}
