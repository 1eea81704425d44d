//! Fuzzes the clone of the reference validator: its own YAML, its properties and its prompt.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skill_compat::reference::load_reference_skill;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(skill) = load_reference_skill(bytes) {
        let _ = skill.validate("beads");
        if let Ok(properties) = skill.properties() {
            let _ = properties.to_json();
        }
    }
});
