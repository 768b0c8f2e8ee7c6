//! What is known about a URL before the first request to it, kept so that it is worked out once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::{HeaderMap, Uri};
use secrecy::ExposeSecret;

use crate::domain::outcome::FailureKind;
use crate::domain::signature::SigningSecret;
use crate::domain::url::EndpointUrl;

use super::failure::Failed;
use super::headers::{header_name, header_value};
use super::http::{EndpointSettings, SenderError};

/// URLs remembered at most. Past it all are forgotten at once, which costs a parse each.
const TARGETS_MAX: usize = 16_384;

/// A URL that may be tried.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) uri: Uri,
    pub(super) port: u16,
    pub(super) own: Arc<Own>,
}

impl Target {
    pub(super) fn host(&self) -> &str {
        self.uri.host().unwrap_or_default()
    }
}

/// What the configuration adds to requests to one URL.
#[derive(Debug, Default)]
pub(super) struct Own {
    pub(super) headers: HeaderMap,
    pub(super) secrets: Vec<SigningSecret>,
}

/// Targets by URL.
#[derive(Debug)]
pub(super) struct Targets {
    own: HashMap<EndpointUrl, Arc<Own>>,
    nothing_own: Arc<Own>,
    known: Mutex<HashMap<EndpointUrl, Arc<Target>>>,
}

impl Targets {
    pub(super) fn new(endpoints: &HashMap<EndpointUrl, EndpointSettings>) -> Result<Self, SenderError> {
        let own = endpoints
            .iter()
            .map(|(url, settings)| Ok((url.clone(), Arc::new(own(url, settings)?))))
            .collect::<Result<_, SenderError>>()?;
        Ok(Self {
            own,
            nothing_own: Arc::default(),
            known: Mutex::default(),
        })
    }

    /// The target of `url`.
    pub(super) fn get(&self, url: &EndpointUrl) -> Result<Arc<Target>, Failed> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = known().get(url) {
            return Ok(Arc::clone(target));
        }
        let target = Arc::new(self.target(url)?);
        let mut known = known();
        if known.len() >= TARGETS_MAX {
            known.clear();
        }
        known.insert(url.clone(), Arc::clone(&target));
        Ok(target)
    }

    fn target(&self, url: &EndpointUrl) -> Result<Target, Failed> {
        let uri =
            Uri::try_from(url.as_str()).map_err(|error| Failed::new(FailureKind::BadRequest, &error.to_string()))?;
        Ok(Target {
            uri,
            port: url.port(),
            own: Arc::clone(self.own.get(url).unwrap_or(&self.nothing_own)),
        })
    }
}

fn own(url: &EndpointUrl, settings: &EndpointSettings) -> Result<Own, SenderError> {
    let mut headers = HeaderMap::with_capacity(settings.headers.len());
    for (name, value) in &settings.headers {
        let refused = |failed: Failed| SenderError::Header {
            url: url.redacted(),
            problem: failed.text,
        };
        let mut value = header_value(name, value.expose_secret()).map_err(refused)?;
        value.set_sensitive(true);
        headers.insert(header_name(name).map_err(refused)?, value);
    }
    Ok(Own {
        headers,
        secrets: settings.secrets.clone(),
    })
}
