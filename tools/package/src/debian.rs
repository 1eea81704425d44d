//! The Debian package.

use std::fmt::Write as _;

use ar::{Builder, Header};
use md5::{Digest as _, Md5};

use crate::Result;
use crate::archive::{CompressionLevel, compress_gzip, compress_xz, write_tar};
use crate::checksums::to_hex;
use crate::libraries::{LibraryRequirements, debian_dependencies, read_requirements};
use crate::tree::{FILE_MODE, PackageTree};

/// The name of the package.
const PACKAGE: &str = "skillhost";
/// The revision of the packaging of one version.
const REVISION: u32 = 1;
/// The directory of documentation that Debian requires.
const DOCUMENTATION: &str = "usr/share/doc/skillhost";
/// The unit that runs the kernel of a home; its instance is the path of the home.
pub const UNIT: &str = "usr/lib/systemd/user/skillhost@.service";

const DESCRIPTION: &str = "\
nano-kernel for AI agents and registry for Agent Skills
 skillhost runs AI agents whose tools, models and skills are extensions:
 libraries, processes or agents that a manifest describes. Agents propose
 changes of skills and extensions, and a person approves them.
 .
 It also validates, fixes, formats, searches and versions Agent Skills, and
 serves them to other agents over MCP.
 .
 The package contains the program, its extensions, skills and documentation,
 and the sources of the SDK with all crates that it is built from: the first
 extension in Rust is built without network, given cargo and a linker.
";

/// The values of a package that its files do not determine.
#[derive(Debug, Clone)]
pub struct DebianSettings<'a> {
    /// The version of the product.
    pub version: &'a str,
    /// The processor in the words of Rust, such as `x86_64`.
    pub arch: &'a str,
    /// Name and address of the maintainer.
    pub maintainer: &'a str,
    /// The time of all files, in seconds since 1970.
    pub time: u64,
    /// The unit of systemd's user manager.
    pub unit: Option<&'a str>,
    /// The effort of compression.
    pub level: CompressionLevel,
}

impl DebianSettings<'_> {
    /// Returns the version of the package. In Debian's order `~` precedes everything, so that a
    /// release replaces its candidates.
    #[must_use]
    pub fn package_version(&self) -> String {
        format!("{}-{REVISION}", self.version.replace('-', "~"))
    }

    /// Returns the processor in Debian's words.
    ///
    /// # Errors
    /// Debian has no such architecture.
    pub fn architecture(&self) -> Result<&'static str> {
        Ok(match self.arch {
            "x86_64" => "amd64",
            "x86" => "i386",
            "aarch64" => "arm64",
            "arm" => "armhf",
            "riscv64" => "riscv64",
            "powerpc64" => "ppc64el",
            "s390x" => "s390x",
            "loongarch64" => "loong64",
            other => return Err(format!("Debian has no architecture for {other}").into()),
        })
    }

    /// Returns the file name of the package.
    ///
    /// # Errors
    /// Debian has no such architecture.
    pub fn file_name(&self) -> Result<String> {
        Ok(format!("{PACKAGE}_{}_{}.deb", self.package_version(), self.architecture()?))
    }
}

/// Makes the package of an installed prefix.
///
/// # Errors
/// A program is damaged or needs an unknown library, a license is missing, or an archive cannot be
/// written.
pub fn make_package(prefix: &PackageTree, settings: &DebianSettings<'_>) -> Result<Vec<u8>> {
    let tree = lay_out(prefix, settings)?;
    let requirements = tree
        .files()
        .filter_map(|(_, contents)| read_requirements(contents).transpose())
        .collect::<Result<Vec<_>>>()?;
    let mut control = PackageTree::default();
    control.insert_file("control", FILE_MODE, control_file(&tree, settings, &requirements)?);
    control.insert_file("md5sums", FILE_MODE, md5sums(&tree));
    let control =
        compress_xz(&write_tar(&control, "./", settings.time, Vec::new())?, settings.level)?;
    let data = compress_xz(&write_tar(&tree, "./", settings.time, Vec::new())?, settings.level)?;
    let mut archive = Builder::new(Vec::new());
    for (name, contents) in
        [("debian-binary", &b"2.0\n"[..]), ("control.tar.xz", &control), ("data.tar.xz", &data)]
    {
        let mut header = Header::new(name.into(), contents.len() as u64);
        header.set_mode(0o100_644);
        header.set_mtime(settings.time);
        archive.append(&header, contents)?;
    }
    Ok(archive.into_inner()?)
}

/// Moves the files of a prefix to where Debian expects them.
fn lay_out(prefix: &PackageTree, settings: &DebianSettings<'_>) -> Result<PackageTree> {
    let mut tree = PackageTree::default();
    for (path, entry) in prefix.entries() {
        let Some(contents) = &entry.contents else { continue };
        let page = path.starts_with("share/man/");
        let licenses = path == "share/doc/skillhost/THIRD-PARTY-LICENSES";
        if page || licenses {
            tree.insert_file(
                &format!("usr/{path}.gz"),
                FILE_MODE,
                compress_gzip(contents, CompressionLevel::Best)?,
            );
        } else {
            let path = path.replace("share/zsh/site-functions/", "share/zsh/vendor-completions/");
            tree.insert_file(&format!("usr/{path}"), entry.mode, contents.clone());
        }
    }
    let shipped = |name: &str| {
        prefix
            .contents(&format!("share/skillhost/{name}"))
            .ok_or_else(|| format!("share/skillhost/{name} is missing"))
    };
    let copyright = copyright(
        &String::from_utf8_lossy(shipped("LICENSE-MIT")?),
        &String::from_utf8_lossy(shipped("LICENSE-o200k_base")?),
    );
    tree.insert_file(&format!("{DOCUMENTATION}/copyright"), FILE_MODE, copyright);
    let changes = compress_gzip(shipped("CHANGELOG.md")?, CompressionLevel::Best)?;
    tree.insert_file(&format!("{DOCUMENTATION}/changelog.gz"), FILE_MODE, changes);
    let changes = compress_gzip(debian_changelog(settings)?.as_bytes(), CompressionLevel::Best)?;
    tree.insert_file(&format!("{DOCUMENTATION}/changelog.Debian.gz"), FILE_MODE, changes);
    if let Some(unit) = settings.unit {
        tree.insert_file(UNIT, FILE_MODE, unit);
    }
    Ok(tree)
}

fn control_file(
    tree: &PackageTree,
    settings: &DebianSettings<'_>,
    requirements: &[LibraryRequirements],
) -> Result<String> {
    let mut text = format!(
        "Package: {PACKAGE}\nVersion: {}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {}\n",
        settings.package_version(),
        settings.architecture()?,
        settings.maintainer,
        tree.installed_kib()
    );
    let depends = debian_dependencies(requirements)?;
    if !depends.is_empty() {
        writeln!(text, "Depends: {}", depends.join(", "))?;
    }
    text.push_str(
        "Recommends: ca-certificates\n\
         Suggests: cargo | rustup, gcc, libc6-dev, python3\n\
         Section: utils\n\
         Priority: optional\n",
    );
    write!(text, "Description: {DESCRIPTION}")?;
    Ok(text)
}

fn md5sums(tree: &PackageTree) -> String {
    tree.files().fold(String::new(), |mut text, (path, contents)| {
        let _infallible = writeln!(text, "{}  {path}", to_hex(&Md5::digest(contents)));
        text
    })
}

/// Returns `copyright` in the machine-readable format 1.0.
fn copyright(mit: &str, vocabulary: &str) -> String {
    let (holder, mit) = split_license(mit);
    let (vocabulary_holder, vocabulary) = split_license(vocabulary);
    let holder = holder.unwrap_or("The skillhost contributors");
    let mut text = format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: skillhost\n\
         Comment:\n \
         The programs are linked with crates of other authors, and the SDK contains the\n \
         sources of such crates. They are listed with their licenses in\n \
         /{DOCUMENTATION}/THIRD-PARTY-LICENSES.gz.\n\n\
         Files: *\nCopyright: {holder}\nLicense: Expat or Apache-2.0\n\n"
    );
    if let Some(vocabulary_holder) = vocabulary_holder {
        let _infallible = write!(
            text,
            "Files: usr/lib/skillhost/* usr/bin/skillhost\n\
             Copyright: {holder}\n           {vocabulary_holder}\n\
             License: Expat or Apache-2.0 and o200k-base\n\
             Comment: They contain the vocabulary o200k_base.\n\n"
        );
        let _infallible = write!(text, "License: o200k-base\n{}\n", indent(&vocabulary));
    }
    let _infallible = write!(
        text,
        "License: Expat\n{}\n\
         License: Apache-2.0\n On Debian systems, the text is in\n \
         /usr/share/common-licenses/Apache-2.0.\n",
        indent(&mit)
    );
    text
}

/// Splits a license into its first line of copyright and its other text.
fn split_license(text: &str) -> (Option<&str>, String) {
    let holder = text.lines().find_map(|line| line.trim().strip_prefix("Copyright (c) "));
    let is_text = |line: &&str| !line.trim().starts_with("Copyright (c) ");
    let mut others: Vec<&str> = text.lines().filter(is_text).collect();
    others.dedup_by(|line, previous| line.is_empty() && previous.is_empty());
    (holder, others.join("\n").trim().to_owned())
}

/// Formats a text as the continuation of a field: an empty line is a dot.
fn indent(text: &str) -> String {
    text.lines().fold(String::new(), |mut indented, line| {
        let line = if line.trim().is_empty() { "." } else { line.trim_end() };
        let _infallible = writeln!(indented, " {line}");
        indented
    })
}

fn debian_changelog(settings: &DebianSettings<'_>) -> Result<String> {
    Ok(format!(
        "{PACKAGE} ({}) unstable; urgency=medium\n\n  * The changes of version {} are in \
         changelog.gz.\n\n -- {}  {}\n",
        settings.package_version(),
        settings.version,
        settings.maintainer,
        crate::time::format_rfc2822(settings.time)?
    ))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::Command;

    use super::*;
    use crate::sample::sample_prefix;

    fn settings() -> DebianSettings<'static> {
        DebianSettings {
            version: "0.2.0-rc.1",
            arch: "x86_64",
            maintainer: "Ada <ada@example.org>",
            time: 1_700_000_000,
            unit: Some("[Unit]\n"),
            level: CompressionLevel::Fast,
        }
    }

    /// Returns the contents of a member of the package.
    fn member(package: &[u8], name: &str) -> PackageTree {
        let mut archive = ar::Archive::new(package);
        while let Some(entry) = archive.next_entry() {
            let mut entry = entry.unwrap();
            if entry.header().identifier() == name.as_bytes() {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).unwrap();
                let directory = tempfile::tempdir().unwrap();
                let tar = liblzma::read::XzDecoder::new(&*bytes);
                crate::archive::unpack_tar(tar, directory.path()).unwrap();
                return PackageTree::from_directory(directory.path()).unwrap();
            }
        }
        panic!("{name} is missing");
    }

    #[test]
    fn package_has_required_members() {
        let package = make_package(&sample_prefix(), &settings()).unwrap();
        let mut archive = ar::Archive::new(&*package);
        let mut names = Vec::new();
        while let Some(entry) = archive.next_entry() {
            names.push(String::from_utf8(entry.unwrap().header().identifier().into()).unwrap());
        }
        assert_eq!(names, ["debian-binary", "control.tar.xz", "data.tar.xz"]);
        assert!(
            package.starts_with(b"!<arch>\ndebian-binary   1700000000  0     0     100644  4 ")
        );
        let control = member(&package, "control.tar.xz");
        let text = String::from_utf8(control.contents("control").unwrap().to_vec()).unwrap();
        let data = member(&package, "data.tar.xz");
        for line in [
            "Package: skillhost",
            "Version: 0.2.0~rc.1-1",
            "Architecture: amd64",
            "Maintainer: Ada <ada@example.org>",
            &format!("Installed-Size: {}", data.installed_kib()),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        let sums = String::from_utf8(control.contents("md5sums").unwrap().to_vec()).unwrap();
        let listed: Vec<&str> = sums.lines().map(|line| &line[34..]).collect();
        let files: Vec<&str> = data.files().map(|(path, _)| path).collect();
        assert_eq!(listed, files);
    }

    #[test]
    fn package_follows_layout_of_debian() {
        let package = make_package(&sample_prefix(), &settings()).unwrap();
        let data = member(&package, "data.tar.xz");
        let files: Vec<&str> = data.files().map(|(path, _)| path).collect();
        assert!(files.iter().all(|path| path.starts_with("usr/")), "{files:?}");
        for path in [
            "usr/bin/skillhost",
            "usr/lib/skillhost/libecho.so",
            "usr/share/man/man1/skillhost.1.gz",
            "usr/share/zsh/vendor-completions/_skillhost",
            "usr/share/doc/skillhost/changelog.gz",
            "usr/share/doc/skillhost/changelog.Debian.gz",
            UNIT,
        ] {
            assert!(files.contains(&path), "{path} in {files:?}");
        }
        let copyright = data.contents("usr/share/doc/skillhost/copyright").unwrap();
        let copyright = String::from_utf8(copyright.to_vec()).unwrap();
        assert!(copyright.contains("License: Expat\n MIT License\n .\n"), "{copyright}");
        assert!(copyright.contains("\n           2022 The authors of the vocabulary\n"));
    }

    #[test]
    fn package_is_read_by_dpkg() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(settings().file_name().unwrap());
        std::fs::write(&path, make_package(&sample_prefix(), &settings()).unwrap()).unwrap();
        let Ok(info) = Command::new("dpkg-deb").arg("--info").arg(&path).output() else { return };
        let text = String::from_utf8_lossy(&info.stdout);
        assert!(info.status.success(), "{}", String::from_utf8_lossy(&info.stderr));
        assert!(text.contains("Version: 0.2.0~rc.1-1"), "{text}");
        let contents = Command::new("dpkg-deb").arg("--contents").arg(&path).output().unwrap();
        let text = String::from_utf8_lossy(&contents.stdout);
        assert!(
            text.lines().any(|line| line.starts_with("-rwxr-xr-x root/root")
                && line.ends_with(" ./usr/bin/skillhost")),
            "{text}"
        );
    }

    #[test]
    fn packages_of_one_prefix_are_identical() {
        let make = || make_package(&sample_prefix(), &settings()).unwrap();
        assert_eq!(make(), make());
    }

    #[test]
    fn package_without_license_is_refused() {
        let mut prefix = PackageTree::default();
        prefix.insert_file("bin/skillhost", 0o755, "");
        let error = make_package(&prefix, &settings()).unwrap_err().to_string();
        assert_eq!(error, "share/skillhost/LICENSE-MIT is missing");
        let mut unknown = settings();
        unknown.arch = "sparc64";
        let error = make_package(&sample_prefix(), &unknown).unwrap_err().to_string();
        assert_eq!(error, "Debian has no architecture for sparc64");
    }
}
