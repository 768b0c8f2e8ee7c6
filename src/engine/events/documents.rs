//! Documents of types and subscriptions, checked while they are written as when they are saved.
//!
//! Options are shown without the secret and without the values of their headers. What was shown can be saved again:
//! what stands for a value keeps it.

use serde_json::Value;

use super::json::from_json;
use crate::domain::event::{EventType, HEADERS, Metadata, SECRET, SubscriptionOptions};
use crate::domain::mask::MASK;
use crate::domain::notification::check_given_headers;
use crate::engine::EngineError;
use crate::store::Subscription;

/// Whether this can be the metadata of a type. Whether a dead-letter type exists, only saving says.
///
/// # Errors
/// The field that is wrong.
pub fn check_metadata(event_type: &EventType, document: &str) -> Result<Metadata, EngineError> {
    Ok(Metadata::from_value(
        &from_json(&json("metadata", document)?),
        event_type,
    )?)
}

/// Whether these can be the options of a subscription. Whether there is a value that `***` can keep, only saving says.
///
/// # Errors
/// The field that is wrong.
pub fn check_options(document: &str) -> Result<SubscriptionOptions, EngineError> {
    let mut options = json("options", document)?;
    if options.get(SECRET).is_some_and(is_hidden) {
        options[SECRET] = Value::Null;
    }
    possible(&options)
}

/// What is not possible, or would be ignored, would only be found when an event is sent.
fn possible(options: &Value) -> Result<SubscriptionOptions, EngineError> {
    let options = SubscriptionOptions::from_value(&from_json(options))?;
    check_given_headers(&options.headers)?;
    Ok(options)
}

/// A subscription as it leaves the engine, whoever asks for it: nothing that it is signed with or logs in with is in it.
pub(super) fn shown(subscription: Subscription) -> Subscription {
    Subscription {
        options: shown_options(&subscription.options),
        ..subscription
    }
}

/// Options as they may be shown.
pub(super) fn shown_options(options: &str) -> String {
    let Ok(mut shown) = serde_json::from_str::<Value>(options) else {
        return MASK.to_owned();
    };
    let mut hides = false;
    for value in confidential(&mut shown).filter(|(_, value)| !value.is_null()) {
        *value.1 = MASK.into();
        hides = true;
    }
    if hides { shown.to_string() } else { options.to_owned() }
}

/// Options to be saved: `***` is replaced by what stands there in the options until now.
///
/// # Errors
/// The field for which nothing stands there, or that is wrong.
pub(super) fn options_to_save(document: &str, until_now: Option<&str>) -> Result<String, EngineError> {
    let mut options = json("options", document)?;
    let mut until_now = until_now
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or(Value::Null);
    let known: Vec<_> = confidential(&mut until_now)
        .map(|(field, value)| (field, value.take()))
        .collect();
    let mut keeps = false;
    for (field, value) in confidential(&mut options).filter(|(_, value)| is_hidden(value)) {
        let Some((_, kept)) = known.iter().find(|(name, kept)| *name == field && !kept.is_null()) else {
            let message =
                format!("{field} is ***, which keeps the value of before, and there is none: write the value");
            return Err(EngineError::Invalid { field, message });
        };
        *value = kept.clone();
        keeps = true;
    }
    possible(&options)?;
    Ok(if keeps {
        options.to_string()
    } else {
        document.to_owned()
    })
}

/// The values that are not shown, each with its field.
fn confidential(options: &mut Value) -> impl Iterator<Item = (String, &mut Value)> {
    let options = options.as_object_mut().into_iter().flatten();
    options.flat_map(|(key, value)| -> Box<dyn Iterator<Item = (String, &mut Value)>> {
        match (key.as_str(), value) {
            (SECRET, value) => Box::new(std::iter::once((SECRET.to_owned(), value))),
            (HEADERS, Value::Object(headers)) => Box::new(
                headers
                    .iter_mut()
                    .map(|(name, value)| (format!("{HEADERS}.{}", name.to_ascii_lowercase()), value)),
            ),
            _ => Box::new(std::iter::empty()),
        }
    })
}

fn is_hidden(value: &Value) -> bool {
    value.as_str() == Some(MASK)
}

fn json(field: &str, document: &str) -> Result<Value, EngineError> {
    serde_json::from_str(document).map_err(|error| EngineError::Invalid {
        field: field.to_owned(),
        message: format!("{field} is not JSON: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = r#"{"headers": {"Authorization": "Bearer A", "X-Team": "b"}, "secret": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}"#;

    #[test]
    fn options_are_shown_as_they_were_written_without_their_secret_and_values_of_headers() {
        for open in [
            r#"{"headers":  {}}"#,
            r#"{"_retry_policy": {"minimum_delay": 5}}"#,
            r#"{"secret": null}"#,
        ] {
            assert_eq!(shown_options(open), open);
        }
        assert_eq!(
            shown_options(BEFORE),
            r#"{"headers":{"Authorization":"***","X-Team":"***"},"secret":"***"}"#
        );
        assert_eq!(shown_options("no JSON"), "***");
    }

    #[test]
    fn what_was_shown_is_saved_as_it_was_with_what_was_written_beside() {
        let shown = r#"{"headers": {"authorization": "***", "x-team": "c"}, "secret": "***"}"#;
        check_options(shown).unwrap();
        let saved: Value = serde_json::from_str(&options_to_save(shown, Some(BEFORE)).unwrap()).unwrap();
        let expected = serde_json::json!({
            "headers": {"authorization": "Bearer A", "x-team": "c"},
            "secret": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        });
        assert_eq!(saved, expected);
        let other = r#"{"headers":  {"x": "y"}}"#;
        assert_eq!(options_to_save(other, Some(BEFORE)).unwrap(), other);
    }

    #[test]
    fn what_keeps_nothing_names_the_field() {
        for (document, before, expected) in [
            (r#"{"headers": {"X-New": "***"}}"#, Some(BEFORE), "headers.x-new"),
            (r#"{"secret": "***"}"#, None, "secret"),
            (r#"{"secret": "***"}"#, Some(r#"{"secret": null}"#), "secret"),
        ] {
            match options_to_save(document, before) {
                Err(EngineError::Invalid { field, message }) => {
                    assert!(field == expected && message.contains(expected), "{field}: {message}");
                }
                other => panic!("{document}: {other:?}"),
            }
        }
    }
}
