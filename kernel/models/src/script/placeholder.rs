//! What a script knows of the conversation, and how its texts speak of it.

use serde::Deserialize;
use skillhost_kernel::{Message, ModelRequest};

/// A request as a script sees it.
pub(super) struct ScriptContext<'a> {
    pub(super) request: &'a ModelRequest,
    pub(super) model: &'a str,
    /// What the user said last.
    pub(super) user: &'a str,
    /// Replies since then.
    pub(super) turn: usize,
    /// The answers of tools since then.
    answers: Vec<ScriptToolResult<'a>>,
    last_is_answer: bool,
}

/// A tool's answer.
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
        let since = &messages[user.map_or(0, |user| user + 1)..];
        let answers = since.iter().filter_map(|message| match message {
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
            answers: answers.collect(),
            last_is_answer: matches!(messages.last(), Some(Message::Tool { .. })),
        }
    }

    /// The last message, if it is a tool's answer.
    pub(super) fn last_answer(&self) -> Option<ScriptToolResult<'a>> {
        self.answers.last().copied().filter(|_| self.last_is_answer)
    }
}

/// A text with placeholders in double braces.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct TextTemplate(Vec<TemplatePart>);

#[derive(Debug, Clone)]
enum TemplatePart {
    Text(String),
    Model,
    User,
    Tools,
    /// All of a text.
    All(QuoteSource),
    /// Its first lines that are not empty, as a quotation.
    Quote(QuoteSource, usize),
    /// Its first line with a word in it.
    Line(QuoteSource, String),
}

/// A text that can be quoted.
#[derive(Debug, Clone)]
enum QuoteSource {
    System,
    /// The answers of a tool, the last one without a number, else counted from 1.
    Answer(String, Option<usize>),
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
            parts.push(placeholder(inside.trim())?);
            rest = after;
        }
        parts.push(TemplatePart::Text(rest.to_owned()));
        Ok(Self(parts))
    }
}

fn placeholder(inside: &str) -> Result<TemplatePart, String> {
    let unknown = || {
        format!(
            "unknown placeholder `{inside}`; there are: model, user, tools, all SOURCE, \
             quote SOURCE LINES, line SOURCE WORD"
        )
    };
    let mut words = inside.splitn(3, ' ');
    let (kind, source, rest) = (words.next().unwrap_or_default(), words.next(), words.next());
    match (kind, source, rest) {
        ("model", None, None) => Ok(TemplatePart::Model),
        ("user", None, None) => Ok(TemplatePart::User),
        ("tools", None, None) => Ok(TemplatePart::Tools),
        ("all", Some(of), None) => Ok(TemplatePart::All(source_of(of)?)),
        ("quote", Some(of), Some(lines)) => {
            let lines = lines.trim().parse().map_err(|_| unknown())?;
            Ok(TemplatePart::Quote(source_of(of)?, lines))
        }
        ("line", Some(of), Some(word)) => {
            Ok(TemplatePart::Line(source_of(of)?, word.trim().to_owned()))
        }
        _ => Err(unknown()),
    }
}

fn source_of(text: &str) -> Result<QuoteSource, String> {
    if text == "system" {
        return Ok(QuoteSource::System);
    }
    let Some((tool, number)) = text.split_once('#') else {
        return Ok(QuoteSource::Answer(text.to_owned(), None));
    };
    let number = number.parse().ok().filter(|number| *number > 0);
    let number = number.ok_or_else(|| format!("`{text}`: answers are counted from 1"))?;
    Ok(QuoteSource::Answer(tool.to_owned(), Some(number)))
}

impl QuoteSource {
    fn text<'a>(&self, scene: &ScriptContext<'a>) -> &'a str {
        match self {
            Self::System => &scene.request.system,
            Self::Answer(tool, number) => {
                let mut answers = scene.answers.iter().filter(|answer| answer.tool == tool);
                let answer = match number {
                    Some(number) => answers.nth(number - 1),
                    None => answers.next_back(),
                };
                answer.map_or("", |answer| answer.text)
            }
        }
    }
}

impl TextTemplate {
    pub(super) fn render(&self, scene: &ScriptContext<'_>) -> String {
        self.0.iter().map(|part| part.filled(scene)).collect()
    }
}

impl TemplatePart {
    fn filled(&self, scene: &ScriptContext<'_>) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Model => scene.model.to_owned(),
            Self::User => scene.user.to_owned(),
            Self::Tools => {
                let names: Vec<_> = scene.request.tools.iter().map(|it| &*it.name).collect();
                names.join(", ")
            }
            Self::All(source) => source.text(scene).to_owned(),
            Self::Quote(source, count) => {
                let lines = source.text(scene).lines().filter(|line| !line.trim().is_empty());
                let quoted: Vec<_> = lines.take(*count).map(|line| format!("> {line}")).collect();
                quoted.join("\n")
            }
            Self::Line(source, word) => {
                let found = source.text(scene).lines().find(|line| line.contains(word.as_str()));
                found.unwrap_or_default().trim().to_owned()
            }
        }
    }
}
