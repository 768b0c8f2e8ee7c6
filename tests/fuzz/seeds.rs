//! What inputs are made of: well-formed ones for each reader, from the vectors and from the program's own writers.

use redrive::internals::domain::message::{self, HeaderValue, Message};

/// Those of a reader.
pub fn of(reader: &str) -> Vec<Vec<u8>> {
    match reader {
        "message" => messages(),
        "frames" => frames(),
        "headers" => vec![
            properties(&published()),
            properties(&[typed(), nested(3), nested(30)].concat()),
        ],
        "filter" => texts(&FILTERS),
        "policy" => policies(),
        "retry_after" => texts(&RETRY_AFTER),
        "deaths" => deaths(),
        "theme" => themes(),
        "toml" => configurations(),
        "answers" => texts(&ANSWERS),
        other => panic!("there are no seeds for {other}"),
    }
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

const FILTERS: [&str; 8] = [
    "depth > 100 and paused = true",
    "not (age >= 2h or age < 30s) and depth <= 10k",
    "url ~ /a+[b-d]{1,20}$/\0https://a.example/aab",
    r#"url = "with \"quotes\" and a \\" or url != http://a.example/?b=c"#,
    "((((depth = 1.5))))",
    "not not not paused = false",
    "url ~ eXample and depth >= 12\0https://example.com/\u{e9}\u{301}",
    "dept > 3 or url <",
];

const RETRY_AFTER: [&str; 7] = [
    "120",
    "0",
    " 1.5\t",
    "Wed, 21 Oct 2026 07:28:00 GMT",
    "Wednesday, 21-Oct-26 07:28:00 GMT",
    "Wed Oct 21 07:28:00 2026",
    "-1e5",
];

const ANSWERS: [&str; 6] = [
    "j\u{1b}]11;rgb:1201/ff10/ff10\u{1b}\\k",
    "\u{1b}]11;rgba:e801/e8e8/d5d5/ffff\u{7}",
    "\u{1b}]11;#fdf6e3\u{1b}\\",
    "\u{1b}]10;rgb:0001/0000/0000\u{1b}\\ \u{1b}]11;rgb:12/2/3\0\u{7}",
    "\u{1b}]\0\u{1b}]q\u{1b}\u{1b}]1",
    "jjkkGgq:quit\u{7}",
];

fn policies() -> Vec<Vec<u8>> {
    let vectors = [
        include_str!("../vectors/policy_validation.json"),
        include_str!("../vectors/schedules.json"),
    ];
    let cases = vectors.iter().flat_map(|text| {
        let cases: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
        cases.into_iter().map(|case| case["policy"].to_string().into_bytes())
    });
    let wide = br#"{"minimum_delay": 5, "maximum_delay": 86400, "backoff_retries": 10, "jitter": 0.5}"#;
    cases.chain([wide.to_vec()]).collect()
}

fn messages() -> Vec<Vec<u8>> {
    let headers = vec![
        ("x-redrive-url".to_owned(), HeaderValue::text("https://a.example/b")),
        ("flag".to_owned(), HeaderValue::Bool(true)),
        ("count".to_owned(), HeaderValue::Integer(-5)),
        ("share".to_owned(), HeaderValue::Double(0.25)),
        ("price".to_owned(), HeaderValue::Decimal { scale: 2, value: 999 }),
        ("raw".to_owned(), HeaderValue::Bytes(vec![0, 255, 128].into())),
        (
            "list".to_owned(),
            HeaderValue::Array(vec![
                HeaderValue::Void,
                HeaderValue::U8(7),
                HeaderValue::Other("{…}".to_owned()),
                HeaderValue::Table(vec![("inner".to_owned(), HeaderValue::I16(-300))]),
            ]),
        ),
    ];
    let whole = Message {
        content_type: Some("application/json".to_owned()),
        message_id: Some("order-4711".to_owned()),
        priority: Some(4),
        timestamp_s: Some(1_800_000_000),
        headers: headers.clone(),
        body: r#"{"a": 1}"#.into(),
        ..Message::default()
    };
    vec![
        message::encode(&whole).unwrap(),
        message::encode(&Message::default()).unwrap(),
        message::encode_headers(&headers).unwrap(),
        message::encode_properties(&whole).unwrap(),
    ]
}

fn deaths() -> Vec<Vec<u8>> {
    let text = HeaderValue::text;
    let death = |queue: &str, reason: &str, count| {
        HeaderValue::Table(vec![
            ("count".to_owned(), HeaderValue::Integer(count)),
            ("reason".to_owned(), text(reason)),
            ("queue".to_owned(), text(queue)),
            ("time".to_owned(), HeaderValue::Timestamp(1_800_000_000)),
            ("exchange".to_owned(), text("orders")),
            (
                "routing-keys".to_owned(),
                HeaderValue::Array(vec![text("order.made"), text("order.paid")]),
            ),
            ("original-expiration".to_owned(), text("60000")),
        ])
    };
    let kept = vec![
        (
            "x-death".to_owned(),
            HeaderValue::Array(vec![
                death("orders", "rejected", 3),
                death("orders.retry", "expired", 2),
            ]),
        ),
        ("x-first-death-queue".to_owned(), text("orders.retry")),
        ("x-first-death-reason".to_owned(), text("expired")),
        ("x-last-death-exchange".to_owned(), text("")),
        ("x-redrive-error".to_owned(), text("connection refused")),
        ("x-redrive-attempts".to_owned(), HeaderValue::Integer(4)),
    ];
    let mut table = Vec::new();
    let entry = [
        field("count", b'l', &3_i64.to_be_bytes()),
        field("queue", b'S', &long(b"orders")),
        field("exchange", b'S', &long(b"")),
        field("time", b'T', &1_800_000_000_u64.to_be_bytes()),
        field(
            "routing-keys",
            b'A',
            &long(&[b"S".as_slice(), &long(b"order.made")].concat()),
        ),
    ]
    .concat();
    table.extend(field(
        "x-death",
        b'A',
        &long(&[b"F".as_slice(), &long(&entry)].concat()),
    ));
    table.extend(field("x-first-death-queue", b'S', &long(b"orders")));
    vec![message::encode_headers(&kept).unwrap(), properties(&table)]
}

fn themes() -> Vec<Vec<u8>> {
    let own = "inherits = \"dark\"\nascii = true\n[palette]\nmine = \"#120301\"\n[roles]\nwarning = \"mine\"\n\
               \"tab.selected\" = { fg = \"#000000\", bg = \"mine\", bold = true }\n";
    let all = [
        own,
        include_str!("../../themes/dark.toml"),
        include_str!("../../themes/ansi16.toml"),
        "inherits = \"mine\"\n",
        "[roles]\nwarming = 5\n",
    ];
    texts(&all)
}

fn configurations() -> Vec<Vec<u8>> {
    let all = [
        "[delivery]\nworkers = 64\ntimeout_s = 2.5\nallow_networks = [\"10.0.0.0/8\"]\n",
        "[api]\nlisten = \"127.0.0.1:0\"\ntokens = [{ value = \"0123456789abcdefghijklmn\", scopes = [\"read\"] }]\n",
        "[[endpoint]]\nurl = \"https://a.example/b\"\nheaders = { Authorization = \"Bearer \\u00e9\", \"X-Y\" = '''z''' }\n",
        "[broker]\nurl = \"amqp://a:b@c.example/v\"\nmanagement_url = \"http://c.example\"\n\n[profile.staging]\nlabel = \"s\"\n\
         protected = true\nbroker.url = \"amqps://d.example\"\n",
        "# A comment.\n[store]\nurl = \"postgres://a:b@c.example/d\"\nretention = { attempts_days = 0x1F }\n",
        "[events]\n[[handler]]\ntype = \"order.made\"\ncommand = [\"true\"]\n",
        "a.b.c = [1, 2.5e3, true, 2026-01-01T00:00:00Z, [{ d = -inf }]]\n",
    ];
    // As many values as fit: what is done for each of them is done for one value alone.
    let many = format!("[delivery]\nallow_networks = [{}]\n", "1,".repeat(30_000));
    let mut all = texts(&all);
    all.push(many.into_bytes());
    all
}

// ---- AMQP ------------------------------------------------------------------

fn short(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn field(name: &str, kind: u8, value: &[u8]) -> Vec<u8> {
    [&short(name), [kind].as_slice(), value].concat()
}

/// A header of each kind.
fn typed() -> Vec<u8> {
    [
        field("t", b't', &[1]),
        field("b", b'b', &[200]),
        field("B", b'B', &[200]),
        field("s", b's', &[1, 2]),
        field("u", b'u', &[1, 2]),
        field("I", b'I', &[1, 2, 3, 4]),
        field("i", b'i', &[1, 2, 3, 4]),
        field("l", b'l', &[0; 8]),
        field("f", b'f', &1.5_f32.to_be_bytes()),
        field("d", b'd', &1.5_f64.to_be_bytes()),
        field("D", b'D', &[2, 0, 0, 3, 231]),
        field("S", b'S', &long("caf\u{e9}".as_bytes())),
        field("x", b'x', &long(&[0, 255])),
        field("T", b'T', &1_800_000_000_u64.to_be_bytes()),
        field("V", b'V', &[]),
    ]
    .concat()
}

/// Tables in lists in tables.
fn nested(levels: usize) -> Vec<u8> {
    let mut inner = field("end", b'V', &[]);
    for level in 0..levels {
        inner = if level % 2 == 0 {
            field("table", b'F', &long(&inner))
        } else {
            field("list", b'A', &long(&[b"F".as_slice(), &long(&inner)].concat()))
        };
    }
    inner
}

/// What a publisher of ours sends.
fn published() -> Vec<u8> {
    [
        field("x-redrive-url", b'S', &long(b"https://a.example/b")),
        field("x-redrive-execution", b'S', &long(b"order-4711")),
        field("x-redrive-header-Authorization", b'S', &long(b"Bearer abc")),
        field("x-redrive-polling-time", b'I', &[0, 0, 0, 60]),
        field("x-redrive-restart-count", b'S', &long(b"3")),
    ]
    .concat()
}

/// Properties: content type, headers, delivery mode, message id, timestamp; a body behind them.
fn properties(table: &[u8]) -> Vec<u8> {
    let flags: u16 = 1 << 15 | 1 << 13 | 1 << 12 | 1 << 7 | 1 << 6;
    [
        flags.to_be_bytes().to_vec(),
        short("application/json"),
        long(table),
        vec![2],
        short("order-4711"),
        1_800_000_000_u64.to_be_bytes().to_vec(),
    ]
    .concat()
}

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    [&[kind], channel.to_be_bytes().as_slice(), &long(payload), &[0xCE]].concat()
}

/// What a broker says: tune, close, a message with its header and body, a heartbeat.
fn frames() -> Vec<Vec<u8>> {
    let said = [
        field("capabilities", b'F', &long(&field("basic.nack", b't', &[1]))),
        field("version", b'S', &long(b"4.2.1")),
    ]
    .concat();
    let start = [
        [0, 10, 0, 10, 0, 9].as_slice(),
        &long(&said),
        &long(b"PLAIN"),
        &long(b"en_US"),
    ]
    .concat();
    let tune = [&[0, 10, 0, 30], [0_u8, 0].as_slice(), &[0, 2, 0, 0], &[0, 60]].concat();
    let close = [
        &[0, 20, 0, 40],
        [1_u8, 148].as_slice(),
        &short("PRECONDITION_FAILED"),
        &[0, 50, 0, 10],
    ]
    .concat();
    let deliver = [
        &[0, 60, 0, 60],
        short("tag").as_slice(),
        &[0, 0, 0, 0, 0, 0, 0, 9, 0],
        &short(""),
        &short("queue"),
    ]
    .concat();
    let header = [
        &[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4],
        properties(&published()).as_slice(),
    ]
    .concat();
    vec![
        frame(1, 0, &start),
        frame(1, 0, &tune),
        frame(1, 1, &close),
        [
            frame(1, 1, &deliver),
            frame(2, 1, &header),
            frame(3, 1, b"body"),
            frame(8, 0, &[]),
        ]
        .concat(),
    ]
}
