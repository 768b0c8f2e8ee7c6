//! The commands about events: what is typed → what is printed, and the exit code.

use serde_json::{Value, json};

use crate::support::daemon::Installation;

async fn ok(installation: &Installation, arguments: &[&str]) -> Value {
    let all = [&["--json"], arguments].concat();
    installation.run(&all).await.expect_code(0).json()
}

async fn ends(installation: &Installation, arguments: &[&str], code: i32) {
    installation.run(arguments).await.expect_code(code);
}

async fn push(installation: &Installation, reference: &str, payload: &str) -> Value {
    let arguments = [
        "--json",
        "event",
        "push",
        "--type",
        "t",
        "--reference",
        reference,
        "--payload-file",
        "-",
    ];
    let outcome = installation.run_with_input(&arguments, payload.as_bytes()).await;
    outcome.expect_code(0).json()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_pushed_found_rescheduled_retried_and_cancelled() {
    let installation = Installation::embedded();
    let pushed = push(&installation, "a", "{\"n\": 1}").await;
    assert_eq!((&pushed["revision"], &pushed["result"]), (&json!(1), &json!("new")));
    let again = ["event", "push", "--type", "t", "--reference", "a", "--dry-run"];
    let would = ok(&installation, &again).await;
    assert_eq!(
        (&would["result"], &would["id"], &would["revision"]),
        (&json!("coalesced"), &pushed["id"], &json!(2))
    );
    assert_eq!(push(&installation, "a", "{\"n\": 2}").await["result"], "coalesced");
    let id = pushed["id"].to_string();
    let shown = ok(&installation, &["event", "show", &id]).await;
    assert_eq!(
        (&shown["payload"], &shown["state"]),
        (&json!({"n": 2}), &json!("ready"))
    );
    let listed = ok(&installation, &["event", "list", "--type", "t"]).await;
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let found = ok(&installation, &["event", "search", "type = t and payload ~ \"2\""]).await;
    assert_eq!(found[0]["reference"], "a");
    assert_eq!(ok(&installation, &["event", "search", "attempts > 0"]).await, json!([]));
    let about = ["--type", "t", "--reference", "a"];
    ends(&installation, &[&["event", "retry"], &about[..]].concat(), 5).await;
    let plan = ok(&installation, &[&["event", "cancel", "--dry-run"], &about[..]].concat()).await;
    assert_eq!(
        (&plan["destroys"], &plan["command"]),
        (&json!(true), &json!("event cancel"))
    );
    let at = ["--at", "2100-01-01T00:00:00Z", "--yes"];
    let moved = ok(&installation, &[&["event", "reschedule"], &about[..], &at[..]].concat()).await;
    assert_eq!(moved["nbf"], "2100-01-01T00:00:00Z");
    let due = ok(&installation, &[&["event", "retry", "--yes"], &about[..]].concat()).await;
    assert_ne!(due["nbf"], "2100-01-01T00:00:00Z");
    ok(&installation, &["event", "cancel", "--yes", &id]).await;
    ends(&installation, &["event", "show", &id], 4).await;
    let audit = ok(&installation, &["audit"]).await;
    assert!(audit.to_string().contains("event cancel"), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_input_names_its_field_and_a_read_only_process_changes_nothing() {
    let installation = Installation::embedded();
    for (arguments, word) in [
        (vec!["event", "push", "--type", "", "--reference", "a"], "type"),
        (vec!["event", "push", "--type", "t", "--reference", ""], "reference"),
        (
            vec!["event", "push", "--type", "t", "--reference", "a", "--nbf", "soon"],
            "nbf",
        ),
        (
            vec![
                "event",
                "push",
                "--type",
                "t",
                "--reference",
                "a",
                "--nbf",
                "99999999999",
            ],
            "nbf",
        ),
        (
            vec!["event", "push", "--type", "t", "--reference", "a", "--ttl", "5"],
            "ttl",
        ),
        (vec!["event", "search", "rason = x"], "reason"),
        (vec!["claim", "create", "--type", "t", "--ttl", "59"], "ttl"),
        (vec!["claim", "create", "--type", "t", "--limit", "21"], "limit"),
    ] {
        let outcome = installation.run(&arguments).await.expect_code(2);
        assert!(outcome.stderr.contains(word), "{arguments:?}: {}", outcome.stderr);
    }
    ends(
        &installation,
        &["event", "push", "--read-only", "--type", "t", "--reference", "a"],
        5,
    )
    .await;
    ends(&installation, &["claim", "create", "--type", "nobody"], 4).await;
    ends(&installation, &["event-type", "show", "nobody"], 4).await;
    ends(&installation, &["subscription", "list", "--type", "nobody"], 4).await;
    ends(&installation, &["event", "process", "--type", "t", "--once"], 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_is_set_and_its_events_are_claimed_renewed_released_and_done() {
    let installation = Installation::embedded();
    let set = ["--json", "event-type", "set", "t", "--yes", "--metadata", "-"];
    let metadata = async |document: &str| installation.run_with_input(&set, document.as_bytes()).await;
    metadata("{\"_max_claim_count\": 0}").await.expect_code(2);
    metadata("{\"_dead_letter_queue\": \"missing\"}").await.expect_code(2);
    metadata("{\"_dead_letter_queue\": \"t\"}").await.expect_code(2);
    metadata("{\"_dead_letter_queue_messages_ttl\": 59}")
        .await
        .expect_code(2);
    for (name, code) in [("end", 0), ("middle", 0), ("begin", 5)] {
        let target = match name {
            "end" => "{}",
            "middle" => "{\"_dead_letter_queue\": \"end\"}",
            _ => "{\"_dead_letter_queue\": \"middle\"}",
        };
        let set = ["event-type", "set", name, "--yes", "--metadata", "-"];
        installation
            .run_with_input(&set, target.as_bytes())
            .await
            .expect_code(code);
    }
    let saved = metadata("{\"_max_claim_count\": 2, \"owner\": \"us\"}")
        .await
        .expect_code(0)
        .json();
    assert_eq!(saved["metadata"]["owner"], "us");
    assert_eq!(
        ok(&installation, &["claim", "create", "--type", "t"]).await,
        Value::Null
    );
    push(&installation, "a", "1").await;
    let would = ok(&installation, &["claim", "create", "--type", "t", "--dry-run"]).await;
    assert_eq!(would, json!({"due": 1, "events": 1}));
    ends(&installation, &["claim", "create", "--type", "nobody", "--dry-run"], 4).await;
    let claim = ok(&installation, &["claim", "create", "--type", "t"]).await;
    assert_eq!(claim["events"][0]["reference"], "a");
    let id = claim["id"].as_str().unwrap();
    ok(&installation, &["claim", "renew", "--type", "t", id, "--ttl", "600"]).await;
    ends(
        &installation,
        &["claim", "done", "--type", "t", "other", "--reference", "a"],
        5,
    )
    .await;
    for change in [&["release"][..], &["renew"], &["done", "--reference", "a"]] {
        let arguments = [&["claim"], change, &["--type", "t", id, "--dry-run"]].concat();
        let claim = ok(&installation, &arguments).await;
        assert_eq!(
            (&claim["id"], &claim["events"][0]["reference"]),
            (&json!(id), &json!("a"))
        );
    }
    ok(&installation, &["claim", "release", "--type", "t", id]).await;
    ends(&installation, &["claim", "renew", "--type", "t", id], 4).await;
    let again = ok(&installation, &["claim", "create", "--type", "t"]).await;
    let id = again["id"].as_str().unwrap();
    let done = ok(&installation, &["claim", "done", "--type", "t", id, "--reference", "a"]).await;
    assert_eq!(done["result"], "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_under_type_in_a_list_can_be_asked_for() {
    let installation = Installation::embedded();
    let dated = ["--type", "t", "--reference", "a", "--nbf", "2100-01-01T00:00:00Z"];
    ok(&installation, &[&["event", "push"], &dated[..]].concat()).await;
    let listed = installation.run(&["event", "list"]).await.expect_code(0).stdout;
    let mut lines = listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(lines.next().unwrap()[1..3], ["type", "subtype"]);
    let row = lines.next().unwrap();
    assert_eq!(row[1..3], ["t", "delayed"]);
    let found = ok(&installation, &["event", "list", "--type", row[1]]).await;
    assert_eq!(found.as_array().map(Vec::len), Some(1));
    let found = ok(&installation, &["event", "search", "type = t and subtype = delayed"]).await;
    assert_eq!(found[0]["reference"], "a");
}

/// What the list shows under its due time is another date than that of its key.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_push_of_a_dated_event_finds_the_key_that_the_push_would_find() {
    let installation = Installation::embedded();
    let key = ["event", "push", "--type", "t", "--reference", "a", "--nbf"];
    let would = async |date: &str| {
        let dry = [&key[..], &[date, "--dry-run"]].concat();
        ok(&installation, &dry).await["result"].clone()
    };
    let (first, second) = ("2100-01-01T00:00:00Z", "2110-01-01T00:00:00Z");
    ok(&installation, &[&key[..], &[first]].concat()).await;
    let about = ["--type", "t", "--reference", "a", "--yes"];
    ok(
        &installation,
        &[&["event", "reschedule"], &about[..], &["--at", second]].concat(),
    )
    .await;
    assert_eq!(
        (would(first).await, would(second).await),
        (json!("new"), json!("coalesced"))
    );
    ok(&installation, &[&["event", "retry"], &about[..]].concat()).await;
    assert_eq!(
        (would(first).await, would(second).await),
        (json!("new"), json!("coalesced"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_longer_than_its_limit_says_so() {
    let installation = Installation::embedded();
    for reference in ["a", "b", "c"] {
        push(&installation, reference, "1").await;
    }
    let said = async |arguments: &[&str]| installation.run(arguments).await.expect_code(0).stderr;
    let more = said(&["event", "list", "--limit", "2"]).await;
    assert!(
        more.contains("there are more than 2 events: raise --limit, or use --filter"),
        "{more}"
    );
    let more = said(&["event", "search", "state = ready", "--limit", "2", "--json"]).await;
    let more: Value = serde_json::from_str(&more).unwrap();
    assert!(
        more["note"]
            .as_str()
            .unwrap()
            .starts_with("there are more than 2 events"),
        "{more}"
    );
    let by_keys = ["event", "list", "--columns", "created_at,reference", "--limit", "1"];
    let by_keys = installation.run(&by_keys).await.expect_code(0).stdout;
    assert!(
        by_keys.starts_with("created_at") && by_keys.lines().nth(1).unwrap().ends_with(" c"),
        "{by_keys}"
    );
    // Keys that are left out where there is nothing to say, and lists that are empty.
    let event_keys = ["event", "list", "--columns", "id,payload_base64"];
    installation.run(&event_keys).await.expect_code(0);
    installation
        .run(&["run", "list", "--columns", "id,started_at"])
        .await
        .expect_code(0);
    let wrong = installation
        .run(&["endpoints", "--columns", "url,peace"])
        .await
        .expect_code(2)
        .stderr;
    assert!(
        wrong.contains("no \"peace\" here") && wrong.contains(", pace,"),
        "{wrong}"
    );
    let all = said(&["event", "list", "--limit", "3"]).await;
    assert!(!all.contains("more than"), "{all}");
    for reference in ["a", "b"] {
        let cancel = ["event", "cancel", "--type", "t", "--reference", reference, "--yes"];
        installation.run(&cancel).await.expect_code(0);
    }
    let lines = said(&["audit", "--limit", "1"]).await;
    assert!(lines.contains("there are more than 1 lines"), "{lines}");
    let lines = said(&["audit", "--limit", "50"]).await;
    assert!(!lines.contains("more than"), "{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_prints_its_id_first_where_a_script_reads_it_and_the_tour_tells_how_to_finish() {
    let installation = Installation::embedded();
    push(&installation, "a", "1").await;
    let claimed = installation
        .run(&["claim", "create", "--type", "t"])
        .await
        .expect_code(0);
    let first = claimed.stdout.lines().next().unwrap_or_default();
    let id = first.strip_prefix("claim ").and_then(|rest| rest.split(' ').next());
    let id = id.unwrap_or_else(|| panic!("no id in {:?}", claimed.stdout));
    let done = ["claim", "done", "--type", "t", id, "--reference", "a"];
    assert!(installation.run(&done).await.expect_code(0).stdout.contains("done"));
    let tour = include_str!("../../../docs/events.md");
    for line in ["redrive claim create ", "redrive claim renew ", "redrive claim done "] {
        assert!(tour.contains(line), "{line:?} is not in the tour");
    }
}

/// A dead letter of another type has the reference there, and is no event of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_push_into_a_type_of_dead_letters_says_that_the_event_would_be_new() {
    let installation = Installation::embedded();
    let claimed_once = "{\"_max_claim_count\": 1, \"_dead_letter_queue\": \"end\"}";
    for (name, metadata) in [("end", "{}"), ("t", claimed_once)] {
        let set = ["event-type", "set", name, "--yes", "--metadata", "-"];
        let set = installation.run_with_input(&set, metadata.as_bytes()).await;
        set.expect_code(0);
    }
    push(&installation, "a", "1").await;
    let claim = ok(&installation, &["claim", "create", "--type", "t"]).await;
    let id = claim["id"].as_str().unwrap();
    ends(&installation, &["claim", "release", "--type", "t", id, "--yes"], 0).await;
    assert_eq!(
        ok(&installation, &["claim", "create", "--type", "t"]).await,
        Value::Null
    );
    let listed = ok(&installation, &["event", "list", "--type", "end"]).await;
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    let would = ["event", "push", "--type", "end", "--reference", "a", "--dry-run"];
    assert_eq!(ok(&installation, &would).await["result"], "new");
}
