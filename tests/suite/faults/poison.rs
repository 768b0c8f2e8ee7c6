//! Messages that no client survives, or that nest too deep, in one queue among others.

use std::time::{Duration, Instant};

use super::scene::{BOUND, Scene, executions};
use crate::rabbitmq::raw;
use crate::support::wait::{patient, wait_until, within};

const BAD: &[u8] = b"text/\xff\xfe";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_an_undecodable_head_is_quarantined_and_rescued_and_the_other_49_go_on() {
    let scene = Scene::servers().await;
    let mut daemon = scene.installation.daemon().await;
    let all = executions(50, 5);
    scene.publish_all(&all, 1).await;
    scene.delivered(50).await;
    let (execution, path) = &all[17];
    let poisonous = scene.queue(execution, path);
    raw::publish(&scene.naming(), &poisonous, raw::header_with_content_type(1, BAD), b"x").await;
    scene.publish(execution, path, 2).await;
    let others: Vec<_> = all.iter().filter(|(other, _)| other != execution).cloned().collect();
    for (execution, path) in &others {
        scene.publish(execution, path, 2).await;
    }
    let published = Instant::now();
    scene.delivered(99).await;
    let last = scene.receiver.attempts().iter().map(|attempt| attempt.started_at).max();
    let took = last.unwrap().saturating_duration_since(published);
    assert!(took < patient(Duration::from_secs(5)), "the others waited {took:?}");
    wait_until("the poisonous queue to be quarantined", BOUND, async || {
        let why = scene.why(&poisonous).await;
        (why["state"] == "quarantined" || why["why"]["code"] == "quarantined").then_some(())
    })
    .await;
    let rescue = ["queue", "rescue", poisonous.as_str(), "--yes", "--json"];
    let rescued = scene.installation.run(&rescue).await.expect_code(0).json();
    assert_eq!(rescued["rescued"], true, "{rescued}");
    let whole = daemon.get(&format!("/v1/rescued/{}", rescued["id"])).await;
    assert!(whole.json()["header_frame_base64"].is_string(), "{}", whole.text());
    let audit = daemon.get("/v1/audit").await.json();
    assert_eq!(
        (&audit["items"][0]["command"], &audit["items"][0]["target"]),
        (
            &"payload reveal".into(),
            &format!("GET /v1/rescued/{}", rescued["id"]).into()
        ),
        "who saw its bytes is in the audit: {audit}"
    );
    // The command says so itself: nobody has to find it.
    let goes_on = within(Duration::from_secs(20), scene.delivered(100)).await;
    assert!(goes_on.is_ok(), "the rescued queue rests");
    // What can be read is taken out by no second one.
    let again = scene.installation.run(&rescue).await.expect_code(5);
    assert!(
        again.stderr.contains("is not quarantined") && again.stderr.contains("redrive queue why"),
        "{again:?}"
    );
    scene.finish(&mut [&mut daemon], 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_nested_eighteen_thousand_deep_become_a_dead_letter_and_the_queue_goes_on() {
    let scene = Scene::servers().await;
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    let queue = scene.queue("run", "/hook");
    raw::publish(&scene.naming(), &queue, raw::header_with_nesting(1, 18_000), b"x").await;
    scene.publish("run", "/hook", 2).await;
    scene.delivered(2).await;
    let dead = redrive::internals::domain::id::QueueName::parse(&scene.naming().dead_letter_queue()).unwrap();
    wait_until("the dead letter", BOUND, async || {
        (scene.ready(&dead).await == 1).then_some(())
    })
    .await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    scene.history(0).await.assert_kept();
}
