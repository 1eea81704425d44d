//! The search index over generated skills with bodies.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use serde::Serialize;
use skill_search::{Document, Index, Ranker, SearchRequest, TextAnalyzer};

use crate::{median, quantile};

/// The number of indexed skills.
const SKILLS: usize = 5_000;
/// The number of timed queries.
const QUERIES: usize = 2_000;
/// The number of timed changes of one skill: enough for two merges of the index.
const CHANGES: usize = 200;
/// The number of different words in the skills.
const WORDS: usize = 40_000;

/// The costs of the search index.
#[derive(Debug, Serialize)]
pub(crate) struct Search {
    skills: usize,
    /// Building it, in milliseconds.
    build_ms: f64,
    /// One changed skill, in milliseconds: the median, and the worst, which merges segments.
    change_ms: f64,
    change_worst_ms: f64,
    /// A query, in microseconds.
    query_p50_us: f64,
    query_p99_us: f64,
    /// The size that the index reports, in bytes.
    index_bytes: usize,
    /// Bytes by which the process is larger for it.
    resident_bytes: usize,
}

struct Skill {
    id: String,
    name: String,
    description: String,
    headings: Vec<String>,
    body: String,
}

impl Skill {
    fn document(&self) -> Document<'_> {
        Document {
            id: &self.id,
            name: &self.name,
            description: &self.description,
            headings: self.headings.iter().map(String::as_str).collect(),
            body: &self.body,
            ..Document::default()
        }
    }
}

/// A generator of words with the frequencies of a natural language.
struct Texts(u64);

impl Texts {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }

    fn word(&mut self) -> String {
        const PARTS: [&str; 16] = [
            "ba", "ke", "di", "lo", "mu", "ran", "sel", "tin", "vor", "que", "ple", "sta", "gri",
            "zo", "fer", "nal",
        ];
        if self.below(3) == 0 {
            return ["the", "and", "of", "to", "when", "use"][self.below(6)].to_owned();
        }
        let share = self.below(1 << 24) as f64 / f64::from(1 << 24);
        let mut number = (WORDS as f64).powf(share) as usize;
        let mut word = String::new();
        while number > 0 {
            word.push_str(PARTS[number % PARTS.len()]);
            number /= PARTS.len();
        }
        word
    }

    fn words(&mut self, count: usize) -> String {
        (0..count).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }

    fn skill(&mut self, number: usize) -> Skill {
        let headings: Vec<String> = (0..4 + self.below(16)).map(|_| self.words(3)).collect();
        let mut body = String::new();
        for heading in &headings {
            body.push_str(&format!("## {heading}\n\n"));
            for _ in 0..2 + self.below(6) {
                let count = 6 + self.below(18);
                body.push_str(&self.words(count));
                body.push_str(".\n");
            }
        }
        let description = 15 + self.below(50);
        Skill {
            id: format!("skill-{number}"),
            name: self.words(3).replace(' ', "-"),
            description: self.words(description),
            headings,
            body,
        }
    }

    /// Creates a task: mostly a sentence or two, one in fifty as long as a page.
    fn query(&mut self, skills: &[Skill]) -> String {
        let length = if self.below(50) == 0 { 300 } else { 8 + self.below(30) };
        let near = &skills[self.below(skills.len())].description;
        let near: Vec<&str> = near.split(' ').take(length / 3).collect();
        format!("{}. {}", near.join(" "), self.words(length - near.len()))
    }
}

pub(crate) fn measure() -> Result<Search, Box<dyn Error>> {
    let mut texts = Texts(0x5EED);
    let skills: Vec<Skill> = (0..SKILLS).map(|number| texts.skill(number)).collect();
    let queries: Vec<String> = (0..QUERIES).map(|_| texts.query(&skills)).collect();
    let before = resident_bytes()?;
    let started = Instant::now();
    let index = Index::build(TextAnalyzer::Standard, skills.iter().map(Skill::document));
    let build_ms = started.elapsed().as_secs_f64() * 1e3;
    let resident_bytes = resident_bytes()?.saturating_sub(before);

    let ranker = Ranker::standard();
    let search =
        |query: &String| drop(black_box(index.search(&SearchRequest::new(query, &ranker))));
    queries.iter().for_each(search);
    let timed = |query| {
        let started = Instant::now();
        search(query);
        started.elapsed().as_secs_f64() * 1e6
    };
    let mut times: Vec<f64> = queries.iter().map(timed).collect();

    let mut changed = index.clone();
    let mut changes: Vec<f64> = (0..CHANGES)
        .map(|_| {
            let number = texts.below(SKILLS);
            let skill = texts.skill(number);
            let started = Instant::now();
            changed = changed.with_updates([skill.document()], &[]);
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    Ok(Search {
        skills: SKILLS,
        build_ms,
        change_ms: median(&mut changes),
        change_worst_ms: quantile(&mut changes, 1.0),
        query_p50_us: median(&mut times),
        query_p99_us: quantile(&mut times, 0.99),
        index_bytes: index.heap_bytes(),
        resident_bytes,
    })
}

/// Returns the memory of this process.
fn resident_bytes() -> Result<usize, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmRSS")?;
    Ok(kibibytes.parse::<usize>()? * 1_024)
}
