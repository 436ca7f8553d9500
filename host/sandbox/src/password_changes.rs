//! Changes of the passwords by which connections log in.
//!
//! The fault this file stops: requests that fail, and an account that its server locks, because a
//! connection's password is rotated while they are in flight. They know the password that is being
//! replaced. None of them logs in with that beside the change: each waits for the end of the
//! change, and begins anew with what is stored then.

use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a change that ended is remembered: longer than any call that began before its end.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The user as whom a mount's connection logs in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Account {
    pub(crate) mount: String,
    pub(crate) connection: String,
    pub(crate) username: String,
}

/// The changes of all mounts.
#[derive(Default)]
pub(crate) struct PasswordChanges {
    known: Mutex<BTreeMap<Account, Known>>,
    one_ended: Notify,
}

struct Known {
    under_way: usize,
    /// When the last one ended; before that, when it began.
    last: Instant,
}

/// A change that is under way. It ends with the call that makes it, after the commit that stores
/// the new password.
pub(crate) struct PasswordChange {
    changes: Arc<PasswordChanges>,
    account: Account,
}

impl PasswordChange {
    pub(crate) fn is_of(&self, account: &Account) -> bool {
        self.account == *account
    }
}

impl Drop for PasswordChange {
    fn drop(&mut self) {
        if let Some(known) = sync::lock(&self.changes.known).get_mut(&self.account) {
            known.under_way = known.under_way.saturating_sub(1);
            known.last = Instant::now();
        }
        self.changes.one_ended.notify_waiters();
    }
}

impl PasswordChanges {
    /// Begins a change.
    pub(crate) fn begin(self: &Arc<Self>, account: Account) -> PasswordChange {
        let (mut known, now) = (sync::lock(&self.known), Instant::now());
        known.retain(|_, one| one.under_way > 0 || now.duration_since(one.last) < REMEMBERED);
        let one = known.entry(account.clone()).or_insert(Known { under_way: 0, last: now });
        one.under_way = one.under_way.saturating_add(1);
        drop(known);
        PasswordChange { changes: Arc::clone(self), account }
    }

    /// Waits until no change of the account is under way. Returns whether any was since `since`.
    pub(crate) async fn outwait(&self, account: &Account, since: Instant) -> bool {
        loop {
            let ended = self.one_ended.notified();
            tokio::pin!(ended);
            // Registered before the look: what ends in between wakes us.
            ended.as_mut().enable();
            match sync::lock(&self.known).get(account) {
                Some(known) if known.under_way > 0 => {}
                Some(known) => return known.last > since,
                None => return false,
            }
            ended.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(connection: &str) -> Account {
        Account {
            mount: "m".to_owned(),
            connection: connection.to_owned(),
            username: "admin".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_call_waits_for_the_change_of_its_account_and_is_told_of_it() {
        let changes = Arc::new(PasswordChanges::default());
        let before = Instant::now();
        assert!(!changes.outwait(&account("a"), before).await, "nothing was ever changed");
        let (change, second) = (changes.begin(account("a")), changes.begin(account("a")));
        assert!(!changes.outwait(&account("b"), before).await, "another connection's");
        let waiting = tokio::spawn({
            let changes = Arc::clone(&changes);
            async move { changes.outwait(&account("a"), before).await }
        });
        tokio::task::yield_now().await;
        drop(change);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "the second one is under way");
        drop(second);
        assert!(waiting.await.unwrap());
        let after = Instant::now();
        assert!(!changes.outwait(&account("a"), after).await, "it began behind the change");
        assert!(changes.outwait(&account("a"), before).await, "and this one before its end");
    }
}
