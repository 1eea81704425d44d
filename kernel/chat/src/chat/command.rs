//! Lines that begin with a slash.

use skillhost_home::suggest_similar;
use skillhost_terminal::CliError;

/// A parsed line of a chat.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatInput<'a> {
    Nothing,
    Text(&'a str),
    Skills,
    Skill {
        id: &'a str,
        text: Option<&'a str>,
    },
    Agents,
    Agent(&'a str),
    /// The model of the next turns; without a name, the models are listed.
    Model(Option<&'a str>),
    Tools,
    Cost,
    Compact,
    /// A new thread with the same agent.
    Clear,
    Reset,
    /// Another thread, by the start of its id; without one, the last threads are listed.
    Resume(Option<&'a str>),
    Approve(&'a str),
    Thread,
    Help,
    Quit,
}

/// The words after a slash.
pub(super) const COMMANDS: [&str; 15] = [
    "agent", "agents", "approve", "clear", "compact", "cost", "help", "model", "quit", "reset",
    "resume", "skill", "skills", "thread", "tools",
];

pub(super) const HELP: &str = "\
/skills             list the skills, and those active in this thread
/skill NAME [TEXT]  load a skill, and send TEXT
/agents             list the agents
/agent ID           start a thread with another agent
/model [NAME]       list the models, or use one from now on; `default` resets
/tools              list the tools of the agent
/cost               print the tokens and the cost of this chat
/compact            replace all messages but the last by a summary
/clear              start a new thread with the same agent; this one stays
/reset              remove the messages of this thread
/resume [ID]        list the last threads, or continue with one
/approve TOOL       approve a tool until this chat ends
/thread             print the id of this thread; `--thread ID` resumes it
/help               print this
/quit               leave, as Ctrl-D does
//TEXT              send a text that starts with a slash
@PATH               Tab completes a path in the sandbox or a workspace
Alt-Enter starts a new line. Tab completes commands and names.
Ctrl-C cancels the running turn; at the prompt it leaves.";

/// Parses a line.
pub(super) fn parse(line: &str) -> Result<ChatInput<'_>, CliError> {
    let line = line.trim();
    let Some(rest) = line.strip_prefix('/') else {
        return Ok(if line.is_empty() { ChatInput::Nothing } else { ChatInput::Text(line) });
    };
    if rest.starts_with('/') {
        return Ok(ChatInput::Text(rest));
    }
    let (word, argument) = match rest.split_once(char::is_whitespace) {
        Some((word, argument)) => (word, argument.trim_start()),
        None => (rest, ""),
    };
    let alone = |input| match argument.is_empty() {
        true => Ok(input),
        false => Err(CliError::usage(format!("/{word} takes no argument"))),
    };
    let named = |what: &str| match argument.split_whitespace().collect::<Vec<_>>()[..] {
        [name] => Ok(name),
        _ => Err(CliError::usage(format!("/{word} takes {what}"))),
    };
    let optional = |what: &str| match argument.is_empty() {
        true => Ok(None),
        false => named(what).map(Some),
    };
    match word {
        "skills" => alone(ChatInput::Skills),
        "agents" => alone(ChatInput::Agents),
        "tools" => alone(ChatInput::Tools),
        "cost" => alone(ChatInput::Cost),
        "compact" => alone(ChatInput::Compact),
        "clear" => alone(ChatInput::Clear),
        "reset" => alone(ChatInput::Reset),
        "model" => optional("the name of one model").map(ChatInput::Model),
        "resume" => optional("the id of one thread").map(ChatInput::Resume),
        "thread" => alone(ChatInput::Thread),
        "help" => alone(ChatInput::Help),
        "quit" => alone(ChatInput::Quit),
        "agent" => named("the id of one agent").map(ChatInput::Agent),
        "approve" => named("the name of one tool").map(ChatInput::Approve),
        "skill" if argument.is_empty() => {
            Err(CliError::usage("/skill takes the name of a skill and, optionally, a message"))
        }
        "skill" => Ok(match argument.split_once(char::is_whitespace) {
            Some((id, text)) => ChatInput::Skill { id, text: Some(text.trim_start()) },
            None => ChatInput::Skill { id: argument, text: None },
        }),
        _ => {
            let error = CliError::usage(format!("/{word} is not a command"));
            let near = suggest_similar(word, COMMANDS);
            Err(match near.first() {
                Some(near) => error.with_hint(format!("did you mean /{near}?")),
                None => error.with_hint(
                    "/help lists the commands; //TEXT sends a text that starts with a slash",
                ),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_parses_as_message_or_command() {
        for (line, expected) in [
            ("", ChatInput::Nothing),
            ("  \t", ChatInput::Nothing),
            (" hello /skills ", ChatInput::Text("hello /skills")),
            ("//etc is a path", ChatInput::Text("/etc is a path")),
            ("/skills", ChatInput::Skills),
            ("/skill code-review", ChatInput::Skill { id: "code-review", text: None }),
            (
                "/skill code-review  look at  this ",
                ChatInput::Skill { id: "code-review", text: Some("look at  this") },
            ),
            ("/agents ", ChatInput::Agents),
            ("/agent builder_agent", ChatInput::Agent("builder_agent")),
            ("/model", ChatInput::Model(None)),
            ("/model a/b:c", ChatInput::Model(Some("a/b:c"))),
            ("/tools", ChatInput::Tools),
            ("/cost", ChatInput::Cost),
            ("/compact", ChatInput::Compact),
            ("/clear", ChatInput::Clear),
            ("/resume", ChatInput::Resume(None)),
            ("/resume 01k", ChatInput::Resume(Some("01k"))),
            ("/reset", ChatInput::Reset),
            ("one\ntwo", ChatInput::Text("one\ntwo")),
            ("/approve delete_file", ChatInput::Approve("delete_file")),
            ("/thread", ChatInput::Thread),
            ("/help", ChatInput::Help),
            ("/quit", ChatInput::Quit),
        ] {
            assert_eq!(parse(line).unwrap(), expected, "{line:?}");
        }
    }

    #[test]
    fn invalid_command_suggests_valid_ones() {
        let error_of = |line| {
            let error = parse(line).unwrap_err();
            (error.message().to_owned(), error.hints().to_vec())
        };
        assert_eq!(
            error_of("/skil x"),
            ("/skil is not a command".to_owned(), vec!["did you mean /skill?".to_owned()])
        );
        assert_eq!(
            error_of("/"),
            (
                "/ is not a command".to_owned(),
                vec![
                    "/help lists the commands; //TEXT sends a text that starts with a slash"
                        .to_owned()
                ]
            )
        );
        assert_eq!(error_of("/agent").0, "/agent takes the id of one agent");
        assert_eq!(error_of("/approve a b").0, "/approve takes the name of one tool");
        assert_eq!(error_of("/reset now").0, "/reset takes no argument");
        assert_eq!(error_of("/model a b").0, "/model takes the name of one model");
        assert_eq!(
            error_of("/skill").0,
            "/skill takes the name of a skill and, optionally, a message"
        );
    }

    #[test]
    fn help_names_every_command() {
        for command in COMMANDS {
            assert!(
                HELP.lines().any(|line| line.split(' ').next() == Some(&format!("/{command}")))
            );
            assert!(!matches!(parse(&format!("/{command} x")), Ok(ChatInput::Text(_))));
        }
    }
}
