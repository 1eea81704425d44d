//! Digests as text.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};

use sha2::{Digest as _, Sha256};

/// Computes the sha256 of an open file, from its start.
///
/// # Errors
/// The system's error.
pub fn hash_file(file: &mut File) -> io::Result<[u8; 32]> {
    file.rewind()?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0u8; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize().into()),
            read => hasher.update(&buffer[..read]),
        }
    }
}

/// Formats bytes as lower-case hexadecimal.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing into a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Computes the sha256 of bytes, in lower-case hexadecimal.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes))
}
