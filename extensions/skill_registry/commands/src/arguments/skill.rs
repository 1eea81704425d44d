//! The arguments of `skillhost skill`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use skill_test_command::{OptimizeArgs, TestArgs};

use super::export::ExportArgs;
use super::paths::{SkillPaths, SkillRoots};
use super::policy::{PolicyArgs, PolicyFileArgs, ProfileArg};
use super::proposals::{LedgerCommand, ProposalCommand};
use super::scripts::{ApproveScriptsArgs, RunScriptArgs};

/// A format of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Text with the place, the problem and the remedy
    Human,
    /// One JSON object
    Json,
    /// JSON lines, one object per skill
    Jsonl,
    /// SARIF 2.1.0
    Sarif,
    /// Workflow commands of GitHub Actions
    Github,
    /// Lines of the reference validator; requires --profile reference
    Reference,
}

/// A command about skills.
#[derive(Debug, Subcommand)]
pub enum SkillCommand {
    /// List skills
    #[command(visible_alias = "ls")]
    List {
        /// Text in the id, name, description or tags
        query: Option<String>,
        /// Only skills with this tag; if repeated, with all of them
        #[arg(long, value_name = "TAG")]
        tag: Vec<String>,
        /// Roots
        #[command(flatten)]
        roots: SkillRoots,
    },
    /// Search the skills that fit a task, best first
    Search(SearchArgs),
    /// Print frontmatter, digest, tokens and diagnostics of a skill
    Show {
        /// Skill, or SKILL@ROOT
        id: String,
        /// Roots
        #[command(flatten)]
        roots: SkillRoots,
    },
    /// Enable skills
    Enable(EnableArgs),
    /// Disable skills or restrict their use
    Disable(DisableArgs),
    /// Print the instructions or a file of a skill as an agent reads them
    Read {
        /// Skill, or SKILL@ROOT
        id: String,
        /// File, relative to the skill [default: the instructions]
        path: Option<String>,
        /// Roots
        #[command(flatten)]
        roots: SkillRoots,
    },
    /// The earlier spelling of `skill read ID PATH`
    #[command(hide = true)]
    Resource {
        /// Skill, or SKILL@ROOT
        id: String,
        /// File, relative to the skill
        path: String,
        /// Roots
        #[command(flatten)]
        roots: SkillRoots,
    },
    /// Run a script of a skill in isolation
    Run(RunScriptArgs),
    /// Let agents run the scripts of a skill without a question
    ApproveScripts(ApproveScriptsArgs),
    /// Validate skills against a specification; exit 1 on an error
    Validate(ValidateArgs),
    /// Lint skills; exit 1 on a finding
    Lint(LintArgs),
    /// Test skills against their cases
    Test(TestArgs),
    /// Improve a skill with a model and propose the result
    Optimize(OptimizeArgs),
    /// Run a language server for SKILL.md on standard input and output
    #[command(after_help = "\
Editors start it; docs/lint.md has the settings for Neovim, Helix and VS Code. It reports the findings
of lint while a file is edited, with the policy of its repository. Exit codes: 0 after a shutdown by
the editor, 1 if the editor ended without one.")]
    Lsp,
    /// Format the frontmatter of skills
    Fmt(FmtArgs),
    /// Call a program of a skill
    Call(CallArgs),
    /// Create a skill
    New(NewArgs),
    /// Print the lint rules
    Rules(RulesArgs),
    /// Print the token costs of skills
    Cost(CostArgs),
    /// Explain why each skill does or does not reach an agent's prompt
    Doctor(DoctorArgs),
    /// Explain the catalog that an agent is shown for a prompt
    Explain(ExplainArgs),
    /// Check the dependencies of skills and print their load order
    Graph(GraphArgs),
    /// Render a skill as Markdown in the terminal
    Render(RenderArgs),
    /// Print the roles of a set of skills and their balance
    #[command(alias = "triads")]
    Roles(RolesArgs),
    /// Export skills for Claude Code, Codex or Gemini CLI
    Export(ExportArgs),
    /// Print the properties of a skill like the reference tool
    ReadProperties(ReferenceArgs),
    /// Print skills as a block for a system prompt
    ToPrompt(ToPromptArgs),
    /// Proposals and versions
    #[command(flatten)]
    Ledger(LedgerCommand),
}

impl SkillCommand {
    /// Returns the agent that the command names.
    pub fn agent_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Explain(args) => Some(&mut args.agent),
            Self::Doctor(args) => args.agent.as_mut(),
            _ => None,
        }
    }

    /// Returns `true` for a command that only lists or prints something, so that long output may be
    /// shown one screen at a time.
    #[must_use]
    pub fn is_paged(&self) -> bool {
        match self {
            Self::List { .. }
            | Self::Search(_)
            | Self::Show { .. }
            | Self::Read { .. }
            | Self::Resource { .. }
            | Self::Rules(_)
            | Self::Cost(_)
            | Self::Doctor(_)
            | Self::Explain(_)
            | Self::Graph(_)
            | Self::Render(_)
            | Self::Roles(_) => true,
            Self::Lint(args) => args.explain.is_some(),
            Self::Ledger(command) => matches!(
                command,
                LedgerCommand::Proposal(ProposalCommand::List(_))
                    | LedgerCommand::Proposals(_)
                    | LedgerCommand::History(_)
                    | LedgerCommand::Diff(_)
                    | LedgerCommand::AuditLog(_)
                    | LedgerCommand::Stats(_)
            ),
            _ => false,
        }
    }
}

/// A ranking of search results.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum RankerArg {
    /// The ranking that agents get
    Standard,
    /// A baseline with fixed weights
    Reference,
    /// BM25F over the fields alone
    Bm25f,
}

impl From<RankerArg> for skill_search::Ranker {
    fn from(ranker: RankerArg) -> Self {
        match ranker {
            RankerArg::Standard => Self::standard(),
            RankerArg::Reference => Self::reference(),
            RankerArg::Bm25f => Self::bm25f(),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
All texts of the skills are searched: name, description, tags, headings, instructions. Words match
in any form and order; \"exact phrase\" (quoted for the shell) and prefix* narrow the result.
Requires neither a network nor a model. An empty result is not an error.")]
pub struct SearchArgs {
    /// Task in plain words
    #[arg(value_name = "QUERY", required = true)]
    pub(crate) query: Vec<String>,
    /// Only skills with this tag; if repeated, with all of them
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// Maximum number of skills
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    pub(crate) limit: usize,
    /// Print the parts of each score
    #[arg(long)]
    pub(crate) explain: bool,
    /// Ranking of the result
    #[arg(long, value_enum, default_value_t = RankerArg::Standard)]
    pub(crate) ranker: RankerArg,
    #[command(flatten)]
    pub(crate) roots: SkillRoots,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 no errors, 1 errors (with --strict, also warnings) or a directory without a skill,
3 path not found, 5 I/O or permission error. The highest code is returned. A bad file does not stop
the others. Of skillhost-lint.toml the profile, the further fields and the paths apply; severities and
ignored findings are for lint alone.")]
pub struct ValidateArgs {
    #[command(flatten)]
    pub(crate) paths: SkillPaths,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Output format [default: human]
    #[arg(long, value_enum)]
    pub(crate) format: Option<ReportFormat>,
    /// The earlier spelling of `--format jsonl`
    #[arg(long, hide = true)]
    pub(crate) jsonl: bool,
    /// Fail on warnings
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 no errors or warnings, 1 errors, warnings or a directory without a skill, 3 path not
found, 4 a file changed before it was fixed, 5 I/O or permission error. The highest code is returned.
A bad file does not stop the others. With --watch, 130 after Ctrl-C.

The nearest skillhost-lint.toml, or skillhost.yaml with a table `lint`, up to the root of the
repository, sets the profile, severities, further fields, paths and ignored findings; `lint --init`
creates one, docs/lint.md describes it.")]
pub struct LintArgs {
    #[command(flatten)]
    pub(crate) paths: SkillPaths,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Output format [default: human]
    #[arg(long, value_enum)]
    pub(crate) format: Option<ReportFormat>,
    /// The earlier spelling of `--format jsonl`
    #[arg(long, hide = true)]
    pub(crate) jsonl: bool,
    /// Apply automatic fixes
    #[arg(long)]
    pub(crate) fix: bool,
    /// Print the fixes as a diff and write nothing
    #[arg(long, requires = "fix")]
    pub(crate) dry_run: bool,
    /// Rules to check alone, such as `name.format` or `name.*`
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub(crate) select: Vec<String>,
    /// Rules to leave out
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub(crate) ignore: Vec<String>,
    /// Repeat when a file changes and print what changed
    #[arg(long, conflicts_with_all = ["fix", "format", "jsonl"])]
    pub(crate) watch: bool,
    /// Create `skillhost-lint.toml` in the working directory
    #[arg(long, conflicts_with_all = ["fix", "watch", "explain", "paths", "files_from"])]
    pub(crate) init: bool,
    /// Print the documentation of a rule
    #[arg(long, value_name = "RULE")]
    pub(crate) explain: Option<String>,
}

#[derive(Debug, Args)]
pub struct FmtArgs {
    #[command(flatten)]
    pub(crate) paths: SkillPaths,
    /// Change nothing; exit 1 and name the files to format
    #[arg(long)]
    pub(crate) check: bool,
    /// Move `tags`, `requires` and fields that are not in the specification under `metadata`
    #[arg(long)]
    pub(crate) portable: bool,
    #[command(flatten)]
    pub(crate) policy: PolicyFileArgs,
    /// Output format [default: human]
    #[arg(long, value_enum)]
    format: Option<RecordFormat>,
    /// The earlier spelling of `--format jsonl`
    #[arg(long, hide = true)]
    jsonl: bool,
}

impl FmtArgs {
    /// Returns `true` if one JSON object per skill is printed.
    pub(crate) fn is_jsonl(&self) -> bool {
        self.jsonl || self.format == Some(RecordFormat::Jsonl)
    }
}

/// A format of one record per skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RecordFormat {
    /// Text
    Human,
    /// JSON lines, one object per skill
    Jsonl,
}

#[derive(Debug, Args)]
pub struct CallArgs {
    /// Skill
    pub(crate) id: String,
    /// Program [default: that of the skill], then its arguments as JSON, or - for standard input
    /// [default: {}]
    #[arg(value_names = ["PROGRAM", "JSON"], num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    /// Policy for this call, as a JSON file with the keys of `sandbox.handlers`
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Print what the program may do and why, without a call
    #[arg(long)]
    pub(crate) explain: bool,
}

#[derive(Debug, Args)]
pub struct NewArgs {
    /// Skill id, which is the directory name: lowercase letters, digits and single hyphens
    pub(crate) id: String,
    /// Template: minimal, full, script, reference, handler or handler-python
    #[arg(long, value_name = "TEMPLATE", default_value = "minimal")]
    pub(crate) template: String,
    /// Parent directory [default: sandbox/skills of the home, else the working directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RulesArgs {
    /// Only these rules, with their full documentation
    #[arg(value_name = "RULE")]
    pub(crate) rules: Vec<String>,
}

#[derive(Debug, Args)]
pub struct CostArgs {
    #[command(flatten)]
    pub(crate) paths: SkillPaths,
    /// Output format [default: human]
    #[arg(long, value_enum)]
    format: Option<RecordFormat>,
    /// The earlier spelling of `--format jsonl`
    #[arg(long, hide = true)]
    jsonl: bool,
    /// Estimate (a quarter of the characters) instead of counting
    #[arg(long)]
    pub(crate) estimate: bool,
    /// Context window of the model in tokens, from which clients derive their limits
    /// [default: unknown]
    #[arg(
        long,
        alias = "window",
        value_name = "TOKENS",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) context_window: Option<u32>,
}

impl CostArgs {
    /// Returns `true` if one JSON object per skill is printed.
    pub(crate) fn is_jsonl(&self) -> bool {
        self.jsonl || self.format == Some(RecordFormat::Jsonl)
    }
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub(crate) roots: SkillRoots,
    /// Rule profile of the validity check
    #[arg(long, value_enum, default_value_t = ProfileArg::Spec)]
    pub(crate) profile: ProfileArg,
    /// The earlier spelling of `skill explain`
    #[arg(
        long,
        hide = true,
        value_name = "AGENT",
        requires = "prompt",
        conflicts_with_all = ["roots", "profile"]
    )]
    pub(crate) agent: Option<String>,
    /// The earlier spelling of `skill explain`
    #[arg(long, hide = true, value_name = "TEXT", requires = "agent")]
    pub(crate) prompt: Option<String>,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Agent
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: String,
    /// Message of the user; `-` reads standard input
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: String,
}

const STATES_HELP: &str = "\
Edits extensions.skill_registry.skills in skillhost.yaml; a running kernel of the home applies the
change. Either all skills are changed or none. Exit codes: 0 in force, even if nothing changed,
2 skillhost.yaml cannot be edited, 3 skill not found, 4 skillhost.yaml changed at the same time.";

#[derive(Debug, Args)]
#[command(after_help = STATES_HELP)]
pub struct EnableArgs {
    /// Skills
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = STATES_HELP)]
pub struct DisableArgs {
    /// Skills
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Keep only the names in prompts
    #[arg(long, conflicts_with = "user_only")]
    pub(crate) name_only: bool,
    /// Keep for users and hide from models
    #[arg(long)]
    pub(crate) user_only: bool,
}

#[derive(Debug, Args)]
pub struct GraphArgs {
    #[command(flatten)]
    pub(crate) paths: SkillPaths,
    /// Output format [default: human]
    #[arg(long, value_enum)]
    format: Option<GraphFormat>,
    /// The earlier spelling of `--format mermaid`
    #[arg(long, hide = true)]
    mermaid: bool,
}

impl GraphArgs {
    /// Returns `true` if a Mermaid diagram is printed.
    pub(crate) fn is_mermaid(&self) -> bool {
        self.mermaid || self.format == Some(GraphFormat::Mermaid)
    }
}

/// A format of a skill graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GraphFormat {
    /// Text
    Human,
    /// A Mermaid diagram
    Mermaid,
}

#[derive(Debug, Args)]
pub struct RenderArgs {
    /// Skill directory, SKILL.md, or id of a skill of the home
    #[arg(value_name = "SKILL")]
    pub(crate) skill: PathBuf,
    /// Width in columns [default: that of the terminal, else 80]
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) width: Option<u16>,
}

#[derive(Debug, Args)]
pub struct RolesArgs {
    #[command(flatten)]
    pub(crate) paths: SkillPaths,
}

#[derive(Debug, Args)]
pub struct ReferenceArgs {
    /// Skill directory or SKILL.md
    #[arg(value_name = "SKILL_PATH")]
    pub(crate) path: PathBuf,
}

/// A format of a prompt block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PromptFormat {
    /// `<available_skills>` of the reference tool
    Reference,
    /// XML of the formal specification, with trit, role and color
    Boxxy,
}

#[derive(Debug, Args)]
pub struct ToPromptArgs {
    /// Skill directories or SKILL.md files
    #[arg(value_name = "SKILL_PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Format of the block
    #[arg(long, value_enum, default_value_t = PromptFormat::Reference)]
    pub(crate) format: PromptFormat,
}

impl SkillCommand {
    /// Returns whether the command may decide or change proposals.
    #[must_use]
    pub fn uses_proposals(&self) -> bool {
        let command = match self {
            // Its proposal is a new question.
            Self::Optimize(_) => return true,
            Self::Ledger(command) => command,
            _ => return false,
        };
        match command {
            LedgerCommand::Proposal(command) => !matches!(command, ProposalCommand::List(_)),
            LedgerCommand::Approve(_)
            | LedgerCommand::Review(_)
            | LedgerCommand::Reject(_)
            | LedgerCommand::Rebase(_)
            | LedgerCommand::Rollback(_) => true,
            _ => false,
        }
    }
}
