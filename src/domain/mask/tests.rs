//! What is hidden and what stays, in tables; and that nothing hidden is ever in what is shown.

use proptest::prelude::*;

use super::*;

fn rules(hidden: &[&str], shown: &[&str]) -> MaskRules {
    let parsed = |texts: &[&str]| texts.iter().map(|text| MaskRule::parse(text).unwrap()).collect();
    MaskRules::new(parsed(hidden), parsed(shown))
}

#[track_caller]
fn check(rules: &MaskRules, body: &str, expected: &str) {
    let masked = rules.body(body.as_bytes());
    assert_eq!(String::from_utf8_lossy(&masked.value), expected);
    assert_eq!(masked.hidden > 0, body != expected);
    let again = rules.body(expected.as_bytes());
    assert_eq!(
        (&*again.value, again.hidden),
        (expected.as_bytes(), 0),
        "hidden once, hidden for good"
    );
}

#[test]
fn values_are_hidden_by_the_name_of_their_key_whatever_they_are() {
    let usual = MaskRules::usual();
    check(&usual, r#"{"password":"x","a":1}"#, r#"{"password":"***","a":1}"#);
    check(
        &usual,
        r#"{ "Api_Key" : 12.50 , "apiKey":null,"x-api-key":[1,{"b":"]}"}], "access_token":{"a":"}"} }"#,
        r#"{ "Api_Key" : "***" , "apiKey":"***","x-api-key":"***", "access_token":"***" }"#,
    );
    check(&usual, r#"{"pass\u0077ord":"x"}"#, r#"{"pass\u0077ord":"***"}"#);
    check(
        &usual,
        r#"{"password":"a\"b","c":"d"}"#,
        r#"{"password":"***","c":"d"}"#,
    );
    check(
        &usual,
        r#"{"a":"password","b":["secret"]}"#,
        r#"{"a":"password","b":["secret"]}"#,
    );
    check(
        &usual,
        r#"{"tokens":3,"passport":"P1"}"#,
        r#"{"tokens":3,"passport":"P1"}"#,
    );
}

/// One name for each rule that nobody has to write, in the spellings of four languages, and what only looks like it.
#[test]
fn what_opens_doors_is_hidden_in_every_spelling_though_nobody_said_so() {
    let usual = MaskRules::usual();
    for words in [
        "x signature key",
        "webhook signature",
        "aws access key",
        "access key",
        "pwd",
        "pin",
        "iban",
        "card",
        "card no",
        "card cvv",
        "credit card number",
        "session",
        "session id",
        "jwt",
        "client secret",
        "refresh token",
        "x api key",
        "ssh private key",
    ] {
        let mut camel = String::new();
        for (place, word) in words.split(' ').enumerate() {
            let (first, rest) = word.split_at(1);
            let first = if place == 0 {
                first.to_owned()
            } else {
                first.to_uppercase()
            };
            camel += &(first + rest);
        }
        let snake = words.replace(' ', "_");
        for name in [camel, snake.to_uppercase(), words.replace(' ', "-"), snake] {
            assert!(usual.hides(&name), "{name}");
            check(
                &usual,
                &format!(r#"{{"{name}":"x"}}"#),
                &format!(r#"{{"{name}":"***"}}"#),
            );
        }
    }
    for plain in [
        "discard",
        "scorecard",
        "shipping",
        "spin",
        "ibanking",
        "opinion",
        "accessKeyHint",
    ] {
        assert!(!usual.hides(plain), "{plain}");
    }
}

#[test]
fn a_pointer_hides_one_place_and_a_star_any() {
    let rules = rules(
        &["/account/number", "/people/*/ssn", "/list/1", "/a~1b/~0", "/all/*"],
        &[],
    );
    check(
        &rules,
        r#"{"account":{"number":"4111","name":"A"},"number":7}"#,
        r#"{"account":{"number":"***","name":"A"},"number":7}"#,
    );
    check(
        &rules,
        r#"{"people":[{"ssn":"DE1","x":{"ssn":"kept"}},{"ssn":"DE2"}],"ssn":"kept"}"#,
        r#"{"people":[{"ssn":"***","x":{"ssn":"kept"}},{"ssn":"***"}],"ssn":"kept"}"#,
    );
    check(&rules, r#"{"list":[0, [1,2], 3]}"#, r#"{"list":[0, "***", 3]}"#);
    check(&rules, r#"{"a/b":{"~":1}}"#, r#"{"a/b":{"~":"***"}}"#);
    check(&rules, r#"{"all":[1,{"b":2}]}"#, r#"{"all":["***","***"]}"#);
}

#[test]
fn what_is_shown_all_the_same_is_named_too() {
    let rules = rules(&["*card*"], &["next-page-token", "cardinality"]);
    check(
        &rules,
        r#"{"next_page_token":"p2","token":"t","cardNumber":1,"cardinality":2}"#,
        r#"{"next_page_token":"p2","token":"***","cardNumber":"***","cardinality":2}"#,
    );
    let none = super::MaskRules::new(Vec::new(), vec![MaskRule::parse("*").unwrap()]);
    check(&none, r#"{"password":"x"}"#, r#"{"password":"x"}"#);
}

#[test]
fn json_need_not_be_valid_whole_or_alone() {
    let usual = MaskRules::usual();
    check(&usual, r#"{"password":"abc"#, r#"{"password":"***""#);
    check(&usual, r#"{"secret":{"a":[1,2"#, r#"{"secret":"***""#);
    check(&usual, r#"5" disk {"password":"x"}"#, r#"5" disk {"password":"***"}"#);
    check(
        &usual,
        "data: {\"token\":1}\n\ndata: {\"token\":2}",
        "data: {\"token\":\"***\"}\n\ndata: {\"token\":\"***\"}",
    );
    check(&usual, r#"{"password":}"#, r#"{"password":}"#);
}

#[test]
fn json_in_a_string_of_json_is_looked_into() {
    let usual = MaskRules::usual();
    check(
        &usual,
        r#"{"payload":"{\"password\":\"x\",\"a\":1,\"token\": 12}","b":2}"#,
        r#"{"payload":"{\"password\":\"***\",\"a\":1,\"token\": \"***\"}","b":2}"#,
    );
    check(
        &usual,
        r#""{\"a\":\"{\\\"secret\\\":\\\"x\\\"}\",\"secret\":[1,\"y\"]}""#,
        r#""{\"a\":\"{\\\"secret\\\":\\\"***\\\"}\",\"secret\":\"***\"""#,
    );
}

#[test]
fn spaces_inside_a_string_are_escapes() {
    check(
        &MaskRules::usual(),
        "\"{ \\\"token\\\" :\\n [1]} , \\\"b\\\":\\\"c\\\" }\"",
        "\"{ \\\"token\\\" :\\n \\\"***\\\"\"",
    );
}

#[test]
fn forms_and_lines_are_hidden_by_their_names() {
    let usual = MaskRules::usual();
    check(&usual, "user=a&password=b%20c&x=1", "user=a&password=***&x=1");
    check(
        &usual,
        "api%5Fkey=1&token_type=bearer",
        "api%5Fkey=***&token_type=bearer",
    );
    check(
        &usual,
        "POST / HTTP/1.1\r\nAuthorization: Bearer a.b\r\nHost: c\r\n",
        "POST / HTTP/1.1\r\nAuthorization: ***\r\nHost: c\r\n",
    );
    check(
        &usual,
        "db:\n  password: a b\n  - token: c\n",
        "db:\n  password: ***\n  - token: ***\n",
    );
    check(&usual, "secret = 'a b' c", "secret = *** c");
    check(&usual, "authorization=Bearer abc next", "authorization=*** next");
    check(&usual, "{'password': 'x y'}", "{'password': ***}");
    check(
        &usual,
        r#"{"url":"https://a.example/?token=t&b=1","log":"x\nCookie: c=1\nend"}"#,
        r#"{"url":"https://a.example/?token=***&b=1","log":"x\nCookie: ***\nend"}"#,
    );
    check(
        &usual,
        r#"{"log":"x\npassword: \"a b\"\nend"}"#,
        r#"{"log":"x\npassword: ***\nend"}"#,
    );
    check(&usual, "the token: it is a word", "the token: it is a word");
}

#[test]
fn headers_are_hidden_by_their_own_names_and_looked_into() {
    let usual = MaskRules::usual();
    let check = |name: &str, value: HeaderValue, expected: &str| {
        assert_eq!(usual.header(name, &value).value.shown(200), expected);
    };
    check("Authorization", HeaderValue::text("Bearer x"), MASK);
    check("x-redrive-header-authorization", HeaderValue::text("Bearer x"), MASK);
    check("X-Redrive-Header-Set-Cookie", HeaderValue::text("a=1"), MASK);
    check("x-tries", HeaderValue::I32(3), "3");
    check("x-note", HeaderValue::text("a=1&password=2"), "a=1&password=***");
    let table = HeaderValue::Table(vec![
        ("secret".into(), HeaderValue::I8(1)),
        (
            "list".into(),
            HeaderValue::Array(vec![HeaderValue::text(r#"{"token":"x"}"#)]),
        ),
    ]);
    check("x-context", table, r#"{secret: ***, list: [{"token":"***"}]}"#);
}

#[test]
fn a_place_is_hidden_with_all_that_is_in_it() {
    let rules = rules(&["/account/*/number"], &[]);
    for (place, hidden) in [
        ("/account/0/number", true),
        ("/account/0/number/digits", true),
        ("/account/0", false),
        ("/number", false),
        (&format!("/card/{}/number", "x".repeat(300)), true),
        ("/a/client_secret/b", true),
        ("", false),
    ] {
        assert_eq!(rules.hides_place(place), hidden, "{place}");
    }
}

#[test]
fn a_rule_that_is_none_says_how_it_is_written() {
    let wrong = |text: &str| MaskRule::parse(text).unwrap_err();
    assert_eq!(wrong(""), MaskRuleError::Empty);
    assert_eq!(wrong("-_"), MaskRuleError::Empty);
    assert_eq!(wrong("$.card.number"), MaskRuleError::NoPointer);
    assert_eq!(wrong("/a~2"), MaskRuleError::BadEscape);
    assert_eq!(wrong(&"x".repeat(RULE_BYTES_MAX + 1)), MaskRuleError::TooLong);
}

#[test]
fn depth_and_length_are_no_danger() {
    let rules = rules(&["/a/*"], &[]);
    for body in [
        "[".repeat(200_000),
        "{\"a\":".repeat(40_000),
        "\"".repeat(200_000),
        "\\\"".repeat(100_000),
        "\\".repeat(200_000),
        "a=".repeat(100_000),
        "token=".repeat(40_000),
        "\\\"token\\\" \\n".repeat(20_000),
        format!("{}\"password\":\"x\"{}", "[".repeat(100_000), "]".repeat(100_000)),
    ] {
        let masked = rules.body(body.as_bytes());
        assert!(!masked.value.windows(3).any(|window| window == b"\"x\""));
    }
}

/// Every way to take a pattern, one after the other.
fn fits_slowly(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|at| fits_slowly(rest, &name[at..])),
        Some((byte, rest)) => name.first() == Some(byte) && fits_slowly(rest, &name[1..]),
    }
}

/// A value that stands nowhere but where it is hidden.
const SECRET: &str = "S3cr3tV4lue";

/// Documents in which the secret stands only behind `password`.
fn document() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1.50".to_owned()),
        Just("null".to_owned()),
        "[ -~]{0,12}".prop_map(|text| format!("{text:?}").replace("\\'", "'")),
        Just(format!("{{\"password\":\"{SECRET}\"}}")),
        Just(format!("{{\"Pass-Word\" : [\"{SECRET}\", 1] }}")),
        Just(format!("{{ \"password\":\n{{\"a\":\"}}{SECRET}\"}} , \"b\":2}}")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| {
                let entry = |(at, value): (usize, String)| format!("\"k{at}\":{value}");
                format!(
                    "{{{}}}",
                    items.into_iter().enumerate().map(entry).collect::<Vec<_>>().join(",")
                )
            }),
            // The text of JSON as a string of JSON.
            inner.prop_map(|text| format!(
                "\"{}\"",
                text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_hidden_value_is_never_in_what_is_shown(document in document(), before in "[\\[\\]{},:a1 \n]{0,6}", cut in 0_usize..400) {
        let usual = MaskRules::usual();
        let body = format!("{before}{document}");
        for body in [body.as_str(), body.get(..cut.min(body.len())).unwrap_or(&body)] {
            let masked = usual.text(body).value.into_owned();
            prop_assert!(!masked.contains(SECRET), "{body}\n{masked}");
            let again = usual.text(&masked);
            prop_assert_eq!(again.hidden, 0, "{}", masked);
        }
    }

    #[test]
    fn a_form_never_shows_it_either(user in "[a-z]{0,8}", end in "[&; \"<>,]?[a-z=]{0,6}") {
        let masked = MaskRules::usual().text(&format!("user={user}&client_secret={SECRET}{end}")).value.into_owned();
        prop_assert!(!masked.contains(SECRET), "{masked}");
    }

    #[test]
    fn what_has_no_such_name_stays_byte_for_byte(body in prop::collection::vec(any::<u8>(), 0..400)) {
        let rules = rules(&["/k1/k2"], &[]);
        let text = String::from_utf8_lossy(&body).to_lowercase();
        prop_assume!(!["auth", "cookie", "pass", "secret", "token", "key", "cred"].iter().any(|name| text.contains(name)));
        let masked = rules.body(&body);
        prop_assert_eq!(&*masked.value, body.as_slice());
    }

    #[test]
    fn wildcards_are_what_a_pattern_is_made_for(begin in "[a-c]{0,3}", middle in "[a-c]{0,3}", end in "[a-c]{0,3}", other in "[a-c]{0,6}") {
        let pattern = format!("{begin}*{middle}*{end}");
        let built = format!("{begin}{other}{middle}{other}{end}");
        prop_assert!(fits(&pattern, &built));
        let expected = fits_slowly(pattern.as_bytes(), other.as_bytes());
        prop_assert_eq!(fits(&pattern, &other), expected);
    }
}
