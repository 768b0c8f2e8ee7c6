//! Snapshots, plans and answers as an engine would give them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Stage;
use crate::console::state::Place;
pub(super) use crate::console::state::State;
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::console::state::keymap::Keymap;
use crate::console::state::settings::{ConsoleSettings, Deliver, Profiles};
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::id::QueueName;
use crate::domain::queue::{QueueKind, QueueState};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::events::EventCommand;
use crate::engine::snapshot::{EndpointRow, Part, QueueFacts, QueueRow, Snapshot};
use crate::engine::view::Retry;
use crate::engine::{Access, Command, Danger, Done, Plan, PlanLine, RedeliverTarget, Redelivered};

pub(super) const START: Timestamp = Timestamp::from_seconds(1_790_000_000);

pub(super) fn settings(access: Access) -> ConsoleSettings {
    ConsoleSettings {
        place: Place {
            broker: "rabbitmq localhost/redrive".to_owned(),
            ..Place::default()
        },
        theme: None,
        keys: BTreeMap::new(),
        mask: Arc::new(crate::domain::mask::MaskRules::usual()),
        refresh: Duration::from_secs(2),
        access,
        actor: "tester".to_owned(),
        reason: None,
        deliver: Deliver::Never,
        profiles: Profiles::default(),
        mouse: false,
        views: crate::console::state::saved::NamedViews::default(),
        preview: true,
        notify: crate::console::state::call::Notify::Off,
        titles: true,
        at: None,
        reload: None,
        survey: None,
    }
}

/// A console that is connected and shows a snapshot.
pub(super) fn stage(snapshot: Snapshot) -> Stage {
    stage_with(Access::Operator, snapshot)
}

pub(super) fn stage_with(access: Access, snapshot: Snapshot) -> Stage {
    let mut stage = Stage::new(State::new(&settings(access), Arc::new(Keymap::default()), START));
    stage.event(Event::Connected);
    stage.event(Event::Snapshot(Arc::new(snapshot)));
    stage
}

/// Three endpoints, of which two are not available, and their queues.
pub(super) fn incident() -> Snapshot {
    snapshot(
        1,
        vec![
            queue(
                "dlv.orders.a",
                Some("https://shop.example/orders"),
                QueueState::EndpointUnavailable,
                40,
            ),
            queue(
                "dlv.orders.b",
                Some("https://shop.example/orders"),
                QueueState::EndpointUnavailable,
                2,
            ),
            queue("dlv.mail.a", Some("https://mail.example/in"), QueueState::Parked, 7),
            queue("dlv.mail.b", Some("https://mail.example/in"), QueueState::Paused, 1),
            queue("dlv.stock.a", Some("https://stock.example/"), QueueState::Delivering, 3),
            queue("dlv.unknown", None, QueueState::Unowned, 5),
        ],
        vec![
            endpoint("https://shop.example/orders", EndpointState::Unavailable),
            endpoint("https://mail.example/in", EndpointState::Parked),
            endpoint("https://stock.example/", EndpointState::Available),
        ],
    )
}

pub(super) fn snapshot(generation: u64, mut queues: Vec<QueueRow>, endpoints: Vec<EndpointRow>) -> Snapshot {
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    let taken_at = START.plus(Duration::from_secs(2 * generation));
    let part = Part {
        problem: None,
        taken_at: Some(taken_at),
    };
    let retries = queues
        .iter()
        .filter(|row| row.state == Some(QueueState::EndpointUnavailable));
    let retries = retries.map(|row| Arc::new(retry(row))).collect();
    Snapshot {
        generation,
        taken_at,
        broker: part.clone(),
        store: part,
        queues: Arc::new(queues.into_iter().map(Arc::new).collect()),
        endpoints: Arc::new(endpoints.into_iter().map(Arc::new).collect()),
        retries: Arc::new(retries),
        ..Snapshot::default()
    }
}

pub(super) fn queue(name: &str, url: Option<&str>, state: QueueState, ready: u64) -> QueueRow {
    QueueRow::from(QueueFacts {
        url: url.map(|url| Arc::new(self::url(url))),
        ready: Some(ready),
        unacked: Some(0),
        state: Some(state),
        paused: state == QueueState::Paused,
        ..QueueFacts::unknown(queue_name(name), QueueKind::Delivery)
    })
}

pub(super) fn queues(count: usize) -> Vec<QueueRow> {
    let queue = |number| {
        queue(
            &format!("dlv.q{number:05}"),
            Some("https://many.example/"),
            QueueState::Parked,
            1,
        )
    };
    (0..count).map(queue).collect()
}

pub(super) fn endpoint(url: &str, state: EndpointState) -> EndpointRow {
    EndpointRow {
        pace: None,
        moving: None,
        endpoint: Endpoint::of(self::url(url), state, START),
        queues: 2,
        waiting: Some(3),
        oldest_at: None,
        delivered: 0,
    }
}

fn retry(row: &QueueRow) -> Retry {
    Retry {
        at: Some(START.plus(Duration::from_secs(30))),
        queue: Some(row.name.clone()),
        url: row.url.as_deref().cloned(),
        message: None,
        phase: None,
        attempt: 2,
        of: Some(9),
    }
}

pub(super) fn url(text: &str) -> EndpointUrl {
    EndpointUrl::parse(text).unwrap()
}

pub(super) fn queue_name(text: &str) -> QueueName {
    QueueName::parse(text).unwrap()
}

/// The request and commands of the only plan that was asked for.
pub(super) fn planned(effects: &[Effect]) -> (u64, Vec<Command>) {
    match effects {
        [Effect::Plan { request, commands }] => (*request, commands.clone()),
        other => panic!("not one plan: {other:?}"),
    }
}

/// The request and the plans of the only execution that was asked for.
pub(super) fn confirmed(effects: &[Effect]) -> (u64, Vec<Plan>) {
    match effects {
        [Effect::Execute { request, plans, .. }] => (*request, plans.clone()),
        other => panic!("not one execution: {other:?}"),
    }
}

pub(super) fn is_execution(effect: &Effect) -> bool {
    matches!(effect, Effect::Execute { .. })
}

pub(super) fn plan(command: &Command) -> Plan {
    let targets = match command {
        Command::Redeliver(RedeliverTarget::Urls(urls))
        | Command::RedeliverPaced {
            target: RedeliverTarget::Urls(urls),
            ..
        } => urls.iter().map(EndpointUrl::redacted).collect(),
        Command::PauseQueue(queue)
        | Command::ResumeQueue(queue)
        | Command::PurgeQueue(queue)
        | Command::RescueQueue(queue) => {
            vec![queue.as_str().to_owned()]
        }
        Command::Events(EventCommand::Cancel(_) | EventCommand::Retry(_) | EventCommand::Reschedule(..)) => {
            vec!["an event".to_owned()]
        }
        Command::Expiring(order) => order.queues().iter().map(|queue| queue.as_str().to_owned()).collect(),
        Command::Events(_)
        | Command::Run(_)
        | Command::ChangeRun { .. }
        | Command::EditDead { .. }
        | Command::PatchDead { .. }
        | Command::Policy(_) => Vec::new(),
        Command::TestEndpoint { url, .. } | Command::PaceEndpoint { url, .. } | Command::DisableEndpoint(url) => {
            vec![url.redacted()]
        }
        other => panic!("the console does not ask for {other:?}"),
    };
    let line = |target| PlanLine {
        target,
        now: "as it was".to_owned(),
        effect: "otherwise".to_owned(),
    };
    Plan {
        command: command.clone(),
        title: command.name().to_owned(),
        lines: targets.into_iter().map(line).collect(),
        warnings: Vec::new(),
        messages: None,
        danger: match command {
            Command::PurgeQueue(_) => Danger::Destroys,
            _ => Danger::Reversible,
        },
        hash: "hash".to_owned(),
        run: None,
        ends_reason: None,
        names: Vec::new(),
    }
}

impl Stage {
    /// Plays the keys that ask for an action, and gives the plans for it.
    pub(super) fn plan(&mut self, script: &str) -> Vec<Command> {
        let effects = self.play(script);
        let effects: Vec<Effect> = effects
            .into_iter()
            .filter(|effect| matches!(effect, Effect::Plan { .. }))
            .collect();
        let (request, commands) = planned(&effects);
        let plans = commands.iter().map(plan).collect();
        self.event(Event::Planned {
            request,
            result: Ok(plans),
        });
        commands
    }

    /// Answers each plan of an execution; `Err` where the reason is given.
    pub(super) fn execute(&mut self, effects: &[Effect], refused: &[(usize, &str)]) -> Vec<Effect> {
        let (request, plans) = confirmed(effects);
        let mut effects = Vec::new();
        for (item, plan) in plans.iter().enumerate() {
            let why = refused.iter().find(|(place, _)| *place == item);
            let result = match why {
                Some((_, why)) => Err((*why).to_owned()),
                None => Ok(Box::new(done(&plan.command))),
            };
            effects.extend(self.event(Event::Executed { request, item, result }));
        }
        effects
    }
}

fn done(command: &Command) -> Done {
    match command {
        Command::Redeliver(RedeliverTarget::Urls(urls)) => {
            let one = |url: &EndpointUrl| Redelivered {
                url: url.clone(),
                before: EndpointState::Unavailable,
                queues: 20,
                paused: false,
            };
            Done::Redelivered(urls.iter().map(one).collect())
        }
        Command::PauseQueue(queue) | Command::ResumeQueue(queue) | Command::PurgeQueue(queue) => Done::Purged {
            queue: queue.clone(),
            messages: 0,
        },
        Command::DisableEndpoint(_) => Done::Redelivered(Vec::new()),
        other => panic!("not executed here: {other:?}"),
    }
}
