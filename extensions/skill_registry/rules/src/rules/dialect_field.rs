//! `dialect-field`: a field that only some clients support.

use yaml_tree::Value;

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

/// Fields outside the Agent Skills specification, with their clients and their effect. Sources: the
/// documentation of skills of Claude Code, VS Code, Cursor and OpenClaw.
const FIELDS: [(&str, &str, &str); 20] = [
    ("when_to_use", "Claude Code and skillhost", "add it to the description"),
    ("argument-hint", "Claude Code, VS Code and skillhost", "show it next to the slash command"),
    ("arguments", "Claude Code and skillhost", "name the arguments of the slash command"),
    (
        "disable-model-invocation",
        "Claude Code, Cursor, VS Code, OpenClaw and skillhost",
        "hide the skill from the model",
    ),
    (
        "user-invocable",
        "Claude Code, VS Code, OpenClaw and skillhost",
        "offer or hide the slash command",
    ),
    ("disallowed-tools", "Claude Code", "takes tools away while the skill is active"),
    ("model", "Claude Code", "switches the model while the skill is active"),
    ("effort", "Claude Code", "sets the effort while the skill is active"),
    ("context", "Claude Code", "runs the skill in a subagent with `fork`"),
    ("agent", "Claude Code", "picks the subagent for `context: fork`"),
    ("hooks", "Claude Code", "runs commands at events while the skill is active"),
    ("paths", "Claude Code", "loads the skill only for matching files"),
    ("shell", "Claude Code", "picks the shell for commands in the body"),
    ("command-dispatch", "OpenClaw", "calls a tool without asking the model"),
    ("command-tool", "OpenClaw", "names the tool to call"),
    ("command-arg-mode", "OpenClaw", "says how to pass the arguments on"),
    ("homepage", "OpenClaw", "links to the skill's site"),
    ("tags", "skillhost", "finds and filters skills by them"),
    ("requires", "skillhost", "names the skills to load first"),
    ("version", "skillhost", "shows it"),
];

/// Misspellings of those fields, which no client reads.
const MISSPELLED: [(&str, &str); 8] = [
    ("disable_model_invocation", "disable-model-invocation"),
    ("user_invocable", "user-invocable"),
    ("user-invokable", "user-invocable"),
    ("argument_hint", "argument-hint"),
    ("when-to-use", "when_to_use"),
    ("allowed_tools", "allowed-tools"),
    ("allowedTools", "allowed-tools"),
    ("tools", "allowed-tools"),
];

pub(super) static RULE: Rule = Rule {
    id: "dialect-field",
    group: RuleGroup::Lint,
    extent: RuleExtent::Head,
    summary: "a field is supported by some clients only",
    levels: ProfileLevels::uniform(RuleLevel::Note),
    fixable: false,
    docs: r"
## What it does
Names the clients that support a field outside the Agent Skills specification: `model`, `context`,
`agent`, `hooks`, `paths` and others of Claude Code, `disable-model-invocation` of several,
`command-dispatch` and `metadata.openclaw` of OpenClaw, and `allowed-tools` written as a list. It
also reports misspelled fields. Codex has its own fields in `agents/openai.yaml` next to SKILL.md,
which other clients ignore.

## Why is this bad?
The field is harmless if the author knows its limits: other clients ignore it, and a skill that
relies on it behaves differently there.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
context: fork
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
metadata:
  version: '1.0'
---
Count the beads.
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let Some(root) = skill.tree() else { return };
    for entry in &root.entries {
        let key = &*entry.key.text;
        if let Some((_, clients, what)) = FIELDS.iter().find(|(name, ..)| *name == key) {
            let several = clients.contains(" and ");
            let verb = if several { "act" } else { "acts" };
            findings.add(
                entry.key.span,
                format!("only {clients} {verb} on `{key}`"),
                format!("{}; elsewhere it does nothing", format_purpose(what, several)),
            );
        } else if let Some((_, right)) = MISSPELLED.iter().find(|(name, _)| *name == key) {
            let message = format!("no client acts on `{key}` in a skill");
            findings.add(entry.key.span, message, format!("write `{right}`"));
        } else if key == "allowed-tools" && matches!(entry.value, Value::Sequence(_)) {
            findings.add(
                entry.key.span,
                "only Claude Code and skillhost read `allowed-tools` as a list",
                "write the tools in one line with blanks between them, as the specification says",
            );
        } else if let (true, Value::Mapping(metadata)) = (key == "metadata", &entry.value) {
            for entry in &metadata.entries {
                let key = &*entry.key.text;
                if matches!(key, "openclaw" | "clawdbot" | "clawdis" | "moltbot") {
                    findings.add(
                        entry.key.span,
                        format!("only OpenClaw acts on `metadata.{key}`"),
                        "say in `compatibility` or in the body what the skill needs, too",
                    );
                }
            }
        }
    }
}

/// Adds the pronoun that agrees with one or several clients to a purpose.
fn format_purpose(what: &str, several: bool) -> String {
    if several { format!("they {what}") } else { format!("it {what}") }
}
