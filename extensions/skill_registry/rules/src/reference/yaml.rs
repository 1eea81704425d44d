//! Reads a frontmatter as strictyaml does: everything is text, and much of YAML is refused.

use super::scanner::{ScanMark, StrictYamlError, TokenKind, YamlScanner, YamlToken};

/// A value: text, a list or a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StrictYamlValue {
    Text(String),
    /// A plain `=` or `<<`: the library makes an object of it that is neither text nor JSON.
    Odd(String),
    List(Vec<StrictYamlValue>),
    Map(StrictYamlMap),
}

/// A map in the order of its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StrictYamlMap(pub(super) Vec<StrictYamlEntry>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StrictYamlEntry {
    pub(super) key: String,
    pub(super) key_at: ScanMark,
    pub(super) value: StrictYamlValue,
    pub(super) value_at: ScanMark,
}

impl StrictYamlMap {
    pub(super) fn get(&self, key: &str) -> Option<&StrictYamlEntry> {
        self.0.iter().find(|entry| entry.key == key)
    }
}

/// How deep collections may lie in each other. The reference runs out of stack a little beyond.
const DEEPEST: usize = 240;

/// Reads the text between the fences; a text without any content is nothing.
pub(super) fn load_yaml(text: &str) -> Result<Option<StrictYamlValue>, StrictYamlError> {
    let mut parser = StrictYamlParser { scanner: YamlScanner::new(text)?, depth: 0 };
    parser.document()?.map(|node| construct(node, true)).transpose()
}

/// What the parser finds before it is known what it means.
#[derive(Debug)]
struct StrictYamlNode {
    at: ScanMark,
    content: NodeContent,
}

#[derive(Debug)]
enum NodeContent {
    Scalar { text: String, plain: bool },
    List(Vec<StrictYamlNode>),
    Map(Vec<(StrictYamlNode, StrictYamlNode)>),
}

impl StrictYamlNode {
    fn empty(at: ScanMark) -> Self {
        Self { at, content: NodeContent::Scalar { text: String::new(), plain: true } }
    }

    fn is_merge(&self) -> bool {
        matches!(&self.content, NodeContent::Scalar { text, plain: true } if text == "<<")
    }
}

struct StrictYamlParser {
    scanner: YamlScanner,
    depth: usize,
}

impl StrictYamlParser {
    fn document(&mut self) -> Result<Option<StrictYamlNode>, StrictYamlError> {
        let mut start = self.scanner.take()?;
        self.scanner.move_comments(&mut start)?;
        if self.scanner.check(&[TokenKind::StreamEnd])? {
            return Ok(None);
        }
        let node = self.node(false)?;
        if self.scanner.check(&[TokenKind::DocumentEnd])? {
            self.scanner.take()?;
        }
        if self.scanner.check(&[TokenKind::StreamEnd])? {
            return Ok(Some(node));
        }
        let found = self.scanner.peek()?;
        StrictYamlError::new(found.at, "expected a single document, but found another one")
    }

    fn node(&mut self, or_indentless: bool) -> Result<StrictYamlNode, StrictYamlError> {
        // Aliases, anchors and tags: the scanner has refused them, but asking ties comments.
        for _ in 0..3 {
            self.scanner.check(&[])?;
        }
        let at = self.scanner.peek()?.at;
        if self.depth == DEEPEST {
            return StrictYamlError::crash(at, "collections lie too deep in each other");
        }
        self.depth += 1;
        let content = self.content(or_indentless)?;
        self.depth -= 1;
        Ok(StrictYamlNode { at, content })
    }

    fn content(&mut self, or_indentless: bool) -> Result<NodeContent, StrictYamlError> {
        if or_indentless && self.scanner.check(&[TokenKind::Entry])? {
            if let Some(comments) = &mut self.scanner.peek()?.comments {
                comments.post = false;
            }
            return self.entries(&[
                TokenKind::Entry,
                TokenKind::Key,
                TokenKind::Value,
                TokenKind::BlockEnd,
            ]);
        }
        if self.scanner.check(&[TokenKind::Scalar])? {
            let YamlToken { text, plain, .. } = self.scanner.take()?;
            return Ok(NodeContent::Scalar { text, plain });
        }
        // Flow style, see above.
        for _ in 0..2 {
            self.scanner.check(&[])?;
        }
        if self.scanner.check(&[TokenKind::SequenceStart])? {
            self.scanner.take()?;
            let list = self.entries(&[TokenKind::Entry, TokenKind::BlockEnd])?;
            self.block_end()?;
            return Ok(list);
        }
        if self.scanner.check(&[TokenKind::MappingStart])? {
            self.scanner.take()?;
            return self.mapping();
        }
        StrictYamlError::new(self.scanner.peek()?.at, "expected a value here")
    }

    fn block_end(&mut self) -> Result<YamlToken, StrictYamlError> {
        if self.scanner.check(&[TokenKind::BlockEnd])? {
            return self.scanner.take();
        }
        let found = self.scanner.peek()?;
        StrictYamlError::new(found.at, "the indentation does not fit what is around it")
    }

    /// Reads `- …` entries; one that is followed by `enders` is empty.
    fn entries(&mut self, enders: &[TokenKind]) -> Result<NodeContent, StrictYamlError> {
        let mut list = Vec::new();
        while self.scanner.check(&[TokenKind::Entry])? {
            let mut dash = self.scanner.take()?;
            self.scanner.move_comments(&mut dash)?;
            list.push(match self.scanner.check(enders)? {
                true => StrictYamlNode::empty(dash.at),
                false => self.node(false)?,
            });
        }
        Ok(NodeContent::List(list))
    }

    fn mapping(&mut self) -> Result<NodeContent, StrictYamlError> {
        let mut entries = Vec::new();
        loop {
            let key = if self.scanner.check(&[TokenKind::Key])? {
                let mut mark = self.scanner.take()?;
                self.scanner.move_comments(&mut mark)?;
                match self.scanner.check(&[
                    TokenKind::Key,
                    TokenKind::Value,
                    TokenKind::BlockEnd,
                ])? {
                    true => StrictYamlNode::empty(mark.at),
                    false => self.node(true)?,
                }
            } else if self.scanner.check(&[TokenKind::Value])? {
                StrictYamlNode::empty(self.scanner.peek()?.at)
            } else {
                let mut end = self.block_end()?;
                self.scanner.move_comments(&mut end)?;
                return Ok(NodeContent::Map(entries));
            };
            let value = self.mapping_value()?;
            entries.push((key, value));
        }
    }

    fn mapping_value(&mut self) -> Result<StrictYamlNode, StrictYamlError> {
        if !self.scanner.check(&[TokenKind::Value])? {
            return Ok(StrictYamlNode::empty(self.scanner.peek()?.at));
        }
        let mut colon = self.scanner.take()?;
        if self.scanner.check(&[TokenKind::Value])? || !self.scanner.check(&[TokenKind::Key])? {
            self.scanner.move_comments(&mut colon)?;
        }
        if !self.scanner.check(&[TokenKind::Key, TokenKind::Value, TokenKind::BlockEnd])? {
            return self.node(true);
        }
        if colon.comments.is_none()
            && let Some(comments) = &mut self.scanner.peek()?.comments
        {
            comments.post = false;
        }
        Ok(StrictYamlNode::empty(colon.at))
    }
}

/// Makes values of nodes. At the top, what `<<` names is read and then lost: the library merges it
/// before it is filled.
fn construct(node: StrictYamlNode, top: bool) -> Result<StrictYamlValue, StrictYamlError> {
    Ok(match node.content {
        NodeContent::Scalar { text, plain: true } if matches!(text.as_str(), "=" | "<<") => {
            StrictYamlValue::Odd(text)
        }
        NodeContent::Scalar { text, .. } => StrictYamlValue::Text(text),
        NodeContent::List(items) => {
            let items = items.into_iter().map(|item| construct(item, false));
            StrictYamlValue::List(items.collect::<Result<_, _>>()?)
        }
        NodeContent::Map(entries) => StrictYamlValue::Map(map(node.at, entries, top)?),
    })
}

fn map(
    at: ScanMark,
    entries: Vec<(StrictYamlNode, StrictYamlNode)>,
    top: bool,
) -> Result<StrictYamlMap, StrictYamlError> {
    let mut map = StrictYamlMap::default();
    let mut keys = std::collections::HashSet::new();
    let mut merged = None;
    let mut indentation = None;
    for (key, value) in entries {
        if key.is_merge() {
            if merged.is_some() {
                return StrictYamlError::crash(key.at, "found duplicate key '<<'");
            }
            merged = Some(merge(at, value)?);
            continue;
        }
        let NodeContent::Scalar { text, .. } = key.content else {
            return StrictYamlError::new(key.at, "a list or a map cannot be a key");
        };
        let value_at = value.at;
        if matches!(value.content, NodeContent::Map(_))
            && *indentation.get_or_insert(value_at.column) != value_at.column
        {
            let problem = "found mapping with indentation inconsistent with previous mapping";
            return StrictYamlError::new(value_at, problem);
        }
        let value = construct(value, false)?;
        if !keys.insert(text.clone()) {
            return StrictYamlError::new(key.at, format!("duplicate key '{text}' found"));
        }
        map.0.push(StrictYamlEntry { key: text, key_at: key.at, value, value_at });
    }
    for entry in merged.into_iter().flatten().filter(|_| !top) {
        if keys.insert(entry.key.clone()) {
            map.0.push(entry);
        }
    }
    Ok(map)
}

/// Reads what `<<` names: a map, or a list of maps.
fn merge(at: ScanMark, value: StrictYamlNode) -> Result<Vec<StrictYamlEntry>, StrictYamlError> {
    let refused = "expected a mapping or list of mappings for merging";
    let maps = match value.content {
        NodeContent::Map(_) => vec![value],
        NodeContent::List(items) => items,
        NodeContent::Scalar { .. } => return StrictYamlError::new(at, refused),
    };
    let mut merged = Vec::new();
    for node in maps {
        let NodeContent::Map(entries) = node.content else {
            return StrictYamlError::new(node.at, refused);
        };
        merged.extend(map(node.at, entries, false)?.0);
    }
    Ok(merged)
}
