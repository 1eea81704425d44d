//! The messages between the kernel and the launcher, and their socket.
//!
//! A document is JSON in one or more packets; its last packet ends with a line feed. A packet must
//! fit into the send buffer of the socket, which is 208 KiB on most systems.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use skillhost_policy::{
    FilesystemPolicy, IsolationLevel, IsolationRequirement, NetworkPolicy, ResourceLimits,
};

use crate::isolation::{EndCause, IsolationReport, RunEnd, SandboxRefusal};
use crate::sandbox_spec::InputMode;

/// The version of the protocol.
pub(crate) const PROTOCOL_VERSION: u32 = 1;

/// The argument that makes the program its own launcher. Others reject it, so that a program
/// without the call of [`crate::exit_if_launcher`] does nothing.
pub(crate) const LAUNCHER_ARGUMENT: &str = "--sandbox-launcher";

/// The descriptor of the socket in the launcher.
pub(crate) const CONTROL_DESCRIPTOR: i32 = 3;

/// The maximum length of a document, in bytes.
const MAX_DOCUMENT: usize = 1 << 20;

/// The maximum length of a packet, in bytes.
const MAX_PACKET: usize = 64 << 10;

/// A program to run and its permissions: the first message to the launcher.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LaunchRequest {
    pub(crate) v: u32,
    pub(crate) command: Vec<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) stdin: InputMode,
    /// Whether a descriptor is attached that the program gets as descriptor 3.
    pub(crate) channel: bool,
    pub(crate) policy: AccessPolicy,
    pub(crate) limits: ResourceLimits,
    #[serde(flatten)]
    pub(crate) isolation: IsolationRequirement,
    /// The levels to try, the strongest first.
    pub(crate) levels: Vec<IsolationLevel>,
    /// Assumes an older version of Landlock than the kernel has.
    pub(crate) landlock_abi: Option<i32>,
    /// Whether to end before the program, which is not given then: the isolation is the result.
    pub(crate) probe: bool,
    /// The paths in writable directories that the launcher makes read-only in addition.
    #[serde(skip)]
    pub(crate) protected: Vec<PathBuf>,
    /// The sockets of other programs that the launcher hides.
    #[serde(skip)]
    pub(crate) sockets: Vec<PathBuf>,
}

/// The files and the network of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AccessPolicy {
    pub(crate) filesystem: FilesystemPolicy,
    pub(crate) network: NetworkPolicy,
    #[serde(default)]
    pub(crate) deny_execution: bool,
}

/// A message of the launcher.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LauncherMessage {
    /// The program was started. The listener of its proxy is attached if it has one.
    Ready { isolation: IsolationReport },
    /// The program and all its processes have ended.
    Ended(RunEnd),
    /// Nothing was run.
    Refused(SandboxRefusal),
}

/// A later message to the launcher. The end of the socket has the same effect.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HostMessage {
    /// Ends the run.
    Cancel { ended_by: Option<EndCause> },
    /// Sends SIGTERM to the program, which may end in order.
    Terminate,
}

/// One end of a socket for documents and descriptors.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    socket: OwnedFd,
    /// The packets of an incomplete document.
    partial: Vec<u8>,
}

/// A received document with its descriptors.
pub(crate) struct ReceivedDocument<T> {
    pub(crate) content: T,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl ControlSocket {
    /// Creates both ends. Neither is inherited by programs.
    pub(crate) fn create_pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self::from_descriptor(one), Self::from_descriptor(other)))
    }

    pub(crate) fn from_descriptor(socket: OwnedFd) -> Self {
        Self { socket, partial: Vec::new() }
    }

    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.socket
    }

    /// Sends a document; the descriptors go with its first packet.
    pub(crate) fn send(
        &self,
        document: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let mut text = serde_json::to_vec(document)?;
        if text.len() >= MAX_DOCUMENT {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "larger than 1 MiB"));
        }
        text.push(b'\n');
        for (number, packet) in text.chunks(MAX_PACKET).enumerate() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if number == 0 && !descriptors.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(descriptors));
            }
            rustix::io::retry_on_intr(|| {
                sendmsg(&self.socket, &[IoSlice::new(packet)], &mut control, SendFlags::NOSIGNAL)
            })?;
        }
        Ok(())
    }

    /// Receives a document; `None` at the end of the socket.
    ///
    /// A socket that does not block returns `WouldBlock` and keeps what it has received.
    pub(crate) fn receive<T: DeserializeOwned>(
        &mut self,
    ) -> io::Result<Option<ReceivedDocument<T>>> {
        let mut packet = vec![0; MAX_PACKET];
        let mut descriptors = Vec::new();
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let length = rustix::io::retry_on_intr(|| {
                let mut parts = [IoSliceMut::new(&mut packet)];
                recvmsg(&self.socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
            })?
            .bytes;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    descriptors.extend(received);
                }
            }
            if length == 0 {
                return Ok(None);
            }
            self.partial.extend_from_slice(&packet[..length]);
            if self.partial.len() > MAX_DOCUMENT {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "larger than 1 MiB"));
            }
            if self.partial.ends_with(b"\n") {
                let text = std::mem::take(&mut self.partial);
                let content = serde_json::from_slice(&text)?;
                return Ok(Some(ReceivedDocument { content, descriptors }));
            }
        }
    }
}

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl std::os::fd::AsRawFd for ControlSocket {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.socket.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_document_arrives_with_descriptor() {
        let (one, mut other) = ControlSocket::create_pair().unwrap();
        let text = "x".repeat(900_000);
        let sender = std::thread::spawn({
            let text = text.clone();
            move || one.send(&text, &[std::io::stdin().as_fd()])
        });
        let received = other.receive::<String>().unwrap().unwrap();
        assert_eq!((received.content, received.descriptors.len()), (text, 1));
        sender.join().unwrap().unwrap();
        assert!(other.receive::<String>().unwrap().is_none(), "the other end was dropped");
    }

    #[test]
    fn too_long_and_malformed_documents_are_errors() {
        let (one, mut other) = ControlSocket::create_pair().unwrap();
        assert!(one.send(&"x".repeat(MAX_DOCUMENT), &[]).is_err());
        rustix::io::write(&one, b"{\"cancel\":\n").unwrap();
        assert!(other.receive::<HostMessage>().is_err());
    }
}
