//! Fuzzes a complete file: it parses, or a diagnostic is an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skill_format::{Severity, parse_skill};

fuzz_target!(|bytes: &[u8]| {
    let (parsed, body) = match parse_skill("beads", bytes) {
        Ok(skill) => (skill.parsed.clone(), skill.body().to_owned()),
        Err(refused) => (*refused, String::new()),
    };
    let has_error = parsed.diagnostics.iter().any(|found| found.severity == Severity::Error);
    assert!(parsed.frontmatter.is_some() || has_error);
    assert!(body.len() <= 2 * bytes.len());
});
