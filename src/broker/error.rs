//! Why the broker could not do something. Never with credentials; what can be mended says how.

/// What helps against a login that fails.
const CHECK_LOGIN: &str = "check broker.url and REDRIVE_BROKER_URL";

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
    #[error("broker login failed for user {user:?}: {CHECK_LOGIN}")]
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
    #[error("{queue:?} exists with other arguments: {difference}")]
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

impl BrokerError {
    /// What helps against it, where it says that itself: its text ends with it.
    #[must_use]
    pub fn mend(&self) -> Option<&str> {
        match self {
            Self::Login { .. } => Some(CHECK_LOGIN),
            Self::Limit { mend, .. }
            | Self::Rights { mend, .. }
            | Self::Vhost { mend, .. }
            | Self::Management { mend, .. } => Some(mend),
            Self::Unreachable { .. }
            | Self::Unknown { .. }
            | Self::Blocked { .. }
            | Self::OtherArguments { .. }
            | Self::NoExchange { .. }
            | Self::Undecodable { .. }
            | Self::Failed { .. } => None,
        }
    }

    /// Whether it is about a queue that another connection has for itself alone.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        matches!(self, Self::Failed { detail, .. } if detail.contains("RESOURCE_LOCKED"))
    }

    /// What is wrong, without that: for those who show both beside each other.
    #[must_use]
    pub fn found(&self) -> String {
        let text = self.to_string();
        let found = self.mend().and_then(|mend| text.strip_suffix(mend));
        found.map_or_else(
            || text.clone(),
            |found| found.trim_end_matches([' ', ';', ':']).to_owned(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_and_what_helps_are_told_apart() {
        let login = BrokerError::Login { user: "u".to_owned() };
        assert_eq!(login.found(), "broker login failed for user \"u\"");
        assert_eq!(login.mend(), Some("check broker.url and REDRIVE_BROKER_URL"));
        let rights = BrokerError::Rights {
            operation: "list",
            right: "the tag `management`".to_owned(),
            mend: "grant it".to_owned(),
        };
        assert_eq!(rights.found(), "broker refuses list: the tag `management` is missing");
        assert_eq!(rights.mend(), Some("grant it"));
        let blocked = BrokerError::Blocked {
            detail: "full".to_owned(),
        };
        assert_eq!(
            (blocked.found(), blocked.mend()),
            ("broker is blocked: full".to_owned(), None)
        );
    }
}
