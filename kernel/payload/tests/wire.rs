//! The JSON of every payload as earlier programs and libraries write it.
//!
//! The files hold one value per line. Never edit them: programs compiled earlier read and write
//! exactly this. A new optional field must not appear in them.

use serde::Serialize;
use serde::de::Deserialize;
use skillhost_payload::{
    ActivateSkillRequest, ActiveSkill, AgentAnswer, AgentTask, AgentTools, BindingProblem,
    BindingRequest, BuildInfo, ButtonOutcome, CallContext, CallOrigin, CatalogScope, ChannelCursor,
    ChannelInfo, ChannelPeer, EffectRequest, EmbedRequest, EmbeddingModelInfo, ErrorKind, Event,
    ExtensionInit, HandleEventRequest, InboundOutcome, IncomingMessage, OutgoingMessage,
    PressedButton, PublishedBody, PublishedDetails, PublishedDetailsRequest, PublishedEntry,
    PublishedPrompt, PublishedPromptRequest, PublishedRequest, PublishedSkills,
    PublishedUriRequest, ReviewDecision, ReviewOffer, ReviewRequest, RunTaskRequest, SecretRequest,
    SecretValue, SendOutcome, SkillContent, SkillGeneration, SkillRef, SkillReport, SkillRequest,
    SkillSecurity, SkillVersionFile, SkillVersionRequest, SkillVersionSummary, SubscribeRequest,
    SubscriptionId, ToolCall, ToolEffect, ToolOutput, ToolSpec, UserNotice,
};

/// Parses every line as a type and writes it again.
fn check<'a, T: Serialize + Deserialize<'a>>(shape: &str, lines: &'a str) {
    assert!(lines.ends_with('\n'), "{shape}");
    for line in lines.lines() {
        let value: T =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{shape}: {error}: {line}"));
        assert_eq!(serde_json::to_string(&value).ok().as_deref(), Some(line), "{shape}");
    }
}

macro_rules! check_shapes {
    ($($shape:literal: $type:ty,)+) => {
        $( check::<$type>($shape, include_str!(concat!("wire/", $shape, ".jsonl"))); )+
    };
}

#[test]
fn earlier_payloads_round_trip() {
    check_shapes! {
        "activate_skill": ActivateSkillRequest,
        "active_skill": ActiveSkill,
        "active_skill_declared": ActiveSkill,
        "agent_answer": AgentAnswer,
        "agent_task": AgentTask,
        "agent_tools": AgentTools,
        "binding_problem": BindingProblem,
        "binding_request": BindingRequest,
        "build_info": BuildInfo,
        "button_outcome": ButtonOutcome,
        "call_context": CallContext,
        "call_origin": CallOrigin,
        "catalog_scope": CatalogScope,
        "channel_cursor": ChannelCursor,
        "channel_info": ChannelInfo,
        "channel_peer": ChannelPeer,
        "effect_request": EffectRequest,
        "embed_request": EmbedRequest<'_>,
        "error_kind": ErrorKind,
        "event": Event,
        "extension_init": ExtensionInit,
        "generation": SkillGeneration,
        "handle_event": HandleEventRequest,
        "inbound_outcome": InboundOutcome,
        "incoming_message": IncomingMessage,
        "model_info": EmbeddingModelInfo,
        "notice": UserNotice,
        "outgoing_message": OutgoingMessage,
        "pressed_button": PressedButton,
        "published_body": PublishedBody,
        "published_details": PublishedDetails,
        "published_details_request": PublishedDetailsRequest,
        "published_entry": PublishedEntry,
        "published_prompt": PublishedPrompt,
        "published_prompt_request": PublishedPromptRequest,
        "published_request": PublishedRequest,
        "published_skills": PublishedSkills,
        "published_uri_request": PublishedUriRequest,
        "review_decision": ReviewDecision,
        "review_offer": ReviewOffer,
        "review_request": ReviewRequest,
        "run_task": RunTaskRequest,
        "script_ran": SkillReport,
        "secret_request": SecretRequest,
        "secret_value": SecretValue,
        "send_outcome": SendOutcome,
        "skill_content": SkillContent,
        "skill_created": SkillReport,
        "skill_ref": SkillRef,
        "skill_request": SkillRequest<'_>,
        "skill_security": SkillSecurity,
        "skill_version": SkillVersionSummary,
        "skill_version_file": SkillVersionFile,
        "skill_version_request": SkillVersionRequest,
        "subscribe": SubscribeRequest,
        "subscription_id": SubscriptionId,
        "tool_call": ToolCall,
        "tool_effect": ToolEffect,
        "tool_output": ToolOutput,
        "tool_spec": ToolSpec,
        "tool_spec_needs": ToolSpec,
        "tool_spec_skill_use": ToolSpec,
    }
}
