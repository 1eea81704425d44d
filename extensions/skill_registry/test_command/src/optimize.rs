//! `skillhost skill optimize`: candidates of a model for a part of a skill, as a proposal.

use std::path::Path;

use skill_evals::{
    CaseSplit, OPTIMIZATION_FILE, OptimizationEnd, OptimizationReport, OptimizedPart, RejectedEdit,
    split_skill_text,
};
use skill_format::SkillId;
use skill_testing::{
    BaselineVersion, CandidateSkill, ModelTestRequest, OptimizationRequest, RoutingHarness,
    RoutingSetup, ScreenedCandidate, SkillCases, find_routing_failures,
};
use skillhost_files::{TreeFile, files_digest, write_atomically};
use skillhost_terminal::{CliContext, CliError, CommandResult, exit};

use crate::model_run::read_files;
use crate::optimize_arguments::OptimizeArgs;
use crate::optimize_text::{describe_gain, print_optimization};
use crate::selection::{TestTargets, TestedSkill};
use crate::{TestHome, to_cli_error};

/// The fewest held-out cases of a decision (`skill_evals::assess_pairs`).
const MIN_HELD_OUT: usize = 8;

/// The largest SKILL.md that is a part of a request, in bytes.
const MAX_TEXT: usize = 100 << 10;

/// The directory of optimizations below that of a skill's results.
const OPTIMIZATIONS: &str = "optimize";

/// A function that makes the checks of a candidate without a model.
pub(crate) type CandidateScreen<'a> = &'a dyn Fn(&str) -> Result<ScreenedCandidate, CliError>;

/// A function that optimizes a skill in kernels of its own.
pub type SkillOptimizations<'a> =
    &'a dyn Fn(&OptimizationRequest, CandidateScreen<'_>) -> Result<OptimizationReport, CliError>;

/// The functions of the ledger that an optimization needs.
pub struct CandidateLedger<'a> {
    /// Returns the edits of the SKILL.md that people rejected, the oldest first.
    pub rejected: &'a dyn Fn(&str) -> Result<Vec<RejectedChange>, CliError>,
    /// Makes the checks of a proposal; `None` if it would be recorded.
    pub check: &'a dyn Fn(&CandidateText<'_>) -> Result<Option<CandidateObjection>, CliError>,
    /// Records the proposal and returns its id.
    pub propose: &'a dyn Fn(&CandidateText<'_>) -> Result<String, CliError>,
}

/// An edit that a person rejected.
#[derive(Clone, Debug)]
pub struct RejectedChange {
    /// The unified diff.
    pub diff: String,
    /// The reason of the person.
    pub reason: String,
}

/// A candidate for the ledger.
#[derive(Clone, Copy, Debug)]
pub struct CandidateText<'a> {
    /// The skill.
    pub skill_id: &'a str,
    /// The file, relative to the skill's directory.
    pub path: &'a str,
    /// The text of the file that was optimized.
    pub base: &'a str,
    /// The new text.
    pub text: &'a str,
    /// The reason for the change.
    pub reason: &'a str,
}

/// The reason why a candidate would not be recorded.
#[derive(Clone, Debug, Default)]
pub struct CandidateObjection {
    /// The error of the ledger.
    pub message: String,
    /// The cases that became worse or are copied, one line each; the message repeats them.
    pub cases: Vec<String>,
}

/// The inputs that an optimization starts with.
struct OptimizedSkill {
    skill: TestedSkill,
    files: Vec<TreeFile>,
    path: String,
    text: String,
}

/// Optimizes a part of a skill and records a proposal if that is an improvement.
///
/// # Errors
/// The skill does not exist or has too few cases, the model or the harness cannot be used, the skill
/// changed, or the proposal cannot be recorded.
pub fn cmd_skill_optimize(
    session: &CliContext,
    args: &OptimizeArgs,
    home: TestHome,
    optimizations: SkillOptimizations<'_>,
    ledger: &CandidateLedger<'_>,
) -> CommandResult {
    let (part, budget) = (args.part(), args.budget.limits()?);
    let TestHome { options, data, views, results } = home;
    let roots = options.roots.clone();
    let setup = RoutingSetup { options, candidates: Vec::new(), with_distractors: true };
    let harness = RoutingHarness::open(setup).map_err(|error| to_cli_error(&error))?;
    let targets = TestTargets::from_id(&args.skill);
    let skill = targets.load(&harness, data.as_deref(), args.seed)?.pop();
    let skill = skill.ok_or_else(|| CliError::usage("a skill is required".to_owned()))?;
    let optimized = OptimizedSkill::read(skill, part)?;
    let cases = &optimized.skill.cases;
    let id = cases.skill_id.as_str();
    let results = match (&args.out, results) {
        (Some(out), _) => session.environment.current_dir.join(out),
        (None, Some(results)) => results.join(id).join(OPTIMIZATIONS),
        (None, None) => {
            return Err(CliError::usage("an optimization requires a home".to_owned())
                .with_hint("its settings name the models; see: skillhost init"));
        }
    };
    // Queries are searched without a model; prompts are not.
    let find_failures = |harness: &RoutingHarness| match part {
        OptimizedPart::Description => find_routing_failures(harness, cases, &views),
        OptimizedPart::Body => Vec::new(),
    };
    let request = OptimizationRequest {
        part,
        rounds: args.rounds,
        text: optimized.text.clone(),
        path: optimized.path.clone(),
        failures: find_failures(&harness),
        rejected: (ledger.rejected)(id)?.into_iter().map(to_rejected_edit).collect(),
        test: ModelTestRequest {
            directory: optimized.skill.directory.clone(),
            files: optimized.files.clone(),
            baseline: BaselineVersion::Unused,
            cases: cases.clone(),
            roots,
            agent: None,
            model: args.model.clone(),
            judge: args.judge.clone(),
            scripts: None,
            runs: args.runs,
            threshold: None,
            seed: args.seed,
            results,
            budget,
        },
    };
    // A skill that cannot be changed by a proposal is reported before anything is spent.
    (ledger.check)(&optimized.candidate(&optimized.text, "the installed text"))?;
    let screen = |text: &str| -> Result<ScreenedCandidate, CliError> {
        // A candidate for another text is not even checked.
        optimized.require_unchanged()?;
        let candidate = optimized.candidate(text, "a candidate");
        if let Some(objection) = (ledger.check)(&candidate)? {
            let visible = objection.visible_reason(cases);
            return Ok(ScreenedCandidate::Rejected { reason: objection.message, visible });
        }
        let id = SkillId::new(id).map_err(|error| CliError::usage(error.to_string()))?;
        let changed = CandidateSkill { id, bytes: text.as_bytes().to_vec() };
        let changed = harness.with_candidate(&changed).map_err(|error| to_cli_error(&error))?;
        Ok(ScreenedCandidate::Accepted { failures: find_failures(&changed) })
    };
    let mut report = optimizations(&request, &screen)?;
    if let Some(text) = &report.text {
        optimized.require_unchanged()?;
        let reason = describe_gain(&report);
        report.proposal = Some((ledger.propose)(&optimized.candidate(text, &reason))?);
    }
    store_report(&report)?;
    match session.output.json {
        true => session.output.print_json(&report)?,
        false => print_optimization(session.output, &report)?,
    }
    Ok(match report.end {
        OptimizationEnd::Improved | OptimizationEnd::NoImprovement { .. } => exit::OK,
        OptimizationEnd::Budget { .. } | OptimizationEnd::Harness { .. } => exit::IO,
    })
}

/// Writes the report next to the results: the optimization has ended.
fn store_report(report: &OptimizationReport) -> Result<(), CliError> {
    let path = Path::new(&report.directory).join(OPTIMIZATION_FILE);
    let text = serde_json::to_string_pretty(report)
        .map_err(std::io::Error::from)
        .and_then(|text| write_atomically(&path, text.as_bytes()));
    text.map_err(|error| CliError::new(exit::IO, format!("{}: {error}", path.display())))
}

fn to_rejected_edit(rejected: RejectedChange) -> RejectedEdit {
    let reason = format!("rejected by a person: {}", rejected.reason);
    RejectedEdit { change: rejected.diff.into(), reason }
}

impl OptimizedSkill {
    /// Reads the files of a skill and checks that they can be optimized, before anything is spent.
    fn read(mut skill: TestedSkill, part: OptimizedPart) -> Result<Self, CliError> {
        if let Some((file, finding)) = skill.cases.errors().next() {
            let path = skill.file_path(file);
            let message = format!(
                "{}:{}:{}: {}",
                path.display(),
                finding.line,
                finding.column,
                finding.message
            );
            return Err(CliError::usage(message).with_hint(finding.help.clone()));
        }
        let is_held_out_by_home = match part {
            OptimizedPart::Description => skill.cases.triggers.iter().any(|case| case.is_private),
            OptimizedPart::Body => skill.cases.outputs.iter().any(|case| case.is_private),
        };
        skill.cases.retain_part(part);
        let id = &skill.cases.skill_id;
        let (train, _) = skill.cases.count_split(CaseSplit::Train);
        let (held_out, _) = skill.cases.count_split(CaseSplit::HeldOut);
        let kind = match part {
            OptimizedPart::Description => "queries",
            OptimizedPart::Body => "prompts",
        };
        // Fewer ones decide nothing, so that every candidate would be paid in vain.
        if train == 0 || held_out < MIN_HELD_OUT {
            let message = format!(
                "`{id}` has {train} train and {held_out} held-out {kind}; at least 1 and \
                 {MIN_HELD_OUT} are required"
            );
            let hint = match is_held_out_by_home && held_out < MIN_HELD_OUT {
                // With them, all cases of the skill itself are train cases.
                true => format!("add held-out {kind} to {}", skill.held_out.display()),
                false => "add cases to `evals/`; docs/evals.md describes the files".to_owned(),
            };
            return Err(CliError::new(exit::FINDINGS, message).with_hint(hint));
        }
        let files = read_files(&skill.directory)?;
        let file = files.iter().find(|file| file.path.eq_ignore_ascii_case("SKILL.md"));
        let text = file.and_then(|file| Some((file, std::str::from_utf8(&file.bytes).ok()?)));
        let text = text.filter(|(_, text)| {
            text.len() <= MAX_TEXT
                && (part == OptimizedPart::Body || split_skill_text(text).is_some())
        });
        let Some((file, text)) = text else {
            let message = format!("the SKILL.md of `{id}` cannot be optimized");
            return Err(CliError::usage(message).with_hint(
                "it has to be UTF-8 text of at most 100 KiB with the field `description`",
            ));
        };
        let (path, text) = (file.path.clone(), text.to_owned());
        Ok(Self { skill, files, path, text })
    }

    fn candidate<'a>(&'a self, text: &'a str, reason: &'a str) -> CandidateText<'a> {
        let skill_id = &self.skill.cases.skill_id;
        CandidateText { skill_id, path: &self.path, base: &self.text, text, reason }
    }

    /// Checks that the files are those that were run.
    fn require_unchanged(&self) -> Result<(), CliError> {
        let now = read_files(&self.skill.directory)?;
        if files_digest(&now) == files_digest(&self.files) {
            return Ok(());
        }
        let id = &self.skill.cases.skill_id;
        Err(CliError::new(exit::CONFLICT, format!("`{id}` changed while it was optimized"))
            .with_hint("optimize it again"))
    }
}

impl CandidateObjection {
    /// Returns the reason for the next request: only lines about train cases of the skill, and no
    /// number of other ones.
    fn visible_reason(&self, cases: &SkillCases) -> String {
        if self.cases.is_empty() {
            return self.message.clone();
        }
        let id = &cases.skill_id;
        let train = || {
            let queries = cases.triggers.iter().map(|case| (&case.name, case.split));
            let prompts = cases.outputs.iter().map(|case| (&case.name, case.split));
            queries.chain(prompts).filter(|(_, split)| *split == CaseSplit::Train)
        };
        let is_train =
            |line: &&String| train().any(|(name, _)| line.starts_with(&format!("{id}/{name} \"")));
        let lines: Vec<&str> = self.cases.iter().filter(is_train).map(String::as_str).collect();
        let kind = self.message.split_once(':').map_or("refused", |(kind, _)| kind);
        let general = match kind {
            "leak" => "the text has words of cases; describe the task in general",
            _ => "queries that passed before fail with this text",
        };
        let details: String = lines.iter().map(|line| format!("; {line}")).collect();
        format!("{kind}: {general}{details}")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use skill_evals::parse_triggers;
    use skill_testing::LoadedCase;

    use super::*;

    #[test]
    fn reason_names_train_cases_alone() {
        let parsed = parse_triggers(
            r#"[{"query": "greet Ada", "should_trigger": true},
                {"query": "greet Bob", "should_trigger": true}]"#,
        );
        let splits = [CaseSplit::Train, CaseSplit::HeldOut];
        let triggers = parsed.cases.into_iter().zip(splits).map(|(case, split)| LoadedCase {
            name: case.name.clone(),
            file: Arc::from("evals/triggers.json"),
            split,
            is_private: false,
            case,
        });
        let cases = SkillCases {
            skill_id: "greet".to_owned(),
            triggers: triggers.collect(),
            ..SkillCases::default()
        };
        let lines = [
            "greet/q1 \"greet Ada\"",
            "greet/q2 \"greet Bob\"",
            "tea/q1 \"brew tea\"",
            "3 held-out cases",
        ];
        let objection = CandidateObjection {
            message: format!("leak: the text has words of cases: {}", lines.join(", ")),
            cases: lines.map(str::to_owned).to_vec(),
        };
        assert_eq!(
            objection.visible_reason(&cases),
            "leak: the text has words of cases; describe the task in general; greet/q1 \"greet Ada\""
        );
        let message = "cosmetic: only white space or the form differs".to_owned();
        let plain = CandidateObjection { message: message.clone(), cases: Vec::new() };
        assert_eq!(plain.visible_reason(&cases), message);
    }
}
