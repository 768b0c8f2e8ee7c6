//! How a session with the server begins, and with which servers none does.
//!
//! Promises: what we set for a session is set by the session itself, not by its start, which a pooler may not pass on;
//! no session stays with a server that takes no writes (a standby, or a primary that was demoted); a pooler that gives
//! each transaction another session is found out before anything is done through it, as neither locks nor settings
//! stay with us there.

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection, Row};

use super::error::{Whereabouts, refused_address};
use super::{CONNECTIONS_MAX, error};
use crate::ambient::{self, Clock, timeout};
use crate::domain::database;
use crate::store::StoreError;

/// What of each session differs from the server's defaults, whatever the role's and the database's are. The keep-alive
/// lets the server notice within some 15 s that a host is gone, which frees its evidence of life.
const SESSION: [(&str, &str); 6] = [
    ("synchronous_commit", "on"),
    ("default_transaction_isolation", "read committed"),
    ("statement_timeout", "30s"),
    ("tcp_keepalives_idle", "5"),
    ("tcp_keepalives_interval", "3"),
    ("tcp_keepalives_count", "3"),
];
/// A server in recovery says `on`, and so does a role that may only read.
const TAKES_NO_WRITES: &str = "SELECT current_setting('transaction_read_only')";
/// Which session this is, and what was noted in it.
const WHICH: &str = "SELECT pg_backend_pid()::text || ' ' || COALESCE(current_setting('redrive.session', true), '')";
/// How often two sessions are mixed to see whether they stay apart.
const MIXED: usize = 2;

/// Where the server is, and what our sessions with it are like.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) options: PgConnectOptions,
    /// The assignments of a session, as one statement.
    settings: String,
    /// Why a session was refused: all that a caller of the pool sees is that there is none.
    pub(super) refused: Arc<Refused>,
    pub(super) whereabouts: Whereabouts,
}

/// The last one, and when (uptime) it was.
#[derive(Default)]
pub(super) struct Refused(Mutex<Option<(Duration, Refusal)>>);

/// Why the server gave no session.
#[derive(Clone)]
pub(super) enum Refusal {
    /// It takes no writes.
    ReadOnly,
    /// It has no room for one more; in words.
    Full(String),
}

impl Refused {
    fn note(&self, refusal: Option<Refusal>) {
        let refusal = refusal.map(|refusal| (Clock::system().uptime(), refusal));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
    }

    pub(super) fn within(&self, span: Duration) -> Option<Refusal> {
        let (at, refusal) = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        (Clock::system().uptime().saturating_sub(at) <= span).then_some(refusal)
    }
}

impl Server {
    pub(super) fn of(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let options = options(url)?
            // Poolers refuse a start with a parameter that they do not know.
            .extra_float_digits(None);
        let must_prove_itself = proves_itself(url, &options);
        let options = if must_prove_itself {
            options.ssl_mode(PgSslMode::VerifyFull)
        } else {
            options
        };
        let mut whereabouts = Whereabouts::of(&options, patience);
        whereabouts.must_prove_itself = must_prove_itself;
        // Nobody is idle in a transaction for longer than a call takes: a session that is was given up, and
        // others wait for what it has locked.
        let idle_max = format!("{}ms", patience.as_millis());
        // The server says that a lock was lacking before the call is given up: that is no silence.
        let lock_max = format!("{}ms", (patience * 4 / 5).as_millis());
        let assignments = SESSION
            .into_iter()
            .chain([
                ("idle_in_transaction_session_timeout", idle_max.as_str()),
                ("lock_timeout", lock_max.as_str()),
            ])
            .map(|(name, value)| format!("set_config('{name}', '{value}', false)"));
        let settings = format!("SELECT {}", assignments.collect::<Vec<_>>().join(", "));
        Ok(Self {
            whereabouts,
            options,
            settings,
            refused: Arc::default(),
        })
    }

    /// An error of the first connection.
    pub(super) fn connecting(&self, error: sqlx::Error) -> StoreError {
        error::connecting(&self.whereabouts, error)
    }

    /// An error of a pool, which tries again and again and would only say that it took too long.
    pub(super) async fn filling(&self, patience: Duration, error: sqlx::Error) -> StoreError {
        if !matches!(error, sqlx::Error::PoolTimedOut) {
            return self.connecting(error);
        }
        let why = timeout(patience, self.connect()).await.ok().and_then(Result::err);
        self.connecting(why.unwrap_or(error))
    }

    /// Notes why there is no session, for who is told next.
    pub(super) async fn ask_why(&self, patience: Duration) {
        if let Ok(Err(error)) = timeout(patience, self.connect()).await
            && let Some(words) = self.whereabouts.full(&error)
        {
            self.refused.note(Some(Refusal::Full(words)));
        }
    }

    /// A session outside of the pool.
    pub(super) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        let mut connection = self.options.connect().await?;
        self.begin(&mut connection).await?;
        Ok(connection)
    }

    /// The sessions of one store. One that rested in the pool is asked before it is used again; the server may have
    /// been demoted since.
    pub(super) async fn pool(&self, patience: Duration) -> Result<PgPool, sqlx::Error> {
        let server = self.clone();
        PgPoolOptions::new()
            .max_connections(CONNECTIONS_MAX)
            .acquire_timeout(patience)
            .test_before_acquire(false)
            .after_connect(move |connection, _| {
                let server = server.clone();
                Box::pin(async move { server.begin(connection).await })
            })
            .before_acquire(|connection, _| Box::pin(takes_writes(connection)))
            .connect_with(self.options.clone())
            .await
    }

    async fn begin(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(self.settings.clone()))
            .execute(&mut *connection)
            .await?;
        if takes_writes(connection).await? {
            self.refused.note(None);
            return Ok(());
        }
        self.refused.note(Some(Refusal::ReadOnly));
        Err(sqlx::Error::Protocol(error::TAKES_NO_WRITES.to_owned()))
    }

    /// Refuses what stands between us and the server when a session does not stay ours.
    pub(super) async fn refuse_shared_sessions(&self, pool: &PgPool, patience: Duration) -> Result<(), StoreError> {
        match stays_ours(pool).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return Err(self.filling(patience, error).await),
        }
        Err(refused_address(
            "it leads to a pooler in transaction mode, where the locks and settings of a session do not stay with it; \
             give the server's own address, or that of a pool in session mode",
        ))
    }
}

/// What the URL says, of one server that takes writes.
pub(super) fn options(url: &str) -> Result<PgConnectOptions, StoreError> {
    if let Some(why) = database::refusal(url) {
        return Err(refused_address(why));
    }
    let options = PgConnectOptions::from_str(url).map_err(refused_address)?;
    Ok(options.application_name("redrive"))
}

/// Whether the server has to prove who it is: one on another machine, unless the URL says otherwise.
fn proves_itself(url: &str, options: &PgConnectOptions) -> bool {
    let says = url::Url::parse(url).is_ok_and(|url| {
        let mut keys = url.query_pairs();
        keys.any(|(key, _)| matches!(&*key, "sslmode" | "ssl-mode"))
    });
    let host = options.get_host().trim_matches(['[', ']']);
    let is_here = options.get_socket().is_some()
        || host.starts_with('/')
        || host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    !says && !is_here
}

/// Whether the server that this session is with takes writes.
pub(super) async fn takes_writes(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    Ok(said(connection, TAKES_NO_WRITES).await? == "off")
}

/// Notes something in one session, and looks for it there while another one comes and goes in between. Where sessions
/// are shared, either the other one finds the note, or the first one loses it: a session that another client is in the
/// middle of a transaction with cannot be given to the first one.
async fn stays_ours(pool: &PgPool) -> Result<bool, sqlx::Error> {
    let (mut ours, mut other) = (pool.acquire().await?, pool.acquire().await?);
    let note = format!(
        "SELECT set_config('redrive.session', '{:016x}', false)",
        ambient::random()
    );
    sqlx::raw_sql(AssertSqlSafe(note)).execute(&mut *ours).await?;
    let which = said(&mut ours, WHICH).await?;
    for _ in 0..MIXED {
        sqlx::raw_sql("BEGIN").execute(&mut *other).await?;
        let is_apart = said(&mut other, WHICH).await? != which;
        let stays = is_apart && said(&mut ours, WHICH).await? == which;
        sqlx::raw_sql("ROLLBACK").execute(&mut *other).await?;
        // Twice: with two sessions that take turns, every other statement would be in the first one.
        if !stays || said(&mut ours, WHICH).await? != which || said(&mut ours, WHICH).await? != which {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The one text that a statement answers; without a prepared statement, which a pooler may lose.
async fn said(connection: &mut PgConnection, statement: &'static str) -> Result<String, sqlx::Error> {
    sqlx::raw_sql(statement).fetch_one(connection).await?.try_get(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_another_machine_proves_who_it_is_unless_the_url_says_otherwise() {
        let mode = |url: &str| {
            let server = Server::of(url, Duration::from_secs(5)).unwrap();
            matches!(server.options.get_ssl_mode(), PgSslMode::VerifyFull)
        };
        assert!(mode("postgres://db.example/redrive") && mode("postgres://10.0.0.1:5433/redrive"));
        assert!(!mode("postgres://db.example/redrive?sslmode=prefer"));
        assert!(!mode("postgres://db.example/redrive?sslmode=disable"));
        for here in ["localhost", "127.0.0.1", "[::1]", "%2Fvar%2Frun%2Fpostgresql"] {
            assert!(!mode(&format!("postgres://{here}/redrive")), "{here}");
        }
    }
}
