//! What becomes of a store's tables: who makes them, who only expects them, and what is refused as it is.

mod belongs;
mod kept;
mod versions;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};

use crate::support::daemon::{Installation, Outcome};
use crate::support::servers::{Database, Vhost};

const NO_SCHEMA: &str = "there is no redrive schema yet: start the daemon or run `redrive store migrate`";

async fn on(url: &str, statement: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statement))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

async fn in_file(path: &std::path::Path, statement: &str) {
    let address = format!("sqlite://{}?mode=rwc", path.display());
    let mut connection = SqliteConnection::connect(&address).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statement))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

async fn tables(url: &str) -> i64 {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let count = sqlx::query_scalar(
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname NOT LIKE 'pg_%' AND n.nspname <> 'information_schema'",
    );
    count.fetch_one(&mut connection).await.unwrap()
}

/// A store that nobody prepares, with the embedded broker or a vhost of its own.
fn bare(mut installation: Installation) -> Installation {
    installation.leave_the_store_as_it_is();
    installation
}

fn told(outcome: Outcome, code: i32, says: &[&str]) {
    let outcome = outcome.expect_code(code);
    for one in says {
        assert!(outcome.stderr.contains(one), "{one:?} is not in {outcome:?}");
    }
    assert!(!outcome.stderr.contains("unreachable"), "{outcome:?}");
    assert_eq!(outcome.stdout, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_makes_no_tables_and_says_who_does() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    let server = bare(Installation::on_servers(&vhost, &database.url()));
    let file = bare(Installation::embedded());
    for command in [
        &["queues"][..],
        &["--read-only", "audit"],
        &["publish", "--execution", "run", "--url", "http://127.0.0.1:9/hook"],
        &["store", "adopt", "--yes"],
    ] {
        told(server.run(command).await, 78, &[NO_SCHEMA]);
        told(file.run(command).await, 78, &[NO_SCHEMA]);
    }
    assert_eq!(tables(&database.url()).await, 0);
    assert!(!file.path("store.db").exists());

    for installation in [&server, &file] {
        let planned = installation.run(&["store", "migrate", "--dry-run", "--json"]).await;
        let planned = planned.expect_code(0).json();
        assert!(!planned["pending"].as_array().unwrap().is_empty(), "{planned}");
        told(installation.run(&["queues"]).await, 78, &[NO_SCHEMA]);
        told(
            installation.run(&["--read-only", "store", "migrate"]).await,
            5,
            &["read-only"],
        );
        let done = installation.run(&["store", "migrate", "--json"]).await;
        assert_eq!(done.expect_code(0).json()["applied"], planned["pending"]);
        let again = installation.run(&["store", "migrate"]).await.expect_code(0);
        assert!(again.stdout.contains("up to date"), "{again:?}");
        installation.run(&["queues"]).await.expect_code(0);
    }
}

/// Nobody else would make it: without any configuration a command works at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_that_nobody_named_is_made_by_the_first_command_and_not_by_one_that_only_reads() {
    let vhost = Vhost::create().await;
    let mut installation = bare(Installation::on_rabbit(&vhost));
    installation.unset("store", "url");
    told(installation.run(&["--read-only", "queues"]).await, 78, &[NO_SCHEMA]);
    let directory = installation.path("redrive");
    let files = || {
        let entries = std::fs::read_dir(&directory).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.strip_suffix(".db").is_some())
            .collect::<Vec<_>>()
    };
    assert!(files().is_empty(), "{:?}", files());
    installation.run(&["queues"]).await.expect_code(0);
    installation.run(&["--read-only", "queues"]).await.expect_code(0);
    let made = files();
    let readable = vhost.name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    assert!(
        matches!(&made[..], [one] if one.starts_with("redrive-127-0-0-1-") && one.contains(&readable[..20])),
        "one for this broker and vhost: {made:?}"
    );
    // Another vhost has another one.
    let other = Vhost::create().await;
    installation.set("broker", "vhost", other.name.as_str());
    installation.run(&["queues"]).await.expect_code(0);
    assert_eq!(files().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_something_else_is_refused_as_it_is() {
    let installation = bare(Installation::embedded());
    let path = installation.path("store.db");
    in_file(&path, "CREATE TABLE cats (name TEXT); INSERT INTO cats VALUES ('Tom')").await;
    let before = std::fs::read(&path).unwrap();
    for command in [&["queues"][..], &["store", "migrate"]] {
        told(installation.run(command).await, 78, &["is not redrive's", "cats"]);
    }
    let mut daemon = installation.spawn_daemon();
    assert_eq!(daemon.wait().await.code(), Some(78));
    assert!(daemon.log().contains("cats"), "{}", daemon.log());
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_of_somebody_else_is_refused_as_it_is() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    let installation = bare(Installation::on_servers(&vhost, &database.url()));
    on(
        &database.url(),
        "CREATE SCHEMA redrive; CREATE TABLE redrive.cats (name text)",
    )
    .await;
    for command in [&["queues"][..], &["store", "migrate"]] {
        told(installation.run(command).await, 78, &["is not redrive's", "cats"]);
    }
    let mut daemon = installation.spawn_daemon();
    assert_eq!(daemon.wait().await.code(), Some(78));
    assert_eq!(tables(&database.url()).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_gone_is_named_at_once() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    let server = Installation::on_servers(&vhost, &database.url());
    server.run(&["store", "migrate"]).await.expect_code(0);
    on(&database.url(), "DROP TABLE redrive.audit").await;
    let file = Installation::embedded();
    file.run(&["store", "migrate"]).await.expect_code(0);
    in_file(&file.path("store.db"), "DROP TABLE audit").await;
    for installation in [&server, &file] {
        told(installation.run(&["queues"]).await, 78, &["lost its table \"audit\""]);
        let mut daemon = installation.spawn_daemon();
        assert_eq!(daemon.wait().await.code(), Some(78), "{}", daemon.log());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_the_numbering_of_before_is_refused() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    let server = bare(Installation::on_servers(&vhost, &database.url()));
    on(
        &database.url(),
        "CREATE SCHEMA redrive; CREATE TABLE redrive.schema_version (only_row bigint, version bigint)",
    )
    .await;
    let file = bare(Installation::embedded());
    let table = "CREATE TABLE schema_version (namespace TEXT PRIMARY KEY, version INTEGER)";
    in_file(&file.path("store.db"), table).await;
    for installation in [&server, &file] {
        for command in [&["queues"][..], &["store", "migrate"]] {
            told(
                installation.run(command).await,
                78,
                &["a development version of redrive"],
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_make_the_schema_is_told_the_grant() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    let user = format!("u{}", name_of_its_own());
    let name = database.url().rsplit('/').next().unwrap().to_owned();
    on(
        &database.url(),
        &format!("CREATE ROLE {user} LOGIN; REVOKE CREATE ON DATABASE \"{name}\" FROM PUBLIC"),
    )
    .await;
    let mut url = url::Url::parse(&database.url()).unwrap();
    url.set_username(&user).unwrap();
    let installation = bare(Installation::on_servers(&vhost, url.as_str()));
    let grant = format!("GRANT CREATE ON DATABASE \"{name}\" TO \"{user}\"");
    told(installation.run(&["store", "migrate"]).await, 78, &[&grant]);
    let mut daemon = installation.spawn_daemon();
    assert_eq!(daemon.wait().await.code(), Some(78));
    assert!(
        daemon.log().contains(&grant.replace('"', "\\\"")) || daemon.log().contains(&grant),
        "{}",
        daemon.log()
    );
    // It is what helps.
    on(&database.url(), &grant).await;
    installation.run(&["store", "migrate"]).await.expect_code(0);
    on(&database.url(), &format!("DROP OWNED BY {user}; DROP ROLE {user}")).await;
}

fn name_of_its_own() -> String {
    redrive::internals::ambient::new_id().replace('-', "")
}

/// It answers: nobody has to look for a network or a server that is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_answers_and_takes_no_writes_is_not_called_unreachable() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    let server = Installation::on_servers(&vhost, &database.url());
    server.run(&["store", "migrate"]).await.expect_code(0);
    let name = database.url().rsplit('/').next().unwrap().to_owned();
    let only_reads = format!("ALTER DATABASE \"{name}\" SET default_transaction_read_only = on");
    on(&database.url(), &only_reads).await;
    told(
        server.run(&["event", "push", "--type", "t", "--reference", "a"]).await,
        1,
        &["takes no writes", "set to read only"],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_row_that_cannot_be_read_does_not_hide_the_others() {
    let vhost = Vhost::create().await;
    let installation = Installation::on_rabbit(&vhost);
    let mut daemon = installation.daemon().await;
    for run in ["a", "b"] {
        let url = format!("http://127.0.0.1:9/{run}");
        installation
            .run(&["publish", "--execution", run, "--url", &url])
            .await
            .expect_code(0);
    }
    daemon.stop().await;
    in_file(
        &installation.path("store.db"),
        "PRAGMA ignore_check_constraints = 1; UPDATE endpoints SET state = 'dreaming' WHERE url LIKE '%/a'",
    )
    .await;
    let listed = installation.run(&["queues", "--json"]).await.expect_code(0).json();
    assert_eq!(
        listed
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["kind"] == "delivery")
            .count(),
        2,
        "{listed}"
    );
}
