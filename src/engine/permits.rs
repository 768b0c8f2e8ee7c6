//! How many lists, filters and pages with bodies this process works on at one time.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Whole lists that are made and sorted at one time.
const WHOLE_LISTS: usize = 2;
/// Pages with bodies in them that are read at one time.
const PAGES_WITH_BODIES: usize = 8;

/// Streams with a filter at one time: each holds its regular expressions for as long as it is open.
const FILTERED_STREAMS: usize = 32;

/// Whose filter computes, and who has a whole list in memory.
#[derive(Debug)]
pub(super) struct Permits {
    pub(super) filters: Arc<Semaphore>,
    pub(super) streams: Arc<Semaphore>,
    pub(super) whole: Semaphore,
    pub(super) bodies: Semaphore,
}

impl Default for Permits {
    /// Half of the processors may compute filters.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            filters: Arc::new(Semaphore::new((processors / 2).max(1))),
            streams: Arc::new(Semaphore::new(FILTERED_STREAMS)),
            whole: Semaphore::new(WHOLE_LISTS),
            bodies: Semaphore::new(PAGES_WITH_BODIES),
        }
    }
}
