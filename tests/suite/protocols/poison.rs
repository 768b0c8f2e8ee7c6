//! Rule 21: messages that kill their readers stop one queue and nothing else.

use std::time::{Duration, Instant};

use redrive::internals::broker::Look;
use redrive::internals::engine::{Command, Done, query};

use crate::engine::stage::{BOUND, Ground, Stage};
use crate::rabbitmq::raw;
use crate::support::wait::{patient, wait_until};

const BAD: &[u8] = b"text/\xff\xfe";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_queue_of_fifty_is_quarantined_the_others_go_on_and_rescue_mends_it() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |settings| {
        settings.linger = Duration::from_secs(5);
    })
    .await;
    for n in 0..50 {
        stage.publish(&format!("e{n}"), "/ok").await;
    }
    stage.delivered(50).await;
    // All fifty are attached when the poison arrives.
    let bad = stage.queue("e17", "/ok");
    let header = raw::header_with_content_type(3, BAD);
    raw::publish(&stage.settings.naming, &bad, header.clone(), b"\x00\xffz").await;
    let began = Instant::now();
    for n in 0..50 {
        stage.publish(&format!("e{n}"), "/ok").await;
    }
    wait_until("the other forty-nine", Duration::from_secs(5), async || {
        (stage.receiver.delivered() >= 99).then_some(())
    })
    .await;
    assert!(
        began.elapsed() < patient(Duration::from_secs(6)),
        "{:?}",
        began.elapsed()
    );
    let view = stage.queue_is("e17", "/ok", "quarantined").await;
    let why = view.why.unwrap().text;
    assert!(
        why.contains("kills every client") && why.contains("queue rescue"),
        "{why}"
    );
    for command in [Command::PurgeQueue(bad.clone()), Command::DeleteQueue(bad.clone())] {
        let refused = stage.engine.plan(command).await.unwrap_err().to_string();
        assert!(refused.contains("`redrive queue rescue`"), "{refused}");
    }
    let Done::Rescued { id, .. } = stage.execute(Command::RescueQueue(bad.clone())).await else {
        panic!("not rescued")
    };
    let listed = query::Rescued {
        queue: Some(bad.clone()),
        before: None,
        limit: 10,
    };
    let listed = stage.engine.query(listed).await.unwrap().items;
    assert_eq!((listed.len(), listed[0].id, listed[0].bytes), (1, id, 3));
    let kept = stage.engine.query(query::OneRescued(id)).await.unwrap();
    assert_eq!(kept.body, b"\x00\xffz");
    assert_eq!(kept.header_frame, header, "byte for byte");
    stage.delivered(100).await;
    assert!(matches!(
        stage.broker.look(&bad).await.unwrap(),
        Look::Present { ready: 0, .. }
    ));
    stage.stop().await;
    stage.history.faults_of_all = 10;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_nested_eighteen_thousand_levels_deep_become_a_dead_letter_and_the_queue_goes_on() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |_| {}).await;
    stage.publish("a", "/ok").await;
    stage.delivered(1).await;
    let queue = stage.queue("a", "/ok");
    let header = raw::header_with_nesting(4, 18_000);
    raw::publish(&stage.settings.naming, &queue, header, b"deep").await;
    stage.publish("a", "/ok").await;
    wait_until("what came behind it", BOUND, async || {
        (stage.receiver.delivered() == 2).then_some(())
    })
    .await;
    let dead = stage.dead_letters(1).await;
    assert_eq!(dead[0].body.as_ref(), b"deep");
    stage.stop().await;
    stage.assert_kept();
}
