//! The kinds of a skill's resources, derived from file extensions.

use serde::Serialize;

/// The kind of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceKind {
    /// A program or script.
    Code,
    /// Text to read: Markdown or plain text.
    Instructions,
    /// Any other file.
    Data,
}

/// One resource of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLine<'a> {
    /// The path relative to the skill's directory.
    pub path: &'a str,
    /// The kind of the file.
    pub kind: ResourceKind,
    /// The size in bytes.
    pub size: u64,
}

impl ResourceKind {
    /// Returns the kind for a path's extension, ignoring case.
    #[must_use]
    pub fn from_path(path: &str) -> Self {
        find_extension(path).map_or(Self::Data, |(_, kind, _)| *kind)
    }

    /// Returns the kind's name in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Instructions => "instructions",
            Self::Data => "data",
        }
    }
}

/// Returns the MIME type of a path by its extension; `application/octet-stream` if unknown.
#[must_use]
pub fn mime_type(path: &str) -> &'static str {
    find_extension(path).map_or("application/octet-stream", |(_, _, mime)| *mime)
}

fn find_extension(path: &str) -> Option<&'static (&'static str, ResourceKind, &'static str)> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (stem, extension) = name.rsplit_once('.')?;
    // `.py` is a hidden file without extension.
    if stem.is_empty() {
        return None;
    }
    let same = |known: &str| known.eq_ignore_ascii_case(extension);
    TABLE.iter().find(|(known, ..)| same(known))
}

use ResourceKind::{Code, Data, Instructions};

// One table for kinds and MIME types, so that both know the same extensions.
const TABLE: [(&str, ResourceKind, &str); 70] = [
    ("md", Instructions, "text/markdown"),
    ("markdown", Instructions, "text/markdown"),
    ("mdx", Instructions, "text/markdown"),
    ("txt", Instructions, "text/plain"),
    ("rst", Instructions, "text/x-rst"),
    ("adoc", Instructions, "text/asciidoc"),
    ("py", Code, "text/x-python"),
    ("js", Code, "text/javascript"),
    ("mjs", Code, "text/javascript"),
    ("cjs", Code, "text/javascript"),
    ("jsx", Code, "text/javascript"),
    ("ts", Code, "text/typescript"),
    ("mts", Code, "text/typescript"),
    ("tsx", Code, "text/typescript"),
    ("sh", Code, "application/x-sh"),
    ("bash", Code, "application/x-sh"),
    ("zsh", Code, "application/x-sh"),
    ("fish", Code, "text/x-fish"),
    ("ps1", Code, "text/x-powershell"),
    ("bat", Code, "text/x-bat"),
    ("rs", Code, "text/x-rust"),
    ("go", Code, "text/x-go"),
    ("java", Code, "text/x-java"),
    ("kt", Code, "text/x-kotlin"),
    ("swift", Code, "text/x-swift"),
    ("c", Code, "text/x-c"),
    ("h", Code, "text/x-c"),
    ("cc", Code, "text/x-c++"),
    ("cpp", Code, "text/x-c++"),
    ("hpp", Code, "text/x-c++"),
    ("cs", Code, "text/x-csharp"),
    ("rb", Code, "text/x-ruby"),
    ("php", Code, "application/x-php"),
    ("pl", Code, "text/x-perl"),
    ("lua", Code, "text/x-lua"),
    ("r", Code, "text/x-r"),
    ("jl", Code, "text/x-julia"),
    ("scala", Code, "text/x-scala"),
    ("ex", Code, "text/x-elixir"),
    ("exs", Code, "text/x-elixir"),
    ("sql", Code, "application/sql"),
    ("awk", Code, "text/x-awk"),
    ("json", Data, "application/json"),
    ("jsonl", Data, "application/jsonl"),
    ("yaml", Data, "application/yaml"),
    ("yml", Data, "application/yaml"),
    ("toml", Data, "application/toml"),
    ("xml", Data, "application/xml"),
    ("csv", Data, "text/csv"),
    ("tsv", Data, "text/tab-separated-values"),
    ("html", Data, "text/html"),
    ("htm", Data, "text/html"),
    ("css", Data, "text/css"),
    ("svg", Data, "image/svg+xml"),
    ("j2", Data, "text/plain"),
    ("jinja2", Data, "text/plain"),
    ("tmpl", Data, "text/plain"),
    ("png", Data, "image/png"),
    ("jpg", Data, "image/jpeg"),
    ("jpeg", Data, "image/jpeg"),
    ("gif", Data, "image/gif"),
    ("webp", Data, "image/webp"),
    ("pdf", Data, "application/pdf"),
    ("zip", Data, "application/zip"),
    ("gz", Data, "application/gzip"),
    ("tar", Data, "application/x-tar"),
    ("woff2", Data, "font/woff2"),
    ("ttf", Data, "font/ttf"),
    ("wasm", Data, "application/wasm"),
    ("xlsx", Data, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_decides_kind_and_type() {
        let cases = [
            ("scripts/run.py", Code, "text/x-python"),
            ("SCRIPTS/RUN.PY", Code, "text/x-python"),
            ("references/guide.md", Instructions, "text/markdown"),
            ("notes.TXT", Instructions, "text/plain"),
            ("assets/logo.png", Data, "image/png"),
            ("a.tar.gz", Data, "application/gzip"),
            ("scripts.py/data", Data, "application/octet-stream"),
            ("Makefile", Data, "application/octet-stream"),
            (".py", Data, "application/octet-stream"),
            ("", Data, "application/octet-stream"),
        ];
        for (path, kind, mime) in cases {
            assert_eq!((ResourceKind::from_path(path), mime_type(path)), (kind, mime), "{path}");
        }
    }

    #[test]
    fn table_extensions_are_unique() {
        let mut extensions: Vec<_> = TABLE.iter().map(|(extension, ..)| *extension).collect();
        extensions.sort_unstable();
        extensions.dedup();
        assert_eq!(extensions.len(), TABLE.len());
    }
}
