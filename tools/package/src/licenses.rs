//! The licenses of all crates that are shipped, as they require.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::Result;
use crate::shipped::ShippedCrate;

/// The beginnings of the names of license files, in lower case.
const NAMES: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];

/// Collects the license texts of crates of other authors. Each text is printed once, after the
/// crates that it is of.
///
/// # Errors
/// A license file cannot be read.
pub fn collect_licenses(crates: &[ShippedCrate]) -> Result<String> {
    let foreign: Vec<&ShippedCrate> = crates.iter().filter(|it| it.checksum.is_some()).collect();
    let mut texts: BTreeMap<String, Vec<&ShippedCrate>> = BTreeMap::new();
    for shipped in &foreign {
        for text in license_texts(&shipped.directory)? {
            let crates = texts.entry(text).or_default();
            if !crates.iter().any(|it| (&it.name, &it.version) == (&shipped.name, &shipped.version))
            {
                crates.push(shipped);
            }
        }
    }
    let mut page = String::from(
        "skillhost contains the following crates: linked into its program and libraries, or as\n\
         sources of its SDK. They are published on https://crates.io.\n\n",
    );
    for shipped in &foreign {
        let license = shipped.license.as_deref().unwrap_or("see below");
        writeln!(page, "{} {}: {license}", shipped.name, shipped.version)?;
    }
    let mut sorted: Vec<_> = texts.iter().collect();
    sorted.sort_by_key(|(text, crates)| (&crates[0].name, &crates[0].version, *text));
    for (text, crates) in sorted {
        let names: Vec<_> = crates.iter().map(|it| format!("{} {}", it.name, it.version)).collect();
        write!(page, "\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join(", "))?;
    }
    Ok(page)
}

/// Returns the texts of a crate's license files, without differences in line ends.
fn license_texts(directory: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    let mut paths: Vec<_> = fs::read_dir(directory)
        .map_err(|error| format!("{}: {error}", directory.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if NAMES.iter().any(|start| name.starts_with(start)) && path.is_file() {
            let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            texts.push(lines.join("\n").trim_matches('\n').to_owned());
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn equal_texts_are_printed_once() {
        let directory = tempfile::tempdir().unwrap();
        let shipped = |name: &str, checksum: Option<&str>, files: &[(&str, &str)]| {
            let directory = directory.path().join(name);
            fs::create_dir(&directory).unwrap();
            for (file, text) in files {
                fs::write(directory.join(file), text).unwrap();
            }
            ShippedCrate {
                name: name.to_owned(),
                version: "1.0.0".to_owned(),
                description: None,
                license: Some("MIT".to_owned()),
                checksum: checksum.map(str::to_owned),
                directory,
                is_linked: true,
                is_source: false,
                dependencies: BTreeSet::new(),
            }
        };
        let crates = [
            shipped("beads", Some("0"), &[("LICENSE-MIT", "Text\n"), ("NOTICE", "Beads\n")]),
            shipped("jars", Some("0"), &[("license.txt", "Text\r\n"), ("lib.rs", "code")]),
            shipped("ours", None, &[("LICENSE", "Ours\n")]),
        ];
        let page = collect_licenses(&crates).unwrap();
        assert_eq!(page.matches("Text").count(), 1, "{page}");
        assert!(page.contains("\nbeads 1.0.0, jars 1.0.0\n\nText\n"), "{page}");
        assert!(page.contains("\nbeads 1.0.0\n\nBeads\n"), "{page}");
        assert!(!page.contains("Ours") && !page.contains("code"), "{page}");
    }
}
