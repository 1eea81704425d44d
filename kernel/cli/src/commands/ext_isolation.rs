//! The isolation that a machine offers, in the report of `skillhost ext doctor`.

use skillhost_sandbox::{MachineIsolation, MachineLevel};
use skillhost_terminal::{BOLD, CliError, GREEN, Output, RED, YELLOW, display_safe};

/// Prints the levels, what they lack and how to get it.
pub(super) fn print_isolation(output: Output, machine: &MachineIsolation) -> Result<(), CliError> {
    let reached: Vec<_> =
        machine.levels.iter().filter(|level| level.failure.is_none()).map(describe_level).collect();
    let mut facts = vec![display_safe(&machine.kernel)];
    if machine.landlock_abi > 0 {
        facts.push(format!("Landlock version {}", machine.landlock_abi));
    }
    let facts = facts.join(", ");
    output.print_line(match reached.is_empty() {
        true => format!(
            "{RED}isolation{RED:#} {BOLD}none{BOLD:#} ({facts}): programs that have to be contained are refused"
        ),
        false => format!("{GREEN}isolation{GREEN:#} {} ({facts})", reached.join(", ")),
    })?;
    for gap in &machine.gaps {
        let level = gap.level.map(|level| format!(" {BOLD}{level}{BOLD:#}")).unwrap_or_default();
        let finding = display_safe(&gap.finding.replace('\n', " "));
        output.print_line(format!("  {YELLOW}missing{YELLOW:#}{level}: {finding}"))?;
        for line in gap.remedy.lines() {
            output.print_line(format!("  hint: {}", display_safe(line)))?;
        }
    }
    Ok(())
}

fn describe_level(level: &MachineLevel) -> String {
    // The control group has a line of its own.
    let missing = level.missing.iter().map(|guarantee| guarantee.as_str());
    let missing: Vec<_> = missing.filter(|name| *name != "control_group").collect();
    match missing.is_empty() {
        true => format!("{BOLD}{}{BOLD:#}", level.level),
        false => format!("{BOLD}{}{BOLD:#} without {}", level.level, missing.join(" ")),
    }
}
