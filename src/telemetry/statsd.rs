//! Numbers for statsd, in the dialect that it understands.
//!
//! The original statsd knows no labels and no seconds: their values become the last parts of the name, and durations
//! are timers in milliseconds. `DogStatsD` has both. A gauge that is no number is not sent: neither has a word for it.
//!
//! The host is looked up again and again: a name that no server knows yet, or one that was moved, costs the numbers of
//! that time and nothing else.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::{Arc, PoisonError, RwLock};

use cadence::{BufferedUdpMetricSink, MetricSink, QueuingMetricSink};
use metrics::{Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Label, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_statsd::{StatsdError, StatsdRecorder};

use super::StatsdTarget;

/// Numbers that wait for the socket; more are dropped.
const WAITING_MAX: usize = 5000;
/// One datagram on usual networks.
const DATAGRAM_BYTES: usize = 1400;

/// What a statsd understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatsdDialect {
    /// The original one, and whatever is compatible with it.
    #[default]
    Statsd,
    /// With labels, as Datadog's agent, Telegraf and others take them.
    DogStatsD,
}

/// Leads to where statsd listens, once that is known.
pub(super) struct Way {
    pub(super) target: StatsdTarget,
    found: RwLock<Option<(SocketAddr, QueuingMetricSink)>>,
}

impl Way {
    pub(super) fn new(target: StatsdTarget) -> Arc<Self> {
        Arc::new(Self {
            target,
            found: RwLock::default(),
        })
    }

    /// Looks the host up, and sends there from now on. Where it cannot be looked up, the numbers go where they went.
    pub(super) fn find(&self) -> Result<(), StatsdError> {
        let mut addresses = (self.target.host.as_str(), self.target.port).to_socket_addrs()?;
        let none = || io::Error::other("the name has no address");
        let address = addresses.next().ok_or_else(none)?;
        let is_known = |found: &Option<(SocketAddr, QueuingMetricSink)>| {
            found.as_ref().is_some_and(|(known, _)| *known == address)
        };
        if is_known(&self.found.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(());
        }
        let own: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(own)?;
        socket.set_nonblocking(true)?;
        let datagrams = BufferedUdpMetricSink::with_capacity(address, socket, DATAGRAM_BYTES)?;
        let sink = QueuingMetricSink::with_capacity(datagrams, WAITING_MAX);
        *self.found.write().unwrap_or_else(PoisonError::into_inner) = Some((address, sink));
        Ok(())
    }
}

/// Sends on a [`Way`].
pub(super) struct Sent(pub(super) Arc<Way>);

impl MetricSink for Sent {
    fn emit(&self, metric: &str) -> io::Result<usize> {
        let found = self.0.found.read().unwrap_or_else(PoisonError::into_inner);
        found.as_ref().map_or(Ok(0), |(_, sink)| sink.emit(metric))
    }
}

/// Sends.
pub(super) struct Statsd {
    pub(super) recorder: StatsdRecorder,
    pub(super) dialect: StatsdDialect,
}

impl StatsdDialect {
    fn key(self, key: &Key, is_duration: bool) -> Key {
        match self {
            Self::DogStatsD => {
                let labels = key
                    .labels()
                    .map(|label| Label::new(label.key().to_owned(), tag(label.value())));
                Key::from_parts(key.name().to_owned(), labels.collect::<Vec<_>>())
            }
            Self::Statsd => {
                let name = if is_duration {
                    key.name().trim_end_matches("_seconds")
                } else {
                    key.name()
                };
                let parts = key.labels().map(|label| part(label.value()));
                let name: String = std::iter::once(name.to_owned())
                    .chain(parts)
                    .collect::<Vec<_>>()
                    .join(".");
                Key::from_name(name)
            }
        }
    }
}

/// A label's value as a tag, without what begins another tag, another part of the line or another line.
fn tag(value: &str) -> String {
    value.replace(
        |character: char| character.is_control() || matches!(character, ',' | '|'),
        "_",
    )
}

/// A label's value as a part of a name.
fn part(value: &str) -> String {
    let safe = |character: char| {
        if character.is_ascii_alphanumeric() || character == '-' {
            character
        } else {
            '_'
        }
    };
    value.chars().map(safe).collect()
}

impl Recorder for Statsd {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.recorder.register_counter(&self.dialect.key(key, false), metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(Number(
            self.recorder.register_gauge(&self.dialect.key(key, false), metadata),
        )))
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.recorder.register_histogram(&self.dialect.key(key, true), metadata)
    }
}

/// A gauge that sends numbers only.
struct Number(Gauge);

impl GaugeFn for Number {
    fn increment(&self, value: f64) {
        self.0.increment(value);
    }

    fn decrement(&self, value: f64) {
        self.0.decrement(value);
    }

    fn set(&self, value: f64) {
        if value.is_finite() {
            self.0.set(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_stays_one_tag_or_one_part_of_a_name_whatever_its_value_is() {
        let key = Key::from_parts("pushed_total", vec![Label::new("type", "a:b|c|#env:prod,host:x\n@ü")]);
        let told = StatsdDialect::DogStatsD.key(&key, false);
        let labels: Vec<(&str, &str)> = told.labels().map(|label| (label.key(), label.value())).collect();
        assert_eq!(
            (told.name(), labels),
            ("pushed_total", vec![("type", "a:b_c_#env:prod_host:x_@ü")])
        );
        let told = StatsdDialect::Statsd.key(&key, false);
        assert_eq!(
            (told.name(), told.labels().len()),
            ("pushed_total.a_b_c__env_prod_host_x___", 0)
        );
    }
}
