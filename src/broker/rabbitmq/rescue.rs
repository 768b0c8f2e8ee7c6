//! Takes the head of a queue out byte for byte: nothing of it is decoded.
//!
//! For messages that nobody can read (docs/rabbitmq.md, *Undecodable messages*; docs/protocols.md
//! 21): log in, prefetch 1, consume, keep the header frame as it came. Dropping it, or `release`, puts the message back
//! in its place by closing. The caller holds the lease, so nobody else consumes.

use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncWriteExt;

use super::asks;
use super::dialer::Dialer;
use super::failure::{right_of, rights, with_mend};
use super::frames::{Arguments, BODY, HEADER, Method, ShortString};
use super::wire::{
    ACK, CANCEL, CANCEL_OK, CHANNEL_CLOSE, CHANNEL_CLOSE_OK, CHANNEL_OPEN, CHANNEL_OPEN_OK, CONNECTION_CLOSE, CONSUME,
    CONSUME_OK, DELIVER, Fault, QOS, QOS_OK, Wire, odd,
};
use crate::ambient;
use crate::broker::{BrokerError, Look, Rescued};
use crate::domain::connection;

const RESCUE: &str = "rescue";
/// The tag of the consumer.
const TAG: &str = "rescue";
/// How long a queue that has a message may take to deliver it.
const DELIVERY: Duration = Duration::from_secs(5);
/// The largest body that is taken: the largest that a broker's default allows.
const BODY_BYTES_MAX: u64 = 128 << 20;
/// The time that one is held is the caller's, and short.
const NO_HEARTBEATS: u16 = 0;

/// The head of `queue`; `None` when it is empty.
pub(super) async fn rescue(dialer: &Dialer, queue: &ShortString) -> Result<Option<Box<dyn Rescued>>, BrokerError> {
    let mut wire = connect(dialer).await.map_err(|fault| not_connected(dialer, fault))?;
    let head = wire.take(queue).await.map_err(|fault| worded(dialer, fault))?;
    Ok(head.map(|taken| Box::new(Head { wire, taken }) as Box<dyn Rescued>))
}

/// A connection with one channel.
async fn connect(dialer: &Dialer) -> Result<Wire, Fault> {
    let mut wire = Wire::connect(dialer, RESCUE, NO_HEARTBEATS).await?;
    wire.send(1, &Method::new(CHANNEL_OPEN).short_string("")).await?;
    wire.expect(CHANNEL_OPEN_OK).await?;
    Ok(wire)
}

/// While one connects, what is refused is the login.
fn not_connected(dialer: &Dialer, fault: Fault) -> BrokerError {
    if matches!(fault, Fault::Refused(403, _)) {
        return BrokerError::Login {
            user: dialer.address.user.clone(),
        };
    }
    worded(dialer, fault)
}

fn worded(dialer: &Dialer, fault: Fault) -> BrokerError {
    match fault {
        Fault::Refused(403, text) => rights(RESCUE, right_of(&text), &dialer.vhost, &dialer.address.user),
        Fault::Refused(code, text) => BrokerError::Failed {
            operation: RESCUE,
            detail: format!("{code} {text}"),
        },
        Fault::Transport(error) => BrokerError::Unreachable {
            operation: RESCUE,
            detail: connection::told(&error, &dialer.address.at()).unwrap_or_else(|| with_mend(error.to_string())),
        },
        Fault::Silent => BrokerError::Unreachable {
            operation: RESCUE,
            detail: "no answer".to_owned(),
        },
        Fault::Odd(detail) => BrokerError::Failed {
            operation: RESCUE,
            detail,
        },
    }
}

/// What was taken out.
struct Taken {
    tag: u64,
    header: Vec<u8>,
    body: Vec<u8>,
}

impl Wire {
    /// Consumes one message.
    async fn take(&mut self, queue: &ShortString) -> Result<Option<Taken>, Fault> {
        let (look, answer) = asks::look(queue);
        self.send(1, &look).await?;
        let looked = self.expect(answer).await?;
        let looked = looked.method().map(|(_, arguments)| asks::looked(arguments.rest()));
        match looked {
            Some(Ok(Look::Present { ready: 0, .. } | Look::Missing)) => return Ok(None),
            Some(Ok(Look::Present { .. })) => {}
            Some(Err(_)) | None => return Err(odd("declare-ok")),
        }
        self.send(1, &Method::new(QOS).u32(0).u16(1).u8(0)).await?;
        self.expect(QOS_OK).await?;
        self.send(
            1,
            &Method::new(CONSUME)
                .u16(0)
                .short_string(queue.as_str())
                .short_string(TAG)
                .u8(0)
                .no_arguments(),
        )
        .await?;
        self.expect(CONSUME_OK).await?;
        match ambient::timeout(DELIVERY, self.delivered()).await {
            Ok(taken) => taken.map(Some),
            // Somebody else has it, or took it.
            Err(_) => Ok(None),
        }
    }

    async fn delivered(&mut self) -> Result<Taken, Fault> {
        let deliver = self.expect(DELIVER).await?;
        let tag = deliver.method().and_then(|(_, mut arguments)| {
            arguments.short_string()?;
            arguments.u64()
        });
        let tag = tag.ok_or_else(|| odd("deliver"))?;
        let header = self.content(HEADER).await?.payload;
        let size = Arguments::after(&header, 4).and_then(|mut arguments| arguments.u64());
        let size = size
            .filter(|size| *size <= BODY_BYTES_MAX)
            .ok_or_else(|| odd("content header"))?;
        let mut body = Vec::new();
        while (body.len() as u64) < size {
            body.extend(self.content(BODY).await?.payload);
        }
        Ok(Taken { tag, header, body })
    }

    /// Closes the channel and waits for the broker.
    async fn close(&mut self) -> Result<(), Fault> {
        self.send(
            1,
            &Method::new(CHANNEL_CLOSE).u16(200).short_string("done").u16(0).u16(0),
        )
        .await?;
        self.expect(CHANNEL_CLOSE_OK).await?;
        // The channel is what counts; the connection ends with its socket.
        let _ = self
            .send(
                0,
                &Method::new(CONNECTION_CLOSE)
                    .u16(200)
                    .short_string("done")
                    .u16(0)
                    .u16(0),
            )
            .await;
        let _ = self.stream.shutdown().await;
        Ok(())
    }
}

/// A message in hand.
struct Head {
    wire: Wire,
    taken: Taken,
}

#[async_trait]
impl Rescued for Head {
    fn header_frame(&self) -> &[u8] {
        &self.taken.header
    }

    fn body(&self) -> &[u8] {
        &self.taken.body
    }

    async fn settle(mut self: Box<Self>) -> Result<(), BrokerError> {
        let ack = Method::new(ACK).u64(self.taken.tag).u8(0);
        let settled = async {
            // Else the next one is sent in its place, and a quorum queue that gets that back puts it behind others.
            self.wire.send(1, &Method::new(CANCEL).short_string(TAG).u8(0)).await?;
            self.wire.expect(CANCEL_OK).await?;
            self.wire.send(1, &ack).await?;
            // The channel's close is answered after the ack was taken.
            self.wire.close().await
        };
        settled.await.map_err(|fault: Fault| BrokerError::Unknown {
            operation: RESCUE,
            detail: format!("the message may or may not be removed: {fault:?}"),
        })
    }

    async fn release(mut self: Box<Self>) {
        if let Err(fault) = self.wire.close().await {
            // Dropping the connection gives it back too.
            tracing::debug!(?fault, "rescue was not closed in order");
        }
    }
}
