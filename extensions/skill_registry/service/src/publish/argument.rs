//! The arguments of a skill's prompt.

use skill_format::Frontmatter;
use skillhost_payload::PublishedArgument;
use yaml_tree::Value;

/// The name of the argument where a skill has only a hint, or none at all.
const ALL: &str = "arguments";

/// The placeholder for all arguments in a body.
const PLACEHOLDER: &str = "$ARGUMENTS";

/// Parses the arguments of a skill's prompt: a list of names, or of maps with `name`, `description`
/// and `required`, or a map from names to descriptions. A skill without arguments takes one free
/// text, which its hint describes.
pub(super) fn read_arguments(frontmatter: &Frontmatter) -> Vec<PublishedArgument> {
    let mut arguments: Vec<PublishedArgument> = match &frontmatter.arguments {
        Some(Value::Sequence(list)) => list.items.iter().filter_map(of_item).collect(),
        Some(Value::Mapping(map)) => {
            map.entries.iter().map(|entry| of_pair(&entry.key.text, &entry.value)).collect()
        }
        Some(Value::Scalar(text)) => {
            text.text.split([' ', ',']).filter(|name| !name.is_empty()).map(named).collect()
        }
        None => Vec::new(),
    };
    // A prompt cannot have two arguments of one name; the first one counts, as in the frontmatter.
    let mut seen = Vec::new();
    arguments.retain(|argument| {
        let first = !seen.contains(&argument.name);
        seen.push(argument.name.clone());
        first
    });
    if arguments.is_empty() {
        let description = frontmatter.argument_hint.clone();
        arguments.push(PublishedArgument { description, ..named(ALL) });
    }
    arguments
}

fn named(name: &str) -> PublishedArgument {
    PublishedArgument { name: name.to_owned(), description: None, required: false }
}

fn of_item(item: &Value) -> Option<PublishedArgument> {
    let name = match item {
        Value::Scalar(text) => text.text.as_str(),
        Value::Mapping(map) => map.get("name")?.as_str()?,
        Value::Sequence(_) => return None,
    };
    (!name.is_empty()).then(|| of_pair(name, item))
}

fn of_pair(name: &str, value: &Value) -> PublishedArgument {
    let Value::Mapping(map) = value else {
        // An item of a plain list is its own name, which would describe nothing.
        let description = value.as_str().filter(|text| !text.is_empty() && *text != name);
        return PublishedArgument { description: description.map(str::to_owned), ..named(name) };
    };
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    PublishedArgument {
        name: name.to_owned(),
        description: text("description").map(str::to_owned),
        required: text("required").is_some_and(|text| text.eq_ignore_ascii_case("true")),
    }
}

/// Inserts a user's values into the body of a skill: `$ARGUMENTS` becomes all values, in the order
/// of the arguments and separated by blanks, and `$name` the value of that argument. Values that
/// the body does not name follow it. Placeholders inside values are not expanded.
#[must_use]
pub(crate) fn substitute_arguments(body: &str, arguments: &[(&str, &str)]) -> String {
    let given = || arguments.iter().filter(|(_, value)| !value.is_empty());
    let all = given().map(|(_, value)| *value).collect::<Vec<_>>().join(" ");
    let mut text = String::with_capacity(body.len() + all.len());
    let mut used = false;
    let mut rest = body;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let word = rest[1..]
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-')))
            .map_or(rest, |end| &rest[..=end]);
        let value = if word == PLACEHOLDER {
            Some(all.as_str())
        } else {
            arguments.iter().find(|(name, _)| *name == &word[1..]).map(|(_, value)| *value)
        };
        used |= value.is_some();
        // A word that names no argument, such as a price, stays.
        text.push_str(value.unwrap_or(word));
        rest = &rest[word.len()..];
    }
    text.push_str(rest);
    if !used && !all.is_empty() {
        text.push_str("\n\nArguments: ");
        text.push_str(&all);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &str) -> Vec<(String, Option<String>, bool)> {
        let text = format!("---\nname: a\ndescription: A.\n{lines}\n---\nbody\n");
        let skill = skill_format::parse_skill("a", text.as_bytes()).unwrap();
        let read = read_arguments(&skill.parsed.frontmatter.unwrap());
        read.into_iter().map(|a| (a.name, a.description, a.required)).collect()
    }

    #[test]
    fn all_argument_shapes_are_parsed() {
        let plain = |name: &str| (name.to_owned(), None, false);
        let with = |name: &str, text: &str| (name.to_owned(), Some(text.to_owned()), false);
        assert_eq!(of("license: MIT"), [plain("arguments")]);
        assert_eq!(of("argument-hint: '[file]'"), [with("arguments", "[file]")]);
        assert_eq!(of("arguments: [file, mode, file]"), [plain("file"), plain("mode")]);
        assert_eq!(of("arguments: file mode"), [plain("file"), plain("mode")]);
        assert_eq!(of("arguments: {file: The file}"), [with("file", "The file")]);
        let maps = "arguments:\n- name: file\n  description: The file\n  required: true\n- x: y";
        assert_eq!(of(maps), [("file".to_owned(), Some("The file".to_owned()), true)]);
    }

    #[test]
    fn placeholders_are_expanded_once() {
        let body = "Review $file in $mode; costs $5.\nAll: $ARGUMENTS";
        let text = substitute_arguments(body, &[("file", "$mode a.rs"), ("mode", "strict")]);
        assert_eq!(text, "Review $mode a.rs in strict; costs $5.\nAll: $mode a.rs strict");
        assert_eq!(
            substitute_arguments("Review $files $", &[("file", "a")]),
            "Review $files $\n\nArguments: a"
        );
        assert_eq!(substitute_arguments("Review.", &[("file", "")]), "Review.");
        assert_eq!(substitute_arguments("$ü$x", &[("x", "1")]), "$ü1");
    }
}
