//! Histories in the shapes of 3.10 to 4.x, and odd ones.

use super::*;

fn text(text: &str) -> HeaderValue {
    HeaderValue::text(text)
}

fn table(entries: &[(&str, HeaderValue)]) -> HeaderValue {
    HeaderValue::Table(
        entries
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
    )
}

fn entry(queue: &str, reason: &str, exchange: &str, keys: &[&str], count: HeaderValue, at: u64) -> HeaderValue {
    table(&[
        ("count", count),
        ("reason", text(reason)),
        ("queue", text(queue)),
        ("time", HeaderValue::Timestamp(at)),
        ("exchange", text(exchange)),
        (
            "routing-keys",
            HeaderValue::Array(keys.iter().map(|key| text(key)).collect()),
        ),
    ])
}

fn message(deaths: Vec<HeaderValue>, marks: &[(&str, &str)]) -> Message {
    let mut headers = vec![("x-death".to_owned(), HeaderValue::Array(deaths))];
    headers.extend(marks.iter().map(|(name, value)| ((*name).to_owned(), text(value))));
    Message {
        headers,
        ..Message::default()
    }
}

fn first(queue: &'static str, reason: &'static str, exchange: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![
        ("x-first-death-queue", queue),
        ("x-first-death-reason", reason),
        ("x-first-death-exchange", exchange),
    ]
}

/// What a history comes to: reason, count, first queue, origin as `exchange/key`.
fn check(message: &Message, reason: Option<&str>, count: Option<u64>, queue: Option<&str>, origin: &str) {
    let history = history(message);
    assert_eq!(history.reason(), reason);
    assert_eq!(history.count(), count);
    assert_eq!(history.first_queue(), queue);
    let found = match history.origin() {
        Ok(origin) => format!("{}/{}", origin.exchange, origin.routing_key),
        Err(error) => error.to_string(),
    };
    assert_eq!(found, origin);
}

#[test]
fn one_death_as_each_version_writes_it() {
    // 3.10 to 3.12: counts are 64 bits, no last death.
    let old = message(
        vec![entry(
            "orders",
            "rejected",
            "shop",
            &["order.new"],
            HeaderValue::Integer(1),
            1_700_000_000,
        )],
        &first("orders", "rejected", "shop"),
    );
    check(&old, Some("rejected"), Some(1), Some("orders"), "shop/order.new");
    // 3.13 and 4.x add the last death; counts of other widths are the same number.
    for one in [HeaderValue::U8(1), HeaderValue::I32(1), HeaderValue::U32(1), text("1")] {
        let mut marks = first("orders", "expired", "");
        marks.extend([
            ("x-last-death-queue", "orders"),
            ("x-last-death-reason", "expired"),
            ("x-last-death-exchange", ""),
        ]);
        let new = message(
            vec![entry("orders", "expired", "", &["orders"], one, 1_700_000_000)],
            &marks,
        );
        check(&new, Some("expired"), Some(1), Some("orders"), "/orders");
    }
}

/// It went back into the delay, and was grouped under it.
#[test]
fn where_a_message_only_waited_for_its_time_first_it_died_where_it_was_refused() {
    let one = |queue: &str, reason: &str, at: u64| {
        entry(queue, reason, "", &[queue], HeaderValue::Integer(1), 1_700_000_000 + at)
    };
    let delayed = [one("work", "rejected", 2), one("delay", "expired", 0)];
    let marked = message(delayed.to_vec(), &first("delay", "expired", ""));
    check(&marked, Some("rejected"), Some(2), Some("work"), "/work");
    let unmarked = message(delayed.to_vec(), &[]);
    check(&unmarked, Some("rejected"), Some(2), Some("work"), "/work");
    // The first refusal of several tries.
    let tries = vec![
        one("work2", "delivery_limit", 6),
        one("later", "expired", 4),
        one("work", "rejected", 2),
        one("delay", "expired", 0),
    ];
    let tries = message(tries, &first("delay", "expired", ""));
    check(&tries, Some("delivery_limit"), Some(4), Some("work"), "/work");
    // Nobody refused it: it expired where it was to be handled, and in the queue behind that.
    let expired = vec![one("dead", "expired", 2), one("orders", "expired", 0)];
    let expired = message(expired, &first("orders", "expired", ""));
    check(&expired, Some("expired"), Some(2), Some("orders"), "/orders");
}

#[test]
fn the_first_death_counts_and_not_the_newest_entry() {
    let circled = message(
        vec![
            entry(
                "retry",
                "expired",
                "retry-x",
                &["work"],
                HeaderValue::Integer(3),
                1_700_000_010,
            ),
            entry(
                "work",
                "rejected",
                "shop",
                &["order.new", "copy"],
                HeaderValue::Integer(4),
                1_700_000_000,
            ),
        ],
        &first("work", "rejected", "shop"),
    );
    check(&circled, Some("expired"), Some(7), Some("work"), "shop/order.new");
    let history = history(&circled);
    assert_eq!(history.first_at(), Some(Timestamp::from_seconds(1_700_000_000)));
    assert_eq!(history.last_at(), Some(Timestamp::from_seconds(1_700_000_010)));
}

#[test]
fn an_entry_that_moved_to_the_front_is_still_the_first_by_its_mark() {
    let again = message(
        vec![
            entry(
                "work",
                "rejected",
                "shop",
                &["k"],
                HeaderValue::Integer(2),
                1_700_000_000,
            ),
            entry(
                "work",
                "expired",
                "late",
                &["z"],
                HeaderValue::Integer(1),
                1_700_000_005,
            ),
        ],
        &first("work", "rejected", "shop"),
    );
    check(&again, Some("rejected"), Some(3), Some("work"), "shop/k");
    let unmarked = message(
        vec![
            entry(
                "work",
                "rejected",
                "shop",
                &["k"],
                HeaderValue::Integer(2),
                1_700_000_000,
            ),
            entry(
                "work",
                "expired",
                "late",
                &["z"],
                HeaderValue::Integer(1),
                1_700_000_005,
            ),
        ],
        &[],
    );
    check(&unmarked, Some("rejected"), Some(3), Some("work"), "shop/k");
}

#[test]
fn the_default_exchange_routes_by_the_queues_name() {
    let copied = message(
        vec![entry(
            "work",
            "maxlen",
            "",
            &["copy-to", "work"],
            HeaderValue::Integer(1),
            5,
        )],
        &first("work", "maxlen", ""),
    );
    check(&copied, Some("maxlen"), Some(1), Some("work"), "/work");
}

#[test]
fn what_is_not_enough_is_refused_with_what_is_known() {
    check(
        &Message::default(),
        None,
        None,
        None,
        "it carries no death history: nothing says where it came from",
    );
    let marks_only = Message {
        headers: first("work", "rejected", "shop")
            .into_iter()
            .map(|(name, value)| (name.to_owned(), text(value)))
            .collect(),
        ..Message::default()
    };
    check(
        &marks_only,
        Some("rejected"),
        None,
        Some("work"),
        "its death history does not say where it was published to (it died in queue \"work\", exchange \"shop\", routing key unknown)",
    );
    let other_entry = message(
        vec![entry("other", "rejected", "y", &["k"], HeaderValue::Integer(1), 5)],
        &[("x-first-death-queue", "work")],
    );
    check(
        &other_entry,
        Some("rejected"),
        Some(1),
        Some("work"),
        "its death history does not say where it was published to (it died in queue \"work\", exchange and routing key unknown)",
    );
}

#[test]
fn odd_entries_are_skipped_and_odd_fields_are_missing() {
    let odd = message(
        vec![
            HeaderValue::Void,
            text("x"),
            table(&[
                ("count", HeaderValue::Integer(-1)),
                ("time", HeaderValue::Integer(0)),
                ("queue", HeaderValue::Bool(true)),
                ("routing-keys", text("k")),
            ]),
        ],
        &[],
    );
    let history = history(&odd);
    assert_eq!(history.deaths, [Death::default()]);
    assert_eq!(history.count(), Some(0));
    assert!(history.origin().is_err());
    let not_a_list = Message {
        headers: vec![("x-death".into(), text("rejected"))],
        ..Message::default()
    };
    assert!(super::history(&not_a_list).is_empty());
}

#[test]
fn long_histories_are_cut() {
    let many = message(
        (0..1000)
            .map(|n| entry(&format!("q{n}"), "expired", "", &["k"; 100], HeaderValue::Integer(1), 5))
            .collect(),
        &[],
    );
    let history = history(&many);
    assert_eq!(history.deaths.len(), DEATHS_MAX);
    assert_eq!(history.deaths[0].routing_keys.len(), KEYS_MAX);
}
