//! The login of a call, coordinated with changes of the password.

use super::failure::SqlFailure;
use super::session::SqlSession;
use super::{PoolKey, SessionPools, servers};
use crate::bindings::database_plugin::bulkhead::plugin::sql::Target;
use crate::call_tree::CallTree;
use crate::grants::AllowedAddresses;
use crate::password_changes::{ConnectionAccount, LoginPermit, PasswordChanges};
use std::borrow::Cow;

/// The target, pool and password changes for a login.
pub(crate) struct LoginRequest<'a> {
    pub(crate) pools: &'a SessionPools,
    pub(crate) changes: &'a PasswordChanges,
    pub(crate) tree: &'a CallTree,
    pub(crate) key: PoolKey,
    pub(crate) target: &'a Target,
    pub(crate) reaches: Vec<AllowedAddresses>,
}

impl LoginRequest<'_> {
    /// Lends a session.
    ///
    /// # Errors
    /// As [`SessionPools::lend`].
    pub(crate) async fn lend(&self) -> Result<SqlSession, SqlFailure> {
        let account = self.account();
        if self.tree.changes_password_of(&account) {
            return self.pools.lend(&self.key, self.target, &self.reaches).await;
        }
        let login = match self.changes.try_log_in(&account) {
            Some(login) => login,
            None => {
                // Open sessions stay usable during a password change.
                if let Some(lent) = self.pools.lend_idle(&self.key, &self.reaches).await {
                    return Ok(lent);
                }
                self.changes.log_in(&account).await
            }
        };
        let (key, target) = self.current_target(&login);
        self.pools.lend(&key, &target, &self.reaches).await
    }

    /// Lends a session for statements that change the session's own password. Other calls log in
    /// with the new password after this call has ended.
    ///
    /// # Errors
    /// As [`SessionPools::lend`].
    pub(crate) async fn lend_for_change(&self) -> Result<SqlSession, SqlFailure> {
        let account = self.account();
        if !self.tree.changes_password_of(&account) {
            // Begin the change before lending: calls that log in now may wait for the same session.
            self.tree.keep_password_change(self.changes.begin(account).await);
        }
        self.lend().await
    }

    /// Logs in and runs a trivial query.
    ///
    /// # Errors
    /// As [`SessionPools::ping`].
    pub(crate) async fn ping(&self) -> Result<(), SqlFailure> {
        let account = self.account();
        if self.tree.changes_password_of(&account) {
            return self.pools.ping(&self.key, self.target, &self.reaches).await;
        }
        let login = self.changes.log_in(&account).await;
        let (key, target) = self.current_target(&login);
        self.pools.ping(&key, &target, &self.reaches).await
    }

    /// Proves the password of the target itself, even if a newer password is known.
    ///
    /// # Errors
    /// As [`SessionPools::ping`].
    pub(crate) async fn prove(&self) -> Result<(), SqlFailure> {
        self.pools.ping(&self.key, self.target, &self.reaches).await?;
        self.tree.note_proven_password(&self.account(), &self.target.password);
        Ok(())
    }

    fn account(&self) -> ConnectionAccount {
        ConnectionAccount {
            mount: self.key.mount.clone(),
            connection: self.key.connection.clone(),
            servers: servers(self.target),
            username: self.target.username.clone(),
        }
    }

    /// Returns pool and target. If the password changed since the call began, the target has the
    /// newer password.
    fn current_target(&self, login: &LoginPermit) -> (PoolKey, Cow<'_, Target>) {
        let newer = login.replacement_password(&self.target.password, self.tree.began());
        let Some(password) = newer else {
            return (self.key.clone(), Cow::Borrowed(self.target));
        };
        self.tree.secrets.add(&password);
        let target = Target { password: (*password).clone(), ..self.target.clone() };
        (self.pools.key_of_newest(&self.key, &target), Cow::Owned(target))
    }
}
