//! Archives whose bytes depend on their files and one time alone.

use std::io::{self, Read, Write};
use std::path::Path;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use crate::Result;
use crate::tree::PackageTree;

/// The effort of compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionLevel {
    /// Small packages, for users.
    Best,
    /// Quickly made packages, for trials of a debug build.
    Fast,
}

impl CompressionLevel {
    fn select<T>(self, best: T, fast: T) -> T {
        match self {
            Self::Best => best,
            Self::Fast => fast,
        }
    }
}

/// The longest name in the header of an entry.
const MAX_HEADER_NAME: usize = 100;

/// Writes a tar archive with sorted entries, one time and numeric owners.
///
/// `prefix` precedes each path. It ends with `/`, and is an entry of its own, or is empty.
///
/// # Errors
/// The archive cannot be written.
pub fn write_tar<W: Write>(tree: &PackageTree, prefix: &str, time: u64, to: W) -> Result<W> {
    let mut builder = Builder::new(to);
    if !prefix.is_empty() {
        append(&mut builder, prefix, &directory_header(0o755, 0, time), &[])?;
    }
    for (path, entry) in tree.entries() {
        match &entry.contents {
            None => {
                let header = directory_header(entry.mode, entry.owner, time);
                append(&mut builder, &format!("{prefix}{path}/"), &header, &[])?;
            }
            Some(contents) => {
                let header =
                    header(EntryType::Regular, entry.mode, entry.owner, time, contents.len());
                append(&mut builder, &format!("{prefix}{path}"), &header, contents)?;
            }
        }
    }
    Ok(builder.into_inner()?)
}

/// Appends an entry. The library removes a leading `./`, which Debian's packages have.
fn append<W: Write>(
    builder: &mut Builder<W>,
    path: &str,
    header: &Header,
    contents: &[u8],
) -> io::Result<()> {
    let name = path.as_bytes();
    if name.len() > MAX_HEADER_NAME {
        let mut long = self::header(EntryType::GNULongName, FILE_HEADER_MODE, 0, 0, name.len() + 1);
        set_name(&mut long, b"././@LongLink");
        builder.append(&long, [name, b"\0"].concat().as_slice())?;
    }
    let mut header = header.clone();
    set_name(&mut header, &name[..name.len().min(MAX_HEADER_NAME)]);
    builder.append(&header, contents)
}

/// The mode of the entry with a long name, as GNU tar writes it.
const FILE_HEADER_MODE: u32 = 0o644;

fn set_name(header: &mut Header, name: &[u8]) {
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_cksum();
}

fn directory_header(mode: u32, owner: u32, time: u64) -> Header {
    header(EntryType::Directory, mode, owner, time, 0)
}

fn header(kind: EntryType, mode: u32, owner: u32, time: u64, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(owner.into());
    header.set_gid(owner.into());
    header.set_mtime(time);
    header.set_size(size as u64);
    if owner == 0 {
        // Other ids have no name on the machine that unpacks.
        let _fits = header.set_username("root").and_then(|()| header.set_groupname("root"));
    }
    header
}

/// Compresses with zstd.
///
/// # Errors
/// The encoder fails.
pub fn compress_zstd(bytes: &[u8], level: CompressionLevel) -> Result<Vec<u8>> {
    Ok(zstd::encode_all(bytes, level.select(19, 1))?)
}

/// Compresses with xz, as Debian's own packages are.
///
/// # Errors
/// The encoder fails.
pub fn compress_xz(bytes: &[u8], level: CompressionLevel) -> Result<Vec<u8>> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), level.select(6, 0));
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// Compresses with gzip, without a name and a time.
///
/// # Errors
/// The encoder fails.
pub fn compress_gzip(bytes: &[u8], level: CompressionLevel) -> Result<Vec<u8>> {
    let compression = level.select(Compression::best(), Compression::fast());
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), compression);
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// Unpacks a tar archive into a directory, with the modes of its entries, and with their owners if
/// this process may set them.
///
/// # Errors
/// The archive is damaged or leaves the directory, or a file cannot be written.
pub fn unpack_tar(archive: impl Read, directory: &Path) -> Result<()> {
    let mut archive = tar::Archive::new(archive);
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(is_root());
    archive.unpack(directory)?;
    Ok(())
}

/// Returns whether this process is that of root.
#[must_use]
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{EXECUTABLE_MODE, FILE_MODE};

    /// Returns a tree with a path that does not fit into a header.
    fn sample() -> PackageTree {
        let mut tree = PackageTree::default();
        tree.insert_file("bin/tool", EXECUTABLE_MODE, "#!/bin/sh\n");
        tree.insert_file(&format!("share/{}/text", "long/".repeat(30)), FILE_MODE, "text");
        tree.insert_directory("home/user", 0o700, 1000);
        tree
    }

    #[test]
    fn tar_contains_sorted_entries_only() {
        let bytes = write_tar(&sample(), "./", 1_700_000_000, Vec::new()).unwrap();
        let mut archive = tar::Archive::new(&*bytes);
        let mut names = Vec::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!(header.mtime().unwrap(), 1_700_000_000);
            let name = String::from_utf8(entry.path_bytes().to_vec()).unwrap();
            let owner = if name.ends_with("user/") { 1000 } else { 0 };
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (owner, owner), "{name}");
            let user = if owner == 0 { "root" } else { "" };
            assert_eq!(header.username().unwrap(), Some(user), "{name}");
            names.push(name);
        }
        assert_eq!(names[..5], ["./", "./bin/", "./bin/tool", "./home/", "./home/user/"]);
        assert!(names.last().unwrap().ends_with("/long//text"), "{names:?}");
        assert!(names.is_sorted());
    }

    #[test]
    fn archives_of_one_tree_are_identical() {
        let tar = || write_tar(&sample(), "a/", 5, Vec::new()).unwrap();
        assert_eq!(tar(), tar());
        for compress in [compress_zstd, compress_xz, compress_gzip] {
            let compress = || compress(&tar(), CompressionLevel::Best).unwrap();
            assert_eq!(compress(), compress());
        }
        assert_ne!(tar(), write_tar(&sample(), "a/", 6, Vec::new()).unwrap());
    }

    #[test]
    fn unpacked_tar_equals_tree() {
        let mut tree = PackageTree::default();
        tree.insert_file("bin/tool", EXECUTABLE_MODE, "#!/bin/sh\n");
        tree.insert_file(&format!("share/{}text", "long/".repeat(30)), FILE_MODE, "text");
        let bytes =
            compress_zstd(&write_tar(&tree, "", 5, Vec::new()).unwrap(), CompressionLevel::Fast)
                .unwrap();
        let directory = tempfile::tempdir().unwrap();
        unpack_tar(zstd::Decoder::new(&*bytes).unwrap(), directory.path()).unwrap();
        assert_eq!(PackageTree::from_directory(directory.path()).unwrap(), tree);
    }
}
