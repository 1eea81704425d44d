//! Tests of the arguments, and of the commands that messages suggest.

use std::path::Path;

use clap::Parser as _;
use clap::error::ErrorKind;
use skillhost_payload::OperatorCommand;

use super::Cli;

#[test]
fn verbosity_sets_log_filter() {
    let filter = |args: &[&str]| {
        let args = ["skillhost", "config"].iter().chain(args);
        Cli::try_parse_from(args).unwrap().global.log_filter().to_owned()
    };
    assert_eq!(filter(&["-q"]), "error");
    assert_eq!(filter(&["-v"]), "info");
    assert_eq!(filter(&["-vv"]), "debug");
    assert_eq!(filter(&["--log", "x=trace"]), "x=trace");
    assert!(Cli::try_parse_from(["skillhost", "config", "-q", "-v"]).is_err());
}

/// Lists commands, and matches them so that no variant of the table is missing.
macro_rules! commands {
    ($($name:ident $({ $($field:ident: $value:expr),* })?,)*) => {{
        #[expect(unreachable_patterns, reason = "a command may be listed with several arguments")]
        fn require_all(command: OperatorCommand<'_>) {
            match command {
                $(OperatorCommand::$name { .. } => {})*
            }
        }
        let commands = [$(OperatorCommand::$name $({ $($field: $value),* })?,)*];
        commands.into_iter().for_each(require_all);
        commands
    }};
}

/// Checks that the program has a command.
fn check_command(line: &str) -> Result<(), String> {
    match Cli::try_parse_from(line.split(' ')) {
        Ok(_) => Ok(()),
        // A message may name a command without its arguments.
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => Ok(()),
        Err(error) => Err(format!("`{line}`: {error}")),
    }
}

#[test]
fn suggested_commands_exist() {
    let home = Path::new("/home/a");
    let commands = commands![
        ListAgents,
        StartChat,
        ResumeThread { id: "ID" },
        ListDeadLetters,
        ShowEvents,
        RetryDelivery { delivery: 7 },
        ApproveExtension { id: "echo" },
        BuildExtension { id: "echo" },
        ApproveScripts { id: "pdf" },
        CheckExtensions,
        CreateExtension,
        ListExtensions,
        ReloadExtension { id: "echo" },
        ShowQuestion { id: "01k" },
        ListModels,
        ShowStatus,
        StopKernel,
        ShowLogs,
        RunKernel,
        RunSupervisedKernel,
        ListSchedules,
        PrintManifestSchema,
        PrintSettingsSchema,
        ListThreads,
        CallTool { name: None },
        CallTool { name: Some("echo") },
        ListTools,
        PrintToolSchemas,
        CreateHome { dir: home },
        TrustHome { dir: None },
        TrustHome { dir: Some(home) },
        RevokeHomeTrust { dir: home },
        ApproveSkill { id: "beads", digest: None },
        ApproveSkill { id: "beads", digest: Some("0123456789ab") },
        EnableSkill { id: "beads" },
        FormatSkills,
        MakeSkillsPortable,
        LintSkills,
        FixSkills,
        ValidateSkills,
        ListRules,
        ShowRule { rule: "name.format" },
        ListSkills,
        ShowSkill,
        ShowSkillHistory,
        RollBackSkill { id: "beads" },
        ListProposals,
        ReviewProposals { id: None },
        ReviewProposals { id: Some("1") },
        RebaseProposal { id: "1" },
        RejectProposal { id: "1" },
        RetryTask { id: "ID" },
    ];
    let problems: Vec<_> =
        commands.iter().filter_map(|command| check_command(&command.to_string()).err()).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(check_command("skillhost ext docter").is_err());
}

#[test]
fn rule_pages_name_commands() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules.md");
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<_> = text.split('`').filter(|part| part.starts_with("skillhost ")).collect();
    assert!(lines.contains(&"skillhost skill rules"), "{lines:?}");
    let problems: Vec<_> = lines.iter().filter_map(|line| check_command(line).err()).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
