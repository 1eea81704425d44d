//! Roles: the colour a skill has in boxxy, and whether a set of skills balances.
//!
//! A name's trit is an element of GF(3), the numbers 0, 1 and 2 with addition modulo 3. Nothing
//! about a skill but its name goes into it. A set of skills balances if its trits sum to 0.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The role of a skill (formal specification, parts 4 and 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum SkillRole {
    /// Trit 0.
    Coordinator,
    /// Trit 1.
    Generator,
    /// Trit 2.
    Verifier,
}

impl SkillRole {
    /// Every role, in the order of the trits.
    pub const ALL: [Self; 3] = [Self::Coordinator, Self::Generator, Self::Verifier];

    /// Returns the role of a skill of this name.
    ///
    /// The first 8 bytes of the name's SHA-256, as a little-endian number, modulo 3.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        let hash = Sha256::digest(name.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hash[..8]);
        Self::from_sum(u64::from_le_bytes(first))
    }

    /// The role whose trit a number is, modulo 3.
    fn from_sum(sum: u64) -> Self {
        match sum % 3 {
            0 => Self::Coordinator,
            1 => Self::Generator,
            _ => Self::Verifier,
        }
    }

    /// Returns the trit: 0, 1 or 2.
    #[must_use]
    pub fn trit(self) -> u8 {
        match self {
            Self::Coordinator => 0,
            Self::Generator => 1,
            Self::Verifier => 2,
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Coordinator => "Coordinator",
            Self::Generator => "Generator",
            Self::Verifier => "Verifier",
        }
    }

    /// Returns the colour as red, green and blue.
    #[must_use]
    pub fn rgb(self) -> [u8; 3] {
        match self {
            Self::Coordinator => [0xf5, 0x9e, 0x0b],
            Self::Generator => [0xa8, 0x55, 0xf7],
            Self::Verifier => [0x2e, 0x5f, 0xa3],
        }
    }

    /// Returns the colour as it is written, such as `#F59E0B`.
    #[must_use]
    pub fn hex_color(self) -> String {
        let [red, green, blue] = self.rgb();
        format!("#{red:02X}{green:02X}{blue:02X}")
    }
}

/// How many skills of each role a set has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleCounts {
    /// By trit.
    pub counts: [usize; 3],
}

impl RoleCounts {
    /// Counts a skill.
    pub fn add(&mut self, role: SkillRole) {
        self.counts[usize::from(role.trit())] += 1;
    }

    /// Returns how many skills have a role.
    #[must_use]
    pub fn count(&self, role: SkillRole) -> usize {
        self.counts[usize::from(role.trit())]
    }

    /// Returns the sum of the trits modulo 3.
    #[must_use]
    pub fn sum(&self) -> u8 {
        // Reduced first, so that no count is too large.
        let [_, generators, verifiers] = self.counts.map(|count| count % 3);
        match (generators + 2 * verifiers) % 3 {
            0 => 0,
            1 => 1,
            _ => 2,
        }
    }

    /// Tells whether the sum is 0. The empty set balances.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.sum() == 0
    }

    /// Returns the role one more skill of which would balance the set; nothing if it balances.
    #[must_use]
    pub fn balancing_role(&self) -> Option<SkillRole> {
        (!self.is_balanced()).then(|| SkillRole::from_sum(3 - u64::from(self.sum())))
    }
}

/// One skill of the block that [`to_prompt_boxxy`] makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxxySkill<'a> {
    /// The skill's name; its role follows from it.
    pub name: &'a str,
    /// Its description.
    pub description: &'a str,
    /// The path of its SKILL.md.
    pub location: &'a str,
}

/// Renders the metadata of skills as the formal specification does (part 4, level 1): an element
/// with attributes for each, in `<available_skills>`, a line each, without a final newline.
///
/// Attributes are escaped so that the block is XML 1.0 whatever the texts are: line breaks and tabs
/// as character references, and what XML cannot hold as U+FFFD.
#[must_use]
pub fn to_prompt_boxxy(skills: &[BoxxySkill<'_>]) -> String {
    let mut out = String::from("<available_skills>\n");
    for skill in skills {
        let role = SkillRole::from_name(skill.name);
        let trit = role.trit().to_string();
        out.push_str("<skill");
        for (attribute, value) in [
            ("name", skill.name),
            ("description", skill.description),
            ("location", skill.location),
            ("trit", &trit),
            ("role", role.as_str()),
            ("color", &role.hex_color()),
        ] {
            out.push(' ');
            out.push_str(attribute);
            out.push_str("=\"");
            escape_into(value, &mut out);
            out.push('"');
        }
        out.push_str(" />\n");
    }
    out.push_str("</available_skills>");
    out
}

fn escape_into(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#x27;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\t' => out.push_str("&#9;"),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_role_follows_from_the_name() {
        // Computed with Python's hashlib; `pdf` is the formal specification's own example.
        for (name, role) in [
            ("pdf", SkillRole::Coordinator),
            ("xlsx", SkillRole::Coordinator),
            ("code-review", SkillRole::Coordinator),
            ("gay-mcp", SkillRole::Verifier),
            ("a", SkillRole::Generator),
            ("b", SkillRole::Generator),
            ("", SkillRole::Generator),
            ("na\u{ef}ve", SkillRole::Coordinator),
        ] {
            assert_eq!(SkillRole::from_name(name), role, "{name}");
        }
        let shown = SkillRole::ALL.map(|role| (role.trit(), role.as_str(), role.hex_color()));
        let shown = shown.each_ref().map(|(trit, name, colour)| (*trit, *name, colour.as_str()));
        assert_eq!(
            shown,
            [
                (0, "Coordinator", "#F59E0B"),
                (1, "Generator", "#A855F7"),
                (2, "Verifier", "#2E5FA3"),
            ]
        );
    }

    #[test]
    fn one_skill_of_the_balancing_role_balances() {
        for counts in (0..216).map(|n| [n % 6, n / 6 % 6, n / 36]) {
            let mut triads = RoleCounts { counts };
            let sum = (counts[1] + 2 * counts[2]) % 3;
            assert_eq!(usize::from(triads.sum()), sum, "{counts:?}");
            assert_eq!(triads.is_balanced(), sum == 0);
            match triads.balancing_role() {
                Some(role) => {
                    triads.add(role);
                    assert!(triads.is_balanced(), "{counts:?} {role:?}");
                }
                None => assert_eq!(sum, 0),
            }
        }
        let large = RoleCounts { counts: [usize::MAX; 3] };
        assert!(large.is_balanced());
    }

    #[test]
    fn the_block_has_the_attributes_of_the_specification() {
        let pdf = BoxxySkill {
            name: "pdf",
            description: "Extract text and tables from PDF files.",
            location: "/path/to/pdf/SKILL.md",
        };
        let odd = BoxxySkill {
            name: "b",
            description: "Wraps <b>\"it's\"</b> & more.\n\tTwice.\u{1b}[2J",
            location: "/a \" />",
        };
        assert_eq!(
            to_prompt_boxxy(&[pdf, odd]),
            "<available_skills>\n\
             <skill name=\"pdf\" description=\"Extract text and tables from PDF files.\" \
             location=\"/path/to/pdf/SKILL.md\" trit=\"0\" role=\"Coordinator\" color=\"#F59E0B\" />\n\
             <skill name=\"b\" description=\"Wraps &lt;b&gt;&quot;it&#x27;s&quot;&lt;/b&gt; &amp; \
             more.&#10;&#9;Twice.\u{fffd}[2J\" location=\"/a &quot; /&gt;\" trit=\"1\" \
             role=\"Generator\" color=\"#A855F7\" />\n\
             </available_skills>"
        );
        assert_eq!(to_prompt_boxxy(&[]), "<available_skills>\n</available_skills>");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_text_leaves_its_attribute(name in ".{0,20}|[\"'<>&\\n/= ]{0,20}", text in "(?s).{0,40}") {
            let skill = BoxxySkill { name: &name, description: &text, location: &text };
            let block = to_prompt_boxxy(&[skill]);
            prop_assert_eq!(block.lines().count(), 3);
            prop_assert_eq!(block.matches('"').count(), 12);
            prop_assert_eq!(block.matches(['<', '>']).count(), 6);
        }
    }
}
