//! The line `sha256: …` of a manifest, changed as text so that all other text is preserved.

use skillhost_manifest::{ExtensionKind, Manifest};

use crate::error::BuildError;

/// Inserts a sha256 into a manifest's text, in place of the present one or above `entrypoint`.
///
/// It has its own line, which the digest of a process extension's files skips.
///
/// # Errors
/// [`BuildError::Unpinnable`] if the result would differ in another field.
pub(crate) fn set_pin(text: &str, sha256: &str) -> Result<String, BuildError> {
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let field = |line: &str, name: &str| line.starts_with(&format!("{name}:"));
    let has_pin = text.lines().any(|line| field(line, "sha256"));
    let mut written = String::with_capacity(text.len() + 80);
    let mut done = false;
    let is_flow = text.trim_start().starts_with('{');
    if let Some((before, after)) = text.split_once('{').filter(|_| is_flow && !has_pin) {
        // The manifest is one mapping in braces, as in JSON.
        let pin = format!("{before}{{{line_end}sha256: {sha256}{line_end},{after}");
        return verify_pin(text, pin, sha256);
    }
    for line in text.split_inclusive('\n') {
        if has_pin && field(line, "sha256") && !done {
            // A comment of the author remains on the line.
            let comment = line.trim_end().find(" #").map_or("", |at| line[at..].trim_end());
            written.push_str(&format!("sha256: {sha256}{comment}{line_end}"));
            done = true;
            continue;
        }
        if !has_pin && !done && field(line, "entrypoint") {
            written.push_str(&format!("sha256: {sha256}{line_end}"));
            done = true;
        }
        written.push_str(line);
    }
    verify_pin(text, written, sha256)
}

/// Returns the new text if it differs from the old one only by the pin.
fn verify_pin(text: &str, written: String, sha256: &str) -> Result<String, BuildError> {
    let (Ok(before), Ok(mut after)) =
        (skillhost_manifest::parse_manifest(text), skillhost_manifest::parse_manifest(&written))
    else {
        return Err(BuildError::Unpinnable);
    };
    let pin = after.sha256.map(|bytes| bytes.map(|byte| format!("{byte:02x}")).concat());
    after.sha256 = before.sha256;
    // Dependencies and agents contain their source positions, which the new line moves.
    let same = |one: &Manifest, other: &Manifest| {
        let needs = |manifest: &Manifest| -> Vec<_> {
            manifest.depends_on.iter().map(|d| (d.id.clone(), d.optional)).collect()
        };
        let without = |manifest: &Manifest| Manifest {
            depends_on: Vec::new(),
            kind: match &manifest.kind {
                ExtensionKind::Agent(_) => ExtensionKind::Library { entrypoint: String::new() },
                other => other.clone(),
            },
            ..manifest.clone()
        };
        needs(one) == needs(other) && without(one) == without(other)
    };
    match same(&before, &after) && pin.as_deref() == Some(sha256) && before.agent().is_none() {
        true => Ok(written),
        false => Err(BuildError::Unpinnable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "11";
    const NEW: &str = "2f";

    fn sha(byte: &str) -> String {
        byte.repeat(32)
    }

    #[test]
    fn pin_preserves_other_text() {
        let (old, new) = (sha(OLD), sha(NEW));
        for (before, after) in [
            (
                "# mine\nid: a\nname:  'A'\nentrypoint: a  # the library\nconfig: {x: 1}\n"
                    .to_owned(),
                format!(
                    "# mine\nid: a\nname:  'A'\nsha256: {new}\nentrypoint: a  # the library\nconfig: {{x: 1}}\n"
                ),
            ),
            (
                "id: a\nname: A\nentrypoint:\n  command: [a]".to_owned(),
                format!("id: a\nname: A\nsha256: {new}\nentrypoint:\n  command: [a]"),
            ),
            (
                "{\n  \"id\": \"a\",\n  \"name\": \"A\",\n  \"entrypoint\": \"a\"\n}\n".to_owned(),
                format!(
                    "{{\nsha256: {new}\n,\n  \"id\": \"a\",\n  \"name\": \"A\",\n  \"entrypoint\": \"a\"\n}}\n"
                ),
            ),
            (
                format!("{{\nsha256: {old}\n,\n  id: a, name: A, depends_on: [b], entrypoint: a}}"),
                format!("{{\nsha256: {new}\n,\n  id: a, name: A, depends_on: [b], entrypoint: a}}"),
            ),
            (
                "id: a\nname: A\nentrypoint: a\ndepends_on: [b]\n".to_owned(),
                format!("id: a\nname: A\nsha256: {new}\nentrypoint: a\ndepends_on: [b]\n"),
            ),
            (
                format!("id: a\r\nsha256: '{old}' # built\r\nname: A\r\nentrypoint: a\r\n"),
                format!("id: a\r\nsha256: {new} # built\r\nname: A\r\nentrypoint: a\r\n"),
            ),
            (
                format!("id: a\nname: A\nsha256: {new}\nentrypoint: a\n"),
                format!("id: a\nname: A\nsha256: {new}\nentrypoint: a\n"),
            ),
        ] {
            assert_eq!(set_pin(&before, &new).unwrap(), after);
        }
    }

    #[test]
    fn unpinnable_manifest_is_rejected() {
        let old = sha(OLD);
        for text in [
            format!("{{id: a, name: A, entrypoint: a, sha256: {old}}}"),
            format!(
                "{{\"id\": \"a\", \"name\": \"A\", \"entrypoint\": \"a\", \"sha256\": \"{old}\"}}"
            ),
            format!("id: a\nname: A\nentrypoint: a\n\"sha256\": {old}\n"),
            format!("id: a\nname: A\nentrypoint: a\nsha256:\n  {old}\n"),
            "id: a\nname: A\n".to_owned(),
            // The line belongs to a block text and is not a field.
            "name: A\nid: a\n'entrypoint': a\ndescription: |\n entrypoint: x\n".to_owned(),
        ] {
            let result = set_pin(&text, &sha(NEW));
            assert!(matches!(result, Err(BuildError::Unpinnable)), "{text}: {result:?}");
        }
    }
}
