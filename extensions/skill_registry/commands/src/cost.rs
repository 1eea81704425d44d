//! `skillhost skill cost`: the token cost of skills, and the cuts that clients would make.

mod clients;
mod measure;
mod print;

use serde::Serialize;
use skill_catalog::FoundProblem;
use skill_format::CatalogItem;
use skillhost_terminal::{CliContext, CliError, CommandResult, Output, exit};

use self::clients::{ListingCut, SkillListing};
use self::measure::{SkillCost, TextCost, TokenCounter};
use super::batch::{self, BatchItem};
use crate::arguments::CostArgs;

/// The tokenizer of exact counts, as every result names it.
const ENCODING: &str = "o200k_base";

/// The formula of estimates, as every result names it.
const ESTIMATE: &str = "ceil(chars/4)";

/// The output of the command with `--json`.
#[derive(Debug, Serialize)]
struct CostReport {
    /// [`ENCODING`]; `None` if no text was counted exactly.
    encoding: Option<&'static str>,
    estimate: &'static str,
    skills: Vec<SkillCost>,
    total: TotalCost,
    clients: Vec<ListingCut>,
    problems: Vec<CostProblem>,
}

/// The sum over all skills.
#[derive(Debug, Default, Serialize)]
struct TotalCost {
    /// The number of skills that can be loaded.
    skills: usize,
    /// The catalog without a budget, header and footer included; `None` if models are offered no
    /// skill.
    catalog: Option<TextCost>,
    available_skills: Option<TextCost>,
    instructions: TextCost,
    body: TextCost,
    /// The text files next to SKILL.md.
    resources: TextCost,
    text_files: usize,
    other_files: usize,
    /// The size of all files next to SKILL.md, in bytes.
    resource_bytes: u64,
}

/// A path that could not be read.
#[derive(Debug, Serialize)]
struct CostProblem {
    path: String,
    rule: &'static str,
    message: String,
    help: String,
    /// The exit code of the problem.
    #[serde(skip)]
    code: u8,
}

impl CostProblem {
    fn from_found(found: &FoundProblem) -> Self {
        Self {
            path: found.path.display().to_string(),
            rule: found.rule,
            message: found.message.clone(),
            help: found.help.to_owned(),
            code: batch::exit_code_for(found.kind),
        }
    }
}

pub(super) fn cmd_skill_cost(session: &CliContext, args: &CostArgs) -> CommandResult {
    let output = session.output;
    let mut counter = TokenCounter::new(!args.estimate);
    let mut skills: Vec<SkillCost> = Vec::new();
    let mut listings: Vec<SkillListing> = Vec::new();
    let mut problems: Vec<CostProblem> = Vec::new();
    let mut code = exit::OK;
    let batch = batch::for_each(session, &args.paths, true, |item| {
        let (skill, files) = match item {
            BatchItem::Problem(found) => {
                return report_problem(output, args, CostProblem::from_found(found), &mut problems);
            }
            BatchItem::Skill(skill, files) => (skill, files),
        };
        let (cost, listing, unreadable) = match measure::measure_skill(skill, &files, &mut counter)
        {
            Ok(measured) => measured,
            Err(rejected) => {
                code = batch::worst_exit_code(code, exit::FINDINGS);
                let problem = CostProblem {
                    path: skill.path().display().to_string(),
                    rule: rejected.rule,
                    message: rejected.message,
                    help: rejected.help.unwrap_or_default(),
                    code: exit::FINDINGS,
                };
                return report_problem(output, args, problem, &mut problems);
            }
        };
        for found in &unreadable {
            let problem = CostProblem::from_found(found);
            code = batch::worst_exit_code(code, problem.code);
            report_problem(output, args, problem, &mut problems)?;
        }
        if args.is_jsonl() {
            return output.print_json(&cost);
        }
        skills.push(cost);
        listings.push(listing);
        Ok(())
    })?;
    code = batch::worst_exit_code(code, batch.code);
    if args.is_jsonl() {
        return Ok(code);
    }
    let costs = CostReport {
        encoding: (!args.estimate).then_some(ENCODING),
        estimate: ESTIMATE,
        total: total(&skills, &listings, &mut counter),
        clients: clients::simulate_cuts(&listings, args.context_window),
        skills,
        problems,
    };
    if output.json {
        output.print_json(&costs)?;
    } else {
        print::print(output, &costs)?;
    }
    Ok(code)
}

/// Reports an unreadable path at once, or stores it for the final object.
fn report_problem(
    output: Output,
    args: &CostArgs,
    problem: CostProblem,
    problems: &mut Vec<CostProblem>,
) -> Result<(), CliError> {
    if args.is_jsonl() {
        return output.print_json(&problem);
    }
    let CostProblem { path, rule, message, help, code } = &problem;
    let text = format!("{path}: {message} [{rule}]");
    match *code {
        exit::OK => output.print_note(text),
        _ if output.json => {}
        code => output.print_error(&CliError::new(code, text).with_hint(help.as_str())),
    }
    problems.push(problem);
    Ok(())
}

fn total(skills: &[SkillCost], listings: &[SkillListing], counter: &mut TokenCounter) -> TotalCost {
    let mut total = TotalCost { skills: skills.len(), ..TotalCost::default() };
    for skill in skills {
        total.instructions += skill.instructions;
        total.body += skill.body;
        for resource in &skill.resources {
            total.resource_bytes += resource.size;
            match resource.count {
                Some(count) => {
                    total.resources += count;
                    total.text_files += 1;
                }
                None => total.other_files += 1,
            }
        }
    }
    let mut offered: Vec<&SkillListing> = listings.iter().filter(|it| !it.user_only).collect();
    offered.sort_by(|a, b| a.id.cmp(&b.id));
    let items: Vec<CatalogItem<'_>> = offered.iter().map(|it| it.catalog_item()).collect();
    total.catalog = skill_format::render_catalog(&items, usize::MAX)
        .map(|catalog| counter.count(&catalog.text));
    let block: Vec<_> = offered.iter().map(|it| it.prompt_skill()).collect();
    if !block.is_empty() {
        let block = skill_format::render_available_skills(&block);
        total.available_skills = Some(counter.count(&block));
    }
    total
}
