//! Grants of the operator, compared with runs.

use skillhost_home::{
    ApprovalSurface, Approver, GrantStatus, Home, HomeSource, ScriptGrant, ScriptGrants,
};
use skillhost_sandbox::SandboxLauncher;
use skillhost_scripts::{GrantTerms, check_grant, describe_grant};
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
    let status =
        |skill: &SkillFixture| check_grant(&home, &skill.plan("a.sh", &[]).unwrap()).unwrap();
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
    assert_eq!(check_grant(&home, &narrow).unwrap(), GrantStatus::Granted);
    assert_eq!(narrow.granted_policy(), wide.granted_policy());
    let shown = narrow.describe();
    assert!(shown.contains(&format!("\npolicy {}:\n", narrow.policy().digest())), "{shown}");
    assert_ne!(narrow.policy().digest(), wide.policy().digest());
    let approval = format!("\napproval policy {}\n", narrow.granted_policy().digest);
    assert!(shown.contains(&approval), "{shown}");
}
