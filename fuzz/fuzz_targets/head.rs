//! Fuzzes the fences and the head: the head alone parses like the complete file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skill_format::{Head, head, parse, parse_head};

fuzz_target!(|bytes: &[u8]| {
    let parsed = parse_head("beads", bytes);
    if let Head::Complete(length) = head(bytes) {
        assert_eq!(parse_head("beads", &bytes[..length]), parsed);
    }
    // Bytes after the head may not be text.
    if let Ok(whole) = parse("beads", bytes) {
        assert_eq!(whole.parsed, parsed);
    }
});
