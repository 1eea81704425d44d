//! `skillhost console`: a login to the web console of the running kernel.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use skillhost_control::{ConsoleAddress, ControlRequest};
use skillhost_files::write_private;
use skillhost_home::Home;
use skillhost_payload::OperatorCommand;
use skillhost_terminal::{CliContext, CliError, CommandResult, exit};

/// The program that opens a file in the browser of the user.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

pub(super) fn cmd_console(session: &CliContext, args: &crate::cli::ConsoleArgs) -> CommandResult {
    let home = session.trusted_home()?;
    let address: Option<ConsoleAddress> =
        session.try_running_kernel(&home, &ControlRequest::OpenConsole)?;
    let Some(ConsoleAddress { url, expires_ms }) = address else {
        let message = format!("no kernel runs for {}", home.root().display());
        return Err(CliError::new(exit::NOT_FOUND, message)
            .with_hint(format!("start it: {}", OperatorCommand::RunKernel)));
    };
    let output = session.output;
    if args.open {
        open_browser(&home, &url)?;
    }
    if output.json {
        output.print_json(&json!({ "url": url, "expires_ms": expires_ms, "opened": args.open }))?;
    } else if args.open {
        output.print_line("opened the console in the browser")?;
    } else {
        output.print_line(&url)?;
        output.print_note("the address works once, within two minutes");
    }
    Ok(exit::OK)
}

/// Opens an address in the browser of the user, by a private page that leads there: other users can
/// read the command line of the browser, and the address holds a token.
fn open_browser(home: &Home, url: &str) -> Result<(), CliError> {
    let directory = home.data_dir("kernel");
    let page = directory.join("console.html");
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Console</title>\
         <meta http-equiv=\"refresh\" content=\"0; url={url}\">\
         <p><a href=\"{url}\">Open the console</a></p></html>\n"
    );
    write_private(&page, html.as_bytes()).map_err(|error| CliError::io(&page, &error))?;
    run_opener(&page)
}

fn run_opener(page: &Path) -> Result<(), CliError> {
    let failed = |reason: String| {
        CliError::new(exit::IO, format!("`{OPENER}` could not open a browser: {reason}"))
            .with_hint("open the address that `skillhost console` prints")
    };
    let status = Command::new(OPENER)
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|error| failed(error.to_string()))?;
    match status.success() {
        true => Ok(()),
        false => Err(failed(status.to_string())),
    }
}
