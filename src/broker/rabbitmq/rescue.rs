//! Takes the head of a queue out byte for byte, with a client of our own that decodes nothing of it.
//!
//! For messages that end the ordinary client's connection (docs/rabbitmq.md, *Undecodable messages*; docs/protocols.md
//! 21): log in, prefetch 1, consume, keep the header frame as it came. Dropping it, or `release`, puts the message back
//! in its place by closing. The caller holds the lease, so nobody else consumes. Over TLS it trusts whom the ordinary
//! client trusts.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::client_tls::config;
use super::failure::{rights, with_mend};
use super::frames::{self, Arguments, BODY, Frame, HEADER, Method, MethodId};
use super::line::Dialer;
use crate::ambient;
use crate::broker::{BrokerError, Rescued};

const RESCUE: &str = "rescue";
const STEP: Duration = Duration::from_secs(10);
/// How long a queue that has a message may take to deliver it.
const DELIVERY: Duration = Duration::from_secs(5);
/// The largest frame that we agree to.
const FRAME_BYTES_MAX: u32 = 1 << 20;
/// The largest body that is taken: the largest that a broker's default allows.
const BODY_BYTES_MAX: u64 = 128 << 20;

const START: MethodId = (10, 10);
const START_OK: MethodId = (10, 11);
const TUNE: MethodId = (10, 30);
const TUNE_OK: MethodId = (10, 31);
const OPEN: MethodId = (10, 40);
const OPEN_OK: MethodId = (10, 41);
const CONNECTION_CLOSE: MethodId = (10, 50);
const CHANNEL_OPEN: MethodId = (20, 10);
const CHANNEL_OPEN_OK: MethodId = (20, 11);
const CHANNEL_CLOSE: MethodId = (20, 40);
const CHANNEL_CLOSE_OK: MethodId = (20, 41);
const DECLARE: MethodId = (50, 10);
const DECLARE_OK: MethodId = (50, 11);
const QOS: MethodId = (60, 10);
const QOS_OK: MethodId = (60, 11);
const CONSUME: MethodId = (60, 20);
const CONSUME_OK: MethodId = (60, 21);
const CANCEL: MethodId = (60, 30);
const DELIVER: MethodId = (60, 60);
const ACK: MethodId = (60, 80);

/// Why a step failed.
#[derive(Debug)]
pub(super) enum Fault {
    Transport(io::Error),
    /// The broker closed the channel or the connection.
    Refused(u16, String),
    Silent,
    /// Not what AMQP allows here.
    Odd(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Transport(error)
    }
}

/// The head of `queue`; `None` when it is empty.
pub(super) async fn rescue(dialer: &Dialer, queue: &str) -> Result<Option<Box<dyn Rescued>>, BrokerError> {
    let mut wire = Wire::connect(dialer)
        .await
        .map_err(|fault| worded(dialer, true, fault))?;
    let head = wire.take(queue).await.map_err(|fault| worded(dialer, false, fault))?;
    Ok(head.map(|taken| Box::new(Head { wire, taken }) as Box<dyn Rescued>))
}

/// What the broker says of its version before anybody logs in.
pub(super) async fn version(dialer: &Dialer) -> Option<String> {
    let asking = async {
        let mut stream = stream(dialer).await?;
        stream.write_all(b"AMQP\0\0\x09\x01").await?;
        stream.flush().await?;
        Ok::<_, Fault>(frames::read(&mut stream, FRAME_BYTES_MAX as usize).await?)
    };
    let start = ambient::timeout(STEP, asking).await.ok()?.ok()?;
    let (id, mut arguments) = start.method()?;
    // The protocol's own version comes first.
    let properties = (id == START && arguments.u16().is_some()).then(|| arguments.long_string())??;
    let version = frames::text_in(properties, b"version")?;
    std::str::from_utf8(version).ok().map(str::to_owned)
}

fn worded(dialer: &Dialer, connecting: bool, fault: Fault) -> BrokerError {
    match fault {
        Fault::Refused(403, _) if connecting => BrokerError::Login {
            user: dialer.address.user.clone(),
        },
        Fault::Refused(403, text) => rights(RESCUE, &text, &dialer.vhost, &dialer.address.user),
        Fault::Refused(code, text) => BrokerError::Failed {
            operation: RESCUE,
            detail: format!("{code} {text}"),
        },
        Fault::Transport(error) => BrokerError::Unreachable {
            operation: RESCUE,
            detail: with_mend(error.to_string()),
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

/// What a connection is read from and written to.
trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// A stream to the broker, with TLS where its address says so.
async fn stream(dialer: &Dialer) -> Result<Box<dyn Transport>, Fault> {
    let address = &dialer.address;
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    stream.set_nodelay(true)?;
    if !address.tls {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
    let connector = TlsConnector::from(Arc::new(config(dialer.tls.as_ref())?));
    Ok(Box::new(connector.connect(name, stream).await?))
}

/// A connection with one channel.
struct Wire {
    stream: Box<dyn Transport>,
    frame_max: usize,
}

/// What was taken out.
struct Taken {
    tag: u64,
    header: Vec<u8>,
    body: Vec<u8>,
}

impl Wire {
    async fn connect(dialer: &Dialer) -> Result<Self, Fault> {
        let address = &dialer.address;
        let stream = ambient::timeout(STEP, stream(dialer))
            .await
            .map_err(|_| Fault::Silent)??;
        let mut wire = Self {
            stream,
            frame_max: FRAME_BYTES_MAX as usize,
        };
        wire.stream.write_all(b"AMQP\0\0\x09\x01").await?;
        wire.stream.flush().await?;
        wire.expect(START).await?;
        let login = format!("\0{}\0{}", address.user, address.password);
        let name = dialer.connection_name("rescue");
        let start_ok = Method::new(START_OK)
            .table(&[("product", "redrive"), ("connection_name", &name)])
            .short_string("PLAIN")
            .long_string(login.as_bytes())
            .short_string("en_US");
        wire.send(0, &start_ok).await?;
        let tune = wire.expect(TUNE).await?;
        let (channels, frame_max) = tuned(&tune)?;
        wire.frame_max = frame_max as usize;
        // No heartbeats: the time that one is held is the caller's, and short.
        wire.send(0, &Method::new(TUNE_OK).u16(channels).u32(frame_max).u16(0))
            .await?;
        wire.send(0, &Method::new(OPEN).short_string(&dialer.vhost).short_string("").u8(0))
            .await?;
        wire.expect(OPEN_OK).await?;
        wire.send(1, &Method::new(CHANNEL_OPEN).short_string("")).await?;
        wire.expect(CHANNEL_OPEN_OK).await?;
        Ok(wire)
    }

    /// Consumes one message.
    async fn take(&mut self, queue: &str) -> Result<Option<Taken>, Fault> {
        const PASSIVE: u8 = 1;
        self.send(
            1,
            &Method::new(DECLARE).u16(0).short_string(queue).u8(PASSIVE).table(&[]),
        )
        .await?;
        let declared = self.expect(DECLARE_OK).await?;
        let ready = declared.method().and_then(|(_, mut arguments)| {
            arguments.short_string()?;
            arguments.u32()
        });
        if ready.ok_or_else(|| odd("declare-ok"))? == 0 {
            return Ok(None);
        }
        self.send(1, &Method::new(QOS).u32(0).u16(1).u8(0)).await?;
        self.expect(QOS_OK).await?;
        self.send(
            1,
            &Method::new(CONSUME)
                .u16(0)
                .short_string(queue)
                .short_string("rescue")
                .u8(0)
                .table(&[]),
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

    async fn send(&mut self, channel: u16, method: &Method) -> Result<(), Fault> {
        let writing = frames::write(&mut self.stream, channel, method);
        Ok(ambient::timeout(STEP, writing).await.map_err(|_| Fault::Silent)??)
    }

    async fn read(&mut self) -> Result<Frame, Fault> {
        let reading = frames::read(&mut self.stream, self.frame_max);
        Ok(ambient::timeout(STEP, reading).await.map_err(|_| Fault::Silent)??)
    }

    /// The next frame of a content, which nothing may interrupt but heartbeats.
    async fn content(&mut self, kind: u8) -> Result<Frame, Fault> {
        loop {
            let frame = self.read().await?;
            if frame.kind == kind {
                return Ok(frame);
            }
            if let Some((id, arguments)) = frame.method() {
                refused(id, arguments)?;
            }
        }
    }

    /// The next frame of this method; closes are faults, what else comes meanwhile is nothing to us.
    async fn expect(&mut self, wanted: MethodId) -> Result<Frame, Fault> {
        loop {
            let frame = self.read().await?;
            let Some((id, arguments)) = frame.method() else {
                continue;
            };
            if id == wanted {
                return Ok(frame);
            }
            refused(id, arguments)?;
        }
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

pub(super) fn tuned(tune: &Frame) -> Result<(u16, u32), Fault> {
    let (_, mut arguments) = tune.method().ok_or_else(|| odd("tune"))?;
    let (channels, frame_max) = (arguments.u16(), arguments.u32());
    let (channels, frame_max) = channels.zip(frame_max).ok_or_else(|| odd("tune"))?;
    let frame_max = if frame_max == 0 {
        FRAME_BYTES_MAX
    } else {
        frame_max.min(FRAME_BYTES_MAX)
    };
    Ok((channels, frame_max))
}

/// Whether the broker ended something with this.
pub(super) fn refused(id: MethodId, mut arguments: Arguments<'_>) -> Result<(), Fault> {
    match id {
        CONNECTION_CLOSE | CHANNEL_CLOSE => {
            let code = arguments.u16().unwrap_or(0);
            let text = arguments.short_string().unwrap_or_default();
            Err(Fault::Refused(code, String::from_utf8_lossy(text).into_owned()))
        }
        CANCEL => Err(Fault::Refused(404, "the queue was deleted".to_owned())),
        _ => Ok(()),
    }
}

fn odd(what: &str) -> Fault {
    Fault::Odd(format!("the broker's {what} is not understood"))
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
