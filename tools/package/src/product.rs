//! All packages of one product.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::archive::{CompressionLevel, compress_zstd, write_tar};
use crate::checksums::write_checksums;
use crate::debian::{DebianSettings, make_package};
use crate::debian_root::remove_directory;
use crate::image::{ImageSettings, base_layer, write_image};
use crate::licenses::collect_licenses;
use crate::materials::format_materials;
use crate::shipped::{BuildSelection, find_crates};
use crate::tree::{FILE_MODE, PackageTree};
use crate::unit::print_unit;

/// The directory of the files about the product in a prefix.
const DOCUMENTATION: &str = "share/doc/skillhost";

/// The installed product and the values that it does not determine.
#[derive(Debug, Clone)]
pub struct ProductSettings<'a> {
    /// The installed prefix.
    pub prefix: &'a Path,
    /// The directory of the packages, which is replaced.
    pub output: &'a Path,
    /// The version of the product.
    pub version: &'a str,
    /// The processor in the words of Rust.
    pub arch: &'a str,
    /// The time of all files, in seconds since 1970.
    pub time: u64,
    /// Name and address of the Debian package's maintainer.
    pub maintainer: &'a str,
    /// The effort of compression.
    pub level: CompressionLevel,
    /// The crates and features of the build.
    pub selection: BuildSelection<'a>,
}

/// Makes all packages that this system can make, and the file with their digests.
///
/// Prints the name and size of each.
///
/// # Errors
/// A file cannot be read or written, cargo fails, or the prefix is not complete.
pub fn make_packages(settings: &ProductSettings<'_>) -> Result<()> {
    let mut prefix = PackageTree::from_directory(settings.prefix)?;
    let crates = find_crates(&settings.selection, &prefix)?;
    let materials = format_materials(settings.version, &crates, settings.time)?;
    let licenses = collect_licenses(&crates)?;
    prefix.insert_file(&format!("{DOCUMENTATION}/THIRD-PARTY-LICENSES"), FILE_MODE, licenses);
    let path = format!("{DOCUMENTATION}/skillhost.cdx.json");
    prefix.insert_file(&path, FILE_MODE, materials.clone());
    // The directory is complete or does not exist.
    let new = settings.output.with_extension("new");
    remove_directory(&new)?;
    fs::create_dir_all(&new)?;
    write_packages(settings, &prefix, &materials, &new)?;
    write_checksums(&new)?;
    remove_directory(settings.output)?;
    fs::rename(&new, settings.output)?;
    print_sizes(settings.output)
}

fn write_packages(
    settings: &ProductSettings<'_>,
    prefix: &PackageTree,
    materials: &[u8],
    to: &Path,
) -> Result<()> {
    let name = format!("skillhost-{}-{}", settings.version, settings.selection.target);
    fs::write(to.join(format!("{name}.cdx.json")), materials)?;
    let archive = write_tar(prefix, &format!("{name}/"), settings.time, Vec::new())?;
    let archive = compress_zstd(&archive, settings.level)?;
    fs::write(to.join(format!("{name}.tar.zst")), archive)?;
    if !settings.selection.target.contains("-linux-gnu") {
        println!("SKIPPED the Debian package and the image: they need a build for Linux and glibc");
        return Ok(());
    }
    let unit = print_unit(&settings.prefix.join("bin/skillhost"))?;
    let debian = DebianSettings {
        version: settings.version,
        arch: settings.arch,
        maintainer: settings.maintainer,
        time: settings.time,
        unit: Some(&unit),
        level: settings.level,
    };
    fs::write(to.join(debian.file_name()?), make_package(prefix, &debian)?)?;
    let image =
        ImageSettings { version: settings.version, time: settings.time, level: settings.level };
    let base = base_layer(prefix, settings.arch)?;
    write_image(&to.join(format!("{name}.oci")), &base, prefix, &image)
}

/// Prints each package with its size.
fn print_sizes(output: &Path) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(output)?.collect::<std::io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let size: usize = match entry.file_type()?.is_dir() {
            true => PackageTree::from_directory(&path)?.files().map(|(_, text)| text.len()).sum(),
            false => usize::try_from(entry.metadata()?.len())?,
        };
        println!("{:>12} {}", format!("{} KiB", size.div_ceil(1024)), path.display());
    }
    Ok(())
}
