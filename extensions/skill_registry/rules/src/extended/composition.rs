//! The composition of skills.

use serde::Serialize;
use skill_format::{SkillId, Span, Value};

use super::reader::{RecordReader, SectionRules, excerpt};

pub(super) static RULES: SectionRules = SectionRules {
    name: "composition",
    kind: "composition.type",
    required: "composition.required",
    value: "composition.value",
    unknown: "composition.unknownField",
};

/// The rule for what cannot be satisfied.
const CONTRADICTION: &str = "composition.contradiction";

pub(super) const FIELDS: &[&str] = &["dependencies", "conflicts", "executionOrder"];

/// The skills a skill needs and those it does not get on with (SkillsCraft specification
/// reference).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillComposition {
    /// The skills it builds on, in the order written. Required.
    pub dependencies: Vec<SkillDependency>,
    /// The ids of skills that must not be there together with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// When it runs relative to its dependencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_order: Option<ExecutionOrder>,
}

/// One skill that another builds on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillDependency {
    /// Its id. Required.
    pub skill_name: String,
    /// What for. Required.
    pub reason: String,
    /// Whether the skill works without it; false unless it says so.
    pub optional: bool,
}

/// When a skill runs relative to its dependencies.
///
/// The specification names the words and leaves their meaning open; this is how they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionOrder {
    /// The skill comes before its dependencies: it prepares what they do.
    Before,
    /// The skill comes after its dependencies; what holds if nothing is said.
    After,
    /// The dependencies have to be there; which comes first does not matter.
    Independent,
}

pub(super) fn read_composition(
    reader: &mut RecordReader<'_>,
    value: &Value,
    own: Option<&str>,
) -> Option<SkillComposition> {
    let record = reader.record(RULES.name.to_owned(), value, FIELDS)?;
    let mut composition = SkillComposition::default();
    for (index, item) in reader.list(&record, "dependencies", true).iter().enumerate() {
        let name = format!("{}.dependencies[{index}]", record.name);
        let Some(item) = reader.record(name, item, &["skillName", "reason", "optional"]) else {
            continue;
        };
        let skill = reader.required_text(&item, "skillName");
        let reason = reader.required_text(&item, "reason").unwrap_or_default();
        let optional = reader.boolean(&item, "optional").unwrap_or(false);
        let place = item.field_span("skillName");
        let Some(skill_name) = skill.filter(|name| is_id(reader, name, place)) else { continue };
        if Some(skill_name.as_str()) == own {
            let message = format!("`{skill_name}` depends on itself");
            reader.report(CONTRADICTION, place, message, "remove the dependency");
        }
        composition.dependencies.push(SkillDependency { skill_name, reason, optional });
    }
    for (index, item) in reader.list(&record, "conflicts", false).iter().enumerate() {
        let name = format!("{}.conflicts[{index}]", record.name);
        let text = reader.plain_text(&name, item);
        let Some(other) = text.filter(|name| is_id(reader, name, item.span())) else { continue };
        let needed = composition.dependencies.iter().any(|needs| needs.skill_name == other);
        if needed || Some(other.as_str()) == own {
            let message = if needed {
                format!("`{other}` is both a dependency and a conflict")
            } else {
                format!("`{other}` conflicts with itself")
            };
            reader.report(CONTRADICTION, item.span(), message, "remove one of the two");
        }
        composition.conflicts.push(other);
    }
    composition.execution_order = reader.keyword(
        &record,
        "executionOrder",
        &[
            ("before", ExecutionOrder::Before),
            ("after", ExecutionOrder::After),
            ("independent", ExecutionOrder::Independent),
        ],
    );
    Some(composition)
}

fn is_id(reader: &mut RecordReader<'_>, name: &str, place: Span) -> bool {
    let Err(error) = SkillId::new(name) else { return true };
    let message = format!("`{}` is not the id of a skill: {error}", excerpt(name));
    reader.report(RULES.value, place, message, "write the name of the skill's directory");
    false
}
