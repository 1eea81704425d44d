//! `skillhost skill …`, as clap reads it.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::LedgerCommand;

/// Where the skills of a home come from.
#[derive(Debug, Args)]
pub(crate) struct SkillRoots {
    /// Look in this folder instead of the home's roots; may be given more than once
    #[arg(long = "root", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,
}

/// Which skills on disk a command looks at; they need no home.
#[derive(Debug, Args)]
pub(crate) struct SkillPaths {
    /// Skill directories, SKILL.md files or folders of skills [default: the working directory]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Take paths from a file too, one a line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) paths_from: Option<PathBuf>,
}

/// Whose rules count.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ProfileArg {
    /// What loading does
    Lenient,
    /// The text of the Agent Skills specification
    Spec,
    /// The verdicts of the reference validator, skills-ref 0.1.1
    Reference,
    /// The validation table of SkillsCraft
    Skillscraft,
    /// The checklist of the formal specification
    SeedStrict,
    /// What Anthropic's products accept
    Anthropic,
}

impl From<ProfileArg> for skill_rules::Profile {
    fn from(profile: ProfileArg) -> Self {
        match profile {
            ProfileArg::Lenient => Self::Lenient,
            ProfileArg::Spec => Self::Spec,
            ProfileArg::Reference => Self::Reference,
            ProfileArg::Skillscraft => Self::Skillscraft,
            ProfileArg::SeedStrict => Self::SeedStrict,
            ProfileArg::Anthropic => Self::Anthropic,
        }
    }
}

/// The form of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people: the place in the file, what is wrong, what to do
    Human,
    /// One JSON object
    Json,
    /// One JSON object per skill, a line each
    Jsonl,
    /// SARIF 2.1.0
    Sarif,
    /// Workflow commands of GitHub Actions
    Github,
    /// The lines of the reference validator; goes with --profile reference
    Reference,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SkillCommand {
    /// List skills
    List {
        /// Only those whose id, name, description or tags contain this text
        query: Option<String>,
        /// Only those with this tag; given more than once, with all of them
        #[arg(long, value_name = "TAG")]
        tag: Vec<String>,
        #[command(flatten)]
        roots: SkillRoots,
    },
    /// Find the skills that fit a task, the best first
    Search(SearchArgs),
    /// Print what is known about a skill: frontmatter, digest, tokens, diagnostics
    Show {
        /// The skill, or skill@root
        id: String,
        #[command(flatten)]
        roots: SkillRoots,
    },
    /// Offer skills again
    Enable(EnableArgs),
    /// Take skills out of use, or offer them less
    Disable(DisableArgs),
    /// Print a skill's instructions as an agent reads them
    Read {
        /// The skill, or skill@root
        id: String,
        #[command(flatten)]
        roots: SkillRoots,
    },
    /// Print a file of a skill
    Resource {
        /// The skill, or skill@root
        id: String,
        /// The file, relative to the skill
        path: String,
        #[command(flatten)]
        roots: SkillRoots,
    },
    /// Check whether skills conform; exit 1 when one does not
    Validate(ValidateArgs),
    /// Check whether skills are good; exit 1 when there is something to mend
    Lint(LintArgs),
    /// Bring the frontmatter of skills into its canonical form
    Fmt(FmtArgs),
    /// Begin a new skill
    New(NewArgs),
    /// Print the rules
    Rules(RulesArgs),
    /// Print what skills cost in tokens
    Cost(CostArgs),
    /// Say of each skill how far it gets on its way into an agent's prompt, and why no further
    Doctor(DoctorArgs),
    /// Check what skills need of each other and print the order to load them in
    Graph(GraphArgs),
    /// Show a skill as Markdown in the terminal
    Render(RenderArgs),
    /// Print the roles of a set of skills and whether they balance
    Triads(TriadsArgs),
    /// Print the properties of a skill as the reference tool does
    ReadProperties(ReferenceArgs),
    /// Print skills as a block for a system prompt
    ToPrompt(ToPromptArgs),
    #[command(flatten)]
    Ledger(LedgerCommand),
}

/// What orders the results of a search.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum RankerArg {
    /// What agents get
    Standard,
    /// A yardstick whose weights never change
    Reference,
    /// The first stage alone: words and how rare they are
    Bm25f,
}

impl From<RankerArg> for skill_store::Ranker {
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
All texts of the skills are searched: name, description, tags, headings, instructions. Words count
in any form and order; \"exact phrase\" (quote it for the shell) and prefix* narrow the result.
Works without a network and without a model. Finding nothing is no error.")]
pub(crate) struct SearchArgs {
    /// The task, in plain words
    #[arg(value_name = "QUERY", required = true)]
    pub(crate) query: Vec<String>,
    /// Only skills with this tag; given more than once, with all of them
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// At most this many skills
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    pub(crate) limit: usize,
    /// Print how each skill comes by its score
    #[arg(long)]
    pub(crate) explain: bool,
    /// What orders the result
    #[arg(long, value_enum, default_value_t = RankerArg::Standard)]
    pub(crate) ranker: RankerArg,
    #[command(flatten)]
    pub(crate) roots: SkillRoots,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 no errors, 1 errors (with --strict, warnings too) or a folder without a skill, 3 a path
that does not exist, 5 something that cannot be read. The highest counts. One bad file never stops
the others.")]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    pub(crate) paths: SkillPaths,
    /// Whose rules count
    #[arg(long, value_enum, default_value_t = ProfileArg::Spec)]
    pub(crate) profile: ProfileArg,
    /// The form of the result [default: human]
    #[arg(long, value_enum)]
    pub(crate) format: Option<ReportFormat>,
    /// The same as --format jsonl
    #[arg(long)]
    pub(crate) jsonl: bool,
    /// Fail on warnings too
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 neither errors nor warnings, 1 some of them or a folder without a skill, 3 a path that
does not exist, 4 a file that changed before it was mended, 5 something that cannot be read or
written. The highest counts. One bad file never stops the others.")]
pub(crate) struct LintArgs {
    #[command(flatten)]
    pub(crate) paths: SkillPaths,
    /// Whose rules count
    #[arg(long, value_enum, default_value_t = ProfileArg::Spec)]
    pub(crate) profile: ProfileArg,
    /// The form of the result [default: human]
    #[arg(long, value_enum)]
    pub(crate) format: Option<ReportFormat>,
    /// The same as --format jsonl
    #[arg(long)]
    pub(crate) jsonl: bool,
    /// Mend what can be mended without a person
    #[arg(long)]
    pub(crate) fix: bool,
    /// Print the page of a rule instead
    #[arg(long, value_name = "RULE")]
    pub(crate) explain: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FmtArgs {
    #[command(flatten)]
    pub(crate) paths: SkillPaths,
    /// Change nothing; exit 1 and name the files that would change
    #[arg(long)]
    pub(crate) check: bool,
    /// Move `tags`, `requires` and fields that are not in the specification under `metadata`
    #[arg(long)]
    pub(crate) portable: bool,
    /// Print one JSON object per skill, a line each
    #[arg(long)]
    pub(crate) jsonl: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// Its id, which is its directory's name: lower-case letters, digits and single hyphens
    pub(crate) id: String,
    /// What to begin with
    #[arg(long, value_name = "TEMPLATE", default_value = "minimal")]
    pub(crate) template: String,
    /// The folder it goes into [default: sandbox/skills of the home, else the working directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    /// Only these; their pages whole
    #[arg(value_name = "RULE")]
    pub(crate) rules: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    #[command(flatten)]
    pub(crate) paths: SkillPaths,
    /// Print one JSON object per skill, a line each
    #[arg(long)]
    pub(crate) jsonl: bool,
    /// Only estimate (a quarter of the characters), which is fast
    #[arg(long)]
    pub(crate) estimate: bool,
    /// The context window of the model, in tokens: clients make room by it [default: unknown]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) window: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) roots: SkillRoots,
    /// Whose rules decide whether a skill is valid
    #[arg(long, value_enum, default_value_t = ProfileArg::Spec)]
    pub(crate) profile: ProfileArg,
    /// Say instead which skills this agent is shown for a prompt, and why not others
    #[arg(long, value_name = "AGENT", requires = "prompt", conflicts_with_all = ["roots", "profile"])]
    pub(crate) agent: Option<String>,
    /// What the user says to the agent; `-` is standard input
    #[arg(long, value_name = "TEXT", requires = "agent")]
    pub(crate) prompt: Option<String>,
}

const STATES_HELP: &str = "\
Edits extensions.skill_registry.skills in skillhost.yaml; a kernel that runs for the home takes it
over. Exit codes: 0 it is so, also where it was so before, 2 a skillhost.yaml that cannot be edited,
3 a skill that does not exist, 4 a skillhost.yaml that changed meanwhile. Of several skills all are
changed or none.";

#[derive(Debug, Args)]
#[command(after_help = STATES_HELP)]
pub(crate) struct EnableArgs {
    /// The skills
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = STATES_HELP)]
pub(crate) struct DisableArgs {
    /// The skills
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Keep them, but with their name alone in prompts
    #[arg(long, conflicts_with = "user_only")]
    pub(crate) name_only: bool,
    /// Keep them for users: no model sees them
    #[arg(long)]
    pub(crate) user_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) paths: SkillPaths,
    /// Print a Mermaid diagram
    #[arg(long)]
    pub(crate) mermaid: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// A skill directory, a SKILL.md, or the id of a skill of the home
    #[arg(value_name = "SKILL")]
    pub(crate) skill: PathBuf,
    /// The width in columns [default: the terminal's, else 80]
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) width: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct TriadsArgs {
    #[command(flatten)]
    pub(crate) paths: SkillPaths,
}

#[derive(Debug, Args)]
pub(crate) struct ReferenceArgs {
    /// A skill directory or a SKILL.md
    #[arg(value_name = "SKILL_PATH")]
    pub(crate) path: PathBuf,
}

/// The form of a prompt block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PromptFormat {
    /// `<available_skills>` as the reference tool prints it
    Reference,
    /// The XML of the formal specification, with trit, role and colour
    Boxxy,
}

#[derive(Debug, Args)]
pub(crate) struct ToPromptArgs {
    /// Skill directories or SKILL.md files
    #[arg(value_name = "SKILL_PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// The form of the block
    #[arg(long, value_enum, default_value_t = PromptFormat::Reference)]
    pub(crate) format: PromptFormat,
}
