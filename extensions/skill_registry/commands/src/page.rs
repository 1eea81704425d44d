//! The page of a proposal, a version or a skill for a reviewer.
//!
//! All texts on it come from agents and files: a `StyledSpan` is sanitized on creation, and texts are
//! printed behind a bar, so that none can imitate a part of the page.

mod diff;
mod text;

use std::io::Write as _;

use skill_catalog::AgentAuthor;
use skill_diff::FuzzKind;
use skill_diff::FuzzNote;
use skill_ledger::{
    Proposal, ProposalDrift, ProposalFileState, Recommendation, ReviewFlag, ToolGrant, VersionTree,
};
use skillhost_payload::format_rfc3339;
use skillhost_terminal::{BOLD, CliError, DIM, GREEN, Output, RED, YELLOW, ignore_broken_pipe};

use super::difference::{FileDifference, FileDifferenceKind};

pub(super) use self::text::{StyledLine, StyledSpan, format_line, wrap_line};

/// The terminal width, in columns, from which two columns are readable.
const MIN_SIDE_BY_SIDE_WIDTH: usize = 120;

/// A page as lines from top to bottom.
#[derive(Debug, Default)]
pub(super) struct TextPage {
    pub(super) lines: Vec<StyledLine>,
}

/// Prints a page; colors follow standard output.
pub(super) fn print(output: Output, page: &TextPage) -> Result<(), CliError> {
    let colour = output.uses_color();
    let mut stdout = output.buffered();
    for line in &page.lines {
        ignore_broken_pipe(writeln!(stdout, "{}", format_line(line, colour).trim_end()))?;
    }
    ignore_broken_pipe(stdout.flush())
}

/// Builds the page of a proposal; `columns` is the terminal's width, if known.
pub(super) fn proposal_page(
    proposal: &Proposal,
    drift: &ProposalDrift,
    columns: Option<usize>,
) -> TextPage {
    let summary = &proposal.summary;
    let mut page = TextPage::default();
    for flag in &summary.flags {
        page.flag(flag);
    }
    if !summary.flags.is_empty() {
        page.blank();
    }
    page.lines
        .push(vec![StyledSpan::new(BOLD, &format!("{}  {}", summary.skill_id, summary.path))]);
    let times =
        if summary.count > 1 { format!(", made {} times", summary.count) } else { String::new() };
    page.field("proposal", &format!("{} (number {}){times}", summary.id, summary.seq));
    page.field("state", summary.state.as_str());
    page.field(
        "proposed",
        &format!("{} by {}", format_rfc3339(summary.created_ms), format_author(&summary.author)),
    );
    if let Some(decided) = &proposal.decided {
        page.field("decided", &format!("{} by {}", format_rfc3339(decided.at_ms), decided.by));
        if let Some(reason) = &decided.reason {
            page.quote("reason", reason);
        }
    }
    if let Some(recommendation) = &summary.recommendation {
        let Recommendation { agent_id, advice, reason, at_ms, .. } = recommendation;
        page.field(
            "advice",
            &format!("{advice}, {} by agent `{agent_id}`", format_rfc3339(*at_ms)),
        );
        page.quote("", reason);
    }
    page.field("digest", &summary.review_digest().to_string());
    page.heading(&format!("Diff  +{} -{}", summary.added, summary.removed));
    if proposal.new_text.is_none() {
        page.warning("the new text was lost with the database; this part of it remains");
    }
    page.diff(&proposal.diff, columns);
    page.heading("Justification (by the author)");
    page.quoted(&proposal.justification);
    page.heading("Evidence (by the author)");
    for item in &proposal.evidence {
        page.quoted(item);
        page.blank();
    }
    if proposal.evidence.is_empty() {
        page.lines.push(vec![StyledSpan::new(DIM, "none")]);
    }
    page.checks(proposal);
    page.base(proposal, drift);
    page
}

/// Builds the page of a whole skill; `author` is the agent that created it, if any.
pub(super) fn version_page(
    id: &str,
    author: Option<&AgentAuthor>,
    grant: Option<&ToolGrant>,
    tree: &VersionTree,
) -> TextPage {
    let mut page = TextPage::default();
    page.lines.push(vec![StyledSpan::new(BOLD, id)]);
    if let Some(author) = author {
        page.field("created by", &format_author(author));
    }
    if let Some(grant) = grant {
        let tools = grant.allowed_tools.join(", ");
        page.warning(&format!("with it agents call without a question: {tools}"));
    }
    page.field("digest", &tree.version.tree.to_string());
    for file in &tree.files {
        let runs = if file.mode & 0o111 == 0 { "" } else { ", can be run" };
        page.heading(&format!("{} ({} bytes{runs})", file.path, file.size));
        match file.text() {
            Some(text) => page.quoted(text),
            None => page.warning(&format!("not text; sha256 {}", file.digest)),
        }
    }
    page
}

fn format_author(author: &AgentAuthor) -> String {
    let mut text = author.name();
    for (label, id) in [("session", &author.session_id), ("turn", &author.turn_id)] {
        if !id.is_empty() {
            text.push_str(&format!(", {label} {id}"));
        }
    }
    text
}

impl TextPage {
    fn blank(&mut self) {
        self.lines.push(StyledLine::new());
    }

    fn heading(&mut self, text: &str) {
        self.blank();
        self.lines.push(vec![StyledSpan::new(BOLD, &format!("── {text}"))]);
    }

    fn field(&mut self, label: &str, text: &str) {
        self.lines
            .push(vec![StyledSpan::new(DIM, &format!("{label:<11}")), StyledSpan::plain(text)]);
    }

    fn warning(&mut self, text: &str) {
        self.lines.push(vec![StyledSpan::new(YELLOW, "! "), StyledSpan::plain(text)]);
    }

    /// Adds an untrusted text behind a bar.
    fn quoted(&mut self, text: &str) {
        for line in text.trim_end().split('\n') {
            self.lines.push(vec![StyledSpan::new(DIM, "│ "), StyledSpan::plain(line)]);
        }
    }

    fn quote(&mut self, label: &str, text: &str) {
        for (number, line) in text.trim_end().split('\n').enumerate() {
            let label = if number == 0 { label } else { "" };
            let bar = StyledSpan::new(DIM, &format!("{label:<11}│ "));
            self.lines.push(vec![bar, StyledSpan::plain(line)]);
        }
    }

    fn flag(&mut self, flag: &ReviewFlag) {
        let (style, text) = match flag {
            ReviewFlag::HiddenUnicode { count } => (
                RED,
                format!("HIDDEN UNICODE: {count} characters that are not seen; shown as \\u{{…}}"),
            ),
            ReviewFlag::PromptMarkup { found } => {
                (RED, format!("PROMPT MARKUP: {found} can pass for words of the program itself"))
            }
            ReviewFlag::Frontmatter { fields } => (
                YELLOW,
                format!(
                    "FRONTMATTER: changes {}, by which agents choose skills",
                    fields.join(", ")
                ),
            ),
            ReviewFlag::Code => (YELLOW, "CODE: the file is a program".to_owned()),
            ReviewFlag::NewSkill => (YELLOW, "NEW SKILL: it does not exist yet".to_owned()),
            // A flag from a later version is better displayed raw than hidden.
            other => (RED, format!("{other:?}")),
        };
        self.lines.push(vec![StyledSpan::new(style, "! "), StyledSpan::new(style, &text)]);
    }

    /// Adds the findings of the rules and the token cost.
    fn checks(&mut self, proposal: &Proposal) {
        self.heading("Checks");
        let lint = &proposal.lint;
        for (style, mark, findings) in [(RED, "new ", &lint.new), (GREEN, "gone", &lint.gone)] {
            for finding in findings {
                let text = format!(
                    " line {}: {} [{}, {:?}]",
                    finding.line, finding.message, finding.rule, finding.severity
                );
                self.lines.push(vec![StyledSpan::new(style, mark), StyledSpan::plain(&text)]);
            }
        }
        if lint.new.is_empty() && lint.gone.is_empty() {
            self.lines.push(vec![StyledSpan::plain("no rule finds more or less than before")]);
        }
        if let Some(found) = &proposal.summary.acceptance {
            self.lines.push(vec![StyledSpan::plain(&found.describe())]);
            found.regressions.iter().for_each(|line| self.warning(&format!("WORSE: {line}")));
            found.leaks.iter().for_each(|line| self.warning(&format!("COPIES A CASE: {line}")));
        }
        match &proposal.summary.model_evidence {
            Some(evidence) => {
                let line = format!("model: {}", evidence.describe());
                if evidence.is_disadvantage() {
                    self.warning(&line);
                } else {
                    self.lines.push(vec![StyledSpan::plain(&line)]);
                }
            }
            // Only where the home has cases; there, silence could be read as a good result.
            None if proposal.summary.acceptance.is_some() => {
                self.lines.push(vec![StyledSpan::plain("not run with a model")]);
            }
            None => {}
        }
        let (before, after) = proposal.tokens;
        let change = i64::from(after) - i64::from(before);
        self.lines
            .push(vec![StyledSpan::plain(&format!("tokens {before} → {after} ({change:+})"))]);
        for note in &proposal.fuzz {
            self.warning(&fuzz(note));
        }
    }

    /// Adds whether the proposal still applies, and whether its file has drifted.
    fn base(&mut self, proposal: &Proposal, drift: &ProposalDrift) {
        self.heading("Base");
        let id = &proposal.summary.id;
        match drift {
            ProposalDrift::Unchanged => {
                self.lines
                    .push(vec![StyledSpan::plain("the file is what the proposal was made for")]);
            }
            ProposalDrift::Moved { current: Some(digest), .. }
                if *digest == proposal.summary.new_digest =>
            {
                self.lines.push(vec![StyledSpan::plain("the file says what was proposed")]);
            }
            ProposalDrift::Moved { mergeable: true, .. } => self.warning(&format!(
                "the file has changed since; `skillhost skill proposal rebase {id}` merges both changes"
            )),
            ProposalDrift::Moved { mergeable: false, .. } => {
                self.warning("the file has changed since, in the same lines: it cannot be rebased");
            }
            ProposalDrift::Gone => self.warning("the skill no longer exists"),
        }
        let file = proposal.file.display();
        match proposal.file_state {
            ProposalFileState::AsWritten => self.field("file", &file.to_string()),
            ProposalFileState::Edited => {
                self.warning(&format!("{file} was edited by hand, which changes nothing"));
            }
            ProposalFileState::Missing => {
                self.warning(&format!("{file} is missing; nothing is lost"));
            }
        }
    }

    /// Adds a unified diff, in two columns if they fit.
    fn diff(&mut self, text: &str, columns: Option<usize>) {
        let rows = diff::parse_rows(text);
        match columns.filter(|columns| *columns >= MIN_SIDE_BY_SIDE_WIDTH) {
            Some(columns) => self.lines.extend(diff::render_side_by_side(&rows, columns)),
            None => self.lines.extend(diff::render_unified(&rows)),
        }
    }

    /// Adds the difference of one file.
    pub(super) fn add_difference(&mut self, file: &FileDifference, columns: Option<usize>) {
        let what = match file.change {
            FileDifferenceKind::Added => "added",
            FileDifferenceKind::Removed => "removed",
            FileDifferenceKind::Changed => "changed",
        };
        self.lines.push(vec![
            StyledSpan::new(BOLD, &file.path),
            StyledSpan::new(DIM, &format!("  {what}")),
        ]);
        if file.mode {
            self.warning("whether it can be run has changed");
        }
        match &file.diff {
            Some(diff) => self.diff(diff, columns),
            None => self.warning("not text"),
        }
        self.blank();
    }
}

/// Describes an inexact match of the agent's diff.
fn fuzz(note: &FuzzNote) -> String {
    let what = match note.kind {
        FuzzKind::Offset(lines) => format!("applied {lines:+} lines from where it says"),
        FuzzKind::Context { ignored } => format!("{ignored} lines of context did not match"),
        FuzzKind::Counts => "the line counts were wrong".to_owned(),
        FuzzKind::NoNumbers => "it had no line numbers".to_owned(),
        FuzzKind::Overlap => "its context overlaps the hunk before".to_owned(),
        FuzzKind::Blanks { lines } => format!("{lines} empty lines had lost their blank"),
        FuzzKind::Fences => "it was in a fence".to_owned(),
        FuzzKind::Prose => "there was prose around it".to_owned(),
        FuzzKind::FileName => "it names the file otherwise".to_owned(),
        FuzzKind::LineEnds => "its line ends were others".to_owned(),
        FuzzKind::FinalNewline => "it disagreed about the last newline".to_owned(),
        other => format!("{other:?}"),
    };
    match note.hunk {
        0 => format!("the agent's diff: {what}"),
        hunk => format!("the agent's diff, hunk {hunk} at line {}: {what}", note.line),
    }
}
