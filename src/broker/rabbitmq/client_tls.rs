//! What this process proves who it is with to the broker: a certificate and its key, read again at each connection, so
//! that a renewed one is used from the next one on.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::ambient::Clock;
use crate::authorities::{Authorities, forgetful};

/// Files of a client's certificate (`broker.tls`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// PEM, with those between it and an authority that the broker knows.
    pub certificate: PathBuf,
    /// PEM.
    pub key: PathBuf,
    /// PEM: an authority that is trusted beside those of the system.
    pub authority: Option<PathBuf>,
}

/// When each file was changed.
type Changed = [Option<SystemTime>; 3];

impl ClientTls {
    fn changed(&self) -> Changed {
        let changed = |path: &Path| path.metadata().and_then(|about| about.modified()).ok();
        [
            changed(&self.certificate),
            changed(&self.key),
            self.authority.as_deref().and_then(changed),
        ]
    }

    fn identity(&self) -> io::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| unusable("key", &self.key, &error))?;
        Ok((certificates("certificate", &self.certificate)?, key))
    }
}

/// Trusts the roots of the system and proves who we are where that is configured.
pub(super) fn config(tls: Option<&ClientTls>) -> io::Result<ClientConfig> {
    let own = match tls.and_then(|tls| tls.authority.as_deref()) {
        Some(authority) => certificates("authority", authority)?,
        None => Vec::new(),
    };
    let authorities = Authorities::read(own, Clock::system());
    if authorities.is_empty() {
        return Err(io::Error::other("the system has no root certificates"));
    }
    let Some(tls) = tls else {
        return Ok(authorities.client());
    };
    let (chain, key) = tls.identity()?;
    ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(authorities)
        .with_client_auth_cert(chain, key)
        .map(forgetful)
        .map_err(|error| io::Error::other(format!("broker.tls: certificate and key do not fit: {error}")))
}

fn certificates(name: &str, path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let chain = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(name, path, &error))?;
    if chain.is_empty() {
        return Err(unusable(name, path, &"it has no certificate"));
    }
    Ok(chain)
}

fn unusable(name: &str, path: &Path, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("broker.tls.{name}: {}: {why}", path.display()))
}

/// A client of HTTP that is made anew when the files of its certificate change.
pub(super) struct HttpClient {
    tls: Option<ClientTls>,
    made: Mutex<(Changed, reqwest::Client)>,
}

impl HttpClient {
    /// Reads the files, where there are any.
    pub(super) fn new(tls: Option<ClientTls>) -> Result<Self, String> {
        let changed = tls.as_ref().map(ClientTls::changed).unwrap_or_default();
        let made = Mutex::new((changed, client(tls.as_ref())?));
        Ok(Self { tls, made })
    }

    /// The present one. Of two files that are being replaced one may not fit the other: then the one of before.
    pub(super) fn get(&self) -> reqwest::Client {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tls) = &self.tls {
            let changed = tls.changed();
            if changed != made.0 {
                made.0 = changed;
                match client(Some(tls)) {
                    Ok(client) => made.1 = client,
                    Err(why) => tracing::warn!(?why, "the management API is asked with the certificate of before"),
                }
            }
        }
        made.1.clone()
    }
}

fn client(tls: Option<&ClientTls>) -> Result<reqwest::Client, String> {
    let builder = reqwest::Client::builder()
        .connect_timeout(super::management::CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy();
    let builder = match tls {
        Some(tls) => builder.tls_backend_preconfigured(config(Some(tls)).map_err(|error| error.to_string())?),
        // Without any authority it can still ask over plain HTTP.
        None => builder.tls_backend_preconfigured(Authorities::read(Vec::new(), Clock::system()).client()),
    };
    builder.build().map_err(|error| error.without_url().to_string())
}
