//! `cargo xtask install`: the complete product in one directory.
//!
//! `cargo install` can only carry binaries: the program then contains the files and the libraries
//! that are separate files here, and all that is missing is man pages and vendored crates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::file_transfer::FileTransfer;
use crate::process::{cargo_command, run_command, run_quietly};
use crate::vendor::vendor;
use crate::workspace::{Result, root, target};

/// Extensions that ship: the library's base name, which is also the manifest's entrypoint.
const LIBRARIES: [&str; 7] =
    ["skill_registry", "embedding", "web_search", "telegram", "webhook", "core_tools", "echo"];

/// The packages of the product: the program and the libraries that it loads.
pub(crate) const PRODUCT: [&str; 8] = [
    "skillhost",
    "skill-registry",
    "skillhost-embedding",
    "skillhost-web",
    "skillhost-telegram",
    "skillhost-webhook",
    "core_tools",
    "skillhost-echo",
];

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Target directory: DIR/bin, DIR/lib/skillhost, DIR/share
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// Install a debug build (faster to build, slower to run): hard links to the files of the build
    #[arg(long)]
    debug: bool,
    /// Install the previous build instead of a new one
    #[arg(long)]
    no_build: bool,
}

/// Builds and installs below a prefix.
pub(crate) fn cmd_install(args: &InstallArgs) -> Result<()> {
    let profile = if args.debug { BuildProfile::Debug } else { BuildProfile::Dist };
    if !args.no_build {
        build_product(profile)?;
    }
    let prefix = std::path::absolute(&args.prefix)?;
    lay_out(&profile.directory(), &prefix, profile.transfer())?;
    println!("installed {}", prefix.join("bin/skillhost").display());
    println!("next: {} init ~/skillhost", prefix.join("bin/skillhost").display());
    Ok(())
}

/// A profile of Cargo.toml.
#[derive(Clone, Copy)]
pub(crate) enum BuildProfile {
    /// Not optimized; the build that tests run on.
    Debug,
    /// Optimized within each crate; quick to build.
    Release,
    /// Optimized across crates; the build that is installed and measured.
    Dist,
}

impl BuildProfile {
    /// Returns the directory of the built files.
    pub(crate) fn directory(self) -> PathBuf {
        target().join(match self {
            Self::Debug => "debug",
            Self::Release => "release",
            Self::Dist => "dist",
        })
    }

    /// Returns whether the program is built with its default features: it then contains copies of
    /// the files that are installed next to it.
    pub(crate) fn has_default_features(self) -> bool {
        matches!(self, Self::Debug)
    }

    /// Returns the way in which the build is installed.
    pub(crate) fn transfer(self) -> FileTransfer {
        match self {
            Self::Debug => FileTransfer::Link,
            Self::Release | Self::Dist => FileTransfer::Copy,
        }
    }

    /// Returns the arguments that select the profile.
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Debug => &[],
            Self::Release => &["--release"],
            Self::Dist => &["--profile", "dist"],
        }
    }
}

/// Builds the program and its libraries.
///
/// An optimized build contains the product alone, and the program no copies of what is next to it. A debug build selects the same packages as
/// `cargo xtask test`, so that neither has to compile anything for the other.
pub(crate) fn build_product(profile: BuildProfile) -> Result<()> {
    let product: Vec<_> = PRODUCT.iter().flat_map(|name| ["-p", *name]).collect();
    let selection = match profile {
        BuildProfile::Debug => vec!["--workspace", "--lib", "--bins", "--examples"],
        _ => product,
    };
    let arguments = ["build", "--locked"].iter().chain(&selection).chain(profile.arguments());
    let mut command = cargo_command(arguments);
    if !profile.has_default_features() {
        command.arg("--no-default-features");
    }
    run_command(&mut command)
}

/// Installs every file below a prefix.
pub(crate) fn lay_out(built: &Path, prefix: &Path, transfer: FileTransfer) -> Result<()> {
    let root = root();
    let share = prefix.join("share/skillhost");
    replace(&built.join("skillhost"), &prefix.join("bin/skillhost"), transfer)?;
    for library in LIBRARIES {
        let name =
            format!("{}{library}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        replace(&built.join(&name), &prefix.join("lib/skillhost").join(&name), transfer)?;
    }
    let pages = prefix.join("share/man/man1");
    run_quietly(Command::new(built.join("skillhost")).arg("man").arg(pages).stdout(Stdio::null()))?;
    write_completions(&built.join("skillhost"), &prefix.join("share"))?;
    copy_tree(&root.join("manifests"), &share.join("manifests"))?;
    copy_tree(&root.join("sandbox/skills"), &share.join("skills"))?;
    copy_sdk(&root, &share.join("sdk"), transfer)?;
    // The README links to these files by relative paths.
    copy_tree(&root.join("docs"), &share.join("docs"))?;
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
    ] {
        copy(&root.join(name), &share.join(name))?;
    }
    // The program contains OpenAI's vocabulary, which has a separate license.
    let data = root.join("extensions/skill_registry/tokens/data");
    copy(&data.join("LICENSE-o200k_base"), &share.join("LICENSE-o200k_base"))
}

/// The shells with completions, each with the path below `share` where it looks for them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/skillhost"),
    ("zsh", "zsh/site-functions/_skillhost"),
    ("fish", "fish/vendor_completions.d/skillhost.fish"),
];

fn write_completions(program: &Path, share: &Path) -> Result<()> {
    for (shell, path) in COMPLETIONS {
        let output = Command::new(program).args(["completions", shell]).output()?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("skillhost completions {shell}: {errors}").into());
        }
        let path = share.join(path);
        fs::create_dir_all(path.parent().unwrap_or(share))?;
        fs::write(path, output.stdout)?;
    }
    Ok(())
}

/// The crates of an installed SDK, below `kernel`.
const SDK: [&str; 3] = ["sdk", "contract", "payload"];

/// Copies the SDK and the crates that it uses as a workspace of their own, so that `ext new` works from an
/// installed copy: their manifests inherit from ours, which is not there.
fn copy_sdk(root: &Path, to: &Path, transfer: FileTransfer) -> Result<()> {
    for name in SDK {
        copy_tree(&root.join("kernel").join(name), &to.join(name))?;
    }
    let ours = fs::read_to_string(root.join("Cargo.toml"))?;
    let start = ours.find("[workspace.package]").ok_or("Cargo.toml has no [workspace.package]")?;
    let end = ours.find("[profile.dev]").ok_or("Cargo.toml has no [profile.dev]")?;
    let head = "[workspace]\nresolver = \"3\"\nmembers = [\"sdk\", \"contract\", \"payload\"]\n\n";
    let shared: String = ours[start..end]
        .lines()
        // Only the fields that these crates inherit: paths of our other crates would not exist.
        .filter(|line| {
            let is_copied = |name: &str| line.starts_with(&format!("skillhost-{name} "));
            !line.contains("path = ") || SDK.into_iter().any(is_copied)
        })
        .map(|line| line.replace("kernel/", "") + "\n")
        .collect();
    fs::write(to.join("Cargo.toml"), format!("{head}{shared}"))?;
    // The versions that extensions are built with: those that this copy was built with.
    copy(&root.join("Cargo.lock"), &to.join("Cargo.lock"))?;
    vendor(to, transfer)
}

/// Copies a file and creates the directories above it.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    replace(from, to, FileTransfer::Copy)
}

/// Replaces a file, and creates the directories above it.
fn replace(from: &Path, to: &Path, transfer: FileTransfer) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    // A running copy must not be written into: its pages are mapped.
    let temporary = to.with_extension("new");
    // An earlier command may have been interrupted.
    let _ = fs::remove_file(&temporary);
    transfer.create(from, &temporary)?;
    fs::rename(&temporary, to).map_err(|error| format!("{}: {error}", to.display()))?;
    if transfer == FileTransfer::Link {
        // Nothing is renamed if both are links to the same file.
        let _ = fs::remove_file(&temporary);
    }
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))? {
        let entry = entry?;
        let (source, goal) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_tree(&source, &goal)?;
        } else {
            copy(&source, &goal)?;
        }
    }
    Ok(())
}
