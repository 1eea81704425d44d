//! Generated skills.

use proptest::prelude::*;
use skill_search::Document;

/// A document that owns its texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Skill {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) when_to_use: String,
    pub(crate) tags: Vec<String>,
    pub(crate) headings: Vec<String>,
    pub(crate) body: String,
}

impl Skill {
    pub(crate) fn document(&self) -> Document<'_> {
        Document {
            id: &self.id,
            name: &self.name,
            description: &self.description,
            when_to_use: &self.when_to_use,
            tags: self.tags.iter().map(String::as_str).collect(),
            headings: self.headings.iter().map(String::as_str).collect(),
            body: &self.body,
        }
    }
}

const WORDS: [&str; 28] = [
    "beads",
    "string",
    "count",
    "counting",
    "report",
    "the",
    "of",
    "C++",
    ".NET",
    "node.js",
    "publish",
    "package",
    "release.",
    "version",
    "colour",
    "# heading",
    "\n",
    "\n## ",
    "\n\n",
    "x1",
    "deploy_app",
    "café",
    "Straße",
    "部署服务",
    "日本語",
    "привет",
    "—",
    "ﬁle",
];

/// Returns a text of generated words.
pub(crate) fn text(words: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let word = prop::sample::select(&WORDS[..]);
    prop::collection::vec(word, words).prop_map(|words| words.join(" "))
}

/// Returns a body: often short, sometimes longer than the part that is read.
fn body() -> impl Strategy<Value = String> {
    let long = (text(20..120), 1_usize..160, 0_usize..9).prop_map(|(text, times, shift)| {
        let blanks = " ".repeat(shift);
        let lines = (0..times).map(|line| format!("{blanks}{text} w{}\n", line * line % 61));
        lines.collect()
    });
    prop_oneof![3 => text(0..60), 1 => long]
}

fn skill() -> impl Strategy<Value = Skill> {
    let lists = (prop::collection::vec(text(1..3), 0..4), prop::collection::vec(text(1..5), 0..6));
    (0_u32..40, text(1..4), text(0..20), text(0..5), lists, body()).prop_map(
        |(id, name, description, when_to_use, (tags, headings), body)| Skill {
            id: format!("skill-{id}"),
            name,
            description,
            when_to_use,
            tags,
            headings,
            body,
        },
    )
}

/// Returns skills, of which some have the same id.
pub(crate) fn skills(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Skill>> {
    prop::collection::vec(skill(), count)
}

/// Returns skills in the order of their ids; of those with the same id, the last one.
pub(crate) fn distinct(skills: &[Skill]) -> Vec<&Skill> {
    let by_id: std::collections::BTreeMap<_, _> = skills.iter().map(|it| (&it.id, it)).collect();
    by_id.into_values().collect()
}
