//! The fields of a query or a form.

/// The fields of a query or a form, in their order. Untrusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FormFields(Vec<(String, String)>);

impl FormFields {
    /// Parses the text of a query or the body of a form. Bytes that are not UTF-8 are replaced.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        Self(form_urlencoded::parse(bytes).into_owned().collect())
    }

    /// Returns the first value of a field, or an empty text.
    pub(crate) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(field, _)| field == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// Returns every value of a field that is not empty, such as those of checkboxes.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let found = self.0.iter().filter(|(field, value)| field == name && !value.is_empty());
        found.map(|(_, value)| value.clone()).collect()
    }

    /// Returns the first value of a field that is not empty.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        Some(self.get(name)).filter(|value| !value.is_empty())
    }

    /// Returns a text of several lines: browsers send its line breaks as `\r\n`.
    pub(crate) fn text(&self, name: &str) -> String {
        self.get(name).replace("\r\n", "\n")
    }
}

/// Builds a path with one segment of any text.
pub(crate) fn path_with(prefix: &str, segment: &str) -> String {
    let mut path = String::with_capacity(prefix.len() + segment.len());
    path.push_str(prefix);
    for byte in segment.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                path.push(char::from(byte));
            }
            // Dots as well, so that no segment is `..` after decoding.
            other => path.push_str(&format!("%{other:02X}")),
        }
    }
    path
}

/// Builds a path with a query.
pub(crate) fn path_with_query(path: &str, fields: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    match query.finish() {
        empty if empty.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded() {
        let fields = FormFields::parse(b"a=1&b=x%26y+z&a=2&c=&t=1%0D%0A2%ff");
        assert_eq!((fields.get("a"), fields.get("b"), fields.get("d")), ("1", "x&y z", ""));
        assert_eq!((fields.all("a").join("+").as_str(), fields.all("c").len()), ("1+2", 0));
        assert_eq!((fields.filled("c"), fields.text("t")), (None, "1\n2\u{fffd}".to_owned()));
    }

    #[test]
    fn segments_cannot_leave_their_path() {
        assert_eq!(
            path_with("/skills/", "a/../b?c#d\"é"),
            "/skills/a%2F%2E%2E%2Fb%3Fc%23d%22%C3%A9"
        );
        assert_eq!(
            path_with_query("/tasks", &[("state", "a b&"), ("kind", "")]),
            "/tasks?state=a+b%26"
        );
        assert_eq!(path_with_query("/tasks", &[("kind", "")]), "/tasks");
    }
}
