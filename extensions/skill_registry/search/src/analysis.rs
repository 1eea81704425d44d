//! The analysis of texts into terms.

mod fold;
mod words;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use snowball_stemmers_rs::{Algorithm, Stemmer};

/// An analyzer that splits a text into terms. Both variants give the same terms for ASCII texts.
///
/// A text is lower-cased; `c++`, `c#`, `.net`, `node.js`, `next.js` and `vue.js` become words
/// (cplusplus, csharp, dotnet, nodejs, nextjs, vuejs); runs of letters and digits are words; stop
/// words are dropped, and what remains is stemmed (Snowball English).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextAnalyzer {
    /// Words are ASCII; any other character separates words, except those that Unicode case folding
    /// maps to ASCII (`ß`, ligatures, the Kelvin sign).
    Reference,
    /// Accents are removed (`é` is e), and words of other scripts are terms, too: complete in scripts
    /// with spaces between words, as overlapping pairs of characters in scripts without (Chinese,
    /// Japanese, Korean, Thai and its neighbors).
    Standard,
}

impl TextAnalyzer {
    /// Returns the terms of a text, in order and as often as they occur.
    #[must_use]
    pub fn terms(self, text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        self.for_each_word(text, |word| {
            if let Some(term) = term_for_word(word) {
                terms.push(term.into_owned());
            }
        });
        terms
    }

    /// Calls a function with each word of a text: lower-case, not stemmed, including stop words.
    pub(crate) fn for_each_word(self, text: &str, each: impl FnMut(&str)) {
        words::for_each_word(&fold::fold_text(self, text), each);
    }
}

static STOP_WORDS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| include_str!("analysis/stop_words.txt").lines().collect());

// Creating a stemmer is slower than stemming a word, so one is shared.
static ENGLISH: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));

/// Returns the term of a word; `None` for a stop word.
pub(crate) fn term_for_word(word: &str) -> Option<Cow<'_, str>> {
    // The stemmer knows only English; other words are terms as they are.
    if !word.is_ascii() {
        return Some(Cow::Borrowed(word));
    }
    (!STOP_WORDS.contains(word)).then(|| ENGLISH.stem(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(analysis: TextAnalyzer, text: &str) -> String {
        analysis.terms(text).join(" ")
    }

    #[test]
    fn ascii_terms_are_equal_in_both() {
        let rows = [
            ("", ""),
            ("the and of", ""),
            ("Reviews pull-requests, quickly!", "review pull request quick"),
            ("snake_case_name X9 3d", "snake case name x9 3d"),
            ("C++ and C# and ASP.NET", "cplusplus csharp aspdotnet"),
            ("c+ c+++ C++11 F#", "c cplusplus cplusplus11 f"),
            (".NET Core .netting dot net", "dotnet core dotnet dot net"),
            ("Node.js, next.jsx; Vue.JS. react.js", "nodej nextjsx vuej react js"),
            ("mynode.js a.js node . js", "mynodej js node js"),
            ("i'm it's", "m"),
            ("a\0b\u{7f}test", "b test"),
        ];
        for (text, expected) in rows {
            assert_eq!(terms(TextAnalyzer::Reference, text), expected, "{text:?}");
            assert_eq!(terms(TextAnalyzer::Standard, text), expected, "{text:?}");
        }
    }

    #[test]
    fn reference_knows_only_ascii() {
        let rows = [
            ("Straße ﬁle ﬀ oﬃce \u{212a}ey ſet", "strass file ff offic key set"),
            ("İstanbul ǰx 'ŉx", "stanbul j x nx"),
            ("café naïfs", "caf na fs"),
            ("设计 deploy ПРИВЕТ", "deploy"),
        ];
        for (text, expected) in rows {
            assert_eq!(terms(TextAnalyzer::Reference, text), expected, "{text:?}");
        }
    }

    #[test]
    fn standard_folds_accents_and_keeps_scripts() {
        let rows = [
            ("Café NAÏVE Straße cafe\u{301}", "cafe naiv strass cafe"),
            ("Łódź Ærø œuvre ﬁle", "lodz aero oeuvr file"),
            ("ＡＢＣ１２ ＦＵＬＬ", "abc12 full"),
            ("Foo™ m² ①", "foo m"),
            ("ПРИВЕТ мир", "привет мир"),
            ("Ελλάδα", "ελλαδα"),
            ("部署服务 好", "部署 署服 服务 好"),
            ("React组件测试", "react 组件 件测 测试"),
            ("データ ﾃﾞｰﾀ", "デー ータ デー ータ"),
            ("배포 하다", "배포 하다"),
            ("שָׁלוֹם", "שלום"),
            ("🚀 launch 👩‍🚀", "launch"),
            ("हिन्दी", "हिन्दी"),
        ];
        for (text, expected) in rows {
            assert_eq!(terms(TextAnalyzer::Standard, text), expected, "{text:?}");
        }
    }
}
