//! The sessions of one target: dialling a vetted address, and running statements there.

use super::failure::{SqlFailure, failed};
use super::lender::{Bounds, Lender};
use super::relay::Relay;
use super::rows::Cells;
use super::way::{Aim, Way};
use super::{lender, mysql, postgres};
use crate::bindings::database_plugin::bulkhead::plugin::sql::{Endpoint, Statement, Target};
use crate::grants::{self, Reach, Refused};
use crate::limits;
use sqlx::{MySql, MySqlConnection, PgConnection, Postgres};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// A pool, and the address that was vetted for it.
#[derive(Clone)]
pub(crate) struct Sessions {
    pool: Pool,
    address: SocketAddr,
    /// What the pool dials in place of the address.
    _relay: Arc<Relay>,
    /// That many of the process's, until the pool is closed and nothing uses it any more.
    _room: Option<Arc<OwnedSemaphorePermit>>,
}

/// A pool of sessions that speak one protocol.
#[derive(Clone)]
enum Pool {
    Postgres(Lender<Postgres>),
    Mysql(Lender<MySql>),
}

impl Pool {
    /// Logs in once, and has a pool if that went well.
    async fn open(target: &Target, way: &Way, address: SocketAddr) -> Result<Self, SqlFailure> {
        let bounds = bounds(target, address);
        match target.driver.as_str() {
            "postgres" => {
                let options = postgres::options(target, way);
                let asked = target.writable.then_some(postgres::READ_ONLY);
                lender::probe::<PgConnection>(&options, asked).await?;
                Ok(Self::Postgres(Lender::new(options, bounds)))
            }
            "mysql" => {
                let options = mysql::options(target, way);
                let asked = target.writable.then_some(mysql::READ_ONLY);
                lender::probe::<MySqlConnection>(&options, asked).await?;
                Ok(Self::Mysql(Lender::new(options, bounds)))
            }
            other => Err(failed("invalid-request", format!("there is no SQL driver {other:?}"))),
        }
    }
}

impl Sessions {
    /// Tries the target's endpoints in order and opens a pool on the first that lets us in. Each
    /// has its reach.
    pub(crate) async fn open(aim: Aim<'_>, reaches: &[Reach]) -> Result<Self, SqlFailure> {
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

    async fn open_at(aim: Aim<'_>, endpoint: &Endpoint, reach: &Reach) -> Result<Self, SqlFailure> {
        let connect_timeout = connect_timeout(aim.target);
        let found =
            timeout(connect_timeout, grants::resolve(&endpoint.host, endpoint.port, reach)).await;
        let addresses = found
            .map_err(|_| failed("timed-out", "resolving the name took too long"))?
            .map_err(|refused| of_refused(refused, reach))?;
        Self::open_vetted(aim, endpoint, &addresses).await
    }

    /// Tries the addresses in order. From here on no name is resolved: the sessions of the pool go
    /// to the address that was vetted.
    async fn open_vetted(
        aim: Aim<'_>,
        endpoint: &Endpoint,
        addresses: &[SocketAddr],
    ) -> Result<Self, SqlFailure> {
        let connect_timeout = connect_timeout(aim.target);
        let mut last = failed("unreachable", "the name has no address");
        for &address in addresses {
            let way = Way::to(address, aim, endpoint, connect_timeout)?;
            match timeout(connect_timeout, Pool::open(aim.target, &way, address)).await {
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

    /// The same, with the room that they take among all sessions of the process.
    pub(crate) fn within(mut self, room: OwnedSemaphorePermit) -> Self {
        self._room = Some(Arc::new(room));
        self
    }

    /// Whether a call whose endpoints have these reaches may use them.
    pub(crate) fn is_within(&self, reaches: &[Reach]) -> bool {
        reaches.iter().any(|reach| reach.admit(self.address).is_ok())
    }

    /// Asks the server for nothing in particular.
    pub(crate) async fn ping(&self) -> Result<(), SqlFailure> {
        match &self.pool {
            Pool::Postgres(pool) => pool.ping().await,
            Pool::Mysql(pool) => pool.ping().await,
        }
    }

    /// One statement in a read-only transaction, text in and text out.
    pub(crate) async fn query(
        &self,
        sql: &str,
        parameters: &[String],
    ) -> Result<Vec<Cells>, SqlFailure> {
        match &self.pool {
            Pool::Postgres(pool) => pool.query(sql, parameters).await,
            Pool::Mysql(pool) => pool.query(sql, parameters).await,
        }
    }

    /// All statements in one transaction, as far as the server has such; conflicts with other
    /// sessions are tried again, from behind what lasts already.
    pub(crate) async fn transact(&self, statements: &[Statement]) -> Result<(), SqlFailure> {
        let (mut tries, mut lasting) = (1, 0);
        loop {
            let done = match &self.pool {
                Pool::Postgres(pool) => pool.transact(statements).await,
                Pool::Mysql(pool) => pool.transact(statements, &mut lasting).await,
            };
            match done {
                Err(failure) if failure.code == "conflict" && tries < limits::CONFLICT_TRIES => {
                    tokio::time::sleep(jitter(tries)).await;
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    /// One statement outside a transaction.
    pub(crate) async fn execute(&self, statement: &Statement) -> Result<(), SqlFailure> {
        match &self.pool {
            Pool::Postgres(pool) => pool.execute(statement).await,
            Pool::Mysql(pool) => pool.execute(statement).await,
        }
    }

    pub(crate) async fn close(&self) {
        match &self.pool {
            Pool::Postgres(pool) => pool.close().await,
            Pool::Mysql(pool) => pool.close().await,
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

fn bounds(target: &Target, address: SocketAddr) -> Bounds {
    let lifetime = target.pool.max_lifetime;
    Bounds {
        address,
        connect_timeout: connect_timeout(target),
        most: most_sessions(target),
        lifetime: (lifetime > 0).then(|| Duration::from_millis(lifetime)),
    }
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
