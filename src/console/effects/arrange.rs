//! Sorts and filters large lists on a thread of its own: of each list only the newest request counts.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::console::state::event::{Event, Input};
use crate::console::table::ArrangeJob;

/// Where requests are left. A thread works as long as there are any.
#[derive(Clone, Debug)]
pub(super) struct Arranger {
    waiting: Arc<Mutex<Waiting>>,
    inputs: mpsc::Sender<Input>,
}

/// The newest request of each list, and whether somebody works on them.
#[derive(Debug, Default)]
struct Waiting {
    jobs: Vec<ArrangeJob>,
    at_work: bool,
}

impl Arranger {
    pub(super) fn new(inputs: mpsc::Sender<Input>) -> Self {
        Self {
            waiting: Arc::default(),
            inputs,
        }
    }

    /// Replaces an older request for the same list.
    pub(super) fn submit(&self, job: ArrangeJob) {
        let begin = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.put(job);
            !std::mem::replace(&mut waiting.at_work, true)
        };
        if begin {
            let worker = self.clone();
            tokio::task::spawn_blocking(move || worker.work());
        }
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            let arranged = job.run();
            // Superseded meanwhile: the newer request answers.
            if !self.is_superseded(&job) && self.inputs.blocking_send(Event::Arranged(arranged).into()).is_err() {
                return;
            }
        }
    }

    fn next(&self) -> Option<ArrangeJob> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let job = waiting.jobs.pop();
        waiting.at_work = job.is_some();
        job
    }

    fn is_superseded(&self, job: &ArrangeJob) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.jobs.iter().any(|newer| newer.has_list_of(job))
    }
}

impl Waiting {
    fn put(&mut self, job: ArrangeJob) {
        self.jobs.retain(|older| !older.has_list_of(&job));
        self.jobs.push(job);
    }
}
