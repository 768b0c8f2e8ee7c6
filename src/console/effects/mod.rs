//! Carries effects out: each is begun at once and answers with an event, and none holds up the screen.
//!
//! Where only the newest answer counts (a list's order, a detail), a newer request replaces an older
//! one. What was confirmed is carried out in order, one at a time, to its end: also when the console
//! is left meanwhile. Read-only access has no grant, so nothing it could ask for is ever executed.

mod arrange;
mod events;
mod feed;
mod look;
mod save;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use self::arrange::Arranger;
use crate::ambient::{self, Clock};
use crate::console::state::effect::{Effect, RevealJob};
use crate::console::state::event::{Event, Input};
use crate::console::state::profiles::Condition;
use crate::console::state::settings::{LookProblem, Reload, Survey};
use crate::domain::time::Timestamp;
use crate::engine::error::chain;
use crate::engine::observe::Observer;
use crate::engine::query;
use crate::engine::runs::RunView;
use crate::engine::{Access, Command, Done, EngineHandle, Plan, WriteGrant};

/// A profile that has not answered by then counts as silent.
const SURVEY_MAX: Duration = Duration::from_secs(15);
/// How long it is tried to open one before the console goes there.
const TRY_MAX: Duration = Duration::from_secs(3);
/// Plans made at once.
const PLANS_AT_ONCE: usize = 4;
/// What is asked for while there is no engine is refused with this.
const NOT_CONNECTED: &str = "not connected yet";
/// Where there is no configuration to read again.
const NO_CONFIGURATION: &str = "no configuration file is in use: there is nothing to read again";
/// What read-only access is told.
const READ_ONLY: &str = "read-only: nothing was changed";

/// The open engine, once there is one.
#[derive(Clone, Debug)]
pub struct Link {
    /// To ask and to act.
    pub engine: EngineHandle,
    /// To look at once.
    pub observer: Observer,
}

/// Who acts, for the audit.
#[derive(Clone, Debug)]
pub struct Actor {
    /// Whether anything may be changed.
    pub access: Access,
    /// Who.
    pub name: String,
    /// Why.
    pub reason: Option<String>,
    /// Whether a time for changes can be opened.
    pub window: bool,
}

impl Actor {
    /// Opens the time for changes, where that is possible, or closes it.
    fn open(&mut self, window: Option<(Timestamp, String)>) {
        if !self.window {
            return;
        }
        match window {
            Some((until, reason)) => {
                self.access = Access::Until(until);
                self.reason = Some(reason);
            }
            None => self.access = Access::ReadOnly,
        }
    }

    /// For something that is done for this reason.
    fn because(mut self, reason: Option<String>) -> Self {
        self.reason = reason.or(self.reason);
        self
    }

    /// The permission that it has now.
    fn grant(&self) -> Option<WriteGrant> {
        self.access.grant(&self.name, self.reason.clone())
    }
}

/// Who acts, with what he may at present.
#[derive(Debug)]
struct Authority {
    actor: Actor,
    grants: watch::Sender<Option<WriteGrant>>,
}

impl Authority {
    fn of(actor: Actor) -> Self {
        let grants = watch::Sender::new(actor.grant());
        Self { actor, grants }
    }

    /// Opens the time for changes, where that is possible, or closes it; tells who follows the permission.
    fn open(&mut self, window: Option<(Timestamp, String)>) {
        self.actor.open(window);
        self.grants.send_replace(self.actor.grant());
    }
}

/// A task of which only the newest counts.
#[derive(Debug, Default)]
struct Newest(Option<JoinHandle<()>>);

impl Newest {
    /// Ends the older one.
    fn replace(&mut self, task: JoinHandle<()>) {
        if let Some(older) = self.0.replace(task) {
            older.abort();
        }
    }
}

/// Carries effects out.
#[derive(Debug)]
pub struct Executor {
    link: Arc<OnceLock<Link>>,
    authority: Authority,
    inputs: mpsc::Sender<Input>,
    clock: Clock,
    arranger: Arranger,
    look: Newest,
    feed: Newest,
    reload: Option<Reload>,
    survey: Option<Survey>,
    executions: TaskTracker,
}

impl Executor {
    /// `link` is filled once store and broker are open; answers go to `inputs`.
    #[must_use]
    pub fn new(link: Arc<OnceLock<Link>>, actor: Actor, inputs: mpsc::Sender<Input>, clock: Clock) -> Self {
        Self {
            arranger: Arranger::new(inputs.clone()),
            link,
            authority: Authority::of(actor),
            inputs,
            clock,
            look: Newest::default(),
            feed: Newest::default(),
            reload: None,
            survey: None,
            executions: TaskTracker::new(),
        }
    }

    /// The permission that the actor has, and each change of it.
    #[must_use]
    pub fn grants(&self) -> watch::Receiver<Option<WriteGrant>> {
        self.authority.grants.subscribe()
    }

    /// How the configuration is read again.
    #[must_use]
    pub fn reading(mut self, reload: Option<Reload>) -> Self {
        self.reload = reload;
        self
    }

    /// How other profiles are looked at.
    #[must_use]
    pub fn surveying(mut self, survey: Option<Survey>) -> Self {
        self.survey = survey;
        self
    }

    /// Begins it. What concerns the terminal is the loop's own.
    pub fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Refresh => {
                if let Some(link) = self.link.get() {
                    link.observer.look_now();
                }
            }
            Effect::Arrange(job) => self.arranger.submit(job),
            Effect::Look(query) => {
                let (link, inputs, now) = (self.link.get().cloned(), self.inputs.clone(), self.clock.now());
                self.look.replace(ambient::spawn("console look", async move {
                    let answer = look::up(link, query, now).await;
                    let _ = inputs.send(Event::Detail(Box::new(answer)).into()).await;
                }));
            }
            Effect::Feed(query) => {
                let (link, inputs, clock) = (self.link.get().cloned(), self.inputs.clone(), self.clock.clone());
                self.feed.replace(ambient::spawn("console feed", async move {
                    let fed = feed::ask(link, query, &clock).await;
                    let _ = inputs.send(Event::Fed(fed).into()).await;
                }));
            }
            Effect::Find(job) => {
                let inputs = self.inputs.clone();
                tokio::task::spawn_blocking(move || inputs.blocking_send(Event::Found(job.run()).into()));
            }
            Effect::Save(job) => {
                let inputs = self.inputs.clone();
                tokio::task::spawn_blocking(move || inputs.blocking_send(Event::Saved(save::write(&job)).into()));
            }
            Effect::Survey(profiles) => self.look_at(profiles),
            Effect::TryProfile(profile) => self.try_profile(profile),
            Effect::Check => self.check(),
            Effect::Outcome(run) => self.outcome(*run),
            Effect::Keep { path, text } => self.keep(path, text),
            Effect::Window(window) => self.authority.open(window),
            Effect::Pace(refresh) => {
                if let Some(link) = self.link.get() {
                    link.observer.set_refresh(refresh);
                }
            }
            Effect::Reload => {
                let (reload, inputs) = (self.reload.clone(), self.inputs.clone());
                tokio::task::spawn_blocking(move || {
                    let read = reload.map_or_else(|| Err(NO_CONFIGURATION.to_owned()), |reload| reload.read());
                    inputs.blocking_send(Event::Reloaded(read.map(Box::new)).into())
                });
            }
            Effect::Plan { request, commands } => self.plan(request, commands),
            Effect::Execute { request, plans, reason } => self.execute(request, plans, reason),
            Effect::Reveal(job) => self.reveal(job),
            Effect::Copy(_)
            | Effect::Call(_)
            | Effect::Screen { .. }
            | Effect::Theme(_)
            | Effect::Profile(_)
            | Effect::Again
            | Effect::Mouse
            | Effect::Edit(_)
            | Effect::Suspend
            | Effect::Quit => {}
        }
    }

    fn keep(&self, path: PathBuf, text: String) {
        let inputs = self.inputs.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(why) = save::keep(&path, &text) {
                let _ = inputs.blocking_send(Event::Kept(why).into());
            }
        });
    }

    /// One after the other would be as slow as the slowest: all at once, each within its bound.
    fn look_at(&self, profiles: Vec<String>) {
        for profile in profiles {
            let (survey, inputs) = (self.survey.clone(), self.inputs.clone());
            ambient::spawn("console survey", async move {
                let looked = match survey {
                    Some(survey) => ambient::timeout(SURVEY_MAX, survey.look(profile.clone())).await,
                    None => Ok(Err(LookProblem {
                        text: NO_CONFIGURATION.to_owned(),
                        is_closed: false,
                    })),
                };
                let result = match looked {
                    Ok(result) => result.map_err(|problem| problem.text),
                    Err(_) => Err(format!("no answer within {} s", SURVEY_MAX.as_secs())),
                };
                let result = result.map(|snapshot| Box::new(Condition::of(&snapshot)));
                let _ = inputs.send(Event::Surveyed { profile, result }.into()).await;
            });
        }
    }

    /// Whether a console can be opened there, before this one is left for it. What has not answered by then is waited for
    /// there, where it is seen why.
    fn try_profile(&self, profile: String) {
        let (survey, inputs) = (self.survey.clone(), self.inputs.clone());
        ambient::spawn("console profile", async move {
            let looked = match survey {
                Some(survey) => ambient::timeout(TRY_MAX, survey.look(profile.clone())).await.ok(),
                None => None,
            };
            let closed = looked.and_then(Result::err).filter(|problem| problem.is_closed);
            let closed = closed.map(|problem| problem.text);
            let _ = inputs.send(Event::Tried { profile, closed }.into()).await;
        });
    }

    /// What doctor finds.
    fn check(&self) {
        let (link, inputs) = (self.link.get().cloned(), self.inputs.clone());
        ambient::spawn("console health", async move {
            let result = match link {
                Some(link) => link.engine.query(query::Doctor()).await.map_err(|error| chain(&error)),
                None => Err(NOT_CONNECTED.to_owned()),
            };
            let _ = inputs.send(Event::Checked(result).into()).await;
        });
    }

    /// What came of a run that is over.
    fn outcome(&self, last: RunView) {
        let (link, inputs) = (self.link.get().cloned(), self.inputs.clone());
        ambient::spawn("console outcome", async move {
            let read = match link {
                Some(link) => look::outcome(&link.engine, &last.record.id).await.ok(),
                None => None,
            };
            let _ = inputs.send(Event::Ended(Box::new(read.unwrap_or(last))).into()).await;
        });
    }

    /// What was confirmed and has not ended.
    #[must_use]
    pub fn executions(&self) -> Executions {
        Executions(self.executions.clone())
    }

    fn plan(&self, request: u64, commands: Vec<Command>) {
        let (link, inputs) = (self.link.get().cloned(), self.inputs.clone());
        ambient::spawn("console plan", async move {
            let result = plan_all(link, commands).await;
            let _ = inputs.send(Event::Planned { request, result }.into()).await;
        });
    }

    fn reveal(&self, job: RevealJob) {
        let (link, inputs, actor) = (
            self.link.get().cloned(),
            self.inputs.clone(),
            self.authority.actor.clone(),
        );
        ambient::spawn("console reveal", async move {
            let result = reveal_one(link.as_ref(), &actor, &job).await;
            let key = job.key;
            let _ = inputs.send(Event::Revealed { key, result }.into()).await;
        });
    }

    fn execute(&self, request: u64, plans: Vec<Plan>, reason: Option<String>) {
        let (link, inputs) = (self.link.get().cloned(), self.inputs.clone());
        let actor = self.authority.actor.clone().because(reason);
        let token = self.executions.token();
        ambient::spawn("console execute", async move {
            for (item, plan) in plans.iter().enumerate() {
                let result = execute_one(link.as_ref(), &actor, plan).await.map(Box::new);
                // A screen that was left meanwhile is no reason to stop half-way.
                let _ = inputs.send(Event::Executed { request, item, result }.into()).await;
            }
            if let Some(link) = link {
                link.observer.look_now();
            }
            drop(token);
        });
    }
}

/// Shown is what the audit has: who may not change anything cannot be written down either.
async fn reveal_one(link: Option<&Link>, actor: &Actor, job: &RevealJob) -> Result<(), String> {
    let grant = actor.grant();
    let grant = grant.ok_or_else(|| READ_ONLY.to_owned())?;
    let link = link.ok_or_else(|| NOT_CONNECTED.to_owned())?;
    let revealed = link.engine.reveal(&job.reveal, &grant).await;
    revealed.map_err(|error| chain(&error))
}

/// What was confirmed and has not ended; outlives the screen.
#[derive(Clone, Debug)]
pub struct Executions(TaskTracker);

impl Executions {
    /// Waits for their end, up to `bound`; says whether they ended.
    pub async fn end(&self, bound: Duration) -> bool {
        self.0.close();
        ambient::timeout(bound, self.0.wait()).await.is_ok()
    }
}

/// In the order of the commands; the first that cannot be planned is the answer.
async fn plan_all(link: Option<Link>, commands: Vec<Command>) -> Result<Vec<Plan>, String> {
    let link = link.ok_or_else(|| NOT_CONNECTED.to_owned())?;
    let engine = &link.engine;
    let plan = async |command: Command| {
        let planned = engine.plan(command).await;
        planned.map_err(|error| chain(&error))
    };
    stream::iter(commands)
        .map(plan)
        .buffered(PLANS_AT_ONCE)
        .try_collect()
        .await
}

async fn execute_one(link: Option<&Link>, actor: &Actor, plan: &Plan) -> Result<Done, String> {
    let grant = actor.grant();
    let grant = grant.ok_or_else(|| READ_ONLY.to_owned())?;
    let link = link.ok_or_else(|| NOT_CONNECTED.to_owned())?;
    let done = link.engine.execute(plan, &grant).await;
    done.map_err(|error| chain(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::QueueName;
    use crate::domain::url::EndpointUrl;
    use crate::engine::{Danger, RedeliverTarget};

    fn every_command() -> Vec<Command> {
        let queue = || QueueName::parse("q").unwrap();
        let url = || EndpointUrl::parse("http://127.0.0.1/hook").unwrap();
        vec![
            Command::Redeliver(RedeliverTarget::All),
            Command::Redeliver(RedeliverTarget::Urls(vec![url()])),
            Command::PauseQueue(queue()),
            Command::ResumeQueue(queue()),
            Command::PurgeQueue(queue()),
            Command::DeleteQueue(queue()),
            Command::RescueQueue(queue()),
            Command::TestEndpoint {
                url: url(),
                method: None,
            },
            Command::DisableEndpoint(url()),
        ]
    }

    fn plan(command: Command) -> Plan {
        Plan::of(command, 0, Danger::Reversible)
    }

    fn executor(access: Access) -> (Executor, mpsc::Receiver<Input>) {
        let (inputs, receiver) = mpsc::channel(64);
        let actor = Actor {
            access,
            name: "test".to_owned(),
            reason: None,
            window: false,
        };
        (Executor::new(Arc::default(), actor, inputs, Clock::system()), receiver)
    }

    /// What came of executing every command there is, in order.
    async fn executed(access: Access) -> Vec<String> {
        let (mut executor, mut inputs) = executor(access);
        let plans: Vec<Plan> = every_command().into_iter().map(plan).collect();
        let count = plans.len();
        executor.carry_out(Effect::Execute {
            request: 7,
            plans,
            reason: None,
        });
        let mut results = Vec::new();
        while results.len() < count {
            let input = inputs.recv().await.unwrap();
            let Input::Event(Event::Executed {
                request: 7,
                item,
                result,
            }) = input
            else {
                panic!("{input:?}");
            };
            assert_eq!(item, results.len());
            results.push(result.unwrap_err());
        }
        assert!(executor.executions().end(Duration::from_secs(30)).await);
        results
    }

    #[tokio::test]
    async fn read_only_access_executes_nothing() {
        for why in executed(Access::ReadOnly).await {
            assert_eq!(why, READ_ONLY);
        }
        for why in executed(Access::Operator).await {
            assert_eq!(why, NOT_CONNECTED);
        }
    }

    #[tokio::test]
    async fn what_is_asked_before_there_is_an_engine_is_answered_with_that() {
        let (mut executor, mut inputs) = executor(Access::Operator);
        executor.carry_out(Effect::Refresh);
        executor.carry_out(Effect::Plan {
            request: 3,
            commands: every_command(),
        });
        let Some(Input::Event(Event::Planned { request: 3, result })) = inputs.recv().await else {
            panic!("a refusal");
        };
        assert_eq!(result.unwrap_err(), NOT_CONNECTED);
        let query = crate::console::state::detail::DetailQuery {
            subject: crate::console::state::detail::Subject::Queue(QueueName::parse("q").unwrap()),
            extent: crate::console::state::detail::Extent::WithMessages,
        };
        executor.carry_out(Effect::Look(query));
        let Some(Input::Event(Event::Detail(answer))) = inputs.recv().await else {
            panic!("an answer");
        };
        assert_eq!(answer.queue, Some(Err(NOT_CONNECTED.to_owned())));
        assert!(matches!(answer.messages, Some(Err(_))) && answer.attempts.is_err());
    }
}
