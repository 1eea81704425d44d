//! `cargo xtask eval`: measures the product's own search on labeled tasks.

mod block;
mod data;
mod fit;
mod folds;
mod golden;
mod meaning;
mod random;
mod sample;
mod score;
mod trial;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use skill_search::{EmbeddingSimilarity, Index, Ranker, TextAnalyzer};

use crate::process::{cargo_command, run_quietly};
use crate::workspace::{Result, root};
use data::{GoldenExample, LabelledQuery, LabelledSkill};
use meaning::CatalogVectors;
use score::{ConfidenceInterval, RankingMetrics};

/// The directory of the data, relative to the root of the repository.
const DATA: &str = "../shared/data/retrieval";

/// The sizes of the measured catalogs, in addition to the complete one.
const SIZES: [usize; 3] = [100, 300, 1_000];

#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// The catalog: JSON lines, also packed by Zstandard [default: skills.jsonl.zst of the data]
    #[arg(long, value_name = "FILE")]
    skills: Option<PathBuf>,
    /// The labeled tasks: JSON lines [default: queries_dev.jsonl of the data]
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Write the hits of a ranker in the full catalog: a JSON object of ids for each query
    #[arg(long, value_name = "FILE")]
    run: Option<PathBuf>,
    /// The ranker that `--run` and `--fit` are about
    #[arg(long, default_value = "standard", value_parser = Ranker::NAMES)]
    ranker: String,
    /// Refit the ranker's weights, print them and their scores on held-out sources
    #[arg(long)]
    fit: bool,
    /// Refit the weights of the ranker with cosines
    #[arg(long, requires = "fit")]
    embeddings: bool,
    /// The penalty on large weights in a fit
    #[arg(long, default_value_t = 3e-3)]
    l2: f64,
}

/// Prints the tables. A missed number does not fail the command; a missed example of the reference
/// ranker does.
///
/// # Errors
/// Names the missing data and the option that sets its path.
pub(crate) fn cmd_eval(args: &EvalArgs) -> Result<()> {
    let skills = locate_data(args.skills.as_deref(), "skills.jsonl.zst", "--skills")?;
    let queries = locate_data(args.queries.as_deref(), "queries_dev.jsonl", "--queries")?;
    if cfg!(debug_assertions) {
        return rerun_optimized();
    }
    let examples = skills.with_file_name("reranker").join("golden.json");
    let examples: Option<Vec<GoldenExample>> =
        if examples.is_file() { Some(data::read_json(&examples)?) } else { None };
    let skills: Vec<LabelledSkill> = data::read_json_lines(&skills)?;
    let queries: Vec<LabelledQuery> = data::read_json_lines(&queries)?;
    println!("{} skills, {} queries", skills.len(), queries.len());
    let everything: Vec<usize> = (0..skills.len()).collect();
    let standard = trial::build_index(TextAnalyzer::Standard, &skills, &everything);
    if let Some(examples) = examples {
        let reference = trial::build_index(TextAnalyzer::Reference, &skills, &everything);
        let differences = golden::find_differences(&reference, &examples);
        if !differences.is_empty() {
            return Err(differences.join("\n").into());
        }
        println!("{} examples of the reference ranker: equal", examples.len());
    }
    let ranker = Ranker::from_name(&args.ranker).ok_or("no such ranker")?;
    let vectors = CatalogVectors::embed_catalog(&skills);
    if args.fit {
        let vectors = args.embeddings.then_some(&vectors);
        refit(&standard, &ranker, &skills, vectors, &queries, args.l2);
        return Ok(());
    }
    compare(&standard, &skills, &vectors, &queries);
    blocks(&skills, &queries);
    println!("\nqueries over {} skills", skills.len());
    for name in Ranker::NAMES {
        let times = Ranker::from_name(name)
            .map(|ranker| trial::QueryTimes::measure(&standard, &ranker, &queries));
        println!("{name:10} {}", times.unwrap_or_default());
    }
    if let Some(path) = &args.run {
        let run: BTreeMap<&str, Vec<String>> = queries
            .iter()
            .map(|query| (query.id.as_str(), trial::rank_skills(&standard, &ranker, None, query)))
            .collect();
        fs::write(path, serde_json::to_vec(&run)?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        println!("\n{}: hits of the ranker `{}`", path.display(), ranker.name());
    }
    Ok(())
}

/// Returns the passed file, or that of the data next to the repository.
fn locate_data(passed: Option<&Path>, name: &str, option: &str) -> Result<PathBuf> {
    let path = passed.map_or_else(|| root().join(DATA).join(name), Path::to_owned);
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("{} is absent: pass {option} FILE", path.display()).into())
    }
}

/// Runs the same command in an optimized build: a debug build takes minutes, and its times are
/// meaningless.
fn rerun_optimized() -> Result<()> {
    let mut command = cargo_command(["run", "--quiet", "--release", "--package", "xtask"]);
    command.arg("--manifest-path").arg(root().join("Cargo.toml")).arg("--");
    command.args(std::env::args_os().skip(1)).current_dir(std::env::current_dir()?);
    run_quietly(&mut command)
}

/// Prints every ranker's measures at every size.
fn compare(
    whole: &Index,
    skills: &[LabelledSkill],
    vectors: &CatalogVectors<'_>,
    queries: &[LabelledQuery],
) {
    let rankers = [Ranker::bm25f(), Ranker::reference(), Ranker::standard()];
    let trials: Vec<(&Ranker, bool)> =
        rankers.iter().map(|ranker| (ranker, false)).chain([(&rankers[2], true)]).collect();
    for size in SIZES.into_iter().filter(|&size| size < skills.len()).chain([skills.len()]) {
        let samples = sample::draw_samples(skills, queries, size);
        println!("\n{size} skills, catalogs: {}", samples.len());
        let mut asked = Vec::new();
        let mut measured = vec![Vec::new(); trials.len()];
        for sample in samples {
            let index = if size == skills.len() {
                whole.clone()
            } else {
                trial::build_index(TextAnalyzer::Standard, skills, &sample.skills)
            };
            let ids: Vec<&str> = sample.skills.iter().map(|&at| skills[at].id.as_str()).collect();
            for query in sample.queries.iter().map(|&at| &queries[at]) {
                for ((ranker, embeddings), measured) in trials.iter().zip(&mut measured) {
                    let near = embeddings.then(|| vectors.cosines_to(&ids, &query.query));
                    let near = near.as_ref().map(|near| near as &dyn EmbeddingSimilarity);
                    let ranked = trial::rank_skills(&index, ranker, near, query);
                    measured.push(RankingMetrics::compute(&query.relevant, &ranked));
                }
                asked.push(query.clone());
            }
        }
        for ((ranker, embeddings), measured) in trials.iter().zip(&measured) {
            let and = if *embeddings { " + embeddings" } else { "" };
            report(&format!("{}{and}", ranker.name()), &asked, measured);
        }
    }
}

/// Prints the share of queries whose catalog block has a line for a labeled skill.
fn blocks(skills: &[LabelledSkill], queries: &[LabelledQuery]) {
    let shown = block::listed_in_block(skills, queries, &Ranker::standard());
    let share = shown.iter().filter(|&&shown| shown).count() as f64 / shown.len().max(1) as f64;
    println!(
        "\na labeled skill in the prompt, {} skills, {} characters: {:.1} %",
        block::SIZE.min(skills.len()),
        block::BUDGET,
        share * 100.0
    );
}

fn refit(
    index: &Index,
    ranker: &Ranker,
    skills: &[LabelledSkill],
    vectors: Option<&CatalogVectors<'_>>,
    queries: &[LabelledQuery],
    l2: f64,
) {
    let ids: Vec<&str> = skills.iter().map(|skill| skill.id.as_str()).collect();
    let fitted =
        folds::refit_ranker(index, ranker, vectors.map(|vectors| (vectors, &ids[..])), queries, l2);
    let and = if vectors.is_some() { " + embeddings" } else { "" };
    println!("\nweights of `{}{and}`, l2 {l2}", ranker.name());
    report("on the fitted queries", queries, &fitted.inside);
    report("on sources left out", queries, &fitted.outside);
    println!("\n{}", folds::format_weights(&fitted));
}

/// Prints means with their intervals, and the means over sources.
fn report(name: &str, queries: &[LabelledQuery], measures: &[RankingMetrics]) {
    let ConfidenceInterval { low, high } = score::bootstrap_interval(measures);
    let mut line = format!("{name}\n ");
    let mean = RankingMetrics::mean(measures).values();
    for (at, measure) in RankingMetrics::NAMES.iter().enumerate() {
        let (low, high) = (low.values()[at], high.values()[at]);
        line += &format!(" {measure} {:.3} [{low:.3}, {high:.3}]", mean[at]);
    }
    println!("{line}");
    println!("  mean of the sources\n {}", folds::by_source(queries, measures));
}
