//! Roles of skills: their color in boxxy, and the balance of a set of skills.
//!
//! The trit of a name is an element of GF(3), the numbers 0, 1 and 2 with addition modulo 3. It
//! depends on the name of the skill alone. A set of skills is balanced if its trits sum to 0.

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
    /// All roles, in the order of the trits.
    pub const ALL: [Self; 3] = [Self::Coordinator, Self::Generator, Self::Verifier];

    /// Returns the role of a skill with this name.
    ///
    /// The first 8 bytes of the name's SHA-256, as a little-endian number, modulo 3.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        let hash = Sha256::digest(name.as_bytes());
        let mut first = [0; 8];
        // The digest has 32 bytes, so that the slice cannot fail.
        first.copy_from_slice(&hash[..8]);
        Self::from_sum(u64::from_le_bytes(first))
    }

    /// Returns the role whose trit is a number modulo 3.
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

    /// Returns the color as red, green and blue.
    #[must_use]
    pub fn rgb(self) -> [u8; 3] {
        match self {
            Self::Coordinator => [0xf5, 0x9e, 0x0b],
            Self::Generator => [0xa8, 0x55, 0xf7],
            Self::Verifier => [0x2e, 0x5f, 0xa3],
        }
    }

    /// Returns the color in hexadecimal notation, such as `#F59E0B`.
    #[must_use]
    pub fn hex_color(self) -> String {
        let [red, green, blue] = self.rgb();
        format!("#{red:02X}{green:02X}{blue:02X}")
    }
}

/// The number of skills of each role in a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleCounts {
    /// The counts, indexed by trit.
    pub counts: [usize; 3],
}

impl RoleCounts {
    /// Counts a skill.
    pub fn add(&mut self, role: SkillRole) {
        self.counts[usize::from(role.trit())] += 1;
    }

    /// Returns the number of skills with a role.
    #[must_use]
    pub fn count(&self, role: SkillRole) -> usize {
        self.counts[usize::from(role.trit())]
    }

    /// Returns the sum of the trits modulo 3.
    #[must_use]
    pub fn sum(&self) -> u8 {
        // Counts are reduced first, so that the sum cannot overflow.
        let [_, generators, verifiers] = self.counts.map(|count| count % 3);
        match (generators + 2 * verifiers) % 3 {
            0 => 0,
            1 => 1,
            _ => 2,
        }
    }

    /// Returns `true` if the sum is 0. The empty set is balanced.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.sum() == 0
    }

    /// Returns the role whose addition balances the set, or `None` if it is balanced.
    #[must_use]
    pub fn balancing_role(&self) -> Option<SkillRole> {
        (!self.is_balanced()).then(|| SkillRole::from_sum(3 - u64::from(self.sum())))
    }
}

/// A skill of the block that [`to_prompt_boxxy`] renders.
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
/// Attributes are escaped so that the block is XML 1.0 for every text: line breaks and tabs become
/// character references, and characters that XML cannot hold become U+FFFD.
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
            escape_attribute(value, &mut out);
            out.push('"');
        }
        out.push_str(" />\n");
    }
    out.push_str("</available_skills>");
    out
}

fn escape_attribute(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#x27;"),
            // A parser would normalize these three to a blank inside an attribute.
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\t' => out.push_str("&#9;"),
            // XML 1.0 has no way to write these, not even as a reference.
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
    fn role_follows_from_name() {
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
        let roles = SkillRole::ALL.map(|role| (role.trit(), role.as_str(), role.hex_color()));
        let roles = roles.each_ref().map(|(trit, name, color)| (*trit, *name, color.as_str()));
        assert_eq!(
            roles,
            [
                (0, "Coordinator", "#F59E0B"),
                (1, "Generator", "#A855F7"),
                (2, "Verifier", "#2E5FA3"),
            ]
        );
    }

    #[test]
    fn balancing_role_balances_set() {
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
    fn block_has_specified_attributes() {
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
        fn text_stays_in_its_attribute(name in ".{0,20}|[\"'<>&\\n/= ]{0,20}", text in "(?s).{0,40}") {
            let skill = BoxxySkill { name: &name, description: &text, location: &text };
            let block = to_prompt_boxxy(&[skill]);
            prop_assert_eq!(block.lines().count(), 3);
            prop_assert_eq!(block.matches('"').count(), 12);
            prop_assert_eq!(block.matches(['<', '>']).count(), 6);
        }
    }
}
