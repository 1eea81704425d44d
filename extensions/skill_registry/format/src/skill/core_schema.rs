//! The types of YAML's core schema; used only in messages to authors, never for parsing.

use yaml_tree::{Scalar, Value, YamlStyle};

/// Returns the type of a value in YAML 1.2's core schema, unless it is a string: `a list`, `a map`,
/// `empty`, `true or false` or `a number`.
#[must_use]
pub fn infer_core_type(value: &Value) -> Option<&'static str> {
    match value {
        Value::Sequence(_) => Some("a list"),
        Value::Mapping(_) => Some("a map"),
        Value::Scalar(Scalar { text, style: YamlStyle::Plain, .. }) => core_type(text),
        Value::Scalar(_) => None,
    }
}

/// Returns the core schema type of a plain scalar.
fn core_type(text: &str) -> Option<&'static str> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Some("empty"),
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => return Some("true or false"),
        _ => {}
    }
    is_number(text).then_some("a number")
}

/// Returns whether YAML 1.2's core schema reads a plain scalar as a number.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some(octal) = text.strip_prefix("0o") {
        return !octal.is_empty() && octal.bytes().all(|b| matches!(b, b'0'..=b'7'));
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit());
    }
    // The schema allows a sign before `.inf`, but not before `.nan`.
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let exponent_fits = exponent
        .is_none_or(|exponent| digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)));
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
        None => digits(mantissa),
    };
    mantissa_fits && exponent_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalar_has_core_type() {
        let numbers = "1 -1 +1 007 1.10 1. .5 -0.5 1e3 1.5E-3 0o17 0xAf .inf -.INF .nan";
        for text in numbers.split(' ') {
            assert_eq!(core_type(text), Some("a number"), "{text}");
        }
        for text in ["", "~", "null", "NULL"] {
            assert_eq!(core_type(text), Some("empty"), "{text}");
        }
        for text in ["true", "False"] {
            assert_eq!(core_type(text), Some("true or false"), "{text}");
        }
        let texts = "yes on nUll tRue 1.10.0 2024-01-15 v1 . - + e3 1e 0o8 0x 1_000 +.nan 1,5 ٣";
        for text in texts.split(' ') {
            assert_eq!(core_type(text), None, "{text}");
        }
    }

    #[test]
    fn quoted_scalar_is_text() {
        let span = yaml_tree::Span::default();
        let scalar = |style| Value::Scalar(Scalar { text: "1.0".to_owned(), style, span });
        assert_eq!(infer_core_type(&scalar(YamlStyle::Plain)), Some("a number"));
        for style in
            [YamlStyle::SingleQuoted, YamlStyle::DoubleQuoted, YamlStyle::Literal, YamlStyle::Raw]
        {
            assert_eq!(infer_core_type(&scalar(style)), None);
        }
    }
}
