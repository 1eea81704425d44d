use super::*;

fn page(html: &str) -> PageText {
    extract_text(html, &Url::parse("https://example.com/docs/page.html").unwrap())
}

fn text(html: &str) -> String {
    page(html).text
}

/// A paragraph that is long enough to be the content of a page.
fn paragraph() -> String {
    format!("<p>{}</p>", "The content of this page has many words. ".repeat(8))
}

#[test]
fn structure_becomes_markdown() {
    let html = "<!doctype html><html><head><title>A  page\n&amp; more</title><style>p{}</style></head>
        <body><h1>Head</h1><p>One <b>two</b>\n three&nbsp;four.<p>Next <a href='../a?b=1#c'> link </a>,
        <a href='#top'>top</a>, <a href='javascript:x()'>run</a> and <code>x = 1</code>.
        <ul><li>First<li>Second<ol><li>Inner</li><li>More</li></ol></li></ul>
        <pre>a\n  b\n</pre><table><tr><th>K<th>V</tr><tr><td>1<td>2</tr></table>
        <img src=x alt='A cat'><br>End<hr><script>if (a < b) { '<p>no</p>' }</script></body></html>";
    let expected = "# Head

One two three four.

Next [link](https://example.com/a?b=1#c) , top, run and `x = 1`.

- First
- Second
  1. Inner
  2. More

```
a
  b
```

K | V
1 | 2

[image: A cat]
End

---";
    let page = page(html);
    assert_eq!(page.title.as_deref(), Some("A page & more"));
    assert_eq!(page.text, expected);
    assert!(!page.is_cut);
}

#[test]
fn boilerplate_is_skipped() {
    let body = paragraph();
    let html = format!(
        "<nav><a href=/x>Menu</a></nav><header>Site</header>{body}<aside>Ads</aside>\
         <footer>Imprint<p>2026</footer>"
    );
    let shown = text(&html);
    assert!(shown.starts_with("Site\n\nThe content"), "{shown}");
    for word in ["Menu", "Ads", "Imprint", "2026"] {
        assert!(!shown.contains(word), "{word}: {shown}");
    }
    let html = format!("<div>Around</div><main>{body}</main><div>After</div>");
    let shown = text(&html);
    assert!(shown.starts_with("The content") && shown.ends_with("words."), "{shown}");
}

#[test]
fn page_of_navigation_is_shown() {
    let links: String = (0..20).map(|n| format!("<a href=/{n}>Page number {n}</a> ")).collect();
    assert!(
        text(&format!("<nav>{links}</nav>")).contains("[Page number 7](https://example.com/7)")
    );
    // An element that is never closed does not hide the page.
    let shown = text(&format!("<nav>Menu{}", paragraph()));
    assert!(shown.contains("The content"), "{shown}");
}

#[test]
fn invisible_text_is_dropped() {
    let html = "<p>a<span hidden>b</span><span style='display: NONE'>c</span>\
                <span aria-hidden=true>d</span>e<i style='visibility:hidden'>f</i>\u{200b}g\
                <p hidden>h<p>i<template>j</template><textarea>k</textarea>";
    assert_eq!(text(html), "aeg\n\ni");
    assert_eq!(page("<title>a\u{202e}\u{e0041}b</title>").title.as_deref(), Some("ab"));
    assert_eq!(text("<div hidden><p>x<div>y</div></div>z"), "z");
    assert_eq!(text("<div><span hidden>x</div>y"), "y");
}

#[test]
fn hostile_pages_are_bounded() {
    let deep = "<div>".repeat(200_000) + "end";
    assert_eq!(text(&deep), "end");
    let hidden = "<div hidden>".to_owned() + &"<b>x".repeat(100_000) + &"</i>".repeat(100_000);
    assert_eq!(text(&hidden), "");
    // Each short link would become a long one.
    let base = Url::parse(&format!("https://example.com/{}/", "a".repeat(400))).unwrap();
    let page = extract_text(&"<a href=b>c</a>".repeat(100_000), &base);
    assert!(page.is_cut && page.text.len() <= TEXT_LIMIT + LINK_LIMIT + 4, "{}", page.text.len());
    for html in
        ["<", "<a", "</", "<!--", "<a href=", "&#x110000;", "<title>", "<pre>", "<li>x</ul>"]
    {
        let _ = text(html);
    }
}

#[test]
fn fragment_becomes_one_line() {
    let line = extract_line("A <strong>b</strong> &amp;\n c &lt;d&gt; <script>");
    assert_eq!(line, "A b & c <d>");
}
