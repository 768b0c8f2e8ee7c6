//! Starts of daemons. The evidence of their lives is each driver's.

use async_trait::async_trait;

use super::queues::PAGE;
use super::{Calls, Driver, Row, Session, Statement, values};
use crate::domain::id::IncarnationId;
use crate::domain::naming::Naming;
use crate::domain::time::Timestamp;
use crate::store::columns::{Columns, incarnation, integer, number, queue_record, text};
use crate::store::{Beat, Begun, Evidence, Incarnation, Incarnations, NewIncarnation, StoreError};

macro_rules! listed {
    ($which:literal) => {
        Statement::new(concat!(
            "SELECT id, name, host, pid, counter, alive, fingerprint, take_over, deadline, machine, \
             process_started, started_at, beat_at, \
             (SELECT count(*) FROM redrive.delivery_queues AS q WHERE q.owner = i.id) AS leases \
             FROM redrive.incarnations AS i WHERE ",
            $which,
            " ORDER BY id DESC"
        ))
    };
}

/// Rows that are looked through at once.
const PAGE_ROWS: u32 = 1_000;
/// Longer than the list shows them, dead incarnations are of no use.
const DAY_MICROS: i64 = 86_400_000_000;

static SETTINGS: Statement = Statement::new("SELECT minimum_version, fingerprint FROM redrive.settings FOR UPDATE");
static SETTINGS_FINGERPRINT: Statement = Statement::new("UPDATE redrive.settings SET fingerprint = $1");
static FINGERPRINT: Statement = Statement::new("SELECT fingerprint FROM redrive.settings");
/// One that is silent for its take-over time counts no more, whether somebody marked it dead or not.
static LIVING_UNDER_OTHERS: Statement = Statement::new(
    "SELECT name, host FROM redrive.incarnations \
     WHERE alive AND fingerprint <> $1 AND beat_at > redrive.store_now() - take_over ORDER BY id DESC LIMIT 1",
);
static QUEUE_COUNT: Statement = Statement::new("SELECT count(*) AS count FROM redrive.delivery_queues");
static INSERT: Statement = Statement::new(
    "INSERT INTO redrive.incarnations (name, host, pid, version, fingerprint, take_over, alive, started_at, beat_at, \
     deadline, machine, process_started) \
     VALUES ($1, $2, $3, $4, $5, $6, TRUE, $7, $7, $8, $9, $10) RETURNING id",
);
static FORGET_OLD: Statement = Statement::new(
    "DELETE FROM redrive.incarnations AS i WHERE NOT alive AND ended_at < $1 \
     AND NOT EXISTS (SELECT 1 FROM redrive.delivery_queues AS q WHERE q.owner = i.id) RETURNING id",
);
static BEAT: Statement = Statement::new(
    "UPDATE redrive.incarnations AS i SET counter = counter + 1, beat_at = redrive.store_now() \
     FROM redrive.settings AS s WHERE i.id = $1 AND i.alive AND i.version >= s.minimum_version \
     AND (i.fingerprint IS NULL OR i.fingerprint = s.fingerprint)",
);
/// Waits for whoever takes leases for it at this moment, as [`MARK_DEAD`] does.
static END: Statement = Statement::new(
    "WITH locked AS (SELECT id FROM redrive.incarnations WHERE id = $1 AND alive FOR UPDATE) \
     UPDATE redrive.incarnations AS i SET alive = FALSE, ended_at = redrive.store_now() FROM locked \
     WHERE i.id = locked.id AND i.alive",
);
static LEASES_LOCK: Statement = Statement::new(
    "SELECT name FROM redrive.delivery_queues WHERE owner = $1 OR wanted_by_incarnation = $1 ORDER BY name FOR UPDATE",
);
static FREE_LEASES: Statement = Statement::new("UPDATE redrive.delivery_queues SET owner = NULL WHERE owner = $1");
static END_WISHES: Statement =
    Statement::new("UPDATE redrive.delivery_queues SET wanted_by_incarnation = NULL WHERE wanted_by_incarnation = $1");
static MARK_DEAD: Statement = Statement::new(
    "WITH locked AS (SELECT id FROM redrive.incarnations WHERE id = $1 AND alive AND counter = $2 FOR UPDATE) \
     UPDATE redrive.incarnations AS i SET alive = FALSE, ended_at = redrive.store_now() FROM locked \
     WHERE i.id = locked.id AND i.alive AND i.counter = $2",
);
/// All of them: a limit may cut only what is over.
static LIVING: Statement = listed!("alive");
static RECENT: Statement = listed!(
    "alive OR id IN (SELECT id FROM redrive.incarnations \
     WHERE NOT alive AND ended_at > redrive.store_now() - $1 ORDER BY id DESC LIMIT 200)"
);

/// What proves that an incarnation lives.
#[async_trait]
pub(in crate::store) trait LifeEvidence: Driver {
    /// Begins with its evidence of life held.
    async fn begin(&self, new: NewIncarnation) -> Result<Begun, StoreError>;

    /// Whether its heartbeat counts.
    async fn beat(&self, id: IncarnationId) -> Result<bool, StoreError>;

    /// Lets go of the evidence of one that ended, or did not when it should have.
    async fn let_go(&self, id: IncarnationId, ended: &Result<(), StoreError>);

    async fn look(&self, id: IncarnationId) -> Result<Evidence, StoreError>;
}

#[async_trait]
impl<D: LifeEvidence> Incarnations for D {
    async fn incarnation_begin(&self, new: NewIncarnation) -> Result<Begun, StoreError> {
        self.begin(new).await
    }

    async fn heartbeat(&self, id: IncarnationId) -> Result<Beat, StoreError> {
        Ok(if self.beat(id).await? {
            Beat::Alive
        } else {
            Beat::Disowned
        })
    }

    async fn incarnation_end(&self, id: IncarnationId) -> Result<(), StoreError> {
        let ended = self.transaction("ending an incarnation", move |mut session, _| {
            Box::pin(async move {
                session.change(&END, values![id]).await?;
                session.lock(&LEASES_LOCK, values![id]).await?;
                session.change(&FREE_LEASES, values![id]).await?;
                session.change(&END_WISHES, values![id]).await.map(drop)
            })
        });
        let ended = ended.await;
        self.let_go(id, &ended).await;
        ended
    }

    async fn incarnations(&self) -> Result<Vec<Incarnation>, StoreError> {
        self.list("listing incarnations", &RECENT, values![DAY_MICROS], incarnation)
            .await
    }

    async fn incarnations_living(&self) -> Result<Vec<Incarnation>, StoreError> {
        self.list("listing incarnations", &LIVING, values![], incarnation).await
    }

    async fn fingerprint(&self) -> Result<Option<String>, StoreError> {
        let read = |row: &Row| row.text("fingerprint");
        self.one("reading the settings", &FINGERPRINT, values![], read).await
    }

    async fn evidence(&self, id: IncarnationId) -> Result<Evidence, StoreError> {
        self.look(id).await
    }

    async fn incarnation_mark_dead(&self, id: IncarnationId, counter: i64) -> Result<bool, StoreError> {
        let marked = self.change("marking an incarnation dead", &MARK_DEAD, values![id, counter]);
        Ok(marked.await? == 1)
    }
}

/// Raises the counter; whether it counts.
pub(in crate::store) async fn beat(session: &mut Session<'_>, id: IncarnationId) -> Result<bool, sqlx::Error> {
    Ok(session.change(&BEAT, values![id]).await? == 1)
}

/// Other settings are replaced only while nobody alive works with them and no queue exists under them, and not by one
/// that was disowned by them.
pub(in crate::store) async fn refusal(
    session: &mut Session<'_>,
    new: &NewIncarnation,
) -> Result<Option<Begun>, sqlx::Error> {
    let settings = |row: &Row| Ok((integer(row, "minimum_version")?, row.text("fingerprint")?));
    let (minimum, found) = session.one(&SETTINGS, values![], settings).await?;
    if new.version < minimum {
        return Ok(Some(Begun::TooOld { minimum }));
    }
    let Some(naming) = &new.naming else {
        return Ok(None);
    };
    let fingerprint = naming.fingerprint();
    if found.as_ref() == Some(&fingerprint) {
        return Ok(None);
    }
    if let Some(found) = found {
        let name = |row: &Row| Ok(format!("{} on {}", text(row, "name")?, text(row, "host")?));
        let living = session
            .list(&LIVING_UNDER_OTHERS, values![&fingerprint], name)
            .await?
            .pop();
        let queues = queues_of_others(session, naming, &found).await?;
        if living.is_some() || queues > 0 || !new.replaces_settings {
            return Ok(Some(Begun::OtherSettings { found, living, queues }));
        }
    }
    session.change(&SETTINGS_FINGERPRINT, values![&fingerprint]).await?;
    Ok(None)
}

/// How many queues there are, where any of them may be of the settings that were `found`: that `naming` gives all of them their
/// names says that they are its own, unless the others give them the same names.
async fn queues_of_others(session: &mut Session<'_>, naming: &Naming, found: &str) -> Result<u64, sqlx::Error> {
    let (mut after, mut are_own) = (String::new(), !naming.names_as(found));
    while are_own {
        let page = session.list(&PAGE, values![&after, PAGE_ROWS], queue_record).await?;
        let Some(last) = page.last() else { return Ok(0) };
        last.name.as_str().clone_into(&mut after);
        are_own = page.iter().all(|record| naming.names(record));
    }
    session.one(&QUEUE_COUNT, values![], |row| number(row, "count")).await
}

/// The row of a new one, and who was forgotten for it.
pub(in crate::store) async fn insert(
    session: &mut Session<'_>,
    new: &NewIncarnation,
    now: Timestamp,
) -> Result<(IncarnationId, Vec<IncarnationId>), sqlx::Error> {
    let id = |row: &Row| integer(row, "id").map(IncarnationId);
    let old = now.micros().saturating_sub(DAY_MICROS);
    let forgotten = session.list(&FORGET_OLD, values![old], id).await?;
    let values = values![
        &new.name,
        &new.host,
        new.pid,
        new.version,
        new.fingerprint(),
        new.take_over,
        now,
        new.deadline,
        &new.process.machine,
        new.process.started,
    ];
    Ok((session.one(&INSERT, values, id).await?, forgotten))
}
