//! `GET /v1/events/stream`: what this daemon does and sees, while it happens, as server-sent events.

use std::pin::pin;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json as written;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::ambient;
use crate::domain::id::{NotificationId, QueueName};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::attempts::{AttemptFilter, AttemptSieve};
use crate::engine::reveal::Reveal;
use crate::engine::{Engine, EngineError, Event, WriteGrant};
use crate::wire::problem::Problem;
use crate::wire::{input, json, stream as shape};

use super::Shared;
use super::export::sees_whole;
use super::extract::Params;
use super::guard::Caller;
use super::masked::hidden_in;
use super::problem::Events;
use super::sse::{self, BEAT, BEATS, Telling, Writer};

/// What is told of in the audit.
const TARGET: &str = "GET /v1/events/stream";

/// What of it all.
#[derive(Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chosen {
    /// Kinds of events, with commas between them.
    kind: Option<String>,
    /// Of this queue.
    queue: Option<String>,
    /// The endpoint.
    url: Option<String>,
    /// Of this notification.
    message_id: Option<String>,
    /// A filter over attempts.
    filter: Option<String>,
}

pub(super) async fn follow(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(chosen): Params<Chosen>,
) -> Result<Events, Problem> {
    let all = Arc::clone(&shared);
    let engine = shared.engine()?;
    let told = Told {
        choice: Choice::of(&chosen, engine)?,
        news: engine.events(),
        writer: Writer::new(&shared, &caller),
        // So that whoever asks knows at once that it has begun.
        begins: true,
        is_over: false,
        untold: sees_whole(&caller)?,
        shared,
    };
    Ok(Events(sse::response(&all, told)))
}

/// Which events are told.
#[derive(Debug)]
struct Choice {
    kinds: Vec<&'static str>,
    queue: Option<QueueName>,
    url: Option<EndpointUrl>,
    message: Option<NotificationId>,
    filter: Option<AttemptSieve>,
}

impl Choice {
    /// What names something of an attempt asks for attempts alone, unless kinds are named.
    fn of(chosen: &Chosen, engine: &Engine) -> Result<Self, Problem> {
        let about_attempts = chosen.message_id.is_some() || chosen.filter.is_some();
        let kinds = match &chosen.kind {
            Some(names) => names.split(',').map(kind).collect::<Result<_, _>>()?,
            None if about_attempts => vec!["attempt"],
            None => shape::KINDS.to_vec(),
        };
        let filter = chosen.filter.as_deref().map(AttemptFilter::parse).transpose()?;
        Ok(Self {
            kinds,
            queue: chosen.queue.as_deref().map(input::queue).transpose()?,
            url: chosen.url.as_deref().map(input::url).transpose()?,
            message: chosen.message_id.as_deref().map(input::message_id).transpose()?,
            filter: filter
                .map(|filter| AttemptSieve::of_stream(filter, engine))
                .transpose()?,
        })
    }

    /// Whether it is told, as seen at `now`.
    async fn has(&mut self, event: &Event, now: Timestamp) -> Result<bool, EngineError> {
        let about = About::of(event);
        let fits = |wanted: Option<&str>, is: Option<&str>| wanted.is_none_or(|wanted| is == Some(wanted));
        if !self.kinds.contains(&shape::kind(event))
            || !fits(self.queue.as_ref().map(QueueName::as_str), about.queue)
            || !fits(self.url.as_ref().map(EndpointUrl::as_str), about.url)
        {
            return Ok(false);
        }
        match event {
            Event::Attempted(attempt) => {
                let is_message = self.message.as_ref().is_none_or(|id| *id == attempt.message_id);
                match &mut self.filter {
                    Some(filter) if is_message => filter.has(attempt, now).await,
                    Some(_) | None => Ok(is_message),
                }
            }
            Event::EndpointChanged { .. }
            | Event::DeadLettered { .. }
            | Event::QueueEnded(_)
            | Event::QueueRefused { .. }
            | Event::QueueGone { .. }
            | Event::Incident(_)
            | Event::Turned(_)
            | Event::Connection { .. } => Ok(true),
        }
    }
}

/// What an event is about.
#[derive(Default)]
struct About<'a> {
    queue: Option<&'a str>,
    url: Option<&'a str>,
}

impl<'a> About<'a> {
    fn of(event: &'a Event) -> Self {
        match event {
            Event::Attempted(attempt) => Self {
                queue: Some(attempt.queue.as_str()),
                url: Some(attempt.url.as_str()),
            },
            Event::EndpointChanged { url, .. } => Self {
                url: Some(url.as_str()),
                queue: None,
            },
            Event::DeadLettered { queue, .. }
            | Event::QueueEnded(queue)
            | Event::QueueRefused { queue, .. }
            | Event::QueueGone { queue, .. } => Self {
                queue: Some(queue.as_str()),
                url: None,
            },
            Event::Incident(_) | Event::Turned(_) | Event::Connection { .. } => Self::default(),
        }
    }
}

fn kind(name: &str) -> Result<&'static str, Problem> {
    let found = shape::KINDS.into_iter().find(|kind| *kind == name.trim());
    found.ok_or_else(|| {
        let all = shape::KINDS.join(", ");
        Problem::field(
            "kind",
            format!("kind is one or more of {all}, with commas between them"),
        )
    })
}

struct Told {
    choice: Choice,
    news: broadcast::Receiver<Event>,
    writer: Writer,
    begins: bool,
    /// Why it ends is told.
    is_over: bool,
    /// He is shown what the masks name, and the audit does not have it yet.
    untold: Option<WriteGrant>,
    shared: Arc<Shared>,
}

impl Told {
    /// An event as whoever asks may see it. Where he sees what the masks name, the audit has it before; where it cannot
    /// be written, he is shown what everybody is.
    async fn shown(&mut self, event: &Event) -> Vec<u8> {
        let (kind, document) = (shape::kind(event), shape::document(event));
        let Some(grant) = &self.untold else {
            return self.writer.event(kind, &document);
        };
        let hidden = hidden_in(&self.shared.settings.masks, &json::compact(&document));
        if hidden > 0 {
            let target = TARGET.to_owned();
            let written = match self.shared.engine() {
                Ok(engine) => engine.reveal(&Reveal { target, hidden }, grant).await.is_ok(),
                Err(_) => false,
            };
            if !written {
                return self.writer.masked(kind, &document);
            }
            self.untold = None;
        }
        self.writer.event(kind, &document)
    }

    fn missed(&self, events: u64) -> Vec<u8> {
        self.writer.event("missed", &written!({ "events": events }))
    }
}

impl Telling for Told {
    /// `None`: the engine is gone, or the filter was told to compute for too long.
    async fn next(&mut self) -> Option<Vec<u8>> {
        if std::mem::take(&mut self.begins) {
            return Some(BEATS.to_vec());
        }
        if self.is_over {
            return None;
        }
        // What a choice leaves out is no sign of life, however much of it there is.
        let mut beat = pin!(ambient::sleep(BEAT));
        loop {
            let event = tokio::select! {
                biased;
                () = &mut beat => return Some(BEATS.to_vec()),
                event = self.news.recv() => event,
            };
            let event = match event {
                Ok(event) => event,
                Err(RecvError::Lagged(missed)) => return Some(self.missed(missed)),
                Err(RecvError::Closed) => return None,
            };
            match self.choice.has(&event, self.shared.clock.now()).await {
                Ok(true) => return Some(self.shown(&event).await),
                Ok(false) => {}
                // The filters of others compute: whether this one fits is not known.
                Err(EngineError::Busy { .. }) => return Some(self.missed(1)),
                Err(error) => {
                    self.is_over = true;
                    return Some(self.writer.event("problem", &Problem::from(&error)));
                }
            }
        }
    }
}
