//! What one leaves a shift with: the handover, themes that can be checked, and a time for changes that ends.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use redrive::internals::ambient::Clock;
use redrive::internals::engine::query;
use redrive::internals::engine::{Access, EngineError, RedeliverTarget};
use serde_json::Value;

use crate::cli::prepared;
use crate::engine::stage::Stage;
use crate::support::daemon::who;
use crate::support::receiver::Behaviour;

const TARGET: [&str; 4] = ["--execution", "run-1", "--url", "http://example.com/hook"];

#[tokio::test(flavor = "multi_thread")]
async fn a_handover_tells_what_was_done_by_whom_and_what_still_waits() {
    let at = prepared().await;
    let publish: Vec<&str> = ["publish"].into_iter().chain(TARGET).collect();
    let receipt = at
        .run(&[&publish[..], &["--json"]].concat())
        .await
        .expect_code(0)
        .json();
    let queue = receipt["queue"].as_str().unwrap();
    at.run(&["queue", "pause", queue, "--yes", "--reason", "INC-42"])
        .await
        .expect_code(0);
    let page = at.run(&["handover", "--since", "2h"]).await.expect_code(0).stdout;
    assert!(page.starts_with("# Handover\n"), "{page}");
    assert!(
        page.contains("because `INC-42`") && page.contains("queue pause"),
        "{page}"
    );
    assert!(page.contains(&format!("**paused** `{queue}`, 1 waiting")), "{page}");
    let shift = at.run(&["handover", "--json"]).await.expect_code(0).json();
    assert_eq!(shift["queues"][0]["name"], queue);
    assert_eq!(
        shift["audit"].as_array().unwrap().len(),
        1,
        "its plan and its end are one thing"
    );
    at.run(&["handover", "--since", "yesterday"]).await.expect_code(2);
    let daemon = at.daemon().await;
    let told = daemon.get("/v1/handover?since=2h").await;
    assert_eq!(told.status, 200, "{}", told.text());
    assert_eq!(told.json()["queues"][0]["name"], queue);
    assert_eq!(told.json()["audit"][0]["reason"], "INC-42");
    let keys = |document: &Value| document.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        keys(&told.json()),
        keys(&shift),
        "the route answers what the command prints"
    );
    let wrong = daemon.get("/v1/handover?since=yesterday").await;
    assert_eq!((wrong.status, &wrong.json()["field"]), (400, &"since".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_somebody_paused_is_handed_over_and_listed_as_one_that_takes_nothing() {
    let at = prepared().await;
    let publish: Vec<&str> = ["publish"].into_iter().chain(TARGET).collect();
    at.run(&publish).await.expect_code(0);
    let unavailable = ["endpoints", "--unavailable", "--json"];
    assert_eq!(at.run(&unavailable).await.expect_code(0).json(), serde_json::json!([]));
    let url = TARGET[3];
    at.run(&["endpoint", "pause", url, "--yes", "--reason", "freeze"])
        .await
        .expect_code(0);
    let listed = at.run(&unavailable).await.expect_code(0).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!((&listed[0]["url"], &listed[0]["queues"]), (&url.into(), &1.into()));
    let page = at.run(&["handover"]).await.expect_code(0).stdout;
    let expected = format!("**paused** `{url}`: `paused by cli:");
    assert!(
        page.contains(&expected) && page.contains(": freeze`") && page.contains("1 waiting, **waits for a person**"),
        "{page}"
    );
    let shift = at.run(&["handover", "--json"]).await.expect_code(0).json();
    assert_eq!(shift["endpoints"][0]["url"], url);
    assert_eq!(shift["endpoints"][0]["pace"]["paused_reason"], "freeze");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handover_and_a_list_show_no_value_of_a_query_and_know_who_it_was() {
    const SECRET: &str = "S3CRET";
    let mut at = prepared().await;
    let url = format!("http://example.com/hook?key={SECRET}");
    at.set_environment("USER", "alice (CTO)");
    at.run(&["publish", "--execution", "run-1", "--url", &url])
        .await
        .expect_code(0);
    at.run(&["endpoint", "disable", &url, "--yes"]).await.expect_code(0);
    for shown in [
        &["handover"][..],
        &["handover", "--json"],
        &["queues"],
        &["endpoints"],
        &["audit"],
    ] {
        let page = at.run(shown).await.expect_code(0).stdout;
        assert!(
            page.contains("example.com/hook?key=***") && !page.contains(SECRET),
            "{shown:?}: {page}"
        );
        assert!(!page.contains("alice"), "{shown:?}: {page}");
    }
    let actors = at.run(&["audit", "--json"]).await.expect_code(0).json();
    for line in actors.as_array().unwrap() {
        let actor = line["actor"].as_str().unwrap();
        assert!(
            actor.starts_with("cli:") && actor.ends_with(&who()),
            "without a terminal: {actor}"
        );
    }
    let endpoint = at
        .run(&["endpoint", "show", &url, "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(endpoint["url"], url.as_str(), "a program gets it whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_environment_names_no_user_the_audit_knows_by_whom_and_where_it_was_done() {
    let mut at = prepared().await;
    for variable in ["USER", "LOGNAME", "SUDO_USER"] {
        at.set_environment(variable, "");
    }
    let url = "http://example.com/hook";
    at.run(&["publish", "--execution", "run-1", "--url", url])
        .await
        .expect_code(0);
    at.run(&["endpoint", "disable", url, "--yes"]).await.expect_code(0);
    let audit = at.run(&["audit", "--json"]).await.expect_code(0).json();
    let actor = audit[0]["actor"].as_str().unwrap();
    assert!(actor.ends_with(&who()) && !actor.contains("unknown"), "{actor}");
}

/// The exit code, and what it printed: the errors where there is no document.
fn theme(home: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_redrive"))
        .arg("theme")
        .args(arguments)
        .env_clear()
        .env("XDG_CONFIG_HOME", home)
        .env("HOME", home)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = [ran.stdout, ran.stderr].concat();
    (ran.status.code(), String::from_utf8(printed).unwrap())
}

#[test]
fn themes_are_listed_and_checked_with_the_field_that_is_wrong() {
    let home = tempfile::tempdir().unwrap();
    let (code, listed) = theme(home.path(), &["list"]);
    assert_eq!(code, Some(0), "{listed}");
    for name in ["dark", "light", "ansi16", "high_contrast", "colour_blind", "nord"] {
        assert!(listed.contains(name), "{name}: {listed}");
    }
    let directory = home.path().join("redrive/themes");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(
        directory.join("mine.toml"),
        "inherits = \"dark\"\n[roles]\nwarnign = \"red\"\n",
    )
    .unwrap();
    let (code, checked) = theme(home.path(), &["check"]);
    assert_eq!(code, Some(78));
    assert!(
        checked.contains("roles.warnign") && checked.contains("did you mean"),
        "{checked}"
    );
    let file = home.path().join("other.toml");
    std::fs::write(&file, "inherits = \"nord\"\n").unwrap();
    let (code, checked) = theme(home.path(), &["check", file.to_str().unwrap(), "--json"]);
    assert_eq!(code, Some(0), "{checked}");
    let checked: serde_json::Value = serde_json::from_str(&checked).unwrap();
    assert_eq!(
        (checked[0]["name"].as_str(), checked[0]["colours"].as_str()),
        (Some("other"), Some("true colour"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_whose_time_is_over_changes_nothing() {
    let mut stage = Stage::embedded().await;
    stage.receiver.behave("/hook", Behaviour::Status(410));
    stage.publish("a", "/hook").await;
    stage.endpoint_is("/hook", "disabled").await;
    let now = Clock::system().now();
    let redeliver = redrive::internals::engine::Command::Redeliver(RedeliverTarget::Urls(vec![stage.url("/hook")]));
    let plan = stage.engine.plan(redeliver).await.unwrap();
    let over = Access::Until(now).grant("ana", Some("INC-42".to_owned())).unwrap();
    let refused = stage.engine.execute(&plan, &over).await.unwrap_err();
    assert!(
        matches!(&refused, EngineError::Refused { why } if why.contains("over")),
        "{refused}"
    );
    let audit = query::Audit {
        before: None,
        limit: 10,
    };
    let page = stage.engine.query(audit).await.unwrap();
    assert!(page.items.iter().all(|line| line.entry.actor != "ana"), "{page:?}");
    stage.receiver.behave("/hook", Behaviour::Status(200));
    let open = Access::Until(now.plus(Duration::from_secs(3_600)))
        .grant("ana", None)
        .unwrap();
    stage.engine.execute(&plan, &open).await.unwrap();
    stage.endpoint_is("/hook", "available").await;
    stage.stop().await;
}
