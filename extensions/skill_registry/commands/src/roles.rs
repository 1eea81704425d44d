//! `skillhost skill roles`.

use std::io::Write as _;

use anstyle::{Ansi256Color, RgbColor, Style};
use serde_json::{Value, json};
use skill_compat::role::{RoleCounts, SkillRole};
use skillhost_terminal::{
    BOLD, CliContext, CliError, CommandResult, GREEN, Output, YELLOW, display_safe,
    ignore_broken_pipe,
};

use super::loadable_skills;
use crate::arguments::RolesArgs;

struct TriadMember {
    id: String,
    name: String,
    role: SkillRole,
}

pub(super) fn cmd_skill_roles(session: &CliContext, args: &RolesArgs) -> CommandResult {
    let mut members = Vec::new();
    let mut roles = RoleCounts::default();
    let batch = loadable_skills::for_each(session, &args.paths, |skill, frontmatter| {
        let id = skill.dir_name.clone();
        let name = frontmatter.name.unwrap_or_else(|| id.clone());
        let role = SkillRole::from_name(&name);
        roles.add(role);
        members.push(TriadMember { id, name, role });
        Ok(())
    })?;
    members.sort_by(|a, b| a.id.cmp(&b.id));
    if session.output.json {
        session.output.print_json(&describe(&members, &roles))?;
    } else {
        print(session.output, &members, &roles)?;
    }
    Ok(batch.code)
}

/// Returns the style of a role: its color, or the nearest of 256 unless the terminal announces
/// more.
pub(super) fn role_style(role: SkillRole) -> Style {
    let [red, green, blue] = role.rgb();
    let many = std::env::var_os("COLORTERM").is_some_and(|it| it == "truecolor" || it == "24bit");
    if many {
        return RgbColor(red, green, blue).on_default();
    }
    Ansi256Color(nearest_ansi_color(role)).on_default()
}

/// Returns the nearest of the 256 colors.
pub(super) fn nearest_ansi_color(role: SkillRole) -> u8 {
    match role {
        SkillRole::Coordinator => 214,
        SkillRole::Generator => 135,
        SkillRole::Verifier => 25,
    }
}

fn describe(members: &[TriadMember], roles: &RoleCounts) -> Value {
    let role = |role: SkillRole, count: usize| {
        json!({
            "role": role, "trit": role.trit(), "color": role.hex_color(), "count": count,
        })
    };
    let skill = |member: &TriadMember| {
        json!({
            "skill_id": member.id,
            "name": member.name,
            "trit": member.role.trit(),
            "role": member.role,
            "color": member.role.hex_color(),
        })
    };
    let balancing = roles
        .balancing_role()
        .map(|needed| json!([role(needed, 1), role(balancing_role(needed), 2)]));
    json!({
        "skills": members.iter().map(skill).collect::<Vec<_>>(),
        "roles": SkillRole::ALL.map(|it| role(it, roles.count(it))),
        "sum": roles.sum(),
        "balanced": roles.is_balanced(),
        "balanced_by": balancing.unwrap_or_else(|| json!([])),
    })
}

/// Returns the role of which two balance one of a role other than Coordinator: 2 · 2 = 1 and 2 · 1
/// = 2.
fn balancing_role(needed: SkillRole) -> SkillRole {
    match needed {
        SkillRole::Generator => SkillRole::Verifier,
        _ => SkillRole::Generator,
    }
}

fn print(output: Output, members: &[TriadMember], roles: &RoleCounts) -> Result<(), CliError> {
    let coloured = output.uses_color();
    let paint = |style: Style| if coloured { style } else { Style::new() };
    let mut stdout = output.buffered();
    let mut line = |text: String| ignore_broken_pipe(writeln!(stdout, "{text}"));
    for role in SkillRole::ALL {
        let (bold, plain) = (paint(role_style(role).bold()), paint(role_style(role)));
        let count = roles.count(role);
        let skills = if count == 1 { "skill" } else { "skills" };
        let (trit, colour) = (role.trit(), role.hex_color());
        line(format!("{bold}{}{bold:#} (trit {trit}, {colour}): {count} {skills}", role.as_str()))?;
        for member in members.iter().filter(|member| member.role == role) {
            line(format!("  {plain}{}{plain:#}", display_safe(&member.name)))?;
        }
    }
    let sum = roles.sum();
    match roles.balancing_role() {
        None => {
            let green = paint(GREEN);
            line(format!("{green}balanced{green:#}: the trits sum to 0 mod 3"))?;
        }
        Some(role) => {
            let (yellow, bold) = (paint(YELLOW), paint(BOLD));
            let (one, two) = (role.as_str(), balancing_role(role).as_str());
            line(format!("{yellow}not balanced{yellow:#}: the trits sum to {sum} mod 3"))?;
            line(format!("one more {bold}{one}{bold:#} balances it, or two more {two}s"))?;
        }
    }
    ignore_broken_pipe(stdout.flush())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balancing_role_matches_triad_rule() {
        for counts in [[5, 1, 0], [0, 0, 1], [2, 3, 4]] {
            let roles = RoleCounts { counts };
            let Some(role) = roles.balancing_role() else { continue };
            let mut two = roles;
            two.add(balancing_role(role));
            assert!(!two.is_balanced());
            two.add(balancing_role(role));
            assert!(two.is_balanced(), "{counts:?}");
        }
    }
}
