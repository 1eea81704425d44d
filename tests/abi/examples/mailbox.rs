//! A channel over two directories: people write files into `inbox`, and what is sent to them is a
//! line of `outbox.jsonl` in the home.
//!
//! A file of the inbox is a message, or a press of a button; its name orders it. The position is the
//! name of the last file. Files in the home change what the platform does: `throttle` with a number of
//! milliseconds, `down`, `gone`.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{
    ChannelInfo, ChannelPeer, InboundOutcome, IncomingMessage, OutgoingMessage, PressedButton,
    SendOutcome, serde_json, tokio,
};

/// A file of the inbox.
#[derive(Deserialize)]
#[serde(crate = "serde", untagged)]
enum InboxFile {
    Message(IncomingMessage),
    Button(PressedButton),
}

/// The configuration.
#[derive(Deserialize)]
#[serde(crate = "serde", default)]
struct MailboxConfig {
    text_limit: usize,
    has_buttons: bool,
    can_edit: bool,
}

impl Default for MailboxConfig {
    fn default() -> Self {
        Self { text_limit: 400, has_buttons: true, can_edit: true }
    }
}

struct Mailbox {
    cx: ExtensionContext,
    config: MailboxConfig,
    home: PathBuf,
}

#[async_trait]
impl Extension for Mailbox {
    fn new(cx: ExtensionContext) -> Result<Self> {
        let config: MailboxConfig = cx.config()?;
        let home = cx.home().to_owned();
        Ok(Self { cx, config, home })
    }
}

#[async_trait]
impl ChannelProvider for Mailbox {
    fn info(&self) -> ChannelInfo {
        ChannelInfo {
            account: "mailbox".to_owned(),
            text_limit: self.config.text_limit,
            format: "plain text without markup".to_owned(),
            has_buttons: self.config.has_buttons,
            can_edit: self.config.can_edit,
        }
    }

    async fn send(&self, message: &OutgoingMessage) -> Result<SendOutcome> {
        if self.home.join("down").exists() {
            return Err(ExtensionError::new(ErrorKind::Unavailable, "the platform is down"));
        }
        if self.home.join("gone").exists() {
            return Ok(SendOutcome::Rejected { reason: "chat not found".to_owned() });
        }
        if let Ok(wait) = std::fs::read_to_string(self.home.join("throttle")) {
            // Once: the next attempt is accepted.
            std::fs::remove_file(self.home.join("throttle"))?;
            let retry_after_ms = wait.trim().parse().unwrap_or(1);
            return Ok(SendOutcome::Throttled { retry_after_ms });
        }
        let path = self.home.join("outbox.jsonl");
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        // The id is the key, as of a platform that remembers keys.
        writeln!(file, "{}", serde_json::to_string(message).map_err(|error| to_error(&error))?)?;
        Ok(SendOutcome::Sent { message_id: Some(message.key.clone()) })
    }

    async fn hint(&self, peer: &ChannelPeer) -> Result<Option<String>> {
        Ok(Some(format!("{} likes short replies", peer.name)))
    }
}

#[async_trait]
impl ServiceProvider for Mailbox {
    async fn run_background(&self, cancel: CancellationToken) -> Result<()> {
        while !cancel.is_cancelled() {
            match self.receive_files().await {
                // Another kernel of the home receives the messages.
                Err(error) if error.kind() == ErrorKind::Unavailable => {}
                Err(error) => tracing::warn!(%error, "inbox is read again"),
                Ok(()) => {}
            }
            tokio::select! {
                () = cancel.cancelled() => {}
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
        }
        Ok(())
    }
}

impl Mailbox {
    /// Passes the files behind the position to the kernel, then moves the position.
    async fn receive_files(&self) -> Result<()> {
        let mut last = self.cx.load_channel_cursor().await?.unwrap_or_default();
        let Ok(entries) = std::fs::read_dir(self.home.join("inbox")) else { return Ok(()) };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> =
            names.filter(|name| name.ends_with(".json") && *name > last).collect();
        names.sort();
        for name in names {
            let text = std::fs::read_to_string(self.home.join("inbox").join(&name))?;
            let outcome = match serde_json::from_str(&text).map_err(|error| to_error(&error))? {
                InboxFile::Message(message) => match self.cx.receive_message(&message).await? {
                    InboundOutcome::Accepted => "accepted".to_owned(),
                    InboundOutcome::Duplicate => "duplicate".to_owned(),
                    InboundOutcome::Refused => "refused".to_owned(),
                    InboundOutcome::Throttled { .. } => "throttled".to_owned(),
                },
                InboxFile::Button(button) => self.cx.press_button(&button).await?.text,
            };
            let path = self.home.join("outcomes.txt");
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
            writeln!(file, "{name} {outcome}")?;
            self.cx.store_channel_cursor(&name).await?;
            last = name;
        }
        let _ = last;
        Ok(())
    }
}

fn to_error(error: &serde_json::Error) -> ExtensionError {
    ExtensionError::failed(error.to_string())
}

export_extension!(Mailbox: channel, service);
