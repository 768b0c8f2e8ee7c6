//! Types that are known to be there, so that a push need not make them.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Names that are remembered.
const KNOWN_MAX: usize = 10_000;

/// Types that are there: none is ever removed.
#[derive(Debug, Default)]
pub(in crate::store) struct KnownTypes(Mutex<HashSet<String>>);

impl KnownTypes {
    /// Those of `names` that are not known to be there, each once.
    pub(in crate::store) fn missing<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut missing: Vec<String> = names.filter(|name| !known.contains(*name)).map(str::to_owned).collect();
        missing.sort();
        missing.dedup();
        missing
    }

    /// They are committed.
    pub(in crate::store) fn learn(&self, names: Vec<String>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() + names.len() > KNOWN_MAX {
            known.clear();
        }
        known.extend(names);
    }
}
