//! The files of TLS: `CONFIG SET` names others, or has the same ones read again when they were
//! renewed. Connections that there are go on with what they began with.

use std::sync::{Mutex, PoisonError};

use crate::options::{TlsClients, TlsOptions};
use crate::stream::Acceptor;

/// The files of TLS, and what begins TLS with them.
pub(crate) struct Certificates {
    acceptor: Acceptor,
    options: Mutex<TlsOptions>,
}

impl Certificates {
    /// The settings that name them.
    pub const SETTINGS: [&str; 4] = [
        "tls-auth-clients",
        "tls-ca-cert-file",
        "tls-cert-file",
        "tls-key-file",
    ];

    /// Those that an acceptor was made of.
    pub fn new(acceptor: Acceptor, options: TlsOptions) -> Certificates {
        Certificates {
            acceptor,
            options: Mutex::new(options),
        }
    }

    /// The settings' values.
    pub fn shown(&self) -> [(&'static str, String); 4] {
        let options = self.options.lock().unwrap_or_else(PoisonError::into_inner);
        let authority = options.ca_cert_file.as_ref();
        let values = [
            options.clients.name().into(),
            authority.map_or(String::new(), |it| it.display().to_string()),
            options.cert_file.display().to_string(),
            options.key_file.display().to_string(),
        ];
        let mut values = values.into_iter();
        Certificates::SETTINGS.map(|name| (name, values.next().expect("four values")))
    }

    /// Changes settings, and reads all files for connections that come. If something is wrong with
    /// any of them, nothing changes.
    ///
    /// # Errors
    /// What is wrong with which setting.
    pub fn change<'a>(&self, settings: &[&'a (String, String)]) -> Result<(), (&'a str, String)> {
        let mut options = self.options.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = options.clone();
        let mut last = "";
        for (name, value) in settings {
            last = name;
            match &**name {
                "tls-cert-file" => changed.cert_file = value.into(),
                "tls-key-file" => changed.key_file = value.into(),
                "tls-ca-cert-file" => {
                    changed.ca_cert_file = (!value.is_empty()).then(|| value.into());
                }
                _ => {
                    let clients = TlsClients::ALL.into_iter().find(|it| it.name() == value);
                    let why = "argument must be 'yes', 'no' or 'optional'";
                    changed.clients = clients.ok_or_else(|| (last, why.into()))?;
                }
            }
        }
        let read = self.acceptor.read(&changed);
        read.map_err(|why| (last, why))?;
        *options = changed;
        Ok(())
    }
}
