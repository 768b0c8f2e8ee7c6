//! The demo, with a minute squeezed into seconds: every endpoint ends as it should, and the report says so.

use std::time::Duration;

use redrive::internals::ambient::Clock;
use redrive::internals::demo::{self, Behaviour, Demo, DemoPlan, DemoReport, ScratchDirectory};
use redrive::internals::domain::endpoint::EndpointState;
use redrive::internals::engine::query;
use tokio_util::sync::CancellationToken;

fn short_plan() -> DemoPlan {
    DemoPlan {
        duration: Some(Duration::from_secs(16)),
        settle: Duration::from_secs(3),
        patience: Duration::from_secs(30),
        progress: Duration::from_secs(1),
        step: Duration::from_millis(200),
        down_after: Duration::from_secs(2),
        down_for: Duration::from_secs(6),
        minimum_delay_s: 1,
        maximum_delay_s: 2,
        ..DemoPlan::default()
    }
}

async fn play(plan: DemoPlan, stop: CancellationToken) -> (DemoReport, String) {
    let scratch = ScratchDirectory::create().unwrap();
    let demo = Demo::start(scratch.path(), &plan, Clock::system()).await.unwrap();
    let (mut told, engine) = (Vec::new(), demo.engine().clone());
    let report = demo::run(demo, &mut told, stop).await.unwrap();
    // Sequences end and begin again all the time, and nobody takes anything away.
    let all = query::Audit {
        before: None,
        limit: 1_000,
    };
    let audit = engine.query(all).await.unwrap();
    let incidents: Vec<_> = audit.items.iter().filter(|line| line.entry.command == "heal").collect();
    assert!(incidents.is_empty(), "{incidents:?}");
    (report, String::from_utf8(told).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demo_shows_every_kind_of_endpoint_and_keeps_its_promises() {
    let (report, told) = play(short_plan(), CancellationToken::new()).await;
    let page = format!("{told}\n{}", report.render());
    assert!(report.passed() && report.duplicates == 0, "{page}");
    for behaviour in Behaviour::ALL {
        let endpoint = report.endpoint(behaviour).unwrap();
        assert!(
            endpoint.published > 10 && endpoint.attempts > 0,
            "{behaviour:?}: {page}"
        );
        let accounted = endpoint.delivered + endpoint.waiting + endpoint.dead;
        assert_eq!(endpoint.published, accounted, "{behaviour:?}: {page}");
        if behaviour.recovers() {
            assert_eq!(endpoint.delivered, endpoint.published, "{behaviour:?}: {page}");
            assert_eq!(endpoint.state, EndpointState::Available, "{behaviour:?}: {page}");
        } else {
            assert_eq!(endpoint.delivered, 0, "{behaviour:?}: {page}");
        }
    }
    let down = report.endpoint(Behaviour::Down).unwrap();
    let states: Vec<EndpointState> = down.changes.iter().map(|(_, state)| *state).collect();
    assert_eq!(states, [EndpointState::Unavailable, EndpointState::Available], "{page}");
    assert_eq!(
        report.endpoint(Behaviour::Gone).unwrap().state,
        EndpointState::Disabled,
        "{page}"
    );
    assert!(
        report.endpoint(Behaviour::Failing).unwrap().dead > 0 && report.ended > 0,
        "{page}"
    );
    for line in [
        "down is unavailable",
        "down is available again",
        "gone is disabled",
        "dead letter of failing",
    ] {
        assert!(told.contains(line), "{line:?} is not told: {page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demo_that_is_stopped_early_counts_what_waits_and_leaves_nothing() {
    let scratch = ScratchDirectory::create().unwrap();
    let path = scratch.path().to_owned();
    let plan = DemoPlan {
        duration: None,
        step: Duration::from_millis(20),
        ..DemoPlan::default()
    };
    let demo = Demo::start(&path, &plan, Clock::system()).await.unwrap();
    crate::support::wait::wait_until("the first deliveries", Duration::from_secs(30), async || {
        (demo.elapsed() > Duration::from_secs(1)).then_some(())
    })
    .await;
    let stop = CancellationToken::new();
    stop.cancel();
    let report = demo::run(demo, &mut Vec::new(), stop).await.unwrap();
    assert!(report.passed(), "{}", report.render());
    assert!(report.endpoints.iter().map(|endpoint| endpoint.published).sum::<u64>() > 0);
    assert!(
        report.endpoints.iter().map(|endpoint| endpoint.waiting).sum::<u64>() > 0,
        "{}",
        report.render()
    );
    drop(scratch);
    assert!(!path.exists());
}
