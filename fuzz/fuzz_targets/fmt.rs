//! Fuzzes the formatter: formatting is idempotent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skill_rules::fmt::{FmtOptions, format_skill};

fuzz_target!(|text: &str| {
    for portable in [false, true] {
        let options = FmtOptions { portable };
        if let Ok(formatted) = format_skill(text, options) {
            let again = format_skill(&formatted.text, options).expect("it can be formatted again");
            assert_eq!(again.text, formatted.text);
        }
    }
});
