//! Whom connections over TLS trust: the authorities of the system, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
//!
//! Promise: a process that runs for years trusts what the system trusts. The authorities are read again once a minute
//! where connections are made, and soon after a certificate of an unknown one: nobody restarts a daemon because an
//! authority was added, or taken away. Where none can be read, those of before hold.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::ambient::Clock;

/// For how long what was read is good.
const GOOD: Duration = Duration::from_mins(1);
/// And where a certificate of an unknown authority came since: reading takes some milliseconds.
const GOOD_AT_FAILURE: Duration = Duration::from_secs(5);

/// The authorities that are trusted.
pub(crate) struct Authorities {
    provider: Arc<CryptoProvider>,
    /// Trusted beside those of the system.
    own: Vec<CertificateDer<'static>>,
    clock: Clock,
    read: Mutex<Read>,
}

#[derive(Clone)]
struct Read {
    /// None: there is no authority at all.
    verifier: Option<Arc<WebPkiServerVerifier>>,
    /// When (uptime).
    at: Duration,
}

impl fmt::Debug for Authorities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Authorities")
    }
}

impl Authorities {
    /// Reads those of the system; `own` are trusted beside them.
    #[must_use]
    pub(crate) fn read(own: Vec<CertificateDer<'static>>, clock: Clock) -> Arc<Self> {
        let provider = Arc::clone(ClientConfig::builder().crypto_provider());
        let read = Read {
            verifier: verifier(&own, &provider),
            at: clock.uptime(),
        };
        Arc::new(Self {
            provider,
            own,
            clock,
            read: Mutex::new(read),
        })
    }

    /// Whether there is none.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.locked().verifier.is_none()
    }

    /// For a client that shows no certificate.
    #[must_use]
    pub(crate) fn client(self: Arc<Self>) -> ClientConfig {
        forgetful(
            ClientConfig::builder()
                .dangerous()
                .with_custom_certificate_verifier(self)
                .with_no_client_auth(),
        )
    }

    fn locked(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was read less than `good` ago, or is read now.
    fn within(&self, good: Duration) -> Read {
        let mut read = self.locked();
        let now = self.clock.uptime();
        if now.saturating_sub(read.at) >= good {
            read.at = now;
            // While the files are being replaced there may be none.
            if let Some(verifier) = verifier(&self.own, &self.provider) {
                read.verifier = Some(verifier);
            }
        }
        read.clone()
    }
}

/// Resumes no session: that asks for no certificate, and would go on for as long as both sides have tickets with a
/// server whose authority is not trusted any more.
pub(crate) fn forgetful(mut client: ClientConfig) -> ClientConfig {
    client.resumption = Resumption::disabled();
    client
}

fn verifier(own: &[CertificateDer<'static>], provider: &Arc<CryptoProvider>) -> Option<Arc<WebPkiServerVerifier>> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(?error, "an authority of the system cannot be read");
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    roots.add_parsable_certificates(own.iter().cloned());
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .ok()
}

impl ServerCertVerifier for Authorities {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        revocation: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verify = |read: &Read| match &read.verifier {
            Some(verifier) => verifier.verify_server_cert(certificate, between, name, revocation, now),
            None => Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
        };
        let read = self.within(GOOD);
        match verify(&read) {
            // An authority that was renewed under its name has another key.
            Err(
                error @ Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature),
            ) => {
                let again = self.within(GOOD_AT_FAILURE);
                if again.at == read.at {
                    Err(error)
                } else {
                    verify(&again)
                }
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
