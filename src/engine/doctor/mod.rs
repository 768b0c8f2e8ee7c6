//! What an operator should mend: broker, rights, plugins, store, clock, daemons, queues.

mod ahead;
mod broker;
mod incident;

use std::sync::Arc;
use std::time::Duration;

use self::broker::broken;
pub use self::broker::broker_checks;
use super::core::{Core, over_core};
use super::death::as_evident;
use super::error::other_settings;
use super::expiring::Lifetimes;
use super::health::Healing;
use super::queues::Queues;
use super::rules::PolicyGuard;
use super::view::{Check, CheckResult};
use crate::ambient;
use crate::certificates::{Certificates, Ending};
use crate::domain::numbers::Numbers;
use crate::domain::text;
use crate::domain::time::Timestamp;
use crate::domain::words::{lasts, plural};
use crate::store::{AuditEntry, StoreError, StoreHandle};

/// Clocks that differ by more than this are worth a warning, in seconds.
const SKEW_S: u64 = 2;

/// How long an incident is told of.
const INCIDENT: Duration = Duration::from_hours(1);
/// A process whose heartbeats fail for so long delivers nothing.
const BEATS_MISSED: Duration = Duration::from_secs(5);
/// For so long an answer to a write is waited for.
const WRITE_MAX: Duration = Duration::from_secs(4);
/// Notifications of events that wait for longer are told of.
const OUTBOX: Duration = Duration::from_secs(30);
/// A reason is at most this wide.
const ERROR_WIDTH_MAX: usize = 200;
/// Lines of the audit that are looked through for it, the newest.
const AUDIT: u32 = 200;

/// Certificates that this process shows of itself, and that ended or end soon.
#[must_use]
pub fn certificate_checks(certificates: &Certificates, now: Timestamp) -> Vec<Check> {
    let check = |Ending { said, is_over }| {
        let mend = "the file is read again when it changes";
        if is_over {
            Check::broken("certificate", said, mend)
        } else {
            Check::warning("certificate", said, mend)
        }
    };
    certificates.ending(now).into_iter().map(check).collect()
}

#[derive(Debug)]
pub(super) struct Doctor {
    core: Arc<Core>,
    queues: Arc<Queues>,
    lifetimes: Arc<Lifetimes>,
    policy_guard: Arc<PolicyGuard>,
    healing: Arc<Healing>,
}

over_core!(Doctor);

impl Doctor {
    pub(super) fn new(core: &Arc<Core>, queues: &Arc<Queues>, healing: &Arc<Healing>) -> Self {
        Self {
            core: Arc::clone(core),
            queues: Arc::clone(queues),
            lifetimes: Arc::clone(&queues.expiring.lifetimes),
            policy_guard: Arc::clone(&healing.policy_guard),
            healing: Arc::clone(healing),
        }
    }

    /// Everything.
    pub(super) async fn checks(&self) -> Vec<Check> {
        let mut checks = broker_checks(&*self.broker).await;
        if checks.first().is_some_and(|check| check.result == CheckResult::Fine) {
            checks.extend(self.rights_check().await);
        }
        checks.extend(self.store_checks().await);
        checks.extend(self.outbox_check().await);
        checks.extend(self.owner_check().await);
        checks.extend(self.incident_checks().await);
        checks.extend(self.daemon_checks().await);
        checks.extend(self.refused_check());
        checks.extend(self.settings_check().await);
        checks.extend(self.queues.intake_checks().await);
        checks.extend(self.policy_guard.checks().await);
        checks.extend(self.queues.preflight_checks().await);
        checks.extend(self.lifetimes.checks().await);
        checks.extend(certificate_checks(&self.settings.certificates, self.clock.now()));
        checks
    }

    /// Whether everything is still allowed that a daemon does, where its exchange and queues are; nothing is made. It is what a
    /// daemon asks every second.
    async fn rights_check(&self) -> Option<Check> {
        let store = self.healing.store_identity().await.ok()?;
        match self.healing.asked_once(store).await {
            Ok(standing) if standing.missing.is_empty() && !self.broker.is_embedded() => {
                Some(Check::fine("rights", "publishing and delivery are allowed".to_owned()))
            }
            // What is missing is made by a daemon.
            Ok(_) => None,
            Err(error) => Some(broken(
                "rights",
                &error,
                "see the log of the broker: nothing is published or delivered until this works",
            )),
        }
    }

    async fn store_checks(&self) -> Vec<Check> {
        match self.store.now().await {
            Ok(now) => {
                let here = self.clock.now();
                let skew = now.since(here).max(here.since(now)).as_secs();
                // What can be read may take no writes: a full disk, a database that is read-only.
                if let Some(check) = self.write_check().await {
                    return vec![check];
                }
                let mut checks = self.version_checks().await;
                checks.extend(self.database_checks().await);
                if skew > SKEW_S {
                    checks.push(Check::warning(
                        "clock",
                        format!("differs from the store's by {}", lasts(Duration::from_secs(skew))),
                        "synchronise the clocks of both hosts",
                    ));
                }
                if let Ok(endpoints) = self.store.endpoints_not_available().await {
                    checks.extend(ahead::check(&endpoints, now));
                }
                if let Ok(ages) = self.store.ages().await {
                    checks.extend(ahead::doubt(ages, now));
                }
                checks
            }
            Err(error) => vec![Check::broken(
                "store",
                super::error::chain(&error),
                "check store.url, and that the database runs",
            )],
        }
    }

    /// Whether it takes writes: what every daemon writes, and what workers of this process have to write down.
    async fn write_check(&self) -> Option<Check> {
        let why = match ambient::timeout(WRITE_MAX, try_a_write(&self.store)).await {
            Ok(Ok(())) => {
                let (why, since) = self.healing.health.unwritten()?;
                let lasts = lasts(self.clock.now().since(since));
                return Some(Check::broken(
                    "store",
                    format!("takes some writes and not others, for {lasts}: {why}"),
                    "mend that: each queue with a failed attempt waits until it is written down, and nothing is lost",
                ));
            }
            Ok(Err(error @ StoreError::NotWritable { .. })) => {
                return Some(Check::broken(
                    "store",
                    format!("can be read, and takes no writes: {}", super::error::chain(&error)),
                    "make room on its disk, or allow writes: nothing is delivered until then",
                ));
            }
            Ok(Err(error)) => super::error::chain(&error),
            Err(_) => format!("a write is not answered within {}", lasts(WRITE_MAX)),
        };
        Some(Check::broken(
            "store",
            format!("can be read, and takes no writes at present: {why}"),
            "find who holds its lock and end that: `fuser FILE` names the processes that have an SQLite file open, and \
             pg_stat_activity has the sessions of a PostgreSQL",
        ))
    }

    async fn version_checks(&self) -> Vec<Check> {
        let kind = self.store.kind();
        match self.store.version().await {
            Ok(version) => {
                let fine = Check::fine("store", format!("{kind} {}", version.text));
                let warning = version
                    .warning
                    .map(|text| Check::warning("store", text, "see Versions in docs/operations.md"));
                [fine].into_iter().chain(warning).collect()
            }
            Err(error) => vec![Check::broken(
                "store",
                super::error::chain(&error),
                "check store.url, and that the database runs",
            )],
        }
    }

    /// What the database keeps from this program: rights that its user lacks, and what others have locked.
    async fn database_checks(&self) -> Vec<Check> {
        let (lacking, locked) = match (self.store.missing_rights().await, self.store.foreign_locks(None).await) {
            (Ok(lacking), Ok(locked)) => (lacking, locked),
            (Err(error), _) | (_, Err(error)) => return vec![Check::unread("database", &super::error::chain(&error))],
        };
        let lacking = lacking.map(|lacking| Check::broken("database", lacking.lacks, &lacking.mend));
        let locked = locked.into_iter().map(|lock| {
            let found = format!(
                "{} holds locks on {}: what needs the same rows waits until its transaction ends",
                lock.by, lock.tables
            );
            Check::warning("database", found, &lock.mend)
        });
        lacking.into_iter().chain(locked).collect()
    }

    /// Notifications of handled events that are not on the broker yet: nothing else tells of them.
    async fn outbox_check(&self) -> Option<Check> {
        let waiting = match self.store.outbox_waiting().await {
            Ok(waiting) => waiting,
            Err(error) => return Some(Check::unread("outbox", &super::error::chain(&error))),
        };
        let waits_for = self.clock.now().since(waiting.oldest?);
        if waits_for < OUTBOX {
            return None;
        }
        let why = waiting
            .error
            .map(|error| format!(": {}", text::show(&error, ERROR_WIDTH_MAX)))
            .unwrap_or_default();
        let found = format!(
            "{} of handled events not published yet, for up to {}{why}",
            plural(waiting.count, "notification", "notifications"),
            lasts(waits_for)
        );
        let mend = "they are kept, and a daemon with a [[handler]] publishes them in order once the broker takes them: see \
                    what is said of broker and daemon";
        Some(Check::warning("outbox", found, mend))
    }

    /// Whose daemons deliver what is on the broker; nothing is said where that cannot be looked at.
    async fn owner_check(&self) -> Option<Check> {
        match self.healing.compare_owner().await {
            Ok(()) => None,
            Err(error) => Some(Check::broken(
                "identity",
                super::error::chain(&error),
                "see `redrive store adopt --help`",
            )),
        }
    }

    async fn incidents(&self) -> Result<Vec<AuditEntry>, StoreError> {
        let now = self.clock.now();
        let mut entries = self.store.audit_list(None, AUDIT).await?;
        entries.retain(|one| one.entry.command == super::health::COMMAND && now.since(one.at) < INCIDENT);
        Ok(entries)
    }

    /// The newest of them that is one.
    pub(super) async fn incident(&self) -> Option<String> {
        // The store has its own place in what tells of incidents.
        let all = self.incidents().await.ok()?;
        let newest = all.into_iter().find(|one| one.entry.result != super::health::BOUND)?;
        Some(format!("{}: {}", newest.entry.result, newest.entry.detail))
    }

    /// Why what is to become a dead letter waits.
    pub(super) async fn letters_wait(&self) -> Option<String> {
        self.policy_guard.letters_wait().await
    }

    /// What was gone from the broker lately, as the daemons wrote it down.
    async fn incident_checks(&self) -> Vec<Check> {
        let incidents = match self.incidents().await {
            Ok(incidents) => incidents.into_iter(),
            Err(error) => return vec![Check::unread("incident", &super::error::chain(&error))],
        };
        incidents.map(|line| incident::check(&line.entry)).collect()
    }

    /// What the broker keeps this process from.
    fn refused_check(&self) -> Option<Check> {
        let (problem, _) = self.seen.unattached.problem(self.clock.now())?;
        let mend = "mend what the broker says: each of them is tried again every few seconds";
        Some(Check::broken("refused queues", problem, mend))
    }

    /// Whether the daemons of the store have the settings of this process, or had them last.
    async fn settings_check(&self) -> Option<Check> {
        let (found, own) = (
            self.store.fingerprint().await.ok()??,
            self.settings.naming.fingerprint(),
        );
        if found == own {
            return None;
        }
        let why = other_settings(&found, None, 0, &own);
        let mend = "until then no queue can be made with these settings";
        Some(match self.daemons_living().await {
            Ok(0) => Check::warning("settings", why, mend),
            Ok(_) | Err(_) => Check::broken("settings", why, mend),
        })
    }

    /// How many daemons are alive, by the evidence.
    async fn daemons_living(&self) -> Result<usize, StoreError> {
        let living = as_evident(&self.store, self.store.incarnations_living().await?).await?;
        Ok(living.iter().filter(|one| one.alive && one.delivers).count())
    }

    async fn daemon_checks(&self) -> Vec<Check> {
        if let Some((why, since)) = self.healing.health.beat_problem() {
            return vec![if self.clock.now().since(since) < BEATS_MISSED {
                Check::warning(
                    "daemon",
                    format!("its last heartbeat did not reach the store: {why}"),
                    "ask again in a few seconds: it goes on delivering until then",
                )
            } else {
                Check::broken(
                    "daemon",
                    format!("this process delivers nothing: its heartbeats do not reach the store: {why}"),
                    "mend that; a password that was changed is read again when the daemon is restarted",
                )
            }];
        }
        let daemons = match self.daemons_living().await {
            Ok(daemons) => daemons,
            Err(error) => return vec![Check::unread("daemon", &super::error::chain(&error))],
        };
        vec![if daemons == 0 {
            Check::warning(
                "daemon",
                "none is alive".to_owned(),
                "start `redrive --daemon`: nothing is delivered without it",
            )
        } else {
            Check::fine("daemon", format!("{daemons} alive"))
        }]
    }
}

/// Draws an epoch that nobody gets: a write that changes nothing would not reach the disk.
async fn try_a_write(store: &StoreHandle) -> Result<(), StoreError> {
    let epoch = store.numbers().await?.epoch;
    let above = Numbers {
        epoch,
        ..Numbers::default()
    };
    store.numbers_raise(above).await?;
    // That row is written over where it stands.
    store.find_room().await
}
