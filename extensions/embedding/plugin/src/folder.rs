//! The loading of a table of word vectors from a Model2Vec directory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use sha2::{Digest as _, Sha256};
use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::serde_json;
use word_vectors::VectorTable;

/// The maximum size of the weights in bytes. The largest published models have 500 MB.
const WEIGHTS_LIMIT: u64 = 1 << 30;
/// The maximum size of the vocabulary in bytes.
const VOCABULARY_LIMIT: u64 = 64 << 20;

/// Loads the table of a directory, with an id that changes with the contents.
pub(crate) fn load_model(directory: &Path) -> Result<(String, VectorTable)> {
    let weights = read_limited(&directory.join("model.safetensors"), WEIGHTS_LIMIT)?;
    let tokenizer = directory.join("tokenizer.json");
    let vocabulary = if tokenizer.is_file() {
        let text = read_limited(&tokenizer, VOCABULARY_LIMIT)?;
        read_pieces(&text).map_err(|error| invalid_file_error(&tokenizer, &error))?
    } else {
        let path = directory.join("vocab.txt");
        let text = read_limited(&path, VOCABULARY_LIMIT)?;
        String::from_utf8(text).map_err(|_| invalid_file_error(&path, "it is not UTF-8"))?
    };
    let mut hash = Sha256::new();
    hash.update(&weights);
    hash.update(&vocabulary);
    let digest: String = hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let path = directory.join("model.safetensors");
    let rows = read_rows(&weights).map_err(|error| invalid_file_error(&path, &error))?;
    // The file can be a gigabyte, and the rows are a copy of it.
    drop(weights);
    let table = VectorTable::from_floats(vocabulary, rows)
        .map_err(|error| invalid_file_error(&path, &error.to_string()))?;
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    Ok((format!("{name}:{digest}"), table))
}

fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| invalid_file_error(path, &error.to_string()))?;
    // The type is checked on the open file: a device or FIFO could be read without end.
    if !file.metadata()?.is_file() {
        return Err(invalid_file_error(path, "it is not a regular file"));
    }
    // One byte more than the limit shows that the file is too large.
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| invalid_file_error(path, &error.to_string()))?;
    if bytes.len() as u64 > limit {
        return Err(invalid_file_error(path, &format!("it has more than {limit} bytes")));
    }
    Ok(bytes)
}

fn invalid_file_error(path: &Path, reason: &str) -> ExtensionError {
    ExtensionError::invalid_argument(format!("{}: {reason}", path.display())).with_hint(
        "set config.model.file to a Model2Vec directory with model.safetensors, and \
         tokenizer.json or vocab.txt",
    )
}

/// Reads the rows of the tensor `embeddings`.
fn read_rows(file: &[u8]) -> Result<Vec<f32>, String> {
    let tensors = SafeTensors::deserialize(file).map_err(|error| error.to_string())?;
    let mut others = tensors.names().into_iter().filter(|name| *name != "embeddings");
    if let Some(name) = others.next() {
        // `mapping` and `weights` of newer models change the meaning of a row.
        return Err(format!("tensor `{name}` is not supported, only `embeddings`"));
    }
    let tensor = tensors.tensor("embeddings").map_err(|error| error.to_string())?;
    if tensor.shape().len() != 2 {
        return Err(format!("tensor `embeddings` has the shape {:?}", tensor.shape()));
    }
    match tensor.dtype() {
        Dtype::F32 => {
            Ok(tensor.data().as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect())
        }
        Dtype::F16 => {
            let halves = tensor.data().as_chunks().0.iter();
            Ok(halves.map(|two| from_half(u16::from_le_bytes(*two))).collect())
        }
        other => Err(format!("tensor `embeddings` has type {other:?}, not F32 or F16")),
    }
}

/// Converts an IEEE 754 half. A dependency for this would be many times its size.
fn from_half(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff) / 1024.0);
    let size = match exponent {
        0 => fraction * 2f32.powi(-14),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction) * 2f32.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// The parts of a `tokenizer.json` that determine the tokens of a text.
#[derive(Deserialize)]
#[serde(crate = "serde")]
struct TokenizerFile {
    model: TokenizerModel,
    normalizer: Option<NormalizerConfig>,
}

#[derive(Deserialize)]
#[serde(crate = "serde")]
struct TokenizerModel {
    r#type: Option<String>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    vocab: Value,
}

#[derive(Deserialize)]
#[serde(crate = "serde")]
struct NormalizerConfig {
    r#type: String,
    #[serde(default)]
    lowercase: bool,
    #[serde(default)]
    strip_accents: Option<bool>,
}

/// Reads the vocabulary of a `tokenizer.json` as one piece per line.
fn read_pieces(file: &[u8]) -> Result<String, String> {
    let tokenizer: TokenizerFile =
        serde_json::from_slice(file).map_err(|error| error.to_string())?;
    let kind = tokenizer.model.r#type.as_deref().unwrap_or("WordPiece");
    let prefix = tokenizer.model.continuing_subword_prefix.as_deref().unwrap_or("##");
    if kind != "WordPiece" || prefix != "##" {
        return Err(format!(
            "tokenizer {kind} with `{prefix}` is not supported, only WordPiece with `##`"
        ));
    }
    // The words of this crate are lower-case without accents, so a cased vocabulary never matches.
    let uncased = tokenizer.normalizer.is_some_and(|normalizer| {
        normalizer.r#type == "BertNormalizer"
            && normalizer.lowercase
            && normalizer.strip_accents.unwrap_or(true)
    });
    if !uncased {
        return Err("normalizer is not that of an uncased BERT model".to_owned());
    }
    let vocab: BTreeMap<String, usize> =
        serde_json::from_value(tokenizer.model.vocab).map_err(|error| error.to_string())?;
    let mut lines = vec![None; vocab.len()];
    for (piece, number) in &vocab {
        let free = lines.get_mut(*number).filter(|line| line.is_none());
        let Some(line) = free.filter(|_| !piece.contains(['\n', '\r'])) else {
            return Err(format!("piece {piece:?} with number {number} is not valid"));
        };
        *line = Some(piece.as_str());
    }
    // There are as many numbers as lines and no number occurs twice, so every line is set.
    Ok(lines.into_iter().flatten().collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a safetensors file with one tensor of two columns.
    fn weights(name: &str, dtype: &str, numbers: &[u8]) -> Vec<u8> {
        let size = if dtype == "F16" { 4 } else { 8 };
        let header = json!({ name: {
            "dtype": dtype, "shape": [numbers.len() / size, 2], "data_offsets": [0, numbers.len()],
        }});
        let header = header.to_string();
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), numbers].concat()
    }

    fn floats(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn tokenizer() -> Value {
        json!({
            "normalizer": {"type": "BertNormalizer", "lowercase": true, "strip_accents": null},
            "model": {"type": "WordPiece", "vocab": {"[UNK]": 0, "##b": 2, "a": 1}},
        })
    }

    /// Loads the model of a directory with these files.
    fn load_files(files: &[(&str, &[u8])]) -> Result<(String, VectorTable)> {
        let temp = tempfile::tempdir().unwrap();
        let directory = temp.path().join("tiny");
        std::fs::create_dir(&directory).unwrap();
        for (name, bytes) in files {
            std::fs::write(directory.join(name), bytes).unwrap();
        }
        load_model(&directory).map_err(|error| {
            let message = error.message().replace(&*directory.to_string_lossy(), "[DIRECTORY]");
            ExtensionError::new(error.kind(), message)
        })
    }

    #[test]
    fn both_vocabularies_give_same_table() {
        let numbers = [9.0, 9.0, 3.0, 0.0, 0.0, 4.0];
        let file = weights("embeddings", "F32", &floats(&numbers));
        let json = tokenizer().to_string();
        let from_json =
            load_files(&[("model.safetensors", &file), ("tokenizer.json", json.as_bytes())]);
        let (id, table) = from_json.unwrap();
        assert_eq!(table.embed("AB!"), [0.6, 0.8]);
        let from_text =
            load_files(&[("model.safetensors", &file), ("vocab.txt", b"[UNK]\na\n##b")]);
        let (same, table) = from_text.unwrap();
        assert_eq!(table.embed("AB!"), [0.6, 0.8]);
        assert_eq!(id, same);
        assert_eq!((&id[..5], id.len()), ("tiny:", 21));

        // 3, 0, 0, 4 and two nines as halves; other contents are another model.
        let halves = [0x4880u16, 0x4880, 0x4200, 0, 0, 0x4400];
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        let file = weights("embeddings", "F16", &bytes);
        let (other, table) =
            load_files(&[("model.safetensors", &file), ("vocab.txt", b"[UNK]\na\n##b")]).unwrap();
        assert_eq!(table.embed("AB!"), [0.6, 0.8]);
        assert_ne!(id, other);
    }

    #[test]
    fn halves_match_standard() {
        let cases = [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x7bff, 65504.0),
            (0x0400, 6.103_515_6e-5),
            (0x03ff, 6.097_555e-5),
            (0x0001, 5.960_464_5e-8),
            (0xfc00, f32::NEG_INFINITY),
        ];
        for (bits, expected) in cases {
            assert_eq!(from_half(bits), expected, "{bits:#x}");
        }
        assert!(from_half(0x7e00).is_nan());
        assert_eq!(from_half(0x8000).to_bits(), (-0.0f32).to_bits());
    }

    #[test]
    fn invalid_directory_is_rejected() {
        let good = weights("embeddings", "F32", &floats(&[1.0; 6]));
        let message = |weights: &[u8], tokenizer: &str| {
            let files = [("model.safetensors", weights), ("tokenizer.json", tokenizer.as_bytes())];
            let error = load_files(&files).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            error.message().to_owned()
        };
        let changed = |pointer: &str, value: Value| {
            let mut json = tokenizer();
            *json.pointer_mut(pointer).unwrap() = value;
            message(&good, &json.to_string())
        };
        let table = "[DIRECTORY]/model.safetensors: ";
        let text = "[DIRECTORY]/tokenizer.json: ";
        assert_eq!(
            load_files(&[]).unwrap_err().message(),
            format!("{table}No such file or directory (os error 2)")
        );
        assert_eq!(
            changed("/model/vocab", json!({"a": 0, "b": 0, "c": 1})),
            format!("{text}piece \"b\" with number 0 is not valid")
        );
        assert_eq!(
            changed("/model/vocab", json!({"a": 0, "b": 7, "c": 1})),
            format!("{text}piece \"b\" with number 7 is not valid")
        );
        assert_eq!(
            changed("/model/vocab", json!({"a": 0, "b\n": 1, "c": 2})),
            format!("{text}piece \"b\\n\" with number 1 is not valid")
        );
        assert_eq!(
            changed("/model/type", json!("Unigram")),
            format!("{text}tokenizer Unigram with `##` is not supported, only WordPiece with `##`")
        );
        let cased = format!("{text}normalizer is not that of an uncased BERT model");
        assert_eq!(changed("/normalizer/lowercase", json!(false)), cased);
        assert_eq!(changed("/normalizer", json!(null)), cased);
        assert_eq!(
            changed("/model/vocab", json!({"a": 0, "b": 1, "c": 2, "d": 3})),
            format!("{table}4 pieces do not match 6 numbers")
        );
        let json = tokenizer().to_string();
        let named = weights("weights", "F32", &floats(&[1.0; 6]));
        assert_eq!(
            message(&named, &json),
            format!("{table}tensor `weights` is not supported, only `embeddings`")
        );
        let integers = weights("embeddings", "I64", &[0; 16]);
        assert!(message(&integers, &json).starts_with(table));
        let huge = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
        assert!(message(&huge, &json).starts_with(table));
        let odd = weights("embeddings", "F32", &floats(&[1.0, 1.0, 1.0, f32::NAN, 1.0, 1.0]));
        assert_eq!(
            message(&odd, &json),
            format!("{table}row of piece 1 has a number that is not finite")
        );
    }
}
