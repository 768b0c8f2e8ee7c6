//! Twelve incidents: each is prepared on real servers, solved in the real console on a pseudo-terminal by keys alone,
//! and asked for from outside whether it is over.
//!
//! A script has four parts. *Prepare*: broker, store, receivers and a daemon process are real, and own what they use.
//! *Keys*: an [`Operator`] presses them one after the other, each once the screen has told him what he needs for it.
//! *Screen*: where he is, what is wrong, since when or how much, what happens next; only these words are asserted.
//! *Outside*: the management API, what the receiver wrote down, the HTTP API or a command say that it is mended; the
//! screen is not asked.
//!
//! Keys are counted, and ten have to do for the mend ([`KEYS_MAX`]): each press counts as one, `Enter` and `Esc` too, and
//! so does each letter and digit that is typed. Starting the console and leaving it are not counted.

/// The same incident at both seats.
macro_rules! at_both_seats {
    ($play:ident as $module:ident) => {
        mod $module {
            use super::$play;

            at_both_seats!($play);
        }
    };
    ($play:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn at_120_by_40() {
            $play(crate::incidents::operator::Seat::Here).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn attached_at_80_by_24() {
            $play(crate::incidents::operator::Seat::Far).await;
        }
    };
}

mod backlog_after_an_outage;
mod broker_alarm;
mod endpoint_down_for_a_day;
mod expiring_results;
mod nobody_consumes;
mod operator;
mod outside;
mod poison_message;
mod production_for_staging;
mod queue_that_does_not_move;
mod slow_receiver;
mod thousands_of_dead_letters;
mod two_operators;
mod wrong_policy;

/// So many keys mend each of the incidents.
const KEYS_MAX: usize = 10;
