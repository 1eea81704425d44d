//! The file format of a script.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::placeholder::{ScriptContext, TextTemplate};

/// The file of a script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptFile {
    /// The seed of the numbers that `chance` compares.
    #[serde(default)]
    pub(super) seed: u64,
    pub(super) rules: Vec<ScriptRule>,
}

/// A rule with the reply for requests that match its condition.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawScriptRule")]
pub(super) struct ScriptRule {
    pub(super) when: RuleCondition,
    /// The part of the matching requests that the rule answers.
    pub(super) chance: Option<f64>,
    pub(super) say: Option<TextTemplate>,
    pub(super) call: Vec<ScriptedCall>,
}

/// A rule before its validation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScriptRule {
    #[serde(default)]
    when: RuleCondition,
    chance: Option<f64>,
    say: Option<TextTemplate>,
    #[serde(default, deserialize_with = "one_or_many")]
    call: Vec<ScriptedCall>,
}

impl TryFrom<RawScriptRule> for ScriptRule {
    type Error = &'static str;

    fn try_from(raw: RawScriptRule) -> Result<Self, Self::Error> {
        let RawScriptRule { when, chance, say, call } = raw;
        if say.is_none() && call.is_empty() {
            return Err("a rule requires `say` or `call`");
        }
        if chance.is_some_and(|chance| !(0.0..=1.0).contains(&chance)) {
            return Err("`chance` is a number from 0 to 1");
        }
        Ok(Self { when, chance, say, call })
    }
}

/// The condition of a rule; absent fields match every request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RuleCondition {
    /// Words that the last message of the user must contain, case-insensitive.
    #[serde(deserialize_with = "one_or_many")]
    user: Vec<String>,
    /// Words that the instructions must contain, case-insensitive.
    #[serde(deserialize_with = "one_or_many")]
    system: Vec<String>,
    /// The tool whose result is the last message.
    answered: Option<String>,
    /// Words that this result must contain.
    #[serde(deserialize_with = "one_or_many")]
    answer: Vec<String>,
    /// The required error flag of this result.
    failed: Option<bool>,
    /// The number of replies since the user's last message.
    turn: Option<usize>,
    /// Tools that the request must offer.
    #[serde(deserialize_with = "one_or_many")]
    offered: Vec<String>,
}

impl RuleCondition {
    pub(super) fn matches(&self, context: &ScriptContext<'_>) -> bool {
        let has = |text: &str, words: &[String]| {
            let text = text.to_lowercase();
            words.iter().all(|word| text.contains(&word.to_lowercase()))
        };
        let answered = context.last_result();
        has(context.user, &self.user)
            && has(&context.request.system, &self.system)
            && self.turn.is_none_or(|turn| turn == context.turn)
            && self.answered.as_ref().is_none_or(|tool| answered.is_some_and(|it| it.tool == tool))
            && (self.answer.is_empty() || answered.is_some_and(|it| has(it.text, &self.answer)))
            && self.failed.is_none_or(|failed| answered.is_some_and(|it| it.failed == failed))
            && self
                .offered
                .iter()
                .all(|tool| context.request.tools.iter().any(|it| it.name == *tool))
    }
}

/// A tool call of a rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedCall {
    pub(super) tool: String,
    #[serde(default)]
    pub(super) arguments: ArgumentTemplate,
}

/// Arguments whose texts may contain placeholders.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub(super) struct ArgumentTemplate(Map<String, Value>);

impl TryFrom<Map<String, Value>> for ArgumentTemplate {
    type Error = String;

    fn try_from(arguments: Map<String, Value>) -> Result<Self, Self::Error> {
        fn check(value: &Value) -> Result<(), String> {
            match value {
                Value::String(text) => TextTemplate::try_from(text.clone()).map(drop),
                Value::Array(items) => items.iter().try_for_each(check),
                Value::Object(fields) => fields.values().try_for_each(check),
                _ => Ok(()),
            }
        }
        // Validated now, so that an error names the line of the script.
        arguments.values().try_for_each(check)?;
        Ok(Self(arguments))
    }
}

impl ArgumentTemplate {
    pub(super) fn render(&self, context: &ScriptContext<'_>) -> Value {
        fn fill(value: &Value, context: &ScriptContext<'_>) -> Value {
            match value {
                // All texts were validated when the script was parsed, so this does not fail.
                Value::String(text) => TextTemplate::try_from(text.clone())
                    .map_or_else(|_| value.clone(), |it| Value::String(it.render(context))),
                Value::Array(items) => items.iter().map(|item| fill(item, context)).collect(),
                Value::Object(fields) => {
                    fields.iter().map(|(key, value)| (key.clone(), fill(value, context))).collect()
                }
                other => other.clone(),
            }
        }
        self.0.iter().map(|(key, value)| (key.clone(), fill(value, context))).collect()
    }
}

/// Deserializes a list or a single item.
fn one_or_many<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    use std::marker::PhantomData;

    use serde::de::{MapAccess, SeqAccess, Visitor, value};

    struct OneOrMany<T>(PhantomData<T>);

    // Written by hand, because an untagged enum loses the position of an error.
    impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMany<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("one item or a list")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<T>, E> {
            Ok(vec![T::deserialize(value::StrDeserializer::new(text))?])
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
            Ok(vec![T::deserialize(value::MapAccessDeserializer::new(map))?])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Vec<T>, A::Error> {
            Vec::deserialize(value::SeqAccessDeserializer::new(seq))
        }
    }

    deserializer.deserialize_any(OneOrMany(PhantomData))
}
