//! When to look whether another connection committed, and the look itself.
//!
//! The write-ahead log says when it is written to; where the system cannot tell, and in case it did not, a look comes
//! now and then all the same.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::SqliteConnection;

use super::stir::Stir;

/// How often commits of other processes are looked for, at most, while somebody watches and the log stirs.
const LOOK: Duration = Duration::from_millis(5);
/// How often right after the log stirred, and how many times: it is written before its commit is there.
const LOOK_EAGERLY: Duration = Duration::from_millis(1);
const EAGER_LOOKS: u32 = 8;
/// And while nothing is heard of the log.
const LOOK_ANYWAY: Duration = Duration::from_secs(1);

pub(super) struct Lookout {
    stir: Stir,
    looked_at: Duration,
    data_version: i64,
    /// Something was written to the log since `looked_at`, by this process or another.
    stirred: bool,
    /// Looks that are left of those right after a stir.
    eager: u32,
}

impl Lookout {
    /// Of the database at `path`; times are uptimes.
    pub(super) async fn new(path: &Path, connection: &mut SqliteConnection, now: Duration) -> Self {
        // Read first: from then on there is a log.
        let data_version = read_data_version(connection).await.unwrap_or(0);
        Self {
            stir: Stir::of_database(path),
            looked_at: now,
            data_version,
            stirred: true,
            eager: 0,
        }
    }

    /// Nothing was written to the log since the last look, as far as is known.
    pub(super) const fn is_still(&self) -> bool {
        !self.stirred
    }

    /// Returns when something was written to the log. May be dropped and called again.
    pub(super) async fn stir(&mut self) {
        self.stir.next().await;
    }

    /// Something may have been written to the log.
    pub(super) const fn note_stir(&mut self) {
        self.stirred = true;
    }

    /// After a pause, somebody may be waiting for just this; in a stream of commits the common pace is enough.
    pub(super) fn heard_of_log(&mut self, now: Duration) {
        self.stirred = true;
        if now.saturating_sub(self.looked_at) >= LOOK {
            self.eager = EAGER_LOOKS;
        }
    }

    /// Until the next look.
    pub(super) fn left(&self, now: Duration) -> Duration {
        self.pace().saturating_sub(now.saturating_sub(self.looked_at))
    }

    /// Whether another look may be made already.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        now.saturating_sub(self.looked_at) >= self.pace().min(LOOK)
    }

    /// Between two looks.
    fn pace(&self) -> Duration {
        match (self.stirred, self.eager) {
            (_, 1..) => LOOK_EAGERLY,
            (true, 0) => LOOK,
            (false, 0) => LOOK_ANYWAY,
        }
    }

    /// Whether another connection committed; `data_version` does not move by own commits.
    pub(super) async fn look(&mut self, connection: &mut SqliteConnection, now: Duration) -> bool {
        self.looked_at = now;
        // A slow disk: once more at the common pace.
        self.stirred = self.eager == 1;
        self.eager = self.eager.saturating_sub(1);
        match read_data_version(connection).await {
            Ok(version) if version != self.data_version => {
                self.data_version = version;
                self.eager = 0;
                self.stirred = false;
                true
            }
            Ok(_) => false,
            // Busy with another's recovery, or worse; then the next write says so.
            Err(error) => {
                tracing::debug!(error = ?error, "cannot look for commits of others");
                false
            }
        }
    }
}

async fn read_data_version(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("PRAGMA data_version").fetch_one(connection).await
}
