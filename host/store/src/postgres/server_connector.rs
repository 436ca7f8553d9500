//! New sessions: the servers and addresses in their order, and the checks of a new session.
//!
//! This file prevents two faults after the failover of a cluster. A session with the old primary
//! would serve old data: an open store uses only a server whose sessions may write, for reads as
//! well, because a single address may be a load balancer before several servers. A session that
//! waits for a dead server would delay the store: each server has its own time, and the server that
//! worked last is tried first, and the next one beside it after a second.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{ConnectOptions as _, Row as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};

use bulkhead_place::postgres_place::{PostgresPlace, PostgresServer, SessionTarget};

use super::login_files::LoginFiles;
use super::postgres_error::PostgresError;
use super::session_refusal::{self, READ_ONLY};
use super::statement_draft::StatementDraft;

/// Maximum number of prepared statements per connection. The statements of a commit come in a few
/// dozen forms.
const CACHED_STATEMENTS: usize = 128;

/// Time for which a server alone is tried, while other servers are left.
const HEAD_START: Duration = Duration::from_secs(1);

/// Opens sessions with the servers of a place.
pub(crate) struct ServerConnector {
    place: PostgresPlace,
    /// Every session must be able to write, also the only session of the only address.
    must_write: bool,
    /// Index of the server that opened the last session.
    last: AtomicUsize,
}

/// A server or address that opened no session, and the reason.
struct FailedAttempt {
    server: String,
    reason: String,
}

/// Opens a session, without the memory of [`ServerConnector`].
///
/// # Errors
/// As [`ServerConnector::connect`].
pub(super) async fn connect(place: &PostgresPlace) -> Result<PgConnection, PostgresError> {
    ServerConnector::new(place).connect().await
}

/// Opens a session of a test.
#[cfg(test)]
pub(crate) async fn open_session(place: &PostgresPlace) -> PgConnection {
    connect(place).await.unwrap()
}

impl ServerConnector {
    /// Creates the connector without opening a session.
    pub(super) fn new(place: &PostgresPlace) -> ServerConnector {
        let must_write = place.session_target == SessionTarget::ReadWrite;
        ServerConnector { place: place.clone(), must_write, last: AtomicUsize::new(0) }
    }

    /// Creates the connector of an open store. A standby behind the address of a load balancer may
    /// lack acknowledged commits, and an old record would stay in memory.
    pub(super) fn of_store(place: &PostgresPlace) -> ServerConnector {
        ServerConnector { must_write: true, ..ServerConnector::new(place) }
    }

    /// Returns the place of the servers.
    pub(super) fn place(&self) -> &PostgresPlace {
        &self.place
    }

    /// Opens a session with the first server that accepts the login. A server that does not answer
    /// for [`HEAD_START`] does not keep the next one waiting. Files are read again for each
    /// session.
    ///
    /// # Errors
    /// Each server with its reason and the remedy.
    pub(super) async fn connect(&self) -> Result<PgConnection, PostgresError> {
        let last = self.last.load(Ordering::Relaxed);
        let others = (0..self.place.servers.len()).filter(|index| *index != last);
        let order = std::iter::once(last).chain(others);
        let mut waiting = order.filter_map(|index| Some((index, self.place.servers.get(index)?)));
        let (mut attempts, mut failures) = (FuturesUnordered::new(), Vec::new());
        loop {
            let next = waiting.next();
            let has_next = next.is_some();
            attempts.extend(next.map(|(index, server)| async move {
                self.connect_to(server).await.map(|connection| (index, connection))
            }));
            let ended = match has_next {
                true => timeout(HEAD_START, attempts.next()).await,
                false => Ok(attempts.next().await),
            };
            match ended {
                Ok(Some(Ok((index, connection)))) => {
                    self.last.store(index, Ordering::Relaxed);
                    return Ok(connection);
                }
                Ok(Some(Err(failed))) => failures.extend(failed),
                Ok(None) => return Err(PostgresError::NoSession(describe(&failures))),
                // The next server is tried beside this one.
                Err(_) => {}
            }
        }
    }

    /// Opens a session with a server, within the time of a server.
    ///
    /// # Errors
    /// Each address with its reason.
    async fn connect_to(
        &self,
        server: &PostgresServer,
    ) -> Result<PgConnection, Vec<FailedAttempt>> {
        let end = Instant::now() + self.place.connect_timeout;
        let fail = |name: String, reason: String| FailedAttempt { server: name, reason };
        let fail_at_once = |reason: String| vec![fail(server.to_string(), reason)];
        let files = LoginFiles::read(&self.place, server).await.map_err(fail_at_once)?;
        let addresses = self.addresses(server, end).await.map_err(fail_at_once)?;
        let attempt = SessionAttempt {
            place: &self.place,
            files: &files,
            must_write: self.must_write || self.place.servers.len() > 1 || addresses.len() > 1,
        };
        let mut failures = Vec::new();
        let mut remaining = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        for target in &addresses {
            // An address that does not answer leaves time for the next addresses.
            let share = end.saturating_duration_since(Instant::now()) / remaining.max(1);
            remaining = remaining.saturating_sub(1);
            let opened = timeout_at(Instant::now() + share, attempt.open(target)).await;
            match opened.unwrap_or_else(|_| Err(self.late())) {
                Ok(connection) => return Ok(connection),
                Err(reason) => failures.push(fail(name_of(server, target, &addresses), reason)),
            }
        }
        Err(failures)
    }

    /// Returns the targets of a server: its socket, or all addresses of its name.
    async fn addresses(
        &self,
        server: &PostgresServer,
        end: Instant,
    ) -> Result<Vec<SessionTargetAddress>, String> {
        if server.is_socket() {
            return Ok(vec![SessionTargetAddress::Socket(server.clone())]);
        }
        let looked_up = timeout_at(end, lookup_host((server.host.as_str(), server.port))).await;
        let found = looked_up.map_err(|_| self.late())?;
        let mut addresses: Vec<SocketAddr> = match found {
            Ok(found) => found.collect(),
            Err(error) => {
                return Err(format!("the name has no address: {error}; check the host"));
            }
        };
        addresses.dedup();
        match addresses.is_empty() {
            true => Err("the name has no address; check the host".to_owned()),
            false => Ok(addresses.into_iter().map(SessionTargetAddress::Network).collect()),
        }
    }

    fn late(&self) -> String {
        let time: Duration = self.place.connect_timeout;
        format!(
            "no session within connect_timeout, {} s; check that the server is up and the network \
             passes",
            time.as_secs_f32()
        )
    }
}

/// A socket or an address of a server.
enum SessionTargetAddress {
    Socket(PostgresServer),
    Network(SocketAddr),
}

/// Returns the name of a target for messages.
fn name_of(
    server: &PostgresServer,
    target: &SessionTargetAddress,
    all: &[SessionTargetAddress],
) -> String {
    match target {
        SessionTargetAddress::Network(address) if all.len() > 1 => format!("{server} ({address})"),
        _ => server.to_string(),
    }
}

fn describe(failures: &[FailedAttempt]) -> String {
    let each: Vec<String> =
        failures.iter().map(|failed| format!("{}: {}", failed.server, failed.reason)).collect();
    match each.as_slice() {
        [] => "the place of the database names no server".to_owned(),
        [only] => format!("PostgreSQL at {only}"),
        several => format!("no PostgreSQL server opened a session: {}", several.join("; ")),
    }
}

/// An attempt to open a session with a server.
struct SessionAttempt<'a> {
    place: &'a PostgresPlace,
    files: &'a LoginFiles,
    /// The session must be able to write.
    must_write: bool,
}

impl SessionAttempt<'_> {
    /// Opens a session. A session that ends while it is checked is replaced once, as a login is
    /// repeated once.
    async fn open(&self, target: &SessionTargetAddress) -> Result<PgConnection, String> {
        let mut connection = self.open_unchecked(target).await?;
        if !self.must_write {
            return Ok(connection);
        }
        let checked = match is_read_only(&mut connection).await {
            Err(error) if error.ends_session() && !error.is_timeout() => {
                connection = self.open_unchecked(target).await?;
                is_read_only(&mut connection).await
            }
            checked => checked,
        };
        match checked {
            Ok(false) => Ok(connection),
            Ok(true) => Err(READ_ONLY.to_owned()),
            Err(error) => Err(error.describe()),
        }
    }

    async fn open_unchecked(&self, target: &SessionTargetAddress) -> Result<PgConnection, String> {
        match target {
            SessionTargetAddress::Socket(server) => {
                let options = self.options().socket(&server.host).port(server.port);
                self.log_in(&options).await
            }
            SessionTargetAddress::Network(address) => self.open_at(*address).await,
        }
    }

    async fn open_at(&self, address: SocketAddr) -> Result<PgConnection, String> {
        let options = self.options();
        if let Some(tls) = &self.files.tls {
            let stream = TcpStream::connect(address).await;
            let stream = stream.map_err(|error| session_refusal::of_network(&error))?;
            if let Some(route) = tls.secure(stream).await? {
                let (folder, port) = route.address();
                let options = options.socket(folder).port(port);
                return match self.log_in(&options).await {
                    Ok(connection) => {
                        route.release();
                        Ok(connection)
                    }
                    Err(reason) => Err(route.fault().await.unwrap_or(reason)),
                };
            }
        }
        self.log_in(&options.host(&address.ip().to_string()).port(address.port())).await
    }

    async fn log_in(&self, options: &PgConnectOptions) -> Result<PgConnection, String> {
        let connected = match options.connect().await {
            // A firewall or a restarted server may have cut the new connection with the old ones.
            Err(error) if session_refusal::is_cut(&error) => options.connect().await,
            connected => connected,
        };
        connected.map_err(|error| session_refusal::of_login(&error, self.place))
    }

    /// Returns the options of every session. Poolers refuse start-up parameters that they do not
    /// know, so there is no parameter beyond the usual parameters.
    fn options(&self) -> PgConnectOptions {
        let options = PgConnectOptions::new_without_pgpass()
            .username(&self.place.user)
            .database(&self.place.database)
            .application_name(&self.place.application_name)
            .ssl_mode(PgSslMode::Disable)
            .extra_float_digits(None)
            .statement_cache_capacity(CACHED_STATEMENTS)
            .disable_statement_logging();
        match &self.files.password {
            Some(password) => options.password(password.expose()),
            None => options,
        }
    }
}

/// Returns whether sessions of the server may not write; the answer of a standby as well.
async fn is_read_only(connection: &mut PgConnection) -> Result<bool, PostgresError> {
    let question = StatementDraft::script("SHOW transaction_read_only");
    let rows = question.fetch(connection).await?;
    let answer = rows.first().and_then(|row| row.try_get::<String, _>(0).ok());
    Ok(answer.is_none_or(|answer| answer != "off"))
}
