//! The token of a bot.

use std::fmt;

/// The secret with the token of the bot.
pub(crate) const TOKEN_SECRET: &str = "TELEGRAM_BOT_TOKEN";
/// The longest token that is accepted, in bytes; real ones have less than 50.
const MAX_BYTES: usize = 256;

/// A token of a bot, `ID:SECRET`. It is a part of every URL of the Bot API, and appears in no message.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BotToken(String);

impl BotToken {
    /// Parses a token; returns `None` if it does not have the form of one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (id, secret) = text.split_once(':')?;
        // Only characters that have no meaning in a URL.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let is_valid = text.len() <= MAX_BYTES
            && !id.is_empty()
            && id.bytes().all(|byte| byte.is_ascii_digit())
            && !secret.is_empty()
            && secret.chars().all(is_plain);
        is_valid.then(|| Self(text.to_owned()))
    }

    /// Returns the id of the bot, which a new token of the same bot has as well.
    pub(crate) fn bot_id(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }

    /// Returns the text, which only the Bot API may see.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Returns a text of the platform without the token.
    pub(crate) fn mask(&self, text: &str) -> String {
        let secret = self.0.split_once(':').map_or("", |(_, secret)| secret);
        text.replace(&self.0, "TOKEN").replace(secret, "TOKEN")
    }
}

impl fmt::Debug for BotToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BotToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_form_is_checked() {
        let token = BotToken::parse(" 123456:AAF-x_9 \n").unwrap();
        assert_eq!((token.bot_id(), token.expose()), ("123456", "123456:AAF-x_9"));
        for text in ["", "123456", ":secret", "12a:secret", "1:", "1:se/cret", "1:a?b", "1:a b"] {
            assert_eq!(BotToken::parse(text), None, "{text}");
        }
        assert_eq!(BotToken::parse(&format!("1:{}", "a".repeat(MAX_BYTES))), None);
    }

    #[test]
    fn token_is_hidden_in_messages() {
        let token = BotToken::parse("123456:AAF-secret").unwrap();
        assert_eq!(format!("{token:?}"), "BotToken(…)");
        let text = "POST /bot123456:AAF-secret/getMe, or AAF-secret alone";
        assert_eq!(token.mask(text), "POST /botTOKEN/getMe, or TOKEN alone");
    }
}
