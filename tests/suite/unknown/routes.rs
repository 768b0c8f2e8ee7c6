//! Every route that only looks, as the description names them.

use serde_json::Value;

use super::{Cut, Site, TYPE, names};
use crate::support::management::Lie;
use crate::support::wait::wait_until;

/// A path of the description with what is there.
fn concrete(site: &Site, path: &str) -> String {
    let path = path
        .replace("{name}", &site.queue)
        .replace("{type}", TYPE)
        .replace("{reference}", "1")
        .replace("{claim}", "1")
        .replace("{id}", &"0".repeat(32));
    match path.as_str() {
        _ if path.starts_with("/v1/jobs/") => "/v1/jobs/018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a".to_owned(),
        "/v1/queue-name" => format!("{path}?execution_id=run&url=http%3A%2F%2F127.0.0.1%3A9%2Fhook"),
        "/v1/endpoints/disable" | "/v1/policies/history" => format!("{path}?url=http%3A%2F%2F127.0.0.1%3A9%2Fhook"),
        _ => path,
    }
}

/// Every question of the description with what it is answered from.
fn questions() -> Vec<(String, Vec<String>)> {
    let document = redrive::internals::api::openapi_document();
    let paths = document["paths"].as_object().unwrap();
    let questions = paths.iter().filter_map(|(path, methods)| {
        let reads = &methods.get("get")?["x-reads"];
        let reads = reads
            .as_array()
            .unwrap_or_else(|| panic!("{path} does not say what it is answered from"));
        let reads = reads.iter().map(|source| source.as_str().unwrap().to_owned());
        Some((path.clone(), reads.collect()))
    });
    questions.collect()
}

async fn check(site: &Site, path: &str, reads: &[String], cut: Cut, usual: u16) {
    let concrete = concrete(site, path);
    let answer = site.daemon.get(&concrete).await;
    let told = || format!("{cut:?}: {path}: {} {}", answer.status, answer.text());
    if !reads.iter().any(|source| source == cut.source()) {
        assert_eq!(answer.status, usual, "it does not read that: {}", told());
        return;
    }
    if answer.status == 503 {
        return assert!(!answer.text().is_empty(), "{}", told());
    }
    assert_eq!(answer.status, 200, "{}", told());
    let document: Value = answer.json();
    assert!(!names(&document["problems"]).is_empty(), "{}", told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_route_answers_with_nothing_where_it_could_not_read() {
    let site = Site::open().await;
    let questions = questions();
    let mut usual = Vec::new();
    for (path, _) in &questions {
        let answer = site.daemon.get(&concrete(&site, path)).await;
        assert!(matches!(answer.status, 200 | 404), "{path}: {}", answer.text());
        usual.push(answer.status);
    }
    let lies = Lie::ALL.map(Cut::Management);
    for cut in [Cut::Broker, Cut::Store].into_iter().chain(lies) {
        site.cut(cut);
        wait_until("the metric of what is cut", super::BOUND, async || {
            (site.is_up(cut.source()).await == Some(0.0)).then_some(())
        })
        .await;
        if matches!(cut, Cut::Management(_)) {
            // Which queues have dead letters is known for some seconds.
            wait_until("the dead letters are looked for again", super::BOUND, async || {
                let answer = site.daemon.get("/v1/dead").await;
                (answer.status != 200 || !answer.json()["problems"].is_null()).then_some(())
            })
            .await;
        }
        let checks = questions
            .iter()
            .zip(&usual)
            .map(|((path, reads), usual)| check(&site, path, reads, cut, *usual));
        futures_util::future::join_all(checks).await;
        let ready = site.daemon.get("/readyz").await;
        let part = &ready.json()[cut.source()];
        assert!(
            part["ok"] == false && part["problem"].is_string(),
            "{cut:?}: {}",
            ready.text()
        );
        let is_needed = !matches!(cut, Cut::Management(_));
        assert_eq!(ready.status == 503, is_needed, "{cut:?}: {}", ready.text());
        site.mend().await;
    }
    for source in ["broker", "management", "store"] {
        wait_until("it is up again", super::BOUND, async || {
            (site.is_up(source).await == Some(1.0)).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_is_read_in_part_has_its_rows_and_says_what_is_missing() {
    let site = Site::open().await;
    let before = site.daemon.get("/v1/queues").await.json();
    assert!(before["problems"].is_null(), "{before}");
    site.cut(Cut::Management(Lie::Html));
    let queues = site.daemon.get("/v1/queues").await.json();
    let row = &queues["items"][0];
    assert_eq!(row["name"], site.queue.as_str(), "{queues}");
    assert!(row["ready"].is_null(), "unknown is not zero: {queues}");
    assert_eq!(names(&queues["problems"]), ["management"]);
    let endpoints = site.daemon.get("/v1/endpoints").await.json();
    assert!(endpoints["items"][0]["waiting"].is_null(), "{endpoints}");
    assert_eq!(names(&endpoints["problems"]), ["management"]);
    let why = site.daemon.get("/v1/queues/nobody-knows-it/why").await;
    assert_eq!(why.status, 503, "nobody can say that it is not there: {}", why.text());
    site.mend().await;
    let why = site.daemon.get("/v1/queues/nobody-knows-it/why").await;
    assert_eq!(why.status, 404, "{}", why.text());
}
