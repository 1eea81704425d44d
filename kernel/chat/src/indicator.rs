//! The line that shows, during a turn, what the agent does, for how long, and the tokens so far.

use std::time::Duration;

use skillhost_conversation::TokenUsage;

use crate::screen::cut_line;

/// The pictures of the moving mark.
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// The time of one picture.
const FRAME: Duration = Duration::from_millis(100);

/// The characters of a reply that count as one token until the provider reports its own number.
const CHARACTERS_PER_TOKEN: u64 = 4;

/// The activity of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum TurnActivity {
    /// A request was sent; nothing has arrived yet.
    #[default]
    Waiting,
    /// The reply arrives.
    Writing,
    /// A tool runs.
    Calling(String),
}

/// The progress of a turn.
#[derive(Debug, Default)]
pub(crate) struct TurnProgress {
    pub(crate) activity: TurnActivity,
    /// The reported tokens of finished requests.
    reported: u64,
    is_estimated: bool,
    /// The characters of the reply that arrives.
    streamed: u64,
}

impl TurnProgress {
    /// Counts a part of the reply.
    pub(crate) fn add_text(&mut self, text: &str) {
        self.activity = TurnActivity::Writing;
        self.streamed += text.chars().count() as u64;
    }

    /// Counts a finished request in place of the characters that arrived.
    pub(crate) fn add_usage(&mut self, usage: &TokenUsage) {
        self.reported += usage.input + usage.output;
        self.is_estimated |= usage.estimated;
        self.streamed = 0;
    }

    /// Discards the characters of a reply that starts over.
    pub(crate) fn restart_reply(&mut self) {
        self.streamed = 0;
        self.activity = TurnActivity::Waiting;
    }

    /// Formats the line for a width in columns.
    pub(crate) fn format(&self, elapsed: Duration, width: usize) -> String {
        let frame = elapsed.as_millis() / FRAME.as_millis();
        let frame = FRAMES[usize::try_from(frame).unwrap_or_default() % FRAMES.len()];
        let activity = match &self.activity {
            TurnActivity::Waiting => "waiting for the model".to_owned(),
            TurnActivity::Writing => "writing".to_owned(),
            TurnActivity::Calling(tool) => format!("calling {tool}"),
        };
        let tokens = self.reported + self.streamed.div_ceil(CHARACTERS_PER_TOKEN);
        let about = if self.is_estimated || self.streamed > 0 { "approx. " } else { "" };
        let tokens = match tokens {
            0 => String::new(),
            tokens => format!(" · {about}{tokens} tokens"),
        };
        let line =
            format!("{frame} {activity} · {}{tokens} · Ctrl-C cancels", format_time(elapsed));
        cut_line(&line, width)
    }
}

/// Formats a time in seconds, and minutes from one on.
fn format_time(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_shows_time_and_tokens() {
        let mut progress = TurnProgress::default();
        let at = Duration::from_millis;
        assert_eq!(progress.format(at(0), 80), "⠋ waiting for the model · 0 s · Ctrl-C cancels");
        progress.add_text("twelve chars");
        assert_eq!(
            progress.format(at(61_100), 80),
            "⠙ writing · 1 min 1 s · approx. 3 tokens · Ctrl-C cancels"
        );
        progress.add_usage(&TokenUsage { input: 100, output: 20, ..TokenUsage::default() });
        progress.activity = TurnActivity::Calling("read_file".into());
        assert_eq!(
            progress.format(at(2_500), 80),
            "⠴ calling read_file · 2 s · 120 tokens · Ctrl-C cancels"
        );
        assert_eq!(progress.format(at(2_500), 10), "⠴ calling…");
    }

    #[test]
    fn restarted_reply_counts_nothing() {
        let mut progress = TurnProgress::default();
        progress.add_text("discarded");
        progress.restart_reply();
        assert_eq!(
            progress.format(Duration::ZERO, 80),
            "⠋ waiting for the model · 0 s · Ctrl-C cancels"
        );
    }
}
