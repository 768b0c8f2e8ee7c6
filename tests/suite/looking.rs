//! What somebody sees who may only look, and what looking leaves behind: on every route, nothing of a credential, and
//! nothing changed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::access::{ADMIN, BOUND, OPERATOR, READER, ask, with_tokens};
use crate::attached::far;
use crate::support::daemon::{Daemon, Installation};
use crate::support::http::Answer;
use crate::support::receiver::{Behaviour, Receiver};
use crate::support::servers::{Database, Vhost};
use crate::support::wait::wait_until;

/// Part of every credential of the scene.
const SECRET: &str = "S3CRET";
/// A place of bodies that is hidden because it was configured.
const PLACE: &str = "/account/number";

/// A daemon that has credentials wherever it can have any.
struct Scene {
    daemon: Daemon,
    receiver: Receiver,
    installation: Installation,
    queue: String,
    letter: String,
    raw_letter: String,
    /// Notifications: of a dead letter, and of one that waits for a person.
    died: String,
    waits: String,
    run: String,
    claim: String,
}

fn body(note: &str) -> Value {
    json!({
        "order": 7,
        "note": note,
        "password": "S3CRET-password",
        "account": {"number": "S3CRET-4111", "name": "A"},
        "lines": [{"accessToken": ["S3CRET-token"]}],
        "inner": "{\"client_secret\":\"S3CRET-inner\",\"a\":1}",
        "callback": "https://c.example/?sig=S3CRET-callback",
    })
}

/// With masks of its own, before it runs.
fn configured(mut installation: Installation) -> Installation {
    installation.set("console", "mask", json!([PLACE]));
    with_tokens(&mut installation);
    installation
}

async fn made(daemon: &mut Daemon, what: (&str, &str, Option<Value>)) -> Value {
    let (method, path) = (what.0.to_owned(), what.1.to_owned());
    let answer = ask(daemon, ADMIN, what).await;
    assert!(answer.status < 300, "{method} {path}: {}", answer.text());
    answer.json()
}

async fn publish(daemon: &mut Daemon, execution: &str, url: &str, body: (&str, Value)) -> String {
    let mut notification = json!({
        "execution_id": execution,
        "url": url,
        "headers": {"X-Api-Key": "S3CRET-key", "X-Note": "a=1&password=S3CRET-note", "X-Team": "a"},
    });
    notification[body.0] = body.1;
    let published = made(daemon, ("POST", "/v1/notifications", Some(notification))).await;
    published["id"].as_str().unwrap().to_owned()
}

async fn with_events(daemon: &mut Daemon) -> String {
    let options = json!({
        "headers": {"Authorization": "Bearer S3CRET-subscription"},
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    });
    let subscription = json!({"url": "http://127.0.0.1:9/sub?key=S3CRET-sub", "options": options});
    made(daemon, ("PUT", "/v1/types/t", Some(json!({})))).await;
    made(daemon, ("POST", "/v1/types/t/subscriptions", Some(subscription))).await;
    let event = json!({"reference": "r", "payload": body("later"), "nbf": "2099-01-01T00:00:00Z", "reason": "retry: failed_at=x error=token=S3CRET-reason"});
    made(daemon, ("POST", "/v1/types/t/events", Some(event))).await;
    let raw = STANDARD.encode("password: S3CRET-raw\n");
    let event = json!({"reference": "raw", "payload_base64": raw, "nbf": "2099-01-01T00:00:00Z"});
    made(daemon, ("POST", "/v1/types/t/events", Some(event))).await;
    made(daemon, ("PUT", "/v1/types/claimed", Some(json!({})))).await;
    let event = json!({"reference": "c", "payload": body("now")});
    made(daemon, ("POST", "/v1/types/claimed/events", Some(event))).await;
    let claim = json!({"ttl": 3600, "limit": 1});
    let claim = made(daemon, ("POST", "/v1/types/claimed/claims", Some(claim))).await;
    claim["id"].as_str().unwrap().to_owned()
}

async fn letters(daemon: &mut Daemon) -> Vec<Value> {
    let found = ask(daemon, ADMIN, ("GET", "/v1/dead", None)).await.json();
    found["items"].as_array().cloned().unwrap_or_default()
}

impl Scene {
    async fn set(installation: Installation) -> Self {
        let receiver = Receiver::start().await;
        let answer = Behaviour::Answer {
            status: 400,
            headers: Vec::new(),
            body: b"{\"detail\":\"no\",\"api_key\":\"S3CRET-answer\"}".to_vec(),
        };
        receiver.behave("*", answer);
        let mut daemon = installation.daemon().await;
        let claim = with_events(&mut daemon).await;
        let url = receiver.url("/dead?api_key=S3CRET-query");
        let died = publish(&mut daemon, "letter", &url, ("body", body("first").to_string().into())).await;
        let bytes = [b"{\"password\":\"S3CRET-bytes\",\"x\":\"".as_slice(), b"\xff\"}"].concat();
        publish(&mut daemon, "raw", &url, ("body_base64", STANDARD.encode(bytes).into())).await;
        let letters = wait_until("both dead letters", BOUND, async || {
            let letters = letters(&mut daemon).await;
            (letters.len() == 2).then_some(letters)
        })
        .await;
        let id_of = |execution: &str| {
            let found = letters.iter().find(|letter| letter["execution_id"] == execution);
            found.unwrap()["id"].as_str().unwrap().to_owned()
        };
        let (letter, raw_letter) = (id_of("letter"), id_of("raw"));
        // It waits for a person.
        let waiting = "http://127.0.0.1:9/hook?api_key=S3CRET-waiting";
        let waits = publish(
            &mut daemon,
            "waiting",
            waiting,
            ("body", body("waits").to_string().into()),
        )
        .await;
        wait_until("a failed attempt", BOUND, async || {
            let attempts = ask(&mut daemon, ADMIN, ("GET", "/v1/attempts", None)).await.text();
            attempts.contains("S3CRET-waiting").then_some(())
        })
        .await;
        let queues = ask(&mut daemon, ADMIN, ("GET", "/v1/queues?limit=1000", None))
            .await
            .json();
        let queue = queues["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|queue| queue["execution_id"] == "waiting");
        let queue = queue.unwrap()["name"].as_str().unwrap().to_owned();
        let order = json!({"ids": [raw_letter]});
        let run = made(&mut daemon, ("POST", "/v1/dead/redrive?dry_run=true", Some(order))).await;
        Self {
            run: run["run"]["id"].as_str().unwrap().to_owned(),
            daemon,
            receiver,
            installation,
            queue,
            letter,
            raw_letter,
            died,
            waits,
            claim,
        }
    }

    /// Every route of the description with this method, with what is there for the parts of its path.
    async fn routes(&mut self, method: &str) -> Vec<String> {
        let described = ask(&mut self.daemon, ADMIN, ("GET", "/openapi.json", None))
            .await
            .json();
        let mut paths = Vec::new();
        for (path, methods) in described["paths"].as_object().unwrap() {
            if methods.get(method).is_none() {
                continue;
            }
            let filled = path.replace("{name}", &self.queue).replace("{claim}", &self.claim);
            let kind = if path.contains("claims") { "claimed" } else { "t" };
            let id = match path {
                path if path.starts_with("/v1/runs") => &self.run,
                path if path.starts_with("/v1/executions") => "waiting",
                path if path.starts_with("/v1/notifications") => &self.died,
                _ => &self.letter,
            };
            let filled = filled.replace("{type}", kind).replace("{id}", id);
            paths.extend(["r", "raw"].map(|reference| filled.replace("{reference}", reference)));
        }
        paths.push(format!("/v1/dead/{}", self.raw_letter));
        if method == "get" {
            paths.push(format!("/v1/notifications/{}", self.waits));
        }
        paths.dedup();
        paths
    }
}

/// The answer in clear, with what is in base64 in it.
fn clear(answer: &Answer) -> String {
    fn add(value: &Value, clear: &mut String) {
        match value {
            Value::String(text) => {
                let bytes = STANDARD.decode(text).unwrap_or_default();
                clear.push_str(&String::from_utf8_lossy(&bytes));
            }
            Value::Array(items) => items.iter().for_each(|item| add(item, clear)),
            Value::Object(entries) => entries.values().for_each(|value| add(value, clear)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut clear = answer.text();
    if let Ok(document) = serde_json::from_str::<Value>(&clear) {
        add(&document, &mut clear);
    }
    clear
}

/// Bodies for the plans of a route; those of others say `{}`.
fn bodies(path: &str) -> Vec<Value> {
    let about = "http://127.0.0.1:9/hook?api_key=S3CRET-waiting";
    match path {
        path if path.starts_with("/v1/dead/") && !path.contains("re") && !path.contains("discard") => vec![
            json!({"headers": {"x-redrive-header-X-Api-Key": null}}),
            json!({"headers": {"x-redrive-header-X-Note": null, "x-redrive-url": null}}),
            json!({"headers": {"x-redrive-header-X-Api-Key": "S3CRET-key".len().to_string()}}),
            json!({"body": {"order": 8}}),
            json!({"body": {"account": {}, "password": 1, "lines": [], "inner": "", "callback": null}}),
            json!({"body": "no JSON\n"}),
            json!({"body_base64": ""}),
        ],
        "/v1/redeliver" | "/v1/dead/redrive" | "/v1/dead/discard" | "/v1/dead/restore" => {
            vec![json!({"all": true}), json!({"url": about})]
        }
        path if path.starts_with("/v1/endpoints") => vec![json!({"url": about}), json!({})],
        path if path.starts_with("/v1/events/") => {
            vec![
                json!({"filter": "type = t", "at": 4_000_000_000_u32}),
                json!({"filter": "type = t"}),
            ]
        }
        path if path.ends_with("/reschedule") => vec![json!({"at": 4_000_000_000_u32})],
        path if path.ends_with("/move") => vec![json!({"to": "elsewhere"})],
        _ => vec![json!({})],
    }
}

async fn nothing_of_a_credential_leaves(installation: Installation) {
    let mut scene = Scene::set(configured(installation)).await;
    let mut found_by_others = 0;
    for path in scene.routes("get").await {
        let looked = ask(&mut scene.daemon, READER, ("GET", &path, None)).await;
        if path.starts_with("/v1/rescued/") {
            // Bytes in which masks find nothing.
            assert_eq!(looked.status, 403, "{path}: {}", looked.text());
            continue;
        }
        assert!(matches!(looked.status, 200 | 400), "{path}: {}", looked.text());
        assert!(!clear(&looked).contains(SECRET), "{path}: {}", looked.text());
        let operated = ask(&mut scene.daemon, OPERATOR, ("GET", &path, None)).await;
        if clear(&operated).contains(SECRET) {
            found_by_others += 1;
            assert!(clear(&looked).contains("***"), "{path}: {}", looked.text());
        }
    }
    assert!(found_by_others >= 12, "{found_by_others}");
    let (mut planned, mut plans_of_others) = (0, 0);
    for method in ["post", "patch", "delete", "put"] {
        for path in scene.routes(method).await {
            for body in bodies(&path) {
                let asked = format!("{path}?dry_run=true");
                let method = method.to_uppercase();
                let looked = ask(&mut scene.daemon, READER, (&method, &asked, Some(body.clone()))).await;
                let text = clear(&looked);
                assert!(!text.contains(SECRET), "{method} {asked} {body}: {text}");
                planned += u32::from(looked.status == 200);
                if method == "PATCH" && looked.status == 200 {
                    let whole = ask(&mut scene.daemon, OPERATOR, (&method, &asked, Some(body))).await;
                    plans_of_others += u32::from(clear(&whole).contains(SECRET));
                }
            }
        }
    }
    assert!(planned >= 15 && plans_of_others >= 4, "{planned}, {plans_of_others}");
    for path in [
        "/v1/nothing?key=S3CRET",
        "/v1/endpoints?url=http://a.example/?key=S3CRET",
        "/v1/types/S3",
    ] {
        let looked = ask(&mut scene.daemon, READER, ("GET", path, None)).await;
        assert!(
            looked.status >= 400 && !looked.text().contains(SECRET),
            "{path}: {}",
            looked.text()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_only_look_sees_no_credential_on_any_route() {
    nothing_of_a_credential_leaves(Installation::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_only_look_sees_no_credential_on_any_route_with_servers() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    nothing_of_a_credential_leaves(Installation::on_servers(&vhost, &database.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plan_of_an_edit_tells_who_may_only_look_that_a_credential_changes_and_not_which() {
    let mut scene = Scene::set(configured(Installation::embedded())).await;
    let path = format!("/v1/dead/{}?dry_run=true", scene.letter);
    let daemon = &mut scene.daemon;
    let lines = async |daemon: &mut Daemon, token: &str, edit: &Value| {
        let plan = ask(daemon, token, ("PATCH", &path, Some(edit.clone()))).await;
        assert_eq!(plan.status, 200, "{}", plan.text());
        plan.json()["lines"].clone()
    };
    let edit = json!({"headers": {"x-redrive-header-X-Api-Key": null}});
    assert_eq!(lines(daemon, OPERATOR, &edit).await[0]["now"], "\"S3CRET-key\"");
    let shown = lines(daemon, READER, &edit).await;
    assert_eq!(
        shown[0],
        json!({"target": "header x-redrive-header-X-Api-Key", "now": "***", "effect": "***"})
    );
    let mut changed = body("first");
    changed["order"] = 8.into();
    let shown = lines(daemon, READER, &json!({"body": changed})).await;
    let order = json!({"target": "body /order", "now": "7", "effect": "8"});
    assert!(shown.as_array().unwrap().contains(&order), "{shown}");
    // Whether a guess is right is not told either.
    let guesses = ["S3CRET-key", "another"].map(|guess| json!({"headers": {"x-redrive-header-X-Api-Key": guess}}));
    assert_eq!(
        lines(daemon, READER, &guesses[0]).await,
        lines(daemon, READER, &guesses[1]).await
    );
    // The second is the original again.
    let guesses = ["another", "S3CRET-password"].map(|guess| {
        let mut body = body("first");
        body["password"] = guess.into();
        json!({"body": body.to_string()})
    });
    let mut warnings = Vec::new();
    for (token, guess) in [READER, OPERATOR]
        .iter()
        .flat_map(|token| guesses.iter().map(move |guess| (*token, guess)))
    {
        let plan = ask(daemon, token, ("PATCH", &path, Some(guess.clone()))).await;
        warnings.push(plan.json()["warnings"].clone());
    }
    assert_eq!(warnings[0], warnings[1], "to who may only look");
    assert_ne!(warnings[2], warnings[3], "to an operator: {warnings:?}");
}

/// An attached console or command is given what any other client is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_of_subscriptions_leave_for_attached_processes_without_their_secrets_too() {
    let installation = configured(Installation::embedded());
    let mut daemon = installation.daemon().await;
    with_events(&mut daemon).await;
    let mut id = Value::Null;
    for token in [READER, OPERATOR, ADMIN] {
        let asked = json!({"name": "Subscriptions", "given": "t"});
        let answer = ask(&mut daemon, token, ("POST", "/v1/attach/ask", Some(asked))).await;
        id = answer.json()[0]["id"].clone();
        let options: Value = serde_json::from_str(answer.json()[0]["options"].as_str().unwrap()).unwrap();
        assert_eq!(
            options,
            json!({"headers": {"Authorization": "***"}, "secret": "***"}),
            "{token}"
        );
    }
    let given = json!({"Events": {"Unsubscribe": {"event_type": "t", "which": {"Id": id}}}});
    let plan = ask(&mut daemon, ADMIN, ("POST", "/v1/attach/plan", Some(given))).await;
    assert_eq!(plan.status, 200, "{}", plan.text());
    let execute = json!({"id": plan.json()["id"], "reason": null});
    let done = ask(&mut daemon, ADMIN, ("POST", "/v1/attach/execute", Some(execute))).await;
    let text = done.text();
    assert!(done.status == 200 && text.contains("***"), "{text}");
    assert!(
        !text.contains("S3CRET-subscription") && !text.contains("whsec_"),
        "{text}"
    );
}

/// Who may only look finds a policy by the URL as he is shown it; for who may see it whole that is another one.
async fn finds_the_policy_by_what_is_shown(daemon: &mut Daemon, url: &str, shown: &str) {
    let secret: String = url::form_urlencoded::byte_serialize(url.as_bytes()).collect();
    let path = format!("/v1/policies?url={secret}");
    made(daemon, ("PUT", &path, Some(json!({"minimum_delay": 7})))).await;
    for token in [READER, OPERATOR] {
        let history = ask(
            daemon,
            token,
            ("GET", &format!("/v1/policies/history?url={shown}"), None),
        )
        .await;
        let versions = history.json()["items"].as_array().unwrap().len();
        assert_eq!(versions, usize::from(token == READER));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_of_who_may_only_look_compares_what_he_is_shown() {
    let mut scene = Scene::set(configured(Installation::embedded())).await;
    let daemon = &mut scene.daemon;
    let count = async |daemon: &mut Daemon, token: &str, path: &str, filter: &str| {
        let filter: String = url::form_urlencoded::byte_serialize(filter.as_bytes()).collect();
        let found = ask(
            daemon,
            token,
            ("GET", &format!("{path}?limit=100&filter={filter}"), None),
        )
        .await;
        assert_eq!(found.status, 200, "{path} {filter}: {}", found.text());
        found.json()["items"].as_array().unwrap().len()
    };
    for (path, filter, visible) in [
        ("/v1/events", r#"payload ~ /"password":"S3/"#, r#"payload ~ "order""#),
        ("/v1/events", r#"payload ~ "s3cret-4111""#, r#"payload ~ "name""#),
        ("/v1/events", r#"reason ~ "token=S3""#, r#"reason ~ "token=***""#),
        ("/v1/types/t/events", r#"error ~ "s3cret""#, "state != dead"),
        ("/v1/queues", "url ~ /api_key=S3/", r#"url ~ "api_key=***""#),
        ("/v1/dead", r#"url ~ "S3CRET""#, r#"url ~ "api_key=***""#),
        ("/v1/attempts", r#"response ~ "S3CRET""#, r#"response ~ "detail""#),
        ("/v1/attempts", r#"url ~ "S3CRET-waiting""#, r#"url ~ "api_key=***""#),
        (
            "/v1/dead",
            r#"url > "http://127.0.0.1:1/" and url ~ "S3""#,
            "execution = letter",
        ),
    ] {
        assert!(count(daemon, OPERATOR, path, filter).await > 0, "{path} {filter}");
        assert_eq!(count(daemon, READER, path, filter).await, 0, "{path} {filter}");
        assert!(count(daemon, READER, path, visible).await > 0, "{path} {visible}");
    }
    let url = scene.receiver.url("/dead?api_key=S3CRET-query");
    let exact = format!("url = \"{url}\"");
    assert_eq!(count(daemon, OPERATOR, "/v1/dead", &exact).await, 2);
    assert_eq!(count(daemon, READER, "/v1/dead", &exact).await, 0);
    assert_eq!(count(daemon, READER, "/v1/dead/groups", &exact).await, 0);
    // By what he is shown he finds the one endpoint that is meant.
    let shown = scene.receiver.url("/dead?api_key=***");
    let shown: String = url::form_urlencoded::byte_serialize(shown.as_bytes()).collect();
    for token in [READER, OPERATOR] {
        let found = ask(daemon, token, ("GET", &format!("/v1/endpoints?url={shown}"), None)).await;
        let tried = ask(daemon, token, ("GET", &format!("/v1/attempts?url={shown}"), None)).await;
        let attempts = tried.json()["items"].as_array().unwrap().len();
        assert_eq!((found.status == 200, attempts > 0), (token == READER, token == READER));
    }
    finds_the_policy_by_what_is_shown(daemon, &url, &shown).await;
    // Nor does a plan count them.
    for (path, filter) in [
        ("/v1/dead/redrive?dry_run=true", "url ~ \"S3CRET\""),
        ("/v1/events/retry?dry_run=true", "payload ~ \"S3CRET\""),
    ] {
        let plan = async |daemon: &mut Daemon, token| {
            let plan = ask(daemon, token, ("POST", path, Some(json!({"filter": filter}))))
                .await
                .json();
            plan["run"]["total"]
                .as_u64()
                .or_else(|| plan["lines"].as_array().map(|lines| lines.len() as u64))
        };
        assert!(plan(daemon, OPERATOR).await.is_some_and(|count| count > 0), "{path}");
        assert!(plan(daemon, READER).await.is_none_or(|count| count == 0), "{path}");
    }
}

/// Who looked, and at how many values, of what the audit has of reveals.
async fn reveals(daemon: &mut Daemon) -> Vec<(Value, Value)> {
    let audit = ask(daemon, ADMIN, ("GET", "/v1/audit?limit=1000", None)).await.json();
    let lines = audit["items"].as_array().unwrap().iter();
    lines
        .filter(|line| line["command"] == "payload reveal")
        .map(|line| (line["target"].clone(), line["actor"].clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sees_a_credential_whole_is_in_the_audit_and_who_may_only_look_reveals_nothing() {
    let mut scene = Scene::set(configured(Installation::embedded())).await;
    let path = format!("/v1/dead/{}", scene.letter);
    let revealed = format!("{path}?reveal=true");
    let daemon = &mut scene.daemon;
    let refused = ask(daemon, READER, ("GET", &revealed, None)).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(
        refused.json()["detail"].as_str().unwrap().contains("operate"),
        "{}",
        refused.text()
    );
    let before = reveals(daemon).await;
    for _ in 0..3 {
        let whole = ask(daemon, OPERATOR, ("GET", &path, None)).await;
        assert!(whole.text().contains("S3CRET-password"), "{}", whole.text());
    }
    let after = reveals(daemon).await;
    assert_eq!(after.len(), before.len() + 1, "once in a minute: {after:?}");
    assert_eq!(after[0].0, format!("GET {path}"));
    assert!(after[0].1.as_str().unwrap().starts_with("api:"), "{after:?}");
    let whole = ask(daemon, OPERATOR, ("GET", &revealed, None)).await;
    assert!(
        whole.status == 200 && whole.text().contains("S3CRET-password"),
        "{}",
        whole.text()
    );
    assert_eq!(
        reveals(daemon).await.len(),
        before.len() + 2,
        "what is asked for is audited each time"
    );
    // What hides nothing is nobody's business, and neither is what was not seen.
    for (token, path) in [
        (OPERATOR, "/v1/types/t/events/none"),
        (OPERATOR, "/v1/queues"),
        (READER, path.as_str()),
    ] {
        ask(daemon, token, ("GET", path, None)).await;
    }
    assert_eq!(reveals(daemon).await.len(), before.len() + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_with_a_credential_in_it_is_in_the_audit_whichever_route_it_comes_from() {
    let mut scene = Scene::set(configured(Installation::embedded())).await;
    let claim = format!("/v1/types/claimed/claims/{}", scene.claim);
    let daemon = &mut scene.daemon;
    made(
        daemon,
        ("PUT", "/v1/types/m", Some(json!({"api_key": "S3CRET-metadata"}))),
    )
    .await;
    for reference in ["one", "two"] {
        let event = json!({"reference": reference, "payload": body("now")});
        made(daemon, ("POST", "/v1/types/m/events", Some(event))).await;
    }
    let dead = letters(daemon).await[0]["queue"].as_str().unwrap().to_owned();
    let browse = format!("/v1/queues/{dead}/browse");
    let later = json!({"at": 4_000_000_000_u32});
    let asked: [(&str, &str, Option<Value>); 8] = [
        ("GET", "/v1/types", None),
        ("POST", &browse, Some(json!({}))),
        ("POST", "/v1/types/m/claims", Some(json!({"ttl": 3600, "limit": 1}))),
        ("PATCH", &claim, Some(json!({"ttl": 3600}))),
        ("POST", "/v1/types/t/events/r/reschedule", Some(later)),
        ("POST", "/v1/types/t/events/r/retry", Some(json!({}))),
        ("DELETE", "/v1/types/t/events/raw", Some(json!({}))),
        ("POST", "/v1/events/cancel", Some(json!({"filter": "type = m"}))),
    ];
    for (method, path, given) in asked {
        let before = reveals(daemon).await.len();
        let whole = ask(daemon, OPERATOR, (method, path, given)).await;
        assert!(
            whole.status < 300 && clear(&whole).contains(SECRET),
            "{method} {path}: {}",
            whole.text()
        );
        let told = reveals(daemon).await;
        assert_eq!(told.len(), before + 1, "{method} {path}: {told:?}");
        assert_eq!(told[0].0, format!("{method} {path}"));
    }
    let before = reveals(daemon).await.len();
    for _ in 0..2 {
        let whole = ask(daemon, OPERATOR, ("GET", "/v1/types?reveal=true", None)).await;
        assert_eq!(whole.status, 200, "{}", whole.text());
    }
    assert_eq!(
        reveals(daemon).await.len(),
        before + 2,
        "each time that it is asked for"
    );
    for (method, path, given) in [
        ("GET", "/v1/queues?reveal=true", None),
        ("GET", "/v1/types?reveal=maybe", None),
        ("POST", "/v1/redeliver?reveal=true", Some(json!({"all": true}))),
    ] {
        let refused = ask(daemon, OPERATOR, (method, path, given)).await;
        assert_eq!(
            (refused.status, &refused.json()["field"]),
            (400, &json!("reveal")),
            "{path}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_has_each_letter_on_a_line_as_whoever_asks_may_see_it_and_the_audit_says_who_saw_it_whole() {
    let mut scene = Scene::set(configured(Installation::embedded())).await;
    let (letter, raw_letter) = (scene.letter.clone(), scene.raw_letter.clone());
    let daemon = &mut scene.daemon;
    let export = async |daemon: &mut Daemon, token: &str, query: &str| {
        let path = format!("/v1/dead/export{query}");
        let answer = ask(daemon, token, ("GET", &path, None)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
        let text = answer.text();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        (text.clone(), lines.collect::<Vec<Value>>())
    };
    let ids = |lines: &[Value]| {
        let mut ids: Vec<String> = lines
            .iter()
            .map(|line| line["id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    };
    let mut both = vec![letter.clone(), raw_letter];
    both.sort();
    let before = reveals(daemon).await.len();
    let (text, lines) = export(daemon, READER, "").await;
    assert_eq!(ids(&lines), both);
    assert!(text.contains("***") && !text.contains(SECRET), "{text}");
    assert_eq!(reveals(daemon).await.len(), before);
    let (text, lines) = export(daemon, OPERATOR, "").await;
    assert_eq!(ids(&lines), both);
    assert!(text.contains("S3CRET-password"), "{text}");
    let told = reveals(daemon).await;
    assert_eq!(told.len(), before + 1, "{told:?}");
    assert_eq!(told[0].0, "GET /v1/dead/export");
    // The same where the command is attached to the daemon.
    for (token, sees) in [(READER, "***"), (OPERATOR, "S3CRET-password")] {
        let export = ["dead", "export", "--format", "jsonl", "--profile", "far"];
        let exported = far(daemon, token).run(&export).await.expect_code(0).stdout;
        assert_eq!(exported.lines().count(), 2, "{exported}");
        assert!(exported.contains(sees), "{exported}");
        assert_eq!(exported.contains(SECRET), token == OPERATOR, "{exported}");
    }
    assert_eq!(reveals(daemon).await.len(), before + 2);
    let named = ["dead", "export", &letter, "0123456789abcdef.1", "--profile", "far"];
    let exported = far(daemon, READER).run(&named).await.expect_code(4);
    assert_eq!(exported.stdout.lines().count(), 1, "{exported:?}");
    assert!(
        exported.stderr.contains("no dead letter has the id 0123456789abcdef.1"),
        "{exported:?}"
    );
    let selected = ["dead", "export", &letter, "--filter", "age > 9999h", "--profile", "far"];
    let exported = far(daemon, READER).run(&selected).await.expect_code(4);
    let said = "none of the dead letters that --queue, --group or --filter selects has the id";
    assert!(exported.stderr.contains(said), "{exported:?}");
    // What he does not see he cannot search.
    let one = "?filter=execution%20%3D%20letter";
    assert_eq!(ids(&export(daemon, READER, one).await.1), [letter.as_str()]);
    let hidden = "?filter=url%20~%20%22S3CRET%22";
    assert_eq!(export(daemon, READER, hidden).await.1, Vec::<Value>::new());
    assert_eq!(export(daemon, OPERATOR, hidden).await.1.len(), 2);
    let wrong = ask(daemon, READER, ("GET", "/v1/dead/export?filter=nonsense", None)).await;
    assert_eq!(wrong.status, 400, "{}", wrong.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_shown_as_stars_keeps_its_value_when_it_comes_back() {
    let mut scene = Scene::set(configured(Installation::embedded())).await;
    let path = format!("/v1/dead/{}", scene.letter);
    let daemon = &mut scene.daemon;
    let shown = ask(daemon, READER, ("GET", &path, None)).await.json();
    let mut edited: Value = serde_json::from_str(shown["body"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&edited["password"], &edited["account"]["number"]),
        (&json!("***"), &json!("***"))
    );
    edited["order"] = 8.into();
    let headers = shown["headers"].as_array().unwrap().iter();
    let headers: serde_json::Map<String, Value> = headers
        .filter(|header| header["name"].as_str().unwrap().starts_with("x-redrive-header-"))
        .map(|header| (header["name"].as_str().unwrap().to_owned(), header["value"].clone()))
        .collect();
    assert_eq!(headers["x-redrive-header-X-Api-Key"], "***");
    let edit = json!({"body": edited.to_string(), "headers": headers});
    let done = ask(daemon, OPERATOR, ("PATCH", &path, Some(edit))).await;
    assert_eq!(done.status, 200, "{}", done.text());
    // Where nothing was, nothing is kept.
    for (edit, place) in [
        (
            json!({"body": {"password": "***", "account": {"expiry": 1, "number": 2}, "new_token": "***"}}),
            "/new_token",
        ),
        (
            json!({"headers": {"x-redrive-header-authorization": "***"}}),
            "x-redrive-header-authorization",
        ),
        (json!({"body": "password=***"}), "body"),
    ] {
        let refused = ask(daemon, OPERATOR, ("PATCH", &path, Some(edit.clone()))).await;
        assert_eq!(refused.status, 400, "{edit}: {}", refused.text());
        let why = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(why.contains(place) && why.contains("***"), "{edit}: {why}");
    }
    scene.receiver.behave("*", Behaviour::Status(200));
    let sent = scene.receiver.count();
    let order = json!({"ids": [scene.letter]});
    made(daemon, ("POST", "/v1/dead/redrive", Some(order))).await;
    let attempt = wait_until("the edited letter", BOUND, async || {
        scene.receiver.attempts().get(sent).cloned()
    })
    .await;
    let mut expected = body("first");
    expected["order"] = 8.into();
    assert_eq!(serde_json::from_slice::<Value>(&attempt.body).unwrap(), expected);
    assert_eq!(attempt.header("x-api-key"), Some("S3CRET-key"));
    assert_eq!(attempt.header("x-note"), Some("a=1&password=S3CRET-note"));
}

/// What there is, without what time alone changes and what statistics tell late.
async fn everything(scene: &mut Scene) -> Vec<(&'static str, Value)> {
    let daemon = &mut scene.daemon;
    let mut all = Vec::new();
    for path in [
        "/v1/queues?limit=1000",
        "/v1/dead?limit=1000&sort=position",
        "/v1/events?limit=1000",
        "/v1/types",
        "/v1/types/t/subscriptions",
        "/v1/runs?limit=1000",
        "/v1/policies/history?default=true",
        "/v1/attempts?limit=1000",
        "/v1/expiring/saves",
        "/v1/audit?limit=1000",
    ] {
        let document = ask(daemon, ADMIN, ("GET", path, None)).await.json();
        let mut items = document["items"].as_array().cloned().unwrap_or_default();
        // Who saw a credential is written down, and nothing else.
        items.retain(|item| item["command"] != "payload reveal");
        let items = items.into_iter().map(|item| match path.split(['?', '/']).nth(2) {
            Some("queues") => json!([item["name"], item["kind"], item["paused"]]),
            Some("dead") => json!([item["id"], item["position"], item["redriven"]]),
            _ => item,
        });
        all.push((path, items.collect()));
    }
    all
}

async fn no_get_leaves_anything(installation: Installation) {
    let mut scene = Scene::set(configured(installation)).await;
    let sent = scene.receiver.count();
    let before = wait_until("numbers that stand still", BOUND, async || {
        let one = everything(&mut scene).await;
        (one == everything(&mut scene).await).then_some(one)
    })
    .await;
    let asked = scene.receiver.url("/asked");
    for path in scene.routes("get").await {
        for query in [
            String::new(),
            "?yes=true".to_owned(),
            format!("?url={asked}"),
            format!("?url={asked}&method=DELETE"),
            "?dry_run=false".to_owned(),
        ] {
            ask(&mut scene.daemon, ADMIN, ("GET", &format!("{path}{query}"), None)).await;
        }
    }
    assert_eq!(scene.receiver.count(), sent, "{:?}", scene.receiver.seen());
    assert_eq!(everything(&mut scene).await, before);
    let checked = scene.installation.run(&["audit", "verify"]).await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_get_sends_or_changes_anything() {
    no_get_leaves_anything(Installation::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_get_sends_or_changes_anything_with_servers() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    no_get_leaves_anything(Installation::on_servers(&vhost, &database.url())).await;
}

async fn names_what_is_no_text(installation: Installation) {
    let installation = configured(installation);
    let mut daemon = installation.daemon().await;
    let daemon = &mut daemon;
    for (path, field) in [
        ("/v1/dead?group=%00", "group"),
        ("/v1/dead?group=a%0Ab", "group"),
        ("/v1/dead?cursor=1_%00", "cursor"),
        ("/v1/dead?filter=url%20~%20%22a%00%22", "filter"),
        ("/v1/dead/%00", "path"),
        ("/v1/runs?cursor=%00", "cursor"),
        ("/v1/runs/a%00", "path"),
        ("/v1/expiring/saves?cursor=%1B", "cursor"),
        ("/v1/types/t%00", "path"),
        ("/v1/events?filter=payload%20~%20%22%00%22", "filter"),
    ] {
        let answer = ask(daemon, ADMIN, ("GET", path, None)).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert_eq!(answer.json()["field"], field, "{path}: {}", answer.text());
    }
    // A queue may be called anything, and what is in a body is text.
    for path in ["/v1/dead?queue=q%00", "/v1/queues/a%00/why", "/v1/attempts?queue=q%00"] {
        let answer = ask(daemon, ADMIN, ("GET", path, None)).await;
        assert!(answer.status < 500, "{path}: {}", answer.text());
    }
    for (path, body) in [
        ("/v1/dead/redrive", json!({"group": "a\u{0}"})),
        ("/v1/dead/discard", json!({"ids": ["a", "b\u{0}"]})),
        ("/v1/events/retry", json!({"filter": "payload ~ \"\u{0}\""})),
        (
            "/v1/events/retry?dry_run=true",
            json!({"filter": "reference ~ \"\u{0}\""}),
        ),
        ("/v1/runs/x/pause", json!({"reason": "\u{0}"})),
    ] {
        let answer = ask(daemon, ADMIN, ("POST", path, Some(body.clone()))).await;
        assert!(answer.status < 500, "{path} {body}: {}", answer.text());
    }
    let lines = ask(
        daemon,
        ADMIN,
        ("GET", "/v1/queues?filter=depth%20%3E%200%0Aor%20name%20~%20a", None),
    )
    .await;
    assert_eq!(lines.status, 200, "an expression may have lines: {}", lines.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_store_can_keep_is_refused_with_its_field() {
    names_what_is_no_text(Installation::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_store_can_keep_is_refused_with_its_field_with_servers() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    names_what_is_no_text(Installation::on_servers(&vhost, &database.url())).await;
}
