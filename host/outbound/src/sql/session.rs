//! The sessions of a target: dialling a vetted address, and running statements there.

use super::database_target::{DatabaseEndpoint, DatabaseTarget};
use super::failure::{SqlFailure, failed};
use super::loan::ProtocolLoan;
use super::relay::TlsRelay;
use super::rows::RowCells;
use super::session_pool::{PoolBounds, SessionPool};
use super::socket_route::{DialTarget, SocketRoute};
use super::statement::SqlStatement;
use super::{mysql, postgres, session_pool};
use crate::addresses::{self, AddressRefusal, AllowedAddresses};
use crate::limits;
use sqlx::{MySql, MySqlConnection, PgConnection, Postgres};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// A pool and its vetted address.
#[derive(Clone)]
pub(crate) struct VettedPool {
    pool: AnySessionPool,
    address: SocketAddr,
    /// The relay that the pool dials instead of the address.
    _relay: Arc<TlsRelay>,
    /// Slots of the process's sessions, released when the pool is closed and no longer in use.
    _room: Option<Arc<OwnedSemaphorePermit>>,
}

/// A lent session and its pool.
pub struct SqlSession {
    loan: AnyLoan,
    _sessions: VettedPool,
}

/// A pool of sessions of either protocol.
#[derive(Clone)]
enum AnySessionPool {
    Postgres(SessionPool<Postgres>),
    Mysql(SessionPool<MySql>),
}

/// A lent session of either protocol.
enum AnyLoan {
    Postgres(ProtocolLoan<Postgres>),
    Mysql(ProtocolLoan<MySql>),
}

impl AnySessionPool {
    /// Logs in once, and creates a pool if the login succeeds.
    async fn open(
        target: &DatabaseTarget,
        way: &SocketRoute,
        address: SocketAddr,
    ) -> Result<Self, SqlFailure> {
        let bounds = bounds(target, address);
        match target.driver.as_str() {
            "postgres" => {
                let options = postgres::options(target, way);
                let check = target.writable.then_some(postgres::READ_ONLY);
                session_pool::probe::<PgConnection>(&options, check).await?;
                Ok(Self::Postgres(SessionPool::new(options, bounds)))
            }
            "mysql" => {
                let options = mysql::options(target, way);
                let check = target.writable.then_some(mysql::READ_ONLY);
                session_pool::probe::<MySqlConnection>(&options, check).await?;
                Ok(Self::Mysql(SessionPool::new(options, bounds)))
            }
            other => Err(failed("invalid-request", format!("there is no SQL driver {other:?}"))),
        }
    }
}

impl VettedPool {
    /// Tries the target's endpoints in order, each within its reach, and opens a pool on the first
    /// endpoint that accepts the login.
    pub(crate) async fn open(
        aim: DialTarget<'_>,
        reaches: &[AllowedAddresses],
    ) -> Result<Self, SqlFailure> {
        let mut last = failed("invalid-request", "the target names no endpoint");
        for (endpoint, reach) in aim.target.endpoints.iter().zip(reaches) {
            match Self::open_at(aim, endpoint, reach).await {
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
        aim: DialTarget<'_>,
        endpoint: &DatabaseEndpoint,
        reach: &AllowedAddresses,
    ) -> Result<Self, SqlFailure> {
        let connect_timeout = connect_timeout(aim.target);
        let found =
            timeout(connect_timeout, addresses::resolve(&endpoint.host, endpoint.port, reach))
                .await;
        let addresses = found
            .map_err(|_| failed("timed-out", "resolving the name took too long"))?
            .map_err(|refused| address_failure(refused, reach))?;
        Self::open_vetted(aim, endpoint, &addresses).await
    }

    /// Tries the addresses in order. Nothing resolves a name after this point: the sessions of the
    /// pool connect to the vetted address.
    async fn open_vetted(
        aim: DialTarget<'_>,
        endpoint: &DatabaseEndpoint,
        addresses: &[SocketAddr],
    ) -> Result<Self, SqlFailure> {
        let connect_timeout = connect_timeout(aim.target);
        let mut last = failed("unreachable", "the name has no address");
        for &address in addresses {
            let way = SocketRoute::open_route(address, aim, endpoint, connect_timeout)?;
            match timeout(connect_timeout, AnySessionPool::open(aim.target, &way, address)).await {
                Ok(Ok(pool)) => {
                    return Ok(Self { pool, address, _relay: way.relay, _room: None });
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

    /// Adds the slots that the sessions take of the process's total.
    pub(crate) fn with_slots(mut self, room: OwnedSemaphorePermit) -> Self {
        self._room = Some(Arc::new(room));
        self
    }

    /// Returns whether a call with these reaches may use the sessions.
    pub(crate) fn is_within(&self, reaches: &[AllowedAddresses]) -> bool {
        reaches.iter().any(|reach| reach.check_address(self.address).is_ok())
    }

    /// Lends an idle, live session, if there is such a session.
    pub(crate) async fn lend_idle(&self) -> Option<SqlSession> {
        let loan = match &self.pool {
            AnySessionPool::Postgres(pool) => {
                ProtocolLoan::borrow_idle(pool).await.map(AnyLoan::Postgres)
            }
            AnySessionPool::Mysql(pool) => {
                ProtocolLoan::borrow_idle(pool).await.map(AnyLoan::Mysql)
            }
        };
        loan.map(|loan| SqlSession { loan, _sessions: self.clone() })
    }

    /// Lends an idle session, or else opens a new session. `None`: the pool was closed.
    ///
    /// # Errors
    /// The errors of a login.
    pub(crate) async fn lend(&self) -> Result<Option<SqlSession>, SqlFailure> {
        let loan = match &self.pool {
            AnySessionPool::Postgres(pool) => ProtocolLoan::of(pool).await?.map(AnyLoan::Postgres),
            AnySessionPool::Mysql(pool) => ProtocolLoan::of(pool).await?.map(AnyLoan::Mysql),
        };
        Ok(loan.map(|loan| SqlSession { loan, _sessions: self.clone() }))
    }

    /// Closes the sessions. A lent session closes when its use ends.
    pub(crate) async fn close(&self) {
        match &self.pool {
            AnySessionPool::Postgres(pool) => pool.close().await,
            AnySessionPool::Mysql(pool) => pool.close().await,
        }
    }
}

impl SqlSession {
    /// Runs a trivial query.
    pub(crate) async fn ping(self) -> Result<(), SqlFailure> {
        match self.loan {
            AnyLoan::Postgres(loan) => loan.ping().await,
            AnyLoan::Mysql(loan) => loan.ping().await,
        }
    }

    /// Runs a single statement in a read-only transaction. Parameters and cells are text.
    pub async fn query(
        self,
        sql: &str,
        parameters: &[String],
    ) -> Result<Vec<RowCells>, SqlFailure> {
        match self.loan {
            AnyLoan::Postgres(loan) => loan.query(sql, parameters).await,
            AnyLoan::Mysql(loan) => loan.query(sql, parameters).await,
        }
    }

    /// Runs all statements in a single transaction, as far as the server supports such a
    /// transaction. Retries after a conflict with another session, behind the statements already
    /// committed.
    pub async fn transact(self, statements: &[SqlStatement]) -> Result<(), SqlFailure> {
        match self.loan {
            AnyLoan::Postgres(loan) => loan.transact(statements).await,
            AnyLoan::Mysql(loan) => loan.transact(statements).await,
        }
    }

    /// Runs a single statement outside a transaction.
    pub async fn execute(self, statement: &SqlStatement) -> Result<(), SqlFailure> {
        match self.loan {
            AnyLoan::Postgres(loan) => loan.execute_after(None, statement).await,
            AnyLoan::Mysql(loan) => loan.execute(statement).await,
        }
    }
}

fn address_failure(refused: AddressRefusal, reach: &AllowedAddresses) -> SqlFailure {
    let (code, message) = reach.explain(refused);
    failed(code, message)
}

/// Returns the connection's connect timeout, capped so that a call has time to try every endpoint.
fn connect_timeout(target: &DatabaseTarget) -> Duration {
    let tries = u32::try_from(target.endpoints.len()).unwrap_or(u32::MAX).saturating_add(1);
    Duration::from_millis(u64::from(target.pool.connect_timeout.max(1)))
        .min(limits::EFFECT_TIME / tries)
}

/// Returns the maximum number of concurrent sessions of the target's pool.
pub(super) fn most_sessions(target: &DatabaseTarget) -> u32 {
    target.pool.max_connections.clamp(1, limits::POOL_SESSIONS)
}

fn bounds(target: &DatabaseTarget, address: SocketAddr) -> PoolBounds {
    let lifetime = target.pool.max_lifetime;
    PoolBounds {
        address,
        connect_timeout: connect_timeout(target),
        most: most_sessions(target),
        lifetime: (lifetime > 0).then(|| Duration::from_millis(lifetime)),
    }
}

#[cfg(test)]
mod tests;
