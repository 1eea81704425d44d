//! Strict parsing of a SKILL.md, as clients of the Skills extension do it.
//!
//! The registry repairs small errors; a strict client rejects the complete list for one entry that
//! it does not read back. So an entry is listed only if a second, strict YAML parser finds the same
//! frontmatter in the bytes of the file, and that frontmatter is valid by the Agent Skills
//! specification.

use serde_json::{Map, Number, Value as Json};
use serde_yaml::Value as Yaml;
use skill_format::{FRONTMATTER_LIMIT, Severity, find_fences, is_valid_name, sanitize_line, tree};
use yaml_tree::{Value, YamlStyle};

/// The longest `description`, in UTF-16 code units: no language counts more.
const MAX_DESCRIPTION: usize = 1_024;

/// The longest `compatibility`, in UTF-16 code units.
const MAX_COMPATIBILITY: usize = 500;

/// Explains why a SKILL.md has no entry in `skills/list`; `None` if it may have one.
#[must_use]
pub fn explain_unlisted(bytes: &[u8]) -> Option<String> {
    read_strictly(bytes).err()
}

/// Parses the frontmatter of a SKILL.md as every strict parser does.
///
/// # Errors
/// The first reason why strict parsers reject it, disagree about it or find it invalid.
pub(super) fn read_strictly(bytes: &[u8]) -> Result<Map<String, Json>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "SKILL.md is not UTF-8".to_owned())?;
    let yaml = between_fences(text)?;
    if find_fences(text).is_none_or(|found| text[found.yaml] != *yaml) {
        return Err("readers find different ends of the frontmatter".to_owned());
    }
    let lenient = tree::parse_frontmatter(yaml, 2);
    // This comes before the strict parser, which expands aliases: an untrusted file must not use
    // much memory.
    let doubts = lenient.diagnostics.iter().filter(|found| found.severity <= Severity::Warning);
    if let Some(found) = doubts.min_by_key(|found| (found.line, found.column)) {
        return Err(format!("{} (line {})", found.message, found.line));
    }
    let strict = parse_strictly(yaml)?;
    if strict != super::frontmatter::from_tree(&lenient.root) {
        return Err("YAML parsers read the frontmatter differently".to_owned());
    }
    check_fields(&strict)?;
    if let Value::Mapping(root) = &lenient.root {
        for field in ["name", "description"] {
            if let Some(Value::Scalar(scalar)) = root.get(field)
                && scalar.style == YamlStyle::Plain
                && is_typed_by_yaml_1_1(&scalar.text)
            {
                return Err(format!("`{field}` is not a string to YAML 1.1 parsers; quote it"));
            }
        }
    }
    Ok(strict)
}

/// Parses YAML that is a map and has an equivalent in JSON.
fn parse_strictly(yaml: &str) -> Result<Map<String, Json>, String> {
    let strict: Yaml = serde_yaml::from_str(yaml)
        .map_err(|error| format!("the frontmatter is not valid YAML: {error}"))?;
    match to_json(strict) {
        Some(Json::Object(strict)) => Ok(strict),
        _ => Err("a key or a value of the frontmatter has no equivalent in JSON".to_owned()),
    }
}

/// Returns the text between the two lines that are exactly `---`, the first of the file among them.
fn between_fences(text: &str) -> Result<&str, String> {
    let opened = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"));
    let Some(rest) = opened else {
        return Err("SKILL.md does not begin with a line that is exactly `---`".to_owned());
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        let content = line.strip_suffix('\n').unwrap_or(line);
        if content.strip_suffix('\r').unwrap_or(content) == "---" {
            return Ok(&rest[..at]);
        }
        at += line.len();
        if at > FRONTMATTER_LIMIT {
            break;
        }
    }
    Err("the frontmatter has no closing line that is exactly `---`".to_owned())
}

/// Converts a value that JSON can hold; `None` for tags, keys that are not strings, merge keys and
/// numbers such as `.inf`.
fn to_json(value: Yaml) -> Option<Json> {
    Some(match value {
        Yaml::Null => Json::Null,
        Yaml::Bool(flag) => Json::Bool(flag),
        Yaml::String(text) => Json::String(text),
        Yaml::Number(number) => {
            let whole = number.as_i64().map(Number::from);
            let whole = whole.or_else(|| number.as_u64().map(Number::from));
            Json::Number(whole.or_else(|| Number::from_f64(number.as_f64()?))?)
        }
        Yaml::Sequence(items) => {
            Json::Array(items.into_iter().map(to_json).collect::<Option<_>>()?)
        }
        Yaml::Mapping(entries) => {
            let pair = |(key, value)| match key {
                Yaml::String(key) if key != "<<" => Some((key, to_json(value)?)),
                _ => None,
            };
            Json::Object(entries.into_iter().map(pair).collect::<Option<_>>()?)
        }
        Yaml::Tagged(_) => return None,
    })
}

/// Checks the fields of the Agent Skills specification; others are their author's.
fn check_fields(frontmatter: &Map<String, Json>) -> Result<(), String> {
    let text = |field: &str| match frontmatter.get(field) {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(format!("`{field}` is not a string")),
    };
    let name = text("name")?.ok_or("`name` is missing")?;
    if !is_valid_name(name) {
        return Err(format!(
            "the name `{}` is not lower-case letters, digits and single hyphens, at most 64",
            sanitize_line(name)
        ));
    }
    let description = text("description")?.ok_or("`description` is missing")?;
    if description.trim().is_empty() {
        return Err("`description` is empty".to_owned());
    }
    check_length("description", description, MAX_DESCRIPTION)?;
    if let Some(compatibility) = text("compatibility")? {
        if compatibility.is_empty() {
            return Err("`compatibility` is empty".to_owned());
        }
        check_length("compatibility", compatibility, MAX_COMPATIBILITY)?;
    }
    text("license")?;
    text("allowed-tools")?;
    match frontmatter.get("metadata") {
        None => Ok(()),
        Some(Json::Object(metadata)) => match metadata.iter().find(|(_, value)| !value.is_string())
        {
            None => Ok(()),
            Some((key, _)) => {
                Err(format!("`metadata.{}` is not a string; quote it", sanitize_line(key)))
            }
        },
        Some(_) => Err("`metadata` is not a map".to_owned()),
    }
}

fn check_length(field: &str, text: &str, limit: usize) -> Result<(), String> {
    let length = text.encode_utf16().count();
    if length <= limit {
        return Ok(());
    }
    Err(format!("`{field}` has {length} characters, more than {limit}"))
}

/// Returns whether a plain scalar may be a boolean, a number or a date to a parser of YAML 1.1.
fn is_typed_by_yaml_1_1(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let is_flag = matches!(lower.as_str(), "y" | "n" | "yes" | "no" | "on" | "off" | "=");
    // Digits with `_`, sexagesimal numbers, other radixes, dates and times.
    let is_digital = lower.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && lower.bytes().all(|b| b.is_ascii_hexdigit() || b"_:.+-xotz ".contains(&b));
    is_flag || is_digital
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(frontmatter: &str) -> Option<String> {
        explain_unlisted(format!("---\n{frontmatter}\n---\nBody.\n").as_bytes())
    }

    #[test]
    fn conforming_frontmatter_is_listed() {
        let most = format!("description: {}", "x".repeat(1_024));
        for more in [
            "description: D.",
            "description: D.\nversion: 1.10\nx-own: [1, {a: true}]\nnothing:",
            "description: 'a: b'\nlicense: MIT\ncompatibility: Any.\nallowed-tools: Read Grep",
            "description: >-\n  Folded\n  text.",
            "description: |\n  Two\n  lines.",
            "description: >-\n  Folded\n  text.\nmetadata:\n  version: '1.0'",
            "description: Ünïcode, 技能",
            &most,
        ] {
            assert_eq!(reason(&format!("name: a-1\n{more}")), None, "{more}");
        }
        let crlf = b"---\r\nname: a\r\ndescription: D.\r\n---\r\nBody.\r\n";
        assert_eq!(explain_unlisted(crlf), None);
    }

    #[test]
    fn repaired_frontmatter_is_unlisted() {
        for (frontmatter, expected) in [
            ("name: a\ndescription: Use: when asked", "line 3"),
            ("name: a\nx: &x D.\ndescription: *x", "line"),
            ("name: a\ndescription: D.\nx: &x [1]\ny: *x", "line"),
            ("name: a\ndescription: D.\ndescription: E.", "line"),
            ("name: a\ndescription: D.\n<<: {x: y}", "no equivalent"),
            ("name: a\ndescription: D.\n1: x", "no equivalent"),
            ("name: a\ndescription: D.\nx: .inf", "no equivalent"),
            ("name: a\ndescription: D.\nx: !own y", "line 4"),
            ("name: a\ndescription: D.\nx: \"a", "line"),
            ("- a", "no equivalent"),
            ("", "no equivalent"),
        ] {
            let found = reason(frontmatter).unwrap_or_else(|| panic!("listed: {frontmatter}"));
            assert!(found.contains(expected), "{frontmatter}: {found}");
        }
    }

    #[test]
    fn invalid_fields_are_unlisted() {
        let over = format!("name: a\ndescription: {}", "x".repeat(1_025));
        let wide = format!("name: a\ndescription: {}", "\u{1f600}".repeat(513));
        let long = format!("name: {}\ndescription: D.", "a".repeat(65));
        for (frontmatter, expected) in [
            ("description: D.", "`name` is missing"),
            ("name: a", "`description` is missing"),
            ("name: 7\ndescription: D.", "`name` is not a string"),
            ("name: My Skill\ndescription: D.", "the name `My Skill` is not"),
            ("name: a--b\ndescription: D.", "the name `a--b` is not"),
            ("name: -a\ndescription: D.", "the name `-a` is not"),
            ("name: ü\ndescription: D.", "the name `ü` is not"),
            ("name: a\ndescription: ' '", "`description` is empty"),
            ("name: a\ndescription:", "`description` is not a string"),
            ("name: a\ndescription: [D.]", "`description` is not a string"),
            ("name: no\ndescription: D.", "`name` is not a string to YAML 1.1"),
            ("name: 2026-01-02\ndescription: D.", "`name` is not a string to YAML 1.1"),
            ("name: a\ndescription: 1_000", "`description` is not a string to YAML 1.1"),
            ("name: a\ndescription: D.\nmetadata: {version: 1.0}", "`metadata.version` is not"),
            ("name: a\ndescription: D.\nmetadata: x", "`metadata` is not a map"),
            ("name: a\ndescription: D.\nallowed-tools: [Read]", "`allowed-tools` is not a string"),
            ("name: a\ndescription: D.\nlicense:", "`license` is not a string"),
            (&over, "1025 characters, more than 1024"),
            (&wide, "1026 characters, more than 1024"),
            (&long, "the name `aaaa"),
        ] {
            let found = reason(frontmatter).unwrap_or_else(|| panic!("listed: {frontmatter}"));
            assert!(found.contains(expected), "{frontmatter}: {found}");
        }
    }

    #[test]
    fn loose_fences_are_unlisted() {
        let body = "name: a\ndescription: D.";
        for text in [
            format!("\u{feff}---\n{body}\n---\n"),
            format!("\n---\n{body}\n---\n"),
            format!("--- \n{body}\n---\n"),
            format!("---\n{body}\n--- \nBody.\n"),
            format!("---\n{body}\n--- \nBody.\n---\n"),
            format!("---\n{body}\n"),
            format!("---\n{body}"),
        ] {
            assert!(explain_unlisted(text.as_bytes()).is_some(), "{text:?}");
        }
        assert!(explain_unlisted(b"---\nname: a\ndescription: caf\xe9\n---\n").is_some());
        let utf16: Vec<u8> = "\u{feff}---\nname: a\ndescription: D.\n---\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert!(explain_unlisted(&utf16).is_some());
    }

    #[test]
    fn nested_aliases_are_not_expanded() {
        let mut text = "name: a\ndescription: D.\na0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..12 {
            let list = vec![format!("*a{}", n - 1); 9].join(", ");
            text.push_str(&format!("a{n}: &a{n} [{list}]\n"));
        }
        assert!(reason(&text).is_some());
        assert!(reason(&format!("name: a\ndescription: D.\nx: {}", "[".repeat(20_000))).is_some());
    }
}
