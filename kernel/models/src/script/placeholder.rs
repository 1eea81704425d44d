//! The context of a script and the placeholders of its texts.

use serde::Deserialize;
use skillhost_conversation::{Message, ModelRequest};

/// The view of a script on a request.
pub(super) struct ScriptContext<'a> {
    pub(super) request: &'a ModelRequest,
    pub(super) model: &'a str,
    /// The last message of the user.
    pub(super) user: &'a str,
    /// The number of replies since then.
    pub(super) turn: usize,
    /// The tool results since then.
    results: Vec<ScriptToolResult<'a>>,
    last_is_result: bool,
}

/// A tool result.
#[derive(Clone, Copy)]
pub(super) struct ScriptToolResult<'a> {
    pub(super) tool: &'a str,
    pub(super) text: &'a str,
    pub(super) failed: bool,
}

impl<'a> ScriptContext<'a> {
    pub(super) fn from_request(request: &'a ModelRequest, model: &'a str) -> Self {
        let messages = &request.messages;
        let user = messages.iter().rposition(|message| matches!(message, Message::User { .. }));
        // Results of earlier turns must not satisfy a rule, so only the messages since then count.
        let since = &messages[user.map_or(0, |user| user + 1)..];
        let results = since.iter().filter_map(|message| match message {
            Message::Tool { name, text, is_error, .. } => {
                Some(ScriptToolResult { tool: name, text, failed: *is_error })
            }
            _ => None,
        });
        Self {
            request,
            model,
            user: match user.map(|user| &messages[user]) {
                Some(Message::User { text }) => text,
                _ => "",
            },
            turn: since.iter().filter(|it| matches!(it, Message::Assistant { .. })).count(),
            results: results.collect(),
            last_is_result: matches!(messages.last(), Some(Message::Tool { .. })),
        }
    }

    /// Returns the last message if it is a tool result.
    pub(super) fn last_result(&self) -> Option<ScriptToolResult<'a>> {
        self.results.last().copied().filter(|_| self.last_is_result)
    }
}

/// A text with placeholders in double braces.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct TextTemplate(Vec<TemplatePart>);

/// A literal text or a placeholder.
#[derive(Debug, Clone)]
enum TemplatePart {
    Text(String),
    Model,
    User,
    Tools,
    /// The complete text of a source.
    All(QuoteSource),
    /// The first lines of a source that are not empty, as a quotation.
    Quote(QuoteSource, usize),
    /// The first line of a source that contains a word.
    Line(QuoteSource, String),
}

/// The source of a quotation.
#[derive(Debug, Clone)]
enum QuoteSource {
    System,
    /// A result of a tool: the last one, or the one with a number, counted from 1.
    ToolResult(String, Option<usize>),
}

impl TryFrom<String> for TextTemplate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (mut parts, mut rest) = (Vec::new(), &*text);
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((inside, after)) = after.split_once("}}") else {
                return Err("a placeholder is not closed with `}}`".to_owned());
            };
            parts.push(TemplatePart::Text(before.to_owned()));
            parts.push(parse_placeholder(inside.trim())?);
            rest = after;
        }
        parts.push(TemplatePart::Text(rest.to_owned()));
        Ok(Self(parts))
    }
}

fn parse_placeholder(inside: &str) -> Result<TemplatePart, String> {
    let unknown = || {
        format!(
            "unknown placeholder `{inside}`; use one of: model, user, tools, all SOURCE, \
             quote SOURCE LINES, line SOURCE WORD"
        )
    };
    // The third part is the rest, since the word of a line may contain spaces.
    let mut words = inside.splitn(3, ' ');
    let (kind, source, rest) = (words.next().unwrap_or_default(), words.next(), words.next());
    match (kind, source, rest) {
        ("model", None, None) => Ok(TemplatePart::Model),
        ("user", None, None) => Ok(TemplatePart::User),
        ("tools", None, None) => Ok(TemplatePart::Tools),
        ("all", Some(of), None) => Ok(TemplatePart::All(parse_source(of)?)),
        ("quote", Some(of), Some(lines)) => {
            let lines = lines.trim().parse().map_err(|_| unknown())?;
            Ok(TemplatePart::Quote(parse_source(of)?, lines))
        }
        ("line", Some(of), Some(word)) => {
            Ok(TemplatePart::Line(parse_source(of)?, word.trim().to_owned()))
        }
        _ => Err(unknown()),
    }
}

fn parse_source(text: &str) -> Result<QuoteSource, String> {
    if text == "system" {
        return Ok(QuoteSource::System);
    }
    let Some((tool, number)) = text.split_once('#') else {
        return Ok(QuoteSource::ToolResult(text.to_owned(), None));
    };
    let number = number.parse().ok().filter(|number| *number > 0);
    let number = number.ok_or_else(|| format!("`{text}`: results are counted from 1"))?;
    Ok(QuoteSource::ToolResult(tool.to_owned(), Some(number)))
}

impl QuoteSource {
    fn text<'a>(&self, context: &ScriptContext<'a>) -> &'a str {
        match self {
            Self::System => &context.request.system,
            Self::ToolResult(tool, number) => {
                let mut results = context.results.iter().filter(|result| result.tool == tool);
                let result = match number {
                    Some(number) => results.nth(number - 1),
                    None => results.next_back(),
                };
                // A missing result is empty text, so that a script cannot fail on it.
                result.map_or("", |result| result.text)
            }
        }
    }
}

impl TextTemplate {
    pub(super) fn render(&self, context: &ScriptContext<'_>) -> String {
        self.0.iter().map(|part| part.render(context)).collect()
    }
}

impl TemplatePart {
    fn render(&self, context: &ScriptContext<'_>) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Model => context.model.to_owned(),
            Self::User => context.user.to_owned(),
            Self::Tools => {
                let names: Vec<_> = context.request.tools.iter().map(|it| &*it.name).collect();
                names.join(", ")
            }
            Self::All(source) => source.text(context).to_owned(),
            Self::Quote(source, count) => {
                let lines = source.text(context).lines().filter(|line| !line.trim().is_empty());
                let quoted: Vec<_> = lines.take(*count).map(|line| format!("> {line}")).collect();
                quoted.join("\n")
            }
            Self::Line(source, word) => {
                let found = source.text(context).lines().find(|line| line.contains(word.as_str()));
                found.unwrap_or_default().trim().to_owned()
            }
        }
    }
}
