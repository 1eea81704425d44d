//! Tests of `skillhost model`: providers, models and checks.

use mock_model::{MockModel, Step, Wire};
use serde_json::json;

use crate::fixtures::home;

/// Returns settings in which agents use different models, one of them on a server.
fn settings(mock: &MockModel) -> String {
    format!(
        "models:
  default: mock/small
  agents: {{orchestrator_agent: mock/large}}
  providers:
    mock: {{wire: anthropic, base_url: '{}', key: MOCK_KEY, retries: 0}}
    odd: {{key: ODD_KEY}}
  known:
    mock/large: {{context_window: 8000, price: {{input: 3, output: 15, cached: 0.3}}}}
",
        mock.base_url(Wire::Anthropic)
    )
}

const AGENTS: [(&str, &str); 3] = [
    ("orchestrator_agent", "id: orchestrator_agent\nname: O\nagent: {instructions: Hi.}\n"),
    ("plain", "id: plain\nname: Plain\nagent: {instructions: Hi.}\n"),
    ("scripted", "id: scripted\nname: S\nagent: {instructions: Hi., model: script/demo}\n"),
];

#[test]
fn list_shows_providers_models_agents() {
    let mock = MockModel::new();
    let home = AGENTS.iter().fold(home(), |home, (id, yaml)| home.manifest(id, yaml));
    let home = home.settings(&settings(&mock)).file(".env", "MOCK_KEY=s3cret-key\n");
    let output = home.skillhost(["models", "list"]).success();
    let stdout = output.stdout.replace(&mock.url(), "[MOCK]");
    insta::assert_snapshot!(stdout, @"
    PROVIDER         WIRE             KEY                         WHERE
    openai           openai           OPENAI_API_KEY (not set)    https://api.openai.com/v1/
    openai_responses openai_responses OPENAI_API_KEY (not set)    https://api.openai.com/v1/
    anthropic        anthropic        ANTHROPIC_API_KEY (not set) https://api.anthropic.com/v1/
    gemini           gemini           GEMINI_API_KEY (not set)    https://generativelanguage.googleapis.com/v1beta/
    ollama           ollama           none needed                 http://localhost:11434/
    script           script           none needed                 -
    mock             anthropic        MOCK_KEY (set)              [MOCK]/v1/
    odd              ?                ?                           -

    MODEL       WINDOW PRICE IN/OUT/CACHED DEFAULT
    mock/large  8000   3/15/0.3
    mock/small  ?      ?                   yes
    script/demo ?      ?

    AGENT              MODEL       FROM
    orchestrator_agent mock/large  settings
    plain              mock/small  default
    scripted           script/demo manifest
    ");
    assert_eq!(output.stderr, "note: odd: provider `odd` requires a `wire`\n");
    let json = home.skillhost(["models", "list", "--json"]).success().json();
    let agents = json!([
        {"agent": "orchestrator_agent", "model": "mock/large", "from": "settings"},
        {"agent": "plain", "model": "mock/small", "from": "default"},
        {"agent": "scripted", "model": "script/demo", "from": "manifest"},
    ]);
    assert_eq!((&json["default"], &json["agents"]), (&json!("mock/small"), &agents));
    assert_eq!(json["providers"][6]["key_present"], true);
    assert!(!json.to_string().contains("s3cret-key"));
    assert_eq!(mock.requests().len(), 0);
}

#[test]
fn check_reports_failing_models() {
    let mock = MockModel::with([Step::text("Hello."), Step::key_refused()]);
    let home = AGENTS.iter().fold(home(), |home, (id, yaml)| home.manifest(id, yaml));
    let home = home.settings(&settings(&mock)).file(".env", "MOCK_KEY=s3cret-key\n");
    let output = home.skillhost(["models", "check"]).exits(1);
    let stdout = output.stdout.replace(&mock.url(), "[MOCK]");
    let (first, last) = stdout.trim_end().rsplit_once('\n').unwrap();
    insta::assert_snapshot!(first, @"
    ok      mock/large (10 tokens sent, 5 received)
    failed  mock/small: [MOCK]/v1/ rejected the key (status 401)
            check the value of MOCK_KEY
    ");
    assert!(last.starts_with("ok      script/demo (about "), "{last}");
    let requests = mock.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(
        (requests[0].last_text(), requests[0].key()),
        ("Say hello.".to_owned(), Some("s3cret-key"))
    );
    assert_eq!(requests[0].body["max_tokens"], 16);

    mock.push(Step::text("Hello."));
    let check = |names: &[&str]| {
        let arguments = ["models", "check", "--json"];
        home.skillhost(arguments.iter().chain(names))
    };
    let json = check(&["mock/x", "script/demo"]).success().json();
    let usage = json!({"input": 10, "output": 5, "cached": 0, "estimated": false});
    assert_eq!(json["models"][0], json!({"name": "mock/x", "ok": true, "usage": usage}));
    assert_eq!(json["models"][1]["ok"], true);
    let json = check(&["/gpt-5"]).exits(1).json();
    let error = json!({
        "kind": "unknown",
        "message": "a model name requires the form provider/model",
        "hint": "use a name such as openai/gpt-5, anthropic/claude-sonnet-4-5 or script/demo",
    });
    assert_eq!(json["models"], json!([{"name": "/gpt-5", "ok": false, "error": error}]));

    // A name without a provider is one of the default provider.
    mock.push(Step::text("Hello."));
    let json = check(&["tiny"]).success().json();
    assert_eq!(json["models"][0], json!({"name": "tiny", "ok": true, "usage": usage}));
    assert_eq!(mock.requests().last().unwrap().body["model"], "tiny");
}

/// An agent whose model has no provider, in the shape of manifests for other systems.
const CODER: &str = "id: coder\nname: Coder\nagent: {instructions: Hi., model: gpt-5.2-codex}\n";

#[test]
fn alias_selects_model_of_agent() {
    let mock = MockModel::with([Step::text("Hello from the alias.")]);
    let aliases = "  aliases: {gpt-5.2-codex: mock/large, odd: large}\n";
    let home = home()
        .manifest("coder", CODER)
        .settings(&format!("{}{aliases}", settings(&mock)))
        .file(".env", "MOCK_KEY=s3cret-key\n");
    let listed = home.skillhost(["models", "list"]).success();
    let start = listed.stdout.find("MODEL ").unwrap();
    insta::assert_snapshot!(&listed.stdout[start..], @"
    MODEL       WINDOW PRICE IN/OUT/CACHED DEFAULT
    mock/large  8000   3/15/0.3
    mock/small  ?      ?                   yes
    script/demo ?      ?

    ALIAS         MODEL
    gpt-5.2-codex mock/large
    odd           large

    AGENT MODEL      FROM
    coder mock/large manifest
    ");
    insta::assert_snapshot!(listed.stderr, @"
    note: odd: provider `odd` requires a `wire`
    note: model odd: target `large` of the alias `odd` is not of the form provider/model; set `models.aliases.odd` in skillhost.yaml to provider/model
    ");
    let output = home.skillhost(["ask", "--agent", "coder", "hi"]).success();
    assert!(output.stdout.contains("Hello from the alias."), "{output}");
    assert_eq!(mock.requests()[0].body["model"], "large");
    home.skillhost(["ext", "doctor"]).success();
}

#[test]
fn doctor_reports_unresolved_models() {
    let home = home().manifest("coder", CODER);
    let output = home.skillhost(["ext", "doctor"]).exits(1);
    // The isolation of this machine comes first.
    let lines = output.stdout.lines().skip_while(|line| !line.starts_with("unhealthy"));
    let lines: Vec<_> = lines.filter(|line| !line.starts_with("ok")).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    unhealthy coder (agent): model `gpt-5.2-codex`: `gpt-5.2-codex` is not an alias, and the default provider `script` lacks it
      hint: add `gpt-5.2-codex: provider/model` to `models.aliases` in skillhost.yaml, or set `models.default` to a model of its provider
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    let json = home.skillhost(["ext", "doctor", "--json"]).exits(1).json();
    assert_eq!(json["models"][0]["agent"], "coder");
    assert_eq!(json["models"][0]["model"], "gpt-5.2-codex");
    let listed = home.skillhost(["models", "list"]).success();
    assert!(listed.stderr.contains("note: model gpt-5.2-codex: "), "{listed}");

    // A key that is missing is reported in the same way.
    let home = home.settings("models: {aliases: {gpt-5.2-codex: openai/gpt-5}}\n");
    let output = home.skillhost(["ext", "doctor"]).exits(1);
    assert!(
        output.stdout.contains("key OPENAI_API_KEY of provider `openai` not found"),
        "{output}"
    );
    let mut command = home.command();
    command.env("OPENAI_API_KEY", "k").args(["ext", "doctor"]);
    home.start(&mut command).finish().success();
}

#[test]
fn missing_key_names_variable() {
    let mock = MockModel::new();
    let home = home().settings(&settings(&mock));
    let output = home.skillhost(["models", "check", "mock/small"]).exits(1);
    insta::assert_snapshot!(output.stdout, @"
    failed  mock/small: key MOCK_KEY of provider `mock` not found
            set MOCK_KEY in the environment or in [HOME]/.env, or run script/demo, which needs none
    ");
    assert_eq!(mock.requests().len(), 0);
}

#[test]
fn environment_variables_configure_models() {
    let mock = MockModel::with([Step::text("Hello.")]);
    let home = home();
    let mut command = home.command();
    command
        .env("SKILLHOST_MODELS__DEFAULT", "mock/m")
        .env("SKILLHOST_MODELS__PROVIDERS__MOCK__WIRE", "openai")
        .env("SKILLHOST_MODELS__PROVIDERS__MOCK__BASE_URL", mock.base_url(Wire::Openai))
        .env("SKILLHOST_MODELS__PROVIDERS__MOCK__KEY", "MOCK_KEY")
        .env("MOCK_KEY", "from-the-environment");
    let output = home.start(command.args(["models", "check"])).finish().success();
    assert_eq!(output.stdout, "ok      mock/m (10 tokens sent, 5 received)\n");
    assert_eq!(mock.requests()[0].key(), Some("from-the-environment"));
}

#[test]
fn untrusted_home_sends_no_request() {
    let mock = MockModel::new();
    let home = test_support::TestHome::new().settings(&mock.settings(Wire::Openai));
    home.skillhost(["models", "check"]).exits(5);
    assert_eq!(mock.requests().len(), 0);
}
