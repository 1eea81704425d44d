//! The `<available_skills>` block of skills-ref.

/// One skill of the `<available_skills>` block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptSkill<'a> {
    /// The skill's name.
    pub name: &'a str,
    /// The skill's description.
    pub description: &'a str,
    /// The path of its SKILL.md.
    pub location: &'a str,
}

/// Renders the `<available_skills>` block as the reference tool skills-ref 0.1.1 prints it.
///
/// The one difference: skills-ref prints a location unchanged; here `&`, `<` and `>` in it are
/// escaped, so that the block stays XML for any directory name.
#[must_use]
pub fn render_available_skills(skills: &[PromptSkill<'_>]) -> String {
    let mut out = String::from("<available_skills>\n");
    for skill in skills {
        out.push_str("<skill>\n<name>\n");
        escape_into(skill.name, &mut out);
        out.push_str("\n</name>\n<description>\n");
        escape_into(skill.description, &mut out);
        out.push_str("\n</description>\n<location>\n");
        escape_location_into(skill.location, &mut out);
        out.push_str("\n</location>\n</skill>\n");
    }
    out.push_str("</available_skills>");
    out
}

/// Escapes text for element content and for attribute values in either kind of quotes.
pub(super) fn escape_into(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#x27;"),
            c => out.push(c),
        }
    }
}

/// Escapes a path without touching its quotes, which skills-ref leaves unchanged.
fn escape_location_into(path: &str, out: &mut String) {
    for c in path.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn block_matches_reference_tool() {
        let skill = PromptSkill {
            name: "xml-tag",
            description: "Wraps <b>\"it's\"</b> & more.\nTwice.",
            location: "/it's/xml-tag/SKILL.md",
        };
        assert_eq!(
            render_available_skills(&[skill, PromptSkill { location: "/a&<b>", ..skill }]),
            "<available_skills>\n\
             <skill>\n<name>\nxml-tag\n</name>\n\
             <description>\nWraps &lt;b&gt;&quot;it&#x27;s&quot;&lt;/b&gt; &amp; more.\nTwice.\n</description>\n\
             <location>\n/it's/xml-tag/SKILL.md\n</location>\n</skill>\n\
             <skill>\n<name>\nxml-tag\n</name>\n\
             <description>\nWraps &lt;b&gt;&quot;it&#x27;s&quot;&lt;/b&gt; &amp; more.\nTwice.\n</description>\n\
             <location>\n/a&amp;&lt;b&gt;\n</location>\n</skill>\n\
             </available_skills>"
        );
        assert_eq!(render_available_skills(&[]), "<available_skills>\n</available_skills>");
    }

    fn unescaped(text: &str) -> String {
        text.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#x27;", "'")
            .replace("&amp;", "&")
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn escaped_text_reads_back(texts in proptest::collection::vec(".{0,20}|[&<>;a-z]{0,20}", 3)) {
            let [name, description, location] = &texts[..] else { unreachable!() };
            let block = render_available_skills(&[PromptSkill { name, description, location }]);
            let between = |tag: &str| {
                let (_, rest) = block.split_once(&format!("<{tag}>\n"))?;
                let (inner, rest) = rest.split_once(&format!("\n</{tag}>"))?;
                (!rest.contains(&format!("<{tag}>"))).then(|| unescaped(inner))
            };
            prop_assert_eq!(between("name").unwrap_or_default(), name.as_str());
            prop_assert_eq!(between("description").unwrap_or_default(), description.as_str());
            prop_assert_eq!(between("location").unwrap_or_default(), location.as_str());
            prop_assert_eq!(block.matches('<').count(), 10);
        }
    }
}
