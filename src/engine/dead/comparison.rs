//! Messages side by side: which places of them hold the same in all, and which do not.
//!
//! A place is a value that can be told apart from its neighbours: a property, a header, a value of a JSON body by its
//! pointer, a line of a text. What is compared comes from outside, so everything is bounded: places, lines, the length
//! of what is shown. A value that is cut is still compared whole, by its hash.

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::ambient::HashMap;
use crate::domain::mask::{MASK, MaskRules};
use crate::domain::message::{HeaderValue, Message};
use crate::domain::naming::hex;
use crate::domain::text::show;

/// Places that are told; more are counted.
const PLACES_MAX: usize = 1_000;
/// Characters of a value that are shown.
const SHOWN_MAX: usize = 200;
/// Values of a place that are told; more are counted.
const VALUES_MAX: usize = 20;
/// A larger body is one place.
const BODY_MAX: usize = 1 << 20;
/// Lines of a text that are places.
const LINES_MAX: usize = 200;

/// What is alike in messages, and what is not.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Comparison {
    /// Every place that one of them has, in the order of a message: what is known of it, properties, headers, body.
    pub places: Vec<Compared>,
    /// Places beyond those, which were not compared.
    pub left_out: u64,
}

/// A place, with what the messages have there.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Compared {
    /// `content type`, `header tenant`, `body /customer/id`, `body line 3`.
    pub place: String,
    /// How many different values there are; 1: it is the same in all. That there is none counts as one. `None`: what
    /// the masks leave of it is the same in all, and what they hide is not compared.
    pub different: Option<u64>,
    /// The values, the most frequent first; of two messages that of the first before that of the second.
    pub values: Vec<Shared>,
}

/// A value with the messages that have it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Shared {
    /// As text, cut and without control characters; `None`: nothing is there.
    pub value: Option<String>,
    /// How many messages have it.
    pub messages: u64,
}

impl Comparison {
    /// The places that differ.
    pub fn different(&self) -> impl Iterator<Item = &Compared> {
        self.places.iter().filter(|place| place.is_different())
    }

    /// The places that are the same in all, and those of which only that is known that they are hidden.
    pub fn alike(&self) -> impl Iterator<Item = &Compared> {
        self.places.iter().filter(|place| !place.is_different())
    }
}

impl Compared {
    /// Whether not all have the same there, as far as that may be told.
    #[must_use]
    pub fn is_different(&self) -> bool {
        self.different.is_some_and(|different| different > 1)
    }
}

/// A comparison while it is made, message by message, without what the rules hide.
#[derive(Debug)]
pub struct Comparing {
    rules: Arc<MaskRules>,
    messages: u64,
    places: Vec<(Part, Compared)>,
    by_name: HashMap<(Part, String), usize>,
    left_out: u64,
}

/// Which part of a message a place is in: the order of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Part {
    Known,
    Property,
    Header,
    Body,
}

impl Comparing {
    /// Of nothing yet.
    #[must_use]
    pub fn without_what(rules: Arc<MaskRules>) -> Self {
        Self {
            rules,
            messages: 0,
            places: Vec::new(),
            by_name: HashMap::default(),
            left_out: 0,
        }
    }

    /// Adds a message, with what is known of it besides. `tells` says which headers are compared.
    pub fn add(&mut self, known: Vec<(&str, Option<String>)>, message: &Message, tells: impl Fn(&str) -> bool) {
        let message = self.rules.message(message);
        let known = known.into_iter().map(|known| (Part::Known, known));
        let properties = properties(&message).map(|property| (Part::Property, property));
        for (part, (name, value)) in known.chain(properties) {
            if let Some(value) = value {
                self.put(part, name, &value);
            }
        }
        for (name, value) in message.headers.iter().filter(|(name, _)| tells(name)) {
            self.header(&format!("header {name}"), value);
        }
        self.body(&message.body);
        self.messages += 1;
    }

    /// What came of it.
    #[must_use]
    pub fn ended(mut self) -> Comparison {
        for (_, place) in &mut self.places {
            let present: u64 = place.values.iter().map(|shared| shared.messages).sum();
            let absent = self.messages.saturating_sub(present);
            match place.values.iter_mut().find(|shared| shared.value.is_none()) {
                Some(none) => none.messages += absent,
                None if absent > 0 => place.values.push(Shared {
                    value: None,
                    messages: absent,
                }),
                None => {}
            }
            place.different = match place.values.as_slice() {
                [Shared { value: Some(only), .. }] if only.contains(MASK) => None,
                values => u64::try_from(values.len()).ok(),
            };
            // Of equals the first stays the first.
            place.values.sort_by_key(|shared| std::cmp::Reverse(shared.messages));
            place.values.truncate(VALUES_MAX);
        }
        self.places.sort_by_key(|(part, _)| *part);
        Comparison {
            places: self.places.into_iter().map(|(_, place)| place).collect(),
            left_out: self.left_out,
        }
    }

    fn put(&mut self, part: Part, place: &str, value: &str) {
        let known = self.by_name.len();
        let at = match self.by_name.get(&(part, place.to_owned())) {
            Some(at) => *at,
            None if known >= PLACES_MAX => {
                self.left_out += 1;
                return;
            }
            None => {
                self.by_name.insert((part, place.to_owned()), known);
                // Those before it have nothing there.
                let before = Some(self.messages).filter(|messages| *messages > 0);
                let none = before.map(|messages| Shared { value: None, messages });
                let compared = Compared {
                    place: show(place, SHOWN_MAX),
                    different: None,
                    values: none.into_iter().collect(),
                };
                self.places.push((part, compared));
                known
            }
        };
        let Some((_, compared)) = self.places.get_mut(at) else {
            return;
        };
        let text = shown(&self.rules.outward(value).value);
        match compared
            .values
            .iter_mut()
            .find(|shared| shared.value.as_deref() == Some(&*text))
        {
            Some(shared) => shared.messages += 1,
            None => compared.values.push(Shared {
                value: Some(text),
                messages: 1,
            }),
        }
    }

    fn header(&mut self, place: &str, value: &HeaderValue) {
        let entries = value.as_table().unwrap_or_default();
        for (name, value) in entries {
            self.header(&below(place, name), value);
        }
        let values = value.as_array().unwrap_or_default();
        for (at, value) in values.iter().enumerate() {
            self.header(&below(place, &at.to_string()), value);
        }
        if entries.is_empty() && values.is_empty() {
            self.put(Part::Header, place, &value.shown(BODY_MAX));
        }
    }

    fn body(&mut self, body: &[u8]) {
        if body.len() <= BODY_MAX {
            if let Ok(value) = serde_json::from_slice::<Value>(body) {
                return self.value("body", &value);
            }
            if let Ok(text) = std::str::from_utf8(body)
                && text.lines().count() <= LINES_MAX
            {
                for (at, line) in text.lines().enumerate() {
                    self.put(Part::Body, &format!("body line {}", at + 1), line);
                }
                return;
            }
        }
        self.put(Part::Body, "body", &of_bytes(body));
    }

    /// As deep as the reader of JSON goes, which is bounded.
    fn value(&mut self, place: &str, value: &Value) {
        for (name, value) in value.as_object().into_iter().flatten() {
            self.value(&below(place, name), value);
        }
        for (at, value) in value.as_array().into_iter().flatten().enumerate() {
            self.value(&below(place, &at.to_string()), value);
        }
        let is_empty = |value: &Value| match (value.as_object(), value.as_array()) {
            (Some(entries), _) => entries.is_empty(),
            (_, Some(values)) => values.is_empty(),
            (None, None) => true,
        };
        if is_empty(value) {
            self.put(Part::Body, place, &value.to_string());
        }
    }
}

/// The place of a key or an element in what is at `place`, as a JSON pointer (RFC 6901) behind the name of its part.
#[must_use]
pub(in crate::engine) fn below(place: &str, key: &str) -> String {
    let begins = !place.contains(" /");
    let space = if begins { " " } else { "" };
    format!("{place}{space}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// What AMQP says of a message besides its headers. The time that its publisher gave it differs always, and is left out.
fn properties(message: &Message) -> impl Iterator<Item = (&'static str, Option<String>)> {
    let mode = if message.transient { "transient" } else { "persistent" };
    let properties = [
        ("content type", message.content_type.clone()),
        ("content encoding", message.content_encoding.clone()),
        ("delivery mode", Some(mode.to_owned())),
        ("priority", message.priority.map(|priority| priority.to_string())),
        ("correlation id", message.correlation_id.clone()),
        ("reply to", message.reply_to.clone()),
        ("expiration", message.expiration.clone()),
        ("message id", message.message_id.clone()),
        ("type", message.kind.clone()),
        ("user id", message.user_id.clone()),
        ("application", message.app_id.clone()),
    ];
    properties.into_iter()
}

/// A value for people; what is cut off tells itself apart by its hash.
fn shown(value: &str) -> String {
    let end = value.floor_char_boundary(SHOWN_MAX);
    if end == value.len() {
        return show(value, SHOWN_MAX * 2);
    }
    format!(
        "{}… ({})",
        show(&value[..end], SHOWN_MAX * 2),
        of_bytes(value.as_bytes())
    )
}

fn of_bytes(bytes: &[u8]) -> String {
    format!("{} bytes, hash {}", bytes.len(), hex(&Sha256::digest(bytes)[..6]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(headers: &[(&str, &str)], body: &str) -> Message {
        Message {
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), HeaderValue::text(value)))
                .collect(),
            body: body.as_bytes().to_vec().into(),
            ..Message::default()
        }
    }

    fn compared(messages: &[Message]) -> Comparison {
        let mut comparing = Comparing::without_what(Arc::default());
        for message in messages {
            comparing.add(Vec::new(), message, |_| true);
        }
        comparing.ended()
    }

    /// Place, how many differ, the values with how many have them.
    type Told<'a> = (&'a str, Option<u64>, Vec<(Option<&'a str>, u64)>);

    fn told(comparison: &Comparison) -> Vec<Told<'_>> {
        comparison
            .places
            .iter()
            .filter(|place| place.place != "delivery mode")
            .map(|place| {
                let values = place.values.iter().map(|one| (one.value.as_deref(), one.messages));
                (place.place.as_str(), place.different, values.collect())
            })
            .collect()
    }

    #[test]
    fn two_messages_have_what_is_first_before_what_is_second() {
        let found = compared(&[
            message(&[("tenant", "a")], r#"{"id":1,"lines":[{"sku":"A"}],"old":true}"#),
            message(
                &[("tenant", "b"), ("new", "x")],
                r#"{"id":1,"lines":[{"sku":"B"},{"a/b":null}]}"#,
            ),
        ]);
        assert_eq!(
            told(&found),
            [
                ("header tenant", Some(2), vec![(Some("a"), 1), (Some("b"), 1)]),
                ("header new", Some(2), vec![(None, 1), (Some("x"), 1)]),
                ("body /id", Some(1), vec![(Some("1"), 2)]),
                (
                    "body /lines/0/sku",
                    Some(2),
                    vec![(Some("\"A\""), 1), (Some("\"B\""), 1)]
                ),
                ("body /old", Some(2), vec![(Some("true"), 1), (None, 1)]),
                ("body /lines/1/a~1b", Some(2), vec![(None, 1), (Some("null"), 1)]),
            ]
        );
    }

    #[test]
    fn what_many_have_stands_first_and_what_varies_is_counted() {
        let messages: Vec<Message> = (0..50)
            .map(|n| {
                message(
                    &[],
                    &format!(r#"{{"id":{n},"currency":"{}"}}"#, if n < 40 { "XXX" } else { "EUR" }),
                )
            })
            .collect();
        let found = compared(&messages);
        let by_place = |place: &str| found.places.iter().find(|one| one.place == place).unwrap();
        assert_eq!(by_place("body /currency").different, Some(2));
        assert_eq!(
            by_place("body /currency").values[0],
            Shared {
                value: Some("\"XXX\"".to_owned()),
                messages: 40
            }
        );
        assert_eq!(
            (by_place("body /id").different, by_place("body /id").values.len()),
            (Some(50), VALUES_MAX)
        );
    }

    #[test]
    fn texts_are_told_by_their_lines_and_bytes_by_their_hash() {
        let found = compared(&[message(&[], "a\nb"), message(&[], "a\nc")]);
        assert_eq!(
            told(&found),
            [
                ("body line 1", Some(1), vec![(Some("a"), 2)]),
                ("body line 2", Some(2), vec![(Some("b"), 1), (Some("c"), 1)])
            ]
        );
        let bytes = |last| Message {
            body: vec![0xff, last].into(),
            ..Message::default()
        };
        let found = compared(&[bytes(1), bytes(2)]);
        assert_eq!(told(&found)[0].1, Some(2), "equally long bytes are not equal");
    }

    #[test]
    fn what_is_cut_is_compared_whole_and_what_is_outside_shows_no_control_characters() {
        let long = |end: &str| message(&[("x", &format!("{}{end}", "a".repeat(5_000)))], "\"\\u001b[2J\"");
        let found = compared(&[long("1"), long("2")]);
        let [(place, different, values), rest @ ..] = &told(&found)[..] else {
            panic!("{found:?}")
        };
        assert_eq!((*place, *different), ("header x", Some(2)));
        assert!(values[0].0.unwrap().len() < 300, "{values:?}");
        assert!(!rest[0].2[0].0.unwrap().contains('\u{1b}'));
    }

    #[test]
    fn of_what_is_hidden_nobody_learns_whether_it_is_the_same() {
        let hides = MaskRules::usual();
        let mut comparing = Comparing::without_what(Arc::new(hides));
        for (secret, key) in [("one", "a"), ("two", "b")] {
            let body = format!("{{\"password\":\"{secret}\",\"callback\":\"https://c.example/?sig={key}\",\"id\":1}}");
            comparing.add(Vec::new(), &message(&[], &body), |_| true);
        }
        let found = comparing.ended();
        assert_eq!(
            told(&found),
            [
                (
                    "body /callback",
                    None,
                    vec![(Some("\"https://c.example/?sig=***\""), 2)]
                ),
                ("body /id", Some(1), vec![(Some("1"), 2)]),
                ("body /password", None, vec![(Some("\"***\""), 2)]),
            ]
        );
        assert_eq!((found.different().count(), found.alike().count()), (0, 4));
    }

    #[test]
    fn places_are_bounded() {
        let body: Vec<String> = (0..1_500).map(|n| format!("\"k{n}\":{n}")).collect();
        let found = compared(&[message(&[], &format!("{{{}}}", body.join(",")))]);
        assert_eq!((found.places.len(), found.left_out), (PLACES_MAX, 501));
    }
}
