//! Expressions against rows, errors against their places, and any input at all.

use std::time::Duration;

use proptest::prelude::*;

use super::super::time::Timestamp;
use super::{
    DEPTH_MAX, EXPRESSION_BYTES_MAX, Field, FieldKind, FieldValue, Fields, Filter, FilterError, PATTERN_BYTES_MAX,
    TooLarge,
};

const FIELDS: &[Field] = &[
    Field::new("depth", FieldKind::Number),
    Field::new("state", FieldKind::Text),
    Field::new("type", FieldKind::Text),
    Field::new("kind", FieldKind::Word(&["delivery", "dead_letter", "foreign"])),
    Field::new("reason", FieldKind::Text),
    Field::new("endpoint", FieldKind::Text),
    Field::new("age", FieldKind::Duration),
    Field::new("paused", FieldKind::Bool),
    Field::new("unknown", FieldKind::Number),
    Field::new("nbf", FieldKind::Time),
];

struct Row;

impl Fields for Row {
    fn field(&self, name: &str) -> FieldValue<'_> {
        match name {
            "depth" => FieldValue::Number(10_000.0),
            "state" => FieldValue::Words(&["endpoint_unavailable", "unavailable"]),
            "type" => FieldValue::Text("hr-import".into()),
            "reason" => FieldValue::Text("Connect TIMEOUT after \"15 s\" in /hook".into()),
            "endpoint" => FieldValue::Text("http://example.com/hook?a=b".into()),
            "age" => FieldValue::Duration(Duration::from_hours(2)),
            "paused" => FieldValue::Bool(false),
            // 2027-01-15T08:00:00.000005Z
            "nbf" => FieldValue::Time(Timestamp::from_micros(1_800_000_000_000_005)),
            _ => FieldValue::Missing,
        }
    }
}

#[track_caller]
fn check(expression: &str, expected: bool) {
    let filter = Filter::parse(expression, FIELDS).unwrap_or_else(|error| panic!("{expression}: {error}"));
    assert_eq!(filter.matches(&Row), expected, "{expression}");
    assert_eq!(filter.as_str(), expression);
}

#[track_caller]
fn refused(expression: &str, column: usize, part: &str) -> FilterError {
    let error = Filter::parse(expression, FIELDS).unwrap_err();
    assert_eq!(error.column, column, "{expression}: {error}");
    assert!(error.message.contains(part), "{expression}: {error}");
    error
}

#[test]
fn the_examples_of_the_contract_work() {
    check("depth > 100 and state = unavailable", true);
    check("type = hr-import and reason ~ \"timeout\"", true);
    check("age > 2h or endpoint ~ example.com", true);
    check("not (age > 2h or endpoint ~ example.com)", false);
}

#[test]
fn a_word_goes_by_any_of_its_names_and_is_ordered_by_the_first() {
    for same in ["endpoint_unavailable", "unavailable"] {
        check(&format!("state = {same}"), true);
        check(&format!("state != {same}"), false);
        check(&format!("state ~ {same}"), true);
    }
    check("state = available", false);
    check("state != available", true);
    check("state ~ /^unavailable$/", true);
    check("state > delivering and state < parked", true);
}

#[test]
fn and_binds_before_or_and_not_before_both() {
    check("paused = true and paused = true or depth = 10k", true);
    check("depth = 10k or paused = true and paused = true", true);
    check("(depth = 10k or paused = true) and paused = true", false);
    check("not paused = true and depth = 10k", true);
    check("not not paused = false", true);
    check("NOT paused = TRUE And depth = 10K OR Depth = 1", true);
}

#[test]
fn numbers_and_durations_are_compared_in_their_units() {
    for expression in [
        "depth = 10000",
        "depth = 10k",
        "depth=10.0k",
        "depth<0.1M",
        "depth>=10k",
        "depth<=10k",
        "depth != 1G",
        "depth > -1",
    ] {
        check(expression, true);
    }
    for expression in ["age = 7200s", "age = 120m", "age=2h", "age < 3d", "age>=2h", "age<=2h"] {
        check(expression, true);
    }
    for expression in ["depth > 10k", "depth < 10k", "age > 2h", "age < 2h", "age != 2h"] {
        check(expression, false);
    }
}

#[test]
fn times_are_compared_in_all_their_digits_and_in_every_offset() {
    for expression in [
        "nbf = 2027-01-15T08:00:00.000005Z",
        "nbf = 2027-01-15T09:30:00.000005+01:30",
        "nbf != 2027-01-15T08:00:00Z",
        "nbf > 2027-01-15T08:00:00Z",
        "nbf > 2027-01-15T08:00:00.0000049Z",
        "nbf < 2027-01-15T08:00:00.0000051Z",
        "nbf < 2027-01-15T08:00:00.5Z",
        "nbf < 2027-01-15T08:30:00+00:00",
        "nbf > 2027-01-15T09:00:00+02:00",
        "nbf > 2027-01-15 and nbf > 2027-01 and nbf > 2027 and nbf < 2027-01-16",
        "nbf > 2027-01-15T08 and nbf > 2027-01-15T08:00 and nbf > 2027-01-15T08:00:00",
        "nbf ~ 2027-01-15T08:00:00.000005z and nbf ~ /^2027/",
    ] {
        check(expression, true);
        check(&format!("not ({expression})"), false);
    }
    refused("nbf > tomorrow", 7, "a time such as 2026-12-01T08:30:00Z");
    refused("nbf > 2027-02-30", 7, "a time");
}

/// Its places have so many bytes.
struct Long(usize);

impl Fields for Long {
    fn field(&self, _: &str) -> FieldValue<'_> {
        FieldValue::Missing
    }

    fn at(&self, family: &str, _: &str) -> FieldValue<'_> {
        match family {
            "body." => FieldValue::Text(format!("{}needle", "x".repeat(self.0 - "needle".len())).into()),
            _ => FieldValue::Text("t1".into()),
        }
    }
}

fn asked(expression: &str, bytes: usize) -> Result<bool, TooLarge> {
    Filter::parse(expression, WHOLE).unwrap().ask(&Long(bytes))
}

#[test]
fn a_regular_expression_searches_a_text_whole_or_says_that_it_does_not() {
    let large = "body./s ~ /(?:a?b?c?){700}needle/";
    for expression in ["body./s ~ /needle$/", r"body./s ~ /x\w+needle\W?/", "body./s ~ needle"] {
        for bytes in [10, 4 * 1024, 4 * 1024 + 1, 1 << 20] {
            assert_eq!(asked(expression, bytes), Ok(true), "{expression}");
            assert_eq!(asked(&format!("not {expression}"), bytes), Ok(false), "{expression}");
        }
    }
    let refused = TooLarge {
        bytes: 1 << 20,
        bytes_max: 64 * 1024,
    };
    assert_eq!(asked(large, 4 * 1024), Ok(true));
    for expression in [large, &format!("not {large}"), &format!("not not {large}")] {
        assert_eq!(asked(expression, 1 << 20), Err(refused), "{expression}");
    }
    // It does not matter where another part decides, on either side.
    for (decides, is_in) in [
        (format!("{large} and header.a = t2"), false),
        (format!("header.a = t2 and not {large}"), false),
        (format!("{large} or header.a = t1"), true),
        (format!("not ({large} and header.a = t2)"), true),
    ] {
        assert_eq!(asked(&decides, 1 << 20), Ok(is_in), "{decides}");
    }
    for depends in [
        format!("{large} and header.a = t1"),
        format!("header.a = t2 or {large}"),
    ] {
        assert_eq!(asked(&depends, 1 << 20), Err(refused), "{depends}");
    }
}

#[test]
fn text_is_equal_exactly_and_contains_in_any_letter_case() {
    check("state = Unavailable", false);
    check("state ~ AVAIL", true);
    check("state < f and state > e", true);
    check(r#"reason ~ "after \"15 s\"""#, true);
    check("reason ~ /timeout/", false);
    check("reason ~ /(?i)timeout/", true);
    check(r"reason ~ /in \/hook$/", true);
    check(r"(reason ~ /^\w+ [A-Z]{7}\b/)", true);
    check("endpoint = http://example.com/hook?a=b", true);
    check("endpoint = \"http://example.com/hook?a=b\"", true);
    check("(type = hr-import)", true);
    check("type = \"not\" or type = or", false);
}

#[test]
fn what_is_not_known_is_neither_more_nor_less_nor_equal() {
    for expression in [
        "unknown = 0",
        "unknown < 1",
        "unknown >= 0",
        "unknown <= 0",
        "unknown > 0",
    ] {
        check(expression, false);
    }
    check("unknown != 0", true);
    check("not unknown = 0", true);
}

#[test]
fn an_error_says_where_and_what_was_expected() {
    refused("", 1, "expected a field, not or (, found the end");
    refused("depth", 6, "expected =, !=, <, <=, >, >= or ~ after depth");
    refused("depth ! 5", 7, "expected =, !=");
    refused("depth > ", 9, "expected a value after >");
    refused(
        "depth > abc",
        9,
        "a number such as 100, 1.5 or 10k for depth, found abc",
    );
    refused("depth > 10h", 9, "a number");
    refused("age > 10", 7, "a duration such as 30s, 5m, 2h or 3d");
    refused("age > 99999999999999999999d", 7, "a duration");
    refused("paused = yes", 10, "true or false");
    refused("paused > true", 8, "expected = or !=");
    refused("depth ~ 5", 7, "because depth is a number");
    refused("(depth = 1", 11, "for the ( in column 1");
    refused("depth = 1)", 10, "none is open");
    refused("depth = 1 state = x", 11, "expected and, or, or the end, found state");
    refused("state = \"x", 9, "closing \"");
    refused("ä = 1", 1, "known are depth, state");
    refused("state = ä and ü = 1", 15, "expected a field");
    refused("endpoint ~ /api/v1", 17, "double quotes");
    refused("reason ~ /(/", 10, "regular expression");
    refused("= 5", 1, "expected a field, found =");
    refused("state = = x", 9, "expected a value");
    refused("and depth = 1", 1, "found and");
}

#[test]
fn an_unknown_field_names_the_nearest() {
    let error = refused("dept > 1", 1, "did you mean depth?");
    assert_eq!(error.nearest.as_deref(), Some("depth"));
    assert_eq!(
        error.to_string(),
        "column 1: expected a field, and dept is none; did you mean depth?"
    );
    assert_eq!(refused("xyzzyxyzzy > 1", 1, "known are").nearest, None);
    let error = refused("a\u{202e}b = 1", 1, "is none");
    assert!(!error.to_string().contains('\u{202e}'));
}

#[test]
fn a_word_that_no_row_has_names_the_nearest() {
    for expression in ["kind = delivery", "kind != foreign", "kind ~ dead", "kind ~ /^d/"] {
        Filter::parse(expression, FIELDS).unwrap();
    }
    let error = refused(
        "depth > 1 and kind = delivry",
        22,
        "kind is never delivry; did you mean delivery?",
    );
    assert_eq!(error.nearest.as_deref(), Some("delivery"));
    refused("kind != xyzzy", 9, "it is one of delivery, dead_letter, foreign");
}

#[test]
fn control_characters_are_refused_where_they_stand() {
    refused("reason ~ \"abc\0d\"", 14, "U+0000");
    refused("reason = \u{1b}[2J", 10, "U+001B");
    check("depth\t= 10k\nand paused = false", true);
}

#[test]
fn length_depth_and_patterns_are_bounded() {
    let nested = |depth: usize| format!("{}depth = 10k{}", "(".repeat(depth), ")".repeat(depth));
    check(&nested(DEPTH_MAX), true);
    refused(&nested(DEPTH_MAX + 1), DEPTH_MAX + 2, "64 deep");
    refused(
        &format!("{}depth = 10k", "not ".repeat(1_000)),
        4 * (DEPTH_MAX + 1) + 1,
        "64 deep",
    );
    check(&format!("depth = 10k{}", " or depth = 1".repeat(300)), true);
    refused(&"x".repeat(EXPRESSION_BYTES_MAX + 1), 1, "4097 bytes");
    refused(
        &format!("reason ~ /{}/", "x".repeat(PATTERN_BYTES_MAX + 1)),
        10,
        "1025 bytes",
    );
    refused("reason ~ /(a{1000}){1000}/", 10, "regular expression");
    // Together too: each of these takes a hundred times what it is written with.
    let letters = |count: usize| vec![r"reason ~ /\w{5}/"; count].join(" or ");
    assert!(Filter::parse(&letters(2), FIELDS).is_ok());
    let place = letters(2).len() + " or reason ~ ".len() + 1;
    refused(&letters(200), place, "too large together");
    assert!(Filter::parse(&vec!["reason ~ /a|b/"; 100].join(" or "), FIELDS).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_is_survived(text in ".{0,120}") {
        let _ = Filter::parse(&text, FIELDS).map(|filter| filter.matches(&Row));
    }

    #[test]
    fn anything_like_an_expression_is_survived_and_errors_lie_inside(
        parts in proptest::collection::vec(
            proptest::sample::select(vec![
                "depth", "state", "age", "paused", "reason", "and", "or", "not", "(", ")", "=", "!=", "<", "<=", ">", ">=", "~", "!", "\"",
                "/", "\\", "10k", "2h", "true", "-", ".", "ä", " ", " ", "\t", "\u{202e}", "/a+/", "\"x y\"",
            ]),
            0..24,
        ),
    ) {
        let text = parts.concat();
        match Filter::parse(&text, FIELDS) {
            Ok(filter) => { let _ = filter.matches(&Row); }
            Err(error) => prop_assert!((1..=text.chars().count() + 1).contains(&error.column), "{text:?}: {error}"),
        }
    }

    #[test]
    fn any_quoted_text_is_found_again(text in "\\PC{0,40}") {
        struct One(String);
        impl Fields for One {
            fn field(&self, _name: &str) -> FieldValue<'_> {
                FieldValue::Text(self.0.as_str().into())
            }
        }
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        let filter = Filter::parse(&format!("reason = \"{quoted}\" and reason ~ \"{quoted}\""), FIELDS).unwrap();
        prop_assert!(filter.matches(&One(text)));
    }
}

struct Whole;

impl Fields for Whole {
    fn field(&self, _: &str) -> FieldValue<'_> {
        FieldValue::Missing
    }

    fn at(&self, family: &str, place: &str) -> FieldValue<'_> {
        match (family, place) {
            ("header.", "Tenant") => FieldValue::Text("t1".into()),
            ("body.", "/order/id") => FieldValue::Text("9001".into()),
            ("body.", "/exact") => FieldValue::Numeral("9007199254740993".into()),
            ("body.", "/five") => FieldValue::Numeral("5.0".into()),
            ("body.", "/a~1b") => FieldValue::Numeral("1".into()),
            ("body.", "/m~0n/~01") => FieldValue::Text("é".into()),
            ("header.", "code") => FieldValue::Text("007".into()),
            _ => FieldValue::Missing,
        }
    }
}

const WHOLE: &[Field] = &[
    Field::new("header.", FieldKind::Text),
    Field::new("body.", FieldKind::Text),
];

#[test]
fn a_place_of_a_header_or_of_a_body_is_compared_and_a_wrong_one_is_named() {
    for (expression, expected) in [
        ("header.Tenant = t1", true),
        ("HEADER.Tenant = \"t2\"", false),
        ("header.tenant = t1", false),
        ("body./order/id ~ \"^9\"", true),
        ("body./order/id ~ \"^1\"", false),
        ("body./order/id ~ /0{2}/", true),
        ("body./order/id > 10k", false),
        ("body./order/id >= 9001 and header.Tenant ~ T", true),
        ("body./order/none != 5", true),
        ("body./exact = 9007199254740993", true),
        ("body./exact = 9007199254740992", false),
        ("body./exact > 9007199254740992", true),
        ("body./exact >= 9007199254740993.1", false),
        ("body./exact < 9007199254740993.00000000001", true),
        ("body./five = 5 and body./five = 5.00 and body./five = 0.5e1", true),
        ("body./five != 5 or not body./five = 5", false),
        (
            "body./five > -1e400 and body./five < 1e400 and body./five < 0.01k",
            true,
        ),
        ("body./five = five or body./five = \"\"", false),
        ("body./a~1b = 1", true),
        ("BODY./a~1b=1 and not body./a~1b ~ 2", true),
        ("body./m~0n/~01 = é", true),
        ("body./order/id~9", true),
        ("body./order/id ~ 0 and body./order/id ~ 1", true),
        ("header.code = 7 or header.code = 7.0", false),
        ("header.code = 007 and header.code > 6 and header.code < 7.5", true),
    ] {
        let filter = Filter::parse(expression, WHOLE).unwrap();
        assert_eq!(filter.matches(&Whole), expected, "{expression}");
        assert!(
            filter.asks_for_places() && filter.conditions().is_empty(),
            "{expression}"
        );
    }
    for (expression, column, says) in [
        ("header. = 5", 8, "behind header."),
        ("body.order = 5", 6, "JSON pointer"),
        ("body./a ! 5", 9, "after body./a"),
        ("body./a~1", 10, "put a space before the ~"),
    ] {
        let error = Filter::parse(expression, WHOLE).unwrap_err();
        assert_eq!(error.column, column, "{error}");
        assert!(error.message.contains(says), "{error}");
    }
}
