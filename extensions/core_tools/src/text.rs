//! Detection of text files.

use skillhost_sdk::{ErrorKind, ExtensionError};

use crate::path::FilePath;

/// The largest file, in bytes, that is read or written.
pub(crate) const FILE_LIMIT: usize = 4 << 20;

/// The first bytes of kinds of files that are not text, the kinds, and what is missing.
const MAGIC: [(&[u8], &str, &str); 12] = [
    (b"\x89PNG\r\n\x1a\n", "a PNG image", "text"),
    (b"\xff\xd8\xff", "a JPEG image", "text"),
    (b"GIF8", "a GIF image", "text"),
    (b"%PDF-", "a PDF document", "text"),
    (b"PK\x03\x04", "a ZIP archive or an office document", "text"),
    (b"\x1f\x8b", "a gzip archive", "text"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", "text"),
    (b"\x7fELF", "a program or library", "text"),
    (b"\0asm", "a WebAssembly module", "text"),
    (b"SQLite format 3\0", "an SQLite database", "text"),
    (b"\xff\xfe", "a text in UTF-16", "in UTF-8"),
    (b"\xfe\xff", "a text in UTF-16", "in UTF-8"),
];

/// Decodes bytes as a text.
///
/// # Errors
/// Fails with the kind of the other content.
pub(crate) fn decode_text(path: &FilePath, bytes: Vec<u8>) -> Result<String, ExtensionError> {
    let invalid_text = |what: String, hint: &str| {
        Err(ExtensionError::invalid_argument(format!("`{path}` is {what}")).with_hint(hint))
    };
    if let Some((_, what, but)) = MAGIC.iter().find(|(magic, ..)| bytes.starts_with(magic)) {
        let what = format!("{what}, not {but}");
        return invalid_text(what, "only text in UTF-8 can be read and changed");
    }
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        let what = format!("binary data, not text: byte {at} is NUL");
        return invalid_text(what, "only text in UTF-8 can be read and changed");
    }
    String::from_utf8(bytes).or_else(|error| {
        let at = error.utf8_error().valid_up_to();
        invalid_text(
            format!("not UTF-8: byte {at} is not the start of a character"),
            "have it converted to UTF-8",
        )
    })
}

/// Creates the error of a file above the size limit.
pub(crate) fn too_large(path: &FilePath, size: u64) -> ExtensionError {
    ExtensionError::new(
        ErrorKind::TooLarge,
        format!("`{path}` has {size} bytes, more than the {FILE_LIMIT} that can be handled"),
    )
    .with_hint("work with a smaller file, or split it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_text_content_is_named() {
        let path = FilePath::new("x").unwrap();
        let cases: [(&[u8], &str); 5] = [
            (b"\x89PNG\r\n\x1a\nrest", "`x` is a PNG image, not text"),
            (b"ab\0c", "`x` is binary data, not text: byte 2 is NUL"),
            (b"ab\xe9c", "`x` is not UTF-8: byte 2 is not the start of a character"),
            (b"\xff\xfea\0", "`x` is a text in UTF-16, not in UTF-8"),
            (b"\x7fELF\x02", "`x` is a program or library, not text"),
        ];
        for (bytes, message) in cases {
            let error = decode_text(&path, bytes.to_vec()).unwrap_err();
            assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidArgument, message));
        }
        assert_eq!(decode_text(&path, "ä\t\r\n".into()).unwrap(), "ä\t\r\n");
    }
}
