//! The fences, and the head read by itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skill_format::{Head, head, parse, parse_head};

fuzz_target!(|bytes: &[u8]| {
    let parsed = parse_head("beads", bytes);
    if let Head::Complete(length) = head(bytes) {
        assert_eq!(parse_head("beads", &bytes[..length]), parsed);
    }
    // Behind the head there may be what is not text.
    if let Ok(whole) = parse("beads", bytes) {
        assert_eq!(whole.parsed, parsed);
    }
});
