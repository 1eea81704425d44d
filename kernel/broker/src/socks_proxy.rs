//! SOCKS 5 (RFC 1928): connections only, without authentication.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::destination::{ConnectError, HostAccess};

/// The first byte of a client.
pub(crate) const VERSION: u8 = 5;

/// The time for the greeting and the request of a client.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The method without authentication, and the answer that no offered method will do.
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;

const CONNECT: u8 = 1;

/// The codes of answers.
const SUCCEEDED: u8 = 0;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const COMMAND_UNKNOWN: u8 = 7;
const ADDRESS_UNKNOWN: u8 = 8;

/// Serves a connection of a program to its end.
pub(crate) async fn serve(mut stream: TcpStream, access: &HostAccess) {
    let request = timeout(REQUEST_TIMEOUT, read_request(&mut stream)).await;
    let Ok(Ok(request)) = request else { return };
    let upstream = match request {
        Ok((host, port)) => access.connect(&host, port).await.map_err(|error| match error {
            ConnectError::Invalid { .. } => ADDRESS_UNKNOWN,
            ConnectError::Refused { .. } => NOT_ALLOWED,
            ConnectError::Unreachable { .. } => HOST_UNREACHABLE,
        }),
        Err(code) => Err(code),
    };
    let code = *upstream.as_ref().err().unwrap_or(&SUCCEEDED);
    // The address of the connection is of no use to the program.
    if stream.write_all(&[VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]).await.is_err() {
        return;
    }
    if let Ok(mut upstream) = upstream {
        // Either side may end it at any time.
        let _ = copy_bidirectional(&mut stream, &mut upstream).await;
    }
}

/// Reads the greeting and the request; the inner error is the code of the answer.
async fn read_request(stream: &mut TcpStream) -> io::Result<Result<(String, u16), u8>> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let [_, count] = read_bytes::<2>(stream).await?;
    let mut methods = vec![0; count.into()];
    stream.read_exact(&mut methods).await?;
    // Only the program itself reaches this socket, so a password would prove nothing.
    if !methods.contains(&NO_AUTHENTICATION) {
        stream.write_all(&[VERSION, NO_METHOD]).await?;
        return Err(invalid());
    }
    stream.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let [version, command, _, kind] = read_bytes::<4>(stream).await?;
    if version != VERSION {
        return Err(invalid());
    }
    let host = match kind {
        1 => Ipv4Addr::from(read_bytes::<4>(stream).await?).to_string(),
        4 => Ipv6Addr::from(read_bytes::<16>(stream).await?).to_string(),
        3 => {
            let [length] = read_bytes::<1>(stream).await?;
            let mut name = vec![0; length.into()];
            stream.read_exact(&mut name).await?;
            // The name is resolved here and not by the program, so that its address can be checked.
            match String::from_utf8(name) {
                Ok(name) => name,
                Err(_) => return Ok(Err(ADDRESS_UNKNOWN)),
            }
        }
        _ => return Ok(Err(ADDRESS_UNKNOWN)),
    };
    let port = u16::from_be_bytes(read_bytes::<2>(stream).await?);
    // The whole request was read before it is refused, so that the client reads the answer and not
    // the end of a connection with unread bytes.
    Ok(if command == CONNECT { Ok((host, port)) } else { Err(COMMAND_UNKNOWN) })
}

async fn read_bytes<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}
