//! Measures the numbers that `cargo xtask bench` prints inside one process.
//!
//! Takes a directory of skills (one level deep) and writes one JSON object of [`Numbers`]; or, with
//! `--search`, one of [`search::Search`], in a separate process; or, with `--files`, one of
//! [`files::FileSearch`]; or, with `--tasks`, one of [`tasks::TaskFigures`]; or, with `--shared-tasks`,
//! one of [`shared_tasks::SharedFigures`]. Times are medians over many rounds; compared pairs are
//! measured in turns, so that a slower machine affects both.

mod boundary;
mod embedding;
mod files;
mod mutants;
mod registry;
mod search;
mod shared_tasks;
mod tasks;

use std::io::Write as _;
use std::path::PathBuf;

use serde::Serialize;

/// All measurements of one directory of skills.
#[derive(Debug, Serialize)]
struct Numbers {
    #[serde(flatten)]
    registry: registry::Registry,
    #[serde(flatten)]
    boundary: boundary::Boundary,
    #[serde(flatten)]
    embedding: embedding::Embedding,
    #[serde(flatten)]
    mutants: mutants::Mutants,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: bench FOLDER | --search | --files FOLDER PATTERN | --tasks NUMBER | \
                 --shared-tasks NUMBER PROGRAM";
    let mut arguments = std::env::args_os().skip(1);
    let argument = arguments.next().ok_or(usage)?;
    if argument == "--search" {
        return write(&search::measure()?);
    }
    if argument == "--files" {
        let (folder, pattern) = (arguments.next().ok_or(usage)?, arguments.next().ok_or(usage)?);
        return write(&files::search(folder.as_ref(), &pattern.to_string_lossy())?);
    }
    if argument == "--tasks" {
        let number = arguments.next().ok_or(usage)?;
        return write(&tasks::measure(number.to_string_lossy().parse()?)?);
    }
    if argument == "--shared-tasks" {
        let (number, program) = (arguments.next().ok_or(usage)?, arguments.next().ok_or(usage)?);
        let number = number.to_string_lossy().parse()?;
        return write(&shared_tasks::measure(number, program.as_ref())?);
    }
    let folder = PathBuf::from(argument);
    let folder = std::fs::canonicalize(folder)?;
    let registry = registry::measure(&folder)?;
    let boundary = boundary::measure(&folder)?;
    let embedding = embedding::measure()?;
    let mutants = mutants::measure();
    write(&Numbers { registry, boundary, embedding, mutants })
}

fn write(numbers: &impl Serialize) -> Result<(), Box<dyn std::error::Error>> {
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer(&mut stdout, numbers)?;
    Ok(writeln!(stdout)?)
}

/// Returns the value below which a share of the samples lies; sorts them.
fn quantile(samples: &mut [f64], share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let at = ((samples.len() as f64 - 1.0) * share).round();
    samples.get(at as usize).copied().unwrap_or(f64::NAN)
}

fn median(samples: &mut [f64]) -> f64 {
    quantile(samples, 0.5)
}
