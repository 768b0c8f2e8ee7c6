//! What services do, from a process that is attached to a daemon: publish, end, push, claim, jobs; and an export.

use serde_json::{Value, json};

use super::{far, nowhere, token, told};
use crate::console::pty::BOUND;
use crate::faults;
use crate::runs::scene::Scene;
use crate::support::daemon::{Daemon, Installation};
use crate::support::relay::{Relay, Trap};
use crate::support::wait::wait_until;

const NOBODY: &str = "http://127.0.0.1:9/";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notification_is_published_and_ended_from_afar_under_the_id_that_was_given() {
    let installation = Installation::embedded();
    let mut daemon = installation.daemon().await;
    let far = far(&daemon, &token(&daemon));
    let target = ["--execution", "a", "--url", NOBODY];

    let would = told(&far, &[&["publish", "--dry-run"][..], &target].concat()).await;
    let queues = told(&far, &["queues", "--filter", "kind = delivery"]).await;
    assert_eq!(queues, json!([]), "nothing was published");
    let published = told(&far, &[&["publish", "--id", "n-1"][..], &target].concat()).await;
    assert_eq!(published, json!({"id": "n-1", "queue": would["queue"]}));
    let queue = daemon
        .get(&format!("/v1/queues/{}", would["queue"].as_str().unwrap()))
        .await;
    let queue = queue.json();
    assert_eq!(
        queue["ready"].as_u64().unwrap() + queue["unacked"].as_u64().unwrap(),
        1,
        "{queue}"
    );
    let ended = told(&far, &[&["end"][..], &target].concat()).await;
    assert_eq!((&ended["marked"], &ended["queue"]), (&json!(true), &would["queue"]));

    assert_eq!(daemon.stop().await, Some(0));
    let again = [&["publish", "--id", "n-2", "--profile", "far"][..], &target].concat();
    let lost = far.run(&again).await.expect_code(69);
    assert!(lost.stderr.contains("does not answer"), "{lost:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_pushed_claimed_and_done_from_afar() {
    let installation = Installation::embedded();
    let mut daemon = installation.daemon().await;
    let far = far(&daemon, &token(&daemon));
    let set = ["event-type", "set", "t", "--yes", "--metadata", "-", "--profile", "far"];
    far.run_with_input(&set, b"{}").await.expect_code(0);

    for reference in ["one", "two"] {
        let pushed = told(&far, &["event", "push", "--type", "t", "--reference", reference]).await;
        assert_eq!(
            (&pushed["reference"], &pushed["result"]),
            (&json!(reference), &json!("new"))
        );
    }
    let claim = told(&far, &["claim", "create", "--type", "t", "--limit", "2"]).await;
    assert_eq!(claim["events"].as_array().unwrap().len(), 2, "{claim}");
    let id = claim["id"].as_str().unwrap();
    let renewed = told(&far, &["claim", "renew", "--type", "t", id, "--ttl", "600"]).await;
    assert!(
        renewed["expires_at"].as_str() > claim["expires_at"].as_str(),
        "{renewed}"
    );
    let done = told(&far, &["claim", "done", "--type", "t", "--reference", "one", id]).await;
    assert_eq!(done, json!({"reference": "one", "result": "done"}));
    let released = told(&far, &["claim", "release", "--type", "t", id]).await;
    assert_eq!(released["released"], 1, "{released}");
    let left = told(&far, &["event", "list"]).await;
    assert_eq!(
        (&left[0]["reference"], &left[0]["state"]),
        (&json!("two"), &json!("ready")),
        "{left}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_submitted_and_told_of_from_afar_and_followed_only_where_their_messages_can_be_acked() {
    let installation = Installation::embedded();
    let mut daemon = installation.daemon().await;
    let far = far(&daemon, &token(&daemon));
    let job = told(&far, &["job", "submit", "--ttl", "3600"]).await;
    let id = job["id"].as_str().unwrap();
    let checked = told(&far, &["job", "connect", id, "--check"]).await;
    assert_eq!(checked, job);
    let body = [
        "job",
        "publish",
        id,
        "progress",
        "--body-file",
        "-",
        "--json",
        "--profile",
        "far",
    ];
    let published = far.run_with_input(&body, b"half").await.expect_code(0).json();
    assert_eq!(published["queue"], job["queues"]["progress"]);
    wait_until("the message to be listed", BOUND, async || {
        let jobs = daemon.get("/v1/jobs").await.json();
        (jobs["items"][0]["messages"] == 1).then_some(())
    })
    .await;
    let followed = far
        .run(&["job", "connect", id, "--profile", "far"])
        .await
        .expect_code(5);
    assert!(followed.stderr.contains("run it where the daemon runs"), "{followed:?}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_exported_from_afar_as_they_are_here() {
    let scene = Scene::sqlite().await;
    scene.die(25).await;
    let mut daemon = scene.installation.daemon().await;
    let far = far(&daemon, &token(&daemon));
    let export = ["dead", "export", "--format", "jsonl"];
    let here = scene.installation.run(&export).await.expect_code(0);
    let there = far
        .run(&[&export[..], &["--profile", "far"]].concat())
        .await
        .expect_code(0);
    let letters = |text: &str| -> Vec<Value> {
        let letters = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        letters
            .map(|letter| json!([letter["id"], letter["body"], letter["headers"]]))
            .collect()
    };
    assert_eq!(letters(&here.stdout).len(), 25);
    assert_eq!(letters(&there.stdout), letters(&here.stdout));
    let wrong = far
        .run(&["dead", "export", "--filter", "noting:x", "--profile", "far"])
        .await
        .expect_code(2);
    assert!(wrong.stderr.contains("noting"), "{wrong:?}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_does_from_afar_what_its_own_routes_let_it_do_and_nothing_else() {
    let mut installation = Installation::embedded();
    let tenant = "a-tenant-that-may-look-as-well";
    let tokens = json!([
        crate::access::ADMIN,
        {"value": crate::access::READER, "scopes": ["read"]},
        {"value": tenant, "scopes": ["read", "publish"], "queues": 1},
    ]);
    installation.set("api", "tokens", tokens);
    let mut daemon = installation.daemon().await;
    let publish = |daemon: &Daemon, token: &str, execution: &'static str| {
        let far = far(daemon, token);
        async move {
            let line = ["publish", "--execution", execution, "--url", NOBODY, "--profile", "far"];
            far.run(&line).await
        }
    };
    let refused = publish(&daemon, crate::access::READER, "a").await.expect_code(5);
    assert!(refused.stderr.contains("\"publish\""), "{refused:?}");
    publish(&daemon, tenant, "a").await.expect_code(0);
    let refused = publish(&daemon, tenant, "b").await.expect_code(1);
    assert!(refused.stderr.contains("429"), "{refused:?}");
    let far = far(&daemon, tenant);
    for line in [
        &["job", "submit"][..],
        &["claim", "create", "--type", "t"],
        &["alert", "test", "none"],
    ] {
        let refused = far.run(&[line, &["--profile", "far"]].concat()).await.expect_code(5);
        assert!(refused.stderr.contains("lacks the scope"), "{refused:?}");
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_only_publishes_does_so_from_afar_and_sees_nothing() {
    let mut installation = Installation::embedded();
    let publisher = "a-publisher-that-may-not-look";
    let tokens = json!([crate::access::ADMIN, {"value": publisher, "scopes": ["publish"]}]);
    installation.set("api", "tokens", tokens);
    let mut daemon = installation.daemon().await;
    let far = far(&daemon, publisher);
    let target = ["--execution", "a", "--url", NOBODY];
    let published = told(&far, &[&["publish", "--id", "n-1"][..], &target].concat()).await;
    assert_eq!(published["id"], "n-1");
    assert_eq!(told(&far, &[&["end"][..], &target].concat()).await["marked"], true);
    let pushed = told(&far, &["event", "push", "--type", "t", "--reference", "one"]).await;
    assert_eq!(pushed["result"], "new");
    for line in [
        &["queues"][..],
        &["event", "list"],
        &["claim", "create", "--type", "t"],
        &["dead", "export", "--format", "jsonl"],
        &["endpoint", "disable", NOBODY, "--yes"],
    ] {
        let refused = far.run(&[line, &["--profile", "far"]].concat()).await.expect_code(5);
        assert!(refused.stderr.contains("lacks the scope"), "{line:?}: {refused:?}");
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_is_never_delivered_to_is_refused_from_afar_with_the_same_words_and_exit_code() {
    let installation = Installation::embedded();
    let mut daemon = installation.daemon().await;
    let far = far(&daemon, &token(&daemon));
    let line = ["publish", "--execution", "a", "--url", "http://169.254.169.254/"];
    let here = installation.run(&line).await.expect_code(2).stderr;
    let there = far
        .run(&[&line[..], &["--profile", "far"]].concat())
        .await
        .expect_code(2);
    assert!(here.contains("url is refused"), "{here}");
    assert!(there.stderr.contains(here.trim()), "{} is not {here}", there.stderr);
    assert_eq!(daemon.stop().await, Some(0));
}

/// The daemon does what it was asked, and is killed before anybody hears of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_killed_in_the_middle_of_a_call_or_an_export_leaves_nothing_twice_and_is_not_said_to_be_done()
{
    let scene = faults::scene::Scene::servers().await;
    let mut daemon = scene.installation.daemon().await;
    let way = Relay::to(&daemon.api).await;
    let (api, token) = (way.through(&daemon.api), token(&daemon));
    let mut far = nowhere();
    far.append(&format!("\n[profile.far]\ndaemon = {api:?}\ntoken = {token:?}\n"));

    way.silence_at(Trap::After(b"POST /v1/attach/call"));
    let url = scene.url("/hook");
    let publish = [
        "publish",
        "--execution",
        "a",
        "--id",
        "n-1",
        "--url",
        url.as_str(),
        "--profile",
        "far",
    ];
    let killed = async {
        scene.delivered(1).await;
        assert!(way.is_silent());
        daemon.kill().await;
        way.reset();
    };
    let (lost, ()) = tokio::join!(far.run(&publish), killed);
    let lost = lost.expect_code(69);
    assert!(
        lost.stderr.contains("does not answer") && lost.stderr.contains("Whether it was done is not known here"),
        "{lost:?}"
    );
    assert!(lost.stdout.is_empty(), "{lost:?}");

    let mut again = scene.installation.daemon().await;
    way.lead_to(&again.api);
    way.heal();
    way.silence_at(Trap::After(b"POST /v1/attach/export"));
    let killed = async {
        wait_until("the export to be asked for", BOUND, async || {
            way.is_silent().then_some(())
        })
        .await;
        again.kill().await;
        way.reset();
    };
    let export = ["dead", "export", "--format", "jsonl", "--profile", "far"];
    let (lost, ()) = tokio::join!(far.run(&export), killed);
    assert!(lost.expect_code(69).stderr.contains("does not answer"));

    let mut third = scene.installation.daemon().await;
    scene.publish("a", "/hook", 2).await;
    scene.delivered(2).await;
    let attempts = scene.receiver.attempts_of("/hook");
    let ids: Vec<String> = attempts.iter().map(|attempt| attempt.id().to_owned()).collect();
    assert_eq!(ids, ["n-1", "a-2"], "once, and nothing is behind it");
    assert_eq!(third.stop().await, Some(0));
}
