//! Fuzzes the decoding of bytes to text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(decoded) = skill_format::decode_file(bytes) {
        assert!(decoded.text.len() <= 2 * bytes.len());
    }
});
