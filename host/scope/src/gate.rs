//! The last gate: nothing leaves this process for an API server while its write fence is down.
//!
//! The fence around a client is asked when a request is made. The request may then wait for its connection, for a TLS
//! handshake, or just for its turn; a process that is stopped there and goes on would still send it. So the socket asks
//! again at each write, beneath TLS. It cannot tell reads from writes, and holds up both.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use tower::Service;

use crate::fence::{Fenced, WriteFence};
use crate::kubeconfig::Policy;
use crate::resolve::JudgingResolver;

/// What opens the sockets.
type Inner = HttpConnector<JudgingResolver>;

/// Opens sockets that ask the fence.
#[derive(Clone)]
pub(crate) struct GatedConnector {
    inner: Inner,
    fence: WriteFence,
}

/// A socket that asks the fence before each write.
pub(crate) struct Gated<T> {
    inner: T,
    fence: WriteFence,
}

impl GatedConnector {
    /// Without a policy no address is judged.
    pub(crate) fn new(fence: WriteFence, policy: Option<Policy>) -> Self {
        let mut inner = HttpConnector::new_with_resolver(JudgingResolver::new(policy));
        // The scheme is judged by who adds TLS.
        inner.enforce_http(false);
        Self { inner, fence }
    }
}

impl Service<Uri> for GatedConnector {
    type Response = Gated<<Inner as Service<Uri>>::Response>;
    type Error = <Inner as Service<Uri>>::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, fence) = (self.inner.call(uri), self.fence.clone());
        Box::pin(async move {
            let inner = connecting.await?;
            Ok(Gated { inner, fence })
        })
    }
}

impl<T> Gated<T> {
    fn ask(&self) -> io::Result<()> {
        if self.fence.is_up() {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, Fenced))
        }
    }
}

impl<T: Connection> Connection for Gated<T> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

impl<T: Read + Unpin> Read for Gated<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buf)
    }
}

impl<T: Write + Unpin> Write for Gated<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.ask()?;
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.ask()?;
        Pin::new(&mut self.inner).poll_write_vectored(context, parts)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// A socket whose other end takes everything.
    struct Open;

    impl Write for Open {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn a_socket_sends_nothing_while_the_fence_is_down() {
        let fence = WriteFence::closed();
        let mut socket = Gated {
            inner: Open,
            fence: fence.clone(),
        };
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut sends = || {
            let part = [IoSlice::new(b"x")];
            let plain = Pin::new(&mut socket).poll_write(&mut context, b"x");
            let vectored = Pin::new(&mut socket).poll_write_vectored(&mut context, &part);
            [plain, vectored].map(|sent| matches!(sent, Poll::Ready(Ok(1))))
        };
        assert_eq!(sends(), [false; 2]);
        fence.extend(Instant::now(), Duration::from_secs(60));
        assert_eq!(sends(), [true; 2]);
        fence.close();
        assert_eq!(sends(), [false; 2]);
    }
}
