//! `skillhost service`: the definition with which a service manager runs the kernel.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use skillhost_home::Environment;
use skillhost_payload::OperatorCommand;
use skillhost_terminal::{CliContext, CliError, CommandResult, exit};

use crate::arguments::{ServiceCommand, ServiceFormat, ServiceInstallArgs};

/// The time limit of a shutdown, in seconds: longer than that of the supervisor.
const STOP_SECONDS: u32 = 80;

/// Prints the definition of a service.
///
/// # Errors
/// The home is missing or not trusted, or a path cannot be written into a definition.
pub fn cmd_service(session: &CliContext, command: &ServiceCommand) -> CommandResult {
    match command {
        ServiceCommand::Install(args) => print_definition(session, args),
    }
}

fn print_definition(session: &CliContext, args: &ServiceInstallArgs) -> CommandResult {
    let home = session.trusted_home()?;
    let service = ServiceDefinition {
        program: std::env::current_exe()?,
        home: home.root().to_owned(),
        variables: service_variables(&session.environment),
        log: home.data_dir("kernel").join("logs"),
    };
    let format = args.print.flatten().unwrap_or(ServiceFormat::of_this_system());
    let text = match format {
        ServiceFormat::Systemd => service.to_systemd(),
        ServiceFormat::Launchd => service.to_launchd(),
    };
    let text = text.ok_or_else(|| {
        let message = "a path with a line break or that is not UTF-8 cannot be in a service";
        CliError::usage(message).with_hint("move the home or the program")
    })?;
    let output = session.output;
    if output.json {
        let file = format.file_name();
        output.print_json(&json!({ "format": format.as_str(), "file": file, "text": text }))?;
        return Ok(exit::OK);
    }
    output.print_text(&text)?;
    output.print_note(format.instructions());
    Ok(exit::OK)
}

/// Returns the variables of the shell that the service also needs: they locate the record of
/// trusted homes. The service manager itself sets `HOME` and `XDG_RUNTIME_DIR`.
fn service_variables(environment: &Environment) -> Vec<(&'static str, PathBuf)> {
    let state = environment.state_home.as_ref().map(|dir| ("XDG_STATE_HOME", PathBuf::from(dir)));
    state.into_iter().collect()
}

/// The parts of a service that runs the supervised kernel of a home.
struct ServiceDefinition {
    program: PathBuf,
    home: PathBuf,
    variables: Vec<(&'static str, PathBuf)>,
    /// The directory of the log.
    log: PathBuf,
}

impl ServiceDefinition {
    /// Returns the arguments of the program.
    fn arguments(&self) -> Option<Vec<&str>> {
        Some(vec!["--home", to_plain_text(&self.home)?, "run", "--supervised"])
    }

    /// Formats a user unit of systemd (systemd.service, systemd.syntax).
    fn to_systemd(&self) -> Option<String> {
        let mut text = String::from(
            "[Unit]\n\
             Description=skillhost, a kernel for AI agents\n\
             Documentation=man:skillhost-run(1)\n\
             # After five crashes of the supervisor within ten minutes it stays down.\n\
             StartLimitIntervalSec=600\n\
             StartLimitBurst=5\n\
             \n\
             [Service]\n\
             Type=simple\n",
        );
        for (name, value) in &self.variables {
            let assignment = format!("{name}={}", to_plain_text(value)?);
            // A specifier is expanded, a variable is not.
            writeln!(text, "Environment={}", quote_systemd(&assignment, false)).ok()?;
        }
        let words: Vec<_> = std::iter::once(to_plain_text(&self.program)?)
            .chain(self.arguments()?)
            .map(|word| quote_systemd(word, true))
            .collect();
        writeln!(text, "ExecStart={}", words.join(" ")).ok()?;
        writeln!(
            text,
            "# The supervisor restarts the kernel itself. Exit codes 2 to 5 require an operator.\n\
             Restart=on-failure\n\
             RestartSec=5\n\
             RestartPreventExitStatus=2 3 4 5\n\
             # The supervisor ends the kernel, and then itself.\n\
             KillMode=mixed\n\
             KillSignal=SIGTERM\n\
             TimeoutStopSec={STOP_SECONDS}\n\
             \n\
             [Install]\n\
             WantedBy=default.target"
        )
        .ok()?;
        Some(text)
    }

    /// Formats a property list of launchd (launchd.plist).
    fn to_launchd(&self) -> Option<String> {
        let mut arguments = String::new();
        for word in std::iter::once(to_plain_text(&self.program)?).chain(self.arguments()?) {
            writeln!(arguments, "    <string>{}</string>", escape_xml(word)).ok()?;
        }
        let mut variables = String::new();
        for (name, value) in &self.variables {
            let value = escape_xml(to_plain_text(value)?);
            writeln!(variables, "    <key>{name}</key>\n    <string>{value}</string>").ok()?;
        }
        if !variables.is_empty() {
            variables =
                format!("  <key>EnvironmentVariables</key>\n  <dict>\n{variables}  </dict>\n");
        }
        let output = escape_xml(to_plain_text(&self.log.join("service.out"))?);
        Some(format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
             \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <plist version=\"1.0\">\n\
             <dict>\n\
             \x20 <key>Label</key>\n\
             \x20 <string>{LABEL}</string>\n\
             \x20 <key>ProgramArguments</key>\n\
             \x20 <array>\n\
             {arguments}\
             \x20 </array>\n\
             {variables}\
             \x20 <key>RunAtLoad</key>\n\
             \x20 <true/>\n\
             \x20 <key>KeepAlive</key>\n\
             \x20 <dict>\n\
             \x20   <key>Crashed</key>\n\
             \x20   <true/>\n\
             \x20 </dict>\n\
             \x20 <key>ExitTimeOut</key>\n\
             \x20 <integer>{STOP_SECONDS}</integer>\n\
             \x20 <key>StandardOutPath</key>\n\
             \x20 <string>{output}</string>\n\
             </dict>\n\
             </plist>\n"
        ))
    }
}

/// The label of the service for launchd.
const LABEL: &str = "dev.skillhost.kernel";

impl ServiceFormat {
    const fn of_this_system() -> Self {
        if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Systemd => "systemd",
            Self::Launchd => "launchd",
        }
    }

    /// Returns the file of the definition, in the user's home directory.
    const fn file_name(self) -> &'static str {
        match self {
            Self::Systemd => ".config/systemd/user/skillhost.service",
            Self::Launchd => "Library/LaunchAgents/dev.skillhost.kernel.plist",
        }
    }

    fn instructions(self) -> String {
        let file = self.file_name();
        let start = match self {
            Self::Systemd => {
                "systemctl --user daemon-reload; systemctl --user enable --now skillhost"
            }
            Self::Launchd => {
                "launchctl bootstrap gui/$UID ~/Library/LaunchAgents/dev.skillhost.kernel.plist"
            }
        };
        let status = OperatorCommand::ShowStatus;
        format!("save it as ~/{file}, then: {start}; see: {status}")
    }
}

/// Returns a path as text on one line.
fn to_plain_text(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| !text.chars().any(char::is_control))
}

/// Quotes a word for systemd. `%` begins a specifier everywhere; in a command line, `$` begins a
/// variable.
fn quote_systemd(word: &str, is_command: bool) -> String {
    let mut quoted = String::from("\"");
    for character in word.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            '%' => quoted.push_str("%%"),
            '$' if is_command => quoted.push_str("$$"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(home: &str) -> ServiceDefinition {
        ServiceDefinition {
            program: "/opt/skillhost/bin/skillhost".into(),
            home: home.into(),
            variables: vec![("XDG_STATE_HOME", "/home/a/state dir".into())],
            log: Path::new(home).join("sandbox/data/kernel/logs"),
        }
    }

    #[test]
    fn systemd_unit_quotes_paths() {
        let unit = service("/home/a/100% \"mine\" $HOME").to_systemd().unwrap();
        let lines: Vec<_> = unit.lines().collect();
        assert!(lines.contains(
            &r#"ExecStart="/opt/skillhost/bin/skillhost" "--home" "/home/a/100%% \"mine\" $$HOME" "run" "--supervised""#
        ), "{unit}");
        assert!(lines.contains(&r#"Environment="XDG_STATE_HOME=/home/a/state dir""#), "{unit}");
        for line in ["[Unit]", "[Service]", "[Install]", "KillMode=mixed", "TimeoutStopSec=80"] {
            assert!(lines.contains(&line), "{unit}");
        }
        assert_eq!(service("/home/a\nExecStart=/bin/sh").to_systemd(), None);
    }

    #[test]
    fn property_list_escapes_markup() {
        let list = service("/home/a/<b> & c").to_launchd().unwrap();
        let strings: Vec<_> = list.lines().map(str::trim).collect();
        for line in [
            "<string>/opt/skillhost/bin/skillhost</string>",
            "<string>--home</string>",
            "<string>/home/a/&lt;b&gt; &amp; c</string>",
            "<string>run</string>",
            "<string>--supervised</string>",
            "<key>XDG_STATE_HOME</key>",
            "<integer>80</integer>",
        ] {
            assert!(strings.contains(&line), "{line} in {list}");
        }
        let opened = list.matches("<dict>").count();
        assert_eq!((opened, list.matches("</dict>").count()), (3, 3));
        assert_eq!(service("/home/a\u{7}").to_launchd(), None);
    }
}
