//! Secrets in texts: the formats of keys, passwords, and the secrets of the home.
//!
//! Pure. A text that matches is neither stored nor shown to a model nor logged, so a false match
//! costs a person one more message, and a missed one a key.

use std::borrow::Cow;

use secrecy::{ExposeSecret as _, SecretString};

use crate::shown_text::is_ignorable;

/// The text in place of a secret.
const MASK: &str = "[secret]";
/// The lengths of values that an assignment may have, in bytes.
const MIN_VALUE: usize = 8;
const MAX_VALUE: usize = 512;
/// The Shannon entropy from which on a value is no word, in thousandths of a bit per character.
const MIN_ENTROPY: u32 = 2_500;
/// The length of a password in an address from which on it is a secret, in bytes.
const MIN_ADDRESS_PASSWORD: usize = 4;

/// The characters of a key behind its prefix.
#[derive(Clone, Copy)]
enum KeyAlphabet {
    Alphanumeric,
    Upper,
    Hexadecimal,
    /// Letters, digits, `_` and `-`.
    Url,
    /// As `Url`, with `.`, `+`, `/`, `=` and `:`.
    Base64,
}

/// A format of keys: a prefix and the least number of characters behind it.
struct KeyFormat {
    name: &'static str,
    prefix: &'static str,
    min: usize,
    alphabet: KeyAlphabet,
}

/// Declares the table of formats.
macro_rules! key_formats {
    ($($name:literal: $prefix:literal, $min:literal, $alphabet:ident;)*) => {
        &[$(KeyFormat {
            name: $name, prefix: $prefix, min: $min, alphabet: KeyAlphabet::$alphabet,
        }),*]
    };
}

/// The formats with a prefix. `sk-` covers OpenAI and Anthropic, and others that follow them.
const KEY_FORMATS: &[KeyFormat] = key_formats! {
    "Anthropic key": "sk-ant-", 20, Url;
    "OpenAI key": "sk-", 20, Url;
    "GitHub token": "ghp_", 30, Alphanumeric;
    "GitHub token": "gho_", 30, Alphanumeric;
    "GitHub token": "ghu_", 30, Alphanumeric;
    "GitHub token": "ghs_", 30, Alphanumeric;
    "GitHub token": "ghr_", 30, Alphanumeric;
    "GitHub token": "github_pat_", 22, Url;
    "GitLab token": "glpat-", 20, Url;
    "GitLab token": "gldt-", 20, Url;
    "GitLab token": "glrt-", 20, Url;
    "GitLab token": "glptt-", 20, Url;
    "GitLab token": "glcbt-", 20, Url;
    "GitLab token": "gloas-", 20, Url;
    "Slack token": "xoxb-", 20, Url;
    "Slack token": "xoxp-", 20, Url;
    "Slack token": "xoxa-", 20, Url;
    "Slack token": "xoxr-", 20, Url;
    "Slack token": "xoxs-", 20, Url;
    "Slack token": "xoxe.", 20, Url;
    "Slack token": "xapp-", 20, Url;
    "Slack webhook": "hooks.slack.com/services/", 20, Base64;
    "AWS key": "AKIA", 16, Upper;
    "AWS key": "ASIA", 16, Upper;
    "AWS key": "ABIA", 16, Upper;
    "Google key": "AIza", 35, Url;
    "Google token": "ya29.", 20, Url;
    "Google secret": "GOCSPX-", 20, Url;
    "Stripe key": "sk_live_", 16, Alphanumeric;
    "Stripe key": "sk_test_", 16, Alphanumeric;
    "Stripe key": "rk_live_", 16, Alphanumeric;
    "Stripe key": "rk_test_", 16, Alphanumeric;
    "signing secret": "whsec_", 16, Base64;
    "npm token": "npm_", 36, Alphanumeric;
    "PyPI token": "pypi-", 50, Url;
    "Hugging Face token": "hf_", 30, Alphanumeric;
    "SendGrid key": "SG.", 40, Base64;
    "DigitalOcean token": "dop_v1_", 40, Hexadecimal;
    "Groq key": "gsk_", 40, Alphanumeric;
    "Replicate token": "r8_", 30, Alphanumeric;
    "Shopify token": "shpat_", 30, Hexadecimal;
    "age key": "AGE-SECRET-KEY-1", 40, Upper;
};

/// The names of values that are secrets, lower case.
const SECRET_NAMES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "api_key",
    "api-key",
    "apikey",
    "api key",
    "access_key",
    "access-key",
    "private_key",
    "credential",
    "passwort",
    "kennwort",
];

/// Returns the kind of the first secret in a text, which is never part of the result.
#[must_use]
pub(crate) fn find_secret(text: &str, known: &[SecretString]) -> Option<&'static str> {
    let visible: Cow<'_, str> = match text.contains(is_ignorable) {
        // Invisible characters within a key would otherwise hide it.
        true => Cow::Owned(text.chars().filter(|c| !is_ignorable(*c)).collect()),
        false => Cow::Borrowed(text),
    };
    let text: &str = &visible;
    if known.iter().any(|value| text.contains(value.expose_secret())) {
        return Some("secret of this home");
    }
    let by_prefix = KEY_FORMATS.iter().find(|format| format.matches(text));
    if let Some(format) = by_prefix {
        return Some(format.name);
    }
    if has_private_key(text) {
        return Some("private key");
    }
    if has_web_token(text) {
        return Some("JSON web token");
    }
    if has_bot_token(text) {
        return Some("bot token");
    }
    if has_address_password(text) {
        return Some("password in an address");
    }
    has_assigned_secret(text).then_some("password")
}

/// Replaces the known secrets in a text.
#[must_use]
pub(crate) fn mask_secrets<'t>(text: &'t str, known: &[SecretString]) -> Cow<'t, str> {
    let mut found: Vec<&str> = known
        .iter()
        .map(|value| value.expose_secret())
        .filter(|value| text.contains(value))
        .collect();
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    // One value may be the start of another, whose rest would remain.
    found.sort_by_key(|value| std::cmp::Reverse(value.len()));
    Cow::Owned(found.iter().fold(text.to_owned(), |text, value| text.replace(value, MASK)))
}

impl KeyFormat {
    fn matches(&self, text: &str) -> bool {
        let is_key = |(at, _): (usize, &str)| {
            // Part of a longer word, as in `risk-`.
            if text[..at].ends_with(|c: char| c.is_alphanumeric()) {
                return false;
            }
            let rest = &text.as_bytes()[at + self.prefix.len()..];
            let end = rest.iter().position(|byte| !self.alphabet.contains(*byte));
            let key = &rest[..end.unwrap_or(rest.len())];
            // A phrase with hyphens has neither digits nor letters of both cases.
            let has_cases =
                key.iter().any(u8::is_ascii_uppercase) && key.iter().any(u8::is_ascii_lowercase);
            key.len() >= self.min && (has_cases || key.iter().any(u8::is_ascii_digit))
        };
        text.match_indices(self.prefix).any(is_key)
    }
}

impl KeyAlphabet {
    fn contains(self, byte: u8) -> bool {
        match self {
            Self::Alphanumeric => byte.is_ascii_alphanumeric(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Hexadecimal => byte.is_ascii_hexdigit(),
            Self::Url => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Base64 => {
                byte.is_ascii_alphanumeric()
                    || matches!(byte, b'_' | b'-' | b'.' | b'+' | b'/' | b'=' | b':')
            }
        }
    }
}

fn has_private_key(text: &str) -> bool {
    let starts = text.match_indices("-----BEGIN ").map(|(at, start)| &text[at + start.len()..]);
    let mut names = starts.filter_map(|rest| rest.split("-----").next());
    names.any(|name| name.len() < 40 && name.contains("PRIVATE KEY"))
}

/// Returns whether a text has two parts of base64 that begin as JSON objects, and a signature.
fn has_web_token(text: &str) -> bool {
    let is_part =
        |part: &str| part.len() >= 10 && part.bytes().all(|b| KeyAlphabet::Url.contains(b));
    let mut words =
        text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')));
    words.any(|word| {
        let mut parts = word.split('.').skip_while(|part| !part.starts_with("eyJ"));
        let (head, body, signature) = (parts.next(), parts.next(), parts.next());
        head.is_some_and(is_part)
            && body.is_some_and(|body| body.starts_with("eyJ") && is_part(body))
            && signature.is_some_and(is_part)
    })
}

/// Returns whether a text has a token of a Telegram bot: its number, a colon and 35 characters.
fn has_bot_token(text: &str) -> bool {
    text.match_indices(':').any(|(at, _)| {
        let digits = text[..at].bytes().rev().take_while(u8::is_ascii_digit).count();
        let rest =
            text[at + 1..].bytes().take_while(|byte| KeyAlphabet::Url.contains(*byte)).count();
        (8..=12).contains(&digits) && (33..=48).contains(&rest)
    })
}

/// Returns whether an address such as `postgresql://user:password@host` has a password.
fn has_address_password(text: &str) -> bool {
    text.match_indices("://").any(|(at, separator)| {
        let rest = &text[at + separator.len()..];
        let end = rest.find(|c: char| c.is_whitespace() || c == '/').unwrap_or(rest.len());
        let password = rest[..end].rsplit_once('@').and_then(|(user, _)| user.split_once(':'));
        password.is_some_and(|(_, password)| password.len() >= MIN_ADDRESS_PASSWORD)
    })
}

/// Returns whether a text assigns a value that looks random to the name of a secret.
fn has_assigned_secret(text: &str) -> bool {
    // The offsets remain those of the text.
    let lower = text.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|name| {
        lower.match_indices(name).any(|(at, _)| {
            let rest = text[at + name.len()..].trim_start_matches(|c: char| {
                // The rest of a name such as `password_hash` or `"token"`.
                c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '"' | '\'' | '`')
            });
            assigned_value(rest).is_some_and(is_random)
        })
    })
}

/// Returns the value behind `:`, `=` or `is`.
fn assigned_value(rest: &str) -> Option<&str> {
    let rest = rest.trim_start_matches([' ', '\t']);
    let value = rest
        .strip_prefix(":=")
        .or_else(|| rest.strip_prefix("=>"))
        .or_else(|| rest.strip_prefix([':', '=']))
        .or_else(|| rest.strip_prefix("is "))
        .or_else(|| rest.strip_prefix("ist "))?;
    let value = value.trim_start().trim_start_matches(['"', '\'', '`']);
    let end = value.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';'));
    Some(&value[..end.unwrap_or(value.len())])
}

fn is_random(value: &str) -> bool {
    // Sentences end with punctuation, passwords rarely.
    let value = value.trim_end_matches(['.', ')', '!', '?']);
    if !(MIN_VALUE..=MAX_VALUE).contains(&value.len()) || value.contains("://") {
        return false;
    }
    let has = |is_kind: fn(&u8) -> bool| value.as_bytes().iter().any(is_kind);
    let has_digit = has(u8::is_ascii_digit);
    let letters =
        usize::from(has(u8::is_ascii_lowercase)) + usize::from(has(u8::is_ascii_uppercase));
    let has_symbol = has(u8::is_ascii_punctuation);
    // A date has no letters, an ordinary word has neither digits nor symbols.
    let kinds = letters + usize::from(has_digit) + usize::from(has_symbol);
    letters > 0 && (has_digit || kinds >= 3) && entropy(value) >= MIN_ENTROPY
}

/// Returns the Shannon entropy of the bytes of a text, in thousandths of a bit per byte.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "texts are short, and the entropy of bytes is between 0 and 8"
)]
fn entropy(text: &str) -> u32 {
    let mut counts = [0u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let total = text.len() as f64;
    let shares = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / total);
    (shares.map(|share| -share * share.log2()).sum::<f64>() * 1_000.0) as u32
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Generates characters of an alphabet, the same for a seed.
    pub(crate) fn random_text(seed: u64, alphabet: &str, length: usize) -> String {
        let alphabet: Vec<char> = alphabet.chars().collect();
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            alphabet[usize::try_from(state >> 33).unwrap() % alphabet.len()]
        };
        (0..length).map(|_| next()).collect()
    }

    const ALNUM: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    const HEX: &str = "0123456789abcdef";

    /// Generates secrets of every format, as their issuers write them.
    pub(crate) fn planted_secrets(count: u64) -> Vec<String> {
        let secret = |seed: u64| {
            let text = |alphabet, length| random_text(seed + 1, alphabet, length);
            match seed % 20 {
                0 => format!("sk-proj-{}", text(ALNUM, 48)),
                1 => format!("sk-ant-api03-{}-AA", text(ALNUM, 93)),
                2 => format!("ghp_{}", text(ALNUM, 36)),
                3 => format!("github_pat_{}_{}", text(ALNUM, 22), text(ALNUM, 59)),
                4 => format!("glpat-{}", text(ALNUM, 20)),
                5 => format!("xoxb-{}-{}", text("0123456789", 12), text(ALNUM, 24)),
                6 => format!("AKIA{}", text(UPPER, 16)),
                7 => format!("AIza{}", text(ALNUM, 35)),
                8 => format!("sk_live_{}", text(ALNUM, 24)),
                9 => format!("{}:AA{}", text("123456789", 10), text(ALNUM, 33)),
                10 => format!("npm_{}", text(ALNUM, 36)),
                11 => format!("pypi-AgEIcHlwaS5vcmc{}", text(ALNUM, 120)),
                12 => format!("hf_{}", text(ALNUM, 34)),
                13 => format!("SG.{}.{}", text(ALNUM, 22), text(ALNUM, 43)),
                14 => format!("eyJhbGciOiJIUzI1NiJ9.eyJ{}.{}", text(ALNUM, 40), text(ALNUM, 43)),
                15 => format!("-----BEGIN RSA PRIVATE KEY-----\n{}\n", text(ALNUM, 64)),
                16 => format!("password: Zq7!{}", text(ALNUM, 12)),
                17 => format!("aws_secret_access_key = q9/{}", text(ALNUM, 37)),
                18 => format!("postgresql://app:{}@db.example/app", text(ALNUM, 20)),
                _ => format!("API_TOKEN=a1{}", text(HEX, 40)),
            }
        };
        (0..count).map(secret).collect()
    }

    #[test]
    fn planted_secrets_are_found() {
        for secret in planted_secrets(300) {
            for text in [secret.clone(), format!("Here it is: {secret}\nplease use it.")] {
                assert!(find_secret(&text, &[]).is_some(), "{text}");
            }
        }
        let split: String = "ghp_\u{200b}0123456789abcdefghijABCDEFGHIJ012345".to_owned();
        assert_eq!(find_secret(&split, &[]), Some("GitHub token"));
    }

    #[test]
    fn ordinary_texts_are_no_secrets() {
        for text in [
            "What is the weather in Oslo?",
            "Reset my password, please. The password is wrong.",
            "The token is expired: please renew",
            "password: please ask the operator",
            "risk-management-of-the-large-projects-in-our-company",
            "task-oriented-approach-to-the-problem-of-names",
            "see https://example.com/a/b?token=1 and https://example.com:8080/x@y",
            "Meeting at 12:30:45 on 2026-11-28T03:59:00Z, room 12345678:9",
            "commit 50308b83f0339266d8f3680a47dcd5e3b226ce2d",
            "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "git@github.com:owner/repository.git",
            "fn secret(token: &str) -> Option<Token>",
            "AKIA is the prefix of keys; sk- too.",
            "SG. is not a sentence. hf_model npm_config_registry",
            "The secret: be kind, and listen.",
            "Geheimnis: morgen um acht Uhr. Passwort: vergessen!",
            "-----BEGIN PUBLIC KEY-----",
            "mailto:someone@example.com, ssh://git@host/path",
            "/answer 01k0000000000000000000000q yes",
            "a.b.c eyJ.eyJ.x",
        ] {
            assert_eq!(find_secret(text, &[]), None, "{text}");
        }
    }

    #[test]
    fn known_values_are_found_and_masked() {
        let known = ["swordfish-1", "swordfish-1-long"].map(|it| SecretString::from(it.to_owned()));
        assert_eq!(find_secret("is it swordfish-1?", &known), Some("secret of this home"));
        assert_eq!(mask_secrets("a swordfish-1-long b", &known), "a [secret] b");
        assert_eq!(mask_secrets("none", &known), "none");
    }
}
