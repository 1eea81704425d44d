//! The commands whose output is paged on a terminal: those that only list or print something.

use skillhost_operations::{ChannelCommand, InboxCommand, TaskCommand};

use crate::cli::{
    EventCommand, ExtensionCommand, ModelCommand, ScheduleCommand, ToolCommand, TopLevelCommand,
};

/// Returns `true` for a command whose output is shown one screen at a time. A command that asks, or
/// prints while it works, is never paged.
pub(super) fn is_paged(command: &TopLevelCommand) -> bool {
    match command {
        TopLevelCommand::Agent(_)
        | TopLevelCommand::Config(_)
        | TopLevelCommand::Schema(_)
        | TopLevelCommand::Status
        | TopLevelCommand::Thread(_)
        | TopLevelCommand::Task(
            TaskCommand::List(_)
            | TaskCommand::Show { .. }
            | TaskCommand::Logs { follow: false, .. },
        )
        | TopLevelCommand::Inbox(InboxCommand::List | InboxCommand::Show { .. })
        | TopLevelCommand::Channel(ChannelCommand::List | ChannelCommand::Peers { .. })
        | TopLevelCommand::Event(EventCommand::DeadLetters)
        | TopLevelCommand::Model(ModelCommand::List)
        | TopLevelCommand::Schedule(ScheduleCommand::List)
        | TopLevelCommand::Tool(ToolCommand::List { .. } | ToolCommand::Show { .. })
        | TopLevelCommand::Extension(
            ExtensionCommand::List | ExtensionCommand::Doctor | ExtensionCommand::Approvals,
        ) => true,
        TopLevelCommand::Ask(args) => args.print_prompt,
        TopLevelCommand::Extension(ExtensionCommand::Approve(args)) => args.print,
        TopLevelCommand::Skill(command) => command.is_paged(),
        _ => false,
    }
}
