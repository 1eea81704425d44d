//! The frontmatter as JSON.
//!
//! Inside the registry all values are untyped. Here they need a type: a client parses the YAML
//! itself and rejects a skill whose entry differs, so plain scalars get the types of YAML 1.2's
//! core schema.

use serde_json::{Map, Number, Value as Json};
use skill_format::{find_fences, infer_core_type, tree};
use yaml_tree::{Scalar, Value};

/// Reads the frontmatter of a text with every key; of a repeated key, the first.
pub(crate) fn read_frontmatter(text: &str) -> Map<String, Json> {
    let Some(fences) = find_fences(text) else { return Map::new() };
    from_tree(&tree::parse_frontmatter(&text[fences.yaml.clone()], fences.open_line + 1).root)
}

/// Converts a parsed frontmatter as [`read_frontmatter`] does.
pub(super) fn from_tree(root: &Value) -> Map<String, Json> {
    match root {
        Value::Mapping(root) => object(root),
        Value::Scalar(_) | Value::Sequence(_) => Map::new(),
    }
}

fn object(mapping: &yaml_tree::Mapping) -> Map<String, Json> {
    let mut object = Map::new();
    for entry in &mapping.entries {
        if !object.contains_key(&entry.key.text) {
            object.insert(entry.key.text.clone(), json(&entry.value));
        }
    }
    object
}

fn json(value: &Value) -> Json {
    match value {
        Value::Sequence(list) => list.items.iter().map(json).collect(),
        Value::Mapping(map) => Json::Object(object(map)),
        Value::Scalar(scalar) => match infer_core_type(value) {
            Some("empty") => Json::Null,
            Some("true or false") => Json::Bool(scalar.text.eq_ignore_ascii_case("true")),
            Some(_) => number(&scalar.text).map_or_else(|| text(scalar), Json::Number),
            None => text(scalar),
        },
    }
}

fn text(scalar: &Scalar) -> Json {
    Json::String(scalar.text.clone())
}

/// Parses a number; returns `None` for one that JSON does not have, such as `.inf`.
fn number(text: &str) -> Option<Number> {
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return match u64::from_str_radix(digits, radix) {
                Ok(whole) => Some(whole.into()),
                Err(_) => None,
            };
        }
    }
    let whole = text.parse::<i64>().map(Number::from);
    let whole = whole.or_else(|_| text.parse::<u64>().map(Number::from));
    whole.ok().or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_scalars_follow_core_schema() {
        let text = "---\nname: a\nversion: 1.10\npatch: 1.2.3\nbig: 18446744073709551615\nhuge: \
                    99999999999999999999999\nhex: 0xff\noct: 0o17\nlead: 007\nneg: -3\nexp: 1e3\n\
                    inf: .inf\nflag: true\nno: no\nnull: ~\nempty:\nquoted: \"1.10\"\nsingle: 'true'\n\
                    block: |\n  5\n\ntwice: first\ntwice: second\nlist: [1, x, {y: False}]\n\
                    map: {a: {b: 2026-01-02}}\nunknown-key: kept\n---\nbody\n";
        let expected = json!({
            "name": "a", "version": 1.1, "patch": "1.2.3", "big": 18446744073709551615u64,
            "huge": 99999999999999999999999f64, "hex": 255, "oct": 15, "lead": 7, "neg": -3,
            "exp": 1000.0, "inf": ".inf", "flag": true, "no": "no", "null": null, "empty": null,
            "quoted": "1.10", "single": "true", "block": "5\n", "twice": "first",
            "list": [1, "x", {"y": false}], "map": {"a": {"b": "2026-01-02"}}, "unknown-key": "kept",
        });
        assert_eq!(Json::Object(read_frontmatter(text)), expected);
    }

    #[test]
    fn text_without_frontmatter_has_no_keys() {
        assert_eq!(read_frontmatter("just text"), Map::new());
        assert_eq!(read_frontmatter("---\n- a\n---\n"), Map::new());
    }
}
