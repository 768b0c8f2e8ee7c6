//! What a restore of the file would lose: what is in it now, and not in the backup.

use std::collections::HashMap;
use std::path::Path;

use super::NAMESPACES;
use crate::domain::schema::{self, Change};
use crate::domain::words::plural;
use crate::sqlite::{SqliteError, SqliteFile};

/// What is nowhere else: one, many, its table, and two numbers and a text that tell its rows from each other.
const PARTS: [(&str, &str, &str, &str); 7] = [
    (
        // In whichever queue: one that waited then, and is dead now, is in the backup.
        "message that waits or is dead",
        "messages that wait or are dead",
        "broker_message",
        "SELECT length(body), 0, COALESCE(message_id, id || ' of ' || queue) FROM broker_message",
    ),
    (
        "event",
        "events",
        "events",
        "SELECT id, first_at, CAST(revision AS TEXT) FROM events",
    ),
    (
        "discarded dead letter",
        "discarded dead letters",
        "kept_messages",
        "SELECT at, length(message), letter FROM kept_messages WHERE kind = 'discarded' AND until IS NOT NULL",
    ),
    (
        "edit of a dead letter",
        "edits of dead letters",
        "kept_messages",
        "SELECT at, length(message), letter FROM kept_messages WHERE kind = 'edited'",
    ),
    (
        "saved message",
        "saved messages",
        "saved_messages",
        "SELECT saves.at, saved_messages.place, CAST(saved_messages.bytes AS TEXT) FROM saved_messages \
         JOIN saves ON saves.id = saved_messages.save",
    ),
    (
        "dead letter",
        "dead letters",
        "stored_letters",
        "SELECT place, at, CAST(bytes AS TEXT) FROM stored_letters",
    ),
    (
        "rescued message",
        "rescued messages",
        "rescued",
        "SELECT id, at, CAST(length(body) AS TEXT) FROM rescued",
    ),
];

/// What of a backup runs in every program that opens it: on our tables only what we made.
const TRIGGERS: &str =
    "SELECT 0, 0, tbl_name || char(0) || name || char(0) || sql FROM sqlite_schema WHERE type = 'trigger'";
/// What the names of the embedded broker's tables begin with.
const OF_BROKER: &str = "broker_";

/// Refuses a backup into which somebody wrote what would change our tables beside us. A program's own tables may have
/// triggers.
pub async fn check_triggers(backup: &Path) -> Result<(), SqliteError> {
    let changes: Vec<Change> = NAMESPACES.iter().flat_map(|(_, changes)| changes.to_vec()).collect();
    let tables = schema::tables(&changes);
    for (_, _, row) in SqliteFile::rows_of_backup(backup, "schema_changes", TRIGGERS).await? {
        let mut parts = row.splitn(3, '\0');
        let (table, name, sql) = (parts.next(), parts.next(), parts.next());
        let is_on_ours = table.is_some_and(|table| {
            let table = table.to_ascii_lowercase();
            table.starts_with(OF_BROKER) || tables.contains(&table.as_str())
        });
        let is_ours = sql.is_some_and(|sql| changes.iter().any(|(_, statements)| statements.contains(sql)));
        if is_on_ours && !is_ours {
            return Err(SqliteError::Unusable {
                path: backup.to_owned(),
                problem: format!(
                    "has the trigger {:?} on a table of redrive, which redrive does not make: take another backup",
                    name.unwrap_or_default()
                ),
            });
        }
    }
    Ok(())
}

/// What would be lost.
#[derive(Debug, Default)]
pub struct Lost {
    /// How many, of whatever kind, as far as it can be read.
    pub count: u64,
    /// In words, with what cannot be read; empty where nothing is lost.
    pub what: String,
}

/// Compares the file at `path` with the backup that is to take its place. What cannot be read in it is what a backup is
/// for, and its number is not known.
pub async fn lost_by_restore(path: &Path, backup: &Path) -> Lost {
    let (mut count, mut kinds, mut unread) = (0, Vec::new(), Vec::new());
    for (one, many, table, rows) in PARTS {
        let now = match SqliteFile::rows_of(path, table, rows).await {
            Ok(now) if now.is_empty() => continue,
            Ok(now) => now,
            Err(_) if path.exists() => {
                unread.push(many);
                continue;
            }
            Err(_) => continue,
        };
        let kept = SqliteFile::rows_of_backup(backup, table, rows)
            .await
            .unwrap_or_default();
        let mut rows: HashMap<_, u64> = HashMap::new();
        for row in kept {
            *rows.entry(row).or_default() += 1;
        }
        // Each row of the backup stands for one.
        let is_lost = |row| match rows.get_mut(row) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            Some(_) | None => true,
        };
        let lost = now.iter().map(is_lost).map(u64::from).sum();
        if lost > 0 {
            count += lost;
            kinds.push(plural(lost, one, many));
        }
    }
    if unread.len() == PARTS.len() {
        kinds.push("an unknown number of messages and events, because the file cannot be read".to_owned());
    } else if !unread.is_empty() {
        let unread = unread.join(", ");
        kinds.push(format!("an unknown number of {unread}, because they cannot be read"));
    }
    Lost {
        count,
        what: kinds.join(", "),
    }
}
