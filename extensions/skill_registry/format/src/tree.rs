//! The frontmatter as a tree of strings with positions, and the diagnostics about its YAML.
//!
//! The input is untrusted. Besides its size ([`FRONTMATTER_LIMIT`](crate::FRONTMATTER_LIMIT)) the
//! budget of the reader bounds it: [`DEPTH_LIMIT`](yaml_tree::DEPTH_LIMIT),
//! [`NODE_LIMIT`](yaml_tree::NODE_LIMIT) and [`EVENT_LIMIT`](yaml_tree::EVENT_LIMIT).

use yaml_tree::{MISSING_BLANK, Notice, NoticeKind, RecoveredTree, Span, Value};

use crate::diagnostic::Diagnostic;

/// The fields that are recognized without a blank after the colon: the intent is unambiguous.
const FIELDS: [&str; 6] =
    ["name", "description", "license", "compatibility", "allowed-tools", "metadata"];

/// A parsed frontmatter with its diagnostics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontmatterTree {
    /// The parsed value: a map, empty for an empty text.
    ///
    /// Any other value is not a frontmatter; if the text is not even YAML, the root is one
    /// [`YamlStyle::Raw`](yaml_tree::YamlStyle::Raw) scalar and one of the diagnostics is an error.
    pub root: Value,
    /// The diagnostics, not sorted.
    pub diagnostics: Vec<Diagnostic>,
    /// The first position where the tree lacks content of the text: words that belong to no field,
    /// or YAML that is over a limit and kept as text.
    pub gap: Option<Span>,
}

/// Parses the text between the fences; its first line is line `first_line` of the file.
///
/// If the text is not YAML, it is cut at the lines that start with `key:`, and every fragment that
/// is not YAML by itself is kept as text, with a warning (`frontmatter.recovered`) that names it.
/// No field is ever dropped. Duplicate keys stay in the tree and are reported.
#[must_use]
pub fn parse_frontmatter(text: &str, first_line: u32) -> FrontmatterTree {
    to_frontmatter_tree(yaml_tree::parse_recovering(text, first_line, &FIELDS))
}

/// Parses like [`parse_frontmatter`] and also returns the number of parser events of all attempts
/// together, which is at most 16,000 for any text.
#[must_use]
pub fn parse_counted(text: &str, first_line: u32) -> (FrontmatterTree, usize) {
    let (tree, events) = yaml_tree::parse_counted(text, first_line, &FIELDS);
    (to_frontmatter_tree(tree), events)
}

fn to_frontmatter_tree(tree: RecoveredTree) -> FrontmatterTree {
    let RecoveredTree { root, notices, gap } = tree;
    FrontmatterTree { root, diagnostics: notices.into_iter().map(to_diagnostic).collect(), gap }
}

/// Returns the diagnostic of a notice.
fn to_diagnostic(notice: Notice) -> Diagnostic {
    let recovered = |message: String| Diagnostic::warning("frontmatter.recovered", message);
    let (diagnostic, help) = match notice.kind {
        NoticeKind::NotYaml { reason } => (
            Diagnostic::error("frontmatter.yaml", format!("the frontmatter is not YAML: {reason}")),
            "write one `key: value` per line, with at least `name` and `description`",
        ),
        NoticeKind::NotCombined { reason } => (
            recovered(format!("the frontmatter is not valid YAML ({reason})")),
            "its fields are read one by one; other readers refuse the file",
        ),
        NoticeKind::BrokenField { field, reason } => (
            recovered(format!("`{field}` is not valid YAML ({reason}) and is read as text")),
            if reason == MISSING_BLANK {
                "write a blank after the colon"
            } else {
                "put the value in quotes, or indent it on the next line after `>-`"
            },
        ),
        NoticeKind::UnindentedLines { field } => (
            recovered(format!("the further lines of `{field}` are not indented")),
            "indent them by two blanks; other readers refuse the file",
        ),
        NoticeKind::StrayText { text } => (
            recovered(format!("`{text}` belongs to no field and is left out")),
            "write one `key: value` per line",
        ),
        NoticeKind::DuplicateKey { key } => (
            Diagnostic::warning(
                "frontmatter.duplicateKey",
                format!("duplicate key `{key}`; the first value is used"),
            ),
            "remove one of them; other readers refuse the file",
        ),
        NoticeKind::Alias { text } => (
            Diagnostic::warning(
                "frontmatter.alias",
                format!("the alias `{text}` is kept as text and not expanded"),
            ),
            "write the value out, or put the text in quotes",
        ),
        NoticeKind::Anchor { text } => (
            Diagnostic::warning("frontmatter.anchor", format!("the anchor `{text}` is ignored")),
            "remove it, or put the text in quotes if it is part of it",
        ),
        NoticeKind::Tag { text } => (
            Diagnostic::warning("frontmatter.tag", format!("the tag `{text}` is ignored")),
            "remove it, or put the text in quotes if it is part of it",
        ),
        NoticeKind::ComplexKey => (
            Diagnostic::warning("frontmatter.complexKey", "a list or map as a key is kept as text"),
            "put the text in quotes if it is not meant as YAML",
        ),
        NoticeKind::SeveralDocuments => (
            Diagnostic::warning(
                "frontmatter.multipleDocuments",
                "the frontmatter has several YAML documents; they are read as one",
            ),
            "remove the lines `...`",
        ),
    };
    diagnostic.with_position(notice.span.line, notice.span.column).with_help(help)
}
