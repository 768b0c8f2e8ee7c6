//! What a command says that could not read anything: never that there is nothing. A wrong password is a wrong
//! configuration in each of them, whoever of broker and management API refuses it.

use serde_json::Value;

use super::scene::BOUND;
use crate::dead::queues::foreign;
use crate::support::daemon::{Installation, Outcome};
use crate::support::servers::Vhost;
use crate::support::wait::wait_until;

const NOBODY: &str = "http://127.0.0.1:1";
/// What says that there are no dead letters at all.
const NONE: &str = "no queue that an argument";

const LOOKS: [&[&str]; 11] = [
    &["queues"],
    &["endpoints"],
    &["queue", "why", "orders"],
    &["queue", "map", "orders"],
    &["queue", "browse", "orders"],
    &["dead", "groups"],
    &["dead", "list"],
    &["dead", "list", "--queue", "orders"],
    &["dead", "queues"],
    &["expiring", "list"],
    &["job", "list"],
];

/// Each look ends with `code`, and prints nothing that could be taken for an answer.
async fn end_with(installation: &Installation, code: i32, looks: &[&[&str]]) {
    for look in looks {
        let outcome = installation.run(&[look, &["--json"][..]].concat()).await;
        assert_eq!(outcome.code, Some(code), "{look:?}: {outcome:?}");
        assert_eq!(outcome.stdout, "", "{look:?}: {outcome:?}");
        assert!(!outcome.stderr.contains(NONE), "{look:?}: {outcome:?}");
    }
}

/// The same address with a password that is wrong.
fn mistyped(address: &str) -> String {
    let mut url = url::Url::parse(address).unwrap();
    url.set_password(Some("mistyped")).unwrap();
    url.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_ends_every_look_as_a_wrong_configuration() {
    let vhost = Vhost::create().await;
    let mut installation = Installation::on_rabbit(&vhost);
    installation.set("broker", "url", mistyped(&vhost.node.amqp));
    installation.set("broker", "management_url", mistyped(&vhost.node.management));
    end_with(&installation, 78, &LOOKS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_away_ends_every_look_as_unread() {
    let vhost = Vhost::create().await;
    let mut installation = Installation::on_rabbit(&vhost);
    installation.set("broker", "url", "amqp://127.0.0.1:1");
    installation.set("broker", "management_url", NOBODY);
    end_with(&installation, 69, &LOOKS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_is_empty_because_nothing_was_listed_is_no_list() {
    let vhost = Vhost::create().await;
    let mut installation = Installation::on_rabbit(&vhost);
    installation.set("broker", "management_url", NOBODY);
    end_with(&installation, 69, &LOOKS).await;
}

/// The ids of the letters of others, once all three are in the index.
async fn letters(installation: &Installation) -> Vec<String> {
    wait_until("the letters are listed", BOUND, async || {
        let listed = installation
            .run(&["dead", "list", "--json"])
            .await
            .expect_code(0)
            .json();
        let ids: Vec<String> = listed.as_array()?.iter().filter_map(id_of).collect();
        (ids.len() == 3).then_some(ids)
    })
    .await
}

fn id_of(letter: &Value) -> Option<String> {
    Some(letter["id"].as_str()?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_that_nobody_can_look_for_is_not_one_that_is_not_there() {
    let vhost = foreign().await;
    let mut installation = Installation::on_rabbit(&vhost);
    let ids = letters(&installation).await;
    let (id, other) = (ids[0].as_str(), ids[1].as_str());
    let asked = async |installation: &Installation| -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for command in [
            &["dead", "show", id][..],
            &["dead", "compare", id, other],
            &["dead", "edit", id, "--header", "x: y", "--dry-run"],
            &["dead", "redrive", id, "--dry-run"],
        ] {
            outcomes.push(installation.run(command).await);
        }
        outcomes
    };
    for outcome in asked(&installation).await {
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    installation.set("broker", "management_url", NOBODY);
    for outcome in asked(&installation).await {
        assert_eq!(outcome.code, Some(69), "{outcome:?}");
        assert!(outcome.stdout.is_empty(), "{outcome:?}");
        assert!(outcome.stderr.contains("management API"), "{outcome:?}");
    }
}
