//! A certificate authority of one test, and TLS with its certificate in front of a server without.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::servers::scratch_directory;

/// An authority that nobody trusts by itself, with one certificate for this machine.
pub struct Authority {
    /// `ca.pem`, and for servers `cert.pem` and `key.pem`.
    directory: TempDir,
    config: Arc<ServerConfig>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn create() -> Self {
        let own_key = KeyPair::generate().expect("a key");
        let mut own = CertificateParams::new(Vec::new()).expect("no names");
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        own.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let root = own.self_signed(&own_key).expect("a certificate");
        let issuer = Issuer::new(own, own_key);
        let key = KeyPair::generate().expect("a key");
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let server = CertificateParams::new(names).expect("names");
        let server = server.signed_by(&key, &issuer).expect("a certificate");
        let directory = scratch_directory();
        for (name, text) in [
            ("ca.pem", root.pem()),
            ("cert.pem", server.pem()),
            ("key.pem", key.serialize_pem()),
        ] {
            fs::write(directory.path().join(name), text).expect("own directory");
        }
        let private = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider's versions")
            .with_no_client_auth()
            .with_single_cert(vec![server.der().clone()], private)
            .expect("a matching key");
        Self {
            directory,
            config: Arc::new(config),
            issuer,
        }
    }

    /// One that demands that clients show a certificate of its own, which is `client.pem` and `client.key`.
    pub fn with_client() -> Self {
        let authority = Self::create();
        let key = KeyPair::generate().expect("a key");
        let mut client = CertificateParams::new(Vec::new()).expect("no names");
        client.distinguished_name.push(DnType::CommonName, "a client");
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let client = client.signed_by(&key, &authority.issuer).expect("a certificate");
        for (name, text) in [("client.pem", client.pem()), ("client.key", key.serialize_pem())] {
            fs::write(authority.directory.path().join(name), text).expect("own directory");
        }
        authority
    }

    /// The path of a file.
    pub fn file(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// What has to be trusted.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// Where the files are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// TLS in front of a server on this machine.
    pub async fn front(&self, server: SocketAddr) -> Front {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config));
        let task = tokio::spawn(accept(listener, acceptor, server));
        Front { address, task }
    }
}

/// It ends with this value.
pub struct Front {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Front {
    /// The URL of a path that begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, server: SocketAddr) {
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            // A client that does not trust us hangs up.
            let Ok(mut near) = acceptor.accept(near).await else {
                return;
            };
            if let Ok(mut far) = TcpStream::connect(server).await {
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            }
        });
    }
}
