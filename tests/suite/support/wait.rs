//! The only place where a test waits: for a state, with a bound, saying what did not come.

use std::fmt::Display;
use std::future::Future;
use std::panic::Location;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout, timeout_at};

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
const PERSONS_PACE: Duration = Duration::from_millis(50);

/// `bound` times the factor that `tests/run` sets for a loaded machine. Every bound on what must come is
/// made by it; what must not come is looked for as long as the test says.
pub fn patient(bound: Duration) -> Duration {
    static FACTOR: LazyLock<u32> = LazyLock::new(|| {
        let factor = std::env::var("REDRIVE_TEST_PATIENCE").ok();
        factor.and_then(|factor| factor.parse().ok()).unwrap_or(1)
    });
    bound * *FACTOR
}

/// The result of `future`, which must come within `bound`.
pub async fn within<F: Future>(bound: Duration, future: F) -> Result<F::Output, Elapsed> {
    timeout(patient(bound), future).await
}

/// Asks again and again until `look` gives a value; panics with `what` once `bound` is over.
/// A look that hangs is cut off at the bound too.
#[track_caller]
pub fn wait_until<T>(
    what: impl Display,
    bound: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> impl Future<Output = T> {
    let (caller, bound) = (Location::caller(), patient(bound));
    async move {
        let begin = Instant::now();
        let end = tokio::time::Instant::now() + bound;
        let mut pause = FIRST_PAUSE;
        let mut looks = 0_u32;
        while let Ok(found) = timeout_at(end, look()).await {
            looks += 1;
            if let Some(value) = found {
                return value;
            }
            if begin.elapsed() >= bound {
                break;
            }
            sleep(pause.min(bound.saturating_sub(begin.elapsed()))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        panic!("{caller}: waited {bound:?} for: {what} ({looks} looks)");
    }
}

/// Lets a race begin at a chosen moment, so that many of them meet each gap; never for a state to come.
pub async fn at_moment(moment: Duration) {
    sleep(moment).await;
}

/// Keeps keys as far apart as a person's are, well over what the console takes for pasted text.
pub fn persons_pace(last: Option<Instant>) {
    let since = last.map_or(PERSONS_PACE, |last| last.elapsed());
    std::thread::sleep(PERSONS_PACE.saturating_sub(since));
}

/// For what must not happen: looks all through `period` and panics at the first value.
#[track_caller]
pub fn stays_absent<T: std::fmt::Debug>(
    what: impl Display,
    period: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let begin = Instant::now();
        while begin.elapsed() < period {
            if let Some(found) = look().await {
                panic!("{caller}: after {:?} there was: {what}: {found:?}", begin.elapsed());
            }
            sleep(LONGEST_PAUSE.min(period)).await;
        }
    }
}

#[tokio::test]
async fn a_state_that_comes_ends_the_wait_with_its_value() {
    let mut looks = 0;
    let found = wait_until("the third look", Duration::from_secs(5), async || {
        looks += 1;
        (looks == 3).then_some("there")
    });
    assert_eq!(found.await, "there");
}

#[tokio::test]
#[should_panic(expected = "for: a state that never comes")]
async fn a_state_that_does_not_come_is_named() {
    wait_until(
        "a state that never comes",
        Duration::from_millis(30),
        async || None::<()>,
    )
    .await;
}

#[tokio::test]
#[should_panic(expected = "for: a look that hangs")]
async fn a_look_that_hangs_is_cut_off() {
    let forever = async || std::future::pending::<Option<()>>().await;
    wait_until("a look that hangs", Duration::from_millis(30), forever).await;
}

#[tokio::test]
#[should_panic(expected = "there was: trouble: 7")]
async fn what_must_not_happen_is_noticed() {
    stays_absent("trouble", Duration::from_secs(5), async || Some(7)).await;
}
