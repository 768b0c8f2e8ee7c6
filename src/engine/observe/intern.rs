//! Texts that many rows have in common, held once.

use std::sync::Arc;

use crate::ambient::HashMap;
use crate::domain::url::EndpointUrl;

/// The texts and URLs in use.
#[derive(Debug, Default)]
pub(super) struct Interner {
    texts: HashMap<String, Arc<String>>,
    urls: HashMap<EndpointUrl, Arc<EndpointUrl>>,
}

impl Interner {
    pub(super) fn text(&mut self, text: &str) -> Arc<String> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let new = Arc::new(text.to_owned());
        self.texts.insert(text.to_owned(), Arc::clone(&new));
        new
    }

    pub(super) fn url(&mut self, url: EndpointUrl) -> Arc<EndpointUrl> {
        let known = self.urls.entry(url).or_insert_with_key(|url| Arc::new(url.clone()));
        Arc::clone(known)
    }

    /// Lets go of what no row has any more.
    pub(super) fn forget_unused(&mut self) {
        self.texts.retain(|_, text| Arc::strong_count(text) > 1);
        self.urls.retain(|_, url| Arc::strong_count(url) > 1);
    }
}
