//! Endpoints.

use serde::Serialize;

use crate::engine::view::EndpointView;

use super::{Unread, time, unread};

/// An endpoint.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the keys are those of docs/contract.md")]
pub struct Endpoint {
    pub url: String,
    pub state: &'static str,
    pub since: Option<String>,
    pub attempts: u32,
    pub next_attempt_at: Option<String>,
    pub last_status: Option<u16>,
    pub last_error: Option<String>,
    pub last_success_at: Option<String>,
    pub probe_queue: Option<String>,
    pub probe_message_id: Option<String>,
    pub queues: u64,
    pub waiting: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Unread>,
}

impl From<&EndpointView> for Endpoint {
    fn from(view: &EndpointView) -> Self {
        let endpoint = &view.endpoint;
        Self {
            url: endpoint.url.as_str().to_owned(),
            state: endpoint.state.as_str(),
            since: time(endpoint.since),
            attempts: endpoint.attempts,
            next_attempt_at: endpoint.next_attempt_at.and_then(time),
            last_status: endpoint.last_status,
            last_error: endpoint.last_error.clone(),
            last_success_at: endpoint.last_success_at.and_then(time),
            probe_queue: endpoint.probe_queue.as_ref().map(|name| name.as_str().to_owned()),
            probe_message_id: endpoint.probe_message.as_ref().map(|id| id.as_str().to_owned()),
            queues: view.queues,
            waiting: view.waiting,
            problems: unread(&view.problems),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::endpoint::{Endpoint as Row, EndpointState};
    use crate::domain::id::EndpointEpoch;
    use crate::domain::time::Timestamp;
    use crate::domain::url::EndpointUrl;

    #[test]
    fn an_endpoint_has_the_keys_of_the_contract() {
        let view = EndpointView {
            endpoint: Row {
                url: EndpointUrl::parse("http://example.com").unwrap(),
                state: EndpointState::Unavailable,
                epoch: EndpointEpoch(1),
                since: Timestamp::from_seconds(0),
                attempts: 4,
                next_attempt_at: Some(Timestamp::from_seconds(5)),
                last_status: Some(503),
                last_error: None,
                last_success_at: None,
                probe_queue: None,
                probe_message: None,
                probe: None,
            },
            queues: 2,
            waiting: None,
            problems: Vec::new(),
        };
        let json = serde_json::to_value(Endpoint::from(&view)).unwrap();
        for key in [
            "url",
            "state",
            "since",
            "attempts",
            "next_attempt_at",
            "last_status",
            "last_error",
            "queues",
            "waiting",
        ] {
            assert!(json.get(key).is_some(), "{key} is missing");
        }
        assert_eq!(json["state"], "unavailable");
        assert_eq!(json["next_attempt_at"], "1970-01-01T00:00:05Z");
        assert!(json["waiting"].is_null());
    }
}
