//! Receivers in memory, behind the seam of the sender. A receiver goes on with what it got when its client is gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redrive::internals::ambient;
use redrive::internals::delivery::{Request, Sender, Sent};
use redrive::internals::domain::outcome::{FailureKind, Outcome};
use redrive::internals::domain::url::EndpointUrl;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::plan::{Manner, REQUEST_TIMEOUT};
use super::trace::Trace;
use crate::checker::{Seen, body_hash};

/// A broken message is taken after so many failures: more than any schedule has.
const MENDED_AFTER: u32 = 14;

/// All receivers, and the log of what they saw.
#[derive(Debug)]
pub struct Receivers {
    trace: Trace,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    seen: Vec<Seen>,
    order: u64,
    /// Paths that answer nobody until then.
    down: BTreeMap<String, Instant>,
    started: Vec<(usize, Instant)>,
    /// How often each message came.
    came: BTreeMap<String, u32>,
    /// They have nothing against any message any more.
    are_mended: bool,
}

/// What a receiver does with one request.
#[derive(Clone, Copy, Debug)]
struct Answer {
    after: Duration,
    status: u16,
}

impl Receivers {
    pub fn new(trace: Trace) -> Self {
        Self {
            trace,
            log: Mutex::default(),
        }
    }

    pub fn down(&self, path: &str, span: Duration) {
        self.log().down.insert(path.to_owned(), Instant::now() + span);
    }

    /// Nothing is refused any more.
    pub fn mend(&self) {
        self.log().are_mended = true;
    }

    /// How often a message was taken.
    pub fn taken(&self, id: &str) -> usize {
        let taken = |seen: &&Seen| seen.id == id && seen.status.is_some_and(|status| status < 300);
        self.log().seen.iter().filter(taken).count()
    }

    /// Everything that was seen up to now.
    pub fn seen(&self) -> Vec<Seen> {
        self.log().seen.clone()
    }

    /// Requests with the queue and the time at which they began.
    pub fn began(&self) -> Vec<(String, Instant)> {
        let log = self.log();
        let began = log
            .started
            .iter()
            .map(|(at, when)| (log.seen[*at].queue.clone(), *when));
        began.collect()
    }

    pub fn has_succeeded(&self, id: &str) -> bool {
        let succeeded = |seen: &Seen| seen.id == id && seen.status.is_some_and(|status| status < 300);
        self.log().seen.iter().rev().any(succeeded)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_down(&self, path: &str) -> bool {
        self.log().down.get(path).is_some_and(|until| Instant::now() < *until)
    }

    /// How often this body came before.
    fn came(&self, body: &str) -> u32 {
        let mut log = self.log();
        let came = log.came.entry(body.to_owned()).or_default();
        *came += 1;
        *came - 1
    }

    fn arrives(&self, request: &Request) -> usize {
        let mut log = self.log();
        log.order += 1;
        let origin = request.origin.as_ref();
        let seen = Seen {
            queue: origin.map_or_else(String::new, |origin| origin.queue.as_str().to_owned()),
            id: request.id.as_str().to_owned(),
            epoch: origin.and_then(|origin| u64::try_from(origin.epoch.0).ok()),
            start: log.order,
            end: None,
            status: None,
            body_hash: body_hash(&request.body),
        };
        log.seen.push(seen);
        let at = log.seen.len() - 1;
        log.started.push((at, Instant::now()));
        at
    }

    fn answers(&self, at: usize, status: Option<u16>) {
        let mut log = self.log();
        log.order += 1;
        let order = log.order;
        let seen = &mut log.seen[at];
        if seen.end.is_none() {
            seen.end = Some(order);
            seen.status = status;
        }
    }
}

/// What `manner` does with this request.
fn answer(manner: Manner, body: &str, came: u32) -> Answer {
    let (random, status) = (
        ambient::random(),
        |failing: bool, status| if failing { status } else { 200 },
    );
    let short = Duration::from_micros(random % 40_000);
    let number = body
        .rsplit(' ')
        .next()
        .and_then(|number| number.parse::<u32>().ok())
        .unwrap_or(0);
    match manner {
        Manner::Takes => Answer {
            after: short,
            status: 200,
        },
        Manner::Flaky => Answer {
            after: short,
            status: status((random >> 20).is_multiple_of(4), 503),
        },
        Manner::Slow => Answer {
            after: Duration::from_micros((random >> 8) % 1_050_000),
            status: 200,
        },
        Manner::Picky => Answer {
            after: short,
            status: status(number.is_multiple_of(3), 400),
        },
        Manner::Broken => Answer {
            after: short,
            status: status(number == 2 && came < MENDED_AFTER, 500),
        },
    }
}

#[derive(Debug)]
pub struct Line(pub Arc<Receivers>);

#[async_trait]
impl Sender for Line {
    async fn send(&self, request: Request) -> Sent {
        let started_at = self.0.trace.now();
        let began = Instant::now();
        let path = request.url.as_str().rsplit('/').next().unwrap_or_default().to_owned();
        let (body, epoch) = (
            String::from_utf8_lossy(&request.body).into_owned(),
            request.origin.as_ref().map_or(0, |origin| origin.epoch.0),
        );
        let sent = move |outcome| Sent {
            outcome,
            retry_after: None,
            error: None,
            response: None,
            started_at,
            duration: began.elapsed(),
        };
        if self.0.is_down(&path) {
            ambient::sleep(Duration::from_millis(1)).await;
            self.0.trace.note(&format!("refused {body} under {epoch}"));
            return sent(Outcome::Failure(FailureKind::ConnectRefused));
        }
        let at = self.0.arrives(&request);
        self.0.trace.note(&format!("got {body} under {epoch}"));
        let manner = if self.0.log().are_mended {
            Manner::Takes
        } else {
            Manner::of(&path)
        };
        let answer = answer(manner, &body, self.0.came(&body));
        let (receivers, (done, answered)) = (Arc::clone(&self.0), oneshot::channel());
        // In the receiver's own process.
        tokio::spawn(async move {
            ambient::sleep(answer.after).await;
            let status = (answer.after < REQUEST_TIMEOUT).then_some(answer.status);
            receivers.answers(at, status);
            receivers.trace.note(&format!("answered {status:?} to {body}"));
            let _ = done.send(answer.status);
        });
        match ambient::timeout(REQUEST_TIMEOUT, answered).await {
            Ok(Ok(status)) => sent(Outcome::Status(status)),
            Ok(Err(_)) => sent(Outcome::Failure(FailureKind::Reset)),
            Err(_) => {
                self.0.answers(at, None);
                sent(Outcome::Failure(FailureKind::Timeout))
            }
        }
    }

    fn refusal(&self, _: &EndpointUrl) -> Option<String> {
        None
    }

    async fn is_allowed(&self, _: &EndpointUrl) -> bool {
        true
    }
}
