//! Runs the rules over one skill.

mod skill_yaml;

use serde::Serialize;
use skill_format::{Diagnostic, Severity};

use crate::extended;
use crate::input::SkillInput;
use crate::profile::{Level, Profile};
use crate::reference;
use crate::rule::{Check, Finding, Findings, Group, Reach, Rule};
use crate::rules::{RULES, rule};
use crate::subject::{Standing, Subject};
use crate::suppress;

pub use skill_yaml::{check_skill_yaml, needs_skill_yaml};

/// What is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Does it conform? Rules of [`Group::Validation`] that need the head alone, and those that
    /// are errors in the profile.
    #[default]
    Validate,
    /// Is it good? Every rule, but nothing twice: of the length of a body, `context-budget` tells
    /// unless that is an error.
    Lint,
}

/// How to check.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whose rules count.
    pub profile: Profile,
    /// What is asked.
    pub scope: Scope,
}

/// What was found in one skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order of the file; in [`Profile::Reference`], first those of the
    /// reference in its own order.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Tells whether none of the findings is an error.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.findings.iter().any(|found| found.diagnostic.severity == Severity::Error)
    }

    /// Returns the diagnostics of a severity.
    pub fn of(&self, severity: Severity) -> impl Iterator<Item = &Diagnostic> {
        let diagnostics = self.findings.iter().map(|found| &found.diagnostic);
        diagnostics.filter(move |found| found.severity == severity)
    }
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.findings.iter().map(|found| &found.diagnostic))
    }
}

/// Tells whether a check looks at the other files of a skill, so that they must be listed.
#[must_use]
pub fn needs_files(options: Options) -> bool {
    RULES.iter().any(|rule| rule.reach == Reach::Folder && applies(rule, options).is_some())
}

/// Validation rules of which `context-budget` tells as much.
const TOLD_BY_CONTEXT_BUDGET: [&str; 2] = ["body.maxLines", "body.maxTokens"];

/// Returns the severity a rule's findings have; nothing if it is not asked.
fn applies(rule: &Rule, options: Options) -> Option<Severity> {
    let level = rule.levels.in_profile(options.profile);
    let asked = match options.scope {
        // What is advice, the lint rule of the same says better.
        Scope::Lint => level == Level::Error || !TOLD_BY_CONTEXT_BUDGET.contains(&rule.id),
        Scope::Validate => {
            rule.group == Group::Validation && (rule.reach == Reach::Head || level == Level::Error)
        }
    };
    level.severity().filter(|_| asked)
}

/// Checks a skill.
#[must_use]
pub fn check(input: &SkillInput<'_>, options: Options) -> Report {
    check_subject(&Subject::new(input, options.profile), options.scope)
}

/// Checks a skill that has been taken up already, in the profile it was taken up with.
#[must_use]
pub fn check_subject(subject: &Subject<'_>, scope: Scope) -> Report {
    let options = Options { profile: subject.profile(), scope };
    let standing = subject.standing();
    let by_reference = options.profile == Profile::Reference;
    let mut findings = Vec::new();
    if by_reference {
        as_reference(subject, &mut findings);
    } else {
        loading(subject, options, standing, &mut findings);
    }
    for rule in RULES {
        if by_reference && rule.group == Group::Validation {
            continue;
        }
        let severity = applies(rule, options).filter(|_| makes_sense(rule.id, standing));
        let Some(severity) = severity else { continue };
        let found = &mut Findings::new(rule, severity, &mut findings);
        match rule.check {
            Check::LoadingAnd(find) | Check::Skill(find) => find(subject, found),
            Check::Declared => extended::report(rule.id, subject, found),
            Check::Loading | Check::Reading | Check::Suppression | Check::Catalog => {}
        }
    }
    if scope == Scope::Lint && standing == Standing::Whole {
        suppress::apply(subject, &mut findings);
    }
    if !by_reference {
        findings.sort_by_key(|found| (found.diagnostic.line, found.diagnostic.column));
    }
    Report { findings }
}

/// Says what the reference validator says, in its words and order; instead of our own rules about
/// the same.
fn as_reference(subject: &Subject<'_>, findings: &mut Vec<Finding>) {
    let found = reference::validate(subject.input());
    findings.extend(found.into_iter().map(|diagnostic| Finding { diagnostic, edits: Vec::new() }));
}

/// Tells whether a rule can say anything that the reader does not know from a worse finding.
fn makes_sense(id: &str, standing: Standing) -> bool {
    match standing {
        Standing::Absent => id == "structure.missingSkillMd",
        Standing::Broken => {
            id.starts_with("file.")
                || id.starts_with("structure.")
                || (id.starts_with("frontmatter.") && id != "frontmatter.unknownField")
        }
        Standing::Whole => true,
    }
}

/// Takes over what loading found, as serious as the profile finds it.
fn loading(
    subject: &Subject<'_>,
    options: Options,
    standing: Standing,
    findings: &mut Vec<Finding>,
) {
    for found in &subject.parsed().diagnostics {
        let severity = match options.profile {
            Profile::Lenient => Some(found.severity),
            _ => rule(found.rule).and_then(|rule| applies(rule, options)),
        };
        if let Some(severity) = severity.filter(|_| makes_sense(found.rule, standing)) {
            let diagnostic = Diagnostic { severity, ..found.clone() };
            findings.push(Finding { diagnostic, edits: Vec::new() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8], options: Options) -> Report {
        let file_name = Some("SKILL.md");
        check(&SkillInput { dir_name: "x", file_name, bytes, files: Some(&[]) }, options)
    }

    #[test]
    fn what_loading_refuses_is_valid_nowhere() {
        let refused: [&[u8]; 8] = [
            b"",
            b"---\nname: x\ndescription: \xFF\n---\n",
            b"# x\n",
            b"---\nname: x\n",
            b"---\n- x\n---\n",
            b"---\n[x\n---\n",
            b"---\nname: x\n---\n",
            b"---\nname: x\ndescription:\n- y\n---\n",
        ];
        for profile in Profile::ALL {
            for bytes in refused {
                let options = Options { profile, scope: Scope::Validate };
                assert!(!found(bytes, options).is_valid(), "{profile:?} {bytes:?}");
            }
        }
    }

    #[test]
    fn every_rule_of_loading_is_a_rule() {
        let text =
            "\u{FEFF}\n--- \nname: X\ntags: {a: b}\ndescription: &a y\na: *a\na: !b c\n---\n";
        for found in skill_format::parse_skill("x", text.as_bytes()).unwrap().parsed.diagnostics {
            assert!(rule(found.rule).is_some(), "{found}");
        }
    }

    #[test]
    fn validate_asks_for_more_than_the_head_only_where_that_is_an_error() {
        let text = b"---\nname: x\ndescription: y\n---\n[a](../b.md)\n";
        for (profile, scope, asked) in [
            (Profile::Spec, Scope::Validate, false),
            (Profile::Spec, Scope::Lint, true),
            (Profile::SeedStrict, Scope::Validate, true),
        ] {
            let options = Options { profile, scope };
            let report = found(text, options);
            let any = report.findings.iter().any(|it| it.diagnostic.rule == "reference.traversal");
            assert_eq!((any, needs_files(options)), (asked, asked), "{options:?}");
        }
    }

    #[test]
    fn the_length_of_a_body_is_told_once() {
        let line = "Count the beads.\n";
        let text = format!("---\nname: x\ndescription: y\n---\n{}", line.repeat(501));
        let told = |profile, scope| {
            let report = found(text.as_bytes(), Options { profile, scope });
            let rules = report.findings.into_iter().map(|it| it.diagnostic.rule);
            let about = |id: &&str| id.starts_with("body.") || *id == "context-budget";
            rules.filter(about).collect::<Vec<_>>()
        };
        assert_eq!(told(Profile::Spec, Scope::Validate), ["body.maxLines"]);
        assert_eq!(told(Profile::Spec, Scope::Lint), ["context-budget"]);
        assert_eq!(told(Profile::SeedStrict, Scope::Validate), ["body.maxLines"]);
        assert_eq!(told(Profile::SeedStrict, Scope::Lint), ["body.maxLines"]);
    }

    #[test]
    fn findings_are_in_the_order_of_the_file() {
        let text = b"---\nhint: z\nname: y\ndescription: <b>z</b>\n---\n";
        let report = found(text, Options::default());
        let lines: Vec<_> = report.findings.iter().map(|found| found.diagnostic.line).collect();
        assert_eq!(lines, [2, 3, 4]);
    }
}
