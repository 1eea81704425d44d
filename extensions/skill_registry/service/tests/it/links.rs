//! Symbolic links: some are followed, others are rejected, and no race leads out of a root.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use skill_catalog::{Audience, Store, TrustLevel};
use skill_service::{ReadSkillArgs, read_skill};
use skillhost_payload::ErrorKind;

use crate::fixture::{StoreFixture, assert_quiet, body, findings, ids};
use crate::jail::{CANARY, read_demo};

fn resource(store: &Store, path: &str) -> Result<String, ErrorKind> {
    read_demo(store, path).map(|answer| answer.text)
}

#[test]
fn links_outside_roots_are_rejected() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/real", "text");
    fixture.skill("pool/shared", "from the pool");
    fixture.skill("outside/secret", CANARY);
    symlink("real", fixture.path("skills/alias")).unwrap();
    symlink("../pool/shared", fixture.path("skills/pooled")).unwrap();
    symlink("../outside/secret", fixture.path("skills/escape")).unwrap();
    symlink("nowhere", fixture.path("skills/dangling")).unwrap();
    symlink("loop", fixture.path("skills/loop")).unwrap();
    symlink("..", fixture.path("skills/up")).unwrap();
    symlink(".", fixture.path("skills/self")).unwrap();
    fixture.write("skills/file.md", "text");
    symlink("file.md", fixture.path("skills/to-file")).unwrap();
    let store = fixture.open_with(fixture.options(&["skills", "pool"]));
    assert_eq!(ids(&store), ["alias", "pooled", "real", "shared"]);
    assert_eq!(body(&store, "alias").0, "text");
    assert_eq!(body(&store, "pooled").0, "from the pool");
    assert!(!format!("{:?}", store.snapshot()).contains(CANARY));
    let mut reported: Vec<_> =
        findings(&store).into_iter().filter(|(_, rule, _)| rule.starts_with("link.")).collect();
    reported.sort();
    assert_eq!(
        reported,
        [
            ("dangling".to_owned(), "link.dangling", true),
            ("escape".to_owned(), "link.outside", true),
            ("loop".to_owned(), "link.dangling", true),
            ("self".to_owned(), "link.outside", true),
            ("up".to_owned(), "link.outside", true),
        ]
    );
    assert_quiet(&store);
}

#[test]
fn linked_directory_is_not_searched() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/group/inner", "text");
    symlink("group", fixture.path("skills/link")).unwrap();
    let store = fixture.open();
    assert_eq!(ids(&store), ["inner"]);
    assert_eq!(findings(&store), [("link".to_owned(), "link.noSkill", true)]);
}

#[test]
fn link_inherits_trust_of_target() {
    let fixture = StoreFixture::new();
    fixture.skill("pool/demo", "text");
    symlink("../pool/demo", fixture.path("skills/linked")).unwrap();
    let mut options = fixture.options(&["skills", "pool"]);
    options.roots[1].trust = TrustLevel::Untrusted;
    let store = fixture.open_with(options);
    assert_eq!(store.snapshot().get("linked").unwrap().trust(), TrustLevel::Untrusted);
}

#[test]
fn nested_root_keeps_its_trust() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/mine", "text");
    fixture.skill("skills/vendor/theirs", "text");
    symlink("vendor/theirs", fixture.path("skills/linked")).unwrap();
    let mut options = fixture.options(&["skills", "skills/vendor"]);
    options.roots[1].trust = TrustLevel::Untrusted;
    let trust = |options| {
        let store = fixture.open_with(options);
        assert_quiet(&store);
        let snapshot = store.snapshot();
        let of =
            |skill: &std::sync::Arc<skill_catalog::Skill>| (skill.id().to_string(), skill.trust());
        snapshot.skills().iter().map(of).collect::<Vec<_>>()
    };
    let of = |id: &str, trust| (id.to_owned(), trust);
    let expected = [
        of("linked", TrustLevel::Untrusted),
        of("mine", TrustLevel::Operator),
        of("theirs", TrustLevel::Untrusted),
    ];
    // Skills of the inner root have its trust, regardless of the order of roots.
    assert_eq!(trust(options.clone()), expected);
    options.roots.reverse();
    assert_eq!(trust(options), expected);
}

#[test]
fn change_behind_link_is_detected() {
    let fixture = StoreFixture::new();
    fixture.skill("pool/demo", "version one");
    symlink("../pool/demo", fixture.path("skills/linked")).unwrap();
    let mut options = fixture.options(&["skills", "pool"]);
    options.ignore = Vec::new();
    let store = fixture.open_with(options);
    store.poll_full();
    assert_quiet(&store);
    fixture.skill("pool/demo", "version two, longer");
    let topics: Vec<_> = store.poll().events.iter().map(|e| e.id().to_string()).collect();
    assert_eq!(topics, ["demo", "linked"]);
    assert_eq!(body(&store, "linked").0, "version two, longer");
    assert_quiet(&store);
}

#[test]
fn links_inside_skill_are_denied() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "text");
    fixture.write("outside/secret", CANARY);
    fixture.write("skills/demo/references/real.md", "real");
    symlink("../../outside/secret", fixture.path("skills/demo/secret")).unwrap();
    symlink(fixture.path("outside"), fixture.path("skills/demo/dir")).unwrap();
    symlink("references", fixture.path("skills/demo/inner")).unwrap();
    symlink("real.md", fixture.path("skills/demo/references/alias.md")).unwrap();
    let store = fixture.open();
    assert_eq!(resource(&store, "references/real.md").as_deref(), Ok("real"));
    for path in ["secret", "dir", "dir/secret", "inner/real.md", "references/alias.md"] {
        assert_eq!(resource(&store, path), Err(ErrorKind::Denied), "{path}");
    }
    let args = ReadSkillArgs { skill_id: "demo".to_owned() };
    let answer = read_skill(&store, &store.snapshot(), Audience::Model, &args).unwrap();
    let listed = answer.structured["resources"].as_array().unwrap();
    let paths: Vec<_> = listed.iter().map(|resource| &resource["path"]).collect();
    assert_eq!(paths, ["references/real.md"]);
    assert!(answer.text.contains("4 entries of the skill's directory cannot be read"));
}

#[test]
fn swapped_skill_directory_is_not_entered() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "text");
    fixture.skill("outside/demo", CANARY);
    fixture.write("outside/demo/notes.md", CANARY);
    let store = fixture.open_warm();
    fs::rename(fixture.path("skills/demo"), fixture.path("away")).unwrap();
    symlink(fixture.path("outside/demo"), fixture.path("skills/demo")).unwrap();
    // Before any poll: the snapshot still refers to the former directory.
    assert_eq!(body(&store, "demo"), ("text".to_owned(), true));
    assert_eq!(resource(&store, "notes.md"), Err(ErrorKind::Denied));
    store.poll();
    assert_eq!(body(&store, "demo"), ("text".to_owned(), true));
    store.poll();
    assert_eq!(ids(&store), Vec::<String>::new());
    assert_eq!(findings(&store), [("demo".to_owned(), "link.outside", true)]);
}

/// Exchanges two paths repeatedly while `read` is called, until `read` has both succeeded and
/// failed and was called 2,000 times; fails if it ever returns the canary.
fn race(a: &Path, b: &Path, mut read: impl FnMut() -> Result<String, ErrorKind>) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let (mut read_well, mut refused) = (0_u32, 0_u32);
        let mut escaped = None;
        for _ in 0..200_000 {
            match read() {
                Ok(text) if text.contains("CANARY") => escaped = Some(text),
                Ok(_) => read_well += 1,
                Err(_) => refused += 1,
            }
            let enough = read_well + refused >= 2_000 && read_well > 0 && refused > 0;
            if enough || escaped.is_some() {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(escaped, None);
        assert!(read_well > 0 && refused > 0, "{read_well} read, {refused} refused");
    });
}

#[test]
fn swapped_resource_does_not_escape() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "text");
    fixture.write("skills/demo/references/file.md", "inside");
    fixture.write("skills/demo/notes.md", "inside");
    fixture.write("outside/file.md", CANARY);
    symlink(fixture.path("outside"), fixture.path("link-to-dir")).unwrap();
    symlink(fixture.path("outside/file.md"), fixture.path("link-to-file")).unwrap();
    let store = fixture.open_warm();
    race(&fixture.path("skills/demo/references"), &fixture.path("link-to-dir"), || {
        resource(&store, "references/file.md")
    });
    race(&fixture.path("skills/demo/notes.md"), &fixture.path("link-to-file"), || {
        resource(&store, "notes.md")
    });
}

#[test]
fn swapped_skill_does_not_escape() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "text");
    let outside = format!("---\nname: demo\ndescription: {CANARY:?}\n---\n{CANARY}\n");
    fixture.write("outside/demo/SKILL.md", outside);
    symlink(fixture.path("outside/demo"), fixture.path("link-to-skill")).unwrap();
    let store = fixture.open_warm();
    race(&fixture.path("skills/demo"), &fixture.path("link-to-skill"), || {
        let snapshot = store.snapshot();
        let skill = snapshot.get("demo").unwrap();
        let source = store.read(skill).unwrap();
        match source.state {
            skill_catalog::SourceState::Current => Ok(source.text.to_string()),
            skill_catalog::SourceState::LastGood { .. } if source.text.contains("CANARY") => {
                Ok(source.text.to_string())
            }
            skill_catalog::SourceState::LastGood { .. } => Err(ErrorKind::Denied),
        }
    });
    race(&fixture.path("skills/demo"), &fixture.path("link-to-skill"), || {
        store.poll_full();
        let text = format!("{:?}", store.snapshot());
        if ids(&store).is_empty() { Err(ErrorKind::Denied) } else { Ok(text) }
    });
}
