//! The decoding of bytes to text: byte order marks, UTF-16, invalid UTF-8, the size limit.

use std::borrow::Cow;

use crate::diagnostic::Diagnostic;

/// The maximum size of a SKILL.md in bytes.
pub const FILE_LIMIT: usize = 1 << 20;

pub(crate) const UTF8_BOM: &[u8] = b"\xEF\xBB\xBF";

/// The text of a file with the warnings about its encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedText<'a> {
    /// The text without its byte order mark; borrowed unless the file was UTF-16.
    pub text: Cow<'a, str>,
    /// Warnings about the encoding.
    pub diagnostics: Vec<Diagnostic>,
}

/// Decodes a file: UTF-8, or UTF-16 that starts with a byte order mark.
///
/// One leading byte order mark is dropped. Line ends stay as they are.
///
/// # Errors
/// Returns an error for more than [`FILE_LIMIT`] bytes (`file.maxSize`) and for bytes that are not
/// valid in the encoding (`file.encoding`, with the byte offset).
pub fn decode_file(bytes: &[u8]) -> Result<DecodedText<'_>, Diagnostic> {
    // Checked before decoding: UTF-16 text is copied.
    if bytes.len() > FILE_LIMIT {
        return Err(Diagnostic::error(
            "file.maxSize",
            format!("the file has {} bytes, more than the limit of {FILE_LIMIT}", bytes.len()),
        )
        .with_help("move the bulk of the text into files under references/"));
    }
    match utf16_byte_order(bytes) {
        Some(order) => decode_utf16(&bytes[2..], order),
        None => decode_utf8(bytes),
    }
}

/// A function that reads two bytes as one UTF-16 code unit.
type ByteOrder = fn([u8; 2]) -> u16;

fn utf16_byte_order(bytes: &[u8]) -> Option<ByteOrder> {
    match bytes {
        [0xFF, 0xFE, ..] => Some(u16::from_le_bytes),
        [0xFE, 0xFF, ..] => Some(u16::from_be_bytes),
        _ => None,
    }
}

pub(crate) fn is_utf16(bytes: &[u8]) -> bool {
    utf16_byte_order(bytes).is_some()
}

fn decode_utf8(bytes: &[u8]) -> Result<DecodedText<'_>, Diagnostic> {
    let (content, diagnostics) = match bytes.strip_prefix(UTF8_BOM) {
        Some(rest) => {
            let found = Diagnostic::warning("file.bom", "the file starts with a byte order mark")
                .with_position(1, 1)
                .with_help("save it as UTF-8 without a byte order mark; some readers refuse it");
            (rest, vec![found])
        }
        None => (bytes, Vec::new()),
    };
    match std::str::from_utf8(content) {
        Ok(text) => Ok(DecodedText { text: Cow::Borrowed(text), diagnostics }),
        Err(error) => {
            let valid = &content[..error.valid_up_to()];
            let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
            // The offset counts from the start of the file, with the byte order mark.
            let offset = bytes.len() - content.len() + valid.len();
            Err(encoding_error(format!("invalid UTF-8 at byte {offset}"))
                .with_position(u32::try_from(line).unwrap_or(u32::MAX), 0))
        }
    }
}

fn decode_utf16(content: &[u8], unit: ByteOrder) -> Result<DecodedText<'static>, Diagnostic> {
    let (pairs, rest) = content.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(encoding_error("truncated UTF-16 character at the end".to_owned()));
    }
    let mut text = String::with_capacity(content.len());
    // The content starts after the byte order mark of two bytes.
    let mut offset = 2;
    for decoded in char::decode_utf16(pairs.iter().map(|&pair| unit(pair))) {
        let Ok(character) = decoded else {
            return Err(encoding_error(format!("invalid UTF-16 at byte {offset}")));
        };
        text.push(character);
        offset += 2 * character.len_utf16();
    }
    let found = Diagnostic::warning("file.encoding", "the file is UTF-16, not UTF-8")
        .with_help("save it as UTF-8; most other readers cannot read it");
    Ok(DecodedText { text: Cow::Owned(text), diagnostics: vec![found] })
}

fn encoding_error(message: String) -> Diagnostic {
    Diagnostic::error("file.encoding", message).with_help("save the file as UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(bytes: &[u8]) -> Result<(String, Vec<&'static str>), String> {
        match decode_file(bytes) {
            Ok(decoded) => Ok((
                decoded.text.into_owned(),
                decoded.diagnostics.iter().map(|found| found.rule).collect(),
            )),
            Err(found) => Err(found.to_string()),
        }
    }

    #[test]
    fn byte_order_mark_selects_encoding() {
        let text = "né\u{1F600}\r\n";
        let utf16 = |unit: fn(u16) -> [u8; 2], mark: [u8; 2]| -> Vec<u8> {
            mark.into_iter().chain(text.encode_utf16().flat_map(unit)).collect()
        };
        assert_eq!(outcome(text.as_bytes()), Ok((text.to_owned(), vec![])));
        assert_eq!(
            outcome(&[UTF8_BOM, text.as_bytes()].concat()),
            Ok((text.to_owned(), vec!["file.bom"]))
        );
        for bytes in [utf16(u16::to_le_bytes, [0xFF, 0xFE]), utf16(u16::to_be_bytes, [0xFE, 0xFF])]
        {
            assert_eq!(outcome(&bytes), Ok((text.to_owned(), vec!["file.encoding"])));
        }
    }

    #[test]
    fn one_byte_order_mark_is_dropped() {
        let twice = [UTF8_BOM, UTF8_BOM, b"x"].concat();
        assert_eq!(outcome(&twice), Ok(("\u{FEFF}x".to_owned(), vec!["file.bom"])));
    }

    #[test]
    fn encoding_error_names_byte() {
        let cases: [(&[u8], &str); 5] = [
            (b"a\nb\xE9c", "2: error[file.encoding]: invalid UTF-8 at byte 3"),
            (b"\xEF\xBB\xBF\xE9", "1: error[file.encoding]: invalid UTF-8 at byte 3"),
            (b"\xFF", "1: error[file.encoding]: invalid UTF-8 at byte 0"),
            (b"\xFF\xFEa\0b", "error[file.encoding]: truncated UTF-16 character at the end"),
            (b"\xFF\xFEa\0\0\xD8a\0", "error[file.encoding]: invalid UTF-16 at byte 4"),
        ];
        for (bytes, message) in cases {
            assert_eq!(outcome(bytes), Err(message.to_owned()), "{bytes:?}");
        }
    }

    #[test]
    fn size_limit_is_inclusive() {
        assert!(decode_file(&vec![b' '; FILE_LIMIT]).is_ok());
        assert_eq!(
            outcome(&vec![b' '; FILE_LIMIT + 1]).map_err(|message| message.contains("1048577")),
            Err(true)
        );
    }
}
