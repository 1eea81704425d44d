//! Limits that end a script are results, with a remark that names the key.

use skillhost_sandbox::EndCause;
use test_support::can_isolate;

use crate::fixture::{SkillFixture, has_program};

#[tokio::test]
async fn endless_script_is_ended() {
    if !can_isolate() || !has_program("bash") {
        return;
    }
    let mut skill = SkillFixture::new(&[("a.sh", "echo started; while :; do sleep 5; done\n")]);
    skill.set_policy(r#"{"limits": {"seconds": 1}}"#);
    let result = skill.run("a.sh", &[]).await;
    assert_eq!(result.ended_by, Some(EndCause::Time));
    assert_eq!(result.stdout, "started\n");
    assert!(result.duration_ms < 5_000, "{}", result.duration_ms);
    assert!(result.hints[0].contains("sandbox.skills.demo.limits.seconds"), "{:?}", result.hints);
    assert!(result.to_text().starts_with("ended by the time limit after"), "{}", result.to_text());
}

#[tokio::test]
async fn huge_output_is_cut() {
    if !can_isolate() || !has_program("bash") {
        return;
    }
    // A gigabyte is never read: the run ends at the limit.
    let skill = SkillFixture::new(&[("a.sh", "yes | head -c 1000000000\n")]);
    let result = skill.run("a.sh", &[]).await;
    assert_eq!((result.ended_by, result.truncated), (Some(EndCause::Output), true));
    assert!(result.stdout.len() < 300 << 10, "{}", result.stdout.len());
    assert!(result.stdout.contains("bytes left out]"));
    let skill = SkillFixture::new(&[("a.sh", "yes | head -c 600000; echo END\n")]);
    let result = skill.run("a.sh", &[]).await;
    assert_eq!((result.ended_by, result.truncated, result.exit_code), (None, true, Some(0)));
    assert!(result.stdout.ends_with("y\nEND\n"));
}

#[tokio::test]
async fn large_file_requires_proposed_policy() {
    if !can_isolate() || !has_program("python3") {
        return;
    }
    let text = "with open('big', 'wb') as f:\n    for _ in range(100): f.write(b'x' * 1_000_000)\n";
    let mut skill = SkillFixture::new(&[("a.py", text)]);
    let result = skill.run("a.py", &[]).await;
    assert!(!result.is_success());
    let hint = result.hints.iter().find(|hint| hint.contains("fileMib")).unwrap();
    let start = hint.find(r#"{"limits""#).unwrap();
    let end = hint.rfind("}}").unwrap() + 2;
    let proposed = hint[start..end].to_owned();
    skill.set_policy(&proposed);
    let result = skill.run("a.py", &[]).await;
    assert!(result.is_success(), "{proposed}: {}", result.to_text());
    assert_eq!((&*result.files[0].path, result.files[0].bytes), ("big", 100_000_000));
    assert!(result.files[0].sha256.is_some());
}

/// The system ends the program itself, unlike for the limits of all files together.
#[tokio::test]
async fn signal_of_large_file_names_its_limit_only() {
    if !can_isolate() || !has_program("bash") {
        return;
    }
    let mut skill = SkillFixture::new(&[("a.sh", "exec head -c 3000000 /dev/zero >big\n")]);
    skill.set_policy(r#"{"limits": {"fileMib": 2}}"#);
    let result = skill.run("a.sh", &[]).await;
    assert_eq!((result.ended_by, result.signal), (Some(EndCause::Disk), Some(25)));
    let [hint] = &result.hints[..] else { panic!("{:?}", result.hints) };
    assert!(hint.contains("fileMib") && !hint.contains("diskMib"), "{hint}");
}

#[tokio::test]
async fn network_failure_names_setting() {
    if !can_isolate() || !has_program("python3") {
        return;
    }
    let text = "import socket\nsocket.create_connection(('example.org', 80), 3)\n";
    let result = SkillFixture::new(&[("a.py", text)]).run("a.py", &[]).await;
    assert_eq!(result.exit_code, Some(1));
    let network = "sandbox.skills.demo.network.allowedDomains";
    assert!(result.hints.iter().any(|hint| hint.contains(network)), "{:?}", result.hints);
}
