//! Printed costs for users.

use skillhost_terminal::{CliError, Output, TableColumn};

use super::measure::{SkillCost, TextCost};
use super::{CostReport, TotalCost};

/// Prints each skill part by part, then the cuts of the clients.
pub(super) fn print(output: Output, costs: &CostReport) -> Result<(), CliError> {
    match costs.skills.as_slice() {
        [] => return Ok(()),
        [skill] => one(output, skill)?,
        skills => several(output, skills, &costs.total)?,
    }
    output.print_line("")?;
    let rows: Vec<Vec<String>> = costs
        .clients
        .iter()
        .map(|cut| {
            vec![
                cut.client.to_owned(),
                format!("{} of {}", cut.chars, cut.budget),
                cut.listed.to_string(),
                cut.shortened.to_string(),
                cut.without_description.to_string(),
                cut.omitted.to_string(),
            ]
        })
        .collect();
    let columns = [
        TableColumn::fixed("client"),
        TableColumn::fixed("characters"),
        TableColumn::fixed("listed"),
        TableColumn::fixed("shortened").with_rank(2),
        TableColumn::fixed("without description").with_rank(1),
        TableColumn::fixed("left out"),
    ];
    output.print_table(&columns, &rows)?;
    output.print_line("")?;
    match costs.encoding {
        Some(encoding) => output
            .print_line(format!("tokens of {encoding}; after ~ estimates, {}", costs.estimate)),
        None => output.print_line(format!("estimated tokens, {}", costs.estimate)),
    }
}

fn one(output: Output, skill: &SkillCost) -> Result<(), CliError> {
    let part =
        |name: &str, count: TextCost| vec![name.to_owned(), tokens(count), count.chars.to_string()];
    let mut rows = Vec::new();
    if let Some(count) = skill.catalog_line {
        rows.push(part("catalog line", count));
    }
    if let Some(count) = skill.available_skills {
        rows.push(part("<available_skills>", count));
    }
    rows.push(part("instructions", skill.instructions));
    rows.push(part("body", skill.body));
    for resource in &skill.resources {
        rows.push(match resource.count {
            Some(count) => part(&resource.path, count),
            None => {
                let why = if resource.content == "binary" { "binary" } else { "too large" };
                vec![resource.path.clone(), format!("{why}, {} bytes", resource.size)]
            }
        });
    }
    let columns = [
        TableColumn::fixed(&skill.skill_id),
        TableColumn::fixed("tokens"),
        TableColumn::fixed("characters"),
    ];
    output.print_table(&columns, &rows)
}

fn several(output: Output, skills: &[SkillCost], total: &TotalCost) -> Result<(), CliError> {
    let mut rows: Vec<Vec<String>> = Vec::with_capacity(skills.len() + 1);
    for skill in skills {
        let mut resources = TextCost::default();
        let mut others = 0;
        for resource in &skill.resources {
            match resource.count {
                Some(count) => resources += count,
                None => others += 1,
            }
        }
        let texts = skill.resources.len() - others;
        rows.push(vec![
            skill.skill_id.clone(),
            optional(skill.catalog_line),
            optional(skill.available_skills),
            tokens(skill.instructions),
            tokens(skill.body),
            files(resources, texts, others),
        ]);
    }
    rows.push(vec![
        format!("{} skills", total.skills),
        optional(total.catalog),
        optional(total.available_skills),
        tokens(total.instructions),
        tokens(total.body),
        files(total.resources, total.text_files, total.other_files),
    ]);
    let columns = [
        TableColumn::fixed("skill"),
        TableColumn::fixed("catalog"),
        TableColumn::fixed("<available_skills>").with_rank(2),
        TableColumn::fixed("instructions"),
        TableColumn::fixed("body").with_rank(1),
        TableColumn::text("resources"),
    ];
    output.print_table(&columns, &rows)
}

/// Formats a count, or a dash for a part that models are not offered.
fn optional(count: Option<TextCost>) -> String {
    count.map_or_else(|| "user only".to_owned(), tokens)
}

fn files(count: TextCost, texts: usize, others: usize) -> String {
    match (texts, others) {
        (0, 0) => String::new(),
        (texts, 0) => format!("{} in {texts}", tokens(count)),
        (0, others) => format!("{others} not text"),
        (texts, others) => format!("{} in {texts}, {others} not text", tokens(count)),
    }
}

fn tokens(count: TextCost) -> String {
    match count.o200k {
        Some(exact) => format!("{exact} ~{}", count.estimate),
        None => format!("~{}", count.estimate),
    }
}
