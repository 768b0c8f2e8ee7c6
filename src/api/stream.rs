//! `GET /v1/events/stream`: what this daemon does and sees, while it happens, as server-sent events.

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
use crate::domain::url::EndpointUrl;
use crate::engine::attempts::AttemptFilter;
use crate::engine::reveal::Reveal;
use crate::engine::{Event, WriteGrant};
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
    let told = Told {
        choice: Choice::of(&chosen)?,
        news: shared.engine()?.events(),
        writer: Writer::new(&shared, &caller),
        // So that whoever asks knows at once that it has begun.
        begins: true,
        untold: sees_whole(&caller)?,
        caller,
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
    filter: Option<AttemptFilter>,
}

impl Choice {
    /// What names something of an attempt asks for attempts alone, unless kinds are named.
    fn of(chosen: &Chosen) -> Result<Self, Problem> {
        let about_attempts = chosen.message_id.is_some() || chosen.filter.is_some();
        let kinds = match &chosen.kind {
            Some(names) => names.split(',').map(kind).collect::<Result<_, _>>()?,
            None if about_attempts => vec!["attempt"],
            None => shape::KINDS.to_vec(),
        };
        Ok(Self {
            kinds,
            queue: chosen.queue.as_deref().map(input::queue).transpose()?,
            url: chosen.url.as_deref().map(input::url).transpose()?,
            message: chosen.message_id.as_deref().map(input::message_id).transpose()?,
            filter: chosen.filter.as_deref().map(AttemptFilter::parse).transpose()?,
        })
    }

    /// Whether `caller` is told of it.
    fn has(&self, event: &Event, shared: &Shared, caller: &Caller) -> bool {
        if !self.kinds.contains(&shape::kind(event)) {
            return false;
        }
        let about = About::of(event);
        let fits = |wanted: Option<&str>, is: Option<&str>| wanted.is_none_or(|wanted| is == Some(wanted));
        fits(self.queue.as_ref().map(QueueName::as_str), about.queue)
            && fits(self.url.as_ref().map(EndpointUrl::as_str), about.url)
            && match event {
                Event::Attempted(attempt) => {
                    let is_message = self.message.as_ref().is_none_or(|id| *id == attempt.message_id);
                    let filter = self.filter.as_ref();
                    let (now, masks) = (shared.clock.now(), caller.masks(shared));
                    is_message && filter.is_none_or(|filter| filter.fits(attempt, now, masks))
                }
                Event::EndpointChanged { .. }
                | Event::DeadLettered { .. }
                | Event::QueueEnded(_)
                | Event::QueueRefused { .. }
                | Event::QueueGone { .. }
                | Event::Incident(_)
                | Event::Turned(_)
                | Event::Connection { .. } => true,
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
    /// He is shown what the masks name, and the audit does not have it yet.
    untold: Option<WriteGrant>,
    caller: Caller,
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
}

impl Telling for Told {
    /// `None`: the engine is gone.
    async fn next(&mut self) -> Option<Vec<u8>> {
        if std::mem::take(&mut self.begins) {
            return Some(BEATS.to_vec());
        }
        loop {
            tokio::select! {
                biased;
                event = self.news.recv() => match event {
                    Ok(event) if self.choice.has(&event, &self.shared, &self.caller) => {
                        return Some(self.shown(&event).await);
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(missed)) => return Some(self.writer.event("missed", &written!({ "events": missed }))),
                    Err(RecvError::Closed) => return None,
                },
                () = ambient::sleep(BEAT) => return Some(BEATS.to_vec()),
            }
        }
    }
}
