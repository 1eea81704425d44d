//! Exact token counts in OpenAI's encoding o200k_base.
//!
//! The vocabulary is part of this crate (1.6 MB), so only programs with exact counts link it; code
//! on hot paths estimates with `skill_format::TokenCount`. The vocabulary is indexed at the first
//! count, which takes some 20 ms.
//!
//! ```
//! assert_eq!(skill_tokens::count_o200k("Reviews pull requests."), 4);
//! ```
//!
//! `split` cuts a text into pieces (words, numbers, runs of signs and blanks) by the pattern of the
//! encoding; a piece in the vocabulary is one token; `merge` joins the bytes of any other piece, in
//! the order of the vocabulary.
//!
//! The text of a special token, such as `<|endoftext|>`, is counted as plain text, because untrusted
//! text is passed to a model without special tokens.

mod merge;
mod split;
mod vocabulary;

/// Counts the tokens of a text in the encoding o200k_base, which GPT-4o and later models of OpenAI
/// use.
///
/// The time is proportional to the length of the text, times the logarithm of its longest piece.
#[must_use]
pub fn count_o200k(text: &str) -> u32 {
    let vocabulary = vocabulary::o200k();
    let mut merger = merge::BpeMerger::default();
    let mut count = 0u32;
    for piece in split::pre_tokenize(text) {
        let tokens = match vocabulary.rank(piece.as_bytes()) {
            // Most words are one token, so the merge is skipped.
            Some(_) => 1,
            None => merger.count(vocabulary, piece.as_bytes()),
        };
        count = count.saturating_add(tokens);
    }
    count
}
