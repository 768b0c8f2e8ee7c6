//! What leaves for those who may only look: every document, without the values that the masks name.
//!
//! One pass over the finished JSON, whatever route made it, so that no route can forget it: values by their names
//! (headers, keys of payloads, forms in texts), bodies in base64, and what follows the names in the query of a URL.

use std::borrow::Cow;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt as _;
use serde_json::{Map, Value};

use crate::ambient;
use crate::domain::mask::{MASK, MaskRules};
use crate::domain::url::redact_urls;

/// What stands for a hidden value.
const HIDDEN: &str = "***";

/// The answer without what `rules` hide.
pub(super) async fn masked(rules: &MaskRules, response: Response) -> Response {
    let is_json = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with("application/json") || kind.starts_with("application/problem+json"));
    if !is_json {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // It was made whole in memory.
    let bytes = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let bytes = ambient::beside(|| without(rules, &bytes));
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert("redrive-masked", HeaderValue::from_static("true"));
    Response::from_parts(parts, Body::from(bytes))
}

fn without(rules: &MaskRules, document: &[u8]) -> Bytes {
    let Ok(mut value) = serde_json::from_slice::<Value>(document) else {
        // What cannot be looked through does not leave.
        return Bytes::from_static(b"null");
    };
    walk(rules, &mut value);
    value.to_string().into()
}

fn walk(rules: &MaskRules, value: &mut Value) {
    match value {
        Value::Object(entries) => object(rules, entries),
        Value::Array(items) => items.iter_mut().for_each(|item| walk(rules, item)),
        Value::String(text) => string(rules, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn object(rules: &MaskRules, entries: &mut Map<String, Value>) {
    // A header of a message is such a pair.
    let is_hidden = entries
        .get("name")
        .and_then(Value::as_str)
        .is_some_and(|name| rules.hides_header(name));
    if is_hidden && let Some(value) = entries.get_mut("value") {
        *value = HIDDEN.into();
    }
    for (name, value) in entries {
        // Whether there is something is no secret.
        if value.is_null() || value.is_boolean() {
            continue;
        }
        if rules.hides_header(name) {
            *value = HIDDEN.into();
        } else if let Value::String(text) = value
            && name.ends_with("_base64")
        {
            base64(rules, text);
        } else {
            walk(rules, value);
        }
    }
}

fn base64(rules: &MaskRules, text: &mut String) {
    *text = match STANDARD.decode(&*text) {
        Ok(bytes) => {
            let masked = rules.body(&bytes);
            if masked.hidden == 0 {
                return;
            }
            STANDARD.encode(masked.value)
        }
        Err(_) => HIDDEN.to_owned(),
    };
}

fn string(rules: &MaskRules, text: &mut String) {
    let masked = rules.text(text);
    if masked.hidden > 0 {
        *text = masked.value.replace(MASK, HIDDEN);
    }
    if let Cow::Owned(redacted) = redact_urls(text) {
        *text = redacted;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(document: &Value) -> Value {
        serde_json::from_slice(&without(&MaskRules::usual(), document.to_string().as_bytes())).unwrap()
    }

    #[test]
    fn values_go_by_their_names_wherever_they_stand() {
        let secret = "S3CRET";
        let document = json!({
            "items": [{
                "url": format!("https://a.example/hook?key={secret}&other={secret}#part"),
                "why": {"text": format!("POST \"https://a.example/?a={secret}\" failed: 503")},
                "headers": [{"name": "Authorization", "value": secret}, {"name": "x-request-api-key", "value": [secret]}],
                "options": {"headers": {"X-Api-Key": secret, "X-Team": "a"}, "secret": secret},
                "body": format!("{{\"password\":\"{secret}\",\"id\":7}}"),
                "payload": {"deep": [{"accessToken": secret, "id": 8}]},
                "body_base64": STANDARD.encode(format!("{{\"password\":\"{secret}\"}}")),
                "form": format!("user=a&password={secret}"),
            }],
        });
        let shown = shown(&document);
        let text = shown.to_string();
        assert!(
            !text.contains(secret) && !text.contains(&STANDARD.encode(secret)),
            "{text}"
        );
        let item = &shown["items"][0];
        assert_eq!(item["url"], "https://a.example/hook?key=***&other=***");
        assert_eq!(item["headers"][0], json!({"name": "Authorization", "value": "***"}));
        assert_eq!(
            item["options"],
            json!({"headers": {"X-Api-Key": "***", "X-Team": "a"}, "secret": "***"})
        );
        assert_eq!(item["payload"]["deep"][0], json!({"accessToken": "***", "id": 8}));
        assert_eq!(item["why"]["text"], "POST \"https://a.example/?a=***\" failed: 503");
    }

    #[test]
    fn what_names_nothing_stays_as_it_is() {
        let document = json!({"items": [{"url": "https://a.example/", "ready": 3, "age_s": 0.5, "paused": false}], "cursor": null});
        assert_eq!(shown(&document), document);
    }
}
