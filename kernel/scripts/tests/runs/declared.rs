//! The limits that a security manifest declares, tried by scripts in the real sandbox.
//!
//! Each script tries one effect that the operator's policy allows, and prints `EFFECT` after it. An
//! oracle of its own states which manifest permits which effect.

use std::fs;

use skillhost_payload::{ErrorKind, SkillFileScope, SkillSecurity};
use skillhost_policy::IsolationLevel;

use crate::declared_scripts::{Effect, MORE_SCRIPTS, SCRIPTS};
use crate::fixture::{SkillFixture, has_program};

fn manifests() -> Vec<Option<SkillSecurity>> {
    let stated = SkillSecurity::default();
    let scope = |scope| SkillSecurity { file_scope: Some(scope), ..stated };
    vec![
        None,
        Some(stated),
        Some(SkillSecurity { requires_network: Some(false), ..stated }),
        Some(SkillSecurity { executes_commands: Some(false), ..stated }),
        Some(SkillSecurity { modifies_files: Some(false), ..stated }),
        Some(scope(SkillFileScope::SkillDirectory)),
        Some(scope(SkillFileScope::Workspace)),
        Some(SkillSecurity { modifies_files: Some(true), ..scope(SkillFileScope::Workspace) }),
        Some(SkillSecurity { modifies_files: Some(true), ..scope(SkillFileScope::SkillDirectory) }),
        Some(scope(SkillFileScope::System)),
        Some(SkillSecurity {
            requires_network: Some(false),
            modifies_files: Some(false),
            executes_commands: Some(false),
            file_scope: Some(SkillFileScope::SkillDirectory),
        }),
    ]
}

/// States whether a manifest permits an effect, in the words of the specification.
fn is_declared(effect: Effect, security: Option<SkillSecurity>) -> bool {
    let Some(security) = security else { return true };
    let (own, work) = (
        security.file_scope == Some(SkillFileScope::SkillDirectory),
        security.file_scope == Some(SkillFileScope::Workspace),
    );
    match effect {
        Effect::ReadWork => !own,
        Effect::WriteWork => match security.modifies_files {
            Some(true) => !own,
            Some(false) => false,
            None => !own && !work,
        },
        Effect::ReadOutside => !own && !work,
        Effect::WriteOutside => !own && !work && security.modifies_files != Some(false),
        Effect::Execute => security.executes_commands != Some(false),
        Effect::Network => security.requires_network != Some(false),
    }
}

fn write_script(fixture: &SkillFixture, name: &str, text: &str) {
    let script = match name.ends_with(".py") {
        true => format!("import os, socket, subprocess, sys\n{text}\nprint('EFFECT')\n"),
        false => format!("{text} && echo EFFECT\n"),
    };
    fixture.write(&format!("scripts/{name}"), &script);
}

#[tokio::test]
async fn scripts_have_no_undeclared_effect() {
    if !has_program("python3") {
        return;
    }
    let mut fixture = SkillFixture::new(&[]);
    for (name, _, text) in SCRIPTS.iter().chain(&MORE_SCRIPTS) {
        write_script(&fixture, name, text);
    }
    let (readable, writable) = (fixture.base().join("readable"), fixture.base().join("writable"));
    for directory in [&readable, &writable] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("a.txt"), "text\n").unwrap();
    }
    let namespaces = {
        let plan = std::thread::scope(|scope| {
            scope.spawn(|| fixture.plan("scripts/run.py", &[]).unwrap()).join().unwrap()
        });
        plan.isolation().level == IsolationLevel::Namespaces
    };
    // The operator allows everything that the scripts try, so that the manifest alone decides.
    let hosts =
        if namespaces { "\"network\": {\"allowedDomains\": [\"example.org\"]}," } else { "" };
    fixture.set_policy(&format!(
        "{{{hosts} \"filesystem\": {{\"allowRead\": [{readable:?}], \"allowWrite\": [\".\", \
         {writable:?}]}}}}"
    ));
    let work = fixture.work();
    let (mut runs, mut undeclared, mut missing) = (0, Vec::new(), Vec::new());
    for (number, security) in manifests().into_iter().enumerate() {
        fixture.security = security;
        // Without a manifest, without a statement, with the one limit of the effect, with all of them.
        let limit = |effect| match effect {
            Effect::Network => 2,
            Effect::Execute => 3,
            Effect::WriteWork | Effect::WriteOutside => 4,
            Effect::ReadWork | Effect::ReadOutside => 5,
        };
        let more = MORE_SCRIPTS
            .iter()
            .filter(|(_, effect, _)| [0, 1, limit(*effect), 10].contains(&number));
        for (name, effect, _) in SCRIPTS.iter().chain(more) {
            let effect = *effect;
            fs::write(work.join("input.txt"), "input\n").unwrap();
            fs::write(work.join("spare.txt"), "spare\n").unwrap();
            let arguments: Vec<_> =
                [&work, &readable, &writable].iter().map(|it| it.display().to_string()).collect();
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            let result = fixture.run(&format!("scripts/{name}"), &arguments).await;
            let made = work.join("made.txt").exists()
                || !work.join("spare.txt").exists()
                || writable.join("b.txt").exists();
            let happened = result.stdout.contains("EFFECT") || made;
            for path in [work.join("made.txt"), writable.join("b.txt")] {
                let _ = fs::remove_file(path);
            }
            let expected =
                is_declared(effect, security) && (namespaces || effect != Effect::Network);
            runs += 1;
            match (happened, expected) {
                (true, false) => undeclared.push((*name, security)),
                (false, true) => missing.push((*name, security, result.stderr)),
                _ => {}
            }
        }
    }
    println!(
        "{runs} runs of {} scripts, {} undeclared effects",
        SCRIPTS.len() + MORE_SCRIPTS.len(),
        undeclared.len()
    );
    assert_eq!(undeclared, []);
    assert_eq!(missing, []);
    assert_eq!(runs, 16 * 11 + 27 * 4);
}

#[tokio::test]
async fn confined_script_starts_in_scratch() {
    let mut fixture = SkillFixture::new(&[(
        "scripts/a.sh",
        "echo made > out.txt\nread -r line < out.txt\necho \"$line in $PWD\"\n",
    )]);
    fixture.security = Some(SkillSecurity {
        file_scope: Some(SkillFileScope::SkillDirectory),
        ..SkillSecurity::default()
    });
    let result = fixture.run("scripts/a.sh", &[]).await;
    assert_eq!((result.stdout.as_str(), result.exit_code), ("made in @scratch/work\n", Some(0)));
    assert_eq!(result.files, []);
    assert!(result.hints.iter().any(|hint| hint.contains("are not kept")), "{:?}", result.hints);
    assert!(!fixture.work().join("out.txt").exists());
    // Elsewhere in the work directory of the thread it cannot start.
    fs::create_dir(fixture.work().join("below")).unwrap();
    fixture.workdir = "../work".to_owned();
    let error = fixture.plan("scripts/a.sh", &[]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn unknown_scope_is_the_narrowest() {
    let mut fixture = SkillFixture::new(&[("a.sh", "echo x > \"$1/made.txt\" && echo EFFECT\n")]);
    let security = serde_json::from_str(r#"{"file_scope": "galaxy"}"#).unwrap();
    fixture.security = Some(security);
    let work = fixture.work().display().to_string();
    let result = fixture.run("a.sh", &[&work]).await;
    assert!(!result.stdout.contains("EFFECT"), "{}", result.to_text());
    assert!(!fixture.work().join("made.txt").exists());
}

#[test]
fn system_scope_requires_approval() {
    let mut fixture = SkillFixture::new(&[("a.sh", "true\n")]);
    assert!(!fixture.plan("a.sh", &[]).unwrap().requires_approval());
    for scope in [SkillFileScope::Workspace, SkillFileScope::System] {
        fixture.security =
            Some(SkillSecurity { file_scope: Some(scope), ..SkillSecurity::default() });
        let required = fixture.plan("a.sh", &[]).unwrap().requires_approval();
        assert_eq!(required, scope == SkillFileScope::System);
    }
}

#[test]
fn declared_limits_are_shown_for_approval() {
    let mut fixture = SkillFixture::new(&[("a.sh", "true\n")]);
    let open = fixture.plan("a.sh", &[]).unwrap();
    fixture.security =
        Some(SkillSecurity { executes_commands: Some(false), ..SkillSecurity::default() });
    let limited = fixture.plan("a.sh", &[]).unwrap();
    assert!(limited.describe().contains("denyExecution"), "{}", limited.describe());
    assert!(!open.describe().contains("denyExecution"));
    assert_ne!(limited.granted_policy().digest, open.granted_policy().digest);
}
