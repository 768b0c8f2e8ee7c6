//! One request as it came: its head, what is kept of its body, and whether its signature holds.

use std::time::Duration;

use hyper::HeaderMap;
use hyper::http::request::Parts;

use crate::domain::id::{NotificationId, QueueName};
use crate::domain::signature::{SigningSecret, Verifier};
use crate::domain::time::Timestamp;

use super::ledger::Place;

/// What is kept of a body to be shown.
pub(super) const BODY_BYTES_KEPT: usize = 256 * 1024;
/// A receiver takes no signature that is older, or further ahead (Standard Webhooks).
const TOLERANCE: Duration = Duration::from_secs(5 * 60);
/// Headers that are told by themselves, and those of the connection.
const TOLD_OTHERWISE: &[&str] = &[
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
    "redrive-queue",
    "redrive-epoch",
    "redrive-sequence",
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
];

/// A request that came in whole.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) at: Timestamp,
    pub(super) method: String,
    pub(super) target: String,
    /// `webhook-id`, as it came.
    pub(super) id_text: Option<String>,
    pub(super) id: Option<NotificationId>,
    pub(super) place: Option<Place>,
    pub(super) signature: Signature,
    /// Without those that are told otherwise.
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
    /// More than was kept.
    pub(super) body_bytes: u64,
}

impl Received {
    /// What is said of its signature. Full stops stand between what is signed, and so one in the id can be taken for one
    /// of these.
    pub(super) fn said_of_signature(&self) -> String {
        let said = self.signature.said();
        let has_full_stop = self.id_text.as_deref().is_some_and(|id| id.contains('.'));
        if self.signature == Signature::Valid && has_full_stop {
            return format!(
                "{said}; the id has a full stop, and so the same signature may hold for a shorter id with another time and body"
            );
        }
        said
    }

    pub(super) const fn is_cut(&self) -> bool {
        self.body_bytes > self.body.len() as u64
    }
}

/// Whether a request comes from who has the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Signature {
    /// No secret was given.
    NotChecked {
        /// Whether there is one to check.
        is_there: bool,
    },
    Valid,
    /// The sender does not sign.
    Absent,
    Invalid(String),
}

impl Signature {
    /// For programs.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::NotChecked { .. } => "not_checked",
            Self::Valid => "valid",
            Self::Absent => "absent",
            Self::Invalid(_) => "invalid",
        }
    }

    pub(super) const fn is_forged(&self) -> bool {
        matches!(self, Self::Absent | Self::Invalid(_))
    }

    /// For people.
    fn said(&self) -> String {
        match self {
            Self::NotChecked { is_there: true } => "not checked; give its secret with --secret".to_owned(),
            Self::NotChecked { is_there: false } => "none".to_owned(),
            Self::Valid => "valid".to_owned(),
            Self::Absent => "absent; this URL has no secret in redrive's configuration ([[endpoint]])".to_owned(),
            Self::Invalid(why) => format!("invalid; {why}"),
        }
    }
}

/// A request whose body is still to come.
#[derive(Debug)]
pub(super) struct Coming {
    received: Received,
    verifiers: Vec<Verifier>,
    header: String,
    timestamp_s: Option<i64>,
}

impl Coming {
    pub(super) fn new(head: &Parts, secrets: &[SigningSecret]) -> Self {
        let text = |name: &str| text(&head.headers, name);
        let id_text = text("webhook-id");
        let timestamp = text("webhook-timestamp");
        let header = text("webhook-signature");
        let begun = |secret: &SigningSecret| Some(secret.verifier(id_text.as_deref()?, timestamp.as_deref()?));
        let signature = match &header {
            Some(_) if secrets.is_empty() => Signature::NotChecked { is_there: true },
            None if secrets.is_empty() => Signature::NotChecked { is_there: false },
            None => Signature::Absent,
            // Until the body is there.
            Some(_) => Signature::Valid,
        };
        let verifiers = secrets.iter().filter_map(begun).collect();
        Self {
            verifiers,
            header: header.unwrap_or_default(),
            timestamp_s: timestamp.and_then(|text| text.parse().ok()),
            received: Received {
                at: Timestamp::EPOCH,
                method: head.method.to_string(),
                target: head
                    .uri
                    .path_and_query()
                    .map_or_else(|| head.uri.to_string(), ToString::to_string),
                id: id_text.as_deref().and_then(|id| NotificationId::parse(id).ok()),
                id_text,
                place: place(&head.headers),
                signature,
                headers: others(&head.headers),
                body: Vec::new(),
                body_bytes: 0,
            },
        }
    }

    /// How much came by now.
    pub(super) const fn body_bytes(&self) -> u64 {
        self.received.body_bytes
    }

    /// The next part of the body.
    pub(super) fn take(&mut self, part: &[u8]) {
        for verifier in &mut self.verifiers {
            verifier.update(part);
        }
        let body = &mut self.received.body;
        let room = BODY_BYTES_KEPT.saturating_sub(body.len());
        body.extend_from_slice(part.get(..room).unwrap_or(part));
        self.received.body_bytes += part.len() as u64;
    }

    /// The body is complete.
    pub(super) fn end(mut self, now: Timestamp) -> Received {
        self.received.at = now;
        if self.received.signature == Signature::Valid
            && let Some(why) = self.invalid(now)
        {
            self.received.signature = Signature::Invalid(why);
        }
        self.received
    }

    fn invalid(&self, now: Timestamp) -> Option<String> {
        if self.received.id_text.is_none() {
            return Some("webhook-id is missing".to_owned());
        }
        let Some(timestamp_s) = self.timestamp_s else {
            return Some("webhook-timestamp is missing or no number".to_owned());
        };
        if !self.verifiers.iter().any(|verifier| verifier.is_in(&self.header)) {
            return Some(
                "no entry of webhook-signature was made with this secret over this id, time and body".to_owned(),
            );
        }
        let at = Timestamp::from_seconds(timestamp_s);
        let off = now.since(at).max(at.since(now));
        (off > TOLERANCE).then(|| format!("webhook-timestamp is {} s away from now; 300 are usual", off.as_secs()))
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn place(headers: &HeaderMap) -> Option<Place> {
    Some(Place {
        queue: QueueName::parse(&text(headers, "redrive-queue")?).ok()?,
        epoch: text(headers, "redrive-epoch")?.parse().ok()?,
        sequence: text(headers, "redrive-sequence")?.parse().ok()?,
    })
}

fn others(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let told = headers
        .iter()
        .filter(|(name, _)| !TOLD_OTHERWISE.contains(&name.as_str()));
    told.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect()
}
