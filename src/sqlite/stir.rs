//! Says when the write-ahead log was written to, by anybody: so that nobody has to look again and again while
//! nothing happens.
//!
//! Promises: [`Stir::next`] may be dropped and called again; where the system cannot tell, every call is
//! answered at once, and the caller's own pace decides.

use std::path::Path;

/// What is told of one log.
pub(super) struct Stir(Option<watch::Log>);

impl Stir {
    /// Of the log of the database at `path`, which exists once the database was read.
    pub(super) fn of_database(path: &Path) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let watched = watch::Log::open(Path::new(&log));
        if let Err(error) = &watched {
            tracing::debug!(error = ?error, "commits of other processes are looked for all the time");
        }
        Self(watched.ok())
    }

    /// Returns when something was written since the last call.
    pub(super) async fn next(&mut self) {
        let Some(log) = &mut self.0 else { return };
        if let Err(error) = log.next().await {
            tracing::debug!(error = ?error, "commits of other processes are looked for all the time");
            self.0 = None;
        }
    }
}

#[cfg(target_os = "linux")]
mod watch {
    use std::io;
    use std::path::Path;

    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use tokio::net::unix::pipe;

    /// An inotify instance with one watch; it is read like a pipe.
    pub(super) struct Log(pipe::Receiver);

    impl Log {
        pub(super) fn open(log: &Path) -> io::Result<Self> {
            let instance = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            inotify::add_watch(&instance, log, WatchFlags::MODIFY | WatchFlags::DELETE_SELF)?;
            Ok(Self(pipe::Receiver::from_owned_fd_unchecked(instance)?))
        }

        /// An error when the file is no longer there to be watched.
        pub(super) async fn next(&mut self) -> io::Result<()> {
            let mut events = [0; 4096];
            loop {
                self.0.readable().await?;
                match self.0.try_read(&mut events) {
                    Ok(read) if has_ended(&events[..read]) => return Err(io::ErrorKind::NotFound.into()),
                    Ok(_) => return Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Events of one file have 16 bytes each, with the mask as the second word.
    fn has_ended(events: &[u8]) -> bool {
        let mask = |event: &[u8]| u32::from_ne_bytes([event[4], event[5], event[6], event[7]]);
        events.chunks_exact(16).any(|event| mask(event) & IGNORED != 0)
    }

    /// `IN_IGNORED` of inotify(7).
    const IGNORED: u32 = 0x8000;
}

#[cfg(not(target_os = "linux"))]
mod watch {
    use std::io;
    use std::path::Path;

    /// Nothing to watch with.
    pub(super) enum Log {}

    impl Log {
        pub(super) fn open(_: &Path) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) async fn next(&mut self) -> io::Result<()> {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::time::Duration;

    use crate::ambient::timeout;
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_log_is_still_until_it_is_written_to() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("store.db");
        let log = directory.path().join("store.db-wal");
        fs::write(&log, "").unwrap();
        let mut stir = Stir::of_database(&database);
        assert!(stir.next().now_or_never().is_none());
        fs::write(&log, "frame").unwrap();
        timeout(Duration::from_secs(20), stir.next()).await.unwrap();
        assert!(stir.next().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_log_that_is_not_there_leaves_the_pace_to_the_caller() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("store.db");
        let mut missing = Stir::of_database(&database);
        assert!(missing.next().now_or_never().is_some());
        fs::write(directory.path().join("store.db-wal"), "").unwrap();
        let mut stir = Stir::of_database(&database);
        fs::remove_file(directory.path().join("store.db-wal")).unwrap();
        timeout(Duration::from_secs(20), stir.next()).await.unwrap();
        assert!(stir.next().now_or_never().is_some());
    }
}
