//! Fuzzes the extended specification in a `skill.yaml`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skill_compat::extended::ParsedExtendedSpec;

fuzz_target!(|text: &str| {
    let reading = ParsedExtendedSpec::parse_skill_yaml(text, "beads");
    for found in reading.warnings() {
        assert!(!found.message.is_empty());
    }
});
