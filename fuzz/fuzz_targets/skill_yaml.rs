//! Fuzzes the extended specification in a `skill.yaml`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skill_rules::extended::Reading;

fuzz_target!(|text: &str| {
    let reading = Reading::of_skill_yaml(text, "beads");
    for found in reading.warnings() {
        assert!(!found.message.is_empty());
    }
});
