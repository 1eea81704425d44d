//! The files in the repository that depend on this crate: the shipped manifests and the schema.
#![expect(clippy::disallowed_methods, reason = "these tests look at files of the repository")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use skillhost_manifest::{Manifest, manifest_schema, parse_manifest, plan};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads the shipped manifests, as (text, manifest) by directory.
fn read_shipped() -> BTreeMap<String, (String, Manifest)> {
    let mut shipped = BTreeMap::new();
    for entry in fs::read_dir(repository().join("manifests")).expect("manifests/ is there") {
        let directory = entry.expect("manifests/ can be listed").path();
        let name = directory.file_name().expect("it has a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(directory.join("manifest.yaml")).expect("it has a manifest");
        let manifest = parse_manifest(&text).unwrap_or_else(|errors| panic!("{name}:\n{errors}"));
        shipped.insert(name, (text, manifest));
    }
    shipped
}

#[test]
fn documented_schema_is_current() {
    let path = repository().join("docs/schema/manifest.json");
    let mut current = serde_json::to_string_pretty(&manifest_schema()).expect("a schema is JSON");
    current.push('\n');
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(path.parent().expect("it has a directory")).expect("can be created");
        fs::write(&path, &current).expect("docs/ can be written");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == current,
        "docs/schema/manifest.json is out of date; run\n    \
         UPDATE_DOCS=1 cargo test -p skillhost-manifest --test shipped"
    );
}

#[test]
fn shipped_manifests_are_valid() {
    let shipped = read_shipped();
    for (directory, (text, manifest)) in &shipped {
        assert_eq!(manifest.id.as_str(), directory, "directory is named after the extension");
        assert_eq!(
            text.lines().next(),
            Some("# yaml-language-server: $schema=../../docs/schema/manifest.json"),
            "{directory}"
        );
        assert_ne!(manifest.description, "", "{directory} has a description");
        let prompt = repository().join("manifests").join(directory).join("prompt.jinja2");
        assert_eq!(
            prompt.is_file(),
            manifest.agent().is_some(),
            "agents have a prompt: {directory}"
        );
    }
    let manifests: Vec<&Manifest> = shipped.values().map(|(_, manifest)| manifest).collect();
    let plan = plan::plan_load_order(&manifests);
    assert_eq!(plan.rejected, vec![], "every dependency is shipped too");
    // `embedding` is disabled until a model is selected.
    let missing = plan.unmet.iter().find(|unmet| unmet.reason != plan::UnmetReason::Disabled);
    assert_eq!(missing, None, "every optional dependency is shipped too");
    assert_eq!(plan.order.len() + plan.disabled.len(), manifests.len());
}

#[test]
fn template_manifests_are_valid() {
    let skills = repository().join("sandbox/skills");
    let templates = skills.join("extension-development/templates");
    let mut seen = 0;
    for entry in fs::read_dir(&templates).expect("the skill has templates") {
        let path = entry.expect("templates can be listed").path().join("manifest.yaml");
        if path.is_file() {
            let text = fs::read_to_string(&path).expect("a template can be read");
            parse_manifest(&text).unwrap_or_else(|errors| panic!("{}:\n{errors}", path.display()));
            seen += 1;
        }
    }
    assert!(seen > 0, "there is a template with a manifest");
}

#[test]
fn prompts_use_only_known_variables() {
    let mut environment = minijinja::Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    for (directory, (_, manifest)) in &read_shipped() {
        if manifest.agent().is_none() {
            continue;
        }
        let path = repository().join("manifests").join(directory).join("prompt.jinja2");
        let template = fs::read_to_string(path).expect("an agent has a prompt");
        let variables = minijinja::context! {
            home => "HOME",
            sandbox => "HOME/sandbox",
            agent => minijinja::context! { id => directory, name => &manifest.name },
        };
        let rendered = environment.render_str(&template, variables).expect(directory);
        assert!(
            rendered.contains(&manifest.name),
            "{directory} has its name in its prompt:\n{rendered}"
        );
    }
}

#[test]
fn builder_prompt_relies_on_its_skills() {
    let shipped = read_shipped();
    let (_, builder) = &shipped["builder_agent"];
    let agent = builder.agent().expect("the builder is an agent");
    let skills: Vec<&str> = agent.uses_skills.iter().map(|skill| skill.as_str()).collect();
    assert_eq!(skills, ["extension-development", "skill-authoring"]);
    let prompt = repository().join("manifests/builder_agent/prompt.jinja2");
    let prompt = fs::read_to_string(prompt).expect("the builder has a prompt");
    assert!(prompt.lines().count() <= 30, "the prompt has {} lines", prompt.lines().count());
}
