//! What went wrong with a call, and how the seam words it.
//!
//! A code tells too little by itself: the same 403 is a wrong password while connecting
//! and a missing right later, so every mapping knows its operation.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::address::Address;
use super::wire::{Fault, STEP};
use crate::broker::{BrokerError, CONNECT};
use crate::domain::connection;

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The client could not read what came: a message that it does not survive (docs/rabbitmq.md, *Undecodable
    /// messages*).
    Undecodable(String),
    /// Anything else.
    Lost(String),
}

impl Ended {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Undecodable(text) | Self::Lost(text) => text,
        }
    }

    /// The broker's sentence, where a channel was asked for that its user, or the node, may not have.
    pub(super) fn channel_limit(&self) -> Option<&str> {
        let said = self.text();
        let is_limit = said.starts_with("530 ") && said.contains("number of channels");
        is_limit.then_some(said)
    }
}

/// Why a call on a channel did not succeed.
#[derive(Clone, Debug)]
pub(super) enum CallError {
    /// The broker closed the channel or the connection with this code and text.
    Refused(u16, String),
    /// The connection could not be opened.
    Io(Arc<io::Error>),
    /// The connection has as many channels as it may.
    NoChannel,
    /// The connection ended meanwhile: a call may then never be answered (docs/rabbitmq.md, *Undecodable messages*).
    Ended(Ended),
    /// No answer in time; the connection was abandoned.
    Silent(Duration),
    /// There is no connection to ask on.
    Unopened(Box<BrokerError>),
}

/// What went wrong while a connection was opened.
impl From<Fault> for CallError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Transport(error) => Self::Io(Arc::new(error)),
            Fault::Refused(code, text) => Self::Refused(code, text),
            Fault::Silent => Self::Silent(STEP),
            Fault::Odd(detail) => Self::Ended(Ended::Lost(detail)),
        }
    }
}

impl CallError {
    /// The broker's reply code, where it gave one: 404, 406, …
    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(code, _) => Some(*code),
            Self::Io(_) | Self::NoChannel | Self::Ended(_) | Self::Silent(_) | Self::Unopened(_) => None,
        }
    }

    /// What the broker said, or the system.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Refused(_, text) => text.clone(),
            Self::Io(error) => error.to_string(),
            Self::NoChannel => "the connection has as many channels as the broker allows it".to_owned(),
            Self::Ended(ended) => ended.text().to_owned(),
            Self::Silent(bound) => format!("no answer within {} s", bound.as_secs_f32()),
            Self::Unopened(error) => error.to_string(),
        }
    }

    /// Why there is no connection to `at`, in words.
    fn told(&self, at: &str) -> Option<String> {
        match self {
            Self::Io(error) => connection::told(error.as_ref(), at),
            Self::Silent(bound) => Some(format!("no answer from {at} within {} s", bound.as_secs_f32())),
            Self::Refused(..) | Self::NoChannel | Self::Ended(_) | Self::Unopened(_) => None,
        }
    }

    /// How the connection ended, when that is what happened.
    pub(super) fn ended(&self) -> Option<Ended> {
        match self {
            Self::Ended(ended) => Some(ended.clone()),
            Self::Refused(code, _) if is_of_a_channel(*code) => None,
            Self::NoChannel => None,
            Self::Refused(..) | Self::Io(_) | Self::Silent(_) | Self::Unopened(_) => Some(Ended::Lost(self.text())),
        }
    }

    /// Whether the broker says that there is no such queue. A 404 alone does not say that: a classic
    /// queue whose node is down is `NOT_FOUND - home node … is down or inaccessible` (docs/rabbitmq.md, *Nodes that are
    /// down*).
    fn no_queue(&self) -> bool {
        self.code() == Some(404) && self.text().starts_with("NOT_FOUND - no queue ")
    }

    /// Whether it is about how many there may be.
    pub(super) fn is_limit(&self) -> bool {
        self.code().is_some() && is_limit(&self.text())
    }

    fn no_exchange(&self) -> bool {
        self.code() == Some(404) && self.text().starts_with("NOT_FOUND - no exchange ")
    }

    /// Whether the broker says that what is declared differs in this from what is there.
    pub(super) fn differs_in(&self, what: &str) -> bool {
        let said = format!("PRECONDITION_FAILED - inequivalent arg '{what}' for queue ");
        self.code() == Some(406) && self.text().starts_with(&said)
    }

    /// Whether the broker says that there is no queue of this very name.
    pub(super) fn says_missing(&self, queue: &str) -> bool {
        self.no_queue() && self.names(queue)
    }

    /// Whether the broker says that there is no exchange of this very name.
    pub(super) fn says_missing_exchange(&self, exchange: &str) -> bool {
        self.no_exchange() && self.names(exchange)
    }

    fn names(&self, name: &str) -> bool {
        let text = self.text();
        // The broker's text is at most 255 bytes: a long name may be cut, and has no end then.
        let mut end = name.len().min(180);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        if end < name.len() {
            return text.contains(&format!("'{}", &name[..end]));
        }
        text.contains(&format!("'{name}'"))
    }
}

/// Whether a close with this code ends a channel; the others end the connection (AMQP 0-9-1, 1.2).
const fn is_of_a_channel(code: u16) -> bool {
    matches!(code, 311 | 312 | 313 | 403..=406)
}

/// An error of connecting. 403 is the login here; 530 is the vhost, missing or refused.
pub(super) fn connect_error(address: &Address, vhost: &str, error: &CallError) -> BrokerError {
    let text = error.text();
    match error.code() {
        Some(403) => BrokerError::Login {
            user: address.user.clone(),
        },
        Some(_) if is_limit(&text) => limit(CONNECT, &address.user, text),
        Some(530) if text.ends_with("not found") => BrokerError::Vhost {
            vhost: vhost.to_owned(),
            mend: format!(
                "`redrive vhost make` makes it where broker.management_url has an administrator, and so does `redrive --daemon` \
                 where broker.provision is true; else run `rabbitmqctl add_vhost {vhost}` and `rabbitmqctl set_permissions -p {vhost} {user} '.*' '.*' '.*'`",
                user = address.user
            ),
        },
        Some(530) if text.contains("refused for user") => rights(
            "connect",
            &format!("access to the vhost ({text})"),
            vhost,
            &address.user,
        ),
        _ => unreachable(
            error
                .told(&address.at())
                .unwrap_or_else(|| with_mend(format!("{address:?}: {}", plain(&text)))),
        ),
    }
}

/// What the system said of a connection, without the number of its error.
fn plain(text: &str) -> &str {
    text.split(" (os error ").next().unwrap_or(text)
}

/// No connection, as long as this stands.
pub(super) const fn unreachable(detail: String) -> BrokerError {
    BrokerError::Unreachable {
        operation: CONNECT,
        detail,
    }
}

/// A broker that demands a client's certificate says so with an alert (RFC 8446, 6.2; an older one only that it ends
/// the handshake).
pub(super) fn with_mend(text: String) -> String {
    if text.contains("CertificateRequired") {
        return format!("the broker demands a certificate of its clients, set broker.tls ({text})");
    }
    // The alert is lost where the connection's end overtakes it.
    let is_tls = text.contains("amqps://") || text.contains("https://");
    if is_tls && text.contains("reset by peer") {
        return format!("{text}; a broker that demands another certificate of its clients ends it so, set broker.tls");
    }
    text
}

/// Whether a refusal is about a limit. Of a user: `connection refused for user 'u': user connection limit (0) is
/// reached`, `number of channels opened (2) has reached the maximum allowed user limit of (2)`; of a vhost: `access
/// to vhost 'v' refused for user 'u': connection limit (0) is reached`, `queue limit in vhost 'v' (0) is reached`; of
/// a node: `connection refused: node connection limit (0) is reached`.
fn is_limit(text: &str) -> bool {
    text.contains("limit") && text.contains("reached")
}

pub(super) fn limit(operation: &'static str, user: &str, said: String) -> BrokerError {
    BrokerError::Limit {
        operation,
        mend: if said.contains("user limit") || said.contains("user connection limit") {
            format!("raise it with `rabbitmqctl set_user_limits {user} LIMITS`")
        } else {
            "raise it with `rabbitmqctl set_vhost_limits`, or in the node's configuration".to_owned()
        },
        said,
    }
}

/// A missing right, with the command that grants all of ours.
pub(super) fn rights(operation: &'static str, right: &str, vhost: &str, user: &str) -> BrokerError {
    // Permissions for the keys of a topic exchange are others than those for the exchange.
    let mend = if right.contains("access to topic '") {
        format!(
            "grant it with `rabbitmqctl set_topic_permissions -p {vhost} {user} EXCHANGE WRITE READ`, each a pattern that matches the routing key"
        )
    } else {
        format!(
            "grant it with `rabbitmqctl set_permissions -p {vhost} {user} CONFIGURE WRITE READ`, each a pattern that matches our prefix"
        )
    };
    BrokerError::Rights {
        operation,
        right: right.to_owned(),
        mend,
    }
}

/// What is missing, of the broker's sentence: `ACCESS_REFUSED - access to queue 'q' in vhost 'v' refused for user 'u'`,
/// newer ones also which access.
pub(super) fn right_of(said: &str) -> &str {
    let said = said.split_once(" - ").map_or(said, |(_, said)| said);
    said.split_once(" in vhost '").map_or(said, |(right, _)| right)
}

/// An error of a call that changes nothing when it is not answered, or can be repeated.
pub(super) fn call_error(operation: &'static str, address: &Address, vhost: &str, error: &CallError) -> BrokerError {
    let detail = error.text();
    match (error.code(), error) {
        (Some(_), _) | (None, CallError::Ended(_)) if is_limit(&detail) => limit(operation, &address.user, detail),
        (Some(403), _) => rights(operation, right_of(&detail), vhost, &address.user),
        // Not implemented, such as a get from a stream: no connection will take it.
        (Some(540), _) => BrokerError::Failed { operation, detail },
        (_, CallError::Silent(_)) => BrokerError::Unknown { operation, detail },
        (_, CallError::Unopened(error)) => BrokerError::clone(error),
        _ if error.ended().is_some() => BrokerError::Unreachable { operation, detail },
        _ => BrokerError::Failed { operation, detail },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: u16, text: &str) -> CallError {
        CallError::Refused(code, text.to_owned())
    }

    fn refused(code: u16, text: &str) -> BrokerError {
        connect_error(&Address::parse("amqp://u:p@h").unwrap(), "v", &said(code, text))
    }

    #[test]
    fn what_is_missing_is_said_in_one_sentence() {
        let said = said(
            403,
            "ACCESS_REFUSED - access to queue 'dead' in vhost 'v' refused for user 'u'",
        );
        let error = call_error("look", &Address::parse("amqp://u:p@h").unwrap(), "v", &said);
        assert!(
            error
                .to_string()
                .starts_with("broker refuses look: access to queue 'dead' is missing; grant it"),
            "{error}"
        );
    }

    #[test]
    fn a_right_to_a_routing_key_is_granted_by_a_topic_permission() {
        let said = said(
            403,
            "ACCESS_REFUSED - write access to topic 'no.x' in exchange 'xt' in vhost 'v' refused for user 'u'",
        );
        let error = call_error("publish", &Address::parse("amqp://u:p@h").unwrap(), "v", &said).to_string();
        assert!(
            error.contains("write access to topic 'no.x' in exchange 'xt' is missing")
                && error.contains("set_topic_permissions")
                && !error.contains("our prefix"),
            "{error}"
        );
    }

    #[test]
    fn what_the_broker_does_not_do_is_no_lost_connection() {
        let said = said(540, "NOT_IMPLEMENTED - basic.get not supported by stream queues");
        let error = call_error("browse", &Address::parse("amqp://u:p@h").unwrap(), "v", &said);
        assert!(matches!(error, BrokerError::Failed { .. }), "{error}");
    }

    /// A publisher that makes its queue while somebody looks whose the broker is has been told that there is no
    /// exchange: the other's answer.
    #[test]
    fn what_is_missing_is_taken_for_what_was_asked_for_only_by_its_name() {
        let exchange = said(404, "NOT_FOUND - no exchange 'redrive.owner.a' in vhost 'v'");
        assert!(exchange.says_missing_exchange("redrive.owner.a") && !exchange.says_missing_exchange("redrive.owner"));
        assert!(!exchange.says_missing("redrive.owner.a"));
        let queue = said(404, "NOT_FOUND - no queue 'a' in vhost 'v'");
        assert!(queue.says_missing("a") && !queue.says_missing("b"));
        let long = "q".repeat(250);
        assert!(said(404, &format!("NOT_FOUND - no queue '{}", &long[..230])).says_missing(&long));
        let away = said(
            404,
            "NOT_FOUND - home node 'a' of durable queue 'a' in vhost 'v' is down or inaccessible",
        );
        assert!(!away.says_missing("a"));
    }

    #[test]
    fn a_connection_that_nobody_takes_is_told_in_plain_words() {
        let fault = Fault::Transport(io::ErrorKind::ConnectionRefused.into());
        let error = connect_error(&Address::parse("amqp://u:p@h").unwrap(), "v", &fault.into());
        assert!(
            error
                .to_string()
                .contains("connection refused: nothing listens at h:5672"),
            "{error}"
        );
    }

    #[test]
    fn a_refused_connection_is_told_as_what_it_is() {
        let cases = [
            (
                403,
                "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN",
                "login failed",
            ),
            (530, "NOT_ALLOWED - vhost v not found", "add_vhost"),
            (
                530,
                "NOT_ALLOWED - access to vhost 'v' refused for user 'u'",
                "set_permissions",
            ),
            (
                530,
                "NOT_ALLOWED - connection refused for user 'u': user connection limit (0) is reached",
                "set_user_limits",
            ),
            (
                530,
                "NOT_ALLOWED - access to vhost 'v' refused for user 'u': connection limit (0) is reached",
                "set_vhost_limits",
            ),
            (
                530,
                "NOT_ALLOWED - connection refused: node connection limit (9) is reached",
                "node's configuration",
            ),
            (
                541,
                "INTERNAL_ERROR - access to vhost 'v' refused for user 'u': vhost 'v' is down",
                "is down",
            ),
        ];
        for (code, text, expected) in cases {
            let said = refused(code, text).to_string();
            assert!(said.contains(expected), "{text}: {said}");
            let mends = [
                "add_vhost",
                "set_permissions",
                "set_user_limits",
                "set_vhost_limits",
                "login failed",
            ];
            let others = mends.iter().filter(|mend| **mend != expected && said.contains(**mend));
            // Whoever makes the vhost has to give rights on it.
            let has_two = matches!(expected, "node's configuration" | "add_vhost");
            assert!(others.count() <= usize::from(has_two), "{text}: {said}");
        }
    }
}
