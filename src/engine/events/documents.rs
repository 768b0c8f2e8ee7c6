//! Documents of types and subscriptions, checked while they are written as when they are saved.

use super::json::from_json;
use crate::domain::event::{EventType, Metadata, SubscriptionOptions};
use crate::engine::EngineError;

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

/// Whether these can be the options of a subscription.
///
/// # Errors
/// The field that is wrong.
pub fn check_options(document: &str) -> Result<SubscriptionOptions, EngineError> {
    Ok(SubscriptionOptions::from_value(&from_json(&json(
        "options", document,
    )?))?)
}

fn json(field: &str, document: &str) -> Result<serde_json::Value, EngineError> {
    serde_json::from_str(document).map_err(|error| EngineError::Invalid {
        field: field.to_owned(),
        message: format!("{field} is not JSON: {error}"),
    })
}
