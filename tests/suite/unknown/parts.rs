//! What people read: the handover, the doctor, and one queue that may not be read.

use super::{Cut, Site};
use crate::support::management::Lie;

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
        .expect_code(69);
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
