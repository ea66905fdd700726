//! Ports come from below the range that the kernel hands out to clients, so that a stopped server finds its own free again.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// Debian's ephemeral range starts at 32768.
const RANGE: std::ops::Range<u16> = 20_000..32_000;
const TRIES: usize = 1_000;

/// A port of loopback that is kept until it is released to the server that is meant to have it.
#[derive(Debug)]
pub(crate) struct Reserved {
    listener: TcpListener,
    port: u16,
}

impl Reserved {
    pub(crate) fn take() -> Result<Self> {
        // Random, so that control planes started at the same moment by several processes do not queue for one port.
        (0..TRIES)
            .find_map(|_| {
                let port = rand::random_range(RANGE);
                TcpListener::bind((Ipv4Addr::LOCALHOST, port))
                    .ok()
                    .map(|listener| Self { listener, port })
            })
            .context("finding a free port on loopback between 20000 and 32000")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Frees the port and answers it. No connection was ever accepted on it, so it can be bound again at once.
    pub(crate) fn release(self) -> u16 {
        drop(self.listener);
        self.port
    }
}
