//! One pool of PostgreSQL sessions: dialling a vetted address, and running statements on it.

use super::failure::{SqlFailure, failed, of_commit, of_login, of_statement};
use super::relay::Relay;
use super::way::{Way, options};
use crate::bindings::database_plugin::bulkhead::plugin::sql::{Endpoint, Statement, Target};
use crate::grants::{self, Reach, Refused};
use crate::limits;
use futures_util::{Stream, StreamExt as _};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgRow};
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, PgConnection, PgPool, Postgres, Row as _,
    Transaction,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// A session that is not there after this time makes us look whether the server still listens, so
/// that a database that is down is reported at once instead of after the whole connect timeout.
const PATIENCE: Duration = Duration::from_millis(250);

/// So long after its last use a session is used without asking whether it lives.
const TRUSTED: Duration = Duration::from_secs(1);

/// A pool, and the address that was vetted for it.
#[derive(Clone)]
pub(crate) struct Sessions {
    pool: PgPool,
    address: SocketAddr,
    /// What the pool dials in place of the address, where a certificate is held against a name.
    _relay: Option<Arc<Relay>>,
    connect_timeout: Duration,
    /// Most sessions at once.
    most: u32,
    /// That many of the process's, until the pool is closed and nothing uses it any more.
    _room: Option<Arc<OwnedSemaphorePermit>>,
}

impl Sessions {
    /// Tries the target's endpoints in order and opens a pool on the first that lets us in. Each
    /// has its reach.
    pub(crate) async fn open(target: &Target, reaches: &[Reach]) -> Result<Self, SqlFailure> {
        if target.driver != "postgres" {
            return Err(failed(
                "invalid-request",
                format!("there is no SQL driver {:?}", target.driver),
            ));
        }
        let mut last = failed("invalid-request", "the target names no endpoint");
        for (endpoint, reach) in target.endpoints.iter().zip(reaches) {
            match Self::open_at(target, endpoint, reach).await {
                Ok(sessions) => return Ok(sessions),
                // A wrong password is wrong everywhere; asking the next server could lock the
                // account.
                Err(failure) if failure.code == "refused" => return Err(failure),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    async fn open_at(
        target: &Target,
        endpoint: &Endpoint,
        reach: &Reach,
    ) -> Result<Self, SqlFailure> {
        let connect_timeout = connect_timeout(target);
        let found =
            timeout(connect_timeout, grants::resolve(&endpoint.host, endpoint.port, reach)).await;
        let addresses = found
            .map_err(|_| failed("timed-out", "resolving the name took too long"))?
            .map_err(|refused| of_refused(refused, reach))?;
        Self::open_vetted(target, endpoint, &addresses).await
    }

    /// Tries the addresses in order. From here on no name is resolved: the sessions of the pool go
    /// to the address that was vetted.
    async fn open_vetted(
        target: &Target,
        endpoint: &Endpoint,
        addresses: &[SocketAddr],
    ) -> Result<Self, SqlFailure> {
        let connect_timeout = connect_timeout(target);
        let mut last = failed("unreachable", "the name has no address");
        for &address in addresses {
            let way = Way::to(address, target, endpoint, connect_timeout)?;
            let options = options(target, &way);
            match timeout(connect_timeout, probe(&options, target.writable)).await {
                Ok(Ok(())) => {
                    let (pool, most) = (pool(target, options), most_sessions(target));
                    let relay = way.relay;
                    let opened =
                        Self { pool, address, _relay: relay, connect_timeout, most, _room: None };
                    return Ok(opened);
                }
                Ok(Err(failure)) => last = way.fault().unwrap_or(failure),
                Err(_) => {
                    last =
                        failed("timed-out", "the server did not answer within the connect timeout")
                }
            }
        }
        Err(last)
    }

    /// The same, with the room that they take among all sessions of the process.
    pub(crate) fn within(mut self, room: OwnedSemaphorePermit) -> Self {
        self._room = Some(Arc::new(room));
        self
    }

    /// Whether a call with that reach may use them.
    pub(crate) fn is_within(&self, reach: &Reach) -> bool {
        reach.admit(self.address).is_ok()
    }

    /// Asks the server for nothing in particular.
    pub(crate) async fn ping(&self) -> Result<(), SqlFailure> {
        let mut session = self.session().await?;
        let asked = session.execute(sqlx::raw_sql("SELECT 1")).await;
        asked.map(drop).map_err(|error| of_statement(&error, false))
    }

    /// One statement in a read-only transaction, text in and text out.
    pub(crate) async fn query(
        &self,
        sql: &str,
        parameters: &[String],
    ) -> Result<Vec<Vec<Option<String>>>, SqlFailure> {
        let mut transaction = self.begin("BEGIN READ ONLY").await?;
        let mut query = sqlx::query(AssertSqlSafe(sql.to_owned()));
        for parameter in parameters {
            query = query.bind(parameter.as_str());
        }
        let table = texts(query.fetch(&mut *transaction)).await?;
        transaction.rollback().await.map_err(|error| of_statement(&error, false))?;
        Ok(table)
    }

    /// All statements in one transaction; conflicts with other sessions are tried again.
    pub(crate) async fn transact(&self, statements: &[Statement]) -> Result<(), SqlFailure> {
        let mut tries = 1;
        loop {
            match self.transact_once(statements).await {
                Err(failure) if failure.code == "conflict" && tries < limits::CONFLICT_TRIES => {
                    tokio::time::sleep(jitter(tries)).await;
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    async fn transact_once(&self, statements: &[Statement]) -> Result<(), SqlFailure> {
        let mut transaction = self.begin("BEGIN").await?;
        for (index, statement) in statements.iter().enumerate() {
            let run =
                transaction.execute(sqlx::raw_sql(AssertSqlSafe(statement.text.clone()))).await;
            if let Err(error) = run {
                let mut failure = of_statement(&error, statement.secret);
                failure.statement = u32::try_from(index).ok();
                return Err(failure);
            }
        }
        transaction.commit().await.map_err(|error| of_commit(&error))
    }

    /// One statement outside a transaction.
    pub(crate) async fn execute(&self, statement: &Statement) -> Result<(), SqlFailure> {
        let mut session = self.session().await?;
        let run = session.execute(sqlx::raw_sql(AssertSqlSafe(statement.text.clone()))).await;
        run.map(drop).map_err(|error| {
            let failure = of_statement(&error, statement.secret);
            SqlFailure { statement: Some(0), ..failure }
        })
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    /// A transaction. A session that broke since its last use fails here, before anything was done
    /// on it, and gives way to the next.
    async fn begin(&self, begin: &str) -> Result<Transaction<'static, Postgres>, SqlFailure> {
        // Bounded by the server too: a statement that hangs would keep its session from all other
        // calls.
        let (statement, lock) = (limits::STATEMENT_TIME_MS, limits::LOCK_TIME_MS);
        let text = format!(
            "{begin}; SET LOCAL statement_timeout = {statement}; SET LOCAL lock_timeout = {lock}"
        );
        loop {
            let may_be_broken = self.may_be_broken();
            match self.patiently(self.pool.begin_with(AssertSqlSafe(text.clone()))).await {
                Err(failure) if may_be_broken && failure.code == "unreachable" => {}
                result => return result,
            }
        }
    }

    /// Is there a session that was used before? Each that turns out broken leaves the pool, so this
    /// ends; a closed pool refuses at once and for ever.
    fn may_be_broken(&self) -> bool {
        self.pool.num_idle() > 0 && !self.pool.is_closed()
    }

    async fn session(&self) -> Result<PoolConnection<Postgres>, SqlFailure> {
        loop {
            let may_be_broken = self.may_be_broken();
            let mut session = self.patiently(self.pool.acquire()).await?;
            match session.ping().await {
                Ok(()) => return Ok(session),
                Err(_) if may_be_broken => {}
                Err(error) => return Err(of_login(&error)),
            }
        }
    }

    async fn patiently<T>(
        &self,
        wanted: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, SqlFailure> {
        tokio::pin!(wanted);
        if let Ok(had) = timeout(PATIENCE, &mut wanted).await {
            return had.map_err(|error| of_login(&error));
        }
        if self.pool.size() >= self.most {
            // All sessions are there and busy: dialling would tell nothing.
            return wanted.await.map_err(|error| of_login(&error));
        }
        match timeout(self.connect_timeout, TcpStream::connect(self.address)).await {
            Ok(Ok(_)) => wanted.await.map_err(|error| of_login(&error)),
            Ok(Err(error)) => Err(failed("unreachable", error.kind().to_string())),
            Err(_) => {
                Err(failed("timed-out", "the server did not answer within the connect timeout"))
            }
        }
    }
}

fn of_refused(refused: Refused, reach: &Reach) -> SqlFailure {
    match refused {
        Refused::Unknown => failed("unreachable", "the name has no address"),
        Refused::Forbidden(why) => {
            failed("forbidden-address", format!("it is {why}, which is never dialled"))
        }
        Refused::Ungranted(address, what) => {
            failed("permission-denied", grants::ungranted_address(reach, address, what).message)
        }
    }
}

/// Logs in once before there is a pool: the pool itself would try a dead server again and again.
async fn probe(options: &PgConnectOptions, writable: bool) -> Result<(), SqlFailure> {
    let mut session =
        PgConnection::connect_with(options).await.map_err(|error| of_login(&error))?;
    let read_only = match writable {
        true => sqlx::query("SHOW transaction_read_only").fetch_one(&mut session).await.map(Some),
        false => Ok(None),
    };
    let read_only = read_only.map_err(|error| of_statement(&error, false))?;
    // The answer is in; how the farewell goes changes nothing.
    drop(session.close().await);
    match read_only.map(|row| row.try_get::<String, _>(0)) {
        Some(Ok(word)) if word == "on" => Err(failed("unreachable", "the server is read-only")),
        _ => Ok(()),
    }
}

/// A session that was used just now is not asked whether it lives: that would be a round trip for
/// each use. One that broke since then is found by its BEGIN, before anything was done on it.
async fn is_alive(session: &mut PgConnection, idle: Duration) -> Result<bool, sqlx::Error> {
    if idle > TRUSTED {
        session.ping().await?;
    }
    Ok(true)
}

/// What the connection asks, but so short that every endpoint is tried within one call.
fn connect_timeout(target: &Target) -> Duration {
    let tries = u32::try_from(target.endpoints.len()).unwrap_or(u32::MAX).saturating_add(1);
    Duration::from_millis(u64::from(target.pool.connect_timeout.max(1)))
        .min(limits::EFFECT_TIME / tries)
}

/// Most sessions of the target's pool at once.
pub(super) fn most_sessions(target: &Target) -> u32 {
    target.pool.max_connections.clamp(1, limits::POOL_SESSIONS)
}

fn pool(target: &Target, options: PgConnectOptions) -> PgPool {
    let lifetime = target.pool.max_lifetime;
    PgPoolOptions::new()
        .max_connections(most_sessions(target))
        .acquire_timeout(connect_timeout(target))
        .idle_timeout(Some(limits::POOL_IDLE))
        .max_lifetime((lifetime > 0).then(|| Duration::from_millis(lifetime)))
        .test_before_acquire(false)
        .before_acquire(|session, used| Box::pin(is_alive(session, used.idle_for)))
        .connect_lazy_with(options)
}

/// Rows as they come, up to the limits: a table that is too large is not read to its end.
async fn texts(
    mut rows: impl Stream<Item = Result<PgRow, sqlx::Error>> + Unpin,
) -> Result<Vec<Vec<Option<String>>>, SqlFailure> {
    let mut bytes = 0_usize;
    let mut table = Vec::new();
    while let Some(row) = rows.next().await {
        let row = row.map_err(|error| of_statement(&error, false))?;
        let mut cells = Vec::with_capacity(row.len());
        for column in 0..row.len() {
            let cell: Option<String> =
                row.try_get(column).map_err(|error| of_statement(&error, false))?;
            bytes = bytes.saturating_add(cell.as_ref().map_or(0, String::len));
            cells.push(cell);
        }
        table.push(cells);
        if table.len() > limits::QUERY_ROWS || bytes > limits::QUERY_BYTES {
            return Err(failed(
                "invalid-request",
                "the query answers more than 10,000 rows or 4 MiB",
            ));
        }
    }
    Ok(table)
}

/// 5 to 80 ms, doubling, with half of it by chance, so that rivals do not meet again.
fn jitter(tries: u32) -> Duration {
    let most = 5_u64 << tries.min(4);
    let mut byte = [0_u8; 1];
    // Without randomness the wait is merely not spread.
    let _ = aws_lc_rs::rand::fill(&mut byte);
    let spread = byte.first().map_or(0, |byte| u64::from(*byte) * most / 512);
    Duration::from_millis(most / 2 + spread)
}

#[cfg(test)]
mod tests;
