//! Skills that an agent works by.

use std::fs;

use skill_store::{
    Activated, Audience, CatalogScope, Content, Digest, ErrorKind, LedgerKeeper, RegistryError,
    Scope, SkillState, Store, TokenCount, Trust, activate_skill,
};

use crate::desk::{Desk, agent, person};
use crate::scene::Scene;

fn write(scene: &Scene, id: &str, fields: &str) -> Digest {
    let text = format!("---\nname: {id}\ndescription: About {id}.\n{fields}---\nDo it.\n");
    scene.write(&format!("skills/{id}/SKILL.md"), &text);
    Digest::of(text.as_bytes())
}

fn activate(store: &Store, audience: Audience<'_>, id: &str) -> Result<Activated, RegistryError> {
    activate_skill(store, &store.snapshot(), audience, id)
}

#[test]
fn a_skill_comes_as_it_is_bound_and_says_which_tools_it_names() {
    let scene = Scene::new();
    let cases: [(&str, &str, Option<&[&str]>); 7] = [
        (
            "blanks",
            "allowed-tools: read_file  Bash(git add:*)\n",
            Some(&["read_file", "Bash(git add:*)"]),
        ),
        ("commas", "allowed-tools: read_file, write_file\n", Some(&["read_file", "write_file"])),
        ("list", "allowed-tools: [read_file, write_file]\n", Some(&["read_file", "write_file"])),
        ("items", "allowed-tools:\n  - read_file\n", Some(&["read_file"])),
        ("broken", "allowed-tools: Bash(git add\n", Some(&[])),
        ("empty", "allowed-tools: \"\"\n", None),
        ("absent", "", None),
    ];
    for (id, fields, _) in cases {
        write(&scene, id, fields);
    }
    let store = scene.open_warm();
    for (id, _, expected) in cases {
        let made = activate(&store, Audience::Model, id).unwrap();
        let tools = made.allowed_tools.as_ref().map(|tools| tools.iter().map(|t| &**t).collect());
        assert_eq!(tools, expected.map(<[&str]>::to_vec), "{id}");
        assert!(made.grants, "{id}");
    }
    let digest = store.snapshot().get("absent").unwrap().digest().unwrap();
    let text =
        format!("<skill_content name=\"absent\" digest=\"{digest}\">\nDo it.\n</skill_content>");
    let content = Content {
        tokens: TokenCount::of(&text),
        text,
        digest,
        skill_id: "absent".to_owned(),
        root: "skills".to_owned(),
        location: scene.path("skills/absent/SKILL.md"),
    };
    let expected = Activated { content, allowed_tools: None, grants: true };
    assert_eq!(activate(&store, Audience::Operator, "absent"), Ok(expected));
    // What changed since the last look comes as it is now.
    let digest = write(&scene, "absent", "allowed-tools: echo\n");
    let now = activate(&store, Audience::Model, "absent").unwrap();
    assert_eq!((now.content.digest, now.allowed_tools), (digest, Some(vec!["echo".to_owned()])));
}

#[test]
fn a_model_has_what_it_may_read_and_a_person_what_users_may_invoke() {
    let scene = Scene::new();
    write(&scene, "both", "");
    write(&scene, "users", "disable-model-invocation: true\n");
    write(&scene, "models", "user-invocable: false\n");
    write(&scene, "stopped", "");
    let mut options = scene.options(&["skills"]);
    options.skills.insert("stopped".to_owned(), SkillState::Off);
    let store = scene.open_with(options);
    let bound = ["users".to_owned(), "stopped".to_owned()];
    let binding = Audience::Agent(Scope { catalog: CatalogScope::None, bound: &bound });
    let (denied, gone) = (Some(ErrorKind::Denied), Some(ErrorKind::NotFound));
    // id, for any model, for an agent that is shown nothing and binds two, for a person.
    let cases = [
        ("both", None, gone, None),
        ("users", denied, None, None),
        ("models", None, gone, denied),
        ("stopped", gone, gone, denied),
        ("bith", gone, gone, gone),
    ];
    for (id, model, agent, operator) in cases {
        let kind = |audience| activate(&store, audience, id).err().map(|error| error.kind);
        let kinds = (kind(Audience::Model), kind(binding), kind(Audience::Operator));
        assert_eq!(kinds, (model, agent, operator), "{id}");
    }
    assert_eq!(activate(&store, Audience::Model, "bith").unwrap_err().similar, ["both"]);
}

#[test]
fn nothing_is_granted_by_what_nobody_answers_for() {
    let scene = Scene::new();
    write(&scene, "demo", "allowed-tools: delete_path\n");
    let mut options = scene.options(&["skills"]);
    options.roots[0].trust = Trust::Untrusted;
    let made = activate(&scene.open_with(options), Audience::Model, "demo").unwrap();
    assert_eq!((made.allowed_tools, made.grants), (Some(vec!["delete_path".to_owned()]), false));

    let desk = Desk::new();
    let store = desk.scene.open_warm();
    let keeper = LedgerKeeper::new(&desk.ledger);
    let grants = || activate(&store, Audience::Model, "beads").unwrap().grants;
    assert!(grants());
    desk.other().report_created(&desk.snapshot(), &agent(), "beads").unwrap();
    keeper.keep_up(&store, &[], false);
    assert!(!grants());
    let standing = desk.ledger.standing(&desk.snapshot()).unwrap();
    let tree = standing.values().next().unwrap().digest;
    desk.other().approve_skill(&desk.snapshot(), &person(), "beads", tree).unwrap();
    keeper.keep_up(&store, &[], false);
    assert!(grants());
    // Nobody has looked since: exactly what was approved grants.
    desk.scene.write("skills/beads/run.sh", "rm -r /");
    assert!(!grants());
    fs::remove_file(desk.scene.path("skills/beads/run.sh")).unwrap();
    assert!(grants());
}
