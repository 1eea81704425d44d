//! The catalog, the queries and the worked examples, as they are on the disk.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::workspace::Result;

/// A skill of the catalog.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct LabelledSkill {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) when_to_use: String,
    pub(super) tags: Vec<String>,
    pub(super) headings: Vec<String>,
    pub(super) body: String,
}

/// A task with the skills that fit it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct LabelledQuery {
    pub(super) id: String,
    pub(super) query: String,
    pub(super) relevant: Vec<String>,
    /// The source of the task: tasks of one source are alike.
    #[serde(default)]
    pub(super) source: String,
}

/// A worked example of the reference ranker.
#[derive(Debug, Deserialize)]
pub(super) struct GoldenExample {
    pub(super) id: String,
    pub(super) query: String,
    pub(super) tokens: Vec<String>,
    /// The first five and their scores.
    pub(super) lexical: Vec<(String, f64)>,
    /// The features of the first, without their square roots.
    pub(super) lexical_top1_features: Vec<f64>,
}

/// Reads JSON lines; a file that ends in `.zst` is decompressed.
///
/// # Errors
/// Names the file and, for a line that is not JSON of the expected shape, the line.
pub(super) fn read_json_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if path.extension().is_some_and(|extension| extension == "zst") {
        let unpacked = ruzstd::decoding::StreamingDecoder::new(BufReader::new(file))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        parsed(path, BufReader::new(unpacked))
    } else {
        parsed(path, BufReader::new(file))
    }
}

/// Reads one JSON value.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?)
}

fn parsed<T: DeserializeOwned>(path: &Path, text: impl BufRead) -> Result<Vec<T>> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let at = |error: &dyn std::fmt::Display| {
            format!("{}, line {}: {error}", path.display(), number + 1)
        };
        let line = line.map_err(|error| at(&error))?;
        if !line.trim().is_empty() {
            found.push(serde_json::from_str(&line).map_err(|error| at(&error))?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> std::result::Result<Vec<String>, String> {
        parsed::<LabelledQuery>(Path::new("queries.jsonl"), text.as_bytes())
            .map(|queries| queries.into_iter().map(|query| query.id).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn blank_lines_skip_bad_lines_fail() {
        let good = r#"{"id":"a","query":"q","relevant":["x"],"kind":"task"}"#;
        assert_eq!(read(&format!("{good}\n\n{good}\n")), Ok(vec!["a".into(), "a".into()]));
        assert_eq!(
            read(&format!("{good}\n{{\"id\":\"b\"}}\n")),
            Err("queries.jsonl, line 2: missing field `query` at line 1 column 10".into())
        );
    }
}
