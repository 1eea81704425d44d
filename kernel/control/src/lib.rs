//! The control socket of a home, by which one command reaches the kernel that another command runs.
//!
//! A request is one JSON line, and so is its response. The directory of the socket is private to its
//! owner, and each end checks that the peer is the same user: a peer could also replace the libraries
//! that the kernel loads. The server is part of the kernel.

#![cfg(unix)]

mod client;
mod endpoint;
mod lines;
mod message;
mod request;

pub use client::{MessageConnection, RequestError, is_gone, send_request, socket_path};
pub use endpoint::{check_peer, prepare_directory};
pub use lines::{LINE_LIMIT, spawn_line_reader, with_timeout, write_line};
pub use message::{ClientMessage, MessageError, ServerMessage, UserMessage};
pub use request::{ControlRequest, ControlResponse};
