//! Receivers of forty kinds of malice, and messages that no client survives.

use std::time::Duration;

use crate::attack::{About, Attack};
use crate::raw;
use crate::scene::{BOUND, Scene, executions};
use crate::support::checker::Left;
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Behaviour {
    Behaviour::Answer {
        status,
        headers: headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        body: body.to_vec(),
    }
}

/// After each of these a message is tried again.
fn failing() -> Vec<Behaviour> {
    let mut all: Vec<Behaviour> = [
        408, 425, 429, 500, 501, 502, 503, 504, 505, 507, 508, 511, 520, 599, 600, 999,
    ]
    .map(Behaviour::Status)
    .into();
    let hints = [
        "0",
        "1",
        "-5",
        "1e3",
        "abc",
        "999999999999999999999999",
        "Fri, 31 Dec 1999 23:59:59 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ];
    all.extend(hints.map(|hint| Behaviour::retry_after(503, hint)));
    all.extend([
        Behaviour::Never,
        Behaviour::Reset,
        Behaviour::Trickle {
            status: 500,
            pause: Duration::from_millis(300),
        },
        Behaviour::Trickle {
            status: 503,
            pause: Duration::from_secs(3),
        },
        Behaviour::HugeHeader {
            status: 500,
            bytes: 1_048_576,
        },
        Behaviour::EndlessBody { status: 500 },
        Behaviour::Status(500).after(Duration::from_secs(3)),
        answer(500, &[("content-type", "text/html; charset=\x7f")], &[0xff; 4096]),
        answer(503, &[("content-length", "999999999")], b"short"),
        answer(500, &[("transfer-encoding", "chunked")], b"zz\r\nno chunk"),
        answer(
            500,
            &[("x-say", "\u{1b}[2Jhello")],
            "\u{1b}]0;title\u{7}\u{202e}".as_bytes(),
        ),
    ]);
    all
}

/// With each of these the receiver says that it will never take the message.
fn refusing() -> Vec<Behaviour> {
    let mut all: Vec<Behaviour> = [300, 304, 400, 401, 404, 409, 413, 422].map(Behaviour::Status).into();
    all.push(Behaviour::redirect("http://127.0.0.1:1/elsewhere"));
    all.push(Behaviour::redirect("file:///etc/passwd"));
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_of_malice() {
    let (failing, refusing) = (failing(), refusing());
    let about = About {
        order: 50,
        faults: "a receiver behaves badly: statuses, hints, resets, silence, floods, trickles, nonsense; 10 of them refuse each message: two of three become dead letters, the third waits",
        on: "45 kinds beside ten good receivers; classic queues, PostgreSQL",
    };
    let mut scene = Scene::servers().await;
    scene.installation.set("delivery", "timeout_s", 2);
    scene.installation.set("delivery", "take_over_s", 8);
    scene.installation.set("delivery", "retry_after_cap_s", 1);
    let mut attack = Attack::on(scene, about);
    let scene = &attack.scene;
    let mut bad = Vec::new();
    for (at, behaviour) in failing.iter().chain(&refusing).enumerate() {
        let path = format!("/bad-{at}");
        scene.receiver.behave(&path, behaviour.clone());
        bad.push((format!("bad-{at}"), path));
    }
    let good: Vec<_> = (0..10).map(|n| (format!("good-{n}"), format!("/good-{n}"))).collect();
    let mut daemon = scene.installation.daemon().await;
    tokio::join!(scene.publish_all(&bad, 3), scene.publish_all(&good, 300));
    let of = |executions: &[(String, String)], each: usize| executions.len() * each;
    // The good ones wait for nobody.
    scene.delivered(of(&good, 300)).await;
    for (_, path) in &bad {
        wait_until(format!("an attempt of {path}"), BOUND, async || {
            (!scene.receiver.attempts_of(path).is_empty()).then_some(())
        })
        .await;
    }
    // The third refusal in a row is tried again: it may be that of a proxy.
    let refused = of(&bad[failing.len()..], 2);
    let dead = wait_until("the dead letters", BOUND, async || {
        let list = ["dead", "list", "--limit", "200", "--json"];
        let letters = scene.installation.run(&list).await.expect_code(0).json();
        let ids = letters
            .as_array()?
            .iter()
            .filter_map(|letter| letter["message_id"].as_str().map(str::to_owned));
        let ids: std::collections::HashSet<String> = ids.collect();
        (ids.len() == refused).then_some(ids)
    })
    .await;
    for (_, path) in &bad {
        scene.receiver.behave(path, Behaviour::Status(200));
    }
    scene.delivered(of(&good, 300) + of(&bad, 3) - refused).await;
    for (execution, path) in bad.iter().chain(&good) {
        let queue = scene.queue(execution, path);
        wait_until(format!("{execution} to be empty"), BOUND, async || {
            (scene.ready(&queue).await == 0).then_some(())
        })
        .await;
    }
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    let mut history = scene.history(0).await;
    history.left = dead.into_iter().map(|id| (id, Left::Dead)).collect();
    attack.made(u32::try_from(bad.len()).unwrap());
    attack.judge(history).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_spared_what_is_poisoned() {
    let about = About {
        order: 51,
        faults: "a message that no AMQP client survives stands in a queue, and is taken out by `queue rescue`",
        on: "classic queues, PostgreSQL",
    };
    let mut attack = Attack::on(Scene::servers().await, about);
    let scene = &attack.scene;
    let mut daemon = scene.installation.daemon().await;
    let all = executions(50, 5);
    scene.publish_all(&all, 10).await;
    scene.delivered(500).await;
    let poisoned = [7, 17, 27];
    for at in poisoned {
        let (execution, path) = &all[at];
        let queue = scene.queue(execution, path);
        raw::publish(
            &scene.naming(),
            &queue,
            raw::header_with_content_type(1, b"text/\xff\xfe"),
            b"x",
        )
        .await;
    }
    for (execution, path) in &all {
        for number in 11..=20 {
            scene.publish(execution, path, number).await;
        }
    }
    scene.delivered(1_000 - 10 * poisoned.len()).await;
    for at in poisoned {
        let (execution, path) = &all[at];
        let queue = scene.queue(execution, path);
        wait_until("the poisonous queue to be quarantined", BOUND, async || {
            let why = scene.why(&queue).await;
            (why["state"] == "quarantined" || why["why"]["code"] == "quarantined").then_some(())
        })
        .await;
        let rescue = ["queue", "rescue", queue.as_str(), "--yes", "--json"];
        let rescued = scene.installation.run(&rescue).await.expect_code(0).json();
        assert_eq!(rescued["rescued"], true, "{rescued}");
        attack.hands += 1;
    }
    attack.made(u32::try_from(poisoned.len()).unwrap());
    attack.end(&mut [&mut daemon]).await;
}
