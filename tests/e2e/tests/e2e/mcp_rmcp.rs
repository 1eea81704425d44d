//! Tests of `skillhost mcp` with the client of the protocol's Rust library.

use std::sync::{Arc, Mutex};

use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, ErrorData, GetPromptRequestParams,
    GetSkillRequestParams, Implementation, ProtocolVersion, ReadResourceDirectoryRequestParams,
    ReadResourceRequestParams, ResourceContents, SkillResources,
};
use rmcp::service::{ClientLifecycleMode, RequestContext, RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, serve_client_with_lifecycle};
use serde_json::{Value, json};
use test_support::TestHome;

use crate::fixtures::{home, skill_md};
use crate::mcp::full_home;

/// A client whose user approves every form.
#[derive(Clone, Default)]
struct ApprovingUser(Arc<Mutex<Vec<String>>>);

impl ClientHandler for ApprovingUser {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::new());
        ClientConfig::new(capabilities, Implementation::new("rust client", "1"))
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = asked else {
            panic!("only forms can be answered");
        };
        self.0.lock().unwrap().push(message);
        let answer = json!({ "decision": "approve" });
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(answer))
    }
}

type Client = RunningService<RoleClient, ApprovingUser>;

/// Returns both lifecycles: with a session, and with all metadata in every request.
fn lifecycles() -> [ClientLifecycleMode; 2] {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    [ClientLifecycleMode::Initialize, ClientLifecycleMode::Discover { preferred_versions }]
}

/// Runs `talk` with a client that is connected to its own server.
fn with_client<T: Future<Output = Client>>(
    home: &TestHome,
    way: &ClientLifecycleMode,
    talk: impl FnOnce(Client, ApprovingUser) -> T,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut command = home.command();
        command.arg("mcp");
        let server = TokioChildProcess::new(tokio::process::Command::from(command)).unwrap();
        let user = ApprovingUser::default();
        let client = serve_client_with_lifecycle(user.clone(), server, way.clone()).await.unwrap();
        let client = talk(client, user).await;
        client.cancel().await.unwrap();
    });
}

fn tool_call(tool: &'static str, arguments: &Value) -> CallToolRequestParams {
    CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone())
}

#[test]
fn rmcp_client_uses_every_method() {
    let home = full_home();
    for way in lifecycles() {
        with_client(&home, &way, |client, _| async move {
            let tools = client.list_all_tools().await.unwrap();
            let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
            let expected = [
                "list_skills",
                "propose_skill_update",
                "read_skill",
                "read_skill_resource",
                "skills.load",
                "skills.read",
            ];
            assert_eq!(names, expected);
            let read = tool_call("read_skill", &json!({ "skill_id": "greet" }));
            let read = client.call_tool(read).await.unwrap();
            let text = &read.content[0].as_text().unwrap().text;
            assert!(text.contains("Say hello to them."), "{text}");
            let listed = client.call_tool(tool_call("list_skills", &json!({}))).await.unwrap();
            assert_eq!(listed.structured_content.unwrap()["total"], 2);

            let resources = client.list_all_resources().await.unwrap();
            let uris: Vec<_> = resources.iter().map(|resource| &*resource.uri).collect();
            let both = ["skill://greet/SKILL.md", "skill://review/code-review/SKILL.md"];
            assert_eq!(uris, both);
            let read = ReadResourceRequestParams::new(both[0]);
            let read = client.read_resource(read).await.unwrap();
            let [ResourceContents::TextResourceContents { text, .. }] = &read.contents[..] else {
                panic!("{read:?}");
            };
            assert!(text.ends_with("Say hello to them.\n"), "{text}");

            let skills = client.list_all_skills().await.unwrap();
            let uris: Vec<_> = skills.iter().map(|skill| &*skill.uri).collect();
            assert_eq!(uris, both);
            let got = client.get_skill(GetSkillRequestParams::new(both[1])).await.unwrap();
            assert_eq!(got.skill, skills[1]);
            let SkillResources::Files(files) = &got.skill.resources else { panic!("{got:?}") };
            assert_eq!(files.len(), 3);
            let below = ReadResourceDirectoryRequestParams::new("skill://review/code-review");
            let below = client.read_resource_directory(below).await.unwrap();
            let names: Vec<_> = below.resources.iter().map(|entry| &*entry.name).collect();
            assert_eq!(names, ["SKILL.md", "assets", "references"]);
            let unknown = GetSkillRequestParams::new("skill://nobody/SKILL.md");
            assert!(client.get_skill(unknown).await.is_err());

            let prompts = client.list_all_prompts().await.unwrap();
            let names: Vec<_> = prompts.iter().map(|prompt| &*prompt.name).collect();
            assert_eq!(names, ["greet", "review"]);
            let prompt = client.get_prompt(GetPromptRequestParams::new("greet")).await.unwrap();
            assert_eq!(prompt.messages.len(), 1);
            client
        });
    }
}

#[test]
fn rmcp_client_user_approves_once() {
    for way in lifecycles() {
        let home = home().settings("mcp: {review: elicitation}");
        with_client(&home, &way, |client, user| async move {
            let proposal = json!({
                "skill_id": "greet", "justification": "Politer.",
                "new_content": skill_md("Greets people. Use when somebody arrives.", "Bow first."),
            });
            let made =
                client.call_tool(tool_call("propose_skill_update", &proposal)).await.unwrap();
            let value = made.structured_content.unwrap();
            // The second request of the newest version is not a second proposal.
            assert_eq!((&value["number"], &value["count"]), (&json!(1), &json!(1)));
            let review = value["review"].as_str().unwrap();
            assert!(review.starts_with("A person approved it"), "{review}");
            let prompts = user.0.lock().unwrap().clone();
            let [prompts] = &prompts[..] else { panic!("{prompts:?}") };
            assert!(prompts.contains("\n-Say hello to them.\n+Bow first."), "{prompts}");
            client
        });
        let text = std::fs::read_to_string(home.path("sandbox/skills/greet/SKILL.md")).unwrap();
        assert!(text.contains("Bow first."), "{text}");
    }
}
