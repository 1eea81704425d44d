//! `cargo xtask bench`: the numbers, as ratios against the floor or a direct call in one run.

use clap::Args;

use crate::Result;

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {}

/// Prints the table.
pub(crate) fn bench(_args: &BenchArgs) -> Result<()> {
    Ok(())
}
