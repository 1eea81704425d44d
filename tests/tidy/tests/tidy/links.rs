//! The links between documents: files and headings exist, and the book has every page.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::{files, none, read, root};

/// The Markdown documents for people, relative to the root.
fn documents() -> Vec<PathBuf> {
    let is_document = |path: &PathBuf| {
        let in_folder = path.starts_with("docs") || path.parent() == Some(Path::new(""));
        in_folder && path.extension().is_some_and(|extension| extension == "md")
    };
    files().into_iter().filter(is_document).collect()
}

/// The targets of the links of a document, and the anchors of its headings.
fn links_and_anchors(text: &str) -> (Vec<String>, BTreeSet<String>) {
    let (mut links, mut anchors) = (Vec::new(), BTreeSet::new());
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                links.push(dest_url.into_string());
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                anchors.extend(heading.take().map(|text| anchor_of(&text)));
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
    (links, anchors)
}

/// The anchor of a heading, as hosts of repositories and mdBook derive it.
fn anchor_of(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A path without `.` and `..`; `None` if it leaves the repository.
fn normalize(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !normal.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(normal)
}

/// The error of a link, if there is one.
fn link_error(document: &Path, link: &str) -> Option<String> {
    if link.starts_with("https://") || link.starts_with("http://") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let error = |reason: &str| Some(format!("{}: {link}: {reason}", document.display()));
    let target = match path {
        "" => document.to_owned(),
        _ => match normalize(&document.parent().unwrap().join(path)) {
            Some(target) => target,
            None => return error("leaves the repository"),
        },
    };
    if !root().join(&target).exists() {
        return error("no such file");
    }
    // The book has only the pages in `docs`.
    if document.starts_with("docs") && !target.starts_with("docs") {
        return error("a page of the book refers to a file outside of it");
    }
    if !anchor.is_empty() && !links_and_anchors(&read(&target)).1.contains(anchor) {
        return error("no such heading");
    }
    None
}

#[test]
fn links_have_targets() {
    let mut count = 0;
    let mut errors = Vec::new();
    for document in documents() {
        let links = links_and_anchors(&read(&document)).0;
        count += links.len();
        errors.extend(links.iter().filter_map(|link| link_error(&document, link)));
    }
    assert!(count > 100, "only {count} links were found");
    none("links without a target", &errors);
}

#[test]
fn links_of_book_include_every_page() {
    let summary = Path::new("docs/SUMMARY.md");
    let links = links_and_anchors(&read(summary)).0;
    let listed: BTreeSet<_> = links.iter().map(|link| Path::new("docs").join(link)).collect();
    let pages = documents().into_iter().filter(|path| path.starts_with("docs") && path != summary);
    let missing: Vec<_> = pages
        .filter(|page| !listed.contains(page))
        .map(|page| page.display().to_string())
        .collect();
    none("pages that the summary of the book lacks", &missing);
}

#[test]
fn pages_show_every_picture() {
    let shown: BTreeSet<_> = documents()
        .iter()
        .flat_map(|path| {
            let links = links_and_anchors(&read(path)).0;
            let folder = path.parent().unwrap().to_owned();
            links.into_iter().filter_map(move |link| normalize(&folder.join(link)))
        })
        .collect();
    let pictures = files().into_iter().filter(|path| path.starts_with("docs/images"));
    let missing: Vec<_> = pictures
        .filter(|picture| !shown.contains(picture))
        .map(|picture| picture.display().to_string())
        .collect();
    none("pictures that no page shows", &missing);
}

#[test]
fn links_with_mistakes_are_found() {
    let document = Path::new("docs/models.md");
    for (link, expected) in [
        ("missing.md", "no such file"),
        ("models.md#no-such-heading", "no such heading"),
        ("../README.md", "outside of it"),
        ("../../etc/passwd", "leaves the repository"),
    ] {
        let error = link_error(document, link).unwrap();
        assert!(error.ends_with(expected), "{error}");
    }
    assert_eq!(link_error(document, "models.md#settings"), None);
}
