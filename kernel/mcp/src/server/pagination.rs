//! Pages of lists. A cursor names the entry before the page, so that a change of the list between
//! two requests neither repeats nor skips the remaining entries.

use rmcp::model::{ErrorData, PaginatedRequestParams};

/// The prefix of cursors; it marks them as opaque values that clients must not construct.
const PREFIX: &str = "after:";

/// Returns one page of a list that is sorted by `key`, and the cursor of the next.
///
/// # Errors
/// An invalid-parameter error for a cursor without the prefix.
pub(super) fn paginate<'l, T>(
    list: &'l [T],
    key: impl Fn(&T) -> &str,
    request: Option<&PaginatedRequestParams>,
    size: usize,
) -> Result<(&'l [T], Option<String>), ErrorData> {
    let start = match request.and_then(|request| request.cursor.as_deref()) {
        None => 0,
        Some(cursor) => {
            let after = cursor
                .strip_prefix(PREFIX)
                .ok_or_else(|| ErrorData::invalid_params("cursor is not valid", None))?;
            // The entry itself may have been removed; its successors are found all the same.
            list.partition_point(|entry| key(entry) <= after)
        }
    };
    let rest = &list[start..];
    let page = &rest[..rest.len().min(size)];
    let next = (rest.len() > size).then_some(()).and(page.last());
    Ok((page, next.map(|last| format!("{PREFIX}{}", key(last)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(list: &[&str], cursor: Option<&str>) -> (Vec<String>, Option<String>) {
        let request = PaginatedRequestParams::default().with_cursor(cursor.map(str::to_owned));
        let (page, next) = paginate(list, |entry| entry, Some(&request), 2).unwrap();
        (page.iter().map(|&entry| entry.to_owned()).collect(), next)
    }

    #[test]
    fn pages_follow_changing_list() {
        let list = ["a", "b", "c", "d"];
        let of = |entries: &[&str]| entries.iter().map(|&e| e.to_owned()).collect::<Vec<_>>();
        assert_eq!(pages(&list, None), (of(&["a", "b"]), Some("after:b".to_owned())));
        assert_eq!(pages(&list, Some("after:b")), (of(&["c", "d"]), None));
        assert_eq!(pages(&["a", "c", "d", "e"], Some("after:b")).0, of(&["c", "d"]));
        assert_eq!(pages(&list, Some("after:z")), (of(&[]), None));
        assert_eq!(pages(&[], None), (of(&[]), None));
    }

    #[test]
    fn foreign_cursor_is_rejected() {
        let request = PaginatedRequestParams::default().with_cursor(Some("2".to_owned()));
        let error = paginate(&["a"], |entry| entry, Some(&request), 2).unwrap_err();
        assert_eq!(error.message, "cursor is not valid");
    }
}
