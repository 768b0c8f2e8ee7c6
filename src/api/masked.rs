//! What leaves for those who may only look: every document, without the values that the masks name.
//!
//! One pass over the finished JSON, whatever route made it, so that no route can forget it: values by their names
//! (headers, keys of payloads and options, forms in texts), payloads and bodies by the places in them, also in base64,
//! lines of plans by what they are about, what follows the names in the query of a URL, and the same where the receiver
//! repeats it in its answer. What is no JSON leaves only where its route says that there is nothing to hide in it, or that it hid it.
//!
//! Names are those that users gave. The keys of the program's own documents hide nothing, whatever they are called: the
//! token of a lease is a number that an attached process has to read.

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::ambient;
use crate::domain::mask::{MASK, MaskRules, is_hash_of_all};
use crate::engine::PlanLine;
use crate::wire::problem::Problem;

use super::answer::whole;

/// What somebody wrote, with places of its own.
const WRITTEN: [&str; 4] = ["payload", "body", "properties", "metadata"];
/// Where else in a document the keys are of users: of headers, subscriptions and queues.
const NAMED_BY_USERS: [&str; 5] = ["headers", "value", "options", "arguments", "in_force"];

/// Where in a document the words of a receiver stand: of an attempt, an endpoint, and the headers of a dead letter.
const ANSWERED: [&str; 5] = ["response", "response_base64", "error", "last_error", "value"];
/// A shorter value of a query is found in many texts that do not repeat it.
const REPEATED_MIN: usize = 6;

/// Whose the keys of an object are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// The program's: no rule is about them.
    Own,
    /// Users'.
    Users,
}

impl Keys {
    /// Of what stands under this name.
    fn under(self, name: &str, value: &Value) -> Self {
        // A list of headers has the program's `name` and `value` in it.
        let is_list = name == "headers" && value.is_array();
        if WRITTEN.contains(&name) || (NAMED_BY_USERS.contains(&name) && !is_list) {
            Self::Users
        } else {
            self
        }
    }
}

/// An answer in which is hidden already what has to be, or that has nothing to hide: it leaves as it is.
pub(super) struct MasksItself<A>(pub(super) A);

/// Marks it.
#[derive(Clone, Copy)]
struct LeavesAsItIs;

impl<A: IntoResponse> IntoResponse for MasksItself<A> {
    fn into_response(self) -> Response {
        let mut response = self.0.into_response();
        response.extensions_mut().insert(LeavesAsItIs);
        response
    }
}

/// The answer without what `rules` hide.
pub(super) async fn masked(rules: &MaskRules, response: Response) -> Response {
    if response.extensions().get::<LeavesAsItIs>().is_some() || response.body().size_hint().exact() == Some(0) {
        return response;
    }
    if !is_json(&response) {
        let why = "what this answers cannot be masked: use a token with the scope \"operate\" (api.tokens)";
        return Problem::new(406, why).into_response();
    }
    let (mut parts, bytes) = whole(response).await;
    let bytes = ambient::beside(|| without(rules, &bytes));
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert("redrive-masked", HeaderValue::from_static("true"));
    Response::from_parts(parts, Body::from(bytes))
}

/// The answer, with the number of values in it that `rules` hide.
pub(super) async fn counted(rules: &MaskRules, response: Response) -> (Response, usize) {
    if response.extensions().get::<LeavesAsItIs>().is_some() || !is_json(&response) {
        return (response, 0);
    }
    let (parts, bytes) = whole(response).await;
    let hidden = ambient::beside(|| hidden_in(rules, &bytes));
    (Response::from_parts(parts, Body::from(bytes)), hidden)
}

fn is_json(response: &Response) -> bool {
    response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with("application/json") || kind.starts_with("application/problem+json"))
}

/// How many values of a document `rules` hide.
pub(super) fn hidden_in(rules: &MaskRules, document: &[u8]) -> usize {
    let mut cover = Cover::new(rules);
    if let Ok(mut value) = serde_json::from_slice::<Value>(document) {
        cover.walk(&mut value, Keys::Own);
    }
    cover.hidden
}

/// A document without what `rules` hide.
pub(super) fn without(rules: &MaskRules, document: &[u8]) -> Bytes {
    let Ok(mut value) = serde_json::from_slice::<Value>(document) else {
        // What cannot be looked through does not leave.
        return Bytes::from_static(b"null");
    };
    Cover::new(rules).walk(&mut value, Keys::Own);
    value.to_string().into()
}

/// One pass.
struct Cover<'a> {
    rules: &'a MaskRules,
    /// Values that were hidden; those in queries of URLs are not counted.
    hidden: usize,
    /// Those of the URLs of the objects that are walked.
    in_queries: Vec<String>,
}

impl<'a> Cover<'a> {
    const fn new(rules: &'a MaskRules) -> Self {
        Self {
            rules,
            hidden: 0,
            in_queries: Vec::new(),
        }
    }

    fn walk(&mut self, value: &mut Value, keys: Keys) {
        match value {
            Value::Object(entries) => self.object(entries, keys),
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item, keys)),
            Value::String(text) => self.string(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn hide(&mut self, value: &mut Value) {
        if value.as_str() != Some(MASK) {
            *value = MASK.into();
            self.hidden += 1;
        }
    }

    fn object(&mut self, entries: &mut Map<String, Value>, keys: Keys) {
        // A header of a message is such a pair.
        let is_hidden = entries
            .get("name")
            .and_then(Value::as_str)
            .is_some_and(|name| self.rules.hides_header(name));
        if is_hidden && let Some(value) = entries.get_mut("value") {
            self.hide(value);
        }
        let is_hash = entries.get("name").and_then(Value::as_str).is_some_and(is_hash_of_all);
        if is_hash && let Some(value) = entries.get_mut("value") {
            // No credential, and so nobody is told to have seen one.
            *value = MASK.into();
        }
        self.line(entries);
        let outer = self.in_queries.len();
        // An attached process is given a letter beside its message.
        let of_letter = || entries.get("message").and(entries.get("letter"))?.get("url");
        let url = entries.get("url").or_else(of_letter).and_then(Value::as_str);
        self.in_queries.extend(url.into_iter().flat_map(query_values));
        for (name, value) in entries {
            if ANSWERED.contains(&name.as_str()) {
                self.repeated(name, value);
            }
            // Whether there is something is no secret.
            if value.is_null() || value.is_boolean() {
                continue;
            }
            let may_hide = keys == Keys::Users || WRITTEN.contains(&name.as_str());
            if may_hide && self.rules.hides_header(name) {
                self.hide(value);
                continue;
            }
            if let Value::String(text) = value
                && is_base64(name, text)
            {
                self.base64(text);
                continue;
            }
            if WRITTEN.contains(&name.as_str()) && (value.is_object() || value.is_array()) {
                self.written(value);
            }
            self.walk(value, keys.under(name, value));
        }
        self.in_queries.truncate(outer);
    }

    /// What a receiver says may repeat the query that it was asked with.
    fn repeated(&self, name: &str, value: &mut Value) {
        match value {
            Value::String(text) if is_base64(name, text) => {
                let bytes = STANDARD.decode(&*text).unwrap_or_default();
                let inner = String::from_utf8_lossy(&bytes);
                let shown = self.without_queries(inner.to_string());
                if shown != *inner {
                    *text = STANDARD.encode(shown);
                }
            }
            Value::String(text) => *text = self.without_queries(std::mem::take(text)),
            // So an attached process is given the value of a header.
            Value::Object(entries) => entries.iter_mut().for_each(|(name, value)| self.repeated(name, value)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
        }
    }

    fn without_queries(&self, mut text: String) -> String {
        for secret in &self.in_queries {
            if text.contains(secret) {
                text = text.replace(secret, MASK);
            }
        }
        text
    }

    /// A line of a plan.
    fn line(&mut self, entries: &mut Map<String, Value>) {
        let text = |name: &str| entries.get(name).and_then(Value::as_str).map(str::to_owned);
        let (Some(target), Some(now), Some(effect)) = (text("target"), text("now"), text("effect")) else {
            return;
        };
        let line = PlanLine { target, now, effect };
        let masked = line.masked(self.rules);
        self.hidden += usize::from(masked.now != line.now) + usize::from(masked.effect != line.effect);
        entries.insert("now".to_owned(), masked.now.into());
        entries.insert("effect".to_owned(), masked.effect.into());
    }

    /// A document that somebody wrote: its places begin here.
    fn written(&mut self, value: &mut Value) {
        let text = value.to_string();
        let masked = self.rules.text(&text);
        if masked.hidden > 0 {
            self.hidden += masked.hidden;
            *value = serde_json::from_str(&masked.value).unwrap_or_else(|_| MASK.into());
        }
    }

    fn base64(&mut self, text: &mut String) {
        let Ok(bytes) = STANDARD.decode(&*text) else {
            self.hidden += 1;
            MASK.clone_into(text);
            return;
        };
        // What is text in there is hidden as any text, URLs in it too.
        if let Ok(inner) = std::str::from_utf8(&bytes) {
            let mut shown = inner.to_owned();
            self.string(&mut shown);
            if shown != inner {
                *text = STANDARD.encode(shown);
            }
            return;
        }
        let masked = self.rules.body(&bytes);
        if masked.hidden > 0 {
            self.hidden += masked.hidden;
            *text = STANDARD.encode(masked.value);
        }
    }

    fn string(&mut self, text: &mut String) {
        let masked = self.rules.outward(text);
        self.hidden += masked.hidden;
        if let std::borrow::Cow::Owned(shown) = masked.value {
            *text = shown;
        }
    }
}

/// Whether bytes are written so under this name; a user's key of the same name may have any text.
fn is_base64(name: &str, text: &str) -> bool {
    name.ends_with("_base64") || (name == "base64" && STANDARD.decode(text).is_ok())
}

/// The values in the query of a URL, as written and as they are meant.
fn query_values(url: &str) -> impl Iterator<Item = String> {
    let query = url.split_once('?').map(|(_, query)| query).unwrap_or_default();
    let query = query.split('#').next().unwrap_or_default();
    let values = query.split('&').flat_map(|pair| {
        let value = pair.split_once('=').map_or(pair, |(_, value)| value);
        let meant = percent_decode_str(value).decode_utf8_lossy().into_owned();
        let plain = meant.replace('+', " ");
        [value.to_owned(), meant, plain]
    });
    values.filter(|value| value.len() >= REPEATED_MIN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::attempt::Attempt;
    use crate::domain::endpoint::{Endpoint, EndpointState, ProbeClaim};
    use crate::domain::event::EventLease;
    use crate::domain::mask::MaskRule;
    use crate::domain::message::{HeaderValue as Header, Message};
    use crate::domain::outcome::OutcomeClass;
    use crate::domain::time::Timestamp;
    use crate::domain::url::EndpointUrl;

    fn rules() -> MaskRules {
        MaskRules::new(vec![MaskRule::parse("/account/number").unwrap()], Vec::new())
    }

    fn shown(document: &Value) -> Value {
        serde_json::from_slice(&without(&rules(), document.to_string().as_bytes())).unwrap()
    }

    #[test]
    fn a_hash_over_what_is_hidden_is_hidden_and_no_credential() {
        let header = |name: &str| json!({"headers": [{"name": name, "value": "0a7afb03"}]});
        let hash = header("x-redrive-dead-fingerprint");
        assert_eq!(shown(&hash)["headers"][0]["value"], "***");
        assert_eq!(hidden_in(&rules(), hash.to_string().as_bytes()), 0);
        let other = header("x-redrive-dead-reason");
        assert_eq!(shown(&other), other);
    }

    #[test]
    fn values_go_by_their_names_and_places_wherever_they_stand() {
        let secret = "S3CRET";
        let document = json!({
            "items": [{
                "url": format!("https://a.example/hook?key={secret}&other={secret}#part"),
                "why": {"text": format!("POST \"https://a.example/?a={secret}\" failed: 503")},
                "headers": [{"name": "Authorization", "value": secret}, {"name": "x-request-api-key", "value": [secret]}],
                "options": {"headers": {"X-Api-Key": secret, "X-Team": "a"}, "secret": secret},
                "body": format!("{{\"password\":\"{secret}\",\"id\":7,\"account\":{{\"number\":\"{secret}\"}}}}"),
                "payload": {"deep": [{"accessToken": secret, "id": 8}], "account": {"number": [secret], "name": "A"}},
                "body_base64": STANDARD.encode(format!("{{\"password\":\"{secret}\",\"to\":\"https://a.example/?k={secret}\"}}")),
                "payload_base64": STANDARD.encode(format!("{{\"account\":{{\"number\":\"{secret}\"}}}}")),
                "form": format!("user=a&password={secret}"),
                "lines": [
                    {"target": "header x-redrive-header-authorization", "now": secret, "effect": "removed"},
                    {"target": "body /account/number", "now": secret, "effect": secret},
                ],
            }],
        });
        let shown = shown(&document);
        let text = shown.to_string();
        assert!(
            !text.contains(secret) && !text.contains(&STANDARD.encode(secret)),
            "{text}"
        );
        for base64 in ["body_base64", "payload_base64"] {
            let clear = STANDARD.decode(shown["items"][0][base64].as_str().unwrap()).unwrap();
            assert!(!String::from_utf8(clear).unwrap().contains(secret), "{base64}");
        }
        let item = &shown["items"][0];
        assert_eq!(item["url"], "https://a.example/hook?key=***&other=***");
        assert_eq!(item["headers"][0], json!({"name": "Authorization", "value": "***"}));
        assert_eq!(
            item["options"],
            json!({"headers": {"X-Api-Key": "***", "X-Team": "a"}, "secret": "***"})
        );
        assert_eq!(item["payload"]["deep"][0], json!({"accessToken": "***", "id": 8}));
        assert_eq!(item["payload"]["account"], json!({"number": "***", "name": "A"}));
        assert_eq!(item["why"]["text"], "POST \"https://a.example/?a=***\" failed: 503");
    }

    #[test]
    fn a_receiver_that_repeats_the_query_in_its_answer_tells_nobody() {
        let (secret, url) = ("S3CRET/a b", "https://a.example/hook?sig=S3CRET%2Fa+b&page=2");
        let answer = format!("{{\"path\":\"/hook?sig=S3CRET%2Fa+b\",\"sig\":\"{secret}\",\"page\":2}}");
        let document = json!({
            "items": [{"url": url, "response": answer, "error": format!("refused {secret}")}],
            "attempt": {"url": url, "response_base64": STANDARD.encode(&answer)},
            "letter": {"url": url, "message": {"headers": [{"name": "x-redrive-dead-response", "value": answer}]}},
            "other": {"url": "https://a.example/hook", "error": format!("not of this one: {secret}")},
        });
        let shown = shown(&document);
        let base64 = shown["attempt"]["response_base64"].as_str().unwrap();
        let base64 = String::from_utf8(STANDARD.decode(base64).unwrap()).unwrap();
        let expected = "{\"path\":\"/hook?sig=***\",\"sig\":\"***\",\"page\":2}";
        assert_eq!(base64, expected);
        assert_eq!(shown["items"][0]["response"], expected);
        assert_eq!(shown["items"][0]["error"], "refused ***");
        assert_eq!(shown["letter"]["message"]["headers"][0]["value"], expected);
        assert_eq!(shown["other"]["error"], document["other"]["error"]);
    }

    #[test]
    fn what_an_attempt_says_is_looked_into_where_an_attached_process_reads_it() {
        let attempt = |response: &str| {
            serde_json::from_value::<Attempt>(json!({
                "message_id": "m", "queue": "q", "url": "https://a.example/hook", "number": 1, "epoch": 1,
                "started_at": Timestamp::EPOCH, "duration_ms": 1, "class": OutcomeClass::Failed, "status": 500,
                "error": null, "response_base64": STANDARD.encode(response), "counted": true,
            }))
        };
        let secret = attempt("{\"password\":\"S3CRET\"}").unwrap();
        let shown = shown(&serde_json::to_value(&secret).unwrap());
        let hidden: Attempt = serde_json::from_value(shown).unwrap();
        assert_eq!(hidden.response.as_deref(), Some(&b"{\"password\":\"***\"}"[..]));
    }

    /// As an attached process is given a dead letter; bytes that are no text are in base64.
    #[test]
    fn headers_of_letters_are_looked_into_whatever_bytes_they_have() {
        let url = "https://a.example/hook?sig=S3CRET-query";
        let header = |name: &str, before: &str, behind: &[u8]| {
            let value = Header::Text([before.as_bytes(), behind].concat().into());
            (name.to_owned(), value)
        };
        let message = Message {
            headers: vec![
                header("form", "password=S3CRET", b"\xff"),
                header("json", "{\"password\":\"S3CRET\"}", b"\xff"),
                header("x-redrive-dead-response", "you asked S3CRET-query", b""),
                header("x-redrive-dead-response", "you asked S3CRET-query", b"\xff"),
                header("x-team", "plain", b"\xff"),
            ],
            ..Message::default()
        };
        let given = json!({"letter": {"url": url}, "message": message, "payload": {"base64": "no base64!"}});
        let shown = shown(&given);
        let left: Message = serde_json::from_value(shown["message"].clone()).unwrap();
        for (name, value) in &left.headers {
            let Header::Text(bytes) = value else {
                panic!("{name}: {value:?}")
            };
            assert!(!String::from_utf8_lossy(bytes).contains("S3CRET"), "{name}: {bytes:?}");
        }
        assert_eq!(left.headers[4], message.headers[4], "nothing in it is hidden");
        assert_eq!(shown["payload"], given["payload"]);
    }

    #[test]
    fn what_names_nothing_stays_as_it_is() {
        let document = json!({"items": [{"url": "https://a.example/", "ready": 3, "age_s": 0.5, "paused": false}], "cursor": null});
        assert_eq!(shown(&document), document);
    }

    #[test]
    fn what_the_program_names_itself_is_read_by_an_attached_process_whatever_the_rules_name() {
        let names = ["token", "name", "state", "url", "until", "count"].map(|name| MaskRule::parse(name).unwrap());
        let rules = MaskRules::new(names.to_vec(), Vec::new());
        let same = |document: &Value| {
            let bytes = document.to_string().into_bytes();
            assert_eq!(
                serde_json::from_slice::<Value>(&without(&rules, &bytes)).unwrap(),
                *document
            );
        };
        let url = EndpointUrl::parse("https://a.example/hook").unwrap();
        let now = Timestamp::from_seconds(5);
        let mut endpoint = Endpoint::of(url, EndpointState::Unavailable, now);
        endpoint.probe = Some(ProbeClaim { token: 7, until: now });
        same(&serde_json::to_value(endpoint).unwrap());
        let lease = EventLease {
            token: 8,
            revision: 1,
            owner: None,
            claim: None,
            until: now,
        };
        same(&serde_json::to_value(lease).unwrap());
        // Names of queues are keys here.
        same(&json!({"dead_places": {"card-payments.dead": 3, "session-token": 1}}));
    }

    #[test]
    fn keys_of_users_are_hidden_wherever_users_have_keys() {
        let secret = "S3CRET";
        for document in [
            json!({"headers": {"x-token": secret}}),
            json!({"headers": [{"name": "x-context", "value": {"token": secret}}]}),
            json!({"arguments": {"x-token": secret}, "in_force": {"x-token": secret}}),
            json!({"options": {"headers": {"x-token": secret}}}),
            json!({"metadata": {"token": [secret]}, "properties": {"headers": {"token": secret}}}),
            json!({"properties": {"header_frame_base64": STANDARD.encode(secret)}}),
            json!({"properties": format!("{{\"header_frame_base64\":\"{}\"}}", STANDARD.encode(secret))}),
            json!({"payload": {"deep": [{"token": secret}]}, "body": {"token": {"inner": secret}}}),
        ] {
            let shown = shown(&document).to_string();
            let is_told = shown.contains(secret) || shown.contains(&STANDARD.encode(secret));
            assert!(!is_told, "{document}");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_looked_through_does_not_leave() {
        let answer = |kind: &str| {
            let mut response = Response::new(Body::from("password: S3CRET"));
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
            response
        };
        let status = async |response: Response| masked(&rules(), response).await.status().as_u16();
        assert_eq!(status(answer("text/csv")).await, 406);
        assert_eq!(status(answer("text/event-stream")).await, 406);
        assert_eq!(status(Response::new(Body::from("x"))).await, 406);
        assert_eq!(status(MasksItself(answer("text/plain")).into_response()).await, 200);
        assert_eq!(status(Response::new(Body::empty())).await, 200);
    }

    #[tokio::test]
    async fn values_that_are_hidden_are_counted() {
        let document =
            json!({"headers": [{"name": "cookie", "value": "a"}], "body": "password=b", "url": "https://a/?k=v"});
        let answer: super::super::problem::Json<_> = super::super::problem::Json(document);
        let (_, hidden) = counted(&rules(), answer.into_response()).await;
        assert_eq!(hidden, 2);
    }
}
