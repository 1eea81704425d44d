//! Root directories in which a package of Debian can be installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::Result;
use crate::archive::{is_root, unpack_tar, write_tar};
use crate::chroot::{ChrootCommand, ChrootRoot};
use crate::image::base_layer;
use crate::tree::PackageTree;

/// The directories that the package manager itself writes to, and devices.
const CHANGING: [&str; 5] = ["dev", "proc", "var/lib/dpkg", "var/log", "var/cache"];

/// A root directory with a package manager's database. It is removed when it is dropped.
#[derive(Debug)]
pub struct DebianRoot {
    root: ChrootRoot,
    /// Whether it has no programs of its own.
    is_composed: bool,
}

/// The place of root directories, and Debian's release in them.
#[derive(Debug, Clone)]
pub struct RootSettings<'a> {
    /// The directory of all root directories; those of Debian are kept there.
    pub cache: &'a Path,
    /// The code name of the release.
    pub suite: &'a str,
}

impl DebianRoot {
    /// Creates a root with Debian's smallest system and additional packages.
    ///
    /// # Errors
    /// This user is not root, debootstrap is missing, or no mirror is reachable.
    pub fn bootstrap(settings: &RootSettings<'_>, packages: &[&str]) -> Result<Self> {
        if !is_root() {
            return Err("debootstrap requires root".into());
        }
        let names: String = packages.iter().map(|package| format!("-{package}")).collect();
        let base = settings.cache.join(format!("debian-{}{names}", settings.suite));
        if !base.is_dir() {
            let new = settings.cache.join(".new");
            remove_directory(&new)?;
            fs::create_dir_all(settings.cache)?;
            let mut command = Command::new("debootstrap");
            command.arg("--variant=minbase");
            if !packages.is_empty() {
                command.arg(format!("--include={}", packages.join(",")));
            }
            let output = command.arg(settings.suite).arg(&new).output();
            let output = output.map_err(|error| format!("debootstrap: {error}"))?;
            if !output.status.success() {
                let text = String::from_utf8_lossy(&output.stdout);
                let last = text.lines().last().unwrap_or("failed").to_owned();
                remove_directory(&new)?;
                return Err(format!("debootstrap: {last}").into());
            }
            fs::rename(&new, &base)?;
        }
        let directory = settings.cache.join(format!("trial{names}"));
        remove_directory(&directory)?;
        let mut copy = Command::new("cp");
        let output = copy.args(["-a", "--reflink=auto"]).arg(&base).arg(&directory).output()?;
        if !output.status.success() {
            return Err(format!("cp: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(Self { root: ChrootRoot::new(directory), is_composed: false })
    }

    /// Creates a root with the libraries of this machine that a product needs, and without any
    /// programs. Its database has the entries of these libraries' packages.
    ///
    /// # Errors
    /// A library is not found, or this machine has no dpkg.
    pub fn compose(settings: &RootSettings<'_>, product: &PackageTree, arch: &str) -> Result<Self> {
        let directory = settings.cache.join("trial-composed");
        remove_directory(&directory)?;
        fs::create_dir_all(&directory)?;
        let base = base_layer(product, arch)?;
        unpack_tar(&*write_tar(&base, "", 0, Vec::new())?, &directory)?;
        let database = directory.join("var/lib/dpkg");
        for name in ["info", "updates", "triggers"] {
            fs::create_dir_all(database.join(name))?;
        }
        let mut query = Command::new("dpkg-query");
        let output = query.args(["--status", "libc6", "libgcc-s1"]).output();
        let output = output.map_err(|error| format!("dpkg-query: {error}"))?;
        fs::write(database.join("status"), output.stdout)?;
        Ok(Self { root: ChrootRoot::new(directory), is_composed: true })
    }

    /// Returns the directory for commands.
    #[must_use]
    pub fn root(&self) -> &ChrootRoot {
        &self.root
    }

    /// Returns whether the root has no programs of its own.
    #[must_use]
    pub fn is_composed(&self) -> bool {
        self.is_composed
    }

    /// Runs the package manager: that of the root, or that of this machine for a composed root.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run_dpkg(&self, words: &[&str]) -> Result<Output> {
        if !self.is_composed {
            return self.root.run(&ChrootCommand::new(&[&["dpkg"], words].concat()));
        }
        let mut command = match is_root() {
            true => Command::new("dpkg"),
            false => Command::new("unshare"),
        };
        if !is_root() {
            command.args(["--map-root-user", "dpkg"]);
        }
        command.arg(format!("--root={}", self.root.directory().display()));
        // A package is named by its path in the root.
        let words = words.iter().map(|word| match word.strip_prefix('/') {
            Some(path) => self.root.directory().join(path).into_os_string(),
            None => (*word).into(),
        });
        command.args(words).output().map_err(|error| format!("dpkg: {error}").into())
    }

    /// Returns the paths of all files and directories, except those that every change of packages
    /// writes to.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn list_files(&self) -> Result<BTreeSet<PathBuf>> {
        let directory = self.root.directory();
        let mut found = BTreeSet::new();
        let mut pending = vec![directory.to_owned()];
        while let Some(next) = pending.pop() {
            for entry in fs::read_dir(next)? {
                let entry = entry?;
                let path = entry.path();
                let relative = path.strip_prefix(directory)?.to_owned();
                if CHANGING.iter().any(|changing| relative.starts_with(changing)) {
                    continue;
                }
                if entry.file_type()?.is_dir() {
                    pending.push(path);
                }
                found.insert(relative);
            }
        }
        Ok(found)
    }
}

impl Drop for DebianRoot {
    fn drop(&mut self) {
        // A failure shows at the next trial, which removes it first.
        let _removed = remove_directory(self.root.directory());
    }
}

/// Removes a directory, if it exists.
///
/// # Errors
/// It cannot be removed.
pub fn remove_directory(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", path.display()).into())
        }
        _ => Ok(()),
    }
}
