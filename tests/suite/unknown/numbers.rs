//! Every gauge that is read from somewhere, as the registry names them.

use redrive::internals::telemetry::{METRICS, MetricKind};

use super::{BOUND, Cut, Site};
use crate::support::management::Lie;
use crate::support::wait::{wait_until, within};

/// Every series of a number, with its value.
fn series(numbers: &str, name: &str) -> Vec<(String, f64)> {
    let of = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let is_it = series == name || series.starts_with(&format!("{name}{{"));
        is_it.then(|| (series.to_owned(), value.parse().unwrap()))
    };
    numbers
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(of)
        .collect()
}

fn reading(source: &str) -> Vec<&'static str> {
    let gauges = METRICS.iter().filter(|metric| metric.kind == MetricKind::Gauge);
    let reading = gauges.filter(|metric| metric.reads.contains(&source));
    reading.map(|metric| metric.name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gauge_whose_source_cannot_be_read_is_no_number_and_never_zero() {
    let site = Site::open().await;
    for cut in [Cut::Management(Lie::Status(500)), Cut::Store] {
        let reading = reading(cut.source());
        assert!(reading.len() >= 5, "{reading:?}");
        wait_until("some of them are numbers", BOUND, async || {
            let numbers = site.daemon.get("/metrics").await.text();
            let known = reading.iter().flat_map(|name| series(&numbers, name));
            (known.filter(|(_, value)| !value.is_nan()).count() >= 5).then_some(())
        })
        .await;
        site.cut(cut);
        let mut left = Vec::new();
        let gone = wait_until("all of them are none", 3 * BOUND, async || {
            let numbers = site.daemon.get("/metrics").await.text();
            let known = reading.iter().flat_map(|name| series(&numbers, name));
            left = known.filter(|(_, value)| !value.is_nan()).collect();
            left.is_empty().then_some(())
        });
        let gone = within(2 * BOUND, gone).await;
        assert!(gone.is_ok(), "{cut:?}: {left:?}");
        site.mend().await;
    }
}
