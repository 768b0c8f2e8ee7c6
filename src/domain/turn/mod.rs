//! Bad turns and good ones: everything that an operator should hear of without asking, one row each.
//!
//! A turn has a subject (a URL, a queue, a run). What begins also ends, or is over when it is told; `standing` finds
//! turns between two looks, `pace` decides what of them is told when. Left out on purpose: who is told, and how.

mod pace;
mod standing;

pub use pace::{ITEMS_MAX, Item, Pacer, Told};
pub use standing::{Condition, Group, Standing, Watch};

use super::time::Timestamp;

/// The subject of messages that were lost with delivery queues.
pub const DELIVERY_QUEUES: &str = "delivery queues";

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum TurnKind {
    /// A URL gets only probes.
    EndpointUnavailable,
    /// A URL gets nothing until a person redelivers: its schedule is used up.
    EndpointParked,
    /// A URL gets nothing until a person redelivers: it answered 410, or a person disabled it.
    EndpointDisabled,
    /// A URL gets everything again.
    EndpointAvailable,
    /// A queue is set aside: its head ends every connection that reads it.
    QueueQuarantined,
    /// A queue is not delivered, or takes nothing: a broker policy breaks order or destroys what waits.
    QueueRefused,
    /// A queue that was one of these takes publishes and is delivered again.
    QueueRecovered,
    /// Dead letters appeared.
    DeadLetters,
    /// A daemon was found dead; what it held is taken over.
    DaemonDead,
    /// The broker takes no publishes.
    BrokerAlarm,
    /// It takes them again.
    BrokerAlarmOver,
    /// Messages went with a queue: its time was over, or somebody deleted it.
    MessagesLost,
    /// A run stopped and asks.
    RunStopped,
    /// A run is over.
    RunEnded,
}

/// How a turn goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// Something is bad until its end.
    Begins,
    /// What was bad is over.
    Ends,
    /// It happened.
    Once,
}

/// Who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nobody.
    Info,
    /// Somebody, in time.
    Warning,
    /// Somebody, now: something is lost or stands still.
    Error,
}

impl TurnKind {
    /// Each of them.
    pub const ALL: [Self; 14] = [
        Self::EndpointUnavailable,
        Self::EndpointParked,
        Self::EndpointDisabled,
        Self::EndpointAvailable,
        Self::QueueQuarantined,
        Self::QueueRefused,
        Self::QueueRecovered,
        Self::DeadLetters,
        Self::DaemonDead,
        Self::BrokerAlarm,
        Self::BrokerAlarmOver,
        Self::MessagesLost,
        Self::RunStopped,
        Self::RunEnded,
    ];

    /// As configured, counted and written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EndpointUnavailable => "endpoint_unavailable",
            Self::EndpointParked => "endpoint_parked",
            Self::EndpointDisabled => "endpoint_disabled",
            Self::EndpointAvailable => "endpoint_available",
            Self::QueueQuarantined => "queue_quarantined",
            Self::QueueRefused => "queue_refused",
            Self::QueueRecovered => "queue_recovered",
            Self::DeadLetters => "dead_letters",
            Self::DaemonDead => "daemon_dead",
            Self::BrokerAlarm => "broker_alarm",
            Self::BrokerAlarmOver => "broker_alarm_over",
            Self::MessagesLost => "messages_lost",
            Self::RunStopped => "run_stopped",
            Self::RunEnded => "run_ended",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// How it goes on.
    #[must_use]
    pub const fn course(self) -> Course {
        match self {
            Self::EndpointUnavailable
            | Self::EndpointParked
            | Self::EndpointDisabled
            | Self::QueueQuarantined
            | Self::QueueRefused
            | Self::BrokerAlarm => Course::Begins,
            Self::EndpointAvailable | Self::QueueRecovered | Self::BrokerAlarmOver => Course::Ends,
            Self::DeadLetters | Self::DaemonDead | Self::MessagesLost | Self::RunStopped | Self::RunEnded => {
                Course::Once
            }
        }
    }

    /// What its end is; none where it has none.
    #[must_use]
    pub const fn end(self) -> Option<Self> {
        match self {
            Self::EndpointUnavailable | Self::EndpointParked | Self::EndpointDisabled => Some(Self::EndpointAvailable),
            Self::QueueQuarantined | Self::QueueRefused => Some(Self::QueueRecovered),
            Self::BrokerAlarm => Some(Self::BrokerAlarmOver),
            Self::EndpointAvailable
            | Self::QueueRecovered
            | Self::DeadLetters
            | Self::DaemonDead
            | Self::BrokerAlarmOver
            | Self::MessagesLost
            | Self::RunStopped
            | Self::RunEnded => None,
        }
    }

    /// Who has to act.
    #[must_use]
    pub const fn severity(self) -> Severity {
        match self {
            Self::EndpointUnavailable
            | Self::EndpointAvailable
            | Self::QueueRecovered
            | Self::BrokerAlarmOver
            | Self::RunEnded => Severity::Info,
            Self::EndpointParked
            | Self::EndpointDisabled
            | Self::QueueRefused
            | Self::DeadLetters
            | Self::DaemonDead
            | Self::BrokerAlarm
            | Self::RunStopped => Severity::Warning,
            Self::QueueQuarantined | Self::MessagesLost => Severity::Error,
        }
    }

    /// What a subject of it is, so that a queue and a URL of one name are two.
    const fn subject_of(self) -> &'static str {
        match self {
            Self::EndpointUnavailable | Self::EndpointParked | Self::EndpointDisabled | Self::EndpointAvailable => {
                "endpoint"
            }
            Self::QueueQuarantined | Self::QueueRefused | Self::QueueRecovered => "queue",
            Self::DeadLetters => "dead letters",
            Self::DaemonDead => "daemon",
            Self::BrokerAlarm | Self::BrokerAlarmOver => "broker",
            Self::MessagesLost => "lost",
            Self::RunStopped | Self::RunEnded => "run",
        }
    }
}

impl Turn {
    /// Where the console shows it, as its `--at` takes it.
    #[must_use]
    pub fn place(&self) -> String {
        let subject = &self.subject;
        match self.kind {
            TurnKind::EndpointUnavailable
            | TurnKind::EndpointParked
            | TurnKind::EndpointDisabled
            | TurnKind::EndpointAvailable => format!("endpoint/{subject}"),
            TurnKind::QueueQuarantined | TurnKind::QueueRefused | TurnKind::QueueRecovered => {
                format!("queue/{subject}")
            }
            TurnKind::DeadLetters => "dead_letters".to_owned(),
            TurnKind::DaemonDead | TurnKind::BrokerAlarm | TurnKind::BrokerAlarmOver => "overview".to_owned(),
            TurnKind::MessagesLost if subject == DELIVERY_QUEUES => "audit".to_owned(),
            TurnKind::MessagesLost => "expiring".to_owned(),
            TurnKind::RunStopped | TurnKind::RunEnded => format!("run/{subject}"),
        }
    }
}

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Turn {
    /// What happened.
    pub kind: TurnKind,
    /// To what: a URL without its secrets, or a name.
    pub subject: String,
    /// One sentence for a person; parts of it are from outside.
    pub text: String,
    /// How many messages it is about, where that is known.
    pub count: Option<u64>,
    /// When it was seen.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own_and_what_begins_has_an_end() {
        for kind in TurnKind::ALL {
            assert_eq!(TurnKind::parse(kind.as_str()), Some(kind));
            assert_eq!(kind.end().is_some(), kind.course() == Course::Begins, "{kind:?}");
            let end = kind.end().map(TurnKind::course);
            assert!(end.is_none_or(|course| course == Course::Ends), "{kind:?}");
            assert!(kind.end().is_none_or(|end| end.subject_of() == kind.subject_of()));
        }
    }

    #[test]
    fn what_was_lost_with_a_delivery_queue_is_shown_where_it_was_written_down() {
        let lost = |subject: &str| Turn {
            kind: TurnKind::MessagesLost,
            subject: subject.to_owned(),
            text: String::new(),
            count: None,
            at: Timestamp::EPOCH,
        };
        assert_eq!(lost(DELIVERY_QUEUES).place(), "audit");
        assert_eq!(lost("jobs.1.result").place(), "expiring");
    }
}
