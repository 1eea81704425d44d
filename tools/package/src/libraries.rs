//! The libraries of the system that programs and libraries need.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use elf::ElfBytes;
use elf::abi::{DT_NEEDED, PT_INTERP, SHT_GNU_VERNEED};
use elf::endian::AnyEndian;
use elf::gnu_symver::VerNeedIterator;
use elf::string_table::StringTable;

use crate::Result;

/// The libraries and symbol versions that one ELF file needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LibraryRequirements {
    /// The file names of the libraries.
    pub libraries: Vec<String>,
    /// Names of libraries, each with a version of its symbols such as `GLIBC_2.34`.
    pub versions: Vec<(String, String)>,
    /// The path of the loader, which programs name.
    pub loader: Option<String>,
}

/// Reads the requirements of an ELF file; `None` for other files.
///
/// # Errors
/// The ELF file is damaged.
pub fn read_requirements(bytes: &[u8]) -> Result<Option<LibraryRequirements>> {
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let file = ElfBytes::<AnyEndian>::minimal_parse(bytes)?;
    let mut requirements = LibraryRequirements::default();
    let common = file.find_common_data()?;
    if let (Some(dynamic), Some(strings)) = (common.dynamic, common.dynsyms_strs) {
        for needed in dynamic.iter().filter(|entry| entry.d_tag == DT_NEEDED) {
            let name = strings.get(usize::try_from(needed.d_val())?)?;
            requirements.libraries.push(name.to_owned());
        }
    }
    let sections = file.section_headers().ok_or("an ELF file without sections")?;
    for section in sections.iter().filter(|section| section.sh_type == SHT_GNU_VERNEED) {
        let (data, _) = file.section_data(&section)?;
        let strings = sections.get(usize::try_from(section.sh_link)?)?;
        let strings = StringTable::new(file.section_data(&strings)?.0);
        let count = section.sh_info.into();
        for (needed, versions) in
            VerNeedIterator::new(file.ehdr.endianness, file.ehdr.class, count, 0, data)
        {
            let library = strings.get(usize::try_from(needed.vn_file)?)?;
            for version in versions {
                let version = strings.get(usize::try_from(version.vna_name)?)?;
                requirements.versions.push((library.to_owned(), version.to_owned()));
            }
        }
    }
    let segments = file.segments().ok_or("an ELF file without segments")?;
    if let Some(loader) = segments.iter().find(|segment| segment.p_type == PT_INTERP) {
        let path = String::from_utf8(file.segment_data(&loader)?.to_vec())?;
        requirements.loader = Some(path.trim_end_matches('\0').to_owned());
    }
    Ok(Some(requirements))
}

/// Returns the field `Depends` of a Debian package with these requirements.
///
/// # Errors
/// A library is of a package that is not known here.
pub fn debian_dependencies(requirements: &[LibraryRequirements]) -> Result<Vec<String>> {
    let mut packages: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for library in requirements.iter().flat_map(|it| &it.libraries) {
        packages.entry(debian_package(library)?).or_default();
    }
    for (library, version) in requirements.iter().flat_map(|it| &it.versions) {
        let minimum = packages.entry(debian_package(library)?).or_default();
        if let Some(version) = package_version(version) {
            *minimum = version.max(std::mem::take(minimum));
        }
    }
    let depends = packages.into_iter().map(|(package, version)| {
        let version: Vec<String> = version.iter().map(u32::to_string).collect();
        match version.is_empty() {
            true => package.to_owned(),
            false => format!("{package} (>= {})", version.join(".")),
        }
    });
    Ok(depends.collect())
}

/// Returns the package of a library: those that a Rust program is linked with.
fn debian_package(library: &str) -> Result<&'static str> {
    let name = library.split(".so").next().unwrap_or(library);
    match name {
        "libc" | "libm" | "libdl" | "libpthread" | "librt" | "libutil" | "libresolv" => Ok("libc6"),
        name if name.starts_with("ld-linux") || name.starts_with("ld64") => Ok("libc6"),
        "libgcc_s" => Ok("libgcc-s1"),
        _ => Err(format!("the Debian package of the library {library} is not known").into()),
    }
}

/// Returns the version of the package that introduced a version of symbols.
fn package_version(version: &str) -> Option<Vec<u32>> {
    // A marker of the linker's format instead of a number.
    if version == "GLIBC_ABI_DT_RELR" {
        return Some(vec![2, 36]);
    }
    let number = version.strip_prefix("GLIBC_").or_else(|| version.strip_prefix("GCC_"))?;
    number.split('.').map(|part| part.parse().ok()).collect()
}

/// Finds the loader and the libraries that files need, with those that these need.
///
/// Returns absolute paths of this machine, sorted.
///
/// # Errors
/// A library is in none of the directories in which the loader looks.
pub fn find_libraries(requirements: &[LibraryRequirements], arch: &str) -> Result<Vec<PathBuf>> {
    let directories = [
        format!("/lib/{arch}-linux-gnu"),
        format!("/usr/lib/{arch}-linux-gnu"),
        "/lib64".to_owned(),
        "/usr/lib64".to_owned(),
        "/lib".to_owned(),
        "/usr/lib".to_owned(),
    ];
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut pending = requirements.to_vec();
    while let Some(next) = pending.pop() {
        for path in next.loader.iter().map(PathBuf::from) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            found.insert(name.ok_or("a loader without a name")?, path);
        }
        for name in &next.libraries {
            // The loader is found by its path.
            if found.contains_key(name) || name.starts_with("ld-linux") {
                continue;
            }
            let candidates = directories.iter().map(|directory| Path::new(directory).join(name));
            let path = candidates.into_iter().find(|path| path.is_file());
            let path = path.ok_or_else(|| format!("the library {name} was not found"))?;
            pending.extend(read_requirements(&fs::read(&path)?)?);
            found.insert(name.clone(), path);
        }
    }
    let mut paths: Vec<_> = found.into_values().collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirements(versions: &[(&str, &str)]) -> LibraryRequirements {
        LibraryRequirements {
            libraries: vec!["libc.so.6".to_owned(), "ld-linux-x86-64.so.2".to_owned()],
            versions: versions.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect(),
            loader: None,
        }
    }

    #[test]
    fn dependencies_name_newest_version() {
        let all = [
            requirements(&[("libc.so.6", "GLIBC_2.9"), ("libc.so.6", "GLIBC_2.34")]),
            requirements(&[("libm.so.6", "GLIBC_2.29"), ("libgcc_s.so.1", "GCC_4.2.0")]),
        ];
        let depends = debian_dependencies(&all).unwrap();
        assert_eq!(depends, ["libc6 (>= 2.34)", "libgcc-s1 (>= 4.2.0)"]);
        let relative = [requirements(&[("libc.so.6", "GLIBC_ABI_DT_RELR")])];
        assert_eq!(debian_dependencies(&relative).unwrap(), ["libc6 (>= 2.36)"]);
        let unversioned = [requirements(&[("libc.so.6", "GLIBC_PRIVATE")])];
        assert_eq!(debian_dependencies(&unversioned).unwrap(), ["libc6"]);
    }

    #[test]
    fn unknown_library_is_refused() {
        let mut unknown = requirements(&[]);
        unknown.libraries.push("libssl.so.3".to_owned());
        let error = debian_dependencies(&[unknown]).unwrap_err().to_string();
        assert_eq!(error, "the Debian package of the library libssl.so.3 is not known");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn requirements_of_this_test_are_found() {
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        let requirements = read_requirements(&program).unwrap().unwrap();
        assert!(requirements.libraries.iter().any(|name| name.starts_with("libc.")));
        assert!(requirements.versions.iter().any(|(_, version)| version.starts_with("GLIBC_2.")));
        let loader = requirements.loader.clone().unwrap();
        let found = find_libraries(&[requirements], std::env::consts::ARCH).unwrap();
        assert!(found.contains(&PathBuf::from(loader)), "{found:?}");
        assert_eq!(read_requirements(b"#!/bin/sh").unwrap(), None);
        read_requirements(&program[..200]).unwrap_err();
    }
}
