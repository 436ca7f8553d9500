//! A pool of sessions of either protocol, with timeouts.

use super::failure::{SqlFailure, failed, of_login, of_statement};
use crate::limits;
use sqlx::pool::{PoolConnection, PoolOptions};
use sqlx::{
    ColumnIndex, ConnectOptions, Connection, Database, Decode, Executor, IntoArguments, Pool,
    Row as _, Type,
};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time to wait for a session before checking whether the server still listens. A database that is
/// down is then reported at once, and not after the whole connect timeout.
const LISTENER_CHECK_DELAY: Duration = Duration::from_millis(250);

/// Time after the last use of a session during which the pool lends the session without a ping.
const PING_FREE_TIME: Duration = Duration::from_secs(1);

/// The address and limits of a pool.
#[derive(Clone, Copy)]
pub(super) struct PoolBounds {
    /// The vetted address.
    pub(super) address: SocketAddr,
    pub(super) connect_timeout: Duration,
    /// Maximum number of concurrent sessions.
    pub(super) most: u32,
    /// Maximum age of a session. `None`: a session lives as long as its pool.
    pub(super) lifetime: Option<Duration>,
}

/// A pool that lends its sessions.
pub(super) struct SessionPool<D: Database> {
    pool: Pool<D>,
    bounds: PoolBounds,
}

/// A manual implementation: `derive` would require `D: Clone`.
impl<D: Database> Clone for SessionPool<D> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), bounds: self.bounds }
    }
}

/// Logs in once before there is a pool: the pool itself would retry a dead server again and again.
/// `check`: a query, and the answer of a read-only server, which the probe refuses.
pub(super) async fn probe<C>(
    options: &C::Options,
    check: Option<(&'static str, &str)>,
) -> Result<(), SqlFailure>
where
    C: Connection<Options: ConnectOptions<Connection = C>>,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
    for<'a> <C::Database as Database>::Arguments: IntoArguments<C::Database>,
    for<'r> String: Decode<'r, C::Database> + Type<C::Database>,
    usize: ColumnIndex<<C::Database as Database>::Row>,
{
    let mut session = C::connect_with(options).await.map_err(|error| of_login(&error))?;
    let answer = match check {
        Some((question, _)) => sqlx::query(question).fetch_one(&mut session).await.map(Some),
        None => sqlx::raw_sql("SELECT 1").execute(&mut session).await.map(|_| None),
    };
    let answer = answer.map_err(|error| of_statement(&error, false))?;
    // The answer is complete; an error of the close has no effect.
    drop(session.close().await);
    match (answer.map(|row| row.try_get::<String, _>(0)), check) {
        (Some(Ok(word)), Some((_, read_only))) if word == read_only => {
            Err(failed("unreachable", "the server is read-only"))
        }
        _ => Ok(()),
    }
}

impl<D: Database> SessionPool<D> {
    pub(super) fn new(options: <D::Connection as Connection>::Options, bounds: PoolBounds) -> Self
    where
        <D::Connection as Connection>::Options: ConnectOptions<Connection = D::Connection>,
    {
        let pool = PoolOptions::<D>::new()
            .max_connections(bounds.most)
            .acquire_timeout(bounds.connect_timeout)
            .idle_timeout(Some(limits::POOL_IDLE))
            .max_lifetime(bounds.lifetime)
            .test_before_acquire(false)
            .before_acquire(|session, used| Box::pin(is_alive(session, used.idle_for)))
            .connect_lazy_with(options);
        Self { pool, bounds }
    }

    /// Lends an idle session, or else opens a new session. `None`: the pool was closed.
    ///
    /// # Errors
    /// The errors of a login.
    pub(super) async fn lend(&self) -> Result<Option<PoolConnection<D>>, SqlFailure> {
        match self.wait_while_listening(self.pool.acquire()).await {
            Ok(session) => Ok(Some(session)),
            Err(_) if self.pool.is_closed() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Closes the idle sessions now, and each lent session when the session comes back.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    /// Lends an idle session without a ping, if there is such a session.
    pub(super) fn lend_idle(&self) -> Option<PoolConnection<D>> {
        self.pool.try_acquire()
    }

    /// Returns whether the next session may be a used and broken session. Each broken session
    /// leaves the pool, so repeated attempts end; a closed pool refuses every caller.
    pub(super) fn may_be_broken(&self) -> bool {
        self.pool.num_idle() > 0 && !self.pool.is_closed()
    }

    /// Waits for a session or an answer as long as the server listens.
    pub(super) async fn wait_while_listening<T>(
        &self,
        wanted: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, SqlFailure> {
        tokio::pin!(wanted);
        if let Ok(had) = timeout(LISTENER_CHECK_DELAY, &mut wanted).await {
            return had.map_err(|error| of_login(&error));
        }
        let PoolBounds { address, connect_timeout, most, .. } = self.bounds;
        if self.pool.size() >= most {
            // All sessions exist and are busy: dialling would show nothing.
            return wanted.await.map_err(|error| of_login(&error));
        }
        match timeout(connect_timeout, TcpStream::connect(address)).await {
            Ok(Ok(_)) => wanted.await.map_err(|error| of_login(&error)),
            Ok(Err(error)) => Err(failed("unreachable", error.kind().to_string())),
            Err(_) => {
                Err(failed("timed-out", "the server did not answer within the connect timeout"))
            }
        }
    }
}

/// Pings a session before its use unless the session was used just now; a ping costs a round trip.
/// A session that broke since then fails at its BEGIN, before any work was done.
async fn is_alive(session: &mut impl Connection, idle: Duration) -> Result<bool, sqlx::Error> {
    if idle > PING_FREE_TIME {
        session.ping().await?;
    }
    Ok(true)
}
