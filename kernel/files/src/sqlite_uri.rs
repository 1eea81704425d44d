//! The URI under which SQLite opens a file that no process writes.

use std::path::Path;

/// Returns the URI of a database that SQLite treats as immutable (SQLite, "URI Filenames").
// Without the parameter SQLite creates a shared-memory file next to a database with a log.
#[must_use]
pub fn sqlite_immutable_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped() {
        let uri = sqlite_immutable_uri(Path::new("/home/a b/50%/x?mode=rw#é.db"));
        assert_eq!(uri, "file:/home/a%20b/50%25/x%3Fmode%3Drw%23%C3%A9.db?immutable=1");
    }
}
