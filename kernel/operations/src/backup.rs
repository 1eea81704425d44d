//! `skillhost backup` and `skillhost restore`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use skillhost_backup::{
    BackupError, BackupOptions, BackupReport, BackupSummary, RestoreError, check_backup,
    create_backup, stage_backup,
};
use skillhost_control::{KernelLock, KernelLockError, SupervisorLock};
use skillhost_home::{Environment, Home, HomeSource, trust, untrust};
use skillhost_payload::{OperatorCommand, format_second};
use skillhost_terminal::{CliContext, CliError, CommandResult, Output, display_safe, exit};

use crate::arguments::{BackupArgs, RestoreArgs};

/// The number of entries that are named of those that a backup leaves out.
const MAX_NAMED: usize = 10;

/// Writes a backup of the home.
///
/// # Errors
/// The home is missing or not trusted, or the file cannot be written.
pub fn cmd_backup(session: &CliContext, args: &BackupArgs) -> CommandResult {
    let home = session.trusted_home()?;
    let options = BackupOptions { secrets: args.secrets, overwrite: args.force };
    let file = absolute_path(session, &args.file);
    let report = create_backup(&home, &file, options).map_err(backup_error)?;
    let output = session.output;
    if output.json {
        output.print_json(&report)?;
        return Ok(exit::OK);
    }
    let BackupReport { file, file_bytes, summary, skipped, damaged } = report;
    output.print_line(format!(
        "{}: {} files, {} ({} compressed)",
        file.display(),
        summary.files,
        format_size(summary.bytes),
        format_size(file_bytes)
    ))?;
    for entry in skipped.iter().take(MAX_NAMED) {
        output.print_note(format!("{}: not included, {}", entry.path.display(), entry.reason));
    }
    if let Some(more) = skipped.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        output.print_note(format!("{more} more entries are not included; --json lists them"));
    }
    for path in damaged {
        output.print_note(format!("{}: database is damaged, copied as it is", path.display()));
    }
    if !summary.secrets && home.root().join(".env").exists() {
        output.print_note(".env is not included, as it has secrets; --secrets includes it");
    }
    Ok(exit::OK)
}

/// Restores a backup, or checks it with `--check`.
///
/// # Errors
/// The backup is damaged, or the home has files, runs a kernel or cannot be written.
pub fn cmd_restore(session: &CliContext, args: &RestoreArgs) -> CommandResult {
    let file = absolute_path(session, &args.file);
    let output = session.output;
    if args.check {
        let summary = check_backup(&file).map_err(restore_error)?;
        match output.json {
            true => output.print_json(&json!({ "ok": true, "backup": summary }))?,
            false => print_summary(output, &file, &summary)?,
        }
        return Ok(exit::OK);
    }
    let target = target(session, args)?;
    if is_default_home(&target, &session.environment) && !args.trust {
        let message = format!(
            "{}: home is trusted because of its location, and so would be the files of the backup",
            target.display()
        );
        return Err(CliError::new(exit::IO, message)
            .with_hint("use --trust for a backup of yours, or restore it elsewhere: --home DIR"));
    }
    // A kernel that starts meanwhile would work on files that are replaced.
    let _lock = lock_target(&target, &session.environment)?;
    let staged = stage_backup(&file, &target, args.replace).map_err(restore_error)?;
    // An interruption must not leave foreign files in a trusted home.
    untrust(&target, &session.environment)?;
    let report = staged.install().map_err(restore_error)?;
    let home = Home::open(&report.home, HomeSource::Argument)?;
    if args.trust {
        trust(&home, &session.environment)?;
    }
    if output.json {
        output.print_json(&json!({ "restored": report, "trusted": args.trust }))?;
        return Ok(exit::OK);
    }
    let root = home.root();
    print_summary(output, &file, &report.summary)?;
    output.print_line(format!("restored to {}", root.display()))?;
    if let Some(replaced) = &report.replaced {
        output.print_line(format!("the replaced files are in {}", replaced.display()))?;
    }
    if !args.trust {
        let trust = OperatorCommand::TrustHome { dir: Some(root) };
        output.print_line(format!("review its manifests and extensions, then: {trust}"))?;
    }
    Ok(exit::OK)
}

/// Returns the home that a backup is restored to, which need not exist.
fn target(session: &CliContext, args: &RestoreArgs) -> Result<PathBuf, CliError> {
    match &args.dir {
        Some(dir) => Ok(absolute_path(session, dir)),
        None => Ok(session.home()?.root().to_owned()),
    }
}

/// Returns the absolute path of a file that need not exist, without links and `..` in its existing
/// part.
fn absolute_path(session: &CliContext, path: &Path) -> PathBuf {
    canonical_path(&session.environment.current_dir.join(path))
}

fn canonical_path(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|above| {
        let found = fs::canonicalize(above).ok()?;
        let below = path.strip_prefix(above).ok()?;
        // Joining nothing would add a slash.
        Some(if below.as_os_str().is_empty() { found } else { found.join(below) })
    });
    existing.unwrap_or_else(|| path.to_owned())
}

/// Returns whether a directory is the home that is trusted because of its location.
fn is_default_home(target: &Path, environment: &Environment) -> bool {
    environment.default_home().is_some_and(|home| canonical_path(&home) == canonical_path(target))
}

/// Locks an existing home against kernels until the lock is dropped.
fn lock_target(target: &Path, environment: &Environment) -> Result<Option<KernelLock>, CliError> {
    let Ok(home) = Home::open(target, HomeSource::Argument) else { return Ok(None) };
    if SupervisorLock::is_held(&home) || KernelLock::holder(&home).is_some() {
        let message = format!("a kernel runs for {}", home.root().display());
        return Err(CliError::new(exit::CONFLICT, message)
            .with_hint(format!("stop it: {}", OperatorCommand::StopKernel)));
    }
    // The lock file of a home without trust could be a link; no kernel starts for it either.
    if home.require_trust(environment).is_err() {
        return Ok(None);
    }
    match KernelLock::acquire(&home) {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ KernelLockError::Held { .. }) => Err(error.into()),
        // No kernel can have locked what cannot be locked.
        Err(KernelLockError::Io { .. }) => Ok(None),
    }
}

fn print_summary(output: Output, file: &Path, summary: &BackupSummary) -> Result<(), CliError> {
    let BackupSummary { version, created_ms, home, files, bytes, secrets } = summary;
    let time = format_second(i64::try_from(*created_ms).unwrap_or(i64::MAX));
    let secrets = if *secrets { ", with secrets" } else { "" };
    output.print_line(format!(
        "{}: {files} files, {}{secrets}; of {} at {time} UTC, by version {}",
        file.display(),
        format_size(*bytes),
        display_safe(&home.display().to_string()),
        display_safe(version)
    ))
}

fn format_size(bytes: u64) -> String {
    const KIB: u64 = 1024;
    match bytes {
        0..KIB => format!("{bytes} bytes"),
        _ if bytes < KIB * KIB => format!("{} KiB", bytes / KIB),
        _ => format!("{} MiB", bytes / (KIB * KIB)),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the argument of `map_err`")]
fn backup_error(error: BackupError) -> CliError {
    let message = error.to_string();
    match &error {
        BackupError::Exists { .. } => CliError::new(exit::CONFLICT, message)
            .with_hint("choose another file, or use --force to replace it"),
        BackupError::Io { path, source } => CliError::io(path, source),
        BackupError::Database { .. } => CliError::new(exit::IO, message),
        BackupError::Locked { .. } => CliError::new(exit::CONFLICT, message)
            .with_hint(format!("try again; see: {}", OperatorCommand::ShowStatus)),
        BackupError::TooMany { .. } => CliError::new(exit::IO, message)
            .with_hint("move data that is not part of skillhost out of manifests and sandbox"),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the argument of `map_err`")]
fn restore_error(error: RestoreError) -> CliError {
    let message = error.to_string();
    match &error {
        RestoreError::Io { path, source } => CliError::io(path, source),
        RestoreError::NotABackup { .. } => {
            CliError::usage(message).with_hint("name a file that `skillhost backup` has written")
        }
        RestoreError::Newer { .. } => {
            CliError::usage(message).with_hint("use the program that wrote it, or a later one")
        }
        RestoreError::Unreadable { .. } | RestoreError::Damaged { .. } => {
            CliError::new(exit::FINDINGS, message)
                .with_hint("no file was changed; use another backup")
        }
        RestoreError::Path { .. } => CliError::new(exit::FINDINGS, message)
            .with_hint("no file was changed; this program writes no such entry"),
        RestoreError::TooLarge { .. } => CliError::new(exit::IO, message)
            .with_hint("no file was changed; free space, or restore it to another disk"),
        RestoreError::NotEmpty { .. } => CliError::new(exit::CONFLICT, message).with_hint(
            "use --replace to move its manifests, sandbox and settings aside, or another directory",
        ),
    }
}
