//! Reads a frontmatter as strictyaml does: everything is text, and much of YAML is refused.

use super::scanner::{Kind, Mark, Refused, Scanner, Token};

/// A value: text, a list or a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    /// A plain `=` or `<<`: the library makes an object of it that is neither text nor JSON.
    Odd(String),
    List(Vec<Value>),
    Map(Map),
}

/// A map in the order of its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Map(pub(super) Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_at: Mark,
    pub(super) value: Value,
    pub(super) value_at: Mark,
}

impl Map {
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.key == key)
    }
}

/// How deep collections may lie in each other. The reference runs out of stack a little beyond.
const DEEPEST: usize = 240;

/// Reads the text between the fences; a text without any content is nothing.
pub(super) fn load(text: &str) -> Result<Option<Value>, Refused> {
    let mut parser = Parser { scanner: Scanner::new(text)?, depth: 0 };
    parser.document()?.map(|node| construct(node, true)).transpose()
}

/// What the parser finds before it is known what it means.
#[derive(Debug)]
struct Node {
    at: Mark,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Scalar { text: String, plain: bool },
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

impl Node {
    fn empty(at: Mark) -> Self {
        Self { at, content: Content::Scalar { text: String::new(), plain: true } }
    }

    fn is_merge(&self) -> bool {
        matches!(&self.content, Content::Scalar { text, plain: true } if text == "<<")
    }
}

struct Parser {
    scanner: Scanner,
    depth: usize,
}

impl Parser {
    fn document(&mut self) -> Result<Option<Node>, Refused> {
        let mut start = self.scanner.take()?;
        self.scanner.hand_on_comments(&mut start)?;
        if self.scanner.check(&[Kind::StreamEnd])? {
            return Ok(None);
        }
        let node = self.node(false)?;
        if self.scanner.check(&[Kind::DocumentEnd])? {
            self.scanner.take()?;
        }
        if self.scanner.check(&[Kind::StreamEnd])? {
            return Ok(Some(node));
        }
        let found = self.scanner.peek()?;
        Refused::new(found.at, "expected a single document, but found another one")
    }

    fn node(&mut self, or_indentless: bool) -> Result<Node, Refused> {
        // Aliases, anchors and tags: the scanner has refused them, but asking ties comments.
        for _ in 0..3 {
            self.scanner.check(&[])?;
        }
        let at = self.scanner.peek()?.at;
        if self.depth == DEEPEST {
            return Refused::crash(at, "collections lie too deep in each other");
        }
        self.depth += 1;
        let content = self.content(or_indentless)?;
        self.depth -= 1;
        Ok(Node { at, content })
    }

    fn content(&mut self, or_indentless: bool) -> Result<Content, Refused> {
        if or_indentless && self.scanner.check(&[Kind::Entry])? {
            if let Some(comments) = &mut self.scanner.peek()?.comments {
                comments.post = false;
            }
            return self.entries(&[Kind::Entry, Kind::Key, Kind::Value, Kind::BlockEnd]);
        }
        if self.scanner.check(&[Kind::Scalar])? {
            let Token { text, plain, .. } = self.scanner.take()?;
            return Ok(Content::Scalar { text, plain });
        }
        // Flow style, see above.
        for _ in 0..2 {
            self.scanner.check(&[])?;
        }
        if self.scanner.check(&[Kind::SequenceStart])? {
            self.scanner.take()?;
            let list = self.entries(&[Kind::Entry, Kind::BlockEnd])?;
            self.block_end()?;
            return Ok(list);
        }
        if self.scanner.check(&[Kind::MappingStart])? {
            self.scanner.take()?;
            return self.mapping();
        }
        Refused::new(self.scanner.peek()?.at, "expected a value here")
    }

    fn block_end(&mut self) -> Result<Token, Refused> {
        if self.scanner.check(&[Kind::BlockEnd])? {
            return self.scanner.take();
        }
        let found = self.scanner.peek()?;
        Refused::new(found.at, "the indentation does not fit what is around it")
    }

    /// Reads `- …` entries; one that is followed by `enders` is empty.
    fn entries(&mut self, enders: &[Kind]) -> Result<Content, Refused> {
        let mut list = Vec::new();
        while self.scanner.check(&[Kind::Entry])? {
            let mut dash = self.scanner.take()?;
            self.scanner.hand_on_comments(&mut dash)?;
            list.push(match self.scanner.check(enders)? {
                true => Node::empty(dash.at),
                false => self.node(false)?,
            });
        }
        Ok(Content::List(list))
    }

    fn mapping(&mut self) -> Result<Content, Refused> {
        let mut entries = Vec::new();
        loop {
            let key = if self.scanner.check(&[Kind::Key])? {
                let mut mark = self.scanner.take()?;
                self.scanner.hand_on_comments(&mut mark)?;
                match self.scanner.check(&[Kind::Key, Kind::Value, Kind::BlockEnd])? {
                    true => Node::empty(mark.at),
                    false => self.node(true)?,
                }
            } else if self.scanner.check(&[Kind::Value])? {
                Node::empty(self.scanner.peek()?.at)
            } else {
                let mut end = self.block_end()?;
                self.scanner.hand_on_comments(&mut end)?;
                return Ok(Content::Map(entries));
            };
            let value = self.mapping_value()?;
            entries.push((key, value));
        }
    }

    fn mapping_value(&mut self) -> Result<Node, Refused> {
        if !self.scanner.check(&[Kind::Value])? {
            return Ok(Node::empty(self.scanner.peek()?.at));
        }
        let mut colon = self.scanner.take()?;
        if self.scanner.check(&[Kind::Value])? || !self.scanner.check(&[Kind::Key])? {
            self.scanner.hand_on_comments(&mut colon)?;
        }
        if !self.scanner.check(&[Kind::Key, Kind::Value, Kind::BlockEnd])? {
            return self.node(true);
        }
        if colon.comments.is_none()
            && let Some(comments) = &mut self.scanner.peek()?.comments
        {
            comments.post = false;
        }
        Ok(Node::empty(colon.at))
    }
}

/// Makes values of nodes. At the top, what `<<` names is read and then lost: the library merges it
/// before it is filled.
fn construct(node: Node, top: bool) -> Result<Value, Refused> {
    Ok(match node.content {
        Content::Scalar { text, plain: true } if matches!(text.as_str(), "=" | "<<") => {
            Value::Odd(text)
        }
        Content::Scalar { text, .. } => Value::Text(text),
        Content::List(items) => {
            let items = items.into_iter().map(|item| construct(item, false));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        Content::Map(entries) => Value::Map(map(node.at, entries, top)?),
    })
}

fn map(at: Mark, entries: Vec<(Node, Node)>, top: bool) -> Result<Map, Refused> {
    let mut map = Map::default();
    let mut keys = std::collections::HashSet::new();
    let mut merged = None;
    let mut indentation = None;
    for (key, value) in entries {
        if key.is_merge() {
            if merged.is_some() {
                return Refused::crash(key.at, "found duplicate key '<<'");
            }
            merged = Some(merge(at, value)?);
            continue;
        }
        let Content::Scalar { text, .. } = key.content else {
            return Refused::new(key.at, "a list or a map cannot be a key");
        };
        let value_at = value.at;
        if matches!(value.content, Content::Map(_))
            && *indentation.get_or_insert(value_at.column) != value_at.column
        {
            let problem = "found mapping with indentation inconsistent with previous mapping";
            return Refused::new(value_at, problem);
        }
        let value = construct(value, false)?;
        if !keys.insert(text.clone()) {
            return Refused::new(key.at, format!("duplicate key '{text}' found"));
        }
        map.0.push(Entry { key: text, key_at: key.at, value, value_at });
    }
    for entry in merged.into_iter().flatten().filter(|_| !top) {
        if keys.insert(entry.key.clone()) {
            map.0.push(entry);
        }
    }
    Ok(map)
}

/// Reads what `<<` names: a map, or a list of maps.
fn merge(at: Mark, value: Node) -> Result<Vec<Entry>, Refused> {
    let refused = "expected a mapping or list of mappings for merging";
    let maps = match value.content {
        Content::Map(_) => vec![value],
        Content::List(items) => items,
        Content::Scalar { .. } => return Refused::new(at, refused),
    };
    let mut merged = Vec::new();
    for node in maps {
        let Content::Map(entries) = node.content else {
            return Refused::new(node.at, refused);
        };
        merged.extend(map(node.at, entries, false)?.0);
    }
    Ok(merged)
}
