//! A connection to the broker in our own words: its stream, the login, and frames one by one.
//!
//! Two speak it: the rescue of a head that nobody can read, and `feed`, where everything else is done.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::client_tls::config;
use super::dialer::Dialer;
use super::frames::{self, Arguments, Frame, Method, MethodId};
use crate::ambient;

/// How long one step may take.
pub(super) const STEP: Duration = Duration::from_secs(10);
/// The largest frame that we agree to.
pub(super) const FRAME_BYTES_MAX: u32 = 1 << 20;

const START: MethodId = (10, 10);
const START_OK: MethodId = (10, 11);
const TUNE: MethodId = (10, 30);
const TUNE_OK: MethodId = (10, 31);
const OPEN: MethodId = (10, 40);
const OPEN_OK: MethodId = (10, 41);
pub(super) const CONNECTION_CLOSE: MethodId = (10, 50);
pub(super) const CONNECTION_CLOSE_OK: MethodId = (10, 51);
/// The broker takes no publishes from this connection.
pub(super) const BLOCKED: MethodId = (10, 60);
pub(super) const UNBLOCKED: MethodId = (10, 61);
pub(super) const CHANNEL_OPEN: MethodId = (20, 10);
pub(super) const CHANNEL_OPEN_OK: MethodId = (20, 11);
pub(super) const CHANNEL_CLOSE: MethodId = (20, 40);
pub(super) const CHANNEL_CLOSE_OK: MethodId = (20, 41);
pub(super) const QOS: MethodId = (60, 10);
pub(super) const QOS_OK: MethodId = (60, 11);
pub(super) const CONSUME: MethodId = (60, 20);
pub(super) const CONSUME_OK: MethodId = (60, 21);
pub(super) const CANCEL: MethodId = (60, 30);
pub(super) const CANCEL_OK: MethodId = (60, 31);
pub(super) const PUBLISH: MethodId = (60, 40);
pub(super) const RETURN: MethodId = (60, 50);
pub(super) const DELIVER: MethodId = (60, 60);
pub(super) const GET: MethodId = (60, 70);
pub(super) const GET_OK: MethodId = (60, 71);
pub(super) const GET_EMPTY: MethodId = (60, 72);
pub(super) const ACK: MethodId = (60, 80);
pub(super) const NACK: MethodId = (60, 120);
pub(super) const CONFIRM_SELECT: MethodId = (85, 10);
pub(super) const CONFIRM_SELECT_OK: MethodId = (85, 11);

/// What we can bear; without the first a queue that is deleted goes in silence, without the second a refused login
/// looks like a lost connection, and without the third nobody says that an alarm holds.
const ABLE: [&str; 5] = [
    "consumer_cancel_notify",
    "authentication_failure_close",
    "connection.blocked",
    "publisher_confirms",
    "basic.nack",
];

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

/// What the broker says of itself before anybody logs in.
#[derive(Default)]
pub(super) struct Greeting {
    pub(super) version: Option<String>,
    pub(super) cluster: Option<String>,
}

/// Hears the broker's greeting; what it does not say is not known.
pub(super) async fn greeting(dialer: &Dialer) -> Greeting {
    greeted(dialer).await.unwrap_or_default()
}

async fn greeted(dialer: &Dialer) -> Option<Greeting> {
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
    let text = |name: &[u8]| String::from_utf8(frames::text_in(properties, name)?.to_vec()).ok();
    Some(Greeting {
        version: text(b"version"),
        cluster: text(b"cluster_name"),
    })
}

/// What a connection is read from and written to.
pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

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

/// What was agreed on; 0 is no limit, and no heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tuned {
    pub(super) channels: u16,
    pub(super) frame_max: u32,
    pub(super) heartbeat_s: u16,
}

/// A connection that is logged in, without channels.
pub(super) struct Wire {
    pub(super) stream: Box<dyn Transport>,
    pub(super) tuned: Tuned,
}

impl Wire {
    /// Logs in for this role, with at most `heartbeat_s` seconds between heartbeats; 0 for none.
    pub(super) async fn connect(dialer: &Dialer, role: &str, heartbeat_s: u16) -> Result<Self, Fault> {
        let address = &dialer.address;
        let stream = ambient::timeout(STEP, stream(dialer))
            .await
            .map_err(|_| Fault::Silent)??;
        let mut wire = Self {
            stream,
            tuned: Tuned {
                channels: 0,
                frame_max: FRAME_BYTES_MAX,
                heartbeat_s,
            },
        };
        wire.stream.write_all(b"AMQP\0\0\x09\x01").await?;
        wire.stream.flush().await?;
        wire.expect(START).await?;
        let login = format!("\0{}\0{}", address.user, address.password);
        let name = dialer.connection_name(role);
        let start_ok = Method::new(START_OK)
            .client(&[("product", "redrive"), ("connection_name", &name)], &ABLE)
            .short_string("PLAIN")
            .long_string(login.as_bytes())
            .short_string("en_US");
        wire.send(0, &start_ok).await?;
        let tune = wire.expect(TUNE).await?;
        wire.tuned = tuned(&tune, heartbeat_s)?;
        let Tuned {
            channels,
            frame_max,
            heartbeat_s,
        } = wire.tuned;
        wire.send(0, &Method::new(TUNE_OK).u16(channels).u32(frame_max).u16(heartbeat_s))
            .await?;
        wire.send(0, &Method::new(OPEN).short_string(&dialer.vhost).short_string("").u8(0))
            .await?;
        wire.expect(OPEN_OK).await?;
        Ok(wire)
    }

    pub(super) async fn send(&mut self, channel: u16, method: &Method) -> Result<(), Fault> {
        let writing = frames::write(&mut self.stream, channel, method);
        Ok(ambient::timeout(STEP, writing).await.map_err(|_| Fault::Silent)??)
    }

    async fn read(&mut self) -> Result<Frame, Fault> {
        let reading = frames::read(&mut self.stream, self.tuned.frame_max as usize);
        Ok(ambient::timeout(STEP, reading).await.map_err(|_| Fault::Silent)??)
    }

    /// The next frame of a content, which nothing may interrupt but heartbeats.
    pub(super) async fn content(&mut self, kind: u8) -> Result<Frame, Fault> {
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
    pub(super) async fn expect(&mut self, wanted: MethodId) -> Result<Frame, Fault> {
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
}

/// What the broker offers, within what we bear: heartbeats as often as the one of both who wants them more often.
pub(super) fn tuned(tune: &Frame, heartbeat_s: u16) -> Result<Tuned, Fault> {
    let (_, mut arguments) = tune.method().ok_or_else(|| odd("tune"))?;
    let (channels, frame_max) = (arguments.u16(), arguments.u32());
    let (channels, frame_max) = channels.zip(frame_max).ok_or_else(|| odd("tune"))?;
    let theirs_s = arguments.u16().ok_or_else(|| odd("tune"))?;
    Ok(Tuned {
        channels,
        frame_max: if frame_max == 0 {
            FRAME_BYTES_MAX
        } else {
            frame_max.min(FRAME_BYTES_MAX)
        },
        heartbeat_s: if theirs_s == 0 {
            heartbeat_s
        } else {
            heartbeat_s.min(theirs_s)
        },
    })
}

/// Whether the broker ended something with this.
pub(super) fn refused(id: MethodId, mut arguments: Arguments<'_>) -> Result<(), Fault> {
    match id {
        CONNECTION_CLOSE | CHANNEL_CLOSE => {
            let (code, text) = reason(&mut arguments);
            Err(Fault::Refused(code, text))
        }
        CANCEL => Err(Fault::Refused(404, "the queue was deleted".to_owned())),
        _ => Ok(()),
    }
}

/// Code and text of a close.
pub(super) fn reason(arguments: &mut Arguments<'_>) -> (u16, String) {
    let code = arguments.u16().unwrap_or(0);
    let text = arguments.short_string().unwrap_or_default();
    (code, String::from_utf8_lossy(text).into_owned())
}

pub(super) fn odd(what: &str) -> Fault {
    Fault::Odd(format!("the broker's {what} is not understood"))
}
