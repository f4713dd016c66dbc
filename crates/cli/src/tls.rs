//! Arguments about TLS, which `serve` takes by Redis' names.

use std::net::SocketAddr;
use std::path::PathBuf;

use timberline_server::{TlsClients, TlsOptions};

use crate::Failure;

/// What `--tls-auth-clients` takes.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Clients {
    /// Every client shows one, of an authority of --tls-ca-cert-file
    Yes,
    /// A client may show one
    Optional,
    /// Nobody is asked for one
    No,
}

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "TLS")]
pub struct Args {
    /// Serve TLS at this port of the addresses of --listen, beside their own; 0 is a free one
    #[arg(
        long,
        requires = "tls_cert_file",
        requires = "tls_key_file",
        value_name = "PORT"
    )]
    tls_port: Option<u16>,
    /// Serve nothing but TLS
    #[arg(long, requires = "tls_port")]
    tls_only: bool,
    /// The server's certificate, in PEM, and those of the authorities between it and the root
    #[arg(long, requires = "tls_port", value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
    /// Its private key, in PEM
    #[arg(long, requires = "tls_port", value_name = "FILE")]
    tls_key_file: Option<PathBuf>,
    /// Authorities whose certificates clients may have, in PEM
    #[arg(long, requires = "tls_port", value_name = "FILE")]
    tls_ca_cert_file: Option<PathBuf>,
    /// Whether clients have to show a certificate
    #[arg(long, value_enum, default_value = "yes", value_name = "WHO")]
    tls_auth_clients: Clients,
}

impl Args {
    /// How TLS is served; what is listened at without it changes.
    pub fn options(&self, listen: &mut Vec<SocketAddr>) -> Result<Option<TlsOptions>, Failure> {
        let (Some(port), Some(cert), Some(key)) =
            (self.tls_port, &self.tls_cert_file, &self.tls_key_file)
        else {
            return Ok(None);
        };
        let with_port = |it: &SocketAddr| SocketAddr::new(it.ip(), port);
        let mut secured: Vec<SocketAddr> = listen.iter().map(with_port).collect();
        secured.dedup();
        if self.tls_only {
            listen.clear();
        } else if port != 0 && listen.iter().any(|it| it.port() == port) {
            let line = format!("--tls-port {port}: --listen has this port, too; give another one");
            return Err(Failure::Impossible(line));
        }
        Ok(Some(TlsOptions {
            listen: secured,
            cert_file: cert.clone(),
            key_file: key.clone(),
            ca_cert_file: self.tls_ca_cert_file.clone(),
            clients: match self.tls_auth_clients {
                Clients::Yes => TlsClients::All,
                Clients::Optional => TlsClients::Optional,
                Clients::No => TlsClients::Any,
            },
        }))
    }
}
