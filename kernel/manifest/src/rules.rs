//! The formats of strings in a manifest.

use globset::Glob;
use skillhost_policy::DomainPattern;

use crate::ExtensionId;

/// A rule for a text, in three equivalent forms.
#[derive(Debug)]
pub(crate) struct TextRule {
    /// The rule in words that read after "must be".
    pub(crate) expected: &'static str,
    /// The rule as code.
    pub(crate) is_valid: fn(&str) -> bool,
    /// The rule as a regular expression for the JSON Schema; it may allow more.
    pub(crate) pattern: &'static str,
}

/// The id of an extension.
pub(crate) const ID: TextRule = TextRule {
    expected: ExtensionId::RULE,
    is_valid: |text| ExtensionId::new(text).is_ok(),
    pattern: ExtensionId::PATTERN,
};

/// The base name of a library: never a path.
pub(crate) const ENTRYPOINT: TextRule = TextRule {
    expected: "the library's base name, of letters, digits, `_` and `-`, without `lib` and `.so`",
    is_valid: |text| is_word(text, 128, b"_-"),
    pattern: "^[A-Za-z0-9_-]{1,128}$",
};

/// The first word of a command: a program in `PATH`, or a path below the manifest's directory.
pub(crate) const PROGRAM: TextRule = TextRule {
    expected: "a program in PATH or a relative path that stays in the manifest's directory",
    is_valid: is_program,
    pattern: r"^[^/\x00-\x1f\x7f][^\x00-\x1f\x7f]*$",
};

/// An argument of a command.
pub(crate) const ARGUMENT: TextRule = TextRule {
    expected: "text of at most 4096 bytes without control characters",
    is_valid: is_argument,
    pattern: r"^[^\x00-\x1f\x7f]*$",
};

/// The maximum number of words in a command.
pub(crate) const MAX_COMMAND_WORDS: usize = 64;

/// The format of a command, in words.
pub(crate) const COMMAND: &str = "a list of 1 to 64 words: the program and its arguments";

/// The version of an extension.
pub(crate) const VERSION: TextRule = TextRule {
    expected: "a version such as `1`, `1.2` or `1.2.3-beta.1+build`",
    is_valid: is_version,
    pattern: r"^[0-9]+(\.[0-9]+){0,2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$",
};

/// A SHA-256 in hexadecimal.
pub(crate) const SHA256: TextRule = TextRule {
    expected: "64 hexadecimal digits",
    is_valid: |text| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()),
    pattern: "^[0-9A-Fa-f]{64}$",
};

/// The name of a secret: a valid variable name, because secrets can come from the environment.
pub(crate) const SECRET: TextRule = TextRule {
    expected: "the name of a secret, of letters, digits and `_`, not beginning with a digit",
    is_valid: |text| is_word(text, 128, b"_") && !text.starts_with(|c: char| c.is_ascii_digit()),
    pattern: "^[A-Za-z_][A-Za-z0-9_]{0,127}$",
};

/// The name of a variable that a manifest sets for its process.
// Variables that control where programs and libraries are loaded from, and those that the kernel
// sets itself, are excluded: a manifest must not run other code than its approved files.
pub(crate) const VARIABLE: TextRule = TextRule {
    expected: "the name of a variable, of letters, digits and `_`, not beginning with a digit, and \
               none of PATH, SKILLHOST_…, LD_… and DYLD_…",
    is_valid: |text| {
        (SECRET.is_valid)(text)
            && text != "PATH"
            && !["SKILLHOST_", "LD_", "DYLD_"].iter().any(|prefix| text.starts_with(prefix))
    },
    pattern: SECRET.pattern,
};

/// The maximum number of variables that a manifest may set.
pub(crate) const MAX_VARIABLES: usize = 64;
/// The format of the variables, in words.
pub(crate) const VARIABLES: &str = "a mapping of at most 64 variables";

/// The range of a process's start timeout in milliseconds.
// Long enough for a first start that downloads packages.
pub(crate) const START_TIMEOUT_RANGE: std::ops::RangeInclusive<u64> = 1_000..=300_000;
/// The range of a process's start timeout, in words.
pub(crate) const START_TIMEOUT: &str = "a whole number of milliseconds from 1000 to 300000";

/// A path of a policy. Relative ones would name the private copy, which is readable anyway.
pub(crate) const SANDBOX_PATH: TextRule = TextRule {
    expected: "an absolute path, or one that begins with `~/`, without `..` and patterns",
    is_valid: is_sandbox_path,
    pattern: r"^(/|~(/|$))[^*?\[\x00-\x1f\x7f]*$",
};

/// A host name of a policy.
pub(crate) const DOMAIN: TextRule = TextRule {
    expected: "a host name, or `*.` and a domain of two labels, without scheme, port and path",
    is_valid: |text| DomainPattern::parse(text).is_ok(),
    pattern: r"^(\*\.)?[A-Za-z0-9_.-]+$",
};

/// The maximum length of a list in a policy.
pub(crate) const MAX_SANDBOX_ENTRIES: usize = 64;
/// The maximum length of a list in a policy, in words.
pub(crate) const SANDBOX_ENTRIES: &str = "a list of at most 64 entries";

/// The topic of an event.
pub(crate) const TOPIC: TextRule = TextRule {
    expected: "a topic of letters, digits, `_`, `-`, `.` and `*`",
    is_valid: |text| is_word(text, 128, b"_-.*"),
    pattern: "^[A-Za-z0-9_.*-]{1,128}$",
};

/// The name of a tool.
pub(crate) const TOOL: TextRule = TextRule {
    expected: "a tool's name, of 1 to 64 letters, digits, `_`, `-` and `.`",
    is_valid: |text| is_word(text, 64, b"_-."),
    pattern: "^[A-Za-z0-9_.-]{1,64}$",
};

/// The prefix of the names of an extension's tools.
pub(crate) const PREFIX: TextRule = TextRule {
    expected: "1 to 32 letters, digits, `_`, `-` and `.`",
    is_valid: |text| is_word(text, 32, b"_-."),
    pattern: "^[A-Za-z0-9_.-]{1,32}$",
};

/// An extension's own name of a tool; not necessarily one that the kernel would accept.
pub(crate) const OWN_TOOL: TextRule = TextRule {
    expected: "a tool's own name: one line of at most 256 bytes",
    is_valid: |text| is_line(text) && text.len() <= 256,
    pattern: "^.{1,256}$",
};

/// The name of a schedule.
pub(crate) const SCHEDULE: TextRule = TextRule {
    expected: "a name of 1 to 64 lower-case letters, digits, `_` and `-`, beginning with a letter",
    is_valid: |text| {
        is_word(text, 64, b"_-")
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && !text.bytes().any(|b| b.is_ascii_uppercase())
    },
    pattern: "^[a-z][a-z0-9_-]{0,63}$",
};

/// The topic of a handled event: a complete topic, a prefix up to a dot, or `*` for all.
pub(crate) const HANDLED_TOPIC: TextRule = TextRule {
    expected: "a topic without `*`, or `*` alone; `skill` also matches `skill.added`",
    is_valid: |text| text == "*" || is_word(text, 128, b"_-."),
    pattern: r"^(\*|[A-Za-z0-9_.-]{1,128})$",
};

/// A name that is printed within a line.
pub(crate) const LINE: TextRule =
    TextRule { expected: "one line of text that is not blank", is_valid: is_line, pattern: "^.+$" };

/// The id of a skill. The skill registry defines the format of ids; this rule only bounds it.
pub(crate) const SKILL: TextRule = TextRule {
    expected: "a skill's id: one line of at most 256 bytes",
    is_valid: |text| is_line(text) && text.len() <= 256,
    pattern: "^.{1,256}$",
};

/// A glob over skill ids.
pub(crate) const GLOB: TextRule = TextRule {
    expected: "a glob such as `review-*`",
    is_valid: |text| is_line(text) && text.len() <= 256 && Glob::new(text).is_ok(),
    pattern: "^.{1,256}$",
};

fn is_word(text: &str, max_len: usize, extra: &[u8]) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || extra.contains(&b);
    (1..=max_len).contains(&text.len()) && text.bytes().all(allowed)
}

fn is_line(text: &str) -> bool {
    !text.trim().is_empty()
        // The two Unicode separators break lines too, but are no control characters.
        && !text.chars().any(|c| c.is_control() || "\u{2028}\u{2029}".contains(c))
}

fn is_argument(text: &str) -> bool {
    text.len() <= 4096 && !text.chars().any(char::is_control)
}

fn is_program(text: &str) -> bool {
    let parts = || text.split('/').filter(|part| *part != ".");
    // A name in PATH is one part; an empty first part would make the path absolute.
    is_argument(text)
        && text.trim() == text
        && parts().next().is_some()
        && parts().all(|part| !part.is_empty() && part != "..")
}

fn is_sandbox_path(text: &str) -> bool {
    let is_rooted = text.starts_with('/') || text == "~" || text.starts_with("~/");
    is_rooted
        && is_argument(text)
        && !text.contains(['*', '?', '['])
        && text.split('/').all(|part| part != "..")
}

fn is_version(text: &str) -> bool {
    let suffix = |text: &str| is_word(text, usize::MAX, b".-");
    let (text, build) = text.split_once('+').map_or((text, None), |(a, b)| (a, Some(b)));
    let (numbers, pre) = text.split_once('-').map_or((text, None), |(a, b)| (a, Some(b)));
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    numbers.split('.').count() <= 3
        && numbers.split('.').all(number)
        && pre.is_none_or(suffix)
        && build.is_none_or(suffix)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::{RngSeed, TestRunner};
    use regex::Regex;

    use super::*;

    const RULES: &[(&str, &TextRule)] = &[
        ("id", &ID),
        ("entrypoint", &ENTRYPOINT),
        ("program", &PROGRAM),
        ("argument", &ARGUMENT),
        ("version", &VERSION),
        ("sha256", &SHA256),
        ("secret", &SECRET),
        ("topic", &TOPIC),
        ("tool", &TOOL),
        ("variable", &VARIABLE),
        ("prefix", &PREFIX),
        ("own tool", &OWN_TOOL),
        ("schedule", &SCHEDULE),
        ("handled", &HANDLED_TOPIC),
        ("line", &LINE),
        ("skill", &SKILL),
        ("glob", &GLOB),
        ("sandbox path", &SANDBOX_PATH),
        ("domain", &DOMAIN),
    ];
    /// Rules whose patterns allow more than the code.
    const LOOSE: &[&str] = &[
        "program",
        "argument",
        "variable",
        "own tool",
        "line",
        "skill",
        "glob",
        "sandbox path",
        "domain",
    ];

    fn compile_rules() -> Vec<(&'static str, &'static TextRule, Regex)> {
        RULES.iter().map(|&(name, rule)| (name, rule, Regex::new(rule.pattern).unwrap())).collect()
    }

    fn check((name, rule, pattern): &(&str, &TextRule, Regex), text: &str) {
        let (is_valid, matches) = ((rule.is_valid)(text), pattern.is_match(text));
        assert!(!is_valid || matches, "{name}: {text:?} is allowed, but its pattern rejects it");
        if !LOOSE.contains(name) {
            assert_eq!(is_valid, matches, "{name}: rule and pattern differ about {text:?}");
        }
    }

    #[test]
    fn patterns_agree_on_edge_cases() {
        let long = ["a".repeat(64), "a".repeat(65), "a".repeat(128), "a".repeat(129)];
        let hex = ["0a".repeat(32), "0A".repeat(32), "0a".repeat(31), "0g".repeat(32)];
        let texts = [
            "",
            " ",
            "a",
            "A",
            "9",
            "_",
            "-",
            ".",
            "*",
            "a.b",
            "a-b_c",
            "a b",
            "é",
            "a\n",
            "\na",
            "a/b",
            "1",
            "1.2",
            "1.2.3",
            "1.2.3.4",
            "1.",
            ".1",
            "01.1",
            "1-",
            "1+",
            "1-a",
            "1+a",
            "1-a.b-c+d.e",
            "1+a-b",
            "1-a+",
            "1-+a",
            "v1",
            "1..2",
            "[",
            "a[",
            "{a,b}",
            "a\u{7}",
            "a\u{2028}b",
            "\u{a0}",
        ];
        for rule in &compile_rules() {
            for text in texts.iter().copied().chain(long.iter().chain(&hex).map(String::as_str)) {
                check(rule, text);
            }
        }
    }

    #[test]
    fn patterns_agree_on_generated_texts() {
        let config = ProptestConfig {
            rng_seed: RngSeed::Fixed(7),
            failure_persistence: None,
            ..ProptestConfig::with_cases(2_000)
        };
        let rules = compile_rules();
        TestRunner::new(config)
            .run(&"[a-cA-C0-2_.+*é -]{0,12}", |text| {
                rules.iter().for_each(|rule| check(rule, &text));
                Ok(())
            })
            .unwrap();
    }
}
