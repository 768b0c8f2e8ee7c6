//! Why the engine did not do it, in terms that a front can map to an exit code or a status.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::broker::BrokerError;
use crate::domain::filter::FilterError;
use crate::domain::job::JobError;
use crate::domain::notification::NotificationError;
use crate::domain::policy::PolicyError;
use crate::domain::words::plural;
use crate::engine::view::Unread;
use crate::store::StoreError;

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The input is wrong: the field and the mend are in the text.
    #[error("{message}")]
    Invalid {
        /// The offending field.
        field: String,
        /// What is wrong and what is possible.
        message: String,
    },
    /// A retry policy is wrong: the field and the mend are in the text.
    #[error(transparent)]
    InvalidPolicy(#[from] PolicyError),
    /// This process would never send anything to that URL.
    #[error("url is refused: {why}")]
    RefusedUrl {
        /// Why, and what to do instead.
        why: String,
    },
    /// There is no such thing.
    #[error("{what} not found")]
    NotFound {
        /// What was asked for.
        what: String,
    },
    /// A queue with a lifetime is not there.
    #[error("queue {queue:?} expired or never existed, or its job is over")]
    Expired {
        /// Its name.
        queue: String,
    },
    /// Not allowed: read-only, stale plan, not confirmed, held by somebody else.
    #[error("refused: {why}")]
    Refused {
        /// Why, and what to do instead.
        why: String,
    },
    /// The broker is delivered by the daemons of another store, or under other settings (exit code 78).
    #[error("{why}")]
    OtherOwner {
        /// Whose it is, and the mend.
        why: String,
    },
    /// Published, but not confirmed: it may or may not be stored. Repeat with the same id.
    #[error("notification {id} is not confirmed: {why}; publish it again with the same id")]
    Unconfirmed {
        /// The notification's id.
        id: String,
        /// Why.
        why: String,
    },
    /// The broker takes no such message, however often it is sent: it is over one of its limits.
    #[error("the broker takes no such message: {why}")]
    TooLarge {
        /// The limit, in the broker's words.
        why: String,
    },
    /// Too much of the same is asked for at once: worth repeating.
    #[error("too much is asked for at once: {why}; ask again in a moment")]
    Busy {
        /// What is used up.
        why: String,
    },
    /// What was asked for could not be read.
    #[error("{} could not be read: {}", .0.source.name(), .0.reason)]
    Unread(Box<Unread>),
    /// The broker.
    #[error("broker failed")]
    Broker(#[from] BrokerError),
    /// The store.
    #[error("store failed")]
    Store(#[from] StoreError),
}

/// An error as it is told to an attached process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is the variant of the same name of EngineError")]
pub enum ToldError {
    Invalid { field: String, message: String },
    InvalidPolicy { error: PolicyError },
    RefusedUrl { why: String },
    NotFound { what: String },
    Expired { queue: String },
    Refused { why: String },
    OtherOwner { why: String },
    Unconfirmed { id: String, why: String },
    TooLarge { why: String },
    Busy { why: String },
    Unread { unread: Unread },
}

impl ToldError {
    /// What of broker and store fails there is something that cannot be read, or that somebody has to mend.
    #[must_use]
    pub fn of(engine: &super::Engine, error: EngineError) -> Self {
        let (why, is_misconfigured) = (chain(&error), error.is_misconfigured());
        match error {
            EngineError::Invalid { field, message } => Self::Invalid { field, message },
            EngineError::InvalidPolicy(error) => Self::InvalidPolicy { error },
            EngineError::RefusedUrl { why } => Self::RefusedUrl { why },
            EngineError::NotFound { what } => Self::NotFound { what },
            EngineError::Expired { queue } => Self::Expired { queue },
            EngineError::Refused { why } => Self::Refused { why },
            EngineError::OtherOwner { why } => Self::OtherOwner { why },
            EngineError::Unconfirmed { id, why } => Self::Unconfirmed { id, why },
            EngineError::TooLarge { why } => Self::TooLarge { why },
            EngineError::Busy { why } => Self::Busy { why },
            EngineError::Unread(unread) => Self::Unread { unread: *unread },
            EngineError::Broker(_) | EngineError::Store(_) if is_misconfigured => Self::OtherOwner { why },
            error @ (EngineError::Broker(_) | EngineError::Store(_)) if error.is_unreachable() => {
                match engine.unread(error) {
                    Ok(unread) => Self::Unread { unread },
                    Err(_) => Self::Refused { why },
                }
            }
            EngineError::Broker(_) | EngineError::Store(_) => Self::Refused { why },
        }
    }
}

impl From<ToldError> for EngineError {
    fn from(told: ToldError) -> Self {
        match told {
            ToldError::Invalid { field, message } => Self::Invalid { field, message },
            ToldError::InvalidPolicy { error } => Self::InvalidPolicy(error),
            ToldError::RefusedUrl { why } => Self::RefusedUrl { why },
            ToldError::NotFound { what } => Self::NotFound { what },
            ToldError::Expired { queue } => Self::Expired { queue },
            ToldError::Refused { why } => Self::Refused { why },
            ToldError::OtherOwner { why } => Self::OtherOwner { why },
            ToldError::Unconfirmed { id, why } => Self::Unconfirmed { id, why },
            ToldError::TooLarge { why } => Self::TooLarge { why },
            ToldError::Busy { why } => Self::Busy { why },
            ToldError::Unread { unread } => Self::Unread(Box::new(unread)),
        }
    }
}

impl From<JobError> for EngineError {
    fn from(error: JobError) -> Self {
        Self::Invalid {
            field: error.field.to_owned(),
            message: error.to_string(),
        }
    }
}

impl From<NotificationError> for EngineError {
    fn from(error: NotificationError) -> Self {
        Self::Invalid {
            field: error.field().to_owned(),
            message: error.to_string(),
        }
    }
}

/// What an attached process sent under this name.
pub(super) fn understood<T: DeserializeOwned>(name: &str, given: &[u8]) -> Result<T, EngineError> {
    serde_json::from_slice(given).map_err(|error| EngineError::Invalid {
        field: name.to_owned(),
        message: format!("this daemon's release does not understand {name}: {error}"),
    })
}

impl EngineError {
    /// Nothing has this id. No command takes the beginning of one, and what may be one is told so.
    pub(super) fn unknown_id(what: &str, id: &str, list: &str) -> Self {
        let whole = if uuid::Uuid::try_parse(id).is_ok() {
            String::new()
        } else {
            format!(" (an id is given whole, as `redrive {list}` prints it)")
        };
        Self::NotFound {
            what: format!("{what} {id:?}{whole}"),
        }
    }

    /// A daemon of another release: its answers have other fields.
    pub(crate) fn of_another_release(error: &serde_json::Error) -> Self {
        Self::Refused {
            why: format!(
                "the daemon's answer is not understood ({error}): attach with the redrive of the daemon's release"
            ),
        }
    }

    /// An expression that cannot be read; its own text names the nearest word.
    pub(crate) fn of_filter(error: &FilterError) -> Self {
        Self::Invalid {
            field: "filter".to_owned(),
            message: format!("filter: {error}"),
        }
    }

    /// A cursor of no page of this list.
    pub(crate) fn unknown_cursor() -> Self {
        Self::Invalid {
            field: "cursor".to_owned(),
            message: "cursor is not one of this list's: take next_cursor of the page before, or leave it out"
                .to_owned(),
        }
    }

    /// Whether broker or store cannot be reached at present (exit code 69, status 503).
    #[must_use]
    pub const fn is_unreachable(&self) -> bool {
        match self {
            Self::Broker(error) => matches!(
                error,
                BrokerError::Unreachable { .. }
                    | BrokerError::Blocked { .. }
                    | BrokerError::Limit { .. }
                    | BrokerError::Management { .. }
            ),
            Self::Store(error) => error.passes(),
            Self::Unread(_) => true,
            Self::Invalid { .. }
            | Self::NotFound { .. }
            | Self::Expired { .. }
            | Self::InvalidPolicy(_)
            | Self::OtherOwner { .. }
            | Self::Refused { .. }
            | Self::TooLarge { .. }
            | Self::Busy { .. }
            | Self::Unconfirmed { .. }
            | Self::RefusedUrl { .. } => false,
        }
    }

    /// Whether the store answers, and takes no writes (exit code 1, status 503).
    #[must_use]
    pub const fn takes_no_writes(&self) -> bool {
        matches!(self, Self::Store(StoreError::NotWritable { .. }))
    }

    /// Whether somebody has to change the configuration or the broker's rights first (exit code 78):
    /// waiting does not help.
    #[must_use]
    pub const fn is_misconfigured(&self) -> bool {
        match self {
            Self::Broker(error) => matches!(
                error,
                BrokerError::Login { .. }
                    | BrokerError::Vhost { .. }
                    | BrokerError::Rights { .. }
                    | BrokerError::NoExchange { .. }
                    | BrokerError::OtherArguments { .. }
            ),
            Self::OtherOwner { .. } => true,
            Self::Store(error) => matches!(error, StoreError::Schema(_) | StoreError::Unusable { .. }),
            Self::Invalid { .. }
            | Self::Unread(_)
            | Self::NotFound { .. }
            | Self::Expired { .. }
            | Self::InvalidPolicy(_)
            | Self::Refused { .. }
            | Self::TooLarge { .. }
            | Self::Busy { .. }
            | Self::Unconfirmed { .. }
            | Self::RefusedUrl { .. } => false,
        }
    }
}

/// An error and its causes, once each, on one line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// Why a process with the settings `own` does not work where those of `found` are in use.
pub(super) fn other_settings(found: &str, living: Option<String>, queues: u64, own: &str) -> String {
    let keys = "broker.queue_prefix, broker.url_hash_key and broker.queue_type";
    let fingerprints = format!("(fingerprint {found}, this configuration has {own})");
    match (living, queues) {
        (Some(daemon), _) => format!(
            "daemon {daemon} works with other settings {fingerprints}: {keys} must be the same for all daemons of this \
             store; correct them here, or stop that daemon first"
        ),
        (None, 0) => format!(
            "the daemons of this store have other settings, or had them last {fingerprints}: {keys} must be the same for all of \
             them; correct them here, or start a daemon with these first"
        ),
        (None, _) => format!(
            "{} under other settings {fingerprints}: {keys} must stay as they are while queues exist",
            plural(queues, "delivery queue exists", "delivery queues exist")
        ),
    }
}
