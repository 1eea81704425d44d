//! `skillhost skill rules`: the rules that skills are checked against.

use serde_json::{Value, json};
use skill_rules::explain::render_page;
use skill_rules::{RULES, Rule, RuleGroup, find_rule, similar_rules};
use skillhost_terminal::{
    CliContext, CliError, CommandResult, TableColumn, display_safe, exit, resolve_id,
};

use crate::arguments::RulesArgs;

pub(super) fn cmd_skill_rules(session: &CliContext, args: &RulesArgs) -> CommandResult {
    let chosen = args.rules.iter().map(|id| find(id)).collect::<Result<Vec<_>, _>>()?;
    if session.output.json {
        let with_docs = !chosen.is_empty();
        let rules = if with_docs { &chosen } else { RULES };
        let rules: Vec<_> = rules.iter().map(|rule| to_json(rule, with_docs)).collect();
        session.output.print_json(&json!({ "rules": rules }))?;
    } else if chosen.is_empty() {
        let columns = [
            TableColumn::fixed("RULE"),
            TableColumn::fixed("SPEC"),
            TableColumn::fixed("GROUP").with_rank(2),
            TableColumn::fixed("FIX").with_rank(1),
            TableColumn::text("FINDS"),
        ];
        session.output.print_table(&columns, &RULES.iter().map(row).collect::<Vec<_>>())?;
    } else {
        for (index, rule) in chosen.into_iter().enumerate() {
            if index > 0 {
                session.output.print_line("")?;
            }
            session.output.print_text(&render_page(rule))?;
        }
    }
    Ok(exit::OK)
}

/// Prints the page of a rule.
pub(super) fn print_rule_page(session: &CliContext, id: &str) -> CommandResult {
    cmd_skill_rules(session, &RulesArgs { rules: vec![id.to_owned()] })
}

fn find(id: &str) -> Result<&'static Rule, CliError> {
    let id = &*resolve_id("rules", id, RULES.iter().map(|rule| rule.id))?;
    find_rule(id).ok_or_else(|| {
        let error =
            CliError::new(exit::NOT_FOUND, format!("rule `{}` not found", display_safe(id)));
        match similar_rules(id).as_slice() {
            [] => error.with_hint("`skillhost skill rules` lists them"),
            similar => error.with_hint(format!("similar rules: {}", similar.join(", "))),
        }
    })
}

fn row(rule: &&Rule) -> Vec<String> {
    vec![
        rule.id.to_owned(),
        rule.levels.spec.as_str().to_owned(),
        group(rule).to_owned(),
        if rule.fixable { "yes" } else { "" }.to_owned(),
        rule.summary.to_owned(),
    ]
}

fn group(rule: &Rule) -> &'static str {
    match rule.group {
        RuleGroup::Validation => "validation",
        RuleGroup::Lint => "lint",
    }
}

fn to_json(rule: &Rule, with_docs: bool) -> Value {
    let mut object = json!({
        "id": rule.id,
        "group": rule.group,
        "summary": rule.summary,
        "levels": rule.levels,
        "fixable": rule.fixable,
    });
    if with_docs {
        object["page"] = render_page(rule).into();
    }
    object
}
