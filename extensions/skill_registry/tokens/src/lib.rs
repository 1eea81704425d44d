//! Counts the tokens of a text exactly, in OpenAI's encoding o200k_base.
//!
//! The vocabulary is part of this crate (1.6 MB), so only programs that count exactly link it; what
//! is on a hot path estimates with `skill_format::TokenCount`. It is indexed when a text is first
//! counted, which takes some 20 ms, and never before.
//!
//! ```
//! assert_eq!(skill_tokens::count_o200k("Reviews pull requests."), 4);
//! ```
//!
//! The way of a text: `split` cuts it into pieces (words, numbers, runs of signs and blanks) as the
//! encoding's pattern says; a piece that is in the vocabulary is one token; `merge` joins the bytes
//! of any other, the pair that stands first in the vocabulary first.
//!
//! What stands for a special token, such as `<|endoftext|>`, is counted as the text it is: that is
//! how a model is given what somebody else wrote.

mod merge;
mod split;
mod vocabulary;

/// Counts the tokens of a text in the encoding o200k_base, which GPT-4o and later models of OpenAI
/// use.
///
/// The time is proportional to the length of the text, but for a factor that grows with the
/// logarithm of its longest piece.
#[must_use]
pub fn count_o200k(text: &str) -> u32 {
    let vocabulary = vocabulary::o200k();
    let mut joiner = merge::BpeMerger::default();
    let mut count = 0u32;
    for piece in split::pre_tokenize(text) {
        let tokens = match vocabulary.rank(piece.as_bytes()) {
            Some(_) => 1,
            None => joiner.count(vocabulary, piece.as_bytes()),
        };
        count = count.saturating_add(tokens);
    }
    count
}
