//! Consoles and commands that are attached to a daemon: neither broker nor store is known to them, and what they show and
//! do is what the daemon's own do.

mod services;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::access::{READER, with_tokens};
use crate::console::pty::{BOUND, Pty};
use crate::runs::scene::{ORIGIN, Scene, numbers};
use crate::support::daemon::{Daemon, Installation};
use crate::support::wait::wait_until;

const SIZE: (u16, u16) = (120, 40);

/// An installation whose profile `far` is this daemon, and which knows nothing else that is real.
pub(crate) fn far(daemon: &Daemon, token: &str) -> Installation {
    let mut installation = nowhere();
    installation.append(&format!(
        "\n[profile.far]\ndaemon = {:?}\ntoken = {token:?}\n",
        daemon.api
    ));
    installation
}

/// An installation that knows nothing real.
pub(crate) fn nowhere() -> Installation {
    let mut installation = Installation::embedded();
    installation.set("broker", "url", "amqp://nobody:nothing@127.0.0.1:1/none");
    installation.set("broker", "management_url", "http://127.0.0.1:1");
    installation.set("store", "url", "postgres://nobody:nothing@127.0.0.1:1/none");
    installation.leave_the_store_as_it_is();
    installation
}

pub(crate) fn token(daemon: &Daemon) -> String {
    daemon.token.clone().expect("a daemon that is ready")
}

/// Makes an endpoint known where nobody listens.
async fn known(daemon: &mut Daemon) {
    daemon.token = Some(crate::access::ADMIN.to_owned());
    let notification = json!({"execution_id": "a", "url": "http://127.0.0.1:9/"});
    assert_eq!(daemon.post("/v1/notifications", &notification).await.status, 202);
    wait_until("nobody listens at the endpoint", BOUND, async || {
        let endpoints = daemon.get("/v1/endpoints").await;
        endpoints.text().contains("unavailable").then_some(())
    })
    .await;
}

/// Answers every request with 401; what was asked comes out.
async fn stranger() -> (String, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") && stream.read_buf(&mut request).await.is_ok_and(|read| read > 0) {}
            let _ = sender.send(String::from_utf8_lossy(&request).into_owned());
            let answer = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(answer).await;
        }
    });
    (address, heard)
}

/// Others may listen on this machine, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_that_a_daemon_made_is_sent_to_no_other_address() {
    let mut installation = Installation::embedded();
    let daemon = installation.daemon().await;
    let (address, mut heard) = stranger().await;
    installation.append(&format!(
        "\n[profile.own]\ndaemon = {:?}\n[profile.other]\ndaemon = {address:?}\n",
        daemon.api
    ));
    installation.run(&["queues", "--profile", "own"]).await.expect_code(0);
    let refused = installation.run(&["queues", "--profile", "other"]).await;
    assert!(
        refused.code != Some(0) && refused.stderr.contains(&format!("is not sent to {address}")),
        "{refused:?}"
    );
    let request = heard.recv().await.unwrap().to_lowercase();
    assert!(
        request.contains("/v1/") && !request.contains("authorization"),
        "{request}"
    );
    // What was started with another configuration has the same token, and tells where it listens.
    let kept = installation.path("redrive/api-token.listens");
    std::fs::write(&kept, address.strip_prefix("http://").unwrap()).unwrap();
    installation.run(&["queues", "--profile", "other"]).await;
    let request = heard.recv().await.unwrap().to_lowercase();
    assert!(request.contains("authorization: bearer"), "{request}");
}

async fn told(installation: &Installation, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--json", "--profile", "far"]].concat();
    installation.run(&arguments).await.expect_code(0).json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_of_an_attached_process_answer_as_the_daemons_own() {
    let scene = Scene::sqlite().await;
    scene.die(25).await;
    let mut daemon = scene.installation.daemon().await;
    let far = far(&daemon, &token(&daemon));

    let groups = told(&far, &["dead", "groups"]).await;
    assert_eq!(groups[0]["count"], 25, "{groups}");
    for command in [
        &["dead", "list"][..],
        &["dead", "groups"],
        &["endpoints"],
        &["policy", "show"],
        &["run", "list"],
        // The names are the daemon's, and not what the configuration of this machine would make.
        &["queue-name", "--execution", "a", "--url", "http://127.0.0.1:9/"],
    ] {
        let here = scene
            .installation
            .run(&[command, &["--json"]].concat())
            .await
            .expect_code(0)
            .json();
        let there = told(&far, command).await;
        let (here, there) = (without_ages(here), without_ages(there));
        assert_eq!(here, there, "{command:?}");
    }

    redriven_from_afar(&scene, &far).await;
    refused_from_afar(&far).await;
    assert_eq!(daemon.stop().await, Some(0));
    let gone = far.run(&["queues", "--json", "--profile", "far"]).await.expect_code(69);
    assert!(
        gone.stdout.is_empty() && gone.stderr.contains("does not answer"),
        "{gone:?}"
    );
}

/// A command that changes something is carried out by the daemon, in the name of the token.
async fn redriven_from_afar(scene: &Scene, far: &Installation) {
    let ended = far
        .run(&[
            "dead",
            "redrive",
            "--all",
            "--yes",
            "--reason",
            "from afar",
            "--profile",
            "far",
        ])
        .await
        .expect_code(0);
    assert!(ended.stdout.contains("25"), "{ended:?}");
    assert_eq!(numbers(&scene.take_all(ORIGIN).await), (0..25).collect::<Vec<_>>());
    let audit = scene.installation.run(&["audit", "--json"]).await.expect_code(0).json();
    let line = audit
        .as_array()
        .unwrap()
        .iter()
        .find(|line| line["command"] == "dead redrive")
        .unwrap();
    assert_eq!(
        (&line["actor"], &line["reason"]),
        (&json!("api:own"), &json!("from afar")),
        "{line}"
    );
}

/// What the daemon does not know, and what only its own machine can do.
async fn refused_from_afar(far: &Installation) {
    let nowhere = far
        .run(&["queue", "why", "nothing-of-this-name", "--profile", "far"])
        .await
        .expect_code(4);
    assert!(nowhere.stderr.contains("there is no queue"), "{nowhere:?}");
    let local = far
        .run(&["event", "process", "--type", "t", "--once", "--profile", "far"])
        .await
        .expect_code(5);
    assert!(local.stderr.contains("run it where the daemon runs"), "{local:?}");
    for work in [&["migrate"][..], &["backup", "copy.db"], &["restore", "copy.db"]] {
        let store = [&["store"], work, &["--yes", "--profile", "far"]].concat();
        let refused = far.run(&store).await.expect_code(5);
        assert!(refused.stderr.contains("Run it where that daemon runs"), "{refused:?}");
    }
}

/// What differs between two looks at the same.
fn without_ages(mut value: Value) -> Value {
    match &mut value {
        Value::Object(entries) => {
            entries.retain(|key, _| !key.ends_with("age_s") && key != "taken_at");
            for value in entries.values_mut() {
                *value = without_ages(value.take());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_ages(item.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_console_that_is_attached_redrives_and_goes_on_when_its_daemon_comes_back() {
    let scene = Scene::sqlite().await;
    scene.die(25).await;
    let mut daemon = scene.installation.daemon().await;
    let far = far(&daemon, &token(&daemon));
    let pty = Pty::start(&far.program(&["--profile", "far"]), SIZE);
    pty.shows("live").await;
    pty.shows(&daemon.api).await;
    pty.until("how far away the daemon is", |screen| {
        screen.contains("● live") && screen.contains(" ms ")
    })
    .await;
    pty.key("5");
    pty.until("the group", |screen| {
        screen.contains("rejected") && screen.contains("25")
    })
    .await;
    pty.key("R");
    pty.until("an armed question", |screen| {
        screen.contains("type the ") && !screen.contains("in a moment")
    })
    .await;
    pty.key("25");
    pty.until("the word to be right", |screen| screen.contains("[ Enter  "))
        .await;
    pty.key("\r");
    pty.key("7");
    pty.until("the run to be done", |screen| screen.contains("25 of 25 done"))
        .await;
    assert_eq!(numbers(&scene.take_all(ORIGIN).await), (0..25).collect::<Vec<_>>());

    let address = daemon.api.clone();
    daemon.kill().await;
    pty.shows("does not answer").await;
    let mut again = scene.installation.daemon_at(&address).await;
    pty.hides("does not answer").await;
    pty.shows("live").await;
    leave(pty).await;
    assert_eq!(again.stop().await, Some(0));
}

async fn leave(mut pty: Pty) {
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_may_only_look_makes_a_console_that_only_looks_and_shows_no_secret() {
    let mut installation = Installation::embedded();
    with_tokens(&mut installation);
    let mut daemon = installation.daemon().await;
    known(&mut daemon).await;
    let far = far(&daemon, READER);
    let refused = far
        .run(&[
            "endpoint",
            "disable",
            "http://127.0.0.1:9/",
            "--yes",
            "--profile",
            "far",
        ])
        .await
        .expect_code(5);
    assert!(refused.stderr.contains("operate"), "{refused:?}");
    let pty = Pty::start(&far.program(&["--profile", "far"]), SIZE);
    pty.shows("READ-ONLY").await;
    pty.shows(" live").await;
    pty.key("3");
    pty.shows("unavailable").await;
    pty.key("D");
    pty.shows("this token may only look").await;
    pty.key(".");
    pty.until("the attempts, as they are made there", |screen| {
        screen.contains("attempts of everything") && screen.contains("▼ failed")
    })
    .await;
    // The daemon is away when the console starts, and comes back: it says again what the token may do.
    leave(pty).await;
    let address = daemon.api.clone();
    assert_eq!(daemon.stop().await, Some(0));
    let pty = Pty::start(&far.program(&["--profile", "far"]), SIZE);
    pty.shows("Connecting").await;
    let mut daemon = installation.daemon_at(&address).await;
    pty.shows(" live").await;
    pty.shows("READ-ONLY").await;
    pty.shows("vhost ").await;
    // It comes back and knows the token without its scope.
    assert_eq!(daemon.stop().await, Some(0));
    let publishes = json!([{"value": READER, "scopes": ["publish"]}, crate::access::ADMIN]);
    installation.set("api", "tokens", publishes);
    let mut daemon = installation.daemon_at(&address).await;
    pty.shows("lacks the scope").await;
    leave(pty).await;
    let wrong = self::far(&daemon, "a-token-that-nobody-ever-configured");
    for look in [&["queues"][..], &["dead", "list"], &["doctor"]] {
        let refused = wrong.run(&[look, &["--profile", "far"]].concat()).await.expect_code(78);
        let said = "does not know the token of profile.far.token: it has to be one of the daemon's api.tokens";
        assert!(
            refused.stderr.contains(said) && refused.stdout.is_empty(),
            "{refused:?}"
        );
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_is_carried_out_once_and_only_by_the_token_that_made_it() {
    let mut installation = Installation::embedded();
    with_tokens(&mut installation);
    let mut daemon = installation.daemon().await;
    known(&mut daemon).await;
    daemon.token = Some(crate::access::OPERATOR.to_owned());
    let command = json!({"DisableEndpoint": "http://127.0.0.1:9/"});
    let planned = daemon.post("/v1/attach/plan", &command).await;
    assert_eq!(planned.status, 200, "{planned:?}");
    let id = planned.json()["id"].as_str().unwrap().to_owned();
    let order = json!({"id": id, "reason": null});
    daemon.token = Some(crate::access::ADMIN.to_owned());
    assert_eq!(
        daemon.post("/v1/attach/execute", &order).await.status,
        409,
        "another token's"
    );
    daemon.token = Some(crate::access::OPERATOR.to_owned());
    let executed = daemon.post("/v1/attach/execute", &order).await;
    assert_eq!(executed.status, 200, "{}", executed.text());
    assert_eq!(
        daemon.post("/v1/attach/execute", &order).await.status,
        409,
        "it was carried out"
    );
    daemon.token = Some(READER.to_owned());
    assert_eq!(daemon.post("/v1/attach/execute", &order).await.status, 403);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_stops_ends_what_it_tells_before_it_closes_its_store() {
    let mut installation = Installation::embedded();
    with_tokens(&mut installation);
    let mut daemon = installation.daemon().await;
    known(&mut daemon).await;
    let far = far(&daemon, crate::access::OPERATOR);
    let pty = Pty::start(&far.program(&["--profile", "far"]), SIZE);
    pty.shows(" live").await;
    pty.key("3");
    pty.shows("unavailable").await;
    assert_eq!(daemon.stop().await, Some(0));
    pty.shows("does not answer").await;
    let log = daemon.log();
    assert!(
        !log.contains("still in flight") && !log.contains("closed pool"),
        "{log}"
    );
    let written = String::from_utf8_lossy(&pty.bytes()).into_owned();
    assert!(
        !written.contains("store unreachable") && !written.contains("closed pool"),
        "{written}"
    );
    pty.key("R");
    pty.until("what was wanted is named once", |screen| {
        screen.contains("redeliver: daemon could not be read") && !screen.contains("redeliver: redeliver")
    })
    .await;
    leave(pty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_console_whose_daemon_is_away_names_what_it_looks_for_and_a_command_of_its_profile() {
    let mut installation = nowhere();
    installation.append("\n[profile.down]\ndaemon = \"http://127.0.0.1:1\"\n");
    let pty = Pty::start(&installation.program(&["--profile", "down"]), (200, 40));
    pty.until("what is looked for, and the hint", |screen| {
        let is_whole = |line: &str| line.trim_end() == "  Connecting to daemon http://127.0.0.1:1";
        screen.lines().any(is_whole) && screen.contains("--profile down doctor`")
    })
    .await;
    pty.until("the first line says nothing of a store", |screen| {
        screen.lines().next().is_some_and(|line| !line.contains(" · "))
    })
    .await;
}
