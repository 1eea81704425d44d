//! `cargo xtask eval`: how well the product's own search finds skills, on labelled tasks.

mod data;
mod fit;
mod folds;
mod golden;
mod random;
mod sample;
mod score;
mod trial;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use skill_search::{Analysis, Index, Ranker};

use crate::process::{cargo, run_quietly};
use crate::{Result, root};
use data::{Golden, Query, Skill};
use score::{Interval, Measures};

/// Where the data lies, seen from the root of the repository.
const DATA: &str = "../shared/data/retrieval";

/// The sizes of the catalogs that are measured; the whole one is always.
const SIZES: [usize; 3] = [100, 300, 1_000];

#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// The catalog: JSON lines, also packed by Zstandard [default: skills.jsonl.zst of the data]
    #[arg(long, value_name = "FILE")]
    skills: Option<PathBuf>,
    /// The labelled tasks: JSON lines [default: queries_dev.jsonl of the data]
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Write what a ranker found in the whole catalog: a JSON object of ids for each query
    #[arg(long, value_name = "FILE")]
    run: Option<PathBuf>,
    /// The ranker that `--run` and `--fit` are about
    #[arg(long, default_value = "standard", value_parser = Ranker::NAMES)]
    ranker: String,
    /// Refit the ranker's weights, print them and how they do on sources they have not seen
    #[arg(long)]
    fit: bool,
    /// The penalty on large weights in a fit
    #[arg(long, default_value_t = 3e-3)]
    l2: f64,
}

/// Prints the tables. A number that is missed fails nothing; an example of the reference ranker that
/// is not met fails.
///
/// # Errors
/// Says which data is absent and what to pass.
pub(crate) fn eval(args: &EvalArgs) -> Result<()> {
    let skills = found(args.skills.as_deref(), "skills.jsonl.zst", "--skills")?;
    let queries = found(args.queries.as_deref(), "queries_dev.jsonl", "--queries")?;
    if cfg!(debug_assertions) {
        return optimised();
    }
    let examples = skills.with_file_name("reranker").join("golden.json");
    let examples: Option<Vec<Golden>> =
        if examples.is_file() { Some(data::json(&examples)?) } else { None };
    let skills: Vec<Skill> = data::lines(&skills)?;
    let queries: Vec<Query> = data::lines(&queries)?;
    println!("{} skills, {} queries", skills.len(), queries.len());
    let everything: Vec<usize> = (0..skills.len()).collect();
    let standard = trial::index(Analysis::Standard, &skills, &everything);
    if let Some(examples) = examples {
        let reference = trial::index(Analysis::Reference, &skills, &everything);
        let differences = golden::differences(&reference, &examples);
        if !differences.is_empty() {
            return Err(differences.join("\n").into());
        }
        println!("{} examples of the reference ranker: equal", examples.len());
    }
    let ranker = Ranker::named(&args.ranker).ok_or("no such ranker")?;
    if args.fit {
        return refit(&standard, &ranker, &queries, args.l2);
    }
    compare(&standard, &skills, &queries);
    println!("\nqueries over {} skills", skills.len());
    for name in Ranker::NAMES {
        let times =
            Ranker::named(name).map(|ranker| trial::Times::of(&standard, &ranker, &queries));
        println!("{name:10} {}", times.unwrap_or_default());
    }
    if let Some(path) = &args.run {
        let run: BTreeMap<&str, Vec<String>> = queries
            .iter()
            .map(|query| (query.id.as_str(), trial::ranked(&standard, &ranker, query)))
            .collect();
        fs::write(path, serde_json::to_vec(&run)?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        println!("\n{}: what the ranker `{}` found", path.display(), ranker.name());
    }
    Ok(())
}

/// The file that was passed, or that of the data beside the repository.
fn found(passed: Option<&Path>, name: &str, option: &str) -> Result<PathBuf> {
    let path = passed.map_or_else(|| root().join(DATA).join(name), Path::to_owned);
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("{} is absent: pass {option} FILE", path.display()).into())
    }
}

/// Runs the same command built for speed: a debug build takes minutes, and its times say nothing.
fn optimised() -> Result<()> {
    let mut command = cargo(["run", "--quiet", "--release", "--package", "xtask"]);
    command.arg("--manifest-path").arg(root().join("Cargo.toml")).arg("--");
    command.args(std::env::args_os().skip(1)).current_dir(std::env::current_dir()?);
    run_quietly(&mut command)
}

/// Prints every ranker's measures at every size.
fn compare(whole: &Index, skills: &[Skill], queries: &[Query]) {
    for size in SIZES.into_iter().filter(|&size| size < skills.len()).chain([skills.len()]) {
        let samples = sample::samples(skills, queries, size);
        println!("\n{size} skills in {} catalogs", samples.len());
        let mut measured: BTreeMap<&str, Vec<Measures>> = BTreeMap::new();
        let mut asked = Vec::new();
        for sample in samples {
            let index = if size == skills.len() {
                whole.clone()
            } else {
                trial::index(Analysis::Standard, skills, &sample.skills)
            };
            for name in Ranker::NAMES {
                let Some(ranker) = Ranker::named(name) else { continue };
                let some = sample.queries.iter().map(|&query| &queries[query]);
                let measures = trial::measures(&index, &ranker, some);
                measured.entry(name).or_default().extend(measures);
            }
            asked.extend(sample.queries.into_iter().map(|query| queries[query].clone()));
        }
        for name in Ranker::NAMES.into_iter().rev() {
            if let Some(measures) = measured.get(name) {
                report(name, &asked, measures);
            }
        }
    }
}

fn refit(index: &Index, ranker: &Ranker, queries: &[Query], l2: f64) -> Result<()> {
    let fitted = folds::refit(index, ranker, queries, l2);
    println!("\nweights of `{}`, l2 {l2}", ranker.name());
    report("inside", queries, &fitted.inside);
    report("outside", queries, &fitted.outside);
    println!("\n{}", folds::pasted(&fitted));
    Ok(())
}

/// Prints means with their intervals, and the means over sources.
fn report(name: &str, queries: &[Query], measures: &[Measures]) {
    let Interval { low, high } = score::interval(measures);
    let mut line = format!("{name:10}");
    let mean = Measures::mean(measures).values();
    for (at, measure) in Measures::NAMES.iter().enumerate() {
        let (low, high) = (low.values()[at], high.values()[at]);
        line += &format!(" {measure} {:.3} [{low:.3}, {high:.3}]", mean[at]);
    }
    println!("{line}");
    println!("  by source {}", folds::by_source(queries, measures));
}
