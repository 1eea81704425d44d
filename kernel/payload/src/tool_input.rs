//! Questions that a tool asks a person before it completes, and their answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The questions with which a call ends; it is repeated with the answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRequest {
    /// The questions; without any, the call is repeated at once.
    pub questions: Vec<InputQuestion>,
    /// The state of the tool, which it gets back unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// A question of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputQuestion {
    /// The name, unique within its request.
    pub key: String,
    /// The text for the person, untrusted.
    pub text: String,
    /// The form: the JSON Schema of an object whose properties have simple types.
    pub form: Value,
}

/// The answers that a repeated call carries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputResponse {
    /// The answers by the names of their questions; empty in the first call.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub answers: BTreeMap<String, InputAnswer>,
    /// The state of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// The answer to a question of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputAnswer {
    /// The person filled the form.
    Accepted(Map<String, Value>),
    /// The person declined to answer.
    Declined,
    /// No person answered in time.
    Expired,
}
