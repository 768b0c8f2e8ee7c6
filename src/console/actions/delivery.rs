//! Actions on queues, endpoints and retries.

use super::possible::fresh;
use super::report::{self, changed};
use super::{QUEUES, head};
use crate::console::state::action::{Action, Also, Context, Possible, Reason, named, require};
use crate::console::state::detail::Subject;
use crate::console::state::dialog::Asked;
use crate::console::state::pointed::{Pointed, Reach, queue_row};
use crate::console::state::{State, View};
use crate::console::update::scope::{self, Aim};
use crate::console::update::undo;
use crate::domain::endpoint::EndpointState;
use crate::domain::id::QueueName;
use crate::domain::pace::{Pace, PaceOrder};
use crate::domain::queue::{QueueKind, QueueState};
use crate::domain::url::EndpointUrl;
use crate::engine::snapshot::{QueueRow, Silent};
use crate::engine::view::Retry;
use crate::engine::{Command, PaceWish, RedeliverTarget};

const DELIVERY: Context = Context::Views(&[View::Queues, View::Endpoints, View::Retries]);
const ENDPOINTS: Context = Context::Views(&[View::Endpoints]);
const OVERVIEW: Context = Context::Views(&[View::Overview]);

/// Marks whose queues are looked at with every frame.
const MARKS_LOOKED_AT: usize = 100;

pub(super) const ACT: &[Action] = &[
    Action::new(named::REDELIVER, "redeliver", &["R"])
        .help("Make the endpoint of the selected row, or of the marked rows, available at once; all its queues continue.")
        .changes(DELIVERY)
        .when(|state| REDELIVER.possible(state))
        .plans(|state| REDELIVER.freeze(state))
        .reports(report::redelivered)
        .also(&[Also::Hinted, Also::Likely(|state| scope::selected(state).is_some_and(is_held_up))]),
    Action::new("redeliver_shown", "redeliver shown", &["A"])
        .help("The same for every row that the filter shows and that does not move.")
        .changes(DELIVERY)
        .when(|state| REDELIVER_SHOWN.possible(state))
        .plans(|state| REDELIVER_SHOWN.freeze(state))
        .reports(report::redelivered)
        .also(&[Also::Hinted, Also::Wide, Also::Likely(several_are_down)]),
    Action::new("pause", "pause", &["P"])
        .help("Stop delivering from the selected or marked queues after the attempt in flight.")
        .changes(QUEUES)
        .when(|state| PAUSE.possible(state))
        .plans(|state| PAUSE.freeze(state))
        .reports(|task| changed(task, "paused", "queue"))
        .hinted(),
    Action::new("pause_endpoint", "pause", &["P"])
        .help("Send nothing to the selected endpoint until somebody resumes it, at once; for marked rows it asks first. An endpoint that is down gets no probe either.")
        .changes(ENDPOINTS)
        .when(|state| BRAKE.possible(state))
        .plans(|state| BRAKE.freeze(state))
        .reports(|task| changed(task, "paused", "endpoint"))
        .also(&[Also::Hinted, Also::AtOnce]),
    Action::new("resume_endpoint", "resume", &["U"])
        .help("Continue with the selected or marked endpoints after a pause, or after their canary.")
        .changes(ENDPOINTS)
        .when(|state| GO_ON.possible(state))
        .plans(|state| GO_ON.freeze(state))
        .reports(|task| changed(task, "resumed", "endpoint"))
        .hinted(),
    Action::new("pace_endpoint", "pace", &["F"])
        .help("Change how fast the selected endpoint goes, until nothing waits for it: rate, ramp, canary, and when it stops.")
        .changes(ENDPOINTS)
        .when(|state| PACE.possible(state))
        .plans(|state| PACE.freeze(state))
        .reports(|task| changed(task, "changed the pace of", "endpoint")),
    Action::new("resume", "resume", &["U"])
        .help("Deliver again from the selected or marked queues that are paused, or whose endpoint is.")
        .changes(QUEUES)
        .when(|state| RESUME.possible(state).and_then(|()| a_marked_one_is_paused(state)))
        .plans(|state| RESUME.freeze(state))
        .reports(|task| changed(task, "resumed", "queue"))
        .also(&[Also::Hinted, Also::Likely(|state| scope::selected(state).is_some_and(is_paused))]),
    Action::new("test", "test", &["T"])
        .help("Send one HEAD request to the endpoint of the selected row, at once; for marked rows it asks first. No queued message is sent.")
        .changes(DELIVERY)
        .when(|state| TEST.possible(state))
        .plans(|state| TEST.freeze(state))
        .reports(report::tested)
        .also(&[Also::Hinted, Also::AtOnce, Also::Likely(is_at_a_down_endpoint)]),
    Action::new("disable", "disable", &["D"])
        .help("Send nothing to the selected or marked endpoints until somebody redelivers.")
        .changes(ENDPOINTS)
        .when(|state| DISABLE.possible(state))
        .plans(|state| DISABLE.freeze(state))
        .reports(|task| changed(task, "disabled", "endpoint"))
        .hinted(),
    Action::new("purge", "purge", &["X"])
        .help("Remove every message of the selected queue; they are lost. Its name is typed to confirm, and old numbers are not enough.")
        .destroys(QUEUES)
        // What cannot be undone is not done on old numbers.
        .when(|state| PURGE.possible(state).and_then(|()| fresh(state)))
        .plans(|state| PURGE.freeze(state))
        .reports(report::purged),
    Action::new("skip_head", "take the head out", &["V"])
        .help("Move the first message of a queue out of its way: to the dead letters or, where no client can read it, into the store. The messages behind it continue.")
        .changes(QUEUES)
        .when(|state| head::SKIP.possible(state))
        .plans(|state| head::SKIP.freeze(state))
        .reports(head::skipped)
        .hinted(),
    Action::new(named::MAKE_VHOST, "make the vhost", &["V"])
        .help("Make the vhost of this configuration, where it does not exist and this user may.")
        .changes(OVERVIEW)
        .when(vhost_is_missing)
        .plans(|_| Ok(Asked::one(Command::MakeVhost)))
        .reports(|task| changed(task, "made vhost", "vhost"))
        .administers(),
    Action::new(named::UNDO, "undo", &["Z"])
        .help("Undo the last action of this console where that is possible; else say why it is not.")
        .changes(Context::Everywhere)
        .when(undo::possible)
        .plans(undo::freeze)
        .reports(|task| changed(task, "undone:", "action")),
];

const REDELIVER: Aim<EndpointUrl> = Aim {
    note: through_queue,
    ..Aim::new(Reach::Rows, endpoint, redelivered)
};

const REDELIVER_SHOWN: Aim<EndpointUrl> = Aim {
    note: through_queue,
    ..Aim::new(Reach::Shown, |row| stuck(row).and_then(|()| endpoint(row)), redelivered)
};

const PAUSE: Aim<QueueName> = Aim::new(
    Reach::Rows,
    |row| queue(row, false),
    |_, queues| queues.into_iter().map(Command::PauseQueue).collect(),
);

/// What has the messages of a queue go on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Resumed {
    Queue(QueueName),
    Endpoint(EndpointUrl),
}

const RESUME: Aim<Resumed> = Aim {
    note: |row| endpoint_of_held(*row).map(|_| "acts on the endpoint: all queues of the URL continue"),
    ..Aim::new(
        Reach::Rows,
        |row| match endpoint_of_held(row) {
            Some(url) => Ok(Resumed::Endpoint(url.clone())),
            None => queue(row, true).map(Resumed::Queue),
        },
        |_, resumed| resumed.into_iter().map(Resumed::command).collect(),
    )
};

impl Resumed {
    fn command(self) -> Command {
        match self {
            Self::Queue(queue) => Command::ResumeQueue(queue),
            Self::Endpoint(url) => Command::PaceEndpoint {
                url,
                wish: PaceWish::Resume,
            },
        }
    }
}

/// The endpoint of a queue that is not paused itself, and waits until its endpoint goes on.
fn endpoint_of_held(row: Pointed<'_>) -> Option<&EndpointUrl> {
    match row {
        Pointed::Queue(row) if row.waits_for_resumed_endpoint() => row.url.as_deref(),
        Pointed::Opened(row, url) if row.waits_for_resumed_endpoint() => Some(url),
        Pointed::Queue(_)
        | Pointed::Opened(..)
        | Pointed::Endpoint(_)
        | Pointed::Retry(_)
        | Pointed::Policy(_)
        | Pointed::Run(_)
        | Pointed::Subject(_) => None,
    }
}

const TEST: Aim<EndpointUrl> = Aim::new(Reach::Rows, endpoint, |_, urls| {
    let test = |url| Command::TestEndpoint { url, method: None };
    urls.into_iter().map(test).collect()
});

const DISABLE: Aim<EndpointUrl> = Aim::new(
    Reach::Rows,
    |row| {
        if matches!(row, Pointed::Endpoint(row) if row.endpoint.state == EndpointState::Disabled) {
            return Err("this endpoint is disabled already".into());
        }
        endpoint(row)
    },
    |_, urls| urls.into_iter().map(Command::DisableEndpoint).collect(),
);

const BRAKE: Aim<EndpointUrl> = Aim::new(
    Reach::Rows,
    |row| match paced(&row) {
        Some(pace) if pace.brake.is_some() => Err("this endpoint is paused already".into()),
        _ => goes(row),
    },
    |_, urls| wished(urls, &PaceWish::Pause),
);

const GO_ON: Aim<EndpointUrl> = Aim::new(
    Reach::Rows,
    |row| match paced(&row) {
        Some(pace) if pace.brake.is_some() || pace.is_canary() => goes(row),
        None if matches!(row, Pointed::Subject(_)) => endpoint(row),
        Some(_) | None => Err("this endpoint is not paused".into()),
    },
    |_, urls| wished(urls, &PaceWish::Resume),
);

const PACE: Aim<(EndpointUrl, PaceOrder)> = Aim::new(
    Reach::OneRow,
    |row| {
        let order = paced(&row).map(|pace| pace.order).unwrap_or_default();
        Ok((goes(row)?, order))
    },
    |_, paced| {
        let command = |(url, order)| Command::PaceEndpoint {
            url,
            wish: PaceWish::Go(order),
        };
        paced.into_iter().map(command).collect()
    },
);

/// The pace that a row shows.
fn paced<'a>(row: &Pointed<'a>) -> Option<&'a Pace> {
    if let Pointed::Endpoint(row) = row {
        row.endpoint.pace.as_ref()
    } else {
        None
    }
}

/// An endpoint to which something is sent, or will be.
fn goes(row: Pointed<'_>) -> Result<EndpointUrl, Reason> {
    if matches!(row, Pointed::Endpoint(row)
        if matches!(row.endpoint.state, EndpointState::Disabled | EndpointState::Parked))
    {
        return Err("nothing is sent to this endpoint: R redelivers".into());
    }
    endpoint(row)
}

fn wished(urls: Vec<EndpointUrl>, wish: &PaceWish) -> Vec<Command> {
    let command = |url| Command::PaceEndpoint {
        url,
        wish: wish.clone(),
    };
    urls.into_iter().map(command).collect()
}

const PURGE: Aim<QueueName> = Aim::new(Reach::OneRow, emptied, |_, queues| {
    queues.into_iter().map(Command::PurgeQueue).collect()
});

fn vhost_is_missing(state: &State) -> Possible {
    let silent = state.data.snapshot.as_ref().and_then(|snapshot| snapshot.silent);
    require(silent == Some(Silent::Vhost), "the vhost is there")
}

fn redelivered(_: &State, urls: Vec<EndpointUrl>) -> Vec<Command> {
    vec![Command::Redeliver(RedeliverTarget::Urls(urls))]
}

fn through_queue(first: &Pointed<'_>) -> Option<&'static str> {
    matches!(first, Pointed::Queue(_) | Pointed::Opened(..) | Pointed::Retry(_))
        .then_some("acts on the endpoint: all queues of the URL continue")
}

fn endpoint(row: Pointed<'_>) -> Result<EndpointUrl, Reason> {
    let url = match row {
        Pointed::Queue(row) => row.url.as_deref(),
        Pointed::Endpoint(row) => Some(&row.endpoint.url),
        Pointed::Retry(retry) => retry.url.as_ref(),
        Pointed::Opened(_, url) | Pointed::Subject(Subject::Endpoint(url)) => Some(url),
        Pointed::Policy(_)
        | Pointed::Run(_)
        | Pointed::Subject(
            Subject::Queue(_)
            | Subject::Policy(_)
            | Subject::Run(_)
            | Subject::Letter(_)
            | Subject::Compared(_)
            | Subject::Event(_)
            | Subject::EventType(_),
        ) => None,
    };
    match url {
        Some(url) => Ok(url.clone()),
        None => Err("the endpoint of this queue is not known".into()),
    }
}

fn queue(row: Pointed<'_>, paused: bool) -> Result<QueueName, Reason> {
    match row {
        Pointed::Opened(row, _) => queue(Pointed::Queue(row), paused),
        Pointed::Queue(row) if row.kind != QueueKind::Delivery => Err("this is not a delivery queue".into()),
        Pointed::Queue(row) if row.paused && !paused => Err("this queue is paused already".into()),
        Pointed::Queue(row) if !row.paused && paused => Err("this queue is not paused".into()),
        Pointed::Queue(row) => Ok(row.name.clone()),
        Pointed::Retry(Retry { queue: Some(name), .. }) | Pointed::Subject(Subject::Queue(name)) => Ok(name.clone()),
        Pointed::Retry(_) => Err("its queue is not known".into()),
        Pointed::Endpoint(_) | Pointed::Policy(_) | Pointed::Run(_) | Pointed::Subject(_) => {
            Err("only a queue can be paused".into())
        }
    }
}

/// A queue whose messages can be removed.
fn emptied(row: Pointed<'_>) -> Result<QueueName, Reason> {
    match row {
        Pointed::Queue(row) | Pointed::Opened(row, _) if row.depth() == Some(0) => Err("this queue is empty".into()),
        Pointed::Queue(row) | Pointed::Opened(row, _) => Ok(row.name.clone()),
        Pointed::Retry(Retry { queue: Some(name), .. }) | Pointed::Subject(Subject::Queue(name)) => Ok(name.clone()),
        Pointed::Retry(_) => Err("its queue is not known".into()),
        Pointed::Endpoint(_) | Pointed::Policy(_) | Pointed::Run(_) | Pointed::Subject(_) => {
            Err("only a queue has messages".into())
        }
    }
}

/// Whether it is up again is asked before anything is sent to it.
fn is_at_a_down_endpoint(state: &State) -> bool {
    scope::selected(state).is_some_and(|row| matches!(row, Pointed::Endpoint(_)) && is_held_up(row))
}

/// More than one of the listed endpoints holds its queues up.
fn several_are_down(state: &State) -> bool {
    let snapshot = state.data.snapshot.as_ref();
    let down = snapshot.map_or(0, |snapshot| snapshot.totals.endpoints_not_available());
    state.focus() == View::Endpoints && down > 1
}

/// A row that redelivering would help: its endpoint is what holds it up.
const fn is_held_up(row: Pointed<'_>) -> bool {
    match row {
        Pointed::Queue(row) | Pointed::Opened(row, _) => matches!(
            row.state,
            Some(
                QueueState::EndpointUnavailable
                    | QueueState::EndpointDisabled
                    | QueueState::Parked
                    | QueueState::WaitingRetry
            )
        ),
        Pointed::Endpoint(row) => !matches!(row.endpoint.state, EndpointState::Available),
        Pointed::Retry(_) => true,
        Pointed::Policy(_) | Pointed::Run(_) | Pointed::Subject(_) => false,
    }
}

/// Where queues are marked, one of them has to be paused; of very many marks that is found out by the plan.
fn a_marked_one_is_paused(state: &State) -> Possible {
    let marks = &state.lists.queues.marks.ids;
    if state.nav.view != View::Queues || !state.nav.details.is_empty() || !(1..=MARKS_LOOKED_AT).contains(&marks.len())
    {
        return Ok(());
    }
    let mut rows = marks.iter().filter_map(|name| queue_row(state, name));
    let held = |row: &QueueRow| row.paused || row.waits_for_resumed_endpoint();
    require(rows.any(held), "none of the marked queues is paused")
}

fn is_paused(row: Pointed<'_>) -> bool {
    matches!(row, Pointed::Queue(row) | Pointed::Opened(row, _) if row.paused || row.waits_for_resumed_endpoint())
}

/// A row of a filter is acted on only when it does not move by itself.
fn stuck(row: Pointed<'_>) -> Result<(), Reason> {
    let moves = match row {
        // It waits for its endpoint, which is sent to once somebody resumes it.
        Pointed::Queue(row) if row.state == Some(QueueState::Paused) => !row.paused,
        Pointed::Queue(row) => matches!(
            row.state,
            None | Some(QueueState::Delivering | QueueState::Empty | QueueState::Ended | QueueState::RateLimited)
        ),
        Pointed::Endpoint(row) => row.endpoint.state == EndpointState::Available,
        Pointed::Opened(..) | Pointed::Retry(_) | Pointed::Policy(_) | Pointed::Run(_) | Pointed::Subject(_) => false,
    };
    if moves { Err("it is not stuck".into()) } else { Ok(()) }
}
