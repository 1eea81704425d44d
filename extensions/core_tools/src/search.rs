//! `search_text`.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use cap_fs_ext::MetadataExt as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use skillhost_files::jail;
use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{ExtensionError, json};

use crate::path::DirectoryPath;
use crate::printable::{display_safe, truncate};
use crate::result::ToolResult;
use crate::roots::FileRoots;
use crate::walk::{WalkControl, WalkFilter, WalkReport, WalkedFile, walk_files};

/// The default and the maximum of the number of listed matches.
const MATCHES: usize = 100;
const MAX_MATCHES: usize = 1_000;

/// The maximum bytes of lines in one result.
const MAX_BYTES: usize = 48 << 10;

/// The maximum bytes of a line that are shown.
const MAX_LINE: usize = 400;

/// The maximum number of lines around a match.
const MAX_CONTEXT: usize = 10;

/// The largest file that is searched, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// The most memory for one line of a file, in bytes.
const MAX_HEAP: usize = 16 << 20;

/// The arguments of `search_text`.
#[derive(Debug, Default, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields, default)]
pub struct SearchArgs {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    literal: bool,
    ignore_case: bool,
    context: usize,
    limit: Option<usize>,
    files_only: bool,
    all: bool,
}

/// A line of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FoundLine {
    number: u64,
    text: String,
    is_match: bool,
}

/// The matches of one file.
#[derive(Debug, Default)]
struct FileMatches {
    lines: Vec<FoundLine>,
    /// The number of lines with a match, also of those that are not listed.
    count: u64,
}

/// The matches so far: those of the first paths in alphabetic order, up to the limit.
#[derive(Default)]
struct FoundMatches {
    files: BTreeMap<String, FileMatches>,
    listed: usize,
    total_files: usize,
    total: u64,
    searched: usize,
    skipped: usize,
}

/// Searches the text files below a directory.
///
/// # Errors
/// Those of the jail; `ErrorKind::InvalidArgument` for a malformed pattern or glob.
pub fn search_text(
    roots: &FileRoots,
    args: &SearchArgs,
    control: &WalkControl,
) -> Result<ToolResult, ExtensionError> {
    let path = DirectoryPath::new(args.path.as_deref())?;
    let filter = WalkFilter::new(args.glob.as_deref(), args.all)?;
    let matcher = new_matcher(args)?;
    let limit = args.limit.unwrap_or(MATCHES).clamp(1, MAX_MATCHES);
    let found = Mutex::new(FoundMatches::default());
    let report = walk_files(roots, &path, &filter, control, || {
        let (matcher, mut searcher) = (matcher.clone(), new_searcher(args));
        let found = &found;
        move |file: &WalkedFile<'_>| {
            let searched = search_file(&mut searcher, &matcher, file, limit, args.files_only);
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.add(file.path, searched, limit);
        }
    })?;
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(found.into_result(args, limit, report))
}

fn new_matcher(args: &SearchArgs) -> Result<RegexMatcher, ExtensionError> {
    let invalid = |message: String, hint: &str| {
        Err(ExtensionError::invalid_argument(message).with_hint(hint))
    };
    if args.pattern.is_empty() {
        return invalid("the pattern is empty".into(), "find_files lists files without a search");
    }
    let built = RegexMatcherBuilder::new()
        .multi_line(true)
        .line_terminator(Some(b'\n'))
        .case_insensitive(args.ignore_case)
        .fixed_strings(args.literal)
        .build(&args.pattern);
    built.or_else(|error| {
        let hint = "with literal: true the pattern is not a regular expression; a match lies \
                    within one line";
        invalid(format!("pattern: {error}"), hint)
    })
}

fn new_searcher(args: &SearchArgs) -> Searcher {
    let context = if args.files_only { 0 } else { args.context.min(MAX_CONTEXT) };
    SearcherBuilder::new()
        .line_number(true)
        .binary_detection(BinaryDetection::quit(0))
        .before_context(context)
        .after_context(context)
        .heap_limit(Some(MAX_HEAP))
        .build()
}

/// Searches one file; `None` for one that cannot be searched.
fn search_file(
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    file: &WalkedFile<'_>,
    limit: usize,
    files_only: bool,
) -> Option<FileMatches> {
    let (opened, metadata) = jail::open_regular(file.dir, file.name).ok()?;
    // A file may be mounted, too.
    if metadata.dev() != file.device || metadata.len() > MAX_FILE {
        return None;
    }
    let mut collector = MatchCollector {
        matches: FileMatches::default(),
        limit: if files_only { 0 } else { limit },
        is_binary: false,
    };
    searcher.search_reader(matcher, opened, &mut collector).ok()?;
    (!collector.is_binary).then_some(collector.matches)
}

/// A sink that keeps the first matches of a file and counts the others.
struct MatchCollector {
    matches: FileMatches,
    limit: usize,
    is_binary: bool,
}

impl MatchCollector {
    fn push(&mut self, number: Option<u64>, bytes: &[u8], is_match: bool) {
        if self.matches.count > self.limit as u64 {
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        let text = truncate(text.trim_end_matches(['\n', '\r']), MAX_LINE).into_owned();
        self.matches.lines.push(FoundLine { number: number.unwrap_or(0), text, is_match });
    }
}

impl Sink for MatchCollector {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.matches.count += 1;
        self.push(found.line_number(), found.bytes(), true);
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.push(found.line_number(), found.bytes(), false);
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> Result<(), io::Error> {
        self.is_binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

impl FoundMatches {
    fn add(&mut self, path: &str, searched: Option<FileMatches>, limit: usize) {
        let Some(file) = searched else {
            self.skipped += 1;
            return;
        };
        self.searched += 1;
        if file.count == 0 {
            return;
        }
        self.total += file.count;
        self.total_files += 1;
        // The files with the first paths are kept, whichever thread is faster.
        self.listed += listed_entries(&file);
        self.files.insert(path.to_owned(), file);
        while let Some(last) = self.files.last_entry() {
            let rest = self.listed - listed_entries(last.get());
            if rest < limit {
                break;
            }
            self.listed = rest;
            last.remove();
        }
    }

    fn into_result(self, args: &SearchArgs, limit: usize, report: WalkReport) -> ToolResult {
        let (mut text, mut values, mut listed) = (String::new(), Vec::new(), 0);
        let mut is_cut = self.files.len() < self.total_files;
        'files: for (path, file) in &self.files {
            if args.files_only {
                if text.len() > MAX_BYTES {
                    is_cut = true;
                    break;
                }
                text.push_str(&format!("{} ({})\n", display_safe(path), file.count));
                values.push(json!({"path": path, "matches": file.count}));
                continue;
            }
            let heading = format!("{}\n", display_safe(path));
            text.push_str(&heading);
            is_cut |= listed_entries(file) < usize::try_from(file.count).unwrap_or(usize::MAX);
            let mut previous = 0;
            for line in &file.lines {
                if listed == limit && line.is_match || text.len() > MAX_BYTES {
                    is_cut = true;
                    break 'files;
                }
                if args.context > 0 && previous > 0 && line.number > previous + 1 {
                    text.push_str("  --\n");
                }
                previous = line.number;
                let mark = if line.is_match { ':' } else { '-' };
                text.push_str(&format!("  {}{mark} {}\n", line.number, line.text));
                if line.is_match {
                    listed += 1;
                    values.push(json!({"path": path, "line": line.number, "text": line.text}));
                }
            }
        }
        let mut notes = vec![match (self.total, self.total_files) {
            (0, _) => "no matches".to_owned(),
            (1, _) => "1 match in 1 file".to_owned(),
            (total, 1) => format!("{total} matches in 1 file"),
            (total, files) => format!("{total} matches in {files} files"),
        }];
        notes.push(format!("{} files searched", self.searched));
        if self.skipped + report.unreadable > 0 {
            let skipped = self.skipped + report.unreadable;
            notes.push(format!("{skipped} not searched: binary, too large or not readable"));
        }
        if is_cut {
            notes.push("not all are listed; narrow the pattern, path or glob".to_owned());
        }
        if report.timed_out {
            notes.push("the time was over before all files were searched".to_owned());
        }
        text.push_str(&format!("[{}]", notes.join("; ")));
        let structured = json!({
            "matches": values,
            "total_matches": self.total,
            "total_files": self.total_files,
            "files_searched": self.searched,
            "files_skipped": self.skipped + report.unreadable,
            "complete": !is_cut && !report.timed_out,
        });
        ToolResult { text, structured }
    }
}

/// Returns the number of entries that a file adds to a list: its listed matches, or one for itself.
fn listed_entries(file: &FileMatches) -> usize {
    file.lines.iter().filter(|line| line.is_match).count().max(1)
}
