//! Grants of the operator, compared with runs.

use serde_json::json;
use skillhost_home::{
    ApprovalSurface, Approver, GrantStatus, Home, HomeSource, ScriptGrant, ScriptGrants,
};
use skillhost_sandbox::SandboxLauncher;
use skillhost_scripts::{GrantTerms, check_grant, describe_grant, load_grants};
use test_support::can_isolate;

use crate::fixture::{SkillFixture, has_program};

fn create_home(directory: &std::path::Path) -> Home {
    std::fs::create_dir(directory.join("sandbox")).unwrap();
    Home::open(directory, HomeSource::Argument).unwrap()
}

fn approve(home: &Home, skill: &SkillFixture) -> ScriptGrant {
    let tree = skill.tree();
    let terms = GrantTerms::determine(&skill.operator, &SandboxLauncher::default(), &tree).unwrap();
    let grant = terms.to_grant(&tree, &Approver::operator(ApprovalSurface::CommandLine));
    ScriptGrants::append(home, &grant).unwrap();
    grant
}

#[test]
fn network_of_programs_is_not_approved_for_scripts() {
    if !can_isolate() || !has_program("bash") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let home = create_home(directory.path());
    let mut skill = SkillFixture::new(&[("a.sh", "true\n")]);
    let set = |skill: &mut SkillFixture, settings: &str| {
        skill.operator.settings = serde_json::from_str(settings).unwrap();
    };
    let status = |skill: &SkillFixture| {
        check_grant(&load_grants(&home).unwrap(), &skill.plan("a.sh", &[]).unwrap())
    };
    set(&mut skill, r#"{"handlers": {"network": {"allowedDomains": ["evil.org"]}}}"#);
    approve(&home, &skill);
    assert_eq!(status(&skill), GrantStatus::Granted);
    set(&mut skill, r#"{"scripts": {"network": {"allowedDomains": ["evil.org"]}}}"#);
    let changed = status(&skill);
    assert_eq!(
        describe_grant(&changed, "demo").unwrap(),
        "the policy of demo changed since approval: allowedDomains evil.org added"
    );
    set(&mut skill, r#"{"scripts": {"limits": {"seconds": 7}}}"#);
    let text = describe_grant(&status(&skill), "demo").unwrap();
    assert!(text.starts_with("the policy of demo changed since approval: seconds "), "{text}");
    assert!(text.ends_with(" → 7"), "{text}");
    approve(&home, &skill);
    assert_eq!(status(&skill), GrantStatus::Granted);
}

#[test]
fn policy_of_one_run_keeps_the_grant_and_has_its_own_digest() {
    if !can_isolate() || !has_program("bash") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let home = create_home(directory.path());
    let mut skill = SkillFixture::new(&[("a.sh", "true\n")]);
    approve(&home, &skill);
    let wide = skill.plan("a.sh", &[]).unwrap();
    skill.set_policy(r#"{"limits": {"seconds": 3}}"#);
    let narrow = skill.plan("a.sh", &[]).unwrap();
    assert_eq!(check_grant(&load_grants(&home).unwrap(), &narrow), GrantStatus::Granted);
    assert_eq!(narrow.granted_policy(), wide.granted_policy());
    let shown = narrow.describe();
    assert!(shown.contains(&format!("\npolicy {}:\n", narrow.policy().digest())), "{shown}");
    assert_ne!(narrow.policy().digest(), wide.policy().digest());
    let approval = format!("\napproval policy {}\n", narrow.granted_policy().digest);
    assert!(shown.contains(&approval), "{shown}");
}

#[test]
fn approval_shows_policies_of_both_uses() {
    if !can_isolate() {
        return;
    }
    let mut skill = SkillFixture::new(&[("a.sh", "true\n"), ("b\nc.txt", "")]);
    skill.sandbox = Some(json!({"network": {"allowedDomains": ["more.example.org"]}}));
    let describe = |skill: &SkillFixture| {
        let tree = skill.tree();
        let terms = GrantTerms::determine(&skill.operator, &SandboxLauncher::default(), &tree);
        terms.unwrap().describe(&tree)
    };
    let both = describe(&skill);
    assert!(both.contains("\npolicy of scripts and programs, isolation at least "), "{both}");
    assert!(both.starts_with("3 files in "), "{both}");
    assert!(both.contains("  b\\u{a}c.txt\n"), "{both}");
    assert!(both.contains("\n  allowWrite . (default)\n"), "{both}");
    let (_, policy) = both.split_once("\npolicy of ").unwrap();
    let temporary = std::env::temp_dir();
    assert!(!policy.contains(temporary.to_str().unwrap()), "no directory of a run: {both}");
    let refused =
        "  not granted, although the skill requests it: allowedDomains more.example.org\n";
    assert_eq!(both.matches(refused).count(), 1, "{both}");
    let settings = r#"{"handlers": {"network": {"allowedDomains": ["evil.org"]}}}"#;
    skill.operator.settings = serde_json::from_str(settings).unwrap();
    skill.sandbox = None;
    let two = describe(&skill);
    let (scripts, programs) = two.split_once("\npolicy of programs, isolation at least ").unwrap();
    assert!(scripts.contains("\npolicy of scripts, isolation at least "), "{two}");
    let host = "  allowedDomains evil.org (settings: sandbox.handlers)\n";
    assert!(programs.contains(host) && !scripts.contains("evil.org"), "{two}");
}

#[tokio::test]
async fn settings_of_a_skill_apply_to_the_trusted_one() {
    if !can_isolate() || !has_program("bash") {
        return;
    }
    let mut skill = SkillFixture::new(&[("a.sh", "exec sleep 60\n")]);
    let seconds = |skill: &SkillFixture| {
        skill.plan("a.sh", &[]).unwrap().policy().policy.limits.seconds.unwrap()
    };
    let settings = r#"{"scripts": {"limits": {"seconds": 1}},
        "skills": {"demo": {"limits": {"seconds": 70}}}}"#;
    skill.operator.settings = serde_json::from_str(settings).unwrap();
    assert_eq!(seconds(&skill), 70);
    skill.identity = ("demo@skills", "skills", true);
    assert_eq!(seconds(&skill), 70);
    for id in ["demo@dl", "demo"] {
        skill.identity = (id, "dl", false);
        assert_eq!(seconds(&skill), 1, "{id}");
    }
    // The key that a hint proposes has an effect.
    let result = skill.run("a.sh", &[]).await;
    let hint = result.hints.first().unwrap();
    assert!(hint.contains("sandbox.skills.demo@dl.limits.seconds"), "{hint}");
    let settings = r#"{"skills": {"demo": {"limits": {"seconds": 70}},
        "demo@dl": {"limits": {"seconds": 80}}, "demo@skills": {"limits": {"seconds": 90}}}}"#;
    skill.operator.settings = serde_json::from_str(settings).unwrap();
    assert_eq!(seconds(&skill), 80);
    skill.identity = ("demo", "skills", true);
    assert_eq!(seconds(&skill), 90);
}
