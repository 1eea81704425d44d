//! `cargo xtask o200k`: creates the vocabulary that skill-tokens carries.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::workspace::{Result, root};

/// The checksum that OpenAI's tiktoken requires of the file.
const PUBLISHED: &str = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d";

/// Turns `o200k_base.tiktoken`, as OpenAI publishes it, into one byte with the length and then the
/// bytes for every token.
pub(crate) fn cmd_o200k(published: &Path) -> Result<()> {
    let text = fs::read_to_string(published)?;
    let hash = Sha256::digest(&text).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    if hash != PUBLISHED {
        return Err(format!("{} has the hash {hash}, not {PUBLISHED}", published.display()).into());
    }
    let mut table = Vec::new();
    for line in text.lines() {
        let token = STANDARD.decode(line.split(' ').next().unwrap_or_default())?;
        table.push(u8::try_from(token.len())?);
        table.extend(token);
    }
    let path = root().join("extensions/skill_registry/tokens/data/o200k_base.bin");
    fs::write(&path, &table)?;
    println!("{} bytes in {}", table.len(), path.display());
    Ok(())
}
