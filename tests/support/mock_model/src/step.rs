//! The reaction of the server to one request.

use std::ops::Range;

/// An answer or a fault.
#[derive(Debug, Clone)]
pub struct Step {
    pub(crate) deed: Deed,
    pub(crate) hold: Hold,
    pub(crate) end: End,
}

#[derive(Debug, Clone)]
pub(crate) enum Deed {
    Reply(Reply),
    Fault { status: u16, code: &'static str, message: String, retry_after: Option<u32> },
    Page(String),
}

/// The point at which the server waits for the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Never,
    Before,
    Midway,
}

/// The end of a streamed reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Whole,
    /// The connection breaks.
    Broken,
    /// The connection ends as after a complete reply.
    Quiet,
    /// The connection ends after so many pieces.
    After(usize),
    /// A chunk in the middle is cut off, and the rest follows.
    Damaged,
    /// An error replaces the rest.
    Told {
        code: &'static str,
        message: String,
    },
}

/// The content of a reply.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<Call>,
    pub(crate) usage: Option<Tokens>,
    pub(crate) short: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Tokens {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cached: u64,
}

impl Step {
    fn reply(text: &str) -> Self {
        let usage = Some(Tokens { input: 10, output: 5, cached: 0 });
        let reply = Reply { text: text.to_owned(), usage, ..Reply::default() };
        Self { deed: Deed::Reply(reply), hold: Hold::Never, end: End::Whole }
    }

    fn fault(status: u16, code: &'static str, message: &str, retry_after: Option<u32>) -> Self {
        let deed = Deed::Fault { status, code, message: message.to_owned(), retry_after };
        Self { deed, hold: Hold::Never, end: End::Whole }
    }

    /// Creates a reply with a text. It uses 10 tokens and produces 5, unless [`Step::usage`] sets
    /// others.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::reply(text)
    }

    /// Creates an empty reply.
    #[must_use]
    pub fn empty() -> Self {
        Self::reply("")
    }

    /// Creates a reply that has only reasoning.
    #[must_use]
    pub fn only_reasoning(thought: &str) -> Self {
        Self::reply("").reasoning(thought)
    }

    /// Creates a reply with one tool call and no text.
    #[must_use]
    pub fn calls(tool: &str, arguments: &str) -> Self {
        Self::reply("").call(tool, arguments)
    }

    /// Creates a status 429; with seconds, it has a retry delay.
    #[must_use]
    pub fn busy(retry_after: Option<u32>) -> Self {
        Self::fault(429, "rate_limit_error", "too many requests", retry_after)
    }

    /// Creates an error with a status such as 500 and the server's message.
    #[must_use]
    pub fn status(status: u16, message: &str) -> Self {
        Self::fault(status, "server_error", message, None)
    }

    /// Refuses the key, and repeats it.
    #[must_use]
    pub fn key_refused() -> Self {
        Self::fault(401, "invalid_api_key", "invalid key: [KEY]", None)
    }

    /// Creates the error of an unknown model.
    #[must_use]
    pub fn unknown_model() -> Self {
        Self::fault(404, "model_not_found", "the model does not exist", None)
    }

    /// Creates the error of a request that exceeds the context window.
    #[must_use]
    pub fn overflow() -> Self {
        let message = "this model's maximum context length is 10 tokens";
        Self::fault(400, "context_length_exceeded", message, None)
    }

    /// Creates an HTML page, as from a server that does not speak the wire.
    #[must_use]
    pub fn page(html: &str) -> Self {
        Self { deed: Deed::Page(html.to_owned()), hold: Hold::Never, end: End::Whole }
    }

    fn changed(mut self, change: impl FnOnce(&mut Reply)) -> Self {
        match &mut self.deed {
            Deed::Reply(reply) => change(reply),
            _ => panic!("only a step that says something can say more"),
        }
        self
    }

    /// Adds a tool call. The arguments are sent unchanged, be they JSON or not; ids are `call_1`,
    /// `call_2` and so on within the step.
    #[must_use]
    pub fn call(self, tool: &str, arguments: &str) -> Self {
        self.changed(|reply| {
            let id = format!("call_{}", reply.calls.len() + 1);
            let (name, arguments) = (tool.to_owned(), arguments.to_owned());
            reply.calls.push(Call { id, name, arguments });
        })
    }

    /// Sets the id of the last call.
    #[must_use]
    pub fn id(self, id: &str) -> Self {
        self.changed(|reply| {
            let call = reply.calls.last_mut().expect("a step with a call");
            id.clone_into(&mut call.id);
        })
    }

    /// Thinks aloud first.
    #[must_use]
    pub fn reasoning(self, thought: &str) -> Self {
        self.changed(|reply| thought.clone_into(&mut reply.reasoning))
    }

    /// Sets the usage: tokens sent (cached ones included), received, cached.
    #[must_use]
    pub fn usage(self, input: u64, output: u64, cached: u64) -> Self {
        self.changed(|reply| reply.usage = Some(Tokens { input, output, cached }))
    }

    /// Omits the usage.
    #[must_use]
    pub fn no_usage(self) -> Self {
        self.changed(|reply| reply.usage = None)
    }

    /// Stops because a reply may not be longer.
    #[must_use]
    pub fn cut_short(self) -> Self {
        self.changed(|reply| reply.short = true)
    }

    /// Answers only after [`crate::MockModel::release`].
    #[must_use]
    pub fn held(self) -> Self {
        Self { hold: Hold::Before, ..self }
    }

    /// Sends the first half, and the rest only after [`crate::MockModel::release`].
    #[must_use]
    pub fn held_midway(self) -> Self {
        Self { hold: Hold::Midway, ..self }
    }

    /// Breaks the connection in the middle.
    #[must_use]
    pub fn broken(self) -> Self {
        Self { end: End::Broken, ..self }
    }

    /// Ends in the middle as after a complete reply.
    #[must_use]
    pub fn stops(self) -> Self {
        Self { end: End::Quiet, ..self }
    }

    /// Ends after this number of chunks as after a complete reply.
    #[must_use]
    pub fn stops_after(self, pieces: usize) -> Self {
        Self { end: End::After(pieces), ..self }
    }

    /// Damages a chunk in the middle of a reply and continues.
    #[must_use]
    pub fn damaged(self) -> Self {
        Self { end: End::Damaged, ..self }
    }

    /// Sends an error instead of the second half, such as `overloaded_error`.
    #[must_use]
    pub fn with_stream_error(self, code: &'static str, message: &str) -> Self {
        Self { end: End::Told { code, message: message.to_owned() }, ..self }
    }
}

/// Splits a text into two chunks, so that clients have to join chunks.
pub(crate) fn halves(text: &str) -> Vec<&str> {
    let middle = text.char_indices().map(|(at, _)| at).nth(text.chars().count() / 2).unwrap_or(0);
    [0..middle, middle..text.len()]
        .into_iter()
        .filter(|range: &Range<usize>| !range.is_empty())
        .map(|range| &text[range])
        .collect()
}
