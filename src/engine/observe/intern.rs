//! Texts that many rows have in common, held once.

use std::hash::Hash;
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
    pub(super) fn text(&mut self, text: String) -> Arc<String> {
        held_once(&mut self.texts, text)
    }

    pub(super) fn url(&mut self, url: EndpointUrl) -> Arc<EndpointUrl> {
        held_once(&mut self.urls, url)
    }

    /// Lets go of what no row has any more.
    pub(super) fn forget_unused(&mut self) {
        self.texts.retain(|_, text| Arc::strong_count(text) > 1);
        self.urls.retain(|_, url| Arc::strong_count(url) > 1);
    }
}

fn held_once<T: Clone + Eq + Hash>(held: &mut HashMap<T, Arc<T>>, one: T) -> Arc<T> {
    let known = held.entry(one).or_insert_with_key(|one| Arc::new(one.clone()));
    Arc::clone(known)
}
