//! `skillhost-package`: makes and tries the packages of an installed prefix.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use skillhost_package::archive::CompressionLevel;
use skillhost_package::debian_root::RootSettings;
use skillhost_package::product::{ProductSettings, make_packages};
use skillhost_package::shipped::BuildSelection;
use skillhost_package::trial::{TrialSettings, try_packages};

/// Makes and tries packages; run by `cargo xtask package`.
#[derive(Debug, Parser)]
#[command(name = "skillhost-package")]
struct PackageCli {
    #[command(subcommand)]
    command: PackageCommand,
}

#[derive(Debug, Subcommand)]
enum PackageCommand {
    /// Make the packages of an installed prefix
    Make(MakeArgs),
    /// Install the packages into root directories of their own and use them there
    Try(TryArgs),
}

#[derive(Debug, Args)]
struct MakeArgs {
    /// Directory of the workspace
    #[arg(long)]
    workspace: PathBuf,
    /// Installed prefix
    #[arg(long)]
    prefix: PathBuf,
    /// Directory of the packages; replaced
    #[arg(long)]
    output: PathBuf,
    /// Version of the product
    #[arg(long = "product-version")]
    version: String,
    /// Platform that was built for
    #[arg(long)]
    target: String,
    /// Time of all files, in seconds since 1970
    #[arg(long)]
    time: u64,
    /// A package that was built
    #[arg(long = "package")]
    packages: Vec<String>,
    /// The default features were disabled
    #[arg(long)]
    no_default_features: bool,
    /// Name and address of the Debian package's maintainer
    #[arg(long)]
    maintainer: String,
    /// Compress little, for trials of a debug build
    #[arg(long)]
    fast: bool,
}

#[derive(Debug, Args)]
struct TryArgs {
    /// Directory of the packages
    #[arg(long)]
    packages: PathBuf,
    /// Version of the product
    #[arg(long = "product-version")]
    version: String,
    /// Directory of the root directories
    #[arg(long)]
    cache: PathBuf,
    /// Release of Debian
    #[arg(long)]
    suite: String,
}

fn main() -> ExitCode {
    let arch = std::env::consts::ARCH;
    let result = match PackageCli::parse().command {
        PackageCommand::Make(args) => make_packages(&ProductSettings {
            prefix: &args.prefix,
            output: &args.output,
            version: &args.version,
            arch,
            time: args.time,
            maintainer: &args.maintainer,
            level: if args.fast { CompressionLevel::Fast } else { CompressionLevel::Best },
            selection: BuildSelection {
                workspace: &args.workspace,
                packages: &args.packages,
                target: &args.target,
                no_default_features: args.no_default_features,
            },
        }),
        PackageCommand::Try(args) => try_packages(&TrialSettings {
            packages: &args.packages,
            version: &args.version,
            arch,
            roots: RootSettings { cache: &args.cache, suite: &args.suite },
        }),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("skillhost-package: {error}");
            ExitCode::FAILURE
        }
    }
}
