//! Searches in many files, against ripgrep.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::table::{BenchRow, median, row};
use crate::install::BuildProfile;
use crate::process::{CommandUsage, usage_of};
use crate::workspace::{Result, create_once};

/// The number of files, in directories of a hundred.
const FILES: usize = 100_000;

/// The queries: a word that few files have, and an expression that many lines match.
const QUERIES: [(&str, &str); 2] =
    [("a rare word", "needle"), ("a regular expression", "fn \\w+7\\(")];

/// Measures `search_text` against `rg` on the same files and query, as full processes.
pub(super) fn measure_file_search(
    work: &Path,
    runs: usize,
    rows: &mut Vec<BenchRow>,
) -> Result<()> {
    let what = format!("`search_text` : `rg`, CPU, {FILES} files");
    if Command::new("rg").arg("--version").output().is_err() {
        rows.push(BenchRow { what, value: "SKIPPED: rg is not installed".into(), goal: None });
        return Ok(());
    }
    let files = generate_files(work)?;
    let text = |path: &Path| path.display().to_string();
    for (name, query) in QUERIES {
        let ours = [
            text(&BuildProfile::Dist.directory().join("bench")),
            "--files".into(),
            text(&files),
            query.to_owned(),
        ];
        // Hidden files and ignore files are treated alike.
        let theirs =
            ["rg".to_owned(), "--no-config".into(), "-n".into(), query.to_owned(), text(&files)];
        let mut pairs: Vec<(CommandUsage, CommandUsage)> = Vec::new();
        for _ in 0..=runs {
            pairs.push((usage_of(&ours)?, usage_of(&theirs)?));
        }
        // The first pair fills the caches.
        pairs.remove(0);
        let ratio = median(pairs.iter().map(|(a, b)| a.cpu_ms / b.cpu_ms));
        let value = format!(
            "{ratio:.2} × ({:.0} ms : {:.0} ms; wall {:.0} ms : {:.0} ms)",
            median(pairs.iter().map(|(a, _)| a.cpu_ms)),
            median(pairs.iter().map(|(_, b)| b.cpu_ms)),
            median(pairs.iter().map(|(a, _)| a.wall_ms)),
            median(pairs.iter().map(|(_, b)| b.wall_ms)),
        );
        rows.push(row(&format!("{what}, {name}"), value, "≤ 1.5 ×", ratio <= 1.5));
    }
    Ok(())
}

/// Writes the files, each a kilobyte of code; every thousandth has the rare word.
fn generate_files(work: &Path) -> Result<PathBuf> {
    create_once(&work.join(format!("files-{FILES}")), |new| {
        for number in 0..FILES {
            let directory = new.join(format!("group-{}/part-{}", number / 5_000, number / 100));
            if number % 100 == 0 {
                fs::create_dir_all(&directory)?;
            }
            let mut text = String::new();
            for line in 0..30 {
                let name = format!("function_{number}_{line}");
                text.push_str(&format!("fn {name}(value: u64) -> u64 {{ value }}\n"));
            }
            if number % 1_000 == 0 {
                text.push_str("// the needle\n");
            }
            fs::write(directory.join(format!("file-{number}.rs")), text)?;
        }
        Ok(())
    })
}
