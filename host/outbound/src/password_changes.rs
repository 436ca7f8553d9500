//! Password changes of connections' users, and the logins beside a change.
//!
//! This file prevents failed requests and locked accounts during the rotation of a connection's
//! password: requests in flight still hold the previous password. A login waits for a change that
//! is under way. A call that began before the end of the change logs in with the proven password.
//!
//! This file prevents a proven password from being sent to another server, too: a call may have
//! begun while the connection named other servers. The servers are a part of the account.

use crate::fingerprint::Fingerprint;
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::time::Instant;
use zeroize::Zeroizing;

/// Time for which a proven password is kept: longer than any call that began earlier.
const PROOF_RETENTION: Duration = Duration::from_secs(600);

/// The login user of a mount's connection.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionAccount {
    pub(crate) mount: String,
    pub(crate) connection: String,
    /// The servers of the connection, with all that authenticates them.
    pub(crate) servers: Fingerprint,
    pub(crate) username: String,
}

/// The changes and logins of all mounts.
#[derive(Default)]
pub struct PasswordChanges(Mutex<BTreeMap<ConnectionAccount, Arc<PasswordGate>>>);

/// Admits the logins of an account, or one change of its password, in order of arrival.
#[derive(Default)]
struct PasswordGate {
    door: Arc<RwLock<()>>,
    proven: Mutex<Option<ProvenPassword>>,
}

/// The password that a change put in force. No `Debug`: the password is a secret.
struct ProvenPassword {
    password: Zeroizing<String>,
    /// End of the call that made the change; until then, the time of the proof.
    at: Instant,
}

/// The right to log in; no change begins meanwhile.
pub(crate) struct LoginPermit {
    gate: Arc<PasswordGate>,
    _inside: OwnedRwLockReadGuard<()>,
}

/// A change under way. The call that makes the change holds this value until its commit has
/// stored the new password.
pub struct PasswordChange {
    account: ConnectionAccount,
    gate: Arc<PasswordGate>,
    _inside: OwnedRwLockWriteGuard<()>,
}

/// The changes of passwords by one call, kept until the call ends, and the time at which the call
/// began.
pub struct CallPasswords {
    began: Instant,
    changes: Mutex<Vec<PasswordChange>>,
}

impl Default for CallPasswords {
    fn default() -> Self {
        Self { began: Instant::now(), changes: Mutex::default() }
    }
}

impl CallPasswords {
    /// Returns the time at which the call began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Keeps a change of a connection's password until the call ends.
    pub fn keep(&self, change: PasswordChange) {
        sync::lock(&self.changes).push(change);
    }

    /// Returns true if the call itself changes the password of the account.
    pub fn is_changing(&self, account: &ConnectionAccount) -> bool {
        sync::lock(&self.changes).iter().any(|change| change.is_of(account))
    }

    /// Records the password in force, for the call's changes of that account.
    pub fn note_proven(&self, account: &ConnectionAccount, password: &str) {
        let changes = sync::lock(&self.changes);
        let of_account = changes.iter().filter(|change| change.is_of(account));
        of_account.for_each(|change| change.note_proven(password));
    }
}

impl PasswordChanges {
    /// Begins a change after the current logins.
    pub(crate) async fn begin(&self, account: ConnectionAccount) -> PasswordChange {
        let gate = self.gate(&account);
        let inside = Arc::clone(&gate.door).write_owned().await;
        PasswordChange { account, gate, _inside: inside }
    }

    /// Begins a login. `None`: a change is under way, or waits.
    pub(crate) fn try_log_in(&self, account: &ConnectionAccount) -> Option<LoginPermit> {
        let gate = self.gate(account);
        let inside = Arc::clone(&gate.door).try_read_owned().ok()?;
        Some(LoginPermit { gate, _inside: inside })
    }

    /// Begins a login after the changes that arrived earlier.
    pub(crate) async fn log_in(&self, account: &ConnectionAccount) -> LoginPermit {
        let gate = self.gate(account);
        let inside = Arc::clone(&gate.door).read_owned().await;
        LoginPermit { gate, _inside: inside }
    }

    /// Forgets the proven passwords of a mount. Changes and logins under way still wait for each
    /// other.
    pub fn forget_mount(&self, mount: &str) {
        let is_kept = |account: &ConnectionAccount, gate: &Arc<PasswordGate>| {
            account.mount != mount || Arc::strong_count(gate) > 1
        };
        sync::lock(&self.0).retain(|account, gate| is_kept(account, gate));
    }

    /// Forgets all proven passwords.
    pub fn clear(&self) {
        sync::lock(&self.0).clear();
    }

    fn gate(&self, account: &ConnectionAccount) -> Arc<PasswordGate> {
        let mut gates = sync::lock(&self.0);
        if let Some(gate) = gates.get(account) {
            return Arc::clone(gate);
        }
        gates.retain(|_, gate| Arc::strong_count(gate) > 1 || gate.is_needed());
        Arc::clone(gates.entry(account.clone()).or_default())
    }
}

impl PasswordGate {
    /// Returns whether a call may be older than the last change.
    fn is_needed(&self) -> bool {
        sync::lock(&self.proven)
            .as_ref()
            .is_some_and(|proven| proven.at.elapsed() < PROOF_RETENTION)
    }
}

impl LoginPermit {
    /// Returns the proven password if a call from `began` on that knows `known_password` needs
    /// another one.
    pub(crate) fn replacement_password(
        &self,
        known_password: &str,
        began: Instant,
    ) -> Option<Zeroizing<String>> {
        let proven = sync::lock(&self.gate.proven);
        let newer =
            proven.as_ref().filter(|newer| newer.at >= began && *newer.password != known_password);
        newer.map(|newer| newer.password.clone())
    }
}

impl PasswordChange {
    pub(crate) fn is_of(&self, account: &ConnectionAccount) -> bool {
        self.account == *account
    }

    /// Stores the password that logged in.
    pub(crate) fn note_proven(&self, password: &str) {
        let password = Zeroizing::new(password.to_owned());
        *sync::lock(&self.gate.proven) = Some(ProvenPassword { password, at: Instant::now() });
    }
}

impl Drop for PasswordChange {
    fn drop(&mut self) {
        if let Some(proven) = &mut *sync::lock(&self.gate.proven) {
            proven.at = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(connection: &str) -> ConnectionAccount {
        ConnectionAccount {
            mount: "m".to_owned(),
            connection: connection.to_owned(),
            servers: Fingerprint::begin().end(),
            username: "admin".to_owned(),
        }
    }

    #[tokio::test]
    async fn proven_password_is_bound_to_server_and_mount() {
        let (changes, began) = (PasswordChanges::default(), Instant::now());
        let change = changes.begin(account("a")).await;
        change.note_proven("new");
        drop(change);
        let elsewhere = ConnectionAccount {
            servers: Fingerprint::begin().bytes("other").end(),
            ..account("a")
        };
        let login = changes.log_in(&elsewhere).await;
        assert!(login.replacement_password("old", began).is_none());
        let newer = |login: LoginPermit| login.replacement_password("old", began).is_some();
        assert!(newer(changes.log_in(&account("a")).await));
        changes.forget_mount("m");
        assert!(!newer(changes.log_in(&account("a")).await));
    }

    #[tokio::test]
    async fn login_awaits_password_change_and_uses_proven_password() {
        let changes = Arc::new(PasswordChanges::default());
        let began = Instant::now();
        let change = changes.begin(account("a")).await;
        assert!(changes.try_log_in(&account("a")).is_none());
        assert!(
            changes.try_log_in(&account("b")).is_some(),
            "a change of another connection does not block"
        );
        let waiting = tokio::spawn({
            let changes = Arc::clone(&changes);
            async move { changes.log_in(&account("a")).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        change.note_proven("new");
        drop(change);
        let login = waiting.await.unwrap();
        let password = |current| login.replacement_password(current, began).map(|p| p.to_string());
        assert_eq!(password("old").as_deref(), Some("new"));
        assert_eq!(password("new"), None);
        let later = Instant::now();
        assert!(
            login.replacement_password("old", later).is_none(),
            "a later login has no replacement"
        );
    }

    #[tokio::test]
    async fn password_changes_and_logins_proceed_in_arrival_order() {
        let changes = Arc::new(PasswordChanges::default());
        let login = changes.try_log_in(&account("a")).unwrap();
        let begin = |changes: &Arc<PasswordChanges>| {
            let changes = Arc::clone(changes);
            tokio::spawn(async move { changes.begin(account("a")).await })
        };
        let first = begin(&changes);
        tokio::task::yield_now().await;
        assert!(!first.is_finished());
        drop(login);
        let first = first.await.unwrap();
        let of_login = account("a");
        let mut login = Box::pin(changes.log_in(&of_login));
        tokio::select! {
            biased;
            _ = &mut login => panic!("a change is under way"),
            () = std::future::ready(()) => {}
        }
        let second = begin(&changes);
        tokio::task::yield_now().await;
        drop(first);
        let login = login.await;
        assert!(
            login.replacement_password("old", Instant::now()).is_none(),
            "without a proof there is no replacement"
        );
        assert!(!second.is_finished());
        drop(login);
        drop(second.await.unwrap());
    }

    #[test]
    fn unused_password_changes_are_forgotten() {
        let changes = PasswordChanges::default();
        for number in 0..100 {
            drop(changes.try_log_in(&account(&number.to_string())));
        }
        assert_eq!(sync::lock(&changes.0).len(), 1);
    }
}
