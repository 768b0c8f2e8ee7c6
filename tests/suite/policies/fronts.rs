//! Policies by command and by route: what is printed and answered, and what is wrong by its field.

use serde_json::{Value, json};

use crate::support::daemon::{Daemon, Installation};
use crate::support::http::Answer;

const URL: &str = "http://127.0.0.1:9/hook";
const OF_URL: &str = "url=http%3A%2F%2F127.0.0.1%3A9%2Fhook";
const VALIDATION: &str = include_str!("../../vectors/policy_validation.json");
const SCHEDULES: &str = include_str!("../../vectors/schedules.json");

async fn send(daemon: &Daemon, method: &str, path: &str, body: &str) -> Answer {
    daemon
        .request(method, path)
        .header("content-type", "application/json")
        .body(body)
        .send()
        .await
}

#[track_caller]
fn ok(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one story, told in its order")]
async fn routes_set_show_restore_and_unset_a_policy() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    let path = format!("/v1/policies?{OF_URL}");
    let before = ok(&daemon.get(&path).await);
    assert_eq!((&before["version"], &before["policy"]), (&Value::Null, &Value::Null));
    assert_eq!(
        (&before["source"], &before["attempts"]),
        (&json!("default"), &json!(44))
    );

    let plan = ok(&send(&daemon, "PUT", &format!("{path}&dry_run=true"), r#"{"jitter": 0.5}"#).await);
    assert_eq!(plan["command"], "policy set");
    assert!(
        plan["lines"][0]["effect"].as_str().unwrap().contains("version 1"),
        "{plan}"
    );
    assert_eq!(ok(&daemon.get(&path).await), before, "a plan changes nothing");

    let first = ok(&send(
        &daemon,
        "PUT",
        &format!("{path}&reason=calmer"),
        r#"{"maximum_delay": 60}"#,
    )
    .await);
    assert_eq!(
        (&first["version"], &first["policy"]),
        (&json!(1), &json!({"maximum_delay": 60}))
    );
    assert_eq!((&first["url"], &first["source"]), (&json!(URL), &json!("subscription")));
    assert_eq!((&first["attempts"], &first["total_s"]), (&json!(22), &json!(585)));
    assert_eq!(first["effective"]["minimum_delay"], 5);
    assert_eq!(first["author"], "api:own");
    let second = ok(&send(&daemon, "PUT", &path, r#"{"on_exhausted": "dead_letter"}"#).await);
    assert_eq!(second["version"], 2);
    let stale = send(&daemon, "PUT", &format!("{path}&version=1"), "{}").await;
    assert_eq!(stale.status, 409, "{}", stale.text());

    let restored = ok(&send(
        &daemon,
        "POST",
        &format!("/v1/policies/restore?{OF_URL}"),
        r#"{"version": 1}"#,
    )
    .await);
    assert_eq!(
        (&restored["version"], &restored["policy"]),
        (&json!(3), &first["policy"])
    );
    let unset = ok(&send(&daemon, "DELETE", &path, "").await);
    assert_eq!((&unset["policy"], &unset["source"]), (&Value::Null, &json!("default")));
    assert_eq!(send(&daemon, "DELETE", &path, "").await.status, 404);

    let history = ok(&daemon.get(&format!("/v1/policies/history?{OF_URL}")).await);
    let versions: Vec<&Value> = history["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["version"])
        .collect();
    assert_eq!(versions, [4, 3, 2, 1]);
    assert_eq!(history["items"][0]["policy"], Value::Null);
    assert_eq!(history["items"][3]["attempts"], 22);

    ok(&send(
        &daemon,
        "PUT",
        "/v1/policies?type=hr-import",
        r#"{"ignore_subscription_override": true}"#,
    )
    .await);
    let both = format!("/v1/policies?type=hr-import&{OF_URL}");
    let ignored = ok(&send(&daemon, "PUT", &both, r#"{"jitter": 1}"#).await);
    assert_eq!(ignored["source"], "queue", "its type's policy says so");
    let listed = ok(&daemon.get("/v1/policies").await);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let audit = ok(&daemon.get("/v1/audit?limit=1000").await);
    let audited = |command: &str, result: &str| {
        let lines = audit["items"].as_array().unwrap();
        lines
            .iter()
            .filter(|line| line["command"] == command && line["result"] == result)
            .count()
    };
    assert_eq!(
        (audited("policy set", "done"), audited("policy restore", "done")),
        (4, 1)
    );
    assert!(audit.to_string().contains("calmer") && audit.to_string().contains(URL));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_policy_of_the_vectors_is_saved_or_refused_whole_with_its_field() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    let path = "/v1/policies?type=t";
    let cases: Vec<Value> = serde_json::from_str(VALIDATION).unwrap();
    let mut version = 0;
    for case in &cases {
        let body = case["policy"].to_string();
        let previewed = send(&daemon, "POST", "/v1/policies/preview", &body).await;
        let answer = send(&daemon, "PUT", path, &body).await;
        if case["valid"] == true {
            version += 1;
            assert_eq!(ok(&answer)["version"], version, "{case}");
            assert_eq!(previewed.status, 200, "{case}");
            continue;
        }
        for problem in [&answer, &previewed] {
            assert_eq!(problem.status, 400, "{case}");
            assert_eq!(problem.header("content-type"), Some("application/problem+json"));
            let problem = problem.json();
            assert_eq!(problem["field"], case["names"], "{case}: {problem}");
            assert_eq!(problem["nearest"], case["nearest"], "{case}: {problem}");
        }
        let now = ok(&daemon.get(path).await);
        assert_eq!(now["version"].as_i64().unwrap_or(0), version, "nothing of {case}");
    }
    let twice = send(&daemon, "PUT", path, r#"{"jitter": 0, "jitter": 1}"#).await.json();
    assert_eq!(twice["field"], "jitter");
    for (path, field) in [
        ("/v1/policies", "url"),
        ("/v1/policies?url=nonsense", "url"),
        ("/v1/policies?type=", "type"),
        ("/v1/policies?tpye=x", "tpye"),
        (&format!("/v1/policies?{OF_URL}"), "ignore_subscription_override"),
    ] {
        let problem = send(&daemon, "PUT", path, r#"{"ignore_subscription_override": true}"#).await;
        assert_eq!(
            (problem.status, &problem.json()["field"]),
            (400, &json!(field)),
            "{path}"
        );
    }
    let never_set = send(&daemon, "POST", "/v1/policies/restore?type=never", "{}").await;
    assert_eq!(never_set.status, 404);
    let unknown = send(&daemon, "POST", "/v1/policies/restore?type=t", r#"{"version": 999}"#).await;
    assert_eq!(unknown.status, 404);
    assert_eq!(send(&daemon, "PUT", path, "{").await.status, 400);
    let form = daemon.request("PUT", path).body("{}").send().await;
    assert_eq!(form.status, 415);
}

/// What a plan of a policy names, and what it refuses.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_a_policy_names_each_key_that_changes_and_takes_no_url_as_lists_show_it() {
    let installation = Installation::embedded();
    let run = async |words: &[&str]| installation.run(&[&["policy"], words].concat()).await;
    let words = [
        "set",
        "--url",
        URL,
        r#"{"on_exhausted": "dead_letter", "slow_start": 2}"#,
        "--dry-run",
        "--json",
    ];
    let dry = run(&words).await.expect_code(0).json();
    let lines = dry["lines"].as_array().unwrap();
    for (target, now, effect) in [("on_exhausted", "park", "dead_letter"), ("slow_start", "not set", "2")] {
        let line = lines.iter().find(|line| line["target"] == target).unwrap();
        assert_eq!((&line["now"], &line["effect"]), (&json!(now), &json!(effect)), "{dry}");
    }
    let shown = format!("{URL}?key=***");
    let refused = run(&["set", "--url", &shown, "{}", "--yes"])
        .await
        .expect_code(2)
        .stderr;
    assert!(refused.contains("as the publisher writes it"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_set_show_restore_and_unset_a_policy() {
    let installation = Installation::embedded();
    let of = ["--url", URL];
    let run = async |words: &[&str]| installation.run(&[&["policy"], words].concat()).await;
    let unconfirmed = run(&["set", "--url", URL, r#"{"jitter": 1}"#]).await.expect_code(5);
    assert!(unconfirmed.stderr.contains("--yes"), "{unconfirmed:?}");
    let dry = run(&["set", "--url", URL, r#"{"jitter": 1}"#, "--dry-run"])
        .await
        .expect_code(0);
    assert!(
        dry.stdout.contains("version 1: 16 attempts within 3 min 30 s"),
        "{dry:?}"
    );
    run(&["set", "--url", URL, "{}", "--read-only", "--yes"])
        .await
        .expect_code(5);
    let shown = run(&["show", of[0], of[1], "--json"]).await.expect_code(0).json();
    assert_eq!(shown["version"], Value::Null, "nothing was changed");

    let set = run(&["set", "--url", URL, r#"{"maximum_delay": 60}"#, "--yes", "--json"]).await;
    assert_eq!(set.expect_code(0).json()["version"], 1);
    let drawn = run(&["show", of[0], of[1]]).await.expect_code(0).stdout;
    assert!(
        drawn.contains("22 attempts within 9 min 45 s") && drawn.contains('█'),
        "{drawn}"
    );
    run(&["set", "--type", "t", "--url", URL, "{}", "--yes"])
        .await
        .expect_code(0);
    let all = run(&["show", "--json"]).await.expect_code(0).json();
    assert_eq!(all.as_array().unwrap().len(), 2);
    run(&["unset", of[0], of[1], "--yes"]).await.expect_code(0);
    run(&["unset", of[0], of[1], "--yes"]).await.expect_code(4);
    let restored = run(&["restore", of[0], of[1], "1", "--yes", "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!((&restored["version"], &restored["attempts"]), (&json!(3), &json!(22)));
    run(&["restore", of[0], of[1], "7", "--yes"]).await.expect_code(4);
    run(&["restore", of[0], of[1], "0", "--yes"]).await.expect_code(2);
    // Without a version: what held before the newest.
    let unset = run(&["restore", of[0], of[1], "--yes", "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!((&unset["version"], &unset["policy"]), (&json!(4), &Value::Null));
    let back = run(&["restore", of[0], of[1], "--yes", "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!((&back["version"], &back["attempts"]), (&json!(5), &json!(22)));
    let history = run(&["history", of[0], of[1], "--json"]).await.expect_code(0).json();
    assert_eq!(history.as_array().unwrap().len(), 5);
    run(&["history"]).await.expect_code(2);
    run(&["set", "{}", "--yes"]).await.expect_code(2);

    let wrong = run(&["set", "--url", URL, r#"{"minimum_dealy": 1}"#, "--yes"])
        .await
        .expect_code(1)
        .json();
    assert_eq!(
        (&wrong["error"]["field"], &wrong["error"]["nearest"]),
        (&json!("minimum_dealy"), &json!("minimum_delay"))
    );
    let history = run(&["history", of[0], of[1], "--json"]).await.expect_code(0).json();
    assert_eq!(history.as_array().unwrap().len(), 5, "nothing half applied");
    let preview = run(&["preview", of[0], of[1], r#"{"maximum_delay": 30}"#, "--json"]).await;
    let preview = preview.expect_code(0).json();
    assert_eq!(
        (&preview["attempts"], &preview["before"]["attempts"]),
        (&json!(16), &json!(22))
    );
    assert_eq!(preview["backlog"]["waiting"], 0);
    run(&["preview", of[0], of[1], r#"{"jitter": 2}"#]).await.expect_code(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_prints_the_schedules_of_the_vectors() {
    let installation = Installation::embedded();
    let cases: Vec<Value> = serde_json::from_str(SCHEDULES).unwrap();
    for case in &cases {
        let policy = case["policy"].to_string();
        let found = installation
            .run(&["policy", "preview", &policy, "--json"])
            .await
            .expect_code(0)
            .json();
        for key in ["delays_s", "retries", "attempts", "total_s"] {
            assert_eq!(found[key], case[key], "{key} of {case}");
        }
    }
}
