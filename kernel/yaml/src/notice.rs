//! Notices of the recovering reader.

use std::borrow::Cow;

use crate::tree::Span;

/// The reason of a [`NoticeKind::BrokenField`] that only lacks the blank after its colon.
pub const MISSING_BLANK: &str = "a blank is missing after the colon";

/// A notice about text that is unusual or not YAML. Quoted texts are [excerpts](excerpt).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The kind of notice.
    pub kind: NoticeKind,
    /// The position; column 0 is the complete line.
    pub span: Span,
}

/// The kind of a [`Notice`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// The text is not YAML, and no line starts a field.
    NotYaml {
        /// The reason of the parser.
        reason: Cow<'static, str>,
    },
    /// The text is not YAML, but each of its fields is.
    NotCombined {
        /// The reason of the parser.
        reason: Cow<'static, str>,
    },
    /// A field is not YAML and is read as text.
    BrokenField {
        /// The keys that lead to the field, separated by dots.
        field: String,
        /// The reason of the parser, or the limit that the field exceeds.
        reason: Cow<'static, str>,
    },
    /// The further lines of a quoted scalar are not indented.
    UnindentedLines {
        /// The keys that lead to the field, separated by dots.
        field: String,
    },
    /// A line belongs to no field and is not in the tree.
    StrayText {
        /// The text of the line.
        text: String,
    },
    /// A key occurs in an earlier entry of its map.
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// An alias is kept as text.
    Alias {
        /// The alias as written.
        text: String,
    },
    /// An anchor is ignored.
    Anchor {
        /// The properties as written.
        text: String,
    },
    /// A tag is ignored.
    Tag {
        /// The properties as written.
        text: String,
    },
    /// A list or map as a key is kept as text.
    ComplexKey,
    /// Several documents are read as one.
    SeveralDocuments,
}

impl Notice {
    pub(crate) fn new(kind: NoticeKind, span: Span) -> Self {
        Self { kind, span }
    }
}

/// Returns the start of a text for quoting in a message: untrusted texts can be long.
#[must_use]
pub fn excerpt(text: &str) -> &str {
    const MAX_CHARS: usize = 60;
    let end = text.char_indices().nth(MAX_CHARS).map_or(text.len(), |(at, _)| at);
    &text[..end]
}
