//! The connection of an extension to the kernel.

use std::sync::Arc;

use abi_stable::std_types::{RErr, ROk};
use skillhost_contract::abi::{HostObject, LogRecord};
use tokio::runtime::Handle;

use crate::codec::from_ffi;
use crate::error::Result;

tokio::task_local! {
    /// The id of the call that the current task serves; log events carry it.
    pub(crate) static CALL_ID: u64;
}

/// A log event that is sent to the kernel.
pub(crate) struct LogLine<'a> {
    pub(crate) level: u8,
    pub(crate) target: &'a str,
    pub(crate) message: &'a str,
    pub(crate) fields_json: &'a str,
    pub(crate) spans: &'a str,
    pub(crate) file: &'a str,
    pub(crate) line: u32,
}

/// A connection to the kernel, without ABI types in its interface.
#[derive(Clone)]
pub(crate) struct HostLink {
    host: Arc<HostObject>,
    handle: Handle,
}

impl HostLink {
    pub(crate) fn new(host: HostObject, handle: Handle) -> Self {
        Self { host: Arc::new(host), handle }
    }

    pub(crate) fn log_enabled(&self, level: u8, target: &str) -> bool {
        self.host.log_enabled(level, target.into())
    }

    pub(crate) fn log(&self, line: &LogLine<'_>) {
        self.host.log(LogRecord {
            level: line.level,
            target: line.target.into(),
            message: line.message.into(),
            fields_json: line.fields_json.into(),
            spans: line.spans.into(),
            file: line.file.into(),
            line: line.line,
            // Tasks that the author spawned have no call; 0 means none.
            call_id: CALL_ID.try_with(|id| *id).unwrap_or_default(),
        });
    }

    pub(crate) async fn call(&self, method: &str, payload: Vec<u8>) -> Result<Vec<u8>> {
        // The future is created before the await, so that no borrow is held across it.
        let reply = self.host.call(method.into(), payload.into());
        match reply.await {
            ROk(bytes) => Ok(bytes.into_vec()),
            RErr(error) => Err(from_ffi(&error)),
        }
    }

    /// Calls without waiting for the reply; for destructors.
    pub(crate) fn call_detached(&self, method: &'static str, payload: Vec<u8>) {
        // Through the handle: a destructor may run on a thread without a runtime context.
        let link = self.clone();
        self.handle.spawn(async move { link.call(method, payload).await });
    }
}
