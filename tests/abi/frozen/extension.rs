//! An extension of the frozen boundary, with a tool, context, a service and skills.
//!
//! Never edit this file or the sources of `frozen-contract` beside it: they are what authors have
//! compiled. A library of theirs is loaded by every later kernel of the same contract version, so a
//! test that fails because of them has found a change of the boundary.
//!
//! It needs no SDK: its futures wait for the kernel alone, so the kernel's threads run them. Every
//! lifecycle step is a line in the file `record` of the home.
#![expect(unsafe_code, reason = "exported symbols are unsafe attributes")]

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use abi_stable::library::{
    __call_root_module_loader, CheckTypeLayout, LibHeader, RootModuleResult,
};
use abi_stable::prefix_type::PrefixTypeTrait as _;
use abi_stable::sabi_trait::TD_Opaque;
use abi_stable::std_types::{RErr, ROk, ROption, RResult, RString, RVec};
use async_ffi::FutureExt as _;
use frozen_contract::abi::{
    ContextAbi, ContextAbi_TO, ExtensionAbi, ExtensionAbi_TO, ExtensionInstance, ExtensionModule,
    ExtensionModuleRef, FfiError, FfiFut, FfiResult, HostObject, LogRecord, ServiceAbi,
    ServiceAbi_TO, ToolAbi, ToolAbi_TO, lifecycle,
};
use frozen_contract::payload::{
    ActivateSkill, ActiveSkill, Approval, Audience, BuildInfo, CallContext, ErrorKind, Event,
    ExtensionInit, Generation, Origin, SkillContent, SkillRef, SkillRequest, ToolCall, ToolOutput,
    ToolSpec, host_method, skill_interface,
};
use frozen_contract::version::CONTRACT;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::to_raw_value;

/// The manifest's `config`.
#[derive(Deserialize)]
struct Config {
    /// Its skills.
    skills: BTreeMap<String, String>,
    /// It is healthy.
    healthy: bool,
}

/// The state behind all objects of the extension.
struct Shared {
    host: HostObject,
    init: ExtensionInit,
    config: Config,
    service: Mutex<ServiceState>,
}

#[derive(Default)]
struct ServiceState {
    is_cancelled: bool,
    waker: Option<Waker>,
}

#[derive(Clone)]
struct Extension(Arc<Shared>);

/// The arguments of its tools.
#[derive(Deserialize)]
struct Arguments {
    #[serde(default)]
    name: String,
    #[serde(default)]
    arguments: serde_json::Value,
}

#[expect(clippy::needless_pass_by_value, reason = "errors and literals are passed as they come")]
fn ffi_error(kind: ErrorKind, message: impl ToString, hint: &str) -> FfiError {
    FfiError { kind: kind.as_str().into(), message: message.to_string().into(), hint: hint.into() }
}

fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, FfiError> {
    serde_json::from_slice(bytes).map_err(|error| ffi_error(ErrorKind::Protocol, error, ""))
}

fn write<T: Serialize>(value: &T) -> Result<String, FfiError> {
    serde_json::to_string(value).map_err(|error| ffi_error(ErrorKind::Protocol, error, ""))
}

fn ready<T: Send + 'static>(result: Result<T, FfiError>) -> FfiFut<T> {
    std::future::ready(RResult::from(result)).into_ffi()
}

impl Shared {
    fn record(&self, step: &str) {
        let path = self.init.home.join("record");
        let line = format!("{} {step}\n", self.init.id);
        let file = OpenOptions::new().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }

    fn log(&self, call_id: u64, message: &str) {
        if self.host.log_enabled(3, "frozen".into()) {
            self.host.log(LogRecord {
                level: 3,
                target: "frozen".into(),
                message: message.into(),
                fields_json: "{\"build\":\"frozen\"}".into(),
                spans: "outer:inner".into(),
                file: "extension.rs".into(),
                line: 7,
                call_id,
            });
        }
    }

    fn service(&self) -> MutexGuard<'_, ServiceState> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn skill(&self, id: &str) -> Result<SkillContent, FfiError> {
        let text = self.config.skills.get(id).ok_or_else(|| {
            ffi_error(ErrorKind::NotFound, format!("no skill `{id}`"), "learn it first")
        })?;
        Ok(SkillContent {
            skill_id: id.to_owned(),
            text: text.clone(),
            digest: "d1".to_owned(),
            tokens: 2,
            source: "frozen".to_owned(),
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.record("drop");
    }
}

impl ExtensionAbi for Extension {
    fn lifecycle(&self, operation: u8) -> FfiFut<()> {
        ready(match operation {
            lifecycle::START => {
                self.0.record("start");
                Ok(())
            }
            lifecycle::STOP => {
                self.0.record("stop");
                Ok(())
            }
            lifecycle::HEALTH_CHECK if self.0.config.healthy => Ok(()),
            lifecycle::HEALTH_CHECK => Err(ffi_error(ErrorKind::Unavailable, "unwell", "rest")),
            _ => Err(ffi_error(ErrorKind::Protocol, "no such operation", "")),
        })
    }

    fn call(&self, interface: RString, method: RString, payload: RVec<u8>) -> FfiFut<RVec<u8>> {
        let answer = || {
            if interface.as_str() != skill_interface::NAME {
                return Err(ffi_error(ErrorKind::Protocol, "no such interface", ""));
            }
            match method.as_str() {
                skill_interface::GENERATION => write(&Generation { generation: 7 }),
                skill_interface::GET_SKILL_CONTENT => {
                    let request: SkillRequest<'_> = parse(&payload)?;
                    write(&self.0.skill(&request.skill_id)?)
                }
                skill_interface::ACTIVATE => {
                    let request: ActivateSkill = parse(&payload)?;
                    let content = self.0.skill(&request.skill_id)?;
                    write(&ActiveSkill { content, allowed_tools: None, grants: false })
                }
                _ => Err(ffi_error(ErrorKind::Protocol, "no such method", "")),
            }
        };
        ready(answer().map(|text| RVec::from(text.into_bytes())))
    }

    fn log_filter_changed(&self) {}

    fn shutdown_runtime(&self, _timeout_ms: u64) {
        self.0.record("shutdown");
    }
}

impl ToolAbi for Extension {
    fn tools(&self, context: RString) -> FfiFut<RString> {
        let tools = || {
            let _: CallContext = parse(context.as_bytes())?;
            let schema = json!({"type": "object", "properties": {
                "name": {"type": "string"}, "arguments": {"type": "object"}}});
            let tool = |name: &str, needs_approval, audience| ToolSpec {
                name: name.to_owned(),
                description: format!("The tool {name}."),
                input_schema: schema.clone(),
                output_schema: None,
                read_only: name == "greet",
                destructive: false,
                needs_approval,
                audience,
            };
            write(&[
                tool("greet", Approval::Never, Audience::Agent),
                tool("relay", Approval::Always, Audience::Operator),
                tool("announce", Approval::UnlessGranted, Audience::Agent),
            ])
        };
        ready(tools().map(RString::from))
    }

    fn invoke(&self, context: RString, name: RString, arguments: RString) -> FfiFut<RString> {
        let shared = Arc::clone(&self.0);
        async move {
            let result = async {
                let context: CallContext = parse(context.as_bytes())?;
                let asked: Arguments = parse(arguments.as_bytes())?;
                shared.log(context.call_id, "called");
                let text = match name.as_str() {
                    "greet" if asked.name.is_empty() => {
                        return Err(ffi_error(ErrorKind::InvalidArgument, "no name", "give one"));
                    }
                    "greet" => {
                        let asker = match context.origin {
                            Origin::Operator => "operator",
                            Origin::Agent => "agent",
                            Origin::Mcp => "client",
                        };
                        format!("Hello, {}, {asker}.", asked.name)
                    }
                    "relay" => {
                        let arguments = to_raw_value(&asked.arguments);
                        let arguments =
                            arguments.map_err(|error| ffi_error(ErrorKind::Protocol, error, ""))?;
                        let call = ToolCall { context, name: asked.name, arguments };
                        let call = write(&call)?.into_bytes();
                        let called = shared.host.call(host_method::CALL_TOOL.into(), call.into());
                        let output: ToolOutput = match called.await {
                            ROk(bytes) => parse(&bytes)?,
                            RErr(error) => return Err(error),
                        };
                        format!("relayed: {}", output.text)
                    }
                    _ => {
                        let payload = to_raw_value(&asked.arguments)
                            .map_err(|error| ffi_error(ErrorKind::Protocol, error, ""))?;
                        let event = write(&Event::new(asked.name, "", payload))?.into_bytes();
                        let emitted = shared.host.call(host_method::EMIT.into(), event.into());
                        match emitted.await {
                            ROk(_) => "announced".to_owned(),
                            RErr(error) => return Err(error),
                        }
                    }
                };
                let structured = to_raw_value(&json!({"text": text, "build": "frozen"})).ok();
                let skill = (name.as_str() == "greet")
                    .then(|| SkillRef { skill_id: "manners".to_owned(), digest: "d1".to_owned() });
                write(&ToolOutput { text, structured, is_error: false, skill })
            };
            RResult::from(result.await.map(RString::from))
        }
        .into_ffi()
    }
}

impl ContextAbi for Extension {
    fn context_priority(&self) -> FfiResult<i32> {
        ROk(7)
    }

    fn get_context(&self, context: RString, prompt: RString) -> FfiFut<ROption<RString>> {
        ready(parse::<CallContext>(context.as_bytes()).map(|context| match prompt.as_str() {
            "" => ROption::RNone,
            asked => ROption::RSome(format!("{} was asked: {asked}", context.agent_id).into()),
        }))
    }
}

impl ServiceAbi for Extension {
    fn run_background(&self) -> FfiFut<()> {
        let shared = Arc::clone(&self.0);
        async move {
            shared.record("service");
            std::future::poll_fn(|cx| {
                let mut state = shared.service();
                if state.is_cancelled {
                    return Poll::Ready(());
                }
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            })
            .await;
            shared.record("service ended");
            ROk(())
        }
        .into_ffi()
    }

    fn cancel(&self) {
        let waker = {
            let mut state = self.0.service();
            state.is_cancelled = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

extern "C" fn build_info() -> RString {
    let info = BuildInfo { package: "frozen".to_owned(), version: "0.9.0".to_owned() };
    serde_json::to_string(&info).unwrap_or_default().into()
}

extern "C" fn create(host: HostObject, init: RString) -> FfiResult<ExtensionInstance> {
    let create = || {
        let init: ExtensionInit = parse(init.as_bytes())?;
        if init.data_dir != init.home.join("sandbox/data").join(&init.id) {
            let moved = PathBuf::from(&init.data_dir).display().to_string();
            return Err(ffi_error(ErrorKind::Conflict, moved, ""));
        }
        let config: Config = serde_json::from_value(init.config.clone())
            .map_err(|error| ffi_error(ErrorKind::InvalidArgument, error, "correct `config`"))?;
        let shared = Shared { host, init, config, service: Mutex::default() };
        shared.record("new");
        let extension = Extension(Arc::new(shared));
        Ok(ExtensionInstance {
            extension: ExtensionAbi_TO::from_value(extension.clone(), TD_Opaque),
            tools: ROption::RSome(ToolAbi_TO::from_value(extension.clone(), TD_Opaque)),
            context: ROption::RSome(ContextAbi_TO::from_value(extension.clone(), TD_Opaque)),
            service: ROption::RSome(ServiceAbi_TO::from_value(extension, TD_Opaque)),
            interfaces: vec![RString::from(skill_interface::NAME)].into(),
        })
    };
    create().into()
}

fn module() -> ExtensionModuleRef {
    ExtensionModule { build_info, create }.leak_into_prefix()
}

extern "C" fn erased() -> RootModuleResult {
    __call_root_module_loader(module)
}

/// The version of the frozen contract.
// SAFETY: the names belong to the contract; a library exports them once.
#[unsafe(export_name = "skillhost_contract_version")]
pub static VERSION: u32 = CONTRACT.pack();

/// The header of the library.
// SAFETY: as above; the header is made by abi_stable's own constructor.
#[unsafe(export_name = "skillhost_extension_root")]
pub static ROOT: LibHeader =
    unsafe { LibHeader::from_constructor::<ExtensionModuleRef>(erased, CheckTypeLayout::Yes) };
