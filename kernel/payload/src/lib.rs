//! The JSON that crosses borders: between the kernel and extensions, and between processes of
//! skillhost.
//!
//! Both sides of a border use these types, so there is one definition of each. Unknown fields are
//! ignored and optional ones have defaults: a payload grows without a new contract version.

mod active_skills;
mod agent;
mod agent_tools;
mod channel;
mod context;
mod effect;
mod embedding;
mod error;
mod event;
mod hidden;
mod host;
mod library;
mod operator_command;
mod published;
mod review;
mod schedule;
mod skill;
mod skill_security;
mod skill_tree;
mod skill_version;
mod task;
mod timestamp;
mod tool;
mod tool_input;
mod workspace;

pub use active_skills::{ActiveSkillsChange, SkillRef};
pub use agent::{AgentAnswer, AgentTask};
pub use agent_tools::{AgentTool, AgentTools, BindingProblem, BindingRequest};
pub use channel::{
    ButtonOutcome, ChannelConversation, ChannelCursor, ChannelInfo, ChannelPeer, InboundOutcome,
    IncomingMessage, MessageButton, OutgoingMessage, PressedButton, SendOutcome, channel_interface,
};
pub use context::{CallContext, CallOrigin, CatalogScope, MAX_CALL_DEPTH};
pub use effect::{ChangeKind, EffectChange, EffectRequest, ToolEffect, effect_interface};
pub use embedding::{EmbedRequest, EmbeddingModelInfo, embedding_interface};
pub use error::{CallError, ErrorKind};
pub use event::{Event, HandleEventRequest, SubscribeRequest, SubscriptionId, event_interface};
pub use hidden::is_hidden;
pub use host::{SecretRequest, SecretValue, UserNotice, host_method};
pub use library::{BuildInfo, ExtensionInit};
pub use operator_command::OperatorCommand;
pub use published::{
    PublishedArgument, PublishedBody, PublishedContent, PublishedDetails, PublishedDetailsRequest,
    PublishedEntry, PublishedFile, PublishedPrompt, PublishedPromptRequest, PublishedRequest,
    PublishedSkill, PublishedSkills, PublishedUriRequest,
};
pub use review::{
    ReviewDecision, ReviewListRequest, ReviewOffer, ReviewOutcome, ReviewQuestion, ReviewRequest,
};
pub use schedule::{RunTaskRequest, scheduler_interface};
pub use skill::{
    ActivateSkillRequest, ActiveSkill, SkillContent, SkillGeneration, SkillProgram,
    SkillProgramKind, SkillProgramsRequest, SkillReport, SkillRequest, skill_interface,
};
pub use skill_security::{SkillFileScope, SkillSecurity};
pub use skill_tree::{SkillTree, SkillTreeFile, SkillTreeRequest};
pub use skill_version::{SkillVersionFile, SkillVersionRequest, SkillVersionSummary};
pub use task::{
    PrepareTaskRequest, PreparedTask, StoreTaskStepRequest, TaskAnswer, TaskClaimRef, TaskKindSpec,
    TaskProgressReport, TaskQuestion, TaskRunReply, TaskRunRequest, TaskStep, task_interface,
};
pub use timestamp::{format_compact_time, format_minute, format_rfc3339, format_second};
pub use tool::{
    ApprovalPolicy, CallEffect, SkillUse, SkillUseKind, TaskSupport, ToolAudience, ToolCall,
    ToolOutput, ToolSpec, object_schema,
};
pub use tool_input::{InputAnswer, InputQuestion, InputRequest, InputResponse};
pub use workspace::{Workspace, WorkspaceAccess};
