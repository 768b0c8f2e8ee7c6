//! Receivers in memory, behind the seam of the sender: each answers after a random while.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use redrive::internals::ambient;
use redrive::internals::delivery::{Request, Sender, Sent};
use redrive::internals::domain::outcome::Outcome;
use redrive::internals::domain::url::EndpointUrl;

use super::trace::Trace;

/// What a request takes at most.
const ANSWER_US: u64 = 40_000;

/// All receivers: one whose path is `/flaky` refuses every third request for the time being, one whose path is `/down`
/// its first five.
#[derive(Debug)]
pub(super) struct Receivers {
    trace: Trace,
    requests: Mutex<u32>,
    down: Mutex<u32>,
}

impl Receivers {
    pub(super) fn new(trace: Trace) -> Self {
        Self {
            trace,
            requests: Mutex::default(),
            down: Mutex::default(),
        }
    }

    fn status(&self, url: &EndpointUrl) -> u16 {
        let count = |counted: &Mutex<u32>| {
            let mut counted = counted.lock().unwrap();
            *counted += 1;
            *counted
        };
        let fails = match url.as_str() {
            url if url.ends_with("/flaky") => count(&self.requests).is_multiple_of(3),
            url if url.ends_with("/down") => count(&self.down) <= 5,
            _ => false,
        };
        if fails { 503 } else { 200 }
    }
}

#[async_trait]
impl Sender for Receivers {
    async fn send(&self, request: Request) -> Sent {
        let started_at = self.trace.now();
        let duration = Duration::from_micros(ambient::random() % ANSWER_US);
        ambient::sleep(duration).await;
        let status = self.status(&request.url);
        self.trace.note(&format!("answered {status}"), &request.body);
        Sent {
            outcome: Outcome::Status(status),
            retry_after: None,
            error: None,
            response: None,
            started_at,
            duration,
        }
    }

    fn refusal(&self, _: &EndpointUrl) -> Option<String> {
        None
    }

    async fn is_allowed(&self, _: &EndpointUrl) -> bool {
        true
    }
}
