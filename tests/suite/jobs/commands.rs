//! The `job` commands between processes.

use crate::support::daemon::Installation;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_submitted_worked_on_and_followed_by_processes_of_their_own() {
    let installation = Installation::embedded();
    let job = installation
        .run(&["job", "submit", "--json"])
        .await
        .expect_code(0)
        .json();
    let id = job["id"].as_str().unwrap();
    assert_eq!(job["ttl_s"], 172_800.0, "{job}");
    assert_eq!(job["queues"]["result"], format!("jobs.{id}.result"));
    let check = installation.run(&["job", "connect", id, "--check", "--json"]).await;
    assert_eq!(check.expect_code(0).json()["id"], id);
    let file = installation.path("result.txt");
    std::fs::write(&file, "all of it").unwrap();
    let file = file.to_str().unwrap();
    installation
        .run(&["job", "publish", id, "status", "--body-file", file])
        .await
        .expect_code(0);
    installation
        .run(&["job", "publish", id, "result", "--body-file", file])
        .await
        .expect_code(0);
    let listed = installation.run(&["job", "list", "--json"]).await.expect_code(0).json();
    assert_eq!(listed[0]["messages"], 2, "{listed}");
    let followed = installation.run(&["job", "connect", id]).await.expect_code(0);
    assert_eq!(followed.stdout, "all of it");
    assert!(followed.stderr.contains("status: all of it"), "{followed:?}");
    let gone = installation.run(&["job", "connect", id]).await.expect_code(4);
    assert!(gone.stderr.contains("expired or never existed"), "{gone:?}");
    for missing in [
        &["job", "connect", id, "--check"][..],
        &["job", "publish", id, "status", "--dry-run"],
    ] {
        installation.run(missing).await.expect_code(4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lifetime_that_is_none_is_refused_with_its_field() {
    let installation = Installation::embedded();
    for ttl in ["0", "-1", "0.0004", "soon"] {
        let refused = installation.run(&["job", "submit", "--ttl", ttl]).await.expect_code(2);
        assert!(refused.stderr.contains("ttl"), "{refused:?}");
    }
    let never = installation.run(&["job", "submit", "--ttl", "never", "--json"]).await;
    assert!(never.expect_code(0).json()["ttl_s"].is_null());
    let wrong = installation.run(&["job", "connect", "x"]).await.expect_code(2);
    assert!(
        wrong.stderr.contains("id") && wrong.stderr.contains("UUID"),
        "{wrong:?}"
    );
    let read_only = installation.run(&["--read-only", "job", "submit"]).await.expect_code(5);
    assert!(read_only.stderr.contains("read-only"), "{read_only:?}");
}
