//! Channels: their people, codes that pair people, test messages and the newest deliveries.

use axum::http::StatusCode;
use maud::{Markup, html};
use skillhost_channels::{
    ChannelOperations, ChannelSummary, PairingCode, PeerRecord, loaded_channels,
    parse_delivery_error,
};
use skillhost_control::{AgentStatus, AgentSummary, ChannelRole, ControlRequest, LoadReport};
use skillhost_files::sha256_hex;
use skillhost_payload::CallError;
use skillhost_tasks::{Task, TaskFilter, TaskKind, TaskOutcome};

use crate::error::{ConsoleError, PageResult};
use crate::form_fields::path_with;
use crate::layout::{NavEntry, draw_badge, draw_empty, draw_facts};
use crate::pages::tasks::{draw_state, draw_title};
use crate::visible_text::{draw_age, draw_error_text, draw_text, draw_time, shorten};
use crate::visit::{Visit, redirect_to};

/// The number of the newest deliveries.
const MAX_DELIVERIES: usize = 20;
/// The number of a delivery's last lines that are searched for its error.
const MAX_LINES: u64 = 8;
/// The number of characters of an error in a list; its task has all of it.
const MAX_ERROR_CHARS: usize = 200;
/// The text of the test form.
const TEST_TEXT: &str = "This is a test message.";

/// The parts of the page.
struct ChannelPage {
    channels: Vec<ChannelSummary>,
    people: Vec<PeerRecord>,
    agents: Vec<AgentSummary>,
    /// The newest deliveries, with the error of their last attempt.
    deliveries: Vec<(Task, Option<String>)>,
    now_ms: u64,
}

/// Returns the operations on the channels of the running kernel.
fn channel_operations(visit: &Visit) -> ChannelOperations {
    let kernel = visit.kernel();
    // Those in force, which a change of the file may replace between two pages.
    let settings = kernel.extensions().settings().channels.clone();
    let loaded = loaded_channels(&kernel.report());
    ChannelOperations::new(kernel.channels().store().clone(), settings, Some(loaded))
}

pub(crate) async fn list_channels(visit: Visit) -> PageResult {
    let body = draw_channels(&visit, None).await?;
    Ok(visit.page(NavEntry::Channels, "Channels", &body).await)
}

/// Makes a code and shows it once: only its hash is stored.
pub(crate) async fn pair_person(visit: Visit) -> PageResult {
    let operations = channel_operations(&visit);
    let channel = visit.form.get("channel").to_owned();
    // Before the fields, so that a removed channel is reported as such.
    operations.check_channel(&channel).await?;
    let role = match visit.form.get("role") {
        "owner" => ChannelRole::Owner,
        "guest" => ChannelRole::Guest,
        _ => return Err(invalid_form("a role is required")),
    };
    let agents = visit.form.all("agent");
    for id in &agents {
        // A code for an agent that does not exist would pair a person who gets no reply.
        let _known: AgentSummary = visit.request(ControlRequest::Agent { id: id.clone() }).await?;
    }
    // The wall clock, as in the terminal: the receiver of the code compares it with that one.
    let now_ms = skillhost_home::now_ms();
    let code = operations.create_code(&channel, role, agents, now_ms).await?;
    // Drawn in this response and not after a redirect, whose address would have the code.
    let made = draw_code(&channel, role, &code);
    let body = draw_channels(&visit, Some(&made)).await?;
    Ok(visit.page(NavEntry::Channels, "Channels", &body).await)
}

fn invalid_form(message: &str) -> ConsoleError {
    ConsoleError::new(StatusCode::BAD_REQUEST, message, "go back and fill in the form")
}

/// Returns the value by which a form names a person: a browser would change the line breaks of an id.
fn person_key(peer: &PeerRecord) -> String {
    sha256_hex(peer.id.as_bytes())
}

/// Removes a person from the allow-list of a channel.
pub(crate) async fn revoke_person(visit: Visit) -> PageResult {
    let (channel, person) = (visit.form.get("channel"), visit.form.get("person"));
    let store = visit.kernel().channels().store();
    // Of this channel only: one person may be paired on several.
    let people = store.list_peers(Some(channel)).await.map_err(CallError::from)?;
    let found = people.iter().find(|peer| person_key(peer) == person);
    let found = found.ok_or_else(|| ConsoleError::not_found("this person"))?;
    store.revoke_peer(channel, &found.id).await.map_err(CallError::from)?;
    Ok(redirect_to("/channels"))
}

/// Sends a text to the owners of a channel.
pub(crate) async fn send_test(visit: Visit) -> PageResult {
    let operations = channel_operations(&visit);
    let channel = visit.form.get("channel").to_owned();
    let text = visit.form.text("text");
    if text.trim().is_empty() {
        return Err(invalid_form("a text is required"));
    }
    operations.check_channel(&channel).await?;
    operations.submit_test(visit.queue(), &channel, &text).await?;
    Ok(redirect_to("/channels"))
}

async fn draw_channels(visit: &Visit, made: Option<&Markup>) -> Result<Markup, ConsoleError> {
    let operations = channel_operations(visit);
    let agents: Vec<AgentSummary> = visit.request(ControlRequest::Agents).await?;
    let page = ChannelPage {
        channels: operations.list_channels().await?,
        people: operations.store().list_peers(None).await.map_err(CallError::from)?,
        agents: agents.into_iter().filter(|it| it.state == AgentStatus::Ready).collect(),
        deliveries: list_deliveries(visit).await?,
        now_ms: visit.now_ms().await?,
    };
    let report = visit.kernel().report();
    Ok(html! {
        h1 { "Channels" }
        p.lead { "People write to agents from other platforms. Only those who are paired get a reply." }
        @if let Some(made) = made { (made) }
        @if page.channels.is_empty() {
            (draw_empty("No channel is loaded or has settings. Enable an extension that is one, such as \
                         telegram, in its manifest, and name its agent under `channels` in \
                         skillhost.yaml."))
        }
        @for channel in &page.channels {
            section {
                h2 { (draw_text(&channel.id)) }
                (draw_channel(visit, channel, &page, &report))
            }
        }
        section {
            h2 { "Newest deliveries" }
            div #deliveries data-live="" { (draw_deliveries(&page)) }
        }
    })
}

/// Lists the newest deliveries. A delivery that is repeated has its error in its lines only.
async fn list_deliveries(visit: &Visit) -> Result<Vec<(Task, Option<String>)>, ConsoleError> {
    let queue = visit.queue();
    let filter = TaskFilter {
        kind: Some(TaskKind::Deliver),
        limit: MAX_DELIVERIES,
        ..TaskFilter::default()
    };
    let mut deliveries = Vec::new();
    for task in queue.list(filter).await? {
        let error = match &task.outcome {
            Some(TaskOutcome::Failed { message, .. }) => Some(message.clone()),
            Some(_) => None,
            // The last lines suffice: each attempt ends with its error.
            None if task.lines > 0 => {
                let first = task.lines.saturating_sub(MAX_LINES);
                let lines = queue.lines(&task.id, first, MAX_LINES as usize).await?;
                lines.iter().rev().find_map(|line| parse_delivery_error(&line.line))
            }
            None => None,
        };
        deliveries.push((task, error));
    }
    Ok(deliveries)
}

/// Draws a new code, with the way to use it.
fn draw_code(channel: &str, role: ChannelRole, code: &PairingCode) -> Markup {
    html! {
        section.card.made role="status" {
            h2 { "Code for one " (role.as_str()) " of " (draw_text(channel)) }
            p { code.pairing { (code.code) } }
            p {
                "The person sends this code to the channel in a direct conversation before "
                (draw_time(code.expires_ms)) ". On Telegram, " code { "/start " (code.code) }
                " does the same. The code works once, and this page shows it once."
            }
        }
    }
}

fn draw_channel(
    visit: &Visit,
    channel: &ChannelSummary,
    page: &ChannelPage,
    report: &LoadReport,
) -> Markup {
    let people: Vec<_> = page.people.iter().filter(|peer| peer.channel == channel.id).collect();
    // Test messages need a conversation, which an owner has after the first message.
    let has_owner =
        people.iter().any(|peer| peer.role == ChannelRole::Owner && peer.direct.is_some());
    // The reason is that of its extension, as on the page of extensions.
    let rejected = report.rejected.iter().find(|it| it.id == channel.id);
    let is_disabled = report.disabled.iter().any(|id| id.as_str() == channel.id);
    let state = match channel.loaded {
        Some(true) => draw_badge("ok", "loaded"),
        _ if is_disabled => draw_badge("plain", "disabled"),
        _ => draw_badge("error", "not loaded"),
    };
    let guests = channel.guest_agents.join(", ");
    let id = &channel.id;
    html! {
        (draw_facts(&[
            ("State", html! {
                (state)
                @if let Some(rejected) = rejected { " " (draw_text(&rejected.reason)) }
                @else if is_disabled { " Its manifest has " code { "enabled: false" } "." }
                @else if channel.loaded != Some(true) { " No extension of this name is a channel." }
            }),
            ("Agent of owners", draw_text(&channel.agent)),
            ("Agents of guests", html! {
                @if guests.is_empty() { "none, unless chosen for a person" }
                @else { (draw_text(&guests)) }
            }),
        ]))
        div.people #{ "people-" (id) } data-live="" {
            @if people.is_empty() { (draw_empty("No person is paired. Make a code below; the person \
                                                 sends it from the other platform.")) }
            @else { (draw_people(visit, &people)) }
        }
        details.compose #{ "pair-" (id) } open[people.is_empty()] {
            summary { "Pair a person" span.unseen { " with " (id) } }
            (draw_pair_form(visit, channel, page))
        }
        details.compose #{ "test-" (id) } {
            summary { "Send a test message" span.unseen { " on " (id) } }
            @if has_owner {
                form method="post" action="/channels/test" {
                    (visit.csrf_field())
                    input type="hidden" name="channel" value=(id);
                    label for={ "text-" (id) } { "Text for every owner" }
                    textarea #{ "text-" (id) } name="text" rows="2" required { (TEST_TEXT) }
                    button.primary type="submit" { "Send" }
                }
            } @else {
                p.hint { "Test messages go to owners. Pair one first." }
            }
        }
    }
}

fn draw_people(visit: &Visit, people: &[&PeerRecord]) -> Markup {
    html! {
        table.rows {
            thead { tr { th scope="col" { "Person" } th scope="col" { "Role" } th scope="col" { "Agents" } th scope="col" { "Paired" } th scope="col" { "Access" } } }
            tbody {
                @for peer in people {
                    tr {
                        td data-label="Person" {
                            div {
                                strong {
                                    @if peer.name.trim().is_empty() { "(no name)" }
                                    @else { (draw_text(&peer.name)) }
                                }
                                " " code { (draw_text(&peer.id)) }
                            }
                        }
                        td data-label="Role" { (peer.role.as_str()) }
                        td data-label="Agents" {
                            @if peer.agents.is_empty() { "those of the settings" }
                            @else { (draw_text(&peer.agents.join(", "))) }
                        }
                        td data-label="Paired" { (draw_time(peer.paired_ms)) }
                        td data-label="Access" {
                            form method="post" action="/channels/revoke" {
                                (visit.csrf_field())
                                input type="hidden" name="channel" value=(peer.channel);
                                input type="hidden" name="person" value=(person_key(peer));
                                button.danger type="submit" {
                                    "Revoke" span.unseen { " the access of " (draw_text(&peer.id)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn draw_pair_form(visit: &Visit, channel: &ChannelSummary, page: &ChannelPage) -> Markup {
    let id = &channel.id;
    html! {
        form method="post" action="/channels/pair" {
            (visit.csrf_field())
            input type="hidden" name="channel" value=(id);
            label for={ "role-" (id) } { "Role" }
            select #{ "role-" (id) } name="role" {
                option value="owner" { "owner: decides as you do in its conversations" }
                option value="guest" { "guest: only talks to the agents that are listed for them" }
            }
            @if !page.agents.is_empty() {
                fieldset {
                    legend { "Agents of a guest " span.hint { "(none: those of the settings)" } }
                    @for agent in &page.agents {
                        label.choice {
                            input type="checkbox" name="agent" value=(agent.id);
                            span { (draw_text(&agent.name)) " (" (agent.id) ")" }
                        }
                    }
                }
            }
            button.primary type="submit" { "Make a code" }
        }
    }
}

fn draw_deliveries(page: &ChannelPage) -> Markup {
    let now_ms = page.now_ms;
    html! {
        @if page.deliveries.is_empty() {
            (draw_empty("No message was sent yet."))
        } @else {
            table.rows {
                thead { tr { th scope="col" { "Delivery" } th scope="col" { "State" } th scope="col" { "Attempts" } th scope="col" { "Error" } th scope="col" { "Age" } } }
                tbody {
                    @for (task, error) in &page.deliveries {
                        tr {
                            td data-label="Delivery" {
                                a href=(path_with("/tasks/", task.id.as_str())) { (draw_title(task)) }
                            }
                            td data-label="State" {
                                (draw_state(task, now_ms))
                            }
                            td data-label="Attempts" { (task.attempt) }
                            td data-label="Error" {
                                div {
                                    @match error {
                                        Some(error) => (draw_error_text(&shorten(error, MAX_ERROR_CHARS))),
                                        None => "–",
                                    }
                                }
                            }
                            td data-label="Age" { (draw_age(task.created_ms, now_ms)) }
                        }
                    }
                }
            }
        }
    }
}
