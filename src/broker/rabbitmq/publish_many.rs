//! Publishing a window of messages: many side by side on one channel that nothing else uses.

use std::sync::Arc;

use super::failure::CallError;
use super::feed::{Confirmed, Confirming, Content, Tap};
use super::message;
use super::publish::{PUBLISH, Publisher, published};
use crate::ambient;
use crate::broker::{BrokerError, Outgoing, Published};

type Settled = Result<Published, BrokerError>;

impl Publisher {
    /// Publishes a window: mandatory, confirmed. Answers in order. While an alarm holds, what
    /// was sent before it is waited for.
    pub(super) async fn publish_many(&self, window: &[Outgoing]) -> Vec<Settled> {
        if let Some(detail) = self.alarm_reason() {
            return all(window, &BrokerError::Blocked { detail });
        }
        let tap = match self.channel().await {
            Ok(tap) => tap,
            Err(error) => return all(window, &error),
        };
        let mut settled: Vec<Option<Settled>> = window.iter().map(|_| None).collect();
        let (indices, contents) = prepare(window, tap.feed().frame_max(), &mut settled);
        match tap.publish(contents) {
            Ok(sent) => {
                let sent = indices.into_iter().zip(sent);
                if self.confirmed(&tap, window, sent, &mut settled).await {
                    self.keep(tap);
                }
            }
            Err(error) => tracing::debug!(error = error.text(), "a window was not sent"),
        }
        let unsent = || {
            Err(BrokerError::Unreachable {
                operation: PUBLISH,
                detail: "the connection was lost before it was sent".to_owned(),
            })
        };
        settled.into_iter().map(|one| one.unwrap_or_else(unsent)).collect()
    }

    /// Waits for all confirms. True when every publish has its own, and the channel can be used again.
    async fn confirmed(
        &self,
        tap: &Tap,
        window: &[Outgoing],
        sent: impl Iterator<Item = (usize, Confirming)>,
        settled: &mut [Option<Settled>],
    ) -> bool {
        let mut silent = None;
        for (index, confirming) in sent {
            let outcome = match silent.clone() {
                None => self.confirm(tap, confirming).await,
                // The channel is given up; what came all the same counts.
                Some(error) => ready(confirming).ok_or(error),
            };
            settled[index] = Some(match outcome {
                Ok(confirmed) => Ok(published(confirmed)),
                Err(error) => {
                    silent.get_or_insert_with(|| error.clone());
                    self.unsettled(error, tap, &window[index].exchange)
                }
            });
        }
        silent.is_none()
    }

    /// Waits for a confirm: bounded, but for as long as an alarm holds.
    async fn confirm(&self, tap: &Tap, mut confirming: Confirming) -> Result<Confirmed, CallError> {
        loop {
            match ambient::timeout(self.timeout(), &mut confirming).await {
                Ok(Ok(confirmed)) => return Ok(confirmed),
                Ok(Err(_)) => return Err(tap.stopped()),
                Err(_) if self.alarm_reason().is_some() => {}
                Err(_) => return Err(CallError::Silent(self.timeout())),
            }
        }
    }
}

/// Its answer, if it has come.
fn ready(mut confirming: Confirming) -> Option<Confirmed> {
    confirming.try_recv().ok()
}

/// What can be sent at all, and where it stands in the window; the rest is refused at once.
fn prepare(window: &[Outgoing], frame_max: usize, settled: &mut [Option<Settled>]) -> (Vec<usize>, Vec<Content>) {
    let mut indices = Vec::with_capacity(window.len());
    let mut contents = Vec::with_capacity(window.len());
    let mut exchange: Arc<str> = Arc::default();
    for (index, outgoing) in window.iter().enumerate() {
        if *exchange != *outgoing.exchange {
            exchange = outgoing.exchange.as_str().into();
        }
        let fits = message::fits("exchange", &outgoing.exchange)
            .and_then(|()| message::fits("routing key", &outgoing.routing_key))
            .and_then(|()| message::published(&outgoing.message, frame_max));
        match fits {
            Ok(properties) => {
                indices.push(index);
                contents.push(Content {
                    exchange: Arc::clone(&exchange),
                    key: outgoing.routing_key.clone(),
                    properties,
                    body: outgoing.message.body.clone(),
                });
            }
            Err(reason) => settled[index] = Some(Ok(Published::Refused(reason))),
        }
    }
    (indices, contents)
}

/// Nothing was sent.
fn all(window: &[Outgoing], error: &BrokerError) -> Vec<Settled> {
    window.iter().map(|_| Err(error.clone())).collect()
}
