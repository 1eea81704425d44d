//! Fuzzes the formatter: formatting is idempotent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skill_rules::fmt::{FmtOptions, format};

fuzz_target!(|text: &str| {
    for portable in [false, true] {
        let options = FmtOptions { portable };
        if let Ok(formatted) = format(text, options) {
            let again = format(&formatted.text, options).expect("it can be formatted again");
            assert_eq!(again.text, formatted.text);
        }
    }
});
