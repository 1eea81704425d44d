//! Comparisons of the text of a skill with that of a proposal.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use skill_compat::extended::{AssertionType, TestAssertion};

use crate::case::{CaseAssertion, OutputCase};

/// The words of a shingle.
const SHINGLE: usize = 5;

/// The part of a rejected edit that makes another one its repetition, in percent.
const REPEATED_PERCENT: usize = 90;

/// The words of a query in a row that count as copied.
const COPIED_WORDS: usize = 6;

/// The characters from which on the literal of an assertion counts as copied.
const LITERAL_CHARS: usize = 8;

/// The kind of difference between two texts of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextChange {
    /// The texts are equal.
    Unchanged,
    /// Only white space differs, outside of code.
    Cosmetic,
    /// Words or code differ.
    Changed,
}

/// Compares two texts of a file.
///
/// White space counts in fenced code and at the start of lines of the frontmatter, where it may have a
/// meaning, and nowhere else.
#[must_use]
pub fn compare_skill_texts(base: &str, new: &str) -> TextChange {
    if base == new {
        TextChange::Unchanged
    } else if normalize_space(base) == normalize_space(new) {
        TextChange::Cosmetic
    } else {
        TextChange::Changed
    }
}

/// Returns the words and lines of code of a text.
fn normalize_space(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    // Indentation in a fence may be a block of Python.
    let mut fence: Option<&str> = None;
    let mut is_frontmatter = text.starts_with("---");
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if is_frontmatter {
            parts.push(line.trim_end());
            is_frontmatter = number == 0 || trimmed != "---";
            continue;
        }
        let marks = trimmed.len() - trimmed.trim_start_matches(['`', '~']).len();
        match fence {
            Some(open) => {
                parts.push(line.trim_end());
                if marks >= open.len() && trimmed.starts_with(open) && trimmed.len() == marks {
                    fence = None;
                }
            }
            None => {
                parts.extend(trimmed.split_whitespace());
                let is_fence = trimmed.starts_with("```") || trimmed.starts_with("~~~");
                fence = is_fence.then(|| &trimmed[..marks]);
            }
        }
    }
    parts
}

/// Returns the hashed runs of five words in the lines that a unified diff adds or removes. Case and
/// punctuation do not count.
#[must_use]
pub fn shingles_of_diff(diff: &str) -> HashSet<u64> {
    let mut shingles = HashSet::new();
    // A run that is removed differs from one that is added.
    for (mark, header) in [('+', "+++"), ('-', "---")] {
        let changed = |line: &&str| line.starts_with(mark) && !line.starts_with(header);
        let lines: Vec<&str> = diff.lines().collect();
        // Lines in a row are one passage, because editors wrap text differently.
        for passage in lines.split(|line| !changed(line)) {
            let words: Vec<String> = passage.iter().flat_map(|line| words_of(&line[1..])).collect();
            let length = SHINGLE.min(words.len()).max(1);
            for run in words.windows(length) {
                let mut hasher = DefaultHasher::new();
                (mark, run).hash(&mut hasher);
                shingles.insert(hasher.finish());
            }
        }
    }
    shingles
}

fn words_of(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Returns whether an edit makes most of a rejected one again; both are given by
/// [`shingles_of_diff`].
#[must_use]
pub fn is_repeated_edit(edit: &HashSet<u64>, rejected: &HashSet<u64>) -> bool {
    let common = edit.intersection(rejected).count();
    !rejected.is_empty() && common * 100 >= rejected.len() * REPEATED_PERCENT
}

/// A search for texts of cases that a new text has and its base has not.
#[derive(Debug)]
pub struct LeakSearch {
    base: SearchedText,
    new: SearchedText,
}

impl LeakSearch {
    /// Prepares both texts.
    #[must_use]
    pub fn new(base: &str, new: &str) -> Self {
        Self { base: SearchedText::new(base), new: SearchedText::new(new) }
    }

    /// Returns the first six words in a row of a query that were added. A shorter query counts only
    /// as a whole, and a single word does not.
    #[must_use]
    pub fn find_query(&self, query: &str) -> Option<String> {
        let words = words_of(query);
        if words.len() < 2 {
            // Languages without spaces have sentences of one word.
            let is_long = query.chars().count() >= LITERAL_CHARS;
            let is_added = self.new.has_literal(query) && !self.base.has_literal(query);
            return (is_long && is_added && !query.is_ascii()).then(|| fold_literal(query));
        }
        let run = words.len().clamp(2, COPIED_WORDS);
        let is_added = |words: &&[String]| self.new.has_words(words) && !self.base.has_words(words);
        words.windows(run).find(is_added).map(|copied| copied.join(" "))
    }

    /// Returns the first literal of an assertion with at least eight characters that was added.
    #[must_use]
    pub fn find_literal(&self, case: &OutputCase) -> Option<String> {
        let is_added =
            |literal: &&str| self.new.has_literal(literal) && !self.base.has_literal(literal);
        case.assertions.iter().filter_map(literal_of).find(is_added).map(str::to_owned)
    }
}

/// Returns the text that a reply needs to satisfy an assertion, if it is long enough to be copied.
fn literal_of(assertion: &CaseAssertion) -> Option<&str> {
    let CaseAssertion::Typed(TestAssertion { kind, value, .. }) = assertion else { return None };
    // An expression is no text that could be copied, and the name of a file has to be stated.
    let is_literal = matches!(kind, AssertionType::Contains | AssertionType::CommandExecuted);
    (is_literal && value.chars().count() >= LITERAL_CHARS).then_some(value)
}

/// A text in which texts of cases are searched.
#[derive(Debug)]
struct SearchedText {
    /// The hashed runs of two to six words.
    runs: HashSet<u64>,
    /// The lower-case text with single blanks.
    literal: String,
}

impl SearchedText {
    fn new(text: &str) -> Self {
        let words = words_of(text);
        // Hashed once: a case may have as many words as the text.
        let runs = (2..=COPIED_WORDS).flat_map(|length| words.windows(length).map(hash_run));
        Self { runs: runs.collect(), literal: fold_literal(text) }
    }

    fn has_words(&self, words: &[String]) -> bool {
        self.runs.contains(&hash_run(words))
    }

    fn has_literal(&self, literal: &str) -> bool {
        self.literal.contains(&fold_literal(literal))
    }
}

fn hash_run(words: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    hasher.finish()
}

fn fold_literal(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse_evals, parse_triggers};

    const BASE: &str =
        "# Forms\n\nFill in each field.\n\n```py\nif x:\n    y()\n```\n\nThen save it.\n";

    #[test]
    fn only_space_outside_code_is_cosmetic() {
        let change = |new: &str| compare_skill_texts(BASE, new);
        assert_eq!(change(BASE), TextChange::Unchanged);
        assert_eq!(change(&BASE.replace("each field", "each\nfield")), TextChange::Cosmetic);
        assert_eq!(change(&BASE.replace("\n\nThen", "\n\n\n  Then")), TextChange::Cosmetic);
        assert_eq!(change(&BASE.replace("y()", "y()   ")), TextChange::Cosmetic);
        assert_eq!(change(&BASE.replace("    y()", "  y()")), TextChange::Changed);
        assert_eq!(change(&BASE.replace("each", "every")), TextChange::Changed);
        assert_eq!(change(&BASE.replace("```\n\n", "\n\n")), TextChange::Changed);
    }

    /// Returns a diff that adds or removes lines.
    fn diff(lines: &[&str]) -> HashSet<u64> {
        shingles_of_diff(&format!("--- a\n+++ b\n@@ -1 +1 @@\n # Forms\n{}\n", lines.join("\n")))
    }

    #[test]
    fn most_of_rejected_edit_is_repetition() {
        let line = "+Always open the form in the viewer first, as scanned forms have no fields.";
        let rejected = diff(&[line]);
        let is_repeated = |lines: &[&str]| is_repeated_edit(&diff(lines), &rejected);
        assert!(is_repeated(&[&line.to_uppercase()]));
        let wrapped =
            ["+Always open the form in the viewer", "+first, as scanned forms have no fields."];
        assert!(is_repeated(&wrapped), "wrapped");
        assert!(is_repeated(&[line, "+", "+Ask which months count."]), "with more text");
        assert!(!is_repeated(&["+Scanned forms have no fields."]));
        assert!(!is_repeated(&[&line.replacen('+', "-", 1)]), "the opposite edit");
        assert!(!is_repeated(&[]));
        assert!(!is_repeated_edit(&HashSet::new(), &HashSet::new()));
    }

    #[test]
    fn added_texts_of_cases_are_found() {
        let triggers = parse_triggers(
            r#"[{"query": "please fill in the W-9 form for my landlord", "should_trigger": true},
                {"query": "fill in", "should_trigger": true},
                {"query": "tax form", "should_trigger": true}]"#,
        );
        let outputs = parse_evals(
            r#"{"evals": [{"id": 1, "prompt": "x", "assertions": [
                {"type": "contains", "value": "March, July"}, {"type": "contains", "value": "short"},
                {"type": "matches-regex", "value": "March, May, July"}, "names three months"]}]}"#,
            "forms",
        );
        let leaks = |added: &str| -> Vec<String> {
            let new = format!("{BASE}{added}\n");
            let search = LeakSearch::new(BASE, &new);
            let queries =
                triggers.cases.iter().map(|case| (&case.name, search.find_query(&case.query)));
            let literals = outputs.cases.iter().map(|case| (&case.id, search.find_literal(case)));
            let found = queries.chain(literals);
            found.filter_map(|(name, text)| Some(format!("{name}: {}", text?))).collect()
        };
        assert_eq!(
            leaks("Use it to fill in the w 9 form for anyone."),
            ["q1: fill in the w 9 form"]
        );
        assert_eq!(leaks("Say march,\n july."), ["1: March, July"]);
        assert_eq!(leaks("It suits each tax form."), ["q3: tax form"]);
        // The base has these words already.
        assert_eq!(leaks("Fill in more, in short."), [""; 0]);
        assert_eq!(leaks("Fill it out for a landlord."), [""; 0]);
    }

    #[test]
    fn sentence_without_spaces_is_found() {
        let query = "\u{8bf7}\u{5e2e}\u{6211}\u{5199}\u{4e00}\u{5c01}\u{6b22}\u{8fce}\u{4fe1}";
        let search = LeakSearch::new("Writes letters.", &format!("Writes letters: {query}."));
        assert_eq!(search.find_query(query).as_deref(), Some(query));
        assert_eq!(search.find_query("letters"), None);
        let same = LeakSearch::new(query, query);
        assert_eq!(same.find_query(query), None);
    }

    #[test]
    fn long_texts_are_searched_in_short_time() {
        let text = |from: usize, count: usize| {
            (from..from + count).map(|number| format!("w{number} ")).collect::<String>()
        };
        let search = LeakSearch::new("", &text(0, 40_000));
        // A search for each run of words in the whole text would take minutes.
        assert_eq!(search.find_query(&text(50_000, 400_000)), None);
        let copied = format!("{}{}", text(50_000, 1_000), text(39_994, 6));
        assert!(search.find_query(&copied).unwrap().starts_with("w39994 w39995"));
    }

    #[test]
    fn indentation_of_frontmatter_counts() {
        let text = |indent: &str| format!("---\nname: a\nmetadata:\n{indent}x: 1\n---\nText.\n");
        assert_eq!(compare_skill_texts(&text("  "), &text("")), TextChange::Changed);
        let spaced = text("  ").replace("Text.", " Text. ");
        assert_eq!(compare_skill_texts(&text("  "), &spaced), TextChange::Cosmetic);
    }
}
