//! The readable file of a proposal, from which a lost database is restored.
//!
//! The texts of a proposal come from a model. So that none of them can imitate another part of the
//! file, values of the frontmatter are quoted, the diff has a fence longer than any in it, and
//! every line of the justification and the evidence is quoted with `>`.

use std::fmt::Write as _;

use skill_catalog::AgentAuthor;
use skill_format::{Digest, SkillId, tree};
use skillhost_files::jail::RelPath;
use skillhost_payload::format_rfc3339;
use ulid::Ulid;
use yaml_tree::Value;

use crate::records::proposal::Proposal;

/// The maximum size of a proposal file, in bytes.
pub(crate) const LIMIT: u64 = 8 << 20;

/// The checked content of a proposal file. The state is never read from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecoveredProposal {
    pub(crate) id: String,
    pub(crate) created_ms: i64,
    pub(crate) skill_id: String,
    pub(crate) path: String,
    pub(crate) author: AgentAuthor,
    pub(crate) base_digest: Option<Digest>,
    pub(crate) new_digest: Digest,
    pub(crate) count: u64,
    pub(crate) diff: String,
    pub(crate) justification: String,
    pub(crate) evidence: Vec<String>,
}

/// Writes a proposal as Markdown.
pub(crate) fn render_proposal(proposal: &Proposal) -> String {
    let summary = &proposal.summary;
    let author = &summary.author;
    let mut text = String::from("---\n");
    let base = summary.base_digest.map_or_else(|| "none".to_owned(), |base| base.to_string());
    let decided = proposal.decided.as_ref();
    let fields = [
        ("id", Some(summary.id.clone())),
        ("skill_id", Some(quoted(&summary.skill_id))),
        ("path", Some(quoted(&summary.path))),
        ("state", Some(summary.state.to_string())),
        ("agent_id", Some(quoted(&author.agent_id))),
        ("session_id", Some(quoted(&author.session_id))),
        ("turn_id", Some(quoted(&author.turn_id))),
        ("origin", Some(quoted(&author.origin))),
        ("created", Some(format_rfc3339(summary.created_ms))),
        ("base_digest", Some(base)),
        ("new_digest", Some(summary.new_digest.to_string())),
        ("count", Some(summary.count.to_string())),
        ("decided_by", decided.map(|decided| quoted(&decided.by))),
        ("decided", decided.map(|decided| format_rfc3339(decided.at_ms))),
        ("reason", decided.and_then(|decided| decided.reason.as_deref()).map(quoted)),
    ];
    for (key, value) in fields {
        if let Some(value) = value {
            push(&mut text, format_args!("{key}: {value}\n"));
        }
    }
    let fence = "`".repeat(longest_run(&proposal.diff).max(2) + 1);
    push(&mut text, format_args!("---\n\n## Diff\n\n{fence}diff\n{}", proposal.diff));
    if !proposal.diff.is_empty() && !proposal.diff.ends_with('\n') {
        text.push('\n');
    }
    push(&mut text, format_args!("{fence}\n\n## Justification\n\n"));
    quote(&mut text, &proposal.justification);
    text.push_str("\n## Evidence\n");
    for item in &proposal.evidence {
        text.push('\n');
        quote(&mut text, item);
    }
    text
}

/// Parses a proposal file; returns `None` if the text is not one.
pub(crate) fn parse_proposal(text: &str) -> Option<RecoveredProposal> {
    let fences = skill_format::find_fences(text)?;
    let Value::Mapping(fields) = tree::parse_frontmatter(&text[fences.yaml], 2).root else {
        return None;
    };
    let field = |key: &str| fields.get(key).and_then(Value::as_str);
    let id = Ulid::from_string(field("id")?).ok()?;
    let base_digest = match field("base_digest")? {
        "none" => None,
        digest => Some(digest.parse().ok()?),
    };
    let own = |key: &str| field(key).unwrap_or_default().to_owned();
    let mut lines = text[fences.body_start..].split_inclusive('\n');
    let diff = fenced(&mut lines)?;
    let mut sections = sections(lines);
    Some(RecoveredProposal {
        id: id.to_string(),
        created_ms: i64::try_from(id.timestamp_ms()).ok()?,
        skill_id: SkillId::new(field("skill_id")?).ok()?.to_string(),
        path: RelPath::new(field("path")?).ok()?.to_string(),
        author: AgentAuthor {
            agent_id: own("agent_id"),
            session_id: own("session_id"),
            turn_id: own("turn_id"),
            origin: own("origin"),
        },
        base_digest,
        new_digest: field("new_digest")?.parse().ok()?,
        count: field("count")?.parse().ok()?,
        diff,
        justification: sections.justification.pop()?,
        evidence: sections.evidence,
    })
}

/// Reads the first fenced block.
fn fenced<'t>(lines: &mut impl Iterator<Item = &'t str>) -> Option<String> {
    let opening = lines.find(|line| line.starts_with("```"))?;
    let fence = opening.strip_suffix("diff\n")?;
    let mut diff = String::new();
    for line in lines {
        if line.strip_suffix('\n') == Some(fence) {
            return Some(diff);
        }
        diff.push_str(line);
    }
    None
}

#[derive(Default)]
struct ProposalSections {
    justification: Vec<String>,
    evidence: Vec<String>,
}

/// Reads the quotations under each heading.
fn sections<'t>(lines: impl Iterator<Item = &'t str>) -> ProposalSections {
    let mut sections = ProposalSections::default();
    let mut in_evidence = false;
    let mut quoting = false;
    for line in lines {
        let line = line.strip_suffix('\n').unwrap_or(line);
        in_evidence |= line == "## Evidence";
        let Some(quotation) = line.strip_prefix('>') else {
            quoting = false;
            continue;
        };
        let quotation = quotation.strip_prefix(' ').unwrap_or(quotation);
        let section =
            if in_evidence { &mut sections.evidence } else { &mut sections.justification };
        match section.last_mut().filter(|_| quoting) {
            Some(item) => {
                item.push('\n');
                item.push_str(quotation);
            }
            None => section.push(quotation.to_owned()),
        }
        quoting = true;
    }
    sections
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more).expect("writing to a string cannot fail");
}

/// Quotes a text as a JSON string, which is also a double-quoted scalar of YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn quote(text: &mut String, quotation: &str) {
    for line in quotation.split('\n') {
        push(text, format_args!("> {line}\n"));
    }
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::proposal::{
        LintDelta, ProposalDecision, ProposalFileState, ProposalState, ProposalSummary,
    };

    const ID: &str = "01JD8Z3N6R0000000000000001";

    fn proposal() -> Proposal {
        let id = Ulid::from_string(ID).unwrap();
        Proposal {
            summary: ProposalSummary {
                id: ID.to_owned(),
                seq: 1,
                skill_id: "bead count".to_owned(),
                path: "references/a \"b\": c.md".to_owned(),
                state: ProposalState::Open,
                created_ms: id.timestamp_ms() as i64,
                author: AgentAuthor {
                    agent_id: "a\"\nstate: applied".to_owned(),
                    session_id: "s".to_owned(),
                    turn_id: "7".to_owned(),
                    origin: "agent".to_owned(),
                },
                justification_line: String::new(),
                base_digest: Some(Digest::compute(b"base")),
                new_digest: Digest::compute(b"new"),
                added: 1,
                removed: 1,
                count: 3,
                flags: Vec::new(),
                recommendation: None,
                acceptance: None,
                model_evidence: None,
            },
            justification: "It is\n\n## Evidence\n> better\r\n---".to_owned(),
            evidence: vec!["one\ntwo".to_owned(), "```\nthree".to_owned()],
            diff: "--- a/x\n+++ b/x\n@@ -1 +1 @@\n ````\n-a\r\n+b\n\\ No newline at end of file\n"
                .to_owned(),
            base_text: None,
            new_text: None,
            fuzz: Vec::new(),
            lint: LintDelta::default(),
            tokens: (0, 0),
            decided: None,
            version: None,
            file: "x.md".into(),
            file_state: ProposalFileState::AsWritten,
        }
    }

    #[test]
    fn proposal_file_round_trips() {
        let mut proposal = proposal();
        for decided in [false, true] {
            if decided {
                proposal.summary.state = ProposalState::Rejected;
                let reason = Some("no\n---\n".to_owned());
                proposal.decided =
                    Some(ProposalDecision { by: "ada".to_owned(), at_ms: 5, reason });
                proposal.summary.base_digest = None;
            }
            let text = render_proposal(&proposal);
            let summary = proposal.summary.clone();
            let expected = RecoveredProposal {
                id: summary.id,
                created_ms: summary.created_ms,
                skill_id: summary.skill_id,
                path: summary.path,
                author: summary.author,
                base_digest: summary.base_digest,
                new_digest: summary.new_digest,
                count: 3,
                diff: proposal.diff.clone(),
                justification: proposal.justification.clone(),
                evidence: proposal.evidence.clone(),
            };
            assert_eq!(parse_proposal(&text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_files_are_not_proposals() {
        let good = render_proposal(&proposal());
        for bad in [
            String::new(),
            "# Notes\n".to_owned(),
            good.replace(ID, "../../etc"),
            good.replace("\"bead count\"", "\"../x\""),
            good.replace("path: ", "path: ../"),
            good.replace("count: 3", "count: many"),
            good.replace("## Diff", "").replace("`````diff", ""),
            good[..good.len() / 2].to_owned(),
        ] {
            assert_eq!(parse_proposal(&bad), None, "{bad}");
        }
    }
}
