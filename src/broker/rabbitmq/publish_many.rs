//! Publishing a window of messages: many side by side on one channel that nothing else uses.
//!
//! The client hands a returned message to whichever confirm it settles next, so on a shared channel one publish's
//! answer may carry another's return. Here all confirms of the window are waited for first: by then every return
//! of the window has come with one of them (a return comes before its confirm, and a confirm takes one return
//! along), and each is matched by what it is: key, properties and body. Equal messages with one key are
//! interchangeable. What cannot be told apart counts as returned, which loses nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::FutureExt;
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation, PublisherConfirm};

use super::failure::{CallError, Ended};
use super::line::Line;
use super::message;
use super::publish::{PUBLISH, Publisher, failed, returned_as};
use crate::broker::{BrokerError, Outgoing, Published};

type Settled = Result<Published, BrokerError>;

/// Confirms that are waited for together, by the last of them: what came before it is here then, as a rule, and nobody
/// was woken for each.
const TOGETHER: usize = 64;

/// One publish of the window.
struct Sent<'a> {
    index: usize,
    exchange: ShortString,
    key: ShortString,
    outgoing: &'a Outgoing,
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
        let frame_max = line.limits().1 as usize;
        let ready = prepare(window, frame_max, &mut settled);
        let whole = self.send(&line, &channel, ready, &mut settled).await;
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
    async fn send(
        &self,
        line: &Arc<Line>,
        channel: &Channel,
        ready: Vec<(Sent<'_>, BasicProperties)>,
        settled: &mut [Option<Settled>],
    ) -> bool {
        let options = BasicPublishOptions {
            mandatory: true,
            immediate: false,
        };
        let mut sending = VecDeque::with_capacity(ready.len());
        for (one, properties) in ready {
            let (exchange, key) = (one.exchange.clone(), one.key.clone());
            let publish = channel.basic_publish(exchange, key, options, &one.outgoing.message.body, properties);
            let mut publish = publish.boxed();
            // The first poll puts it in line, in this order.
            let done = (&mut publish).now_or_never();
            sending.push_back((one, publish, done));
        }
        let mut sent = Vec::with_capacity(sending.len());
        let alone = sending.len() == 1;
        let mut returns = Vec::new();
        let mut whole = true;
        while !sending.is_empty() {
            let together = sending.drain(..TOGETHER.min(sending.len())).rev();
            for (one, publish, done) in together {
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
                        Ok(Published::Refused("the broker answered nack".to_owned()))
                    }
                    Ok(Confirmation::NotRequested) => Err(failed("the channel is not in confirm mode".to_owned())),
                    Err(error) => {
                        whole = false;
                        self.unsettled(error, alone)
                    }
                });
                sent.push(one);
            }
        }
        give_back(&returns, &sent, settled);
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
            let waiting = tokio::time::timeout(self.timeout(), &mut confirm);
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

/// What can be sent at all, with the properties it is sent with; the rest is refused at once.
fn prepare<'a>(
    window: &'a [Outgoing],
    frame_max: usize,
    settled: &mut [Option<Settled>],
) -> Vec<(Sent<'a>, BasicProperties)> {
    let mut ready = Vec::with_capacity(window.len());
    for (index, outgoing) in window.iter().enumerate() {
        let short = |text: &str| ShortString::try_new(text).map_err(|error| error.to_string());
        let route = short(&outgoing.exchange).and_then(|exchange| Ok((exchange, short(&outgoing.routing_key)?)));
        match (route, message::published(&outgoing.message, frame_max)) {
            (Ok((exchange, key)), Ok(properties)) => ready.push((
                Sent {
                    index,
                    exchange,
                    key,
                    outgoing,
                },
                properties,
            )),
            (Err(reason), _) | (_, Err(reason)) => settled[index] = Some(Ok(Published::Refused(reason))),
        }
    }
    ready
}

/// Hands each returned message to the publish that it belongs to.
fn give_back(returns: &[BasicReturnMessage], sent: &[Sent<'_>], settled: &mut [Option<Settled>]) {
    if returns.is_empty() {
        return;
    }
    // What was sent is not kept beside the messages: returns are rare, and made again it is the same.
    let sent_as: Vec<Option<BasicProperties>> = sent
        .iter()
        .map(|one| message::published(&one.outgoing.message, 0).ok())
        .collect();
    for returned in returns {
        let answer = returned_as(returned);
        let candidates: Vec<usize> = sent
            .iter()
            .enumerate()
            .filter(|(_, one)| {
                one.key == returned.delivery.routing_key
                    && one.exchange == returned.delivery.exchange
                    && matches!(settled[one.index], Some(Ok(Published::Accepted)))
            })
            .map(|(position, _)| position)
            .collect();
        let same = candidates.iter().copied().find(|position| {
            sent_as[*position].as_ref() == Some(&returned.delivery.properties) && is_body(&sent[*position], returned)
        });
        match same {
            Some(position) => settled[sent[position].index] = Some(Ok(answer)),
            // Not to be told apart: none of that key counts as accepted.
            None => {
                for position in candidates {
                    settled[sent[position].index] = Some(Ok(answer.clone()));
                }
            }
        }
    }
}

fn is_body(one: &Sent<'_>, returned: &BasicReturnMessage) -> bool {
    one.outgoing.message.body == returned.delivery.data
}

/// Nothing was sent.
fn all(window: &[Outgoing], error: &BrokerError) -> Vec<Settled> {
    window.iter().map(|_| Err(error.clone())).collect()
}
