//! The worst time that a mutated SKILL.md costs: parsed, linted, formatted.

use std::time::Instant;

use serde::Serialize;
use skill_format::SkillInput;
use skill_rules::fmt::{FmtOptions, format_skill};
use skill_rules::{CheckOptions, CheckScope, Profile, check_skill};

/// The number of timed mutants.
const COUNT: usize = 10_000;

/// The costs of mutants.
#[derive(Debug, Serialize)]
pub(crate) struct Mutants {
    /// The time of the slowest, in milliseconds.
    mutant_worst_ms: f64,
}

const SEEDS: [&str; 4] = [
    "---\nname: beads\ndescription: Counts beads. Use when: asked\n  or told\n---\n# Beads\n",
    "---\nmetadata:\n  a: b: c\n  list:\n  - x\n  - y: z: w\n  version: 1.10\n---\n[x](a.md)\n",
    "---\nname: &a x\ndescription: *a\nmetadata: {\"e\": {\"bins\": [\"jq\"]}}\n---\n```sh\n",
    "---\ndescription: |+\n  a\n   b\n\n\nallowed-tools:\n  - Read\n  - Bash(git:*)\n---\n<b>\n",
];

const TOKENS: [&str; 14] =
    [":", ": ", "- ", "\n", "\"", "'", "[", "{", "#", "|\n", ">-\n", "? ", "---\n", "```"];

/// Times every mutant separately; some are long, because length causes the cost.
pub(crate) fn measure() -> Mutants {
    let mut state = 0x5EED_u64;
    let mut below = |limit: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    };
    let mut worst = 0.0_f64;
    for number in 0..COUNT {
        let mut text: Vec<char> = SEEDS[below(SEEDS.len())].chars().collect();
        for _ in 0..=below(6) {
            let at = below(text.len() + 1);
            let end = (at + below(12)).min(text.len());
            let token = TOKENS[below(TOKENS.len())];
            // Every hundredth repeats something until the frontmatter is near its limit.
            let times = if number % 100 == 0 { 1 + below(60_000 / token.len()) } else { 1 };
            text.splice(at..end, token.repeat(times).chars());
        }
        let text: String = text.into_iter().collect();
        let bytes = text.as_bytes();
        let file_name = Some("SKILL.md");
        let input = SkillInput { dir_name: "beads", file_name, bytes, files: None };
        let profile = Profile::ALL[number % Profile::ALL.len()];
        let start = Instant::now();
        let report = check_skill(&input, CheckOptions { profile, scope: CheckScope::Lint });
        let formatted = format_skill(&text, FmtOptions::default());
        worst = worst.max(start.elapsed().as_secs_f64() * 1e3);
        std::hint::black_box((report, formatted.is_ok()));
    }
    Mutants { mutant_worst_ms: worst }
}
