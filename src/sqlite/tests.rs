//! The promises of the shared file, each by a test on a file of its own.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::Duration;

use crate::ambient::timeout;

use super::*;

const TABLES: &[(i64, &str)] = &[(
    1,
    "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT",
)];
const SOON: Duration = Duration::from_secs(20);

async fn open(directory: &tempfile::TempDir) -> SqliteFile {
    let file = SqliteFile::open(&directory.path().join("record.sqlite")).await.unwrap();
    file.migrate("note", TABLES).await.unwrap();
    file
}

async fn insert(file: &SqliteFile, text: String) -> Result<i64, SqliteError> {
    file.write(move |connection| {
        Box::pin(async move {
            sqlx::query("INSERT INTO note (text) VALUES (?)")
                .bind(text)
                .execute(connection)
                .await
                .map(|done| done.last_insert_rowid())
        })
    })
    .await
}

async fn count(pool: &SqlitePool) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM note")
        .fetch_one(pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_new_file_and_its_log_are_for_their_owner_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep").join("record.sqlite");
    let file = SqliteFile::open(&path).await.unwrap();
    file.migrate("note", TABLES).await.unwrap();
    for name in ["record.sqlite", "record.sqlite-wal", "record.sqlite-shm"] {
        let mode = std::fs::metadata(path.with_file_name(name)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let mode = std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

/// Readers are in use, as they are when a process stops, and all of them are closed at the same moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_closed_in_order_leaves_no_log() {
    for round in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let file = open(&directory).await;
        insert(&file, "kept".to_owned()).await.unwrap();
        let reading = (0..READERS_MAX * 2).map(|_| {
            let readers = file.readers().clone();
            ambient::spawn("reading", async move {
                let mut reads = 0;
                while sqlx::query_scalar::<_, i64>("SELECT count(*) FROM note")
                    .fetch_one(&readers)
                    .await
                    .is_ok()
                {
                    reads += 1;
                }
                reads
            })
        });
        let reading: Vec<_> = reading.collect();
        insert(&file, "kept too".to_owned()).await.unwrap();
        file.close().await;
        for one in reading {
            one.await.unwrap();
        }
        let left: Vec<_> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["record.sqlite"], "round {round}");
        let again = open(&directory).await;
        assert_eq!(count(again.readers()).await, 2);
        again.close().await;
    }
}

#[tokio::test]
async fn a_link_and_a_directory_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    std::fs::write(&target, "").unwrap();
    let link = directory.path().join("link");
    symlink(&target, &link).unwrap();
    let dangling = directory.path().join("dangling");
    symlink(directory.path().join("nowhere"), &dangling).unwrap();
    for path in [link.as_path(), dangling.as_path(), directory.path()] {
        let refused = SqliteFile::open(path).await;
        assert!(matches!(refused, Err(SqliteError::Unusable { .. })), "{refused:?}");
    }
    assert!(!directory.path().join("nowhere").exists());
}

#[tokio::test]
async fn a_file_that_is_no_database_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text");
    std::fs::write(
        &path,
        "this is not a database, and long enough to be seen as none".repeat(20),
    )
    .unwrap();
    assert!(matches!(SqliteFile::open(&path).await, Err(SqliteError::Open(_))));
}

#[tokio::test]
async fn the_writer_syncs_every_commit_and_readers_cannot_write() {
    let directory = tempfile::tempdir().unwrap();
    let file = open(&directory).await;
    let (journal, synchronous): (String, i64) = file
        .write(|connection| {
            Box::pin(async move {
                let journal = sqlx::query_scalar("PRAGMA journal_mode")
                    .fetch_one(&mut *connection)
                    .await?;
                let synchronous = sqlx::query_scalar("PRAGMA synchronous").fetch_one(connection).await?;
                Ok((journal, synchronous))
            })
        })
        .await
        .unwrap();
    assert_eq!((journal.as_str(), synchronous), ("wal", 2));
    let kept: i64 = sqlx::query_scalar("PRAGMA cache_size")
        .fetch_one(file.readers())
        .await
        .unwrap();
    assert_eq!(kept, -512, "what a process keeps of a file that grows is little");
    let refused = sqlx::query("INSERT INTO note (text) VALUES ('x')")
        .execute(file.readers())
        .await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn a_write_is_committed_when_it_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let file = open(&directory).await;
    for number in 0..20 {
        insert(&file, format!("note {number}")).await.unwrap();
        assert_eq!(count(file.readers()).await, number + 1);
    }
}

#[tokio::test]
async fn many_writes_share_a_commit() {
    let directory = tempfile::tempdir().unwrap();
    let file = open(&directory).await;
    let commits = file.changed();
    let before = *commits.borrow();
    let writes = (0..500).map(|number| insert(&file, format!("note {number}")));
    let answers = futures_util::future::join_all(writes).await;
    assert!(answers.iter().all(Result::is_ok));
    let groups = *commits.borrow() - before;
    assert!(groups < 100, "{groups} commits for 500 writes");
    assert_eq!(count(file.readers()).await, 500);
}

#[tokio::test]
async fn a_failing_write_undoes_itself_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let file = open(&directory).await;
    let twice = file.write(|connection| {
        Box::pin(async move {
            sqlx::query("INSERT INTO note (text) VALUES ('half')")
                .execute(&mut *connection)
                .await?;
            sqlx::query("INSERT INTO note (text) VALUES ('half')")
                .execute(connection)
                .await
                .map(|_| ())
        })
    });
    let panicking = file.write(|_| Box::pin(async move { panic!("a bug in one write") as Result<(), sqlx::Error> }));
    let (before, twice, panicking, after) = tokio::join!(
        insert(&file, "before".into()),
        twice,
        panicking,
        insert(&file, "after".into())
    );
    assert!(before.is_ok() && after.is_ok());
    assert!(matches!(twice, Err(SqliteError::Statement(_))), "{twice:?}");
    assert!(matches!(panicking, Err(SqliteError::Panicked)), "{panicking:?}");
    let kept: Vec<String> = sqlx::query_scalar("SELECT text FROM note ORDER BY id")
        .fetch_all(file.readers())
        .await
        .unwrap();
    assert_eq!(kept, ["before", "after"]);
}

#[tokio::test]
async fn a_dropped_caller_leaves_nothing_half_done() {
    let directory = tempfile::tempdir().unwrap();
    let file = open(&directory).await;
    for number in 0..50 {
        let pair = file.write(move |connection| {
            Box::pin(async move {
                for part in ["left", "right"] {
                    sqlx::query("INSERT INTO note (text) VALUES (?)")
                        .bind(format!("{number} {part}"))
                        .execute(&mut *connection)
                        .await?;
                    tokio::task::yield_now().await;
                }
                Ok(())
            })
        });
        // Dropped at many different points after its first poll.
        let _ = timeout(Duration::from_micros(number * 20), pair).await;
    }
    insert(&file, "last".into()).await.unwrap();
    let halves: i64 =
        sqlx::query_scalar("SELECT count(*) FROM (SELECT 1 FROM note WHERE text <> 'last' GROUP BY substr(text, 1, instr(text, ' ')) HAVING count(*) <> 2)")
            .fetch_one(file.readers())
            .await
            .unwrap();
    assert_eq!(halves, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_handles_that_write_at_once_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = tokio::join!(open(&directory), open(&directory));
    let mut tasks = Vec::new();
    for (name, file) in [("one", &one), ("other", &other)] {
        for task in 0..8 {
            let file = file.clone();
            tasks.push(ambient::spawn("test writer", async move {
                for number in 0..25 {
                    insert(&file, format!("{name} {task} {number}")).await.unwrap();
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(count(one.readers()).await, 400);
}

#[tokio::test]
async fn a_commit_by_another_handle_wakes_who_watches() {
    let directory = tempfile::tempdir().unwrap();
    let one = open(&directory).await;
    let other = open(&directory).await;
    let mut any = one.changed();
    let mut elsewhere = one.changed_elsewhere();
    insert(&other, "from elsewhere".into()).await.unwrap();
    timeout(SOON, elsewhere.changed()).await.unwrap().unwrap();
    timeout(SOON, any.changed()).await.unwrap().unwrap();
    assert_eq!(count(one.readers()).await, 1);

    let mut own = other.changed();
    let raised = *other.changed_elsewhere().borrow();
    insert(&other, "own".into()).await.unwrap();
    timeout(SOON, own.changed()).await.unwrap().unwrap();
    assert_eq!(
        *other.changed_elsewhere().borrow(),
        raised,
        "an own commit is not from elsewhere"
    );
}

#[tokio::test]
async fn a_closed_file_answers_so_after_finishing_what_waits() {
    let directory = tempfile::tempdir().unwrap();
    let file = open(&directory).await;
    let (written, ()) = tokio::join!(insert(&file, "in time".into()), file.close());
    assert!(written.is_ok());
    let late = insert(&file, "late".into()).await;
    assert!(matches!(late, Err(SqliteError::Closed)), "{late:?}");
    file.close().await;
    assert_eq!(count(open(&directory).await.readers()).await, 1);
}

#[tokio::test]
async fn migrations_run_once_and_a_newer_file_is_refused_unchanged() {
    const LATER: &[(i64, &str)] = &[TABLES[0], (2, "ALTER TABLE note ADD COLUMN author TEXT")];
    const BROKEN: &[(i64, &str)] = &[(1, "CREATE TABLE half (id INTEGER); CREATE TABLE half (id INTEGER)")];
    let directory = tempfile::tempdir().unwrap();
    let file = open(&directory).await;
    file.migrate("note", TABLES).await.unwrap();
    file.migrate("note", LATER).await.unwrap();
    let newer = file.migrate("note", TABLES).await;
    assert!(
        matches!(
            newer,
            Err(SqliteError::Schema(SchemaRefusal::Newer { found: 2, known: 1 }))
        ),
        "{newer:?}"
    );
    assert!(file.migrate("broken", BROKEN).await.is_err());
    let half: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE name = 'half'")
        .fetch_one(file.readers())
        .await
        .unwrap();
    assert_eq!(half, 0);
}

#[tokio::test]
async fn nothing_is_written_through_a_connection_whose_commit_failed() {
    let directory = tempfile::tempdir().unwrap();
    let file = open(&directory).await;
    let execute = async |statements: &'static str| {
        file.write(move |connection| {
            Box::pin(async move { sqlx::raw_sql(statements).execute(connection).await.map(drop) })
        })
        .await
    };
    execute("CREATE TABLE page (note INTEGER REFERENCES note (id) DEFERRABLE INITIALLY DEFERRED) STRICT")
        .await
        .unwrap();
    // What only this connection has tells it from the next one.
    execute("CREATE TEMP TABLE own (id INTEGER)").await.unwrap();
    execute("INSERT INTO own VALUES (1)").await.unwrap();
    let failed = execute("INSERT INTO page VALUES (77)").await;
    assert!(matches!(failed, Err(SqliteError::Commit(_))), "{failed:?}");
    let on_the_next = execute("INSERT INTO own VALUES (2)").await;
    assert!(matches!(on_the_next, Err(SqliteError::Statement(_))), "{on_the_next:?}");
    insert(&file, "it goes on".to_owned()).await.unwrap();
    assert_eq!(count(file.readers()).await, 1);
    let pages: i64 = sqlx::query_scalar("SELECT count(*) FROM page")
        .fetch_one(file.readers())
        .await
        .unwrap();
    assert_eq!(pages, 0);
    file.close().await;
}

#[tokio::test]
async fn a_file_that_was_deleted_or_replaced_takes_no_write_until_it_is_back() {
    for log_too in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let file = open(&directory).await;
        insert(&file, "before".to_owned()).await.unwrap();
        let away = tempfile::tempdir_in(directory.path()).unwrap();
        let names = if log_too {
            vec!["record.sqlite", "record.sqlite-wal"]
        } else {
            vec!["record.sqlite"]
        };
        for name in &names {
            std::fs::rename(directory.path().join(name), away.path().join(name)).unwrap();
        }
        let refused = insert(&file, "deleted".to_owned()).await.unwrap_err();
        assert!(
            matches!(&refused, SqliteError::Displaced { fate: "deleted", .. }),
            "{refused:?}"
        );
        std::fs::write(file.path(), "").unwrap();
        let refused = insert(&file, "replaced".to_owned()).await.unwrap_err();
        assert!(refused.to_string().contains("was replaced"), "{refused}");
        for name in &names {
            std::fs::rename(away.path().join(name), directory.path().join(name)).unwrap();
        }
        insert(&file, "after".to_owned()).await.unwrap();
        assert_eq!(count(file.readers()).await, 2, "only what was confirmed is there");
    }
}

#[tokio::test]
async fn a_log_that_was_deleted_takes_no_write() {
    let directory = tempfile::tempdir().unwrap();
    let file = open(&directory).await;
    std::fs::remove_file(directory.path().join("record.sqlite-wal")).unwrap();
    let refused = insert(&file, "lost".to_owned()).await.unwrap_err();
    assert!(matches!(refused, SqliteError::Displaced { .. }), "{refused:?}");
}

/// As `cp` does it: the same file with other content.
#[tokio::test]
async fn a_file_that_another_one_or_an_older_copy_was_written_over_takes_no_write() {
    const MARK: &str = "SELECT (SELECT text FROM note WHERE id = 1), (SELECT max(id) FROM note)";
    const SETTLE: &str = "PRAGMA wal_checkpoint(TRUNCATE)";
    let directory = tempfile::tempdir().unwrap();
    let file = open(&directory).await;
    let settle = async || sqlx::query(SETTLE).execute(file.readers()).await.unwrap();
    insert(&file, "mine".to_owned()).await.unwrap();
    file.know(MARK, "mine").unwrap();
    settle().await;
    let copy = |from: &str| {
        std::fs::write(file.path(), std::fs::read(directory.path().join(from)).unwrap()).unwrap();
    };
    std::fs::copy(file.path(), directory.path().join("older")).unwrap();
    for number in 0..20 {
        insert(&file, format!("later {number}")).await.unwrap();
        // Its own checkpoints change the file, too.
        settle().await;
    }
    std::fs::copy(file.path(), directory.path().join("now")).unwrap();
    let other = tempfile::tempdir().unwrap();
    let foreign = open(&other).await;
    insert(&foreign, "not mine".to_owned()).await.unwrap();
    foreign.close().await;
    std::fs::copy(foreign.path(), directory.path().join("other")).unwrap();
    std::fs::write(directory.path().join("no database"), vec![b'x'; 65_536]).unwrap();
    for over in ["older", "other", "no database"] {
        copy(over);
        for _ in 0..2 {
            let refused = insert(&file, "lost".to_owned()).await.unwrap_err();
            assert!(
                matches!(&refused, SqliteError::Displaced { fate: "replaced", .. }),
                "{over}: {refused:?}"
            );
        }
        copy("now");
        insert(&file, format!("after {over}")).await.unwrap();
        settle().await;
        std::fs::copy(file.path(), directory.path().join("now")).unwrap();
    }
    assert!(file.know(MARK, "not mine").is_err(), "what is known first counts");
}
