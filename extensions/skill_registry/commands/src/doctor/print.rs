//! The printed report for users.

use skillhost_terminal::{CliError, GREEN, Output, RED, TableColumn, YELLOW, display_safe};

use super::SkillDoctorReport;
use super::chain::{PromptStage, StageRow};

/// Prints the stages of every skill, then the reasons, then the remarks on the scan.
pub(super) fn print(output: Output, examination: &SkillDoctorReport) -> Result<(), CliError> {
    let skills = &examination.skills;
    if skills.is_empty() {
        let roots: Vec<_> =
            examination.roots.iter().map(|root| root.path.display().to_string()).collect();
        output.print_note(format!("no skills in {}", roots.join(", ")));
    } else {
        let rows: Vec<Vec<String>> = skills.iter().map(cells).collect();
        let columns = [
            TableColumn::fixed("skill"),
            TableColumn::fixed("root").with_rank(4),
            TableColumn::fixed("discovered").with_rank(3),
            TableColumn::fixed("parsed").with_rank(2),
            TableColumn::fixed("valid").with_rank(1),
            TableColumn::fixed("visible"),
            TableColumn::fixed("in L1"),
        ];
        output.print_table(&columns, &rows)?;
        output.print_line("")?;
    }
    for row in skills {
        details(output, row)?;
    }
    if !skills.is_empty() {
        let visible = skills.iter().filter(|row| row.visible).count();
        let listed = skills.iter().filter(|row| row.in_l1).count();
        let room = examination.catalog.map_or_else(String::new, |catalog| {
            let cut = match catalog.without_description {
                0 => String::new(),
                cut => format!(" ({cut} without a description)"),
            };
            format!("{cut}; the catalog has {} of {} characters", catalog.chars, catalog.budget)
        });
        let skills = match skills.len() {
            1 => "1 skill".to_owned(),
            count => format!("{count} skills"),
        };
        output.print_line(format!("{skills}, {visible} visible, {listed} in L1{room}"))?;
    }
    if let Some(partial) = &examination.partial {
        output.print_note(format!("the scan is incomplete: {partial}"));
    }
    for remark in &examination.remarks {
        output.print_note(format!("{}: {}", remark.path, remark.diagnostic));
    }
    for grant in &examination.not_granted {
        let id = grant.skill_id.as_str();
        let tools = grant.allowed_tools.join(", ");
        output.print_note(format!(
            "`allowed-tools` of `{id}` ({tools}) does not count until a person approves the skill: \
             skillhost skill approve {id}"
        ));
    }
    if !examination.ignored.is_empty() {
        output.print_note(format!("not searched: {}", examination.ignored.join(", ")));
    }
    Ok(())
}

fn cells(row: &StageRow) -> Vec<String> {
    if row.is_copy() {
        // A shadowed skill shares its id with the listed one, so the root tells them apart.
        let name = [row.skill_id.as_str(), row.root.as_deref().unwrap_or("-")];
        let cells = ["yes", "yes", row.valid.map_or("-", |valid| if valid { "yes" } else { "no" })];
        return name.into_iter().chain(cells).chain(["copy"; 2]).map(str::to_owned).collect();
    }
    let word = |reached: bool| if reached { "yes" } else { "no" };
    // The later stages of an unparsed skill are unknown.
    let known = |reached: bool| if row.parsed { word(reached) } else { "-" };
    [
        row.skill_id.as_str(),
        row.root.as_deref().unwrap_or("-"),
        word(row.discovered),
        if row.discovered { word(row.parsed) } else { "-" },
        row.valid.map_or("-", word),
        known(row.visible),
        if row.id_only { "id only" } else { known(row.in_l1) },
    ]
    .map(str::to_owned)
    .into()
}

/// Prints the reason for a missed stage, and further details.
fn details(output: Output, row: &StageRow) -> Result<(), CliError> {
    let quiet = row.reason.is_none()
        && row.missing.is_empty()
        && row.unchecked_tools.is_empty()
        && row.unlisted.is_none()
        && row.notes.is_empty();
    if quiet {
        return Ok(());
    }
    output.print_line(format!("{}  {}", display_safe(&row.skill_id), display_safe(&row.path)))?;
    if let Some(used) =
        row.copy_of.as_ref().filter(|_| row.stopped_at == Some(PromptStage::Visible))
    {
        output.print_line(format!(
            "  note: the same in every file as {}, which is used",
            display_safe(used)
        ))?;
    } else if let (Some(stage), Some(reason)) = (row.stopped_at, &row.reason) {
        let colour = if row.defect { RED } else { YELLOW };
        let not = match stage {
            PromptStage::Discovered => "not a skill",
            PromptStage::Parsed => "not parsed",
            PromptStage::Valid => "not valid",
            PromptStage::Visible => "not visible",
            PromptStage::InL1 => "not in L1",
        };
        let place = match (reason.line, reason.column) {
            (0, _) => String::new(),
            (line, 0) => format!(", line {line}"),
            (line, column) => format!(", line {line}, column {column}"),
        };
        let message = display_safe(&reason.message);
        output
            .print_line(format!("  {colour}{not}{colour:#}: {message} [{}{place}]", reason.rule))?;
        if let Some(help) = &reason.help {
            output.print_line(format!("  {GREEN}hint{GREEN:#}: {}", display_safe(help)))?;
        }
    }
    for missing in &row.missing {
        output.print_line(format!(
            "  {YELLOW}ineligible{YELLOW:#}: {}",
            display_safe(&missing.to_string())
        ))?;
    }
    if !row.unchecked_tools.is_empty() {
        let tools = display_safe(&row.unchecked_tools.join(", "));
        output.print_line(format!("  note: it needs tools, which depend on the agent: {tools}"))?;
    }
    if let Some(reason) = &row.unlisted {
        let reason = display_safe(reason);
        output.print_line(format!(
            "  {YELLOW}not in skills/list{YELLOW:#} for MCP clients: {reason}"
        ))?;
    }
    for note in &row.notes {
        output.print_line(format!("  note: {}", display_safe(note)))?;
    }
    Ok(())
}
