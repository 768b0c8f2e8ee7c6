//! What any publisher may have set on a message, and what is taken off a copy that is made to stay (docs/protocols.md
//! 32).
//!
//! A broker refuses a publish in another user's name, drops what has a lifetime, copies to every key of `CC`, reorders
//! by priority, and forgets what is transient with its next restart. None of that may happen to a message that was
//! published once already and is only put elsewhere now. Left out: sizes, which only the broker knows.

use super::message::{HeaderValue, Message};

/// Headers by which the broker routes a publish to further keys.
const COPIED_BY: [&str; 2] = ["CC", "BCC"];

/// A message as it is stored, and what it had before.
#[derive(Clone, Debug, PartialEq)]
pub struct Storable {
    /// The message: persistent, and only for where it is published to.
    pub message: Message,
    /// What was taken off, by the name that AMQP gives it.
    pub taken_off: Vec<(&'static str, HeaderValue)>,
}

/// `message` as it can be stored.
#[must_use]
pub fn storable(message: &Message) -> Storable {
    let mut taken_off = Vec::new();
    let mut headers = Vec::with_capacity(message.headers.len());
    for (name, value) in &message.headers {
        match COPIED_BY.into_iter().find(|key| key == name) {
            Some(key) => taken_off.push((key, value.clone())),
            None => headers.push((name.clone(), value.clone())),
        }
    }
    let mut stored = message.with_headers(headers);
    let expiration = stored.expiration.take().map(|text| HeaderValue::text(&text));
    let priority = stored.priority.take().map(HeaderValue::U8);
    let user = stored.user_id.take().map(|text| HeaderValue::text(&text));
    let transient = std::mem::take(&mut stored.transient).then_some(HeaderValue::U8(TRANSIENT));
    let properties = [
        ("expiration", expiration),
        ("priority", priority),
        ("user_id", user),
        ("delivery_mode", transient),
    ];
    taken_off.extend(properties.into_iter().filter_map(|(name, value)| Some((name, value?))));
    Storable {
        message: stored,
        taken_off,
    }
}

/// AMQP's number for a message that does not survive a restart.
const TRANSIENT: u8 = 1;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn what_would_lose_or_multiply_a_message_is_taken_off_and_named() {
        let keys = HeaderValue::Array(vec![HeaderValue::text("elsewhere")]);
        let message = Message {
            expiration: Some("3000".to_owned()),
            priority: Some(9),
            user_id: Some("guest".to_owned()),
            transient: true,
            reply_to: Some("answers".to_owned()),
            kind: Some("order".to_owned()),
            app_id: Some("shop".to_owned()),
            timestamp_s: Some(u64::MAX),
            headers: vec![
                ("CC".to_owned(), keys.clone()),
                ("mine".to_owned(), HeaderValue::Void),
                ("BCC".to_owned(), keys.clone()),
            ],
            body: Bytes::from_static(b"body"),
            ..Message::default()
        };
        let Storable {
            message: stored,
            taken_off,
        } = storable(&message);
        let rest = Message {
            headers: vec![("mine".to_owned(), HeaderValue::Void)],
            expiration: None,
            priority: None,
            user_id: None,
            transient: false,
            ..message
        };
        assert_eq!(stored, rest);
        let expected = [
            ("CC", keys.clone()),
            ("BCC", keys),
            ("expiration", HeaderValue::text("3000")),
            ("priority", HeaderValue::U8(9)),
            ("user_id", HeaderValue::text("guest")),
            ("delivery_mode", HeaderValue::U8(1)),
        ];
        assert_eq!(taken_off, expected);
        assert_eq!(storable(&stored).taken_off, []);
    }
}
