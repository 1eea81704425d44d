//! The documentation of fields and rules.

use skill_format::SkillInput;
use skill_rules::{Profile, SkillDocument, find_rule};

use crate::analysis::DocumentAnalysis;

/// The fields of the frontmatter: those of the specification first, then those that skillhost and
/// other clients use.
const FIELDS: [(&str, &str); 14] = [
    (
        "name",
        "**Required.** At most 64 lower-case letters, digits and single hyphens; the name of the \
         directory.",
    ),
    (
        "description",
        "**Required.** What the skill does and when to use it, at most 1024 characters. A model sees \
         only the name and this text before it loads the skill.",
    ),
    ("license", "The license: a name, or a file of the skill."),
    (
        "compatibility",
        "Requirements of the environment, at most 500 characters: product, packages, network.",
    ),
    (
        "allowed-tools",
        "Tools that the skill may use without further approval, separated by blanks. Experimental.",
    ),
    ("metadata", "Keys and texts that the specification leaves open."),
    ("tags", "Words by which skillhost finds and filters skills. Portable below `metadata`."),
    ("requires", "Skills that skillhost loads first. Portable below `metadata`."),
    ("version", "The version of the skill. Portable below `metadata`."),
    ("when_to_use", "An addition to `description` (Claude Code, skillhost)."),
    ("argument-hint", "The text next to the slash command (Claude Code, VS Code, skillhost)."),
    ("arguments", "The arguments of the slash command (Claude Code, skillhost)."),
    ("disable-model-invocation", "`true` hides the skill from models; users can still invoke it."),
    ("user-invocable", "`false` removes the slash command; models can still load the skill."),
];

/// Returns Markdown about the field and the findings at an offset of a SKILL.md.
pub(crate) fn describe(text: &str, analysis: &DocumentAnalysis, offset: usize) -> Option<String> {
    let mut parts = Vec::new();
    if let Some((name, help)) = field_at(text, offset) {
        parts.push(format!("`{name}`: {help}"));
    }
    let mut rules: Vec<&str> = Vec::new();
    for found in &analysis.findings {
        let is_here = found.range.contains(&offset) || found.range.start == offset;
        if is_here && !rules.contains(&found.diagnostic.rule) {
            rules.push(found.diagnostic.rule);
        }
    }
    parts.extend(rules.into_iter().filter_map(describe_rule));
    (!parts.is_empty()).then(|| parts.join("\n\n---\n\n"))
}

/// Returns the field whose key is at an offset.
fn field_at(text: &str, offset: usize) -> Option<&'static (&'static str, &'static str)> {
    let bytes = text.as_bytes();
    let input = SkillInput { dir_name: "", file_name: Some("SKILL.md"), bytes, files: None };
    let document = SkillDocument::new(&input, Profile::default());
    let shift = text.len().saturating_sub(document.text().len());
    let line = text.get(shift..offset)?.matches('\n').count() + 1;
    let start = text[..offset].rfind('\n').map_or(shift, |at| at + 1);
    let column = text[start..offset].chars().count() + 1;
    let entries = &document.tree()?.entries;
    let key = entries.iter().map(|entry| &entry.key).find(|key| {
        let first = key.span.column as usize;
        key.span.line as usize == line
            && (first..=first + key.text.chars().count()).contains(&column)
    })?;
    FIELDS.iter().find(|(name, _)| *name == key.text)
}

/// Returns the page of a rule without its examples.
fn describe_rule(id: &str) -> Option<String> {
    let rule = find_rule(id)?;
    let docs = rule.docs.split("\n## Bad\n").next().unwrap_or_default();
    let docs = docs.replace("\n## ", "\n#### ");
    Some(format!("**{id}**: {}\n{docs}", rule.summary).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::analysis::analyze;

    const TEXT: &str =
        "---\nname: x\ndescription: Counts.\ncolour: red\n---\nOpen `scripts\\b.md`. It is 😀.\n";

    fn hover(word: &str) -> Option<String> {
        let analysis = analyze(Path::new("/nowhere/x/SKILL.md"), TEXT, Path::new("/"));
        describe(TEXT, &analysis, TEXT.find(word).unwrap())
    }

    #[test]
    fn fields_and_rules_are_described() {
        assert!(hover("name").unwrap().starts_with("`name`: **Required.**"));
        assert!(hover("Counts").unwrap().starts_with("**description-quality**: "));
        let unknown = hover("colour").unwrap();
        assert!(unknown.starts_with("**frontmatter.unknownField**: "), "{unknown}");
        let rule = hover("`scripts\\b").unwrap();
        assert!(rule.contains("#### Why is this bad?") && !rule.contains("Bad\n`"), "{rule}");
        assert_eq!(hover("It is"), None);
    }

    #[test]
    fn standard_fields_are_complete() {
        for field in
            ["name", "description", "license", "compatibility", "allowed-tools", "metadata"]
        {
            assert!(FIELDS.iter().any(|(name, _)| *name == field), "{field}");
        }
    }
}
