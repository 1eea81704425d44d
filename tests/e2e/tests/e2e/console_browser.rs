//! The web console in Chromium: the policy, the script, and the keyboard.

use mock_model::{MockModel, Step};

use crate::agents_scene::{agents_home, ask_agent, last_thread};
use crate::browser::{Browser, log_in};
use crate::console_client::hostile_texts;
use crate::fixtures::start_kernel;

#[test]
fn reply_appears_while_written() {
    let Some(browser) = Browser::start(true) else { return };
    let mock = MockModel::with([Step::text("Hello."), Step::text("One two three.").held_midway()]);
    let home = agents_home(&mock);
    let _kernel = start_kernel(&home);
    ask_agent(&home, "worker", "Hi").success();
    let thread = last_thread(&home);
    let origin = log_in(&browser, &home);
    browser.open(&format!("{origin}/threads/{thread}"));
    browser.write("#text", "Count");
    // Ctrl and Enter, then release.
    browser.press("\u{e009}\u{e007}\u{e000}");
    browser.wait_until("return document.querySelector('#live pre')?.textContent.length > 2");
    browser.wait_until("return document.querySelector('.working') !== null");
    assert_eq!(browser.evaluate("return document.querySelector('#text').value"), "");
    mock.release();
    browser.wait_until(
        "return document.querySelector('#conversation').textContent.includes('One two three.') && \
         document.querySelector('#live').childElementCount === 0",
    );
    assert_eq!(browser.console_messages(), Vec::<String>::new());
}

#[test]
fn hostile_texts_do_nothing() {
    let Some(browser) = Browser::start(true) else { return };
    let mock = MockModel::new();
    let home = agents_home(&mock);
    let _kernel = start_kernel(&home);
    let origin = log_in(&browser, &home);
    let _ = (browser.console_messages(), browser.requested_urls());
    for group in hostile_texts().chunks(100) {
        let text = group.join("\n\n");
        let call = serde_json::json!({ "text": text }).to_string();
        mock.push(Step::text(&text).call("echo", &call));
        mock.push(Step::text(&text));
        ask_agent(&home, "worker", &text).success();
        let thread = last_thread(&home);
        browser.open(&format!("{origin}/threads/{thread}"));
        // Also through the script: the reply is streamed into the page.
        mock.push(Step::text(&text));
        browser.write("#text", "Again");
        browser.click("#composer button");
        browser.wait_until(
            "return document.querySelectorAll('.message.assistant').length >= 3 && \
             document.querySelector('#live').childElementCount === 0",
        );
        let count = browser.evaluate(
            "return document.querySelectorAll('main script, main img, main iframe, main style, \
             main object, main video, main embed, main base, main math, main template, \
             main link, main meta, [onerror], [onload], [style], a[href^=\"javascript:\" i]').length",
        );
        assert_eq!(count, 0);
    }
    for path in ["/threads", "/events", "/inbox", "/"] {
        browser.open(&format!("{origin}{path}"));
    }
    assert!(!browser.has_dialog());
    assert_eq!(browser.console_messages(), Vec::<String>::new());
    let foreign: Vec<_> =
        browser.requested_urls().into_iter().filter(|url| !url.starts_with(&origin)).collect();
    assert_eq!(foreign, Vec::<String>::new());
}

#[test]
fn keyboard_reaches_every_control() {
    let Some(browser) = Browser::start(true) else { return };
    let mock = MockModel::new();
    let home = agents_home(&mock);
    let _kernel = start_kernel(&home);
    let origin = log_in(&browser, &home);
    for path in
        ["/", "/inbox", "/threads", "/tasks", "/skills", "/extensions", "/channels", "/settings"]
    {
        browser.open(&format!("{origin}{path}"));
        let expected = browser.evaluate(
            "return [...document.querySelectorAll('a, button, input:not([type=hidden]), select, \
             textarea, summary')].filter((it) => it.checkVisibility() && !it.disabled).length",
        );
        let mut reached = 0;
        browser.evaluate("window.seen = new Set(); document.activeElement?.blur();");
        for _ in 0..expected.as_u64().unwrap() + 20 {
            browser.press("\u{e004}");
            reached = browser
                .evaluate(
                    "const it = document.activeElement; \
                     if (it.matches('a, button, input, select, textarea, summary')) seen.add(it); \
                     return seen.size",
                )
                .as_u64()
                .unwrap();
            if reached >= expected.as_u64().unwrap() {
                break;
            }
        }
        assert_eq!(reached, expected.as_u64().unwrap(), "{path}");
    }
}

#[test]
fn pages_fit_narrow_screens() {
    let Some(browser) = Browser::start(false) else { return };
    let mock =
        MockModel::with([Step::text("Done.").call("echo", r#"{"text":"x"}"#), Step::text("x")]);
    let home = agents_home(&mock);
    let _kernel = start_kernel(&home);
    ask_agent(&home, "worker", &"long".repeat(100)).success();
    let thread = last_thread(&home);
    // Without JavaScript in the page: the driver evaluates apart from it.
    let origin = log_in(&browser, &home);
    let path = format!("/threads/{thread}");
    for path in [
        "/",
        "/inbox",
        &path,
        "/tasks",
        "/skills",
        "/events",
        "/extensions",
        "/channels",
        "/settings",
    ] {
        browser.set_width(390);
        browser.open(&format!("{origin}{path}"));
        let overflow = "return document.documentElement.scrollWidth - innerWidth";
        assert!(browser.evaluate(overflow).as_i64().unwrap() <= 0, "{path}");
    }
    assert!(browser.url().starts_with(&origin));
}
