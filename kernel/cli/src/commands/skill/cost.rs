//! `skillhost skill cost`: what skills cost in tokens, and what clients would cut of them.

mod clients;
mod measure;
mod print;

use serde::Serialize;
use skill_format::CatalogItem;
use skill_store::FoundProblem;

use self::clients::{Cut, Listing};
use self::measure::{Count, Counter, SkillCost};
use super::batch::{self, Item};
use crate::cli::CostArgs;
use crate::error::CliError;
use crate::exit;
use crate::output::{Outcome, Output};
use crate::session::Session;

/// How exact counts were made, as it stands in every result.
const ENCODING: &str = "o200k_base";

/// How estimates were made, as it stands in every result.
const ESTIMATE: &str = "ceil(chars/4)";

/// What the command prints with `--json`.
#[derive(Debug, Serialize)]
struct Costs {
    /// [`ENCODING`]; nothing if nothing was counted exactly.
    encoding: Option<&'static str>,
    estimate: &'static str,
    skills: Vec<SkillCost>,
    total: Total,
    clients: Vec<Cut>,
    problems: Vec<Problem>,
}

/// All skills together.
#[derive(Debug, Default, Serialize)]
struct Total {
    /// Those that can be loaded.
    skills: usize,
    /// The whole catalog without a budget, and the whole block; nothing if no model is offered any.
    catalog: Option<Count>,
    available_skills: Option<Count>,
    instructions: Count,
    body: Count,
    /// The text files beside SKILL.md.
    resources: Count,
    text_files: usize,
    other_files: usize,
    /// The size of all files beside SKILL.md.
    resource_bytes: u64,
}

/// What could not be looked at.
#[derive(Debug, Serialize)]
struct Problem {
    path: String,
    rule: &'static str,
    message: String,
    help: String,
    /// The exit code it stands for.
    #[serde(skip)]
    code: u8,
}

impl Problem {
    fn of(found: &FoundProblem) -> Self {
        Self {
            path: found.path.display().to_string(),
            rule: found.rule,
            message: found.message.clone(),
            help: found.help.to_owned(),
            code: batch::code(found.kind),
        }
    }
}

pub(super) fn cost(session: &Session, args: &CostArgs) -> Outcome {
    let output = session.output;
    let mut counter = Counter::new(!args.estimate);
    let mut skills: Vec<SkillCost> = Vec::new();
    let mut listings: Vec<Listing> = Vec::new();
    let mut problems: Vec<Problem> = Vec::new();
    let mut code = exit::OK;
    let batch = batch::for_each(session, &args.paths, true, |item| {
        let (skill, files) = match item {
            Item::Problem(found) => return told(output, args, Problem::of(found), &mut problems),
            Item::Skill(skill, files) => (skill, files),
        };
        let (cost, listing, unreadable) = match measure::measure(skill, &files, &mut counter) {
            Ok(measured) => measured,
            Err(refused) => {
                code = batch::worse(code, exit::FINDINGS);
                let problem = Problem {
                    path: skill.path().display().to_string(),
                    rule: refused.rule,
                    message: refused.message,
                    help: refused.help.unwrap_or_default(),
                    code: exit::FINDINGS,
                };
                return told(output, args, problem, &mut problems);
            }
        };
        for found in &unreadable {
            let problem = Problem::of(found);
            code = batch::worse(code, problem.code);
            told(output, args, problem, &mut problems)?;
        }
        if args.jsonl {
            return output.object(&cost);
        }
        skills.push(cost);
        listings.push(listing);
        Ok(())
    })?;
    code = batch::worse(code, batch.code);
    if args.jsonl {
        return Ok(code);
    }
    let costs = Costs {
        encoding: (!args.estimate).then_some(ENCODING),
        estimate: ESTIMATE,
        total: total(&skills, &listings, &mut counter),
        clients: clients::cuts(&listings, args.window),
        skills,
        problems,
    };
    if output.json {
        output.object(&costs)?;
    } else {
        print::print(output, &costs)?;
    }
    Ok(code)
}

/// Tells at once what could not be looked at; an object keeps it for its end.
fn told(
    output: Output,
    args: &CostArgs,
    problem: Problem,
    problems: &mut Vec<Problem>,
) -> Result<(), CliError> {
    if args.jsonl {
        return output.object(&problem);
    }
    let Problem { path, rule, message, help, code } = &problem;
    let text = format!("{path}: {message} [{rule}]");
    match *code {
        exit::OK => output.note(text),
        _ if output.json => {}
        code => output.error(&CliError::new(code, text).hint(help.as_str())),
    }
    problems.push(problem);
    Ok(())
}

fn total(skills: &[SkillCost], listings: &[Listing], counter: &mut Counter) -> Total {
    let mut total = Total { skills: skills.len(), ..Total::default() };
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
    let mut offered: Vec<&Listing> = listings.iter().filter(|it| !it.user_only).collect();
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
