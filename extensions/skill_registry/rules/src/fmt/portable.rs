//! Moves fields outside the specification under `metadata`, which the specification leaves open.

use yaml_tree::{Mapping, MappingEntry, Scalar, Value, YamlStyle};

use super::draft::{DraftChildren, DraftNode, ValueShape};
use super::text::looks_typed;
use super::{FmtError, FmtErrorKind, STANDARD};

/// The fields that restrict the use of a skill. Under `metadata` clients ignore them.
const GUARD_FIELDS: [&str; 2] = ["disable-model-invocation", "user-invocable"];

/// Moves fields in the draft and in its tree. Returns the names of fields outside the specification
/// that stay.
///
/// `source` is the text that the tree was parsed from.
pub(super) fn make_portable(
    draft: &mut DraftChildren,
    root: &mut Mapping,
    source: &str,
) -> Result<Vec<String>, FmtError> {
    let stays = |key: &Scalar| {
        STANDARD.contains(&key.text.as_str()) || GUARD_FIELDS.contains(&key.text.as_str())
    };
    let (own, moved): (Vec<_>, Vec<_>) = root.entries.drain(..).partition(|it| stays(&it.key));
    root.entries = own;
    let guards = root.entries.iter().map(|it| &it.key.text);
    let guards = guards.filter(|key| GUARD_FIELDS.contains(&key.as_str())).cloned().collect();
    if moved.is_empty() {
        return Ok(guards);
    }
    let target = find_metadata(&mut root.entries)?;
    let (own, foreign): (Vec<_>, Vec<_>) =
        draft.nodes.drain(..).partition(|node| node.key.as_ref().is_none_or(stays));
    draft.nodes = own;
    let Some(metadata_fields) = metadata_nodes(draft) else {
        return Err(FmtErrorKind::Inexact.at_line(0));
    };
    // Tree and draft have the fields in the same order, so that the pairs match.
    for (MappingEntry { key, value }, mut node) in moved.into_iter().zip(foreign) {
        let scalar = flatten_to_text(&key.text, &value, source);
        if let Some(index) = target.entries.iter().position(|it| it.key.text == key.text) {
            // Equal values merge; different ones need a decision by the author.
            if flatten_to_text(&key.text, &target.entries[index].value, source).text != scalar.text
            {
                return Err(FmtErrorKind::Taken { key: key.text }.at_line(key.span.line));
            }
            // The value is a duplicate, but its comments are not.
            let comments = node.into_comments();
            if let Some(metadata_fields) = metadata_fields.get_mut(index) {
                metadata_fields.leading.extend(comments);
            }
            continue;
        }
        // An unchanged text keeps its block and its line breaks.
        let keeps_shape =
            matches!(&node.shape, ValueShape::Text { scalar: own, .. } if *own == scalar);
        if !keeps_shape {
            let shape = ValueShape::Text { scalar: scalar.clone(), lines: Vec::new(), block: None };
            node = DraftNode::new(key.clone(), shape, node.into_comments());
        }
        metadata_fields.push(node);
        target.entries.push(MappingEntry { key, value: Value::Scalar(scalar) });
    }
    Ok(guards)
}

/// Finds the map below `metadata`, or creates one.
fn find_metadata(entries: &mut Vec<MappingEntry>) -> Result<&mut Mapping, FmtError> {
    let index = entries.iter().position(|entry| entry.key.text == "metadata");
    let index = index.unwrap_or_else(|| {
        entries.push(MappingEntry {
            key: plain_scalar("metadata"),
            value: Value::Mapping(Mapping::default()),
        });
        entries.len() - 1
    });
    let MappingEntry { key, value } = &mut entries[index];
    // An empty `metadata:` is null in YAML but means an empty map.
    if value.is_empty() {
        *value = Value::Mapping(Mapping::default());
    }
    match value {
        Value::Mapping(mapping) => Ok(mapping),
        _ => Err(FmtErrorKind::MetadataNotMap.at_line(key.span.line)),
    }
}

/// Finds the fields below `metadata` in the draft, or creates an empty block for them.
fn metadata_nodes(draft: &mut DraftChildren) -> Option<&mut Vec<DraftNode>> {
    let is_metadata =
        |node: &DraftNode| node.key.as_ref().is_some_and(|key| key.text == "metadata");
    let index = draft.nodes.iter().position(is_metadata).unwrap_or_else(|| {
        let shape = ValueShape::Block(DraftChildren::default());
        draft.nodes.push(DraftNode::new(plain_scalar("metadata"), shape, Vec::new()));
        draft.nodes.len() - 1
    });
    let shape = &mut draft.nodes[index].shape;
    if !matches!(shape, ValueShape::Block(_)) {
        *shape = ValueShape::Block(DraftChildren::default());
    }
    match shape {
        ValueShape::Block(children) => Some(&mut children.nodes),
        ValueShape::Text { .. } | ValueShape::Flow { .. } => None,
    }
}

fn plain_scalar(text: &str) -> Scalar {
    Scalar { text: text.to_owned(), style: YamlStyle::Plain, span: yaml_tree::Span::default() }
}

/// Converts a value to one text: the words of `tags` and `requires` separated by commas, a value in
/// brackets or braces on one line unchanged, and anything else as JSON.
fn flatten_to_text(key: &str, value: &Value, source: &str) -> Scalar {
    let quoted = |text| Scalar { text, style: YamlStyle::DoubleQuoted, span: value.span() };
    let in_brackets = |flow: bool| {
        let text = value.clone().into_text(source);
        if flow && !text.contains('\n') { text } else { to_json(value) }
    };
    match value {
        // Values of `metadata` are texts, so that a number needs quotes to stay as written.
        Value::Scalar(scalar) if scalar.style == YamlStyle::Plain && looks_typed(&scalar.text) => {
            quoted(scalar.text.clone())
        }
        Value::Scalar(scalar) => scalar.clone(),
        Value::Sequence(sequence) => {
            let word = |item: &Value| {
                let text = item.as_str().filter(|text| is_word(text))?;
                Some(text.to_owned())
            };
            let words: Option<Vec<String>> = sequence.items.iter().map(word).collect();
            // Loading splits only these two fields at commas.
            let words = words.filter(|_| matches!(key, "tags" | "requires"));
            quoted(words.map_or_else(|| in_brackets(sequence.flow), |words| words.join(", ")))
        }
        Value::Mapping(mapping) => quoted(in_brackets(mapping.flow)),
    }
}

/// Returns `true` if a text survives splitting at commas.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.trim() == text && !text.contains([',', '\n', '"', '\'', '[', ']'])
}

/// Writes a value as JSON on one line. A plain scalar that is valid JSON stays without quotes.
fn to_json(value: &Value) -> String {
    match value {
        Value::Scalar(scalar) => {
            let bare = scalar.style == YamlStyle::Plain
                && serde_json::from_str::<serde_json::Value>(&scalar.text).is_ok();
            if bare { scalar.text.clone() } else { json_text(&scalar.text) }
        }
        Value::Sequence(sequence) => {
            let items: Vec<_> = sequence.items.iter().map(to_json).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Mapping(mapping) => {
            let field =
                |it: &MappingEntry| format!("{}: {}", json_text(&it.key.text), to_json(&it.value));
            let fields: Vec<_> = mapping.entries.iter().map(field).collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
