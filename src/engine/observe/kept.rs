//! What did not change stays the same allocation.

use std::sync::Arc;

/// The last snapshot's item where it is equal, else the new one.
pub(super) fn item<T: PartialEq>(new: T, last: Option<&Arc<T>>) -> Arc<T> {
    match last {
        Some(last) if **last == new => Arc::clone(last),
        Some(_) | None => Arc::new(new),
    }
}

/// The last snapshot's list where it has the same items in the same order, else the new one.
pub(super) fn list<T>(new: Vec<Arc<T>>, last: &Arc<Vec<Arc<T>>>) -> Arc<Vec<Arc<T>>> {
    let same = new.len() == last.len() && new.iter().zip(last.iter()).all(|(new, old)| Arc::ptr_eq(new, old));
    if same { Arc::clone(last) } else { Arc::new(new) }
}
