//! The arguments of the commands for scripts.

use std::path::PathBuf;

use clap::Args;

use super::paths::SkillRoots;

#[derive(Debug, Args)]
#[command(after_help = "\
The script runs in isolation, from a private copy of the skill, without a network and without input.
Only the work directory can be written: that of --workdir, else sandbox/work/operator in the home.
Exit codes: that of the script, 128 and the number of a signal that ended it, 124 if a limit ended it.
Before the script starts: 2 arguments that are not valid, 3 unknown skill, script or interpreter, 4 files
that change, 5 no isolation or an I/O error.")]
pub struct RunScriptArgs {
    /// Skill, or SKILL@ROOT
    pub(crate) id: String,
    /// Script, relative to the skill
    pub(crate) path: String,
    /// Arguments of the script; options follow `--`
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<String>,
    /// Variable for the script; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Directory in which it starts and may write, or @skill
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<String>,
    /// JSON file with permissions and limits for this run
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Print what the script may do and why, and run nothing
    #[arg(long)]
    pub(crate) explain: bool,
    /// Roots
    #[command(flatten)]
    pub(crate) roots: SkillRoots,
}

#[derive(Debug, Args)]
#[command(after_help = "\
An approval covers exactly the files, the policies of scripts and of programs, and the isolation levels
of the moment, for agents of this home. A changed file, another policy or a weaker level ends it. Without a terminal, --yes and the
digest of the files are required, which `skillhost skill show ID` prints.
Exit codes: 1 not approved, 2 no explicit approval, 3 unknown skill or one without code, 4 changed files,
5 I/O error, no isolation, or a skill of a root that is not the operator's.")]
pub struct ApproveScriptsArgs {
    /// Skill
    pub(crate) id: String,
    /// Revoke the approval
    #[arg(long, conflicts_with_all = ["digest", "yes"])]
    pub(crate) revoke: bool,
    /// Digest of the approved files, or a prefix of at least twelve digits
    #[arg(long, value_name = "SHA")]
    pub(crate) digest: Option<String>,
    /// Approve without a question; requires --digest
    #[arg(long)]
    pub(crate) yes: bool,
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a variable is NAME=VALUE".to_owned()),
    }
}
