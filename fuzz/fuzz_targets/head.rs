//! Fuzzes the fences and the head: the head alone parses like the complete file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skill_format::{HeadStatus, find_head, parse_head, parse_skill};

fuzz_target!(|bytes: &[u8]| {
    let parsed = parse_head("beads", bytes);
    if let HeadStatus::Complete(length) = find_head(bytes) {
        assert_eq!(parse_head("beads", &bytes[..length]), parsed);
    }
    // Bytes after the head may not be text.
    if let Ok(whole) = parse_skill("beads", bytes) {
        assert_eq!(whole.parsed, parsed);
    }
});
