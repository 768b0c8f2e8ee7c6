//! Dead rows of the event table in the one list of dead letters.

use serde_json::{Value, json};

use crate::support::daemon::Installation;
use crate::support::servers::{Database, Vhost};

/// Two events that die of the same error, and one of another.
async fn dead_events(installation: &mut Installation) {
    let script = "case \"$REDRIVE_EVENT_REFERENCE\" in other) echo 'no such country' >&2;; \
        *) echo \"no employee $REDRIVE_EVENT_ID\" >&2;; esac; exit 1";
    let command = json!(["/bin/sh", "-c", script]);
    installation.append(&format!("\n[[handler]]\ntype = \"hr\"\ncommand = {command}\n"));
    let metadata = ["event-type", "set", "hr", "--yes", "--metadata", "-"];
    let metadata = installation.run_with_input(&metadata, b"{\"_cutoff\": 1}").await;
    metadata.expect_code(0);
    for reference in ["a", "b", "other"] {
        let push = [
            "event",
            "push",
            "--type",
            "hr",
            "--reference",
            reference,
            "--payload-file",
            "-",
        ];
        let payload = format!("{{\"key\": \"{reference}\"}}");
        installation
            .run_with_input(&push, payload.as_bytes())
            .await
            .expect_code(0);
    }
    installation
        .run(&["event", "process", "--type", "hr", "--once"])
        .await
        .expect_code(3);
}

async fn ok(installation: &Installation, arguments: &[&str]) -> Value {
    let all = [&["--json"], arguments].concat();
    installation.run(&all).await.expect_code(0).json()
}

async fn check_listed(mut installation: Installation) {
    dead_events(&mut installation).await;
    let letters = ok(&installation, &["dead", "list", "--filter", "home = event"]).await;
    let letters = letters.as_array().unwrap();
    assert_eq!(letters.len(), 3, "{letters:?}");
    for letter in letters {
        assert_eq!(
            (&letter["queue"], &letter["origin"]),
            (&json!("hr"), &json!("hr")),
            "{letter}"
        );
        assert_eq!(
            (&letter["reason"], &letter["attempts"]),
            (&json!("exhausted"), &json!(1)),
            "{letter}"
        );
    }
    let groups = ok(&installation, &["dead", "groups"]).await;
    assert_eq!(
        (&groups[0]["where"], &groups[0]["count"]),
        (&json!("hr"), &json!(2)),
        "{groups}"
    );
    assert_eq!(
        (&groups[0]["what"], &groups[1]["count"]),
        (&json!("exit #: no employee #"), &json!(1))
    );

    let first = letters.iter().find(|letter| letter["execution"] != "hr:other").unwrap();
    let id = first["id"].as_str().unwrap();
    let shown = ok(&installation, &["dead", "show", id]).await;
    assert!(shown.to_string().contains("redrive event retry"), "{shown}");
    let fingerprint = first["fingerprint"].as_str().unwrap();
    for selection in [vec![id], vec!["--group", fingerprint]] {
        let redrive = [&["dead", "redrive", "--yes"], &selection[..]].concat();
        let refused = installation.run(&redrive).await.expect_code(5);
        assert!(refused.stderr.contains("redrive event retry"), "{}", refused.stderr);
    }
    let event = first["message_id"].as_str().unwrap();
    ok(&installation, &["event", "retry", "--yes", event]).await;
    installation.run(&["dead", "show", id]).await.expect_code(4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_events_are_listed_grouped_and_shown_and_say_how_they_come_back() {
    check_listed(Installation::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_events_stand_beside_what_is_dead_on_the_broker_with_postgres() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    check_listed(Installation::on_servers(&vhost, &database.url())).await;
}
