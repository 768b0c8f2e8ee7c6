//! PostgreSQL is restarted, stopped, and fails over to a standby that lacks what it wrote last; SQLite's disk is full.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sqlx::{Connection, PgConnection};

use crate::attack::{About, Attack, Load};
use crate::scene::{BOUND, Scene};
use crate::support::not_run;
use crate::support::relay::Relay;
use crate::support::servers::{PrivatePostgres, RabbitAddress};
use crate::support::wait::{at_moment, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_restarted() {
    let postgres = PrivatePostgres::start().await;
    let about = About {
        order: 20,
        faults: "PostgreSQL is stopped in order or killed (SIGKILL), in turn, and started again",
        on: "classic queues, PostgreSQL",
    };
    let mut attack = Attack::on(Scene::on_postgres(&postgres.url).await, about);
    let mut daemon = attack.scene.installation.daemon().await;
    let load = Load::slow(20, 400);
    attack
        .under(load, 20, async |_, number| {
            if number % 2 == 0 {
                postgres.stop().await;
            } else {
                postgres.kill().await;
            }
            postgres.start_again().await;
        })
        .await;
    attack.end(&mut [&mut daemon]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_stopped() {
    let postgres = PrivatePostgres::start().await;
    let mut scene = Scene::on_postgres(&postgres.url).await;
    scene.hasten();
    let about = About {
        order: 21,
        faults: "PostgreSQL is stopped for 15 s (SIGSTOP), longer than the daemon may work without it",
        on: "classic queues, PostgreSQL",
    };
    let mut attack = Attack::on(scene, about);
    let mut daemon = attack.scene.installation.daemon().await;
    let load = Load::slow(20, 300);
    attack
        .under(load, 4, async |_, _| {
            postgres.freeze().await;
            at_moment(Duration::from_secs(15)).await;
            postgres.thaw().await;
        })
        .await;
    attack.end(&mut [&mut daemon]).await;
}

async fn one<T>(url: &str, query: &'static str) -> T
where
    T: Send + Unpin + for<'row> sqlx::Decode<'row, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    let mut connection = PgConnection::connect(url).await.unwrap();
    let value = sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    value
}

/// A position in PostgreSQL's log, in bytes.
fn bytes(position: &str) -> u64 {
    let (high, low) = position.split_once('/').unwrap();
    (u64::from_str_radix(high, 16).unwrap() << 32) + u64::from_str_radix(low, 16).unwrap()
}

/// The standby hears nothing for seconds, then the primary is killed, and the standby takes its place: what the primary
/// had answered meanwhile is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_failed_over() {
    const FAILOVERS: u32 = 3;
    let mut primary = PrivatePostgres::start().await;
    let way = Relay::to(&primary.url).await;
    let about = About {
        order: 22,
        faults: "PostgreSQL is killed, and a standby takes its place that lacks the last seconds of what was answered",
        on: "classic queues, PostgreSQL",
    };
    let mut attack = Attack::on(Scene::on_postgres(&way.through(&primary.url)).await, about);
    let mut daemon = attack.scene.installation.daemon().await;
    let load = Load::slow(20, 400);
    let mut lost = 0;
    attack
        .under(load, FAILOVERS, async |_, _| {
            let replication = Relay::to(&primary.url).await;
            let standby = PrivatePostgres::follows(replication.port()).await;
            wait_until("a standby that has caught up", BOUND, async || {
                let streams: bool = one(
                    &primary.url,
                    "SELECT count(*) > 0 FROM pg_stat_replication WHERE state = 'streaming'",
                )
                .await;
                streams.then_some(())
            })
            .await;
            replication.silence();
            at_moment(Duration::from_secs(3)).await;
            let written: String = one(&primary.url, "SELECT pg_current_wal_flush_lsn()::text").await;
            primary.kill().await;
            let there: String = one(&standby.url, "SELECT pg_last_wal_receive_lsn()::text").await;
            lost += bytes(&written).saturating_sub(bytes(&there));
            let promoted: bool = one(&standby.url, "SELECT pg_promote()").await;
            assert!(promoted, "the standby stays one");
            way.lead_to(&standby.url);
            primary = standby;
        })
        .await;
    attack.lost_by_the_database = Some(lost);
    attack.end(&mut [&mut daemon]).await;
}

/// A file system of a few MiB, unmounted with this value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn at(path: &Path) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"])
            .arg(path)
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then(|| Self(path.to_owned()))
    }

    /// Writes until nothing fits.
    fn fill(&self) {
        use std::io::Write as _;
        let mut file = std::fs::File::create(self.0.join("ballast")).unwrap();
        for size in [65_536, 4_096, 512] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_with_a_full_disk() {
    let scene = Scene::on_rabbit(&RabbitAddress::shared()).await;
    let Some(disk) = SmallDisk::at(&scene.installation.path("")) else {
        return not_run("right to mount a small file system (root)");
    };
    let about = About {
        order: 23,
        faults: "the disk of the store is full for 10 s",
        on: "classic queues, SQLite",
    };
    let mut attack = Attack::on(scene, about);
    let mut daemon = attack.scene.installation.daemon().await;
    let load = Load::slow(20, 200);
    attack
        .under(load, 4, async |_, _| {
            disk.fill();
            at_moment(Duration::from_secs(10)).await;
            disk.free();
        })
        .await;
    attack.end(&mut [&mut daemon]).await;
    drop(disk);
}
