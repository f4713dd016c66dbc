//! What a connection reads and writes: a socket, or TLS over it.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::client::Client;
#[cfg(feature = "tls")]
pub(crate) use crate::tls::Acceptor;
#[cfg(feature = "tls")]
use crate::tls::Secured;

/// Begins TLS with clients: in a build without TLS none is made.
#[cfg(not(feature = "tls"))]
#[derive(Clone)]
pub(crate) struct Acceptor;

#[cfg(not(feature = "tls"))]
impl Acceptor {
    /// # Errors
    /// Always.
    pub fn new(_: &crate::TlsOptions) -> Result<Acceptor, String> {
        Err("--tls-port: this build has no TLS; build it with the feature `tls`".into())
    }

    /// # Errors
    /// Always.
    pub fn read(&self, options: &crate::TlsOptions) -> Result<(), String> {
        Acceptor::new(options).map(|_| ())
    }
}

/// A socket, or TLS over it.
pub(crate) enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Secured(Box<Secured>),
}

impl Stream {
    /// Begins TLS, if the client is to speak it.
    ///
    /// # Errors
    /// It does not, or is ended meanwhile.
    pub async fn begin(
        socket: TcpStream,
        tls: Option<Acceptor>,
        client: &Client,
    ) -> io::Result<Stream> {
        match tls {
            None => Ok(Stream::Plain(socket)),
            #[cfg(not(feature = "tls"))]
            Some(Acceptor) => {
                let _ = client;
                Err(io::ErrorKind::Unsupported.into())
            }
            #[cfg(feature = "tls")]
            Some(tls) => tls.accept(socket, client).await.map(Stream::Secured),
        }
    }

    /// The socket below.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Stream::Secured(secured) => secured.get_ref().0,
        }
    }

    /// Whether there may be something to read.
    pub fn poll_read_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        #[cfg(feature = "tls")]
        if let Stream::Secured(secured) = self
            && crate::tls::has_read_ahead(secured)
        {
            return Poll::Ready(Ok(()));
        }
        self.socket().poll_read_ready(context)
    }

    /// Reads what is there into the free space of a buffer: how many bytes, 0 at the end; `None` if
    /// nothing is there.
    pub async fn read_now(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
        let mut read = pin!(self.read_buf(buffer));
        let read = std::future::poll_fn(|context| {
            Poll::Ready(match read.as_mut().poll(context) {
                Poll::Ready(read) => read.map(Some),
                Poll::Pending => Ok(None),
            })
        });
        read.await
    }

    /// Whether bytes that it has taken are not all written to the socket.
    pub fn holds_back(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            #[cfg(feature = "tls")]
            Stream::Secured(secured) => secured.get_ref().1.wants_write(),
        }
    }

    /// Tells the client that nothing follows, where the protocol has a word for it.
    pub async fn end(&mut self) {
        #[cfg(feature = "tls")]
        if let Stream::Secured(secured) = self {
            // A client that does not read is not waited for.
            let told = |context: &mut Context<'_>| {
                let _ = Pin::new(&mut *secured).poll_shutdown(context);
                Poll::Ready(())
            };
            std::future::poll_fn(told).await;
        }
    }

    /// Bytes of memory that it takes at most.
    pub fn memory(&self) -> usize {
        match self {
            Stream::Plain(_) => 0,
            #[cfg(feature = "tls")]
            Stream::Secured(_) => crate::tls::MEMORY,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            #[cfg(feature = "tls")]
            Stream::Secured(secured) => Pin::new(secured).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            #[cfg(feature = "tls")]
            Stream::Secured(secured) => Pin::new(secured).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_flush(context),
            #[cfg(feature = "tls")]
            Stream::Secured(secured) => Pin::new(secured).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            #[cfg(feature = "tls")]
            Stream::Secured(secured) => Pin::new(secured).poll_shutdown(context),
        }
    }
}
