//! The settings that all line editors of a chat share.

use rustyline::history::History;
use rustyline::{
    Cmd, CompletionType, Config, Editor, EventHandler, Helper, KeyCode, KeyEvent, Modifiers, config,
};

/// The number of lines stored between chats.
const HISTORY: usize = 1000;

/// Returns the settings of an editor.
///
/// # Errors
/// The editor does not accept them.
pub(crate) fn editor_config() -> rustyline::Result<config::Builder> {
    Config::builder()
        .completion_type(CompletionType::List)
        .history_ignore_space(true)
        // A pasted block stays one input, line breaks included.
        .bracketed_paste(true)
        .max_history_size(HISTORY)
}

/// Makes Alt-Enter, and Ctrl-J, start a new line instead of sending the input.
pub(crate) fn bind_newline<H: Helper, I: History>(editor: &mut Editor<H, I>) {
    for key in [
        KeyEvent(KeyCode::Enter, Modifiers::ALT),
        KeyEvent::alt('\r'),
        KeyEvent::alt('\n'),
        KeyEvent::ctrl('J'),
    ] {
        editor.bind_sequence(key, EventHandler::Simple(Cmd::Newline));
    }
}
