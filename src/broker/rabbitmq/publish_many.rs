//! Publishing a window of messages: many side by side on one channel that nothing else uses.
//!
//! The client hands a returned message to whichever confirm it settles next, so on a shared channel one publish's
//! answer may carry another's return. Here all confirms of the window are waited for first: by then every return
//! of the window has come with one of them (a return comes before its confirm, and a confirm takes one return
//! along), and each is matched by what it is: key, properties and body. Equal messages with one key are
//! interchangeable. What cannot be told apart counts as returned, which loses nothing.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation, PublisherConfirm};

use super::failure::{CallError, Ended};
use super::line::Line;
use super::message;
use super::publish::{PUBLISH, Publisher, failed, nacked, returned_as};
use crate::ambient;
use crate::broker::{BrokerError, Outgoing, Published};

type Settled = Result<Published, BrokerError>;

/// One publish of the window.
struct Sent {
    index: usize,
    exchange: ShortString,
    key: ShortString,
    properties: BasicProperties,
    body: Bytes,
}

impl Publisher {
    /// Publishes a window: mandatory, confirmed. Answers in order. While an alarm holds, what
    /// was sent before it is waited for.
    pub(super) async fn publish_many(&self, window: &[Outgoing]) -> Vec<Settled> {
        if let Some(detail) = self.alarm_reason() {
            return all(window, &BrokerError::Blocked { detail });
        }
        let (line, channel) = match self.channel().await {
            Ok(open) => open,
            Err(error) => return all(window, &error),
        };
        let mut settled: Vec<Option<Settled>> = window.iter().map(|_| None).collect();
        let sent = prepare(window, &line, &mut settled);
        let whole = self.send(&line, &channel, &sent, &mut settled).await;
        if whole {
            self.keep(&line, channel);
        }
        let unsent = || {
            Err(BrokerError::Unreachable {
                operation: PUBLISH,
                detail: "the connection was lost before it was sent".to_owned(),
            })
        };
        settled.into_iter().map(|one| one.unwrap_or_else(unsent)).collect()
    }

    /// True when every publish has its confirm, and the channel can be used again.
    async fn send(&self, line: &Arc<Line>, channel: &Channel, sent: &[Sent], settled: &mut [Option<Settled>]) -> bool {
        let options = BasicPublishOptions {
            mandatory: true,
            immediate: false,
        };
        let mut sending = Vec::with_capacity(sent.len());
        for one in sent {
            let publish = channel.basic_publish(
                one.exchange.clone(),
                one.key.clone(),
                options,
                &one.body,
                one.properties.clone(),
            );
            let mut publish = publish.boxed();
            // The first poll puts it in line, in this order.
            let done = (&mut publish).now_or_never();
            sending.push((one, publish, done));
        }
        let mut returns = Vec::new();
        let mut whole = true;
        for (one, publish, done) in sending {
            let confirm = async {
                let confirm: PublisherConfirm = match done {
                    Some(done) => done?,
                    None => publish.await?,
                };
                confirm.await
            };
            settled[one.index] = Some(match self.confirmed(line, confirm).await {
                Ok(Confirmation::Ack(returned)) => {
                    returns.extend(returned);
                    Ok(Published::Accepted)
                }
                Ok(Confirmation::Nack(returned)) => {
                    returns.extend(returned);
                    Ok(nacked())
                }
                Ok(Confirmation::NotRequested) => Err(failed("the channel is not in confirm mode".to_owned())),
                Err(error) => {
                    whole = false;
                    self.unsettled(error, sent.len())
                }
            });
        }
        give_back(&returns, sent, settled);
        whole
    }

    /// Waits for a confirm: bounded, but for as long as an alarm holds.
    async fn confirmed(
        &self,
        line: &Line,
        confirm: impl Future<Output = lapin::Result<Confirmation>>,
    ) -> Result<Confirmation, CallError> {
        let mut confirm = std::pin::pin!(confirm);
        loop {
            let waiting = ambient::timeout(self.timeout(), &mut confirm);
            match waiting.await {
                Ok(Ok(confirmation)) => return Ok(confirmation),
                Ok(Err(error)) => return Err(error.into()),
                Err(_) if !line.is_open() => return Err(CallError::Ended(line.reason().await)),
                Err(_) if self.alarm_reason().is_some() => {}
                Err(_) => {
                    line.abandon("a confirm did not come");
                    return Err(CallError::Ended(Ended::Lost("a confirm did not come".to_owned())));
                }
            }
        }
    }
}

/// What can be sent at all; the rest is refused at once.
fn prepare(window: &[Outgoing], line: &Line, settled: &mut [Option<Settled>]) -> Vec<Sent> {
    let frame_max = line.limits().1 as usize;
    let mut sent = Vec::with_capacity(window.len());
    for (index, outgoing) in window.iter().enumerate() {
        let short = |text: &str| ShortString::try_new(text).map_err(|error| error.to_string());
        let route = short(&outgoing.exchange).and_then(|exchange| Ok((exchange, short(&outgoing.routing_key)?)));
        match (route, message::published(&outgoing.message, frame_max)) {
            (Ok((exchange, key)), Ok(properties)) => sent.push(Sent {
                index,
                exchange,
                key,
                properties,
                body: outgoing.message.body.clone(),
            }),
            (Err(reason), _) | (_, Err(reason)) => settled[index] = Some(Ok(Published::Refused(reason))),
        }
    }
    sent
}

/// Hands each returned message to the publish that it belongs to.
fn give_back(returns: &[BasicReturnMessage], sent: &[Sent], settled: &mut [Option<Settled>]) {
    for returned in returns {
        let answer = returned_as(returned);
        let accepted = |one: &&Sent| {
            one.key == returned.delivery.routing_key
                && one.exchange == returned.delivery.exchange
                && matches!(settled[one.index], Some(Ok(Published::Accepted)))
        };
        let candidates: Vec<&Sent> = sent.iter().filter(accepted).collect();
        let same = candidates
            .iter()
            .find(|one| one.properties == returned.delivery.properties && is_body(one, returned));
        match same {
            Some(one) => settled[one.index] = Some(Ok(answer)),
            // Not to be told apart: none of that key counts as accepted.
            None => {
                for index in candidates.iter().map(|one| one.index).collect::<Vec<_>>() {
                    settled[index] = Some(Ok(answer.clone()));
                }
            }
        }
    }
}

fn is_body(one: &Sent, returned: &BasicReturnMessage) -> bool {
    one.body == returned.delivery.data
}

/// Nothing was sent.
fn all(window: &[Outgoing], error: &BrokerError) -> Vec<Settled> {
    window.iter().map(|_| Err(error.clone())).collect()
}
