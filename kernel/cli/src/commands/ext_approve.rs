//! `skillhost ext approve`, `ext approvals` and `ext revoke`: code approvals for the sandbox.

use std::io::{self, IsTerminal as _};

use serde::Serialize;
use skillhost_builder::{ApprovalPlan, CargoExtensionBuilder};
use skillhost_files::files_digest;
use skillhost_home::{
    ApprovalAction, ApprovalKind, ApprovalSurface, Approvals, Approver, Home, discover_manifests,
    find_in_sandbox, read_extension_files,
};
use skillhost_operations::{BuildConsent, ask_build_consent};
use skillhost_terminal::{
    CliContext, CliError, CommandResult, TableColumn, display_safe, exit, format_details,
};

use super::event_text::format_time;
use crate::cli::ExtensionApproveArgs;

/// An extension that can be approved, as `--print --json` shows it.
#[derive(Serialize)]
struct Preview<'p> {
    id: &'p str,
    digest: &'p str,
    details: &'p str,
}

/// A listed approval.
#[derive(Serialize)]
struct Listed {
    id: String,
    kind: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approved_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    surface: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_ms: Option<u64>,
}

#[derive(Serialize)]
struct Listing {
    approvals: Vec<Listed>,
}

pub(super) fn approve(session: &CliContext, args: &ExtensionApproveArgs) -> CommandResult {
    let output = session.output;
    let home = session.trusted_home()?;
    let settings = session.settings(&home)?.settings;
    let installation = session.installation();
    let found = find_in_sandbox(&home, installation, &settings.allow_shadowing, &args.id)?;
    let id = found.manifest.id.clone();
    let builder = CargoExtensionBuilder::new(&home, settings.build, installation);
    let plan = session.block_on(Box::pin(builder.plan_approval(&id)))??;
    if args.print {
        return print(session, &plan);
    }
    let command = format!("skillhost ext approve {id} --digest {}", plan.digest);
    let surface = match &args.digest {
        Some(digest) if *digest == plan.digest => ApprovalSurface::CommandLine,
        Some(digest) => {
            let message = format!("the digest of `{id}` is {}, not {digest}", plan.digest);
            return Err(CliError::new(exit::CONFLICT, message)
                .with_hint(format!("look at it again: skillhost ext approve {id} --print")));
        }
        None if output.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() => {
            let message = "an approval requires a terminal, or the digest of what was looked at";
            return Err(CliError::usage(message).with_hint(format!(
                "look at it: skillhost ext approve {id} --print\nthen: {command}"
            )));
        }
        None => {
            for line in format_details(&plan.details) {
                output.print_progress(line);
            }
            let consent = BuildConsent {
                command: "ext approve",
                extension: id.as_str(),
                sha256: &plan.digest,
                details: &plan.details,
                prompt: &format!("approve {id}?"),
            };
            if !ask_build_consent(session, consent)? {
                return Err(CliError::new(exit::FINDINGS, "nothing was approved"));
            }
            ApprovalSurface::Terminal
        }
    };
    let approver = Approver::operator(surface);
    let record = session.block_on(Box::pin(builder.approve(&plan, &approver)))??;
    if output.json {
        output.print_json(&record)?;
        return Ok(exit::OK);
    }
    let tools: Vec<_> =
        record.tools.iter().flatten().map(|tool| display_safe(&tool.name)).collect();
    let tools = match tools.as_slice() {
        [] => String::new(),
        names => format!(", tools {}", names.join(" ")),
    };
    output
        .print_line(format!("approved {id}: {}, digest {}{tools}", record.kind, record.digest))?;
    output.print_line(
        "it is in use from the next start; if it is loaded, with skillhost ext reload",
    )?;
    Ok(exit::OK)
}

fn print(session: &CliContext, plan: &ApprovalPlan) -> CommandResult {
    let output = session.output;
    if output.json {
        let id = plan.manifest.id.as_str();
        output.print_json(&Preview { id, digest: &plan.digest, details: &plan.details })?;
        return Ok(exit::OK);
    }
    for line in format_details(&plan.details) {
        output.print_line(line)?;
    }
    output.print_line(format!("digest {}", plan.digest))?;
    Ok(exit::OK)
}

pub(super) fn list(session: &CliContext) -> CommandResult {
    let home = session.home()?;
    let settings = session.settings(&home)?.settings;
    let approvals = Approvals::load(&home)?;
    let found = discover_manifests(&home, session.installation(), &settings.allow_shadowing);
    let mut listed: Vec<_> = approvals
        .by_id()
        .into_iter()
        .map(|(id, record)| Listed {
            id: id.to_owned(),
            kind: record.kind.to_string(),
            state: match record.action {
                ApprovalAction::Revoke => "revoked",
                ApprovalAction::Approve => state(&home, id, &record.digest),
            },
            digest: Some(record.digest.clone()),
            approved_by: Some(record.approved_by.clone()),
            surface: Some(record.surface.to_string()),
            at_ms: Some(record.at_ms),
        })
        .collect();
    // An id with a record is listed above, even if its files have changed since.
    let waiting = found
        .unapproved
        .values()
        .filter(|found| approvals.latest(found.manifest.id.as_str()).is_none());
    listed.extend(waiting.map(|found| Listed {
        id: found.manifest.id.to_string(),
        kind: ApprovalKind::of_manifest(&found.manifest).to_string(),
        state: "not approved",
        digest: None,
        approved_by: None,
        surface: None,
        at_ms: None,
    }));
    listed.sort_by(|a, b| a.id.cmp(&b.id));
    let output = session.output;
    if output.json {
        output.print_json(&Listing { approvals: listed })?;
        return Ok(exit::OK);
    }
    let rows: Vec<_> = listed
        .iter()
        .map(|entry| {
            let text = |field: &Option<String>| display_safe(field.as_deref().unwrap_or_default());
            vec![
                entry.id.clone(),
                entry.kind.clone(),
                entry.state.to_owned(),
                entry.at_ms.map(format_time).unwrap_or_default(),
                text(&entry.approved_by),
                text(&entry.surface),
            ]
        })
        .collect();
    let columns = [
        TableColumn::fixed("EXTENSION"),
        TableColumn::fixed("KIND").with_rank(2),
        TableColumn::fixed("STATE"),
        TableColumn::fixed("WHEN").with_rank(1),
        TableColumn::text("BY"),
        TableColumn::text("SURFACE").with_rank(3),
    ];
    output.print_table(&columns, &rows)?;
    if let Some(note) = approvals.torn_note(&home) {
        output.print_note(note);
    }
    Ok(exit::OK)
}

/// Compares the directory of an approved extension with its approval.
fn state(home: &Home, id: &str, digest: &str) -> &'static str {
    let folder = home.extensions_dir().join(id);
    match read_extension_files(&folder) {
        Ok(files) if files_digest(&files) == digest => "approved",
        _ if !folder.exists() => "gone",
        _ => "changed",
    }
}

pub(super) fn revoke(session: &CliContext, id: &str) -> CommandResult {
    let home = session.trusted_home()?;
    let approvals = Approvals::load(&home)?;
    let Some(record) = approvals.approval(id) else {
        return Err(CliError::new(exit::NOT_FOUND, format!("`{id}` is not approved"))
            .with_hint("see: skillhost ext approvals"));
    };
    let revoked = record.revoked(&Approver::operator(ApprovalSurface::CommandLine));
    Approvals::append(&home, &revoked)?;
    if session.output.json {
        session.output.print_json(&revoked)?;
    } else {
        session.output.print_line(format!("revoked {id}"))?;
        session.output.print_line("a kernel that runs keeps it until its next start")?;
    }
    Ok(exit::OK)
}
