//! The protocol: maps the requests of clients to the backend.

mod call_consents;
mod call_inputs;
mod call_result;
mod completion;
mod declared;
mod notify;
mod pagination;
mod pending_questions;
mod prompts;
mod protocol_error;
mod request_limiter;
mod resources;
mod review;
mod session;
mod skill_list_cache;
mod skill_pages;
mod skills;
mod task_questions;
mod task_status;
mod tasks;
#[cfg(test)]
mod tests;
mod tools;
mod watched;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, ErrorData, GetPromptRequestParams, GetPromptResponse, GetSkillRequestParams,
    GetSkillResult, GetTaskParams, GetTaskResult, Implementation, JsonObject, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, TASKS_EXTENSION_ID, Tool, UnsubscribeRequestParams,
    UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RoleServer, SubscriptionContext};

use session::McpRequestContext;
pub use session::McpServer;
pub(crate) use session::ServerSession;

impl ServerHandler for ServerSession {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .enable_skills_with_directory_read()
            .build();
        if self.backend().tasks().is_some() {
            let extensions = capabilities.extensions.get_or_insert_default();
            extensions.insert(TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
        }
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new("skillhost", &self.shared.version)
                    .with_title("skillhost")
                    .with_description("A registry for Agent Skills"),
            )
            .with_instructions(self.backend().instructions())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        notify::notify_session(self, context.peer);
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: McpRequestContext,
    ) -> Result<ListToolsResult, ErrorData> {
        self.run_request(&context, tools::list_tools(self, &context, request)).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: McpRequestContext,
    ) -> Result<CallToolResponse, ErrorData> {
        self.run_request(&context, tools::call_tool(self, &context, request)).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: McpRequestContext,
    ) -> Result<GetTaskResult, ErrorData> {
        self.run_request(&context, tasks::get_task(self, &context, &request.task_id)).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        self.run_request(&context, tasks::update_task(self, &context, &request)).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        self.run_request(&context, tasks::cancel_task(self, &context, &request.task_id)).await
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.shared.known_tools.find(name)
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        context: McpRequestContext,
    ) -> Result<ListSkillsResult, ErrorData> {
        self.run_request(&context, skills::list_skills(self, &context, request)).await
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        context: McpRequestContext,
    ) -> Result<GetSkillResult, ErrorData> {
        self.run_request(&context, skills::get_skill(self, &context, &request.uri)).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: McpRequestContext,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.run_request(&context, resources::list_resources(self, &context, request)).await
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: McpRequestContext,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::list_templates(self))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: McpRequestContext,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.run_request(&context, resources::read_resource(self, &context, &request.uri)).await
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        context: McpRequestContext,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        self.run_request(&context, resources::read_directory(self, &context, request)).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: McpRequestContext,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.run_request(&context, prompts::list_prompts(self, &context, request)).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: McpRequestContext,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.run_request(&context, prompts::get_prompt(self, &context, request)).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: McpRequestContext,
    ) -> Result<CompleteResult, ErrorData> {
        self.run_request(&context, completion::complete_argument(self, &context, &request)).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        self.run_request(&context, notify::watch_resource(self, &context, request.uri)).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        self.watched.forget(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(notify::accept_filter(self, requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        notify::notify_subscription(self, &context).await
    }
}
