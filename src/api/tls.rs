//! What the API proves who it is with: a certificate and its key, read again when their files change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::ambient::Clock;

/// Between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Files of a certificate, with what was last read from them.
#[derive(Clone)]
pub struct Tls(Arc<Inner>);

struct Inner {
    certificate: PathBuf,
    key: PathBuf,
    clock: Clock,
    held: Mutex<Held>,
}

struct Held {
    acceptor: TlsAcceptor,
    changed: Changed,
    look_at: Duration,
}

/// When both files were changed.
type Changed = [Option<SystemTime>; 2];

impl Tls {
    /// Reads both files.
    ///
    /// # Errors
    /// A sentence that names the key of the configuration whose file cannot be used.
    pub fn open(certificate: &Path, key: &Path, clock: Clock) -> Result<Self, String> {
        let changed = changed(certificate, key);
        let held = Held {
            acceptor: read(certificate, key)?,
            changed,
            look_at: clock.uptime() + LOOK_EVERY,
        };
        Ok(Self(Arc::new(Inner {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            clock,
            held: Mutex::new(held),
        })))
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.0.acceptor().accept(stream).await
    }
}

impl Inner {
    fn acceptor(&self) -> TlsAcceptor {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.uptime();
        if now >= held.look_at {
            held.look_at = now + LOOK_EVERY;
            let changed = changed(&self.certificate, &self.key);
            if held.changed != changed {
                // One of two that are being replaced does not fit the other: it is told once, and tried when the
                // next one changes.
                held.changed = changed;
                match read(&self.certificate, &self.key) {
                    Ok(acceptor) => {
                        held.acceptor = acceptor;
                        tracing::info!("the certificate of the API was read again");
                    }
                    Err(why) => tracing::warn!(?why, "the API continues with the previous certificate"),
                }
            }
        }
        held.acceptor.clone()
    }
}

fn changed(certificate: &Path, key: &Path) -> Changed {
    [certificate, key].map(|path| path.metadata().and_then(|about| about.modified()).ok())
}

fn read(certificate: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("api.tls.certificate: {}: {error}", certificate.display()))?;
    if chain.is_empty() {
        return Err(format!(
            "api.tls.certificate: {} has no certificate",
            certificate.display()
        ));
    }
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| format!("api.tls.key: {}: {error}", key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("api.tls: {error}"))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| format!("api.tls: certificate and key do not fit: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
