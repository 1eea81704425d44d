//! `skillhost mcp`: the registry as an MCP server for other agents.

mod folder;

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use skillhost_clients::{cmd_mcp_config, cmd_mcp_install};
use skillhost_control::{KernelLock, SupervisorLock};
use skillhost_core::PluginLoader;
use skillhost_home::{Home, Settings, discover_manifests};
use skillhost_kernel::{BootOptions, Kernel};
use skillhost_mcp::http::{self, AccessPolicy, BearerToken};
use skillhost_mcp::{
    Backend, ClientLimits, ClientTasks, KernelBackend, McpServer, Refusal, refuse_stdio,
    serve_stdio,
};
use skillhost_process::ProcessSupervisor;
use skillhost_tasks::open_home_queue;
use skillhost_terminal::{CliContext, CliError, CommandResult, exit};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::{LabeledRoot, McpArgs, McpCommand, ServeArgs};
use crate::kernel_session::{boot_options, open_models, start_telemetry};
use folder::DirectoryBackend;

/// The extension whose configuration names the skill roots.
const REGISTRY: &str = "skill_registry";

pub(super) fn cmd_mcp(session: &CliContext, args: &McpArgs) -> CommandResult {
    let args = match &args.command {
        Some(McpCommand::Config { client }) => return cmd_mcp_config(session, *client),
        Some(McpCommand::Install(args)) => return cmd_mcp_install(session, args),
        Some(McpCommand::Serve(args)) => args,
        None => &args.serve,
    };
    match prepare(session, args) {
        Ok(Served::Home(home, settings)) => serve_home(session, home, *settings, args),
        Ok(Served::Folders(roots)) => serve_folders(session, roots, args),
        Err(error) => refuse(session, args, error),
    }
}

/// The source of the served skills.
enum Served {
    /// A home, with its settings.
    Home(Home, Box<Settings>),
    /// The skill directories of clients, and further roots.
    Folders(Vec<skill_catalog::SkillRoot>),
}

/// Resolves the source of the served skills.
fn prepare(session: &CliContext, args: &ServeArgs) -> Result<Served, CliError> {
    match session.find_trusted_home()? {
        Some(home) => {
            let mut settings = session.settings(&home)?.settings;
            add_roots(session, &home, &mut settings, &args.roots)?;
            Ok(Served::Home(home, Box::new(settings)))
        }
        None => Ok(Served::Folders(parse_labeled_roots(session, &args.roots)?)),
    }
}

/// Fails with an error, after sending it to a waiting client.
fn refuse(session: &CliContext, args: &ServeArgs, error: CliError) -> CommandResult {
    if args.http.is_none() && !std::io::stdin().is_terminal() {
        let hint = error.hints().join("\n");
        let refusal = Refusal { message: error.message().to_owned(), hint };
        session.block_on(Box::pin(async {
            if let Ok(stop) = stop_on_signal() {
                refuse_stdio(&refusal, stop).await;
            }
        }))?;
    }
    Err(error)
}

/// Serves the exported tools of a home's extensions, and its skills.
fn serve_home(
    session: &CliContext,
    home: Home,
    settings: Settings,
    args: &ServeArgs,
) -> CommandResult {
    let clients = settings.mcp.clone();
    let tasks = client_tasks(&home, &settings);
    let models = Arc::new(open_models(session, &home, &settings));
    let loaders: Vec<Arc<dyn PluginLoader>> = vec![Arc::new(ProcessSupervisor::default())];
    let telemetry = settings.telemetry.clone();
    let options = BootOptions { models, loaders, ..boot_options(session, home, settings) };
    session.block_on(Box::pin(async {
        // Installed before the first output: a client may send a signal as soon as it reads a line.
        let stop = stop_on_signal()?;
        let telemetry = start_telemetry(&telemetry)?;
        let kernel = Kernel::boot(options).await;
        if let Some(export) = &telemetry {
            kernel.agents().set_run_observer(export.observer());
        }
        for rejected in &kernel.report().rejected {
            session
                .output
                .print_note(format!("{} is not loaded: {}", rejected.id, rejected.reason));
        }
        let served = match KernelBackend::new(kernel.agents().clone(), &clients) {
            Ok(backend) => {
                kernel.start_services().await;
                let backend = backend.with_tasks(tasks);
                serve(session, Arc::new(backend), args, stop).await
            }
            Err(error) => Err(CliError::usage(error.to_string())
                .with_hint("correct mcp.catalog in skillhost.yaml")),
        };
        kernel.shutdown().await;
        if let Some(export) = telemetry {
            export.shut_down().await;
        }
        served
    }))?
}

/// Returns the tasks of clients in the queue of a home, which the running kernel executes.
fn client_tasks(home: &Home, settings: &Settings) -> ClientTasks {
    let queue = open_home_queue(home, settings);
    let home = home.clone();
    // Kernels of other machines are not seen from here.
    let is_shared = queue.store().is_shared();
    // A supervised kernel that restarts will continue.
    let is_served =
        move || is_shared || KernelLock::holder(&home).is_some() || SupervisorLock::is_held(&home);
    ClientTasks::new(queue, settings.mcp.consent, Arc::new(is_served))
}

/// Serves the skills in the skill directories of clients.
fn serve_folders(
    session: &CliContext,
    roots: Vec<skill_catalog::SkillRoot>,
    args: &ServeArgs,
) -> CommandResult {
    session.block_on(Box::pin(async {
        let stop = stop_on_signal()?;
        let backend = DirectoryBackend::open(&session.environment, roots)?;
        serve(session, Arc::new(backend), args, stop).await
    }))?
}

async fn serve(
    session: &CliContext,
    backend: Arc<dyn Backend>,
    args: &ServeArgs,
    stop: CancellationToken,
) -> CommandResult {
    let server = McpServer::new(backend, ClientLimits::default(), env!("CARGO_PKG_VERSION"));
    if let Some(address) = args.http {
        return serve_http(session, &server, address, args, stop).await;
    }
    if std::io::stdin().is_terminal() {
        session.output.print_note("serving MCP on standard input and output; Ctrl-C ends it");
    }
    let served = serve_stdio(&server, stop).await;
    served.map_err(|error| CliError::new(exit::FINDINGS, error.to_string()))?;
    Ok(exit::OK)
}

async fn serve_http(
    session: &CliContext,
    server: &McpServer,
    address: SocketAddr,
    args: &ServeArgs,
    stop: CancellationToken,
) -> CommandResult {
    let token = match &args.token_file {
        Some(path) => {
            let text = std::fs::read_to_string(session.environment.current_dir.join(path));
            Some(text.map_err(|error| CliError::io(path, &error))?.trim_end().to_owned())
        }
        None => args.token.clone(),
    };
    let token = token.as_deref().map(BearerToken::new).transpose();
    let token = token.map_err(|error| {
        CliError::usage(error.to_string()).with_hint("such as the output of: openssl rand -hex 32")
    })?;
    let access = AccessPolicy { token, hosts: args.hosts.clone(), origins: args.origins.clone() };
    access.check(address).map_err(|error| {
        CliError::usage(error.to_string())
            .with_hint("pass --token-file or set SKILLHOST_MCP_TOKEN, or listen on 127.0.0.1")
    })?;
    let failed = |error: std::io::Error| CliError::new(exit::IO, format!("{address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let url = format!("http://{}{}", listener.local_addr().map_err(failed)?, http::PATH);
    match session.output.json {
        true => session.output.print_json(&json!({ "event": "mcp.serving", "url": url }))?,
        false => session.output.print_line(format!("serving MCP at {url}; Ctrl-C ends it"))?,
    }
    http::serve_http(server, listener, access, stop).await.map_err(failed)?;
    Ok(exit::OK)
}

/// Returns a token that the first signal cancels.
fn stop_on_signal() -> Result<CancellationToken, CliError> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
        stopped.cancel();
    });
    Ok(stop)
}

/// Parses the roots from the command line; skills in them are untrusted.
fn parse_labeled_roots(
    session: &CliContext,
    roots: &[LabeledRoot],
) -> Result<Vec<skill_catalog::SkillRoot>, CliError> {
    let root = |root: &LabeledRoot| {
        let path = session.environment.current_dir.join(&root.path);
        if !path.is_dir() {
            let message = format!("{}: no such directory", path.display());
            return Err(CliError::new(exit::NOT_FOUND, message)
                .with_hint("--root names a directory with skills, as LABEL=PATH"));
        }
        let trust = skill_catalog::TrustLevel::Untrusted;
        Ok(skill_catalog::SkillRoot { label: root.label.clone(), path, trust })
    };
    roots.iter().map(root).collect()
}

/// Appends the roots from the command line to those of the home.
fn add_roots(
    session: &CliContext,
    home: &Home,
    settings: &mut Settings,
    roots: &[LabeledRoot],
) -> Result<(), CliError> {
    if roots.is_empty() {
        return Ok(());
    }
    let found = discover_manifests(home, session.installation(), &settings.allow_shadowing);
    let config =
        found.manifests.get(REGISTRY).map(|found| settings.extension_config(&found.manifest));
    let mut all = config.and_then(|mut config| match config["roots"].take() {
        Value::Array(roots) => Some(roots),
        _ => None,
    });
    let all_roots = all.get_or_insert_default();
    all_roots.extend(parse_labeled_roots(session, roots)?.iter().map(|root| json!(root)));
    let registry = settings.extensions.entry(REGISTRY.to_owned()).or_default();
    registry.insert("roots".to_owned(), json!(all));
    Ok(())
}
