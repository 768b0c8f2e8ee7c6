//! stub
use std::sync::Arc;
/// u
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointUrl(Arc<str>);
/// e
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("url")]
pub struct UrlError;
impl EndpointUrl {
    /// p
    pub fn parse(t: &str) -> Result<Self, UrlError> {
        Ok(Self(url::Url::parse(t).map_err(|_| UrlError)?.as_str().into()))
    }
    /// s
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
