//! A vhost that does not exist is one sentence wherever it is met, with what makes it; and it is made from here by whoever
//! may.

use serde_json::json;

use super::scene::BOUND;
use super::start::User;
use crate::console::pty::Pty;
use crate::support::daemon::{Installation, Outcome};
use crate::support::servers::{Vhost, unique_name};
use crate::support::wait::wait_until;

/// An installation on a vhost that is not there; the name goes with the value.
struct Missing<'a> {
    name: String,
    beside: &'a Vhost,
    installation: Installation,
}

impl<'a> Missing<'a> {
    fn of(mut installation: Installation, beside: &'a Vhost) -> Self {
        let name = unique_name("missing");
        installation.set("broker", "vhost", name.as_str());
        Self {
            name,
            beside,
            installation,
        }
    }

    async fn exists(&self) -> bool {
        let path = format!("/api/vhosts/{}", self.name);
        self.beside.node.request("GET", &path).send().await.status == 200
    }

    /// The one sentence, with the commands.
    fn is_named_in(&self, text: &str) {
        let sentence = format!("vhost {:?} does not exist", self.name);
        let command = format!("rabbitmqctl add_vhost {}", self.name);
        assert!(text.contains(&sentence) && text.contains(&command), "{text}");
        assert!(!text.contains("Not Found"), "{text}");
    }
}

impl Drop for Missing<'_> {
    fn drop(&mut self) {
        let path = format!("/api/vhosts/{}", self.name);
        let _ = self.beside.node.request("DELETE", &path).send_blocking();
    }
}

async fn asked(missing: &Missing<'_>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for command in [
        vec!["queues"],
        vec!["dead", "groups"],
        vec!["dead", "redrive", "--all", "--dry-run"],
        vec!["queue", "why", "orders"],
        vec!["expiring", "list"],
    ] {
        outcomes.push(missing.installation.run(&command).await);
    }
    outcomes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_vhost_is_one_sentence_in_every_command_and_made_by_one() {
    let beside = Vhost::create().await;
    let missing = Missing::of(Installation::on_rabbit(&beside), &beside);
    for outcome in asked(&missing).await {
        missing.is_named_in(&outcome.stderr);
        assert!(matches!(outcome.code, Some(69 | 78)), "{outcome:?}");
        assert_eq!(outcome.stdout, "", "{outcome:?}");
    }
    let checks = missing.installation.run(&["doctor", "--json"]).await.json();
    let broker = checks
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == "broker")
        .unwrap();
    let said = |key: &str| broker[key].as_str().unwrap().to_owned();
    missing.is_named_in(&format!("{}: {}", said("found"), said("mend")));

    let plan = missing
        .installation
        .run(&["vhost", "make", "--dry-run"])
        .await
        .expect_code(0);
    assert!(
        plan.stdout.contains(&format!("make vhost {}", missing.name)),
        "{plan:?}"
    );
    assert!(!missing.exists().await, "a plan makes nothing");
    missing
        .installation
        .run(&["vhost", "make", "--yes"])
        .await
        .expect_code(0);
    let queues = missing.installation.run(&["queues", "--json"]).await.expect_code(0);
    assert_eq!(queues.json(), json!([]));
    let again = missing
        .installation
        .run(&["vhost", "make", "--yes"])
        .await
        .expect_code(5);
    assert!(again.stderr.contains("is there already"), "{again:?}");
    let audit = missing
        .installation
        .run(&["audit", "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(audit[0]["command"], "vhost make", "{audit}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vhost_that_went_is_made_over_the_api_after_its_plan() {
    let beside = Vhost::create().await;
    let missing = Missing::of(Installation::on_rabbit(&beside), &beside);
    let mut daemon = missing.installation.daemon().await;
    let there = daemon.post("/v1/vhost/make", &json!({})).await;
    assert_eq!(there.status, 409, "{}", there.text());
    assert!(there.text().contains("is there already"), "{}", there.text());
    // The daemon makes it by itself too, a moment later: whoever comes first.
    wait_until("the vhost is made by who asks", BOUND, async || {
        let path = format!("/api/vhosts/{}", missing.name);
        beside.node.request("DELETE", &path).send().await;
        let plan = daemon.post("/v1/vhost/make?dry_run=true", &json!({})).await;
        let is_planned = plan.status == 200 && plan.json()["command"] == "vhost make" && !missing.exists().await;
        let made = daemon.post("/v1/vhost/make", &json!({"reason": "INC-7"})).await;
        let is_made = made.status == 200 && made.json() == json!({"vhost": missing.name, "made": true});
        (is_planned && is_made && missing.exists().await).then_some(())
    })
    .await;
    let audit = daemon.get("/v1/audit").await.json();
    let is_its = |line: &serde_json::Value| line["command"] == "vhost make" && line["reason"] == "INC-7";
    assert!(audit["items"].as_array().unwrap().iter().any(is_its), "{audit}");
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_may_not_make_the_missing_vhost_is_told_why_and_what_to_run() {
    let beside = Vhost::create().await;
    let user = User::create(&beside).await;
    let missing = Missing::of(user.installation(), &beside);
    for outcome in asked(&missing).await {
        missing.is_named_in(&outcome.stderr);
    }
    let refused = missing
        .installation
        .run(&["vhost", "make", "--yes"])
        .await
        .expect_code(5);
    let (made, rights) = (
        format!("rabbitmqctl add_vhost {}", missing.name),
        format!("set_permissions -p {}", missing.name),
    );
    for word in ["cannot be made from here", "management", &made, &rights] {
        assert!(refused.stderr.contains(word), "no {word:?} in {refused:?}");
    }
    assert!(!missing.exists().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_names_a_missing_vhost_and_makes_it_after_a_yes() {
    let beside = Vhost::create().await;
    let mut missing = Missing::of(Installation::on_rabbit(&beside), &beside);
    missing.installation.set("console", "refresh_s", 1);
    let pty = Pty::start(&missing.installation.program(&[]), (160, 40));
    pty.shows(&format!("V makes it: vhost \"{}\" does not exist", missing.name))
        .await;
    let screen = pty.screen();
    assert!(!screen.contains("● live") && !screen.contains("Not Found"), "{screen}");
    assert!(!screen.contains("broker unreachable"), "{screen}");
    pty.key("V");
    pty.until("an armed confirmation", |screen| {
        screen.contains("cancel ]") && !screen.contains("in a moment") && !screen.contains("Planning")
    })
    .await;
    assert!(!missing.exists().await, "nothing is made before a yes");
    pty.key("y");
    pty.shows("made vhost").await;
    pty.shows("● live").await;
    assert!(missing.exists().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vhost_that_the_url_leaves_out_is_said_on_the_first_line() {
    let said = "broker.url names no vhost: redrive's own, \"redrive\", is used";
    let mut installation = Installation::embedded();
    installation.set("broker", "url", "amqp://guest:guest@127.0.0.1:1");
    installation.set("broker", "management_url", "http://guest:guest@127.0.0.1:1");
    let command = installation.run(&["queues"]).await;
    assert!(command.stderr.starts_with(said), "{command:?}");
    let json = installation.run(&["queues", "--json"]).await;
    assert!(!json.stderr.contains(said), "{json:?}");
    let mut daemon = installation.spawn_daemon();
    wait_until("the first line", BOUND, async || {
        (!daemon.log().is_empty()).then_some(())
    })
    .await;
    assert!(daemon.log().starts_with(said), "{}", daemon.log());
    daemon.kill().await;
    installation.set("broker", "vhost", "redrive");
    let named = installation.run(&["queues"]).await;
    assert!(!named.stderr.contains(said), "{named:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_makes_no_vhost_of_a_mistyped_name() {
    let beside = Vhost::create().await;
    let missing = Missing::of(Installation::on_rabbit(&beside), &beside);
    let refused = missing.installation.run(&["job", "submit"]).await.expect_code(78);
    missing.is_named_in(&refused.stderr);
    assert!(!missing.exists().await, "a job is no reason to make a vhost");
    missing
        .installation
        .run(&["vhost", "make", "--yes"])
        .await
        .expect_code(0);
    missing.installation.run(&["job", "submit"]).await.expect_code(0);
}
