//! Tests of the resolution of model names.

use skillhost_conversation::{ModelError, ModelErrorKind as Kind, ModelMetadata, ModelSource as _};
use skillhost_home::TokenPrice;
use skillhost_models::{ModelRegistry, ProviderStatus};

use super::models_of;

fn lookup_error(models: &ModelRegistry, name: &str) -> (Kind, String, String) {
    match models.resolve_model(Some(name), "agent") {
        Err(ModelError { kind, message, hint, model }) => {
            assert_eq!(model, name);
            (kind, message, hint)
        }
        Ok(model) => panic!("{name} is {:?}", model.metadata()),
    }
}

#[test]
fn name_overrides_agent_and_default() {
    let (models, _) = models_of(
        "
default: ollama/small
agents: {builder_agent: ollama/large}
known:
  ollama/large: {context_window: 8000, price: {input: 1, output: 2, cached: 0.5}}
",
    );
    let metadata = |name, agent| models.resolve_model(name, agent).unwrap().metadata().clone();
    let bare =
        |name: &str| ModelMetadata { name: name.to_owned(), context_window: None, price: None };
    assert_eq!(metadata(None, "other"), bare("ollama/small"));
    assert_eq!(metadata(Some("script/demo"), "builder_agent"), bare("script/demo"));
    let price = Some(TokenPrice { input: 1.0, output: 2.0, cached: Some(0.5) });
    let large = ModelMetadata { context_window: Some(8000), price, ..bare("ollama/large") };
    assert_eq!(metadata(None, "builder_agent"), large);
    assert_eq!(
        models_of("{}").0.resolve_model(None, "a").unwrap().metadata(),
        &bare("script/demo")
    );
}

#[test]
fn unknown_name_has_hint() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("broken.yaml");
    std::fs::write(&script, "rules: [{}]").unwrap();
    let (models, _) = models_of(&format!(
        "providers: {{lab: {{base_url: 'http://127.0.0.1:1/v1'}}, far: {{wire: openai, base_url: \
         'ftp://x'}}, play: {{wire: script, script: '{}'}}, keyed: {{wire: openai, key: LAB_KEY}}}}",
        script.display()
    ));
    let shows = "see skillhost model list, or add the provider to the settings";
    let cases = [
        (
            "gpt-5",
            "`gpt-5` is not an alias, and the default provider `script` lacks it",
            "add `gpt-5: provider/model` to `models.aliases` in skillhost.yaml, or set \
             `models.default` to a model of its provider",
        ),
        (
            "/x",
            "a model name requires the form provider/model",
            "use a name such as openai/gpt-5, anthropic/claude-sonnet-4-5 or script/demo",
        ),
        (
            "antropic/x",
            "provider `antropic` not found",
            &format!("did you mean `anthropic`? {shows}"),
        ),
        ("zzz/x", "provider `zzz` not found", shows),
        (
            "lab/x",
            "provider `lab` requires a `wire`",
            "set `wire: openai`, or another one, in `models.providers.lab`",
        ),
        (
            "far/x",
            "base_url of the provider is not a valid http or https address",
            "use an address such as http://127.0.0.1:8000/v1",
        ),
        (
            "script/other",
            "provider `script` has only the model `demo`",
            "add a provider with `wire: script` and `script: FILE` for another script",
        ),
    ];
    for (name, message, hint) in cases {
        let expected = (Kind::Unknown, message.to_owned(), hint.to_owned());
        assert_eq!(lookup_error(&models, name), expected, "{name}");
    }
    let (kind, message, _) = lookup_error(&models, "play/x");
    assert!(
        kind == Kind::Unknown && message.contains("a rule requires `say` or `call`"),
        "{message}"
    );
    let (kind, message, hint) = lookup_error(&models, "keyed/x");
    assert_eq!((kind, &*message), (Kind::Key, "key LAB_KEY of provider `keyed` not found"));
    assert!(hint.starts_with("set LAB_KEY in the environment or in /nowhere/.env"), "{hint}");
    let (kind, message, _) = lookup_error(&models, "anthropic/x");
    assert_eq!(kind, Kind::Key);
    assert!(message.contains("ANTHROPIC_API_KEY"), "{message}");
}

#[test]
fn alias_and_bare_name_resolve() {
    let (models, _) = models_of(
        "
default: small
aliases: {small: ollama/s, codex: ollama/gpt-5.2-codex, odd: small}
agents: {builder_agent: codex}
known: {ollama/s: {context_window: 8000}}
",
    );
    let metadata = |name, agent| models.resolve_model(name, agent).unwrap().metadata().clone();
    let model = |name: &str, context_window| ModelMetadata {
        name: name.to_owned(),
        context_window,
        price: None,
    };
    assert_eq!(metadata(None, "other"), model("ollama/s", Some(8000)));
    assert_eq!(metadata(None, "builder_agent"), model("ollama/gpt-5.2-codex", None));
    assert_eq!(metadata(Some("llama3"), "other"), model("ollama/llama3", None));
    assert_eq!(metadata(Some("script/demo"), "other"), model("script/demo", None));
    assert_eq!(
        lookup_error(&models, "odd"),
        (
            Kind::Unknown,
            "target `small` of the alias `odd` is not of the form provider/model".to_owned(),
            "set `models.aliases.odd` in skillhost.yaml to provider/model".to_owned()
        )
    );
    let known = ["ollama/gpt-5.2-codex", "ollama/s", "script/demo"];
    assert_eq!(models.known_models(), known);

    let (models, _) = models_of("default: small");
    let (kind, message, hint) = lookup_error(&models, "small");
    assert_eq!(kind, Kind::Unknown);
    assert_eq!(message, "the default model `small` has no provider");
    assert_eq!(hint, "set `models.default` in skillhost.yaml to provider/model");

    let (models, _) = models_of("aliases: {codex: ollama/gpt-5.2-codex}");
    let (_, _, hint) = lookup_error(&models, "codx");
    assert!(hint.starts_with("did you mean `codex`? add `codx: provider/model` to"), "{hint}");
}

#[test]
fn providers_report_missing_settings() {
    let (models, _) = models_of(
        "providers: {lab: {wire: openai, base_url: 'http://user:pw@127.0.0.1:8000/v1?key=x', key: \
         MOCK_KEY}, odd: {}}",
    );
    let all = models.providers();
    let names: Vec<_> = all.iter().map(|state| &*state.name).collect();
    let expected =
        ["openai", "openai_responses", "anthropic", "gemini", "ollama", "script", "lab", "odd"];
    assert_eq!(names, expected);
    let lab = ProviderStatus {
        name: "lab".to_owned(),
        wire: Some(skillhost_home::ProviderProtocol::Openai),
        base_url: Some("http://127.0.0.1:8000/v1/".to_owned()),
        key: Some("MOCK_KEY".to_owned()),
        key_present: true,
        configured: true,
        problem: None,
    };
    assert_eq!(all[6], lab);
    assert_eq!(all[7].problem.as_deref(), Some("provider `odd` requires a `wire`"));
    assert_eq!((all[4].key.as_deref(), all[4].key_present), (None, true));
    assert_eq!((all[2].key.as_deref(), all[2].key_present), (Some("ANTHROPIC_API_KEY"), false));
    assert_eq!(models.known_models(), ["script/demo"]);
}
