//! The embedded broker: the suite of every driver, and what only a file can do.

use std::path::Path;
use std::sync::Mutex;

use redrive::ambient::Clock;
use redrive::broker::embedded::Embedded;
use redrive::broker::{BrokerError, BrokerHandle, Published, Signal};
use redrive::domain::naming::{Naming, QueueType};
use redrive::sqlite::SqliteFile;

use crate::broker_contract::bench::{Bench, SOON, next, number, numbered, take};

fn naming() -> Naming {
    Naming {
        prefix: "redrive.".into(),
        vhost: "redrive".into(),
        url_hash_key: "key".into(),
        queue_type: QueueType::Classic,
    }
}

async fn open(path: &Path, naming: Naming) -> BrokerHandle {
    let file = SqliteFile::open(path).await.unwrap();
    Embedded::open(file, naming, Clock::system()).await.unwrap()
}

/// A bench on the file `name` in `directory`, prepared.
async fn bench_in(directory: &Path) -> Bench {
    let broker = open(&directory.join("queues.sqlite"), naming()).await;
    broker.prepare().await.unwrap();
    Bench {
        broker,
        naming: naming(),
        finish: Mutex::new(None),
    }
}

async fn start() -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let bench = bench_in(directory.path()).await;
    *bench.finish.lock().unwrap() = Some(Box::new(move || Box::pin(async move { drop(directory) })));
    bench
}

mod contract {
    use crate::broker_contract::broker_contract;

    broker_contract!(super::start);
}
