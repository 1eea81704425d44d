//! Parsing of the composition of skills.

use serde::Serialize;
use skill_format::SkillId;
use yaml_tree::{Span, Value};

use super::reader::{RecordReader, SectionRules, excerpt};

pub(super) static RULES: SectionRules = SectionRules {
    name: "composition",
    kind: "composition.type",
    required: "composition.required",
    value: "composition.value",
    unknown: "composition.unknownField",
};

/// The rule for compositions that cannot be satisfied.
const CONTRADICTION: &str = "composition.contradiction";

pub(super) const FIELDS: &[&str] = &["dependencies", "conflicts", "executionOrder"];

/// The skills that a skill needs and the skills that it conflicts with (SkillsCraft specification
/// reference).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillComposition {
    /// The skills it depends on, in the order written. Required.
    pub dependencies: Vec<SkillDependency>,
    /// The ids of skills that must not be used together with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// The position relative to its dependencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_order: Option<ExecutionOrder>,
}

/// A skill that another one depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillDependency {
    /// Its id. Required.
    pub skill_name: String,
    /// The reason. Required.
    pub reason: String,
    /// Whether the skill works without it; `false` by default.
    pub optional: bool,
}

/// The position of a skill relative to its dependencies.
///
/// The specification names the words but not their meaning; the variants document the
/// interpretation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionOrder {
    /// The skill comes before its dependencies, to prepare their work.
    Before,
    /// The skill comes after its dependencies; the default.
    After,
    /// The dependencies must exist; the order is free.
    Independent,
}

pub(super) fn read_composition(
    reader: &mut RecordReader<'_>,
    value: &Value,
    own: Option<&str>,
) -> Option<SkillComposition> {
    let record = reader.read_record(RULES.name.to_owned(), value, FIELDS)?;
    let mut composition = SkillComposition::default();
    for (index, item) in reader.read_list(&record, "dependencies", true).iter().enumerate() {
        let name = format!("{}.dependencies[{index}]", record.name);
        let Some(item) = reader.read_record(name, item, &["skillName", "reason", "optional"])
        else {
            continue;
        };
        let skill = reader.required_text(&item, "skillName");
        let reason = reader.required_text(&item, "reason").unwrap_or_default();
        let optional = reader.read_boolean(&item, "optional").unwrap_or(false);
        let span = item.field_span("skillName");
        // Without a valid id the dependency cannot be resolved and is dropped.
        let Some(skill_name) = skill.filter(|name| check_id(reader, name, span)) else { continue };
        if Some(skill_name.as_str()) == own {
            let message = format!("`{skill_name}` depends on itself");
            // The dependency is kept, so that the graph shows the cycle.
            reader.report(CONTRADICTION, span, message, "remove the dependency");
        }
        composition.dependencies.push(SkillDependency { skill_name, reason, optional });
    }
    for (index, item) in reader.read_list(&record, "conflicts", false).iter().enumerate() {
        let name = format!("{}.conflicts[{index}]", record.name);
        let text = reader.read_plain_text(&name, item);
        let Some(other) = text.filter(|name| check_id(reader, name, item.span())) else { continue };
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
    composition.execution_order = reader.read_keyword(
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

fn check_id(reader: &mut RecordReader<'_>, name: &str, span: Span) -> bool {
    let Err(error) = SkillId::new(name) else { return true };
    let message = format!("`{}` is not the id of a skill: {error}", excerpt(name));
    reader.report(RULES.value, span, message, "write the name of the skill's directory");
    false
}
