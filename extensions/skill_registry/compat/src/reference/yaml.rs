//! Parser of a frontmatter that matches strictyaml: every value is text, and much of YAML is
//! rejected.

use super::scanner::{ScanMark, StrictYamlError, TokenKind, YamlScanner, YamlToken};

/// A value: text, a list or a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StrictYamlValue {
    Text(String),
    /// A plain `=` or `<<`, which the library converts to an object that is neither text nor JSON.
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

/// The maximum nesting of collections. The reference runs out of stack slightly beyond.
const MAX_DEPTH: usize = 240;

/// Parses the text between the fences, or returns `None` if it has no content.
pub(super) fn load_yaml(text: &str) -> Result<Option<StrictYamlValue>, StrictYamlError> {
    let mut parser = StrictYamlParser { scanner: YamlScanner::new(text)?, depth: 0 };
    parser.parse_document()?.map(|node| construct_value(node, true)).transpose()
}

/// A node of the parser, before its value is constructed.
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
    fn parse_document(&mut self) -> Result<Option<StrictYamlNode>, StrictYamlError> {
        let mut start = self.scanner.take_token()?;
        self.scanner.move_comments(&mut start)?;
        if self.scanner.check_token(&[TokenKind::StreamEnd])? {
            return Ok(None);
        }
        let node = self.parse_node(false)?;
        if self.scanner.check_token(&[TokenKind::DocumentEnd])? {
            self.scanner.take_token()?;
        }
        if self.scanner.check_token(&[TokenKind::StreamEnd])? {
            return Ok(Some(node));
        }
        let found = self.scanner.peek()?;
        StrictYamlError::new(found.at, "expected a single document, but found another one")
    }

    fn parse_node(&mut self, or_indentless: bool) -> Result<StrictYamlNode, StrictYamlError> {
        // The library checks for aliases, anchors and tags here. The scanner has rejected them, but
        // each check attaches comments.
        for _ in 0..3 {
            self.scanner.check_token(&[])?;
        }
        let at = self.scanner.peek()?.at;
        if self.depth == MAX_DEPTH {
            return StrictYamlError::crash(at, "collections lie too deep in each other");
        }
        self.depth += 1;
        let content = self.parse_content(or_indentless)?;
        self.depth -= 1;
        Ok(StrictYamlNode { at, content })
    }

    fn parse_content(&mut self, or_indentless: bool) -> Result<NodeContent, StrictYamlError> {
        if or_indentless && self.scanner.check_token(&[TokenKind::Entry])? {
            if let Some(comments) = &mut self.scanner.peek()?.comments {
                // The library drops a comment in this position.
                comments.post = false;
            }
            return self.parse_entries(&[
                TokenKind::Entry,
                TokenKind::Key,
                TokenKind::Value,
                TokenKind::BlockEnd,
            ]);
        }
        if self.scanner.check_token(&[TokenKind::Scalar])? {
            let YamlToken { text, plain, .. } = self.scanner.take_token()?;
            return Ok(NodeContent::Scalar { text, plain });
        }
        // The library checks for both kinds of flow style here; see above.
        for _ in 0..2 {
            self.scanner.check_token(&[])?;
        }
        if self.scanner.check_token(&[TokenKind::SequenceStart])? {
            self.scanner.take_token()?;
            let list = self.parse_entries(&[TokenKind::Entry, TokenKind::BlockEnd])?;
            self.expect_block_end()?;
            return Ok(list);
        }
        if self.scanner.check_token(&[TokenKind::MappingStart])? {
            self.scanner.take_token()?;
            return self.parse_mapping();
        }
        StrictYamlError::new(self.scanner.peek()?.at, "expected a value here")
    }

    fn expect_block_end(&mut self) -> Result<YamlToken, StrictYamlError> {
        if self.scanner.check_token(&[TokenKind::BlockEnd])? {
            return self.scanner.take_token();
        }
        let found = self.scanner.peek()?;
        StrictYamlError::new(found.at, "the indentation does not match the surrounding lines")
    }

    /// Parses `- …` entries; an entry followed by one of `enders` is empty.
    fn parse_entries(&mut self, enders: &[TokenKind]) -> Result<NodeContent, StrictYamlError> {
        let mut list = Vec::new();
        while self.scanner.check_token(&[TokenKind::Entry])? {
            let mut dash = self.scanner.take_token()?;
            self.scanner.move_comments(&mut dash)?;
            list.push(match self.scanner.check_token(enders)? {
                true => StrictYamlNode::empty(dash.at),
                false => self.parse_node(false)?,
            });
        }
        Ok(NodeContent::List(list))
    }

    fn parse_mapping(&mut self) -> Result<NodeContent, StrictYamlError> {
        let mut entries = Vec::new();
        loop {
            let key = if self.scanner.check_token(&[TokenKind::Key])? {
                let mut mark = self.scanner.take_token()?;
                self.scanner.move_comments(&mut mark)?;
                match self.scanner.check_token(&[
                    TokenKind::Key,
                    TokenKind::Value,
                    TokenKind::BlockEnd,
                ])? {
                    true => StrictYamlNode::empty(mark.at),
                    false => self.parse_node(true)?,
                }
            } else if self.scanner.check_token(&[TokenKind::Value])? {
                StrictYamlNode::empty(self.scanner.peek()?.at)
            } else {
                let mut end = self.expect_block_end()?;
                self.scanner.move_comments(&mut end)?;
                return Ok(NodeContent::Map(entries));
            };
            let value = self.parse_mapping_value()?;
            entries.push((key, value));
        }
    }

    fn parse_mapping_value(&mut self) -> Result<StrictYamlNode, StrictYamlError> {
        if !self.scanner.check_token(&[TokenKind::Value])? {
            return Ok(StrictYamlNode::empty(self.scanner.peek()?.at));
        }
        let mut colon = self.scanner.take_token()?;
        // The calls match those of the library, because each one attaches comments.
        if self.scanner.check_token(&[TokenKind::Value])?
            || !self.scanner.check_token(&[TokenKind::Key])?
        {
            self.scanner.move_comments(&mut colon)?;
        }
        if !self.scanner.check_token(&[TokenKind::Key, TokenKind::Value, TokenKind::BlockEnd])? {
            return self.parse_node(true);
        }
        if colon.comments.is_none()
            && let Some(comments) = &mut self.scanner.peek()?.comments
        {
            comments.post = false;
        }
        Ok(StrictYamlNode::empty(colon.at))
    }
}

/// Constructs values from nodes. At the top level, entries merged by `<<` are checked and then
/// lost: the library merges them before the map is filled.
fn construct_value(node: StrictYamlNode, top: bool) -> Result<StrictYamlValue, StrictYamlError> {
    Ok(match node.content {
        NodeContent::Scalar { text, plain: true } if matches!(text.as_str(), "=" | "<<") => {
            StrictYamlValue::Odd(text)
        }
        NodeContent::Scalar { text, .. } => StrictYamlValue::Text(text),
        NodeContent::List(items) => {
            let items = items.into_iter().map(|item| construct_value(item, false));
            StrictYamlValue::List(items.collect::<Result<_, _>>()?)
        }
        NodeContent::Map(entries) => StrictYamlValue::Map(construct_map(node.at, entries, top)?),
    })
}

fn construct_map(
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
            merged = Some(read_merged_entries(at, value)?);
            continue;
        }
        let NodeContent::Scalar { text, .. } = key.content else {
            return StrictYamlError::new(key.at, "a list or a map cannot be a key");
        };
        let value_at = value.at;
        if matches!(value.content, NodeContent::Map(_))
            // strictyaml requires all nested maps of one map to start in the same column.
            && *indentation.get_or_insert(value_at.column) != value_at.column
        {
            let problem = "found mapping with indentation inconsistent with previous mapping";
            return StrictYamlError::new(value_at, problem);
        }
        let value = construct_value(value, false)?;
        // Checked after the value, because the library reports errors in this order.
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

/// Constructs the entries merged by `<<`: a map, or a list of maps.
fn read_merged_entries(
    at: ScanMark,
    value: StrictYamlNode,
) -> Result<Vec<StrictYamlEntry>, StrictYamlError> {
    let problem = "expected a mapping or list of mappings for merging";
    let maps = match value.content {
        NodeContent::Map(_) => vec![value],
        NodeContent::List(items) => items,
        NodeContent::Scalar { .. } => return StrictYamlError::new(at, problem),
    };
    let mut merged = Vec::new();
    for node in maps {
        let NodeContent::Map(entries) = node.content else {
            return StrictYamlError::new(node.at, problem);
        };
        merged.extend(construct_map(node.at, entries, false)?.0);
    }
    Ok(merged)
}
