//! Arguments that the client's user is asked for before a call.
//!
//! A property of a tool's input schema with `x-skillhost-ask` is such an argument. The client asks its
//! user and repeats the call with the answer, so the server stores nothing between the two requests.

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    ErrorData, InputRequest, InputRequests, InputRequiredResult, InputResponses, JsonObject,
    ProtocolVersion,
};
use serde_json::{Map, Value, json};

use super::declared::KnownTool;
use super::session::McpRequestContext;

/// The keyword of a property with the text that its user is shown.
const ASK: &str = "x-skillhost-ask";

/// The key of the request for the missing arguments.
const KEY: &str = "arguments";

/// The arguments of a call, as far as they are known.
#[derive(Debug)]
pub(super) enum CallArguments {
    /// The arguments as the tool gets them.
    Known(JsonObject),
    /// The client has to ask its user and to repeat the call with the answer.
    Missing(Box<InputRequiredResult>),
}

/// Adds the answer of the client's user to the arguments, or asks for those that are missing.
///
/// A client that cannot ask, and a user who does not answer, leave the arguments as they are: the
/// tool's schema then decides.
///
/// # Errors
/// An invalid-parameter error for a response that is not one to the request.
pub(super) fn complete_arguments(
    context: &McpRequestContext,
    known: Option<&KnownTool>,
    mut arguments: JsonObject,
    responses: Option<&InputResponses>,
) -> Result<CallArguments, ErrorData> {
    let schema = known.map(|known| &*known.tool.input_schema);
    let missing = schema.map(|schema| missing_properties(schema, &arguments)).unwrap_or_default();
    if missing.is_empty() {
        return Ok(CallArguments::Known(arguments));
    }
    if let Some(response) = responses.and_then(|responses| responses.get(KEY)) {
        add_answer(&mut arguments, &missing, response)?;
        return Ok(CallArguments::Known(arguments));
    }
    let is_newest =
        context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
    let elicitation = context.client_capabilities().and_then(|client| client.elicitation);
    let has_forms = elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none());
    let request = (is_newest && has_forms).then(|| to_request(&missing)).flatten();
    Ok(match request {
        Some(request) => CallArguments::Missing(Box::new(request)),
        None => CallArguments::Known(arguments),
    })
}

/// Returns the properties that are asked for and not among the arguments.
fn missing_properties(schema: &JsonObject, arguments: &JsonObject) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_missing = |(name, property): &(&String, &Value)| {
        property[ASK].is_string() && !arguments.contains_key(*name)
    };
    let all = properties.into_iter().flatten().filter(is_missing);
    all.map(|(name, property)| (name.clone(), property.clone())).collect()
}

/// Returns the request for some properties, or `None` if a form cannot have them.
fn to_request(missing: &Map<String, Value>) -> Option<InputRequiredResult> {
    let texts: Vec<_> = missing.values().filter_map(|property| property[ASK].as_str()).collect();
    let message = texts.join("\n");
    let plain = missing.iter().map(|(name, property)| {
        let mut property = property.clone();
        if let Some(fields) = property.as_object_mut() {
            fields.remove(ASK);
        }
        (name.clone(), property)
    });
    let names: Vec<_> = missing.keys().collect();
    let schema = json!({
        "type": "object", "properties": plain.collect::<Map<_, _>>(), "required": names,
    });
    let requested_schema =
        ElicitationSchema::from_json_schema(schema.as_object().cloned()?).ok()?;
    let form = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
    let request = InputRequest::Elicitation(ElicitRequest::new(form));
    let requests = InputRequests::from([(KEY.to_owned(), request)]);
    Some(InputRequiredResult::new(Some(requests), None))
}

/// Adds the content of an accepted form; the schema of the tool checks its types.
fn add_answer(
    arguments: &mut JsonObject,
    missing: &Map<String, Value>,
    response: &Value,
) -> Result<(), ErrorData> {
    let answer: ElicitResult = serde_json::from_value(response.clone()).map_err(|error| {
        ErrorData::invalid_params(format!("response to {KEY:?} is not valid: {error}"), None)
    })?;
    if answer.action != ElicitationAction::Accept {
        return Ok(());
    }
    if let Some(Value::Object(content)) = answer.content {
        arguments.extend(content.into_iter().filter(|(name, _)| missing.contains_key(name)));
    }
    Ok(())
}
