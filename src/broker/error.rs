//! Why the broker could not do something. Never with credentials; what can be mended says how.

/// Why the broker could not do it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BrokerError {
    /// It cannot be reached, or the connection was lost before anything was sent.
    #[error("broker unreachable during {operation}: {detail}")]
    Unreachable {
        /// What was tried.
        operation: &'static str,
        /// Why (never with credentials).
        detail: String,
    },
    /// It was sent, and no answer came: it may have happened.
    #[error("{operation} is unconfirmed: {detail}")]
    Unknown {
        /// What was tried.
        operation: &'static str,
        /// Why.
        detail: String,
    },
    /// It takes nothing at present (memory or disk alarm).
    #[error("broker is blocked: {detail}")]
    Blocked {
        /// The alarm.
        detail: String,
    },
    /// Wrong name or password.
    #[error("broker login failed for user {user:?}: check broker.url and REDRIVE_BROKER_URL")]
    Login {
        /// The user.
        user: String,
    },
    /// A limit of a user, vhost or node is reached: nothing is wrong with the login or the rights.
    #[error("broker refuses {operation}: {said}; {mend}")]
    Limit {
        /// What was tried.
        operation: &'static str,
        /// The broker's own sentence.
        said: String,
        /// How to mend it.
        mend: String,
    },
    /// A right is missing (the management API says 401 for that too).
    #[error("broker refuses {operation}: {right} is missing; {mend}")]
    Rights {
        /// What was tried.
        operation: &'static str,
        /// The right that is missing.
        right: String,
        /// How to grant it.
        mend: String,
    },
    /// The vhost does not exist and could not be made.
    #[error("vhost {vhost:?} does not exist: {mend}")]
    Vhost {
        /// Its name.
        vhost: String,
        /// How to make it.
        mend: String,
    },
    /// The management API is not there or does not answer (delivery goes on without it).
    #[error("management API: {detail}; {mend}")]
    Management {
        /// What happened.
        detail: String,
        /// How to mend it.
        mend: String,
    },
    /// A queue or exchange exists with other arguments (406).
    #[error("queue {queue:?} exists with other arguments: {difference}")]
    OtherArguments {
        /// Its name.
        queue: String,
        /// What differs; it is not deleted.
        difference: String,
    },
    /// The exchange of our settings does not exist: other settings are in use, or nothing is prepared.
    #[error(
        "exchange {exchange:?} does not exist: a daemon with the same prefix, key and queue type makes it, also again when it was deleted"
    )]
    NoExchange {
        /// Its name.
        exchange: String,
    },
    /// A message of the queue cannot be decoded; it can be rescued.
    #[error("a message of queue {queue:?} cannot be decoded: {detail}")]
    Undecodable {
        /// The queue.
        queue: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Anything else that it says.
    #[error("broker failed during {operation}: {detail}")]
    Failed {
        /// What was tried.
        operation: &'static str,
        /// What it said.
        detail: String,
    },
}
