//! What people read: the handover, the doctor, and one queue that may not be read.

use serde_json::json;

use super::{BOUND, Cut, Site};
use crate::support::management::Lie;
use crate::support::receiver::Receiver;
use crate::support::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handover_and_the_doctor_say_what_is_not_known_and_never_that_there_is_none() {
    let site = Site::open().await;
    let run = async |arguments: &[&str]| site.installation.run(arguments).await;
    let page = run(&["handover"]).await.expect_code(0).stdout;
    assert!(
        page.contains("There are none.") && !page.contains("Not known"),
        "{page}"
    );
    site.cut(Cut::Management(Lie::Half));
    let outcome = run(&["handover"]).await.expect_code(0);
    let page = &outcome.stdout;
    assert!(
        page.contains("Not known") && page.contains("`management` could not be read, because"),
        "{page}"
    );
    assert!(
        !page.contains("There are none.") && !page.contains("No queue does."),
        "{page}"
    );
    assert!(page.contains("? waiting"), "{page}");
    assert!(outcome.stderr.contains("management could not be read"), "{outcome:?}");
    let checks = run(&["doctor", "--json"]).await.json();
    let unknown: Vec<&str> = checks
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["found"].as_str().unwrap().starts_with("not known"))
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    for name in ["policies", "queues", "expiring"] {
        assert!(unknown.iter().any(|unknown| unknown.contains(name)), "{name}: {checks}");
    }
    let list = run(&["queues"]).await.expect_code(0);
    assert!(
        list.stdout.contains('?') && list.stderr.contains("management could not be read"),
        "{list:?}"
    );
    let jobs = run(&["job", "list", "--json"]).await.expect_code(69);
    assert!(jobs.stdout.is_empty() && jobs.stderr.contains("management"), "{jobs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_nobody_could_look_for_is_not_said_to_be_missing() {
    let site = Site::open().await;
    site.installation
        .run(&["queue", "why", "nobody-knows-it"])
        .await
        .expect_code(4);
    site.cut(Cut::Management(Lie::Status(401)));
    let outcome = site
        .installation
        .run(&["queue", "why", "nobody-knows-it"])
        .await
        .expect_code(78);
    assert!(
        outcome.stdout.is_empty() && !outcome.stderr.contains("not found"),
        "{outcome:?}"
    );
    let known = site
        .installation
        .run(&["queue", "why", &site.queue])
        .await
        .expect_code(0);
    assert!(known.stderr.contains("management could not be read"), "{known:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_can_count_no_state_and_no_reason_are_made_up() {
    let site = Site::open().await;
    let receiver = Receiver::start().await;
    let body = json!({"execution_id": "drained", "url": receiver.url("/hook"), "body": "x"});
    let published = site.daemon.post("/v1/notifications", &body).await.json();
    let drained = published["queue"].as_str().unwrap().to_owned();
    let why = async || {
        let answer = site.daemon.get(&format!("/v1/queues/{drained}/why")).await;
        answer.json()
    };
    wait_until("a drained queue", BOUND, async || {
        (why().await["state"] == "empty").then_some(())
    })
    .await;
    site.cut(Cut::Management(Lie::Status(401)));
    let list = site.daemon.get("/v1/queues").await.json();
    let row = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == drained.as_str());
    let row = row.unwrap_or_else(|| panic!("{list}"));
    assert!(row["state"].is_null() && row["why"]["code"].is_null(), "{row}");
    let text = row["why"]["text"].as_str().unwrap();
    assert!(text.starts_with("it is not known whether anything waits: "), "{row}");
    let table = site
        .installation
        .run(&["queues", "--columns", "queue,state", "--no-headers"])
        .await;
    let line = table.stdout.lines().find(|line| line.contains(&drained)).unwrap();
    assert!(line.trim_end().ends_with('?'), "{table:?}");
    // A look counts what a list cannot.
    assert_eq!(why().await["state"], "empty");
    site.cut(Cut::Broker);
    let told = why().await;
    assert!(told["state"].is_null(), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_of_what_nobody_can_count_says_why_nobody_can() {
    let site = Site::open().await;
    site.cut(Cut::Management(Lie::Status(500)));
    site.cut(Cut::Broker);
    let purge = ["queue", "purge", site.queue.as_str(), "--yes"];
    let outcome = site.installation.run(&purge).await.expect_code(69);
    assert!(outcome.stderr.contains("broker unreachable"), "{outcome:?}");
}
