//! Just enough HTTP to ask the daemon's own port.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

/// A server on loopback that says nothing for this long does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Status code and body of a GET on loopback.
pub(super) fn get(port: u16, path: &str) -> Result<(u16, String)> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).context("calling the daemon")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // HTTP/1.0: the server closes, and nothing is chunked.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .context("reading the daemon's answer")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("reading the daemon's answer")?;
    let status = head.split_whitespace().nth(1).context("reading the status line")?;
    Ok((status.parse().context("reading the status line")?, body.to_owned()))
}
