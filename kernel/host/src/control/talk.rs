//! Message connections through the control socket: JSON lines both ways, until the reply is
//! complete.

use std::io;

use skillhost_control::{
    ClientMessage, MessageError, MessageFailure, ServerMessage, UserMessage, spawn_line_reader,
    with_timeout, write_line,
};
use tokio::io::BufReader;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::kernel::Kernel;

/// Serves one message connection until it ends or the client disconnects.
pub(super) async fn serve_messages(
    kernel: &Kernel,
    request: MessageRequest,
    read: BufReader<OwnedReadHalf>,
    mut write: OwnedWriteHalf,
) -> io::Result<()> {
    let channel = match request {
        MessageRequest::Talk(request) => kernel.messages().accept_message(request).await,
        MessageRequest::Attach { thread } => kernel.messages().open_channel(&thread),
    };
    let channel = match channel {
        Ok(channel) => channel,
        Err(error) => {
            let failure = MessageError { what: MessageFailure::Request, error };
            return write_line(&mut write, &ServerMessage::Failed(failure)).await;
        }
    };
    let mut client = channel.attach();
    let mut client_lines = spawn_line_reader::<ClientMessage>(read);
    let limit = kernel.extensions().limits().control;
    loop {
        tokio::select! {
            // Messages of the kernel first: a client that floods its side must not delay them.
            biased;
            line = client.lines.recv() => match line {
                // A client that does not read is disconnected; it can attach again and receive the
                // full reply.
                Some(line) => with_timeout(limit, write_line(&mut write, &line)).await?,
                None => return Ok(()),
            },
            message = client_lines.recv() => match message.transpose()? {
                Some(message) => channel.handle_client_message(client.id, message).await,
                // The client has disconnected; the run continues without it.
                None => return Ok(()),
            },
        }
    }
}

/// The requests that open a message connection.
pub(super) enum MessageRequest {
    Talk(UserMessage),
    Attach { thread: String },
}
