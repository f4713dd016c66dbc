//! TLS over real sockets, with certificates that `tls/make.sh` made.

#![cfg(feature = "tls")]

mod client;

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use client::{Client, Folder, Running, encoded};
use timberline_server::{Error, Options, Server, TlsClients, TlsOptions};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};

type Secured = StreamOwned<ClientConnection, TcpStream>;

const BOTH: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/tls")
        .join(name)
}

fn with_tls(options: &mut Options, clients: TlsClients) {
    options.tls = Some(TlsOptions {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        cert_file: file("server.pem"),
        key_file: file("server.key"),
        ca_cert_file: (clients != TlsClients::Any).then(|| file("authority.pem")),
        clients,
    });
}

fn running(folder: &Folder, clients: TlsClients) -> Running {
    Running::with(folder, |it| with_tls(it, clients))
}

/// A client with the certificate of this name, if any.
fn connect(
    server: &Running,
    certificate: Option<&str>,
    versions: &[&'static SupportedProtocolVersion],
) -> Client<Secured> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(file("authority.pem")).unwrap();
    roots.add(authority).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let config = match certificate {
        None => config.with_no_client_auth(),
        Some(name) => {
            let chain = vec![CertificateDer::from_pem_file(file(&format!("{name}.pem"))).unwrap()];
            let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key"))).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let name = "localhost".try_into().unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let socket = TcpStream::connect(server.tls[0]).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    Client::new(StreamOwned::new(connection, socket))
}

/// Whether a client with this certificate is served.
fn served(server: &Running, certificate: Option<&str>) -> bool {
    let mut client = connect(server, certificate, &BOTH);
    client.try_send(b"PING\r\n");
    client.next(b"+PONG\r\n".len()) == b"+PONG\r\n"
}

#[test]
fn clients_are_served_by_both_versions() {
    let folder = Folder::new();
    let server = running(&folder, TlsClients::Any);
    for (versions, expected) in [
        (&BOTH[..1], ProtocolVersion::TLSv1_2),
        (&BOTH[1..], ProtocolVersion::TLSv1_3),
    ] {
        let mut client = connect(&server, None, versions);
        assert_eq!(client.says("SET key value"), "+OK\r\n");
        assert_eq!(client.says("GET key"), "$5\r\nvalue\r\n");
        assert_eq!(client.stream().conn.protocol_version(), Some(expected));
    }
    // The plain port goes on, with the same keys.
    assert_eq!(server.client().says("GET key"), "$5\r\nvalue\r\n");
    // Who does not speak TLS is disconnected, and others are served.
    let mut plain = Client::new(TcpStream::connect(server.tls[0]).unwrap());
    plain.send(b"PING\r\n");
    assert!(!plain.rest().starts_with(b"+PONG"));
    assert!(served(&server, None));
    // One that says nothing does not keep the server from stopping.
    let _silent = TcpStream::connect(server.tls[0]).unwrap();
    server.stop();
}

#[test]
fn much_data_goes_both_ways() {
    let folder = Folder::new();
    let server = running(&folder, TlsClients::Any);
    let mut client = connect(&server, None, &BOTH);
    // Longer than a record of TLS, and than all buffers.
    let value: Vec<u8> = (0..3 << 20).map(|it: u32| (it / 7) as u8).collect();
    client.send(&encoded(&[b"SET", b"large", &value]));
    assert_eq!(client.reply(), b"+OK\r\n");
    for _ in 0..3 {
        let reply = client.command(&[b"GET", b"large"]);
        assert!(
            reply
                .strip_prefix(b"$3145728\r\n")
                .unwrap()
                .starts_with(&value)
        );
        assert_eq!(reply.len(), value.len() + "$3145728\r\n\r\n".len());
    }
    // Many commands in one record, and more than one read takes.
    let mut sent = Vec::new();
    for number in 0..5000 {
        sent.extend(encoded(&[b"INCR", format!("n{}", number % 9).as_bytes()]));
    }
    client.send(&sent);
    (0..5000).for_each(|_| assert_eq!(client.reply()[0], b':'));
    // Messages and waits, which something else than the socket wakes.
    let mut subscriber = connect(&server, None, &BOTH);
    let mut waiter = connect(&server, None, &BOTH);
    subscriber.ask("SUBSCRIBE news");
    waiter.send(b"BLPOP list 0\r\n");
    assert_eq!(client.says("PUBLISH news hello"), ":1\r\n");
    assert!(subscriber.reply().ends_with(b"$5\r\nhello\r\n"));
    client.ask("RPUSH list element");
    assert_eq!(waiter.reply(), b"*2\r\n$4\r\nlist\r\n$7\r\nelement\r\n");
}

#[test]
fn clients_show_certificates_if_they_have_to() {
    let folder = Folder::new();
    let certificates = [Some("client"), None, Some("stranger")];
    let server = running(&folder, TlsClients::All);
    assert_eq!(
        certificates.map(|it| served(&server, it)),
        [true, false, false]
    );
    server.stop();
    let server = running(&folder, TlsClients::Optional);
    assert_eq!(
        certificates.map(|it| served(&server, it)),
        [true, true, false]
    );
}

#[test]
fn bad_files_are_named() {
    let folder = Folder::new();
    let open = |change: &dyn Fn(&mut TlsOptions)| {
        let mut options = Options::new(folder.0.join("store"));
        options.listen = vec!["127.0.0.1:0".parse().unwrap()];
        with_tls(&mut options, TlsClients::All);
        change(options.tls.as_mut().unwrap());
        match Server::open(options) {
            Err(Error::Tls(why)) => why,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it started"),
        }
    };
    let why = open(&|it| it.cert_file = file("nosuch"));
    assert!(
        why.starts_with("--tls-cert-file ") && why.contains("nosuch: "),
        "{why}"
    );
    let why = open(&|it| it.cert_file = file("make.sh"));
    assert!(why.ends_with("make.sh: no certificate is in it"), "{why}");
    let why = open(&|it| it.key_file = file("server.pem"));
    assert!(why.starts_with("--tls-key-file "), "{why}");
    let why = open(&|it| it.key_file = file("client.key"));
    assert!(why.starts_with("--tls-key-file "), "{why}");
    let why = open(&|it| it.ca_cert_file = None);
    assert!(why.contains("--tls-ca-cert-file"), "{why}");
}

/// A renewed certificate is read without a restart; one that does not fit its key is refused.
#[test]
fn certificates_are_read_again() {
    let folder = Folder::new();
    let copy = |name: &str| folder.0.join(name);
    for name in ["server.pem", "server.key"] {
        std::fs::copy(file(name), copy(name)).unwrap();
    }
    let server = Running::with(&folder, |options| {
        with_tls(options, TlsClients::Any);
        let tls = options.tls.as_mut().unwrap();
        (tls.cert_file, tls.key_file) = (copy("server.pem"), copy("server.key"));
    });
    let mut client = connect(&server, None, &BOTH);
    assert_eq!(client.says("PING"), "+PONG\r\n");
    let set = |client: &mut Client<Secured>, settings: &[(&str, &Path)]| {
        let mut words: Vec<&[u8]> = vec![b"CONFIG", b"SET"];
        for (name, path) in settings {
            words.extend([name.as_bytes(), path.as_os_str().as_encoded_bytes()]);
        }
        String::from_utf8(client.command(&words)).unwrap()
    };
    // A certificate without its key.
    let said = set(&mut client, &[("tls-cert-file", &file("stranger.pem"))]);
    assert!(said.starts_with("-ERR CONFIG SET failed"), "{said}");
    assert!(said.contains("'tls-cert-file'"), "{said}");
    let shown = client.says("CONFIG GET tls-cert-file");
    assert!(shown.contains("server.pem"), "{shown}");
    assert!(served(&server, None));
    // Files of the same names have something else now, of an authority that clients don't know.
    std::fs::copy(file("stranger.pem"), copy("server.pem")).unwrap();
    std::fs::copy(file("stranger.key"), copy("server.key")).unwrap();
    let both = [
        ("tls-cert-file", &*copy("server.pem")),
        ("tls-key-file", &*copy("server.key")),
    ];
    assert_eq!(set(&mut client, &both), "+OK\r\n");
    assert!(!served(&server, None));
    // Who was there goes on, and brings the first one back.
    let both = [
        ("tls-cert-file", &*file("server.pem")),
        ("tls-key-file", &*file("server.key")),
    ];
    assert_eq!(set(&mut client, &both), "+OK\r\n");
    assert!(served(&server, None));
    // From now on clients need a certificate.
    assert_eq!(
        client.says("CONFIG SET tls-auth-clients maybe"),
        "-ERR CONFIG SET failed (possibly related to argument 'tls-auth-clients') - argument must \
         be 'yes', 'no' or 'optional'\r\n"
    );
    let said = set(&mut client, &[("tls-ca-cert-file", &file("authority.pem"))]);
    assert_eq!(said, "+OK\r\n");
    assert_eq!(client.says("CONFIG SET tls-auth-clients yes"), "+OK\r\n");
    assert!(!served(&server, None));
    assert!(served(&server, Some("client")));
}
