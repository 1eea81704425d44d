//! `skillhost skill graph`.

use std::io::Write as _;

use serde_json::json;
use skill_catalog::{FoundSkill, read_skill_yaml};
use skill_compat::extended::{ExtendedSpec, ParsedExtendedSpec};
use skill_compat::graph::{GraphSkill, SkillGraph, build_graph as graph_of, render_mermaid};
use skill_format::SKILL_YAML;
use skillhost_terminal::{
    CliContext, CliError, CommandResult, DIM, Output, RED, YELLOW, display_safe, exit,
    ignore_broken_pipe,
};

use super::batch::worst_exit_code;
use super::loadable_skills;
use crate::arguments::GraphArgs;

pub(super) fn cmd_skill_graph(session: &CliContext, args: &GraphArgs) -> CommandResult {
    let output = session.output;
    if args.is_mermaid() && output.json {
        return Err(CliError::usage("--format mermaid conflicts with --json")
            .with_hint("choose one of them"));
    }
    let mut skills = Vec::new();
    let batch = loadable_skills::for_each(session, &args.paths, |skill, frontmatter| {
        let extended =
            ExtendedSpec::from_frontmatter(&frontmatter).merge_with(read_sidecar(output, skill));
        skills.push(GraphSkill {
            id: skill.dir_name.clone(),
            requires: frontmatter.requires,
            composition: extended.composition.unwrap_or_default(),
        });
        Ok(())
    })?;
    let graph = graph_of(&skills);
    for id in &graph.duplicates {
        output.print_note(format!("several skills are called `{id}`; the first counts"));
    }
    if args.is_mermaid() {
        let mut stdout = output.buffered();
        ignore_broken_pipe(
            stdout.write_all(render_mermaid(&graph).as_bytes()).and_then(|()| stdout.flush()),
        )?;
    } else if output.json {
        let order: Vec<&str> = graph.load_order().collect();
        let mut object = json!({ "order": order, "sound": !graph.has_problems() });
        let fields = serde_json::to_value(&graph).map_err(std::io::Error::from)?;
        for (key, value) in fields.as_object().into_iter().flatten() {
            object[key.as_str()] = value.clone();
        }
        output.print_json(&object)?;
    } else {
        print(output, &graph)?;
    }
    Ok(worst_exit_code(batch.code, if graph.has_problems() { exit::FINDINGS } else { exit::OK }))
}

/// Reads the `skill.yaml` next to a SKILL.md; problems in it become notes.
fn read_sidecar(output: Output, skill: &FoundSkill) -> ExtendedSpec {
    let path = skill.dir.join(SKILL_YAML);
    match read_skill_yaml(&skill.dir) {
        Ok(None) => ExtendedSpec::default(),
        Ok(Some(text)) => {
            let reading = ParsedExtendedSpec::parse_skill_yaml(&text, &skill.dir_name);
            for found in reading.warnings() {
                output.print_note(format!("{}:{found}", path.display()));
            }
            reading.extended
        }
        Err(error) => {
            output.print_note(format!("{} is not used: {error}", path.display()));
            ExtendedSpec::default()
        }
    }
}

/// Prints one line per skill, `level  id`, then one per problem.
fn print(output: Output, graph: &SkillGraph) -> Result<(), CliError> {
    let coloured = output.uses_color();
    let paint = |style: anstyle::Style| if coloured { style } else { anstyle::Style::new() };
    let (dim, yellow, red) = (paint(DIM), paint(YELLOW), paint(RED));
    let width = graph.levels.len().to_string().len();
    let mut stdout = output.buffered();
    let mut line = |text: String| ignore_broken_pipe(writeln!(stdout, "{text}"));
    for (level, ids) in graph.levels.iter().enumerate() {
        for id in ids {
            line(format!("{dim}{:>width$}{dim:#}  {}", level + 1, display_safe(id)))?;
        }
    }
    for missing in &graph.missing {
        let (skill, needs) = (display_safe(&missing.skill), display_safe(&missing.needs));
        line(if missing.optional {
            format!("{yellow}optional{yellow:#}: `{skill}` can use `{needs}`, which is not here")
        } else {
            format!("{red}missing{red:#}: `{skill}` needs `{needs}`, which is not here")
        })?;
    }
    for conflict in &graph.conflicts {
        let (skill, with) = (display_safe(&conflict.skill), display_safe(&conflict.with));
        line(format!("{red}conflict{red:#}: `{skill}` and `{with}` exclude each other"))?;
    }
    for cycle in &graph.cycles {
        let path: Vec<String> = cycle.iter().map(|id| display_safe(id)).collect();
        line(format!("{red}cycle{red:#}: {}", path.join(" \u{2192} ")))?;
    }
    if graph.more_in_cycles > 0 {
        let more = graph.more_in_cycles;
        line(format!("{red}cycle{red:#}: {more} more skills are in cycles with these"))?;
    }
    for id in &graph.behind_cycles {
        line(format!("{yellow}waits{yellow:#}: `{}` has to come after a cycle", display_safe(id)))?;
    }
    ignore_broken_pipe(stdout.flush())
}
