//! One pool of sessions, of either protocol: lending them, with patience.

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

/// A session that is not there after this time makes us look whether the server still listens, so
/// that a database that is down is reported at once instead of after the whole connect timeout.
const PATIENCE: Duration = Duration::from_millis(250);

/// So long after its last use a session is used without asking whether it lives.
const TRUSTED: Duration = Duration::from_secs(1);

/// What a pool is made of.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// What was vetted.
    pub(super) address: SocketAddr,
    pub(super) connect_timeout: Duration,
    /// Most sessions at once.
    pub(super) most: u32,
    /// `None`: a session lives as long as its pool.
    pub(super) lifetime: Option<Duration>,
}

/// A pool.
pub(super) struct Lender<D: Database> {
    pool: Pool<D>,
    bounds: Bounds,
}

/// By hand, because what speaks a protocol need not be cloned itself.
impl<D: Database> Clone for Lender<D> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), bounds: self.bounds }
    }
}

/// Logs in once before there is a pool: the pool itself would try a dead server again and again.
/// `asked`: a question whose answer is that word where the server is read-only, which is refused.
pub(super) async fn probe<C>(
    options: &C::Options,
    asked: Option<(&'static str, &str)>,
) -> Result<(), SqlFailure>
where
    C: Connection<Options: ConnectOptions<Connection = C>>,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
    for<'a> <C::Database as Database>::Arguments: IntoArguments<C::Database>,
    for<'r> String: Decode<'r, C::Database> + Type<C::Database>,
    usize: ColumnIndex<<C::Database as Database>::Row>,
{
    let mut session = C::connect_with(options).await.map_err(|error| of_login(&error))?;
    let answer = match asked {
        Some((question, _)) => sqlx::query(question).fetch_one(&mut session).await.map(Some),
        None => sqlx::raw_sql("SELECT 1").execute(&mut session).await.map(|_| None),
    };
    let answer = answer.map_err(|error| of_statement(&error, false))?;
    // The answer is in; how the farewell goes changes nothing.
    drop(session.close().await);
    match (answer.map(|row| row.try_get::<String, _>(0)), asked) {
        (Some(Ok(word)), Some((_, read_only))) if word == read_only => {
            Err(failed("unreachable", "the server is read-only"))
        }
        _ => Ok(()),
    }
}

impl<D: Database> Lender<D> {
    pub(super) fn new(options: <D::Connection as Connection>::Options, bounds: Bounds) -> Self
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

    /// Lends a session: one that is idle, or else a new one. `None`: the pool was closed.
    ///
    /// # Errors
    /// Those of a login.
    pub(super) async fn lend(&self) -> Result<Option<PoolConnection<D>>, SqlFailure> {
        match self.patiently(self.pool.acquire()).await {
            Ok(session) => Ok(Some(session)),
            Err(_) if self.pool.is_closed() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Closes the idle sessions now, and those that are lent when they come back.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    /// Lends a session that is idle, if there is one. Whether it lives is not asked.
    pub(super) fn lend_idle(&self) -> Option<PoolConnection<D>> {
        self.pool.try_acquire()
    }

    /// Is there a session that was used before? Each that turns out broken leaves the pool, so this
    /// ends; a closed pool refuses at once and for ever.
    pub(super) fn may_be_broken(&self) -> bool {
        self.pool.num_idle() > 0 && !self.pool.is_closed()
    }

    /// Waits for what needs a session or a server that answers, as long as one listens.
    pub(super) async fn patiently<T>(
        &self,
        wanted: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, SqlFailure> {
        tokio::pin!(wanted);
        if let Ok(had) = timeout(PATIENCE, &mut wanted).await {
            return had.map_err(|error| of_login(&error));
        }
        let Bounds { address, connect_timeout, most, .. } = self.bounds;
        if self.pool.size() >= most {
            // All sessions are there and busy: dialling would tell nothing.
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

/// A session that was used just now is not asked whether it lives: that would be a round trip for
/// each use. One that broke since then is found by its BEGIN, before anything was done on it.
async fn is_alive(session: &mut impl Connection, idle: Duration) -> Result<bool, sqlx::Error> {
    if idle > TRUSTED {
        session.ping().await?;
    }
    Ok(true)
}
