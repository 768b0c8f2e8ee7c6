//! Texts that many rows have in common, held once.

use std::sync::Arc;

use crate::ambient::{HashMap, HashSet};
use crate::domain::url::EndpointUrl;

/// The texts and URLs in use.
#[derive(Debug, Default)]
pub(super) struct Interner {
    texts: HashSet<Arc<str>>,
    urls: HashMap<EndpointUrl, Arc<EndpointUrl>>,
}

impl Interner {
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&new));
        new
    }

    pub(super) fn url(&mut self, url: EndpointUrl) -> Arc<EndpointUrl> {
        let known = self.urls.entry(url).or_insert_with_key(|url| Arc::new(url.clone()));
        Arc::clone(known)
    }

    /// Lets go of what no row has any more.
    pub(super) fn forget_unused(&mut self) {
        self.texts.retain(|text| Arc::strong_count(text) > 1);
        self.urls.retain(|_, url| Arc::strong_count(url) > 1);
    }
}
