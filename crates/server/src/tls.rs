//! TLS 1.2 and 1.3, by `rustls` with the cryptography of `ring`.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::Poll;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, ServerConnection};
use tokio_rustls::server::TlsStream;

use crate::client::Client;
use crate::options::{TlsClients, TlsOptions};

/// Bytes of replies that TLS takes before they go to the socket.
const OUTGOING: usize = 16 << 10;
/// Bytes that TLS takes of a connection at most: a record that is not whole, one that nobody has
/// read, and replies, each with what surrounds them.
pub(crate) const MEMORY: usize = 3 * ((16 << 10) + 2048);
/// How long a client may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);

/// TLS over a client's socket.
pub(crate) type Secured = TlsStream<TcpStream>;

/// Begins TLS with clients.
#[derive(Clone)]
pub(crate) struct Acceptor(Arc<RwLock<Arc<ServerConfig>>>);

impl Acceptor {
    /// Reads the certificates and the key.
    ///
    /// # Errors
    /// What is wrong with which option, in one line.
    pub fn new(options: &TlsOptions) -> Result<Acceptor, String> {
        let config = Acceptor::config(options)?;
        Ok(Acceptor(Arc::new(RwLock::new(config))))
    }

    /// Reads others, for clients that come.
    ///
    /// # Errors
    /// The same; then nothing changes.
    pub fn read(&self, options: &TlsOptions) -> Result<(), String> {
        let config = Acceptor::config(options)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    fn config(options: &TlsOptions) -> Result<Arc<ServerConfig>, String> {
        let (cert, key) = (&options.cert_file, &options.key_file);
        let chain = certificates("--tls-cert-file", cert)?;
        let key_of = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| said("--tls-key-file", key, &error))?;
        let provider = Arc::new(default_provider());
        let verifier = match (options.clients, &options.ca_cert_file) {
            (TlsClients::Any, _) => None,
            (_, None) => {
                return Err(
                    "--tls-auth-clients needs the authorities of clients' certificates: \
                            give --tls-ca-cert-file, or --tls-auth-clients no"
                        .into(),
                );
            }
            (clients, Some(path)) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates("--tls-ca-cert-file", path)? {
                    let added = roots.add(certificate);
                    added.map_err(|error| said("--tls-ca-cert-file", path, &error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
                let verifier = match clients {
                    TlsClients::Optional => verifier.allow_unauthenticated(),
                    _ => verifier,
                };
                let built = verifier.build();
                Some(built.map_err(|error| said("--tls-ca-cert-file", path, &error))?)
            }
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let config = match verifier {
            None => config.with_no_client_auth(),
            Some(verifier) => config.with_client_cert_verifier(verifier),
        };
        let config = config
            .with_single_cert(chain, key_of)
            .map_err(|error| said("--tls-key-file", key, &error))?;
        Ok(Arc::new(config))
    }

    /// Begins TLS with a client.
    ///
    /// # Errors
    /// It speaks no TLS, is not let in, takes too long, or is ended meanwhile.
    pub async fn accept(&self, socket: TcpStream, client: &Client) -> io::Result<Box<Secured>> {
        let limit = |connection: &mut ServerConnection| {
            connection.set_buffer_limit(Some(OUTGOING));
        };
        let config = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        let accepting = TlsAcceptor::from(config).accept_with(socket, limit);
        let mut accepting = pin!(tokio::time::timeout(PATIENCE, accepting));
        let mut ended = pin!(client.woken.notified());
        let secured = poll_fn(|context| {
            if ended.as_mut().poll(context).is_ready() && client.is_killed() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            accepting
                .as_mut()
                .poll(context)
                .map(|it| it.map_err(io::Error::from).flatten())
        });
        Ok(Box::new(secured.await?))
    }
}

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| said(option, path, &error))?;
    match read.is_empty() {
        true => Err(said(option, path, &"no certificate is in it")),
        false => Ok(read),
    }
}

fn said(option: &str, path: &Path, reason: &dyn std::fmt::Display) -> String {
    format!("{option} {}: {reason}", path.display())
}

/// Whether TLS has bytes that it read from the socket and that nobody has taken.
pub(crate) fn has_read_ahead(secured: &mut Secured) -> bool {
    let (_, connection) = secured.get_mut();
    // Nothing new is processed: what was read has been. An error is found by the next read.
    let state = connection.process_new_packets();
    state.map_or(true, |it| it.plaintext_bytes_to_read() > 0)
}
