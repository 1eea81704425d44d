//! The isolation that a machine offers, in the report of `skillhost ext doctor`.

use skillhost_sandbox::MachineIsolation;
use skillhost_terminal::{BOLD, CliError, GREEN, Output, RED, YELLOW, display_safe};

/// Prints the levels, what they lack and how to get it.
pub(super) fn print_isolation(output: Output, machine: &MachineIsolation) -> Result<(), CliError> {
    let color = if machine.best_level().is_some() { GREEN } else { RED };
    let summary = display_safe(&machine.summarize());
    output.print_line(format!("{color}isolation{color:#} {summary}"))?;
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
