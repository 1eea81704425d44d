//! Tests of `check`.

use super::*;
use crate::rules::find_rule;

fn found(bytes: &[u8], options: CheckOptions) -> CheckReport {
    let file_name = Some("SKILL.md");
    check_skill(&SkillInput { dir_name: "x", file_name, bytes, files: Some(&[]) }, options)
}

#[test]
fn rejected_file_is_never_valid() {
    let rejected: [&[u8]; 8] = [
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
        for bytes in rejected {
            let options = CheckOptions { profile, scope: CheckScope::Validate };
            assert!(!found(bytes, options).is_valid(), "{profile:?} {bytes:?}");
        }
    }
}

#[test]
fn loading_rules_are_registered() {
    let text = "\u{FEFF}\n--- \nname: X\ntags: {a: b}\ndescription: &a y\na: *a\na: !b c\n---\n";
    for found in skill_format::parse_skill("x", text.as_bytes()).unwrap().parsed.diagnostics {
        assert!(find_rule(found.rule).is_some(), "{found}");
    }
}

#[test]
fn validate_reads_body_for_errors_only() {
    let text = b"---\nname: x\ndescription: y\n---\n[a](../b.md)\n";
    for (profile, scope, is_enabled) in [
        (Profile::Spec, CheckScope::Validate, false),
        (Profile::Spec, CheckScope::Lint, true),
        (Profile::SeedStrict, CheckScope::Validate, true),
    ] {
        let options = CheckOptions { profile, scope };
        let report = found(text, options);
        let any = report.findings.iter().any(|it| it.diagnostic.rule == "reference.traversal");
        assert_eq!((any, needs_files(options)), (is_enabled, is_enabled), "{options:?}");
    }
}

#[test]
fn body_length_is_reported_once() {
    let line = "Count the beads.\n";
    let text = format!("---\nname: x\ndescription: y\n---\n{}", line.repeat(501));
    let reported = |profile, scope| {
        let report = found(text.as_bytes(), CheckOptions { profile, scope });
        let rules = report.findings.into_iter().map(|it| it.diagnostic.rule);
        let about = |id: &&str| id.starts_with("body.") || *id == "context-budget";
        rules.filter(about).collect::<Vec<_>>()
    };
    assert_eq!(reported(Profile::Spec, CheckScope::Validate), ["body.maxLines"]);
    assert_eq!(reported(Profile::Spec, CheckScope::Lint), ["context-budget"]);
    assert_eq!(reported(Profile::SeedStrict, CheckScope::Validate), ["body.maxLines"]);
    assert_eq!(reported(Profile::SeedStrict, CheckScope::Lint), ["body.maxLines"]);
}

#[test]
fn findings_follow_file_order() {
    let text = b"---\nhint: z\nname: y\ndescription: <b>z</b>\n---\n";
    let report = found(text, CheckOptions::default());
    let lines: Vec<_> = report.findings.iter().map(|found| found.diagnostic.line).collect();
    assert_eq!(lines, [2, 3, 4]);
}
