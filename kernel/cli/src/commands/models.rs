//! `skillhost model`: the models of the agents, and their availability.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::json;
use skillhost_conversation::{
    Message, ModelError, ModelErrorKind, ModelMetadata, ModelRequest, ModelSource as _, TokenUsage,
};
use skillhost_home::{Home, Settings, TokenPrice, discover_manifests};
use skillhost_models::{ModelRegistry, ProviderStatus};
use skillhost_terminal::{
    BOLD, CliContext, CliError, CommandResult, DIM, GREEN, RED, TableColumn, display_safe, exit,
};

use crate::cli::{CheckArgs, ModelCommand};
use crate::kernel_session::open_models;

pub(super) fn cmd_models(session: &CliContext, command: &ModelCommand) -> CommandResult {
    match command {
        ModelCommand::List => list(session),
        ModelCommand::Check(args) => check(session, args),
    }
}

/// An agent and its model.
#[derive(Serialize)]
struct AgentModel {
    agent: String,
    /// The full name, `provider/model`.
    model: String,
    /// The alias or the name without a provider, if the settings or the manifest have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    alias: Option<String>,
    /// The source of the model: `settings`, `manifest` or `default`.
    from: &'static str,
}

/// A model that a setting or a manifest names.
#[derive(Serialize)]
struct ListedModel {
    #[serde(flatten)]
    facts: ModelMetadata,
    default: bool,
}

/// Returns the agents of a home, loaded or not, with their models.
fn agents(
    session: &CliContext,
    (home, settings): (&Home, &Settings),
    registry: &ModelRegistry,
) -> Vec<AgentModel> {
    let found = discover_manifests(home, session.installation(), &settings.allow_shadowing);
    let models = &settings.models;
    let agents = found.manifests.values().filter_map(|found| {
        let manifest = &found.manifest;
        let (id, own) = (manifest.id.as_str(), manifest.agent()?.model.as_deref());
        let from = match (models.agents.contains_key(id), own) {
            (true, _) => "settings",
            (false, Some(_)) => "manifest",
            (false, None) => "default",
        };
        let name = models.model_for(id, own).to_owned();
        let model = registry.full_name(&name);
        let alias = (model != name).then_some(name);
        Some(AgentModel { agent: id.to_owned(), model, alias, from })
    });
    agents.collect()
}

fn list(session: &CliContext) -> CommandResult {
    let home = session.home()?;
    let settings = session.settings(&home)?.settings;
    let models = open_models(session, &home, &settings);
    let agents = agents(session, (&home, &settings), &models);
    let named = agents.iter().map(|agent| agent.alias.as_ref().unwrap_or(&agent.model));
    let unresolved = models.unresolved_models(named.map(String::as_str));
    let mut names: BTreeSet<_> = models.known_models().into_iter().collect();
    names.extend(agents.iter().map(|agent| agent.model.clone()));
    let (default, aliases) = (models.full_name(&settings.models.default), &settings.models.aliases);
    let known =
        |name: &String| ListedModel { facts: models.metadata(name), default: *name == default };
    let known: Vec<_> = names.iter().map(known).collect();
    let providers = models.providers();
    let output = session.output;
    if output.json {
        output.print_json(&json!({
            "default": default, "providers": providers, "models": known, "agents": agents,
            "aliases": aliases, "unresolved": unresolved,
        }))?;
        return Ok(exit::OK);
    }
    let cells: Vec<_> = providers.iter().map(provider_row).collect();
    let columns = [
        TableColumn::fixed("PROVIDER"),
        TableColumn::fixed("WIRE").with_rank(1),
        TableColumn::text("KEY"),
        TableColumn::text("WHERE"),
    ];
    output.print_table(&columns, &cells)?;
    output.print_line("")?;
    let cells: Vec<_> = known.iter().map(model_row).collect();
    let columns = [
        TableColumn::fixed("MODEL"),
        TableColumn::fixed("WINDOW"),
        TableColumn::fixed("PRICE IN/OUT/CACHED").with_rank(1),
        TableColumn::fixed("DEFAULT"),
    ];
    output.print_table(&columns, &cells)?;
    output.print_line("")?;
    if !aliases.is_empty() {
        let cells: Vec<_> =
            aliases.iter().map(|(alias, model)| vec![alias.clone(), model.clone()]).collect();
        let columns = [TableColumn::fixed("ALIAS"), TableColumn::fixed("MODEL")];
        output.print_table(&columns, &cells)?;
        output.print_line("")?;
    }
    let row = |it: &AgentModel| vec![it.agent.clone(), it.model.clone(), it.from.to_owned()];
    let columns =
        [TableColumn::fixed("AGENT"), TableColumn::fixed("MODEL"), TableColumn::fixed("FROM")];
    output.print_table(&columns, &agents.iter().map(row).collect::<Vec<_>>())?;
    for state in &providers {
        if let Some(problem) = &state.problem {
            output.print_note(format!("{}: {problem}", state.name));
        }
    }
    for ModelError { model, message, hint, .. } in &unresolved {
        output.print_note(format!("model {model}: {message}; {hint}"));
    }
    Ok(exit::OK)
}

fn provider_row(state: &ProviderStatus) -> Vec<String> {
    let key = match (&state.key, state.key_present) {
        (None, _) if state.wire.is_none() => "?".to_owned(),
        (None, _) => "none needed".to_owned(),
        (Some(key), true) => format!("{key} (set)"),
        (Some(key), false) => format!("{key} (not set)"),
    };
    let wire = state.wire.map_or("?", |wire| wire.as_str());
    let place = state.base_url.as_deref().unwrap_or("-");
    vec![state.name.clone(), wire.to_owned(), key, place.to_owned()]
}

fn model_row(model: &ListedModel) -> Vec<String> {
    let unknown = || "?".to_owned();
    let price = |price: TokenPrice| {
        let cached = price.cached.map_or_else(unknown, |cached| cached.to_string());
        format!("{}/{}/{cached}", price.input, price.output)
    };
    vec![
        model.facts.name.clone(),
        model.facts.context_window.map_or_else(unknown, |window| window.to_string()),
        model.facts.price.map_or_else(unknown, price),
        if model.default { "yes" } else { "" }.to_owned(),
    ]
}

/// The outcome of a check of one model.
#[derive(Serialize)]
struct ModelCheck {
    name: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<TokenUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ModelCheckError>,
}

#[derive(Serialize)]
struct ModelCheckError {
    kind: ModelErrorKind,
    message: String,
    hint: String,
}

fn check(session: &CliContext, args: &CheckArgs) -> CommandResult {
    let home = session.trusted_home()?;
    let settings = session.settings(&home)?.settings;
    let models = open_models(session, &home, &settings);
    let mut names = args.names.clone();
    if names.is_empty() {
        let agents = agents(session, (&home, &settings), &models).into_iter();
        // As written, so that an error repeats the name that is in the settings or the manifest.
        let mut all: BTreeSet<_> = agents.map(|agent| agent.alias.unwrap_or(agent.model)).collect();
        all.insert(settings.models.default);
        names.extend(all);
    }
    let checked = session.block_on(Box::pin(async {
        let mut checked = Vec::new();
        for name in names {
            let result = check_model(&models, &name).await;
            if !session.output.json {
                print(session, &result)?;
            }
            checked.push(result);
        }
        Ok::<_, CliError>(checked)
    }))??;
    if session.output.json {
        session.output.print_json(&json!({ "models": checked }))?;
    }
    Ok(if checked.iter().all(|it| it.ok) { exit::OK } else { exit::FINDINGS })
}

/// Sends the smallest possible request. Any reply counts as available.
async fn check_model(models: &ModelRegistry, name: &str) -> ModelCheck {
    let request = ModelRequest {
        messages: vec![Message::User { text: "Say hello.".to_owned() }],
        parameters: json!({"max_tokens": 16}),
        ..ModelRequest::default()
    };
    let reply = match models.resolve_model(Some(name), "") {
        Ok(model) => model.complete(&request).await,
        Err(error) => Err(error),
    };
    let name = name.to_owned();
    match reply {
        Ok(reply) => ModelCheck { name, ok: true, usage: Some(reply.usage), error: None },
        Err(error) => {
            let error =
                ModelCheckError { kind: error.kind, message: error.message, hint: error.hint };
            ModelCheck { name, ok: false, usage: None, error: Some(error) }
        }
    }
}

fn print(session: &CliContext, checked: &ModelCheck) -> Result<(), CliError> {
    let output = session.output;
    let name = display_safe(&checked.name);
    if let Some(ModelCheckError { message, hint, .. }) = &checked.error {
        output.print_line(format!(
            "{RED}failed{RED:#}  {BOLD}{name}{BOLD:#}: {}",
            display_safe(message)
        ))?;
        for line in hint.lines() {
            output.print_line(format!("        {}", display_safe(line)))?;
        }
        return Ok(());
    }
    let usage = checked.usage.unwrap_or_default();
    let about = if usage.estimated { "about " } else { "" };
    output.print_line(format!(
        "{GREEN}ok{GREEN:#}      {BOLD}{name}{BOLD:#} {DIM}({about}{} tokens sent, {} \
         received){DIM:#}",
        usage.input, usage.output
    ))
}
