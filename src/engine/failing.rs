//! Sources that this process cannot read at present, and since when.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::view::Source;
use crate::ambient::HashMap;
use crate::domain::time::Timestamp;

/// Since when each of them cannot be read.
#[derive(Debug, Default)]
pub(super) struct Failing(Mutex<HashMap<Source, Timestamp>>);

impl Failing {
    pub(super) fn failing(&self) -> MutexGuard<'_, HashMap<Source, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
