//! YAML as a tree of strings with positions; pure, no I/O.
//!
//! YAML gives values types that an author does not expect: `version: 1.10` becomes 1.1 and `on`
//! becomes true. Here a scalar is the text in the file, and every key and value has a position.
//!
//! - [`parse_strict`] rejects everything that is not plain YAML of limited size: aliases, anchors,
//!   tags, several documents.
//! - [`parse_recovering`] never fails: text that is not YAML is kept as text and reported.
//! - [`print_tree`] prints a tree so that it parses back to the same content.
//!
//! The input is untrusted. A budget bounds the work of each reader, and aliases are never expanded.
//!
//! ```
//! use yaml_tree::{NoticeKind, Value, parse_recovering, print_tree};
//!
//! let tree = parse_recovering("version: 1.10\nhint: use when: asked\n", 1, &[]);
//! assert!(matches!(tree.notices[0].kind, NoticeKind::BrokenField { .. }));
//! let Value::Mapping(root) = tree.root else { return };
//! assert_eq!(root.get("version").and_then(Value::as_str), Some("1.10"));
//! assert_eq!(print_tree(&root), "version: 1.10\nhint: \"use when: asked\"\n");
//! ```

mod build;
mod field_recovery;
mod fragment;
mod notice;
mod print;
mod read;
mod strict;
mod tree;

pub use build::{DEPTH_LIMIT, EVENT_LIMIT, NODE_LIMIT};
pub use field_recovery::fold_lines;
pub use notice::{MISSING_BLANK, Notice, NoticeKind, excerpt};
pub use print::print_tree;
pub use read::{RecoveredTree, parse_counted, parse_recovering};
pub use strict::{
    DuplicateKey, StrictError, StrictErrorKind, StrictLimits, StrictTree, parse_strict,
};
pub use tree::{Mapping, MappingEntry, Scalar, Sequence, Span, Value, YamlStyle, retain_first};
