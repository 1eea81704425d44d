//! The walks of ARCHITECTURE.md through the code.

use std::path::Path;

use super::{none, read, root};

/// The largest number of hops of a walk.
const MAX_HOPS: usize = 8;

#[test]
fn walks_name_existing_files() {
    let text = read(Path::new("ARCHITECTURE.md"));
    let section = text.split_once("\n## Five walks\n").unwrap().1;
    let section = section.split("\n## ").next().unwrap();
    let walks: Vec<&str> = section.split("\n# ").skip(1).collect();
    assert_eq!(walks.len(), 5, "one heading per walk");
    let mut findings = Vec::new();
    for walk in walks {
        let title = walk.lines().next().unwrap();
        // A hop starts with its number; the lines below it continue the text.
        let hops: Vec<&str> =
            walk.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).collect();
        if hops.is_empty() || hops.len() > MAX_HOPS {
            findings.push(format!("{title}: {} hops", hops.len()));
        }
        for hop in hops {
            let file = hop.split_whitespace().nth(1).unwrap_or_default();
            if !file.ends_with(".rs") || !root().join(file).is_file() {
                findings.push(format!("{title}: {hop}"));
            }
        }
    }
    none("walks that are too long or name no file", &findings);
}
