//! The same id in several directories.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use skill_catalog::{SkillEvent, Store};

use crate::fixture::{StoreFixture, assert_quiet, body, events, findings, id, ids};

fn shadowed(store: &Store) -> Vec<(String, String)> {
    let snapshot = store.snapshot();
    let pair = |shadowed: &skill_catalog::ShadowedSkill| {
        (shadowed.name.to_string(), shadowed.skill.source().to_owned())
    };
    snapshot.shadowed().iter().map(pair).collect()
}

#[test]
fn earlier_root_shadows_later_one() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "from the first root");
    fixture.skill("team/demo", "from the second root");
    fixture.skill("team/only", "text");
    let store = fixture.open_with(fixture.options(&["skills", "team"]));
    assert_eq!(ids(&store), ["demo", "only"]);
    assert_eq!(shadowed(&store), [("demo@team".to_owned(), "team".to_owned())]);
    assert_eq!(body(&store, "demo").0, "from the first root");
    assert_eq!(body(&store, "demo@skills").0, "from the first root");
    assert_eq!(body(&store, "demo@team").0, "from the second root");
    assert!(store.snapshot().get("only@skills").is_none());
    let messages: Vec<String> =
        store.snapshot().problems().iter().map(|problem| problem.to_string()).collect();
    let [first, second] = ["skills/demo/SKILL.md", "team/demo/SKILL.md"]
        .map(|rel| fixture.path(rel).display().to_string());
    assert_eq!(
        messages,
        [
            format!(
                "{second}: warning[id.duplicate]: the id is taken by {first}; this skill is \
                 reachable as `demo@team`"
            ),
            format!("{first}: note[id.duplicate]: it is used for `demo` instead of {second}"),
        ]
    );
}

#[test]
fn shadowed_skill_replaces_removed_one() {
    let fixture = StoreFixture::new();
    let first = fixture.skill("skills/demo", "from the first root");
    let second = fixture.skill("team/demo", "from the second root");
    let store = fixture.open_with(fixture.options(&["skills", "team"]));
    store.poll_full();
    fs::remove_dir_all(fixture.path("skills/demo")).unwrap();
    assert_eq!(events(&store), []);
    assert_eq!(body(&store, "demo").0, "from the first root");
    let changed = SkillEvent::Changed { id: id("demo"), old: Some(first), new: Some(second) };
    assert_eq!(events(&store), [changed]);
    assert_eq!((shadowed(&store), findings(&store)), (vec![], vec![]));
    assert_eq!(body(&store, "demo").0, "from the second root");
    assert_quiet(&store);
}

#[test]
fn identical_trees_are_merged() {
    let fixture = StoreFixture::new();
    for root in ["skills", "team", "other"] {
        fixture.skill(&format!("{root}/demo"), "text");
        fixture.write(&format!("{root}/demo/scripts/run.sh"), "echo one");
    }
    let roots = ["skills", "team", "other"];
    let open = || fixture.open_with(fixture.options(&roots));
    let store = open();
    assert_eq!(
        (ids(&store), shadowed(&store), findings(&store)),
        (vec!["demo".into()], vec![], vec![])
    );
    let copies = |store: &Store| -> Vec<String> {
        store.snapshot().identical_copies().iter().map(|copy| copy.source().to_owned()).collect()
    };
    assert_eq!(copies(&store), ["team", "other"]);

    // A difference in content, in a name or in the executable bit makes two of them.
    let script = fixture.write("team/demo/scripts/run.sh", "echo two");
    assert_eq!(shadowed(&open()), [("demo@team".to_owned(), "team".to_owned())]);
    assert_eq!(copies(&open()), ["other"]);
    fixture.write("team/demo/scripts/run.sh", "echo one");
    assert_eq!(shadowed(&open()), []);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(shadowed(&open()).len(), 1);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).unwrap();
    let extra = fixture.write("team/demo/extra", "");
    assert_eq!(shadowed(&open()).len(), 1);
    fs::remove_file(extra).unwrap();
    std::os::unix::fs::symlink("SKILL.md", fixture.path("team/demo/link")).unwrap();
    assert_eq!(shadowed(&open()).len(), 1);

    // The running store finds out at its next full pass.
    assert_eq!(shadowed(&store), []);
    store.poll_full();
    assert_eq!(shadowed(&store).len(), 1);
}

#[test]
fn nearer_directory_shadows_deeper_one() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/b/demo", "two levels deep, in b");
    fixture.skill("skills/a/x/demo", "three levels deep");
    fixture.skill("skills/c/demo", "two levels deep, in c");
    fixture.skill("team/demo", "in another root");
    let store = fixture.open_with(fixture.options(&["skills", "team"]));
    assert_eq!(ids(&store), ["demo"]);
    let names: Vec<String> = shadowed(&store).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["demo@skills#2", "demo@skills#3", "demo@team"]);
    let bodies =
        ["demo", "demo@skills#2", "demo@skills#3", "demo@team"].map(|name| body(&store, name).0);
    assert_eq!(
        bodies,
        ["two levels deep, in b", "two levels deep, in c", "three levels deep", "in another root"]
    );
    assert_eq!(findings(&store).len(), 4);
}

#[test]
fn ids_differing_in_case_are_reported() {
    let fixture = StoreFixture::new();
    for name in ["demo", "Demo", "DÉJÀ", "déjà", "Alone"] {
        fixture.skill(&format!("skills/{name}"), "text");
    }
    let store = fixture.open();
    assert_eq!(ids(&store).len(), 5);
    let snapshot = store.snapshot();
    let mut reported: Vec<(String, String)> = snapshot
        .problems()
        .iter()
        .filter(|problem| problem.diagnostic.rule == "id.case")
        .map(|problem| {
            let id = problem.skill.as_ref().unwrap().to_string();
            (id, problem.diagnostic.message.clone())
        })
        .collect();
    reported.sort();
    let of = |id: &str, other: &str| {
        (id.to_owned(), format!("the id differs only in case from `{other}`"))
    };
    assert_eq!(
        reported,
        [of("Demo", "demo"), of("DÉJÀ", "déjà"), of("demo", "Demo"), of("déjà", "DÉJÀ")]
    );
}
