//! Phrases and beginnings of words that a query insists on.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use skill_catalog::Skill;

use super::text::{SearchableText, display_name};

/// The limit on the filters of a query; a larger query was not typed by a user.
const MOST: usize = 8;

/// So much of a query is looked through, in bytes.
const LONGEST: usize = 16 << 10;

/// So many words stand for the beginning of a word.
const EXPANSIONS: usize = 8;

/// A filter that every skill of a result has to meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueryFilters {
    filters: Vec<QueryFilter>,
}

/// A phrase, or the beginning of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueryFilter {
    /// The words in lower case, one space between them.
    pub(super) words: String,
    /// `true` if the last word may continue.
    pub(super) prefix: bool,
}

impl QueryFilters {
    /// Parses `"…"` and `word*` in a query. A quote that is not closed and a star in another
    /// position are ignored.
    pub(super) fn parse(query: &str) -> Self {
        // A long pasted text has no filters worth the time; the cut must not split a character.
        let query = &query[..query.floor_char_boundary(LONGEST)];
        let mut filters = Vec::new();
        // Every second part is quoted, unless the last quote is not closed.
        let pieces: Vec<&str> = query.split('"').collect();
        for (at, piece) in pieces.iter().enumerate() {
            if at % 2 == 1 && at + 1 < pieces.len() {
                filters.push(QueryFilter { words: folded(piece), prefix: false });
            } else {
                filters.extend(piece.split_whitespace().filter_map(QueryFilter::beginning));
            }
        }
        filters.retain(|filter| !filter.words.is_empty());
        // The number of filters bounds the work per skill.
        filters.truncate(MOST);
        Self { filters }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    pub(super) fn filters(&self) -> &[QueryFilter] {
        &self.filters
    }

    /// Returns the filters as they are written in a query.
    pub(super) fn display_filters(&self) -> Vec<String> {
        let shown = |filter: &QueryFilter| match filter.prefix {
            true => format!("{}*", filter.words),
            false => format!("\"{}\"", filter.words),
        };
        self.filters.iter().map(shown).collect()
    }

    /// Returns whether a text meets all filters, each in any field.
    pub(super) fn matches(&self, text: &SearchableText) -> bool {
        let fields = text.fields().map(|(_, text)| padded(&text));
        self.filters.iter().all(|filter| fields.iter().any(|field| filter.is_in(field)))
    }

    /// Names the fields in which one of the filters is met.
    pub(super) fn fields(&self, text: &SearchableText) -> Vec<&'static str> {
        let fields = text.fields().into_iter().filter(|(_, text)| {
            let field = padded(text);
            self.filters.iter().any(|filter| filter.is_in(&field))
        });
        fields.map(|(name, _)| name).collect()
    }

    /// Replaces the beginnings of words in a query by words that some skills have in their names,
    /// descriptions and tags.
    pub(super) fn expand_prefixes(&self, query: &str, skills: &[Arc<Skill>]) -> String {
        let mut expanded = query.to_owned();
        for filter in self.filters.iter().filter(|filter| filter.prefix) {
            let mut words: BTreeMap<String, usize> = BTreeMap::new();
            for skill in skills {
                let text = format!(
                    "{} {} {}",
                    display_name(skill),
                    skill.description(),
                    skill.tags().join(" ")
                );
                let own: HashSet<String> = folded(&text)
                    .split(' ')
                    .filter(|word| word.starts_with(&filter.words))
                    .map(str::to_owned)
                    .collect();
                for word in own {
                    *words.entry(word).or_default() += 1;
                }
            }
            let mut words: Vec<(String, usize)> = words.into_iter().collect();
            // The words that most skills have; those that are as frequent, by name.
            words.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            for (word, _) in words.iter().take(EXPANSIONS) {
                expanded.push(' ');
                expanded.push_str(word);
            }
        }
        expanded
    }
}

impl QueryFilter {
    fn beginning(token: &str) -> Option<Self> {
        let stem = token.strip_suffix('*')?;
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '#');
        // A lone star or one after punctuation is ordinary text.
        let is_word = stem.chars().all(plain) && stem.starts_with(char::is_alphanumeric);
        is_word.then(|| Self { words: folded(stem), prefix: true })
    }

    /// Returns whether the filter is met by a text that [`padded`] returned.
    fn is_in(&self, padded: &str) -> bool {
        // Scripts that put no spaces between words have their phrases anywhere.
        let start = if self.words.starts_with(is_unspaced) { "" } else { " " };
        let end = if self.prefix || self.words.ends_with(is_unspaced) { "" } else { " " };
        padded.contains(&format!("{start}{}{end}", self.words))
    }
}

/// Returns whether a character belongs to a script without spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Returns the words of a text in lower case, one space between them.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.extend(word.chars().flat_map(char::to_lowercase));
    }
    folded
}

fn padded(text: &str) -> String {
    format!(" {} ", folded(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(query: &str) -> Vec<String> {
        QueryFilters::parse(query).display_filters()
    }

    #[test]
    fn only_filter_syntax_is_parsed() {
        assert_eq!(shown("review a \"pull request\" on kube*"), ["\"pull request\"", "kube*"]);
        assert_eq!(shown("\"Node.js\" C++* \"K-8s\"*"), ["\"node js\"", "c*", "\"k 8s\""]);
        let nothing = [
            "",
            "\"",
            "a \" b",
            "*",
            "**bold**",
            "src/*.rs",
            "SELECT * FROM x",
            "a*b",
            "\"\"",
            "\"!?\"",
            "-*",
            "\0*",
            "🦀*",
            "NEAR(a b)",
            "name : x",
            "^x",
            "a AND NOT b",
        ];
        for query in nothing {
            assert_eq!(shown(query), [""; 0], "{query}");
        }
        assert_eq!(shown(&"\"a\" ".repeat(50)).len(), MOST);
        // A match beyond the searched part of the text does not count.
        assert_eq!(shown(&format!("{}\"b\"", "é ".repeat(LONGEST))), [""; 0]);
        assert_eq!(shown("\"代码\" 代码*"), ["\"代码\"", "代码*"]);
    }

    #[test]
    fn phrase_matches_words_prefix_matches_beginnings() {
        let holds = |query: &str, text: &str| {
            QueryFilters::parse(query).filters.iter().all(|filter| filter.is_in(&padded(text)))
        };
        assert!(holds("\"pull request\"", "Reviews PULL-requests. A pull,\nrequest!"));
        assert!(!holds("\"pull request\"", "Reviews pull requests."));
        assert!(!holds("\"pull request\"", "A request to pull."));
        assert!(holds("requ*", "pull requests"));
        assert!(!holds("quest*", "pull requests"));
        assert!(holds("kube-ct*", "kube ctl"));
        assert!(holds("\"审查\"", "代码审查助手"));
        assert!(!holds("\"查审\"", "代码审查助手"));
        assert!(holds("审*", "代码审查助手"));
        assert!(holds("\"rtl שלום\"", "RTL: שלום"));
    }
}
