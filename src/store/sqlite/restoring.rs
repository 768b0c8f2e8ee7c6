//! What a restore of the file would lose: what is in it now, and not in the backup.

use std::collections::HashSet;
use std::path::Path;

use crate::domain::words::plural;
use crate::sqlite::SqliteFile;

/// What is nowhere else: one, many, its table, and three numbers that tell its rows from each other.
const PARTS: [(&str, &str, &str, &str); 6] = [
    (
        "message that waits",
        "messages that wait",
        "broker_message",
        "SELECT id, published_at, queue FROM broker_message",
    ),
    ("event", "events", "events", "SELECT id, first_at, 0 FROM events"),
    (
        "discarded dead letter",
        "discarded dead letters",
        "kept_messages",
        "SELECT at, until, length(message) FROM kept_messages WHERE kind = 'discarded' AND until IS NOT NULL",
    ),
    (
        "saved message",
        "saved messages",
        "saved_messages",
        "SELECT saves.at, saved_messages.place, saved_messages.bytes FROM saved_messages \
         JOIN saves ON saves.id = saved_messages.save",
    ),
    (
        "dead letter",
        "dead letters",
        "stored_letters",
        "SELECT place, at, bytes FROM stored_letters",
    ),
    (
        "rescued message",
        "rescued messages",
        "rescued",
        "SELECT id, at, length(body) FROM rescued",
    ),
];

/// What would be lost.
#[derive(Debug, Default)]
pub struct Lost {
    /// How many, of whatever kind.
    pub count: u64,
    /// In words.
    pub what: String,
}

/// Compares the file at `path` with the backup that is to take its place. A file that cannot be read is what a backup is
/// for: of that nothing is known.
pub async fn lost_by_restore(path: &Path, backup: &Path) -> Lost {
    let (mut count, mut kinds) = (0, Vec::new());
    for (one, many, table, rows) in PARTS {
        let now = SqliteFile::rows_of(path, table, rows).await.unwrap_or_default();
        if now.is_empty() {
            continue;
        }
        let kept = SqliteFile::rows_of_backup(backup, table, rows)
            .await
            .unwrap_or_default();
        let kept: HashSet<_> = kept.into_iter().collect();
        let lost = now.iter().filter(|row| !kept.contains(row)).count();
        let lost = u64::try_from(lost).unwrap_or(u64::MAX);
        if lost > 0 {
            count += lost;
            kinds.push(plural(lost, one, many));
        }
    }
    Lost {
        count,
        what: kinds.join(", "),
    }
}
