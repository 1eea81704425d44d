//! Rendering of the graph as a Mermaid diagram.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use skill_format::sanitize_line;

use super::SkillGraph;
use crate::extended::ExecutionOrder;

/// Renders a graph as a Mermaid flowchart with arrows from a skill to the skills that it needs.
///
/// Dotted arrows are optional, `x--x` is a conflict, a dashed box is a missing skill. An arrow is
/// labeled if the skill does not come after the needed one. Ids are escaped; no id can add an
/// element.
#[must_use]
pub fn render_mermaid(graph: &SkillGraph) -> String {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let own = graph.load_order().chain(graph.behind_cycles.iter().map(String::as_str));
    let cyclic = graph.cycles.iter().flatten().map(String::as_str);
    let edges = graph.edges.iter().flat_map(|edge| [edge.skill.as_str(), &edge.needs]);
    let missing = graph.missing.iter().flat_map(|it| [it.skill.as_str(), &it.needs]);
    for name in own.chain(cyclic).chain(edges).chain(missing) {
        names.insert(name, 0);
    }
    // Nodes are numbered in the order of ids, so that the output is stable.
    for (number, node_number) in names.values_mut().enumerate() {
        *node_number = number;
    }
    let node = |name: &str| names.get(name).copied().unwrap_or_default();
    let mut out = String::from("flowchart TD\n");
    // Writing into a String cannot fail.
    for (name, number) in &names {
        let _ = writeln!(out, "    s{number}[\"{}\"]", escape_label(name));
    }
    for edge in &graph.edges {
        let arrow = match (edge.optional, edge.order) {
            (false, ExecutionOrder::After) => "-->",
            (true, ExecutionOrder::After) => "-.->",
            (false, ExecutionOrder::Before) => "-->|before|",
            (true, ExecutionOrder::Before) => "-.->|before|",
            (false, ExecutionOrder::Independent) => "-->|independent|",
            (true, ExecutionOrder::Independent) => "-.->|independent|",
        };
        let _ = writeln!(out, "    s{} {arrow} s{}", node(&edge.skill), node(&edge.needs));
    }
    for missing in &graph.missing {
        let arrow = if missing.optional { "-.->" } else { "-->" };
        let _ = writeln!(out, "    s{} {arrow} s{}", node(&missing.skill), node(&missing.needs));
    }
    for conflict in &graph.conflicts {
        let _ = writeln!(out, "    s{} x--x s{}", node(&conflict.skill), node(&conflict.with));
    }
    if !graph.missing.is_empty() {
        out.push_str("    classDef missing stroke-dasharray: 5 5\n");
        let mut missing_nodes: Vec<usize> =
            graph.missing.iter().map(|it| node(&it.needs)).collect();
        missing_nodes.sort_unstable();
        missing_nodes.dedup();
        let missing_nodes: Vec<String> =
            missing_nodes.iter().map(|number| format!("s{number}")).collect();
        let _ = writeln!(out, "    class {} missing", missing_nodes.join(","));
    }
    out
}

/// Escapes an id for a label in quotes, with Mermaid's character codes.
fn escape_label(id: &str) -> String {
    let mut out = String::new();
    // Control characters go first, because Mermaid has no code for a line break in a label.
    for c in sanitize_line(id).chars() {
        match c {
            '"' | '#' | '<' | '>' | '&' | '`' | '\\' | ';' | '%' | '[' | ']' | '{' | '}' => {
                let _ = write!(out, "#{};", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{GraphSkill, build_graph};
    use super::*;
    use crate::extended::ParsedExtendedSpec;

    #[test]
    fn label_cannot_add_elements() {
        let composition = "composition:
  dependencies:
    - {skillName: base, reason: x}
    - {skillName: weather, reason: x, optional: true}
  conflicts: [insult]
  executionOrder: before
";
        let composition =
            ParsedExtendedSpec::parse_skill_yaml(composition, "").extended.composition.unwrap();
        let skills = [
            GraphSkill { id: "greet".to_owned(), composition, ..GraphSkill::default() },
            GraphSkill {
                id: "base".to_owned(),
                requires: vec!["a\"] --> x[\"#b\nclick s0".to_owned()],
                ..GraphSkill::default()
            },
            GraphSkill { id: "insult".to_owned(), ..GraphSkill::default() },
        ];
        assert_eq!(
            render_mermaid(&build_graph(&skills)),
            "flowchart TD
    s0[\"a#34;#93; --\u{203a} x#91;#34;#35;b click s0\"]
    s1[\"base\"]
    s2[\"greet\"]
    s3[\"insult\"]
    s4[\"weather\"]
    s2 -->|before| s1
    s1 --> s0
    s2 -.-> s4
    s2 x--x s3
    classDef missing stroke-dasharray: 5 5
    class s0,s4 missing
"
        );
        assert_eq!(render_mermaid(&build_graph(&[])), "flowchart TD\n");
    }
}
