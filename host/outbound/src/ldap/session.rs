//! A session with a directory: opening, logging in, and a single request at a time.

use super::change::AttributeChange;
use super::entry::{DirectoryAttribute, DirectoryEntry};
use super::failure::{LdapFailure, LdapRequestKind, failed, of_result};
use super::gate::LdapFilter;
use super::login::LdapLogin;
use super::logins::MountLogins;
use super::message::page_cookie;
use super::query::CheckedSearch;
use crate::addresses::{self, AddressRefusal, AllowedAddresses, LdapServer};
use crate::inline_driver::InlineDriver;
use crate::limits;
use ldap3::controls::PagedResults;
use ldap3::exop::PasswordModify;
use ldap3::{Ldap, LdapConnAsync, LdapConnSettings, LdapError, LdapResult, Mod, ResultEntry};
use ldap3::{SearchEntry, StdStream};
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Time after the last use of a session during which the session counts as live without a ping. The
/// server may end a session that is idle for longer.
const PING_FREE_TIME: Duration = Duration::from_secs(2);
/// Timeout of the ping of an idle session.
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// Overhead in bytes of an entry, an attribute or a value, besides its content.
const ENTRY_OVERHEAD_BYTES: usize = 64;
/// OID of the control for paged results (RFC 2696).
const PAGED_RESULTS_OID: &str = "1.2.840.113556.1.4.319";

/// A session. Dropping the session closes the connection and cancels the pending request.
pub struct LdapSession {
    ldap: Ldap,
    gate: LdapFilter,
    driven: InlineDriver,
    server: LdapServer,
    address: SocketAddr,
    answer_time: Duration,
    used: Instant,
}

impl LdapSession {
    /// Dials the servers in order and logs in to the first reachable server. After a server with
    /// TLS, skips every server without TLS: an attacker who blocks the TLS server would receive the
    /// password.
    ///
    /// # Errors
    /// The failure of the last server, or of the first server that refuses the login or may not be
    /// dialled.
    pub async fn open(login: &LdapLogin, logins: &MountLogins) -> Result<Self, LdapFailure> {
        let mut last = failed("invalid-request", "no URL is given");
        let mut is_tls_asked = false;
        for (server, reach) in &login.servers {
            let is_tls = login.secured.is_tls(server);
            if is_tls_asked && !is_tls {
                continue;
            }
            is_tls_asked |= is_tls;
            let opened =
                timeout(login.connect_time, Self::open_at(login, logins, server, reach)).await;
            let opened = opened
                .unwrap_or_else(|_| Err(failed("timed-out", "the server did not answer in time")));
            match opened.map_err(|failure| at(server, failure)) {
                Ok(session) => return Ok(session),
                Err(failure) if !is_of_connection(&failure) => return Err(failure),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    async fn open_at(
        login: &LdapLogin,
        logins: &MountLogins,
        server: &LdapServer,
        reach: &AllowedAddresses,
    ) -> Result<Self, LdapFailure> {
        let found = addresses::resolve(&server.host.to_string(), server.port, reach).await;
        let addresses = found.map_err(|refused| address_failure(refused, reach))?;
        let mut last = failed("unreachable", "the name has no address");
        // Nothing resolves a name after this point: the session connects to a vetted address.
        let tries = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        for address in addresses {
            let connecting = login.secured.connect(server, address);
            match timeout(login.connect_time / tries, connecting).await {
                Ok(Ok(stream)) => {
                    let mut session = Self::over(stream, server, address, login).await?;
                    session.log_in(login, logins).await?;
                    return Ok(session);
                }
                Ok(Err(failure)) => last = failure,
                Err(_) => last = failed("timed-out", "the server did not answer in time"),
            }
        }
        Err(last)
    }

    async fn over(
        stream: Box<dyn super::secure::LdapStream>,
        server: &LdapServer,
        address: SocketAddr,
        login: &LdapLogin,
    ) -> Result<Self, LdapFailure> {
        let no_socket = |_| failed("unreachable", "the host has no more sockets");
        let (gate, near, carrying) = LdapFilter::open(stream).map_err(no_socket)?;
        let settings = LdapConnSettings::new().set_std_stream(StdStream::Unix(near));
        let connected = LdapConnAsync::with_settings(settings, "ldapi:///").await;
        let (connection, ldap) =
            connected.map_err(|_| failed("unreachable", "the host has no more sockets"))?;
        // Ignore the end of the library's future: the gate and each request report the end. Poll
        // the gate after the library, because the gate carries the bytes that the library has just
        // written.
        let driving = async move {
            let mut library = pin!(connection.drive());
            tokio::select! {
                biased;
                _ = library.as_mut() => return,
                () = carrying => {}
            }
            // The library still has to read the messages that passed before the end.
            drop(library.await);
        };
        Ok(Self {
            ldap,
            gate,
            driven: InlineDriver::new(driving),
            server: server.clone(),
            address,
            answer_time: login.answer_time,
            used: Instant::now(),
        })
    }

    async fn log_in(&mut self, login: &LdapLogin, logins: &MountLogins) -> Result<(), LdapFailure> {
        let (name, password) = (&login.name, &login.password);
        if name.is_empty() {
            return Ok(());
        }
        let server = self.server.to_string();
        logins.run_login(&server, name, password, self.bind(name, password)).await
    }

    async fn bind(&mut self, name: &str, password: &str) -> Result<(), LdapFailure> {
        let ldap = self.ldap.with_timeout(self.answer_time);
        let answer = self.driven.drive_until(ldap.simple_bind(name, password)).await;
        self.check_answer(LdapRequestKind::Login, answer)
    }

    /// Returns whether a call with these reaches may use the session.
    pub(crate) fn is_within<'a>(
        &self,
        mut reaches: impl Iterator<Item = &'a AllowedAddresses>,
    ) -> bool {
        reaches.any(|reach| reach.check_address(self.address).is_ok())
    }

    /// Returns whether the connection was open at its last use; otherwise do not keep the session.
    pub(crate) fn was_open(&self) -> bool {
        self.driven.was_open()
    }

    /// Returns the time of the last use.
    pub(crate) fn used(&self) -> Instant {
        self.used
    }

    /// Returns whether the session is still live after an idle time.
    pub async fn is_alive(&mut self) -> bool {
        if !self.driven.is_open().await {
            return false;
        }
        if self.used.elapsed() < PING_FREE_TIME {
            return true;
        }
        let ping = self.ldap.with_timeout(PING_TIMEOUT);
        let search = ping.search("", ldap3::Scope::Base, "(objectClass=*)", ["1.1"]);
        let answered = self.driven.drive_until(search).await;
        self.used = Instant::now();
        answered.is_ok() && self.was_open()
    }

    /// Returns the entries of a search, fetched page by page.
    pub async fn search(
        &mut self,
        search: &CheckedSearch,
    ) -> Result<Vec<DirectoryEntry>, LdapFailure> {
        let found = self.pages(search).await.map_err(|failure| at(&self.server, failure));
        self.used = Instant::now();
        found
    }

    /// Makes all changes of an entry, or none.
    pub async fn modify(
        &mut self,
        dn: &str,
        changes: Vec<AttributeChange>,
    ) -> Result<(), LdapFailure> {
        let changes: Vec<Mod<Vec<u8>>> = changes.into_iter().map(change).collect();
        let ldap = self.ldap.with_timeout(self.answer_time);
        let answer = self.driven.drive_until(ldap.modify(dn, changes)).await;
        self.note_change(answer)
    }

    /// Changes a password by the password modify operation (RFC 3062).
    pub async fn change_password(
        &mut self,
        dn: &str,
        current: Option<&str>,
        new: &str,
    ) -> Result<(), LdapFailure> {
        let change = PasswordModify { user_id: Some(dn), old_pass: current, new_pass: Some(new) };
        let ldap = self.ldap.with_timeout(self.answer_time);
        let answer = self.driven.drive_until(ldap.extended(change)).await;
        self.note_change(answer.map(|answered| answered.1))
    }

    fn note_change(&mut self, answer: Result<LdapResult, LdapError>) -> Result<(), LdapFailure> {
        self.used = Instant::now();
        let never_sent = matches!(answer, Err(LdapError::OpSend { .. }));
        self.check_answer(LdapRequestKind::Change, answer).map_err(|failure| {
            let may_have_happened = failure.result_code.is_none() && !never_sent;
            at(&self.server, LdapFailure { may_have_happened, ..failure })
        })
    }

    /// Returns the server's result, or the reason why there is no answer.
    fn check_answer(
        &self,
        what: LdapRequestKind,
        answer: Result<LdapResult, LdapError>,
    ) -> Result<(), LdapFailure> {
        let result = answer.map_err(|error| self.gate.failure(&error))?;
        of_result(what, result.rc, &result.text)
    }

    async fn pages(&mut self, search: &CheckedSearch) -> Result<Vec<DirectoryEntry>, LdapFailure> {
        let (mut found, mut cookie) = (FoundEntries::new(search), Vec::new());
        for _ in 0..limits::LDAP_PAGES {
            cookie = self.page(search, cookie, &mut found).await?;
            if cookie.is_empty() || found.is_complete() {
                return Ok(found.entries);
            }
        }
        Err(failed("refused-search", "the server sends the entries in too many pages"))
    }

    /// Fetches a page. Returns the cookie of the next page.
    async fn page(
        &mut self,
        search: &CheckedSearch,
        cookie: Vec<u8>,
        found: &mut FoundEntries,
    ) -> Result<Vec<u8>, LdapFailure> {
        let size =
            i32::try_from(found.remaining_entries().min(limits::LDAP_PAGE)).unwrap_or(i32::MAX);
        self.ldap.with_timeout(self.answer_time);
        if search.scope != ldap3::Scope::Base {
            self.ldap.with_controls(PagedResults { size, cookie });
        }
        let Self { ldap, gate, driven, .. } = self;
        let broke = |error| gate.failure(&error);
        let request = async {
            let attributes = search.attributes.clone();
            let opening =
                ldap.streaming_search(&search.base, search.scope, &search.filter, attributes);
            let mut stream = opening.await.map_err(broke)?;
            while let Some(entry) = stream.next().await.map_err(broke)? {
                found.take(entry)?;
            }
            Ok(stream.finish().await)
        };
        let ended: LdapResult = driven.drive_until(request).await?;
        // The server reached the size limit; the search drops surplus entries.
        if !(ended.rc == 4 && found.is_complete()) {
            of_result(LdapRequestKind::Search, ended.rc, "")?;
        }
        let next = ended.ctrls.iter().find(|control| control.1.ctype == PAGED_RESULTS_OID);
        match next.and_then(|control| control.1.val.as_deref()) {
            Some(value) => {
                page_cookie(value).map_err(|fault| failed("unreachable", fault.to_string()))
            }
            None => Ok(Vec::new()),
        }
    }
}

/// The entries found so far.
struct FoundEntries {
    entries: Vec<DirectoryEntry>,
    bytes: usize,
    most: u32,
    leaves_out: bool,
}

impl FoundEntries {
    fn new(search: &CheckedSearch) -> Self {
        let (most, leaves_out) = (search.most, search.leaves_out);
        Self { entries: Vec::new(), bytes: 0, most, leaves_out }
    }

    /// Returns the number of entries still wanted. If surplus entries are an error, the number
    /// includes an extra entry, which proves that there are too many entries.
    fn remaining_entries(&self) -> u32 {
        let had = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.most.saturating_add(u32::from(!self.leaves_out)).saturating_sub(had)
    }

    fn is_complete(&self) -> bool {
        self.leaves_out && self.remaining_entries() == 0
    }

    fn take(&mut self, found: ResultEntry) -> Result<(), LdapFailure> {
        if found.is_ref() || self.is_complete() {
            return Ok(());
        }
        let entry = entry(SearchEntry::construct(found));
        self.bytes = self.bytes.saturating_add(size(&entry));
        if self.bytes > limits::LDAP_RESULT_BYTES {
            return Err(failed("refused-search", "the search finds more than 4 MiB"));
        }
        if self.entries.len() >= self.most as usize {
            let most = self.most;
            return Err(failed(
                "refused-search",
                format!("the search finds more than {most} entries"),
            ));
        }
        self.entries.push(entry);
        Ok(())
    }
}

fn entry(found: SearchEntry) -> DirectoryEntry {
    let texts = found.attrs.into_iter().map(|(name, values)| DirectoryAttribute {
        name,
        values: values.into_iter().map(String::into_bytes).collect(),
    });
    let others =
        found.bin_attrs.into_iter().map(|(name, values)| DirectoryAttribute { name, values });
    let mut attributes: Vec<DirectoryAttribute> = texts.chain(others).collect();
    attributes.sort_by(|one, other| one.name.cmp(&other.name));
    DirectoryEntry { dn: found.dn, attributes }
}

fn size(entry: &DirectoryEntry) -> usize {
    let attribute = |attribute: &DirectoryAttribute| {
        let values = attribute.values.iter().map(|value| value.len() + ENTRY_OVERHEAD_BYTES);
        attribute.name.len() + ENTRY_OVERHEAD_BYTES + values.sum::<usize>()
    };
    entry.dn.len() + ENTRY_OVERHEAD_BYTES + entry.attributes.iter().map(attribute).sum::<usize>()
}

fn change(change: AttributeChange) -> Mod<Vec<u8>> {
    let parts = |attribute: DirectoryAttribute| {
        (attribute.name.into_bytes(), attribute.values.into_iter().collect())
    };
    match change {
        AttributeChange::Add(attribute) => {
            let (name, values) = parts(attribute);
            Mod::Add(name, values)
        }
        AttributeChange::Delete(attribute) => {
            let (name, values) = parts(attribute);
            Mod::Delete(name, values)
        }
        AttributeChange::Replace(attribute) => {
            let (name, values) = parts(attribute);
            Mod::Replace(name, values)
        }
    }
}

/// Returns whether the next server may be tried: no session exists, and no server returned a
/// result.
fn is_of_connection(failure: &LdapFailure) -> bool {
    failure.result_code.is_none() && matches!(failure.code.as_str(), "unreachable" | "timed-out")
}

/// Adds the server's name to the failure.
fn at(server: &LdapServer, failure: LdapFailure) -> LdapFailure {
    LdapFailure { message: format!("{server}: {}", failure.message), ..failure }
}

fn address_failure(refused: AddressRefusal, reach: &AllowedAddresses) -> LdapFailure {
    let (code, message) = reach.explain(refused);
    failed(code, message)
}
