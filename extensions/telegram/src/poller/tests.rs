//! Tests of the service against a server that plays the Bot API.

use fake_bot_api::{ApiFault, FakeBotApi};
use skillhost_sdk::tokio::task::JoinHandle;

use super::*;
use crate::test_kernel::{TestKernel, TestTimer};

const TOKEN: &str = "123456:AAF-secret";

/// A running service.
struct RunningPoller {
    kernel: Arc<TestKernel>,
    timer: Arc<TestTimer>,
    state: Arc<BotState>,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl RunningPoller {
    fn start(api: &FakeBotApi, kernel: &Arc<TestKernel>, granted: usize) -> Self {
        let (timer, state) = (TestTimer::new(granted), Arc::new(BotState::default()));
        Self::start_with(api, kernel, timer, state)
    }

    fn start_with(
        api: &FakeBotApi,
        kernel: &Arc<TestKernel>,
        timer: Arc<TestTimer>,
        state: Arc<BotState>,
    ) -> Self {
        let poller = UpdatePoller {
            kernel: Arc::<TestKernel>::clone(kernel),
            client: Arc::new(BotClient::new(&api.url()).unwrap()),
            state: Arc::clone(&state),
            timer: Arc::<TestTimer>::clone(&timer),
            poll: Duration::from_secs(50),
            shows_typing: true,
        };
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let task = tokio::spawn(async move { poller.run(&stop).await });
        Self { kernel: Arc::clone(kernel), timer, state, cancel, task }
    }

    async fn wait_for_messages(&self, count: usize) {
        self.kernel.wait_until(|state| state.messages.len() >= count).await;
    }

    async fn wait_for_offset(&self, offset: i64) {
        let expected = format!("123456:{offset}:1700000000");
        self.kernel.wait_until(|state| state.cursor.as_deref() == Some(&expected)).await;
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap();
    }
}

/// Waits on a thread of its own, since the waits of the server block.
async fn wait_for_calls(api: &Arc<FakeBotApi>, method: &'static str, count: usize) -> Vec<Value> {
    let api = Arc::clone(api);
    let calls = tokio::task::spawn_blocking(move || api.wait_for_calls(method, count)).await;
    calls.unwrap().into_iter().map(|call| call.body).collect()
}

fn api() -> Arc<FakeBotApi> {
    Arc::new(FakeBotApi::new(TOKEN))
}

fn status(code: u16, text: &str) -> ApiFault {
    ApiFault::Status(code, text.to_owned())
}

#[tokio::test]
async fn messages_reach_kernel_in_order() {
    let api = api();
    let kernel = TestKernel::with_token(TOKEN);
    for number in 0..250 {
        api.push_message(1001, number, &format!("message {number}"));
    }
    let running = RunningPoller::start(&api, &kernel, 0);
    running.wait_for_offset(251).await;
    let texts: Vec<_> = kernel.lock().messages.iter().map(|m| m.text.clone()).collect();
    let expected: Vec<_> = (0..250).map(|number| format!("message {number}")).collect();
    assert_eq!(texts, expected);
    let polls = wait_for_calls(&api, "getUpdates", 4).await;
    assert_eq!(polls[0], json!({"limit": 100, "timeout": 50, "allowed_updates": UPDATE_KINDS}));
    assert_eq!(polls[3]["offset"], 251);
    let typing = api.calls("sendChatAction");
    assert_eq!(typing[0].body, json!({"chat_id": 1001, "action": "typing"}));
    assert_eq!(running.state.check_health().map_err(|error| error.message().to_owned()), Ok(()));
    running.stop().await;
    assert_eq!(api.unconfirmed(), 0);
}

#[tokio::test]
async fn offset_stays_until_kernel_stored() {
    let api = api();
    let kernel = TestKernel::with_token(TOKEN);
    // The second message of the batch fails twice.
    kernel.lock().failures =
        vec![None, Some(ErrorKind::Io), None, Some(ErrorKind::Panicked), None, None];
    for number in 0..3 {
        api.push_message(1001, number, "text");
    }
    let running = RunningPoller::start(&api, &kernel, 0);
    assert_eq!(running.timer.wait_for_pauses(1).await, [1]);
    assert_eq!((api.unconfirmed(), kernel.lock().cursor.clone()), (3, None));
    let error = running.state.check_health().unwrap_err();
    assert_eq!(error.message(), "the kernel cannot store messages: failed on purpose");
    running.timer.grant(1);
    assert_eq!(running.timer.wait_for_pauses(2).await, [1, 2]);
    assert_eq!((api.unconfirmed(), kernel.lock().cursor.clone()), (3, None));
    running.timer.grant(1);
    running.wait_for_offset(4).await;
    {
        let state = kernel.lock();
        assert_eq!((state.messages.len(), state.duplicates), (3, 2));
    }
    running.stop().await;
}

#[tokio::test]
async fn position_survives_restart() {
    let api = api();
    let kernel = TestKernel::with_token(TOKEN);
    api.push_message(1001, 1, "first");
    let running = RunningPoller::start(&api, &kernel, 0);
    running.wait_for_offset(2).await;
    running.stop().await;
    api.push_message(1001, 2, "second");
    let before = api.calls("getUpdates").len();
    let running = RunningPoller::start(&api, &kernel, 0);
    running.wait_for_offset(3).await;
    assert_eq!(api.calls("getUpdates")[before].body["offset"], 2);
    {
        let state = kernel.lock();
        assert_eq!((state.messages.len(), state.duplicates), (2, 0));
    }
    running.stop().await;
}

#[tokio::test]
async fn foreign_and_old_positions_are_unused() {
    let old = 1_700_000_000 - CURSOR_LIFETIME;
    for cursor in ["99:500:1700000000", &format!("123456:500:{old}"), "500", "123456:x:1", ""] {
        let api = api();
        let kernel = TestKernel::with_token(TOKEN);
        kernel.lock().cursor = Some(cursor.to_owned());
        let running = RunningPoller::start(&api, &kernel, 0);
        let polls = wait_for_calls(&api, "getUpdates", 1).await;
        assert!(polls[0]["offset"].is_null(), "{cursor}: {polls:?}");
        running.stop().await;
    }
}

#[tokio::test]
async fn running_service_drops_old_position() {
    let api = api();
    let kernel = TestKernel::with_token(TOKEN);
    kernel.lock().cursor = Some("123456:5:1700000000".to_owned());
    let timer = TestTimer::new(0);
    let clock = Arc::clone(&timer);
    let mut polls = 0;
    api.fail_by(move |method| {
        polls += usize::from(method == "getUpdates");
        // The first poll ends without updates, a week later.
        (method == "getUpdates" && polls == 1).then(|| {
            clock.set_time(1_700_000_000 + CURSOR_LIFETIME);
            ApiFault::Body(r#"{"ok":true,"result":[]}"#.to_owned())
        })
    });
    let running = RunningPoller::start_with(&api, &kernel, timer, Arc::default());
    let polls = wait_for_calls(&api, "getUpdates", 2).await;
    assert_eq!((&polls[0]["offset"], &polls[1]["offset"]), (&json!(5), &Value::Null));
    running.stop().await;
}

#[tokio::test]
async fn unreadable_update_costs_no_other() {
    let api = api();
    let kernel = TestKernel::with_token(TOKEN);
    api.push_message(1001, 1, "before");
    for text in [
        r#"{"update_id": 2, "message": "text"}"#,
        r#"{"no number": true}"#,
        r#"{"update_id": 4, "unknown": {"a": [1]}}"#,
        &format!(r#"{{"update_id": 5, "message": {}{}}}"#, "[".repeat(500), "]".repeat(500)),
    ] {
        api.push_raw_update(text);
    }
    let long = "x".repeat(4 << 20);
    api.push_message(1001, 2, &long);
    api.push_message(1001, 3, "after");
    kernel.lock().failures = vec![None, Some(ErrorKind::TooLarge), None];
    let running = RunningPoller::start(&api, &kernel, 0);
    running.wait_for_offset(8).await;
    let texts: Vec<_> = kernel.lock().messages.iter().map(|m| m.text.clone()).collect();
    assert_eq!(texts, ["before", "after"]);
    running.stop().await;
}

#[tokio::test]
async fn updates_without_number_cause_pauses() {
    let api = api();
    let kernel = TestKernel::with_token(TOKEN);
    api.push_raw_update(r#"{"message": {}}"#);
    let running = RunningPoller::start(&api, &kernel, 3);
    assert_eq!(running.timer.wait_for_pauses(4).await, [1, 2, 4, 8]);
    running.stop().await;
}

#[tokio::test]
async fn failures_of_platform_cause_pauses() {
    let api = api();
    let kernel = TestKernel::with_token(TOKEN);
    api.push_message(1001, 1, "text");
    for fault in [
        ApiFault::Throttle(33),
        status(502, "Bad Gateway"),
        ApiFault::CutBefore,
        ApiFault::CutAfter,
        ApiFault::Body("<html>".to_owned()),
        ApiFault::Body(r#"{"ok":true,"result":{"a":1}}"#.to_owned()),
    ] {
        api.fail_next("getUpdates", fault);
    }
    let running = RunningPoller::start(&api, &kernel, 6);
    running.wait_for_offset(2).await;
    assert_eq!(running.timer.wait_for_pauses(6).await, [33, 1, 2, 4, 8, 16]);
    assert_eq!(kernel.lock().messages.len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn revoked_token_stops_polls() {
    let api = api();
    let kernel = TestKernel::with_token(TOKEN);
    let running = RunningPoller::start(&api, &kernel, 0);
    wait_for_calls(&api, "getUpdates", 1).await;
    api.set_token(None);
    assert_eq!(running.timer.wait_for_pauses(1).await, [5]);
    let error = running.state.check_health().unwrap_err();
    assert_eq!(error.message(), "Telegram refuses the token of the bot (status 401)");
    assert_eq!(error.hint(), "set TELEGRAM_BOT_TOKEN to a valid token of @BotFather");
    // Each pause is in parts of 15 seconds, between which the token is read again.
    running.timer.grant(9);
    assert_eq!(running.timer.wait_for_pauses(10).await, [5, 10, 15, 5, 15, 15, 10, 15, 15, 15]);
    assert_eq!(api.calls("getMe").len(), 5);
    api.set_token(Some("123456:renewed"));
    kernel.lock().token = Some("123456:renewed".to_owned());
    api.push_message(1001, 1, "text");
    running.timer.grant(1);
    running.wait_for_messages(1).await;
    running.stop().await;
}

#[tokio::test]
async fn unset_token_causes_no_request() {
    let api = api();
    let kernel = Arc::new(TestKernel::default());
    let running = RunningPoller::start(&api, &kernel, 2);
    assert_eq!(running.timer.wait_for_pauses(3).await, [15, 15, 15]);
    assert!(running.state.check_health().is_ok());
    kernel.lock().token = Some("not a token".to_owned());
    running.timer.grant(1);
    running.timer.wait_for_pauses(4).await;
    let error = running.state.check_health().unwrap_err();
    assert_eq!(error.message(), "`TELEGRAM_BOT_TOKEN` is not a token of a bot");
    assert!(api.calls("getMe").is_empty());
    kernel.lock().token = Some(TOKEN.to_owned());
    running.timer.grant(1);
    wait_for_calls(&api, "getUpdates", 1).await;
    assert_eq!(running.state.account(), "123456");
    running.stop().await;
}

#[tokio::test]
async fn replaced_token_is_used() {
    let api = api();
    let kernel = TestKernel::with_token(TOKEN);
    let running = RunningPoller::start(&api, &kernel, 0);
    wait_for_calls(&api, "getUpdates", 1).await;
    kernel.lock().token = Some("99:other".to_owned());
    // Ends the poll; the next round begins with the new token, which this server does not know.
    api.push_message(1001, 1, "text");
    running.timer.wait_for_pauses(1).await;
    assert_eq!(running.state.account(), "99");
    assert_eq!(kernel.lock().messages.len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn webhook_is_deleted_once() {
    let api = api();
    let kernel = TestKernel::with_token(TOKEN);
    api.set_webhook();
    api.push_message(1001, 1, "text");
    let running = RunningPoller::start(&api, &kernel, 0);
    running.wait_for_offset(2).await;
    assert_eq!(api.calls("deleteWebhook").len(), 1);
    // Another program sets it again: a conflict that an operator has to end.
    api.set_webhook();
    api.push_message(1001, 2, "text");
    running.timer.wait_for_pauses(1).await;
    assert_eq!(api.calls("deleteWebhook").len(), 1);
    let error = running.state.check_health().unwrap_err();
    let expected =
        "another program receives the messages of the bot: Conflict: can't use getUpdates";
    assert!(error.message().starts_with(expected), "{}", error.message());
    running.stop().await;
}

#[tokio::test]
async fn second_receiver_causes_pauses() {
    let api = api();
    let kernel = TestKernel::with_token(TOKEN);
    for _ in 0..3 {
        api.fail_next(
            "getUpdates",
            status(409, "Conflict: terminated by other getUpdates request"),
        );
    }
    let running = RunningPoller::start(&api, &kernel, 3);
    assert_eq!(running.timer.wait_for_pauses(3).await, [5, 10, 20]);
    running.stop().await;
}

#[tokio::test]
async fn idle_kernel_causes_no_request() {
    let api = api();
    let kernel = TestKernel::with_token(TOKEN);
    // Another process receives the messages.
    kernel.lock().cursor_failure = Some(ErrorKind::Unavailable);
    let running = RunningPoller::start(&api, &kernel, 4);
    assert_eq!(running.timer.wait_for_pauses(5).await, [5, 10, 20, 40, 60]);
    assert!(api.calls("getMe").is_empty());
    assert!(running.state.check_health().is_ok());
    kernel.lock().cursor_failure = None;
    running.timer.grant(1);
    wait_for_calls(&api, "getUpdates", 1).await;
    running.stop().await;
}

#[tokio::test]
async fn pressed_button_is_acknowledged() {
    let api = api();
    let kernel = TestKernel::with_token(TOKEN);
    let press = |data: &str| {
        json!({"callback_query": {"id": "q", "from": {"id": 1001, "first_name": "Ada"},
               "data": data, "message": {"message_id": 9, "chat": {"id": 1001, "type": "private"}}}})
    };
    api.push_update(&press("token_1"));
    let running = RunningPoller::start(&api, &kernel, 0);
    let mut answers = wait_for_calls(&api, "answerCallbackQuery", 1).await;
    kernel.lock().press_failure = Some(ErrorKind::Unavailable);
    api.push_update(&press("token_2"));
    api.push_update(&press("not a token"));
    answers.extend(wait_for_calls(&api, "answerCallbackQuery", 3).await.into_iter().skip(1));
    let texts: Vec<_> = answers.iter().map(|body| body["text"].as_str().unwrap()).collect();
    assert_eq!(
        texts,
        [
            "Approved.",
            "Nothing was decided: press the button again later.",
            "This button is not supported."
        ]
    );
    let presses: Vec<_> = kernel.lock().presses.iter().map(|one| one.token.clone()).collect();
    assert_eq!(presses, ["token_1"]);
    running.stop().await;
}

#[tokio::test]
async fn repeated_updates_are_stored_once() {
    let api = api();
    let kernel = TestKernel::with_token(TOKEN);
    let mut random = 1_u64;
    api.fail_by(move |method| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        match (method, random >> 60) {
            ("getUpdates", 0) => Some(ApiFault::CutAfter),
            ("getUpdates", 1) => Some(status(500, "Internal Server Error")),
            ("getUpdates", 2) => Some(ApiFault::Throttle(1)),
            _ => None,
        }
    });
    for number in 0..2000 {
        // Every fifth is one that came before, under a new number.
        let id = if number % 5 == 4 { number - 3 } else { number };
        api.push_message(1001, id, "text");
    }
    let running = RunningPoller::start(&api, &kernel, 10_000);
    running.wait_for_offset(2001).await;
    {
        let state = kernel.lock();
        assert_eq!(state.messages.len(), 1600);
        assert!(state.duplicates >= 400, "{}", state.duplicates);
    }
    running.stop().await;
}
