//! The login of a call, coordinated with changes of the password.

use super::database_target::DatabaseTarget;
use super::failure::SqlFailure;
use super::session::SqlSession;
use super::{PoolKey, SessionPools, servers};
use crate::addresses::AllowedAddresses;
use crate::password_changes::{CallPasswords, ConnectionAccount, LoginPermit, PasswordChanges};
use std::borrow::Cow;

/// Receives the passwords that no text may show.
pub trait SecretRecorder: Send + Sync {
    /// Records a password that the call did not know, before the password is used.
    fn record_secret(&self, secret: &str);
}

/// The target, pool and password changes for a login.
pub struct LoginRequest<'a> {
    /// The pools of the process.
    pub pools: &'a SessionPools,
    /// The password changes of the process.
    pub changes: &'a PasswordChanges,
    /// The password changes of the call.
    pub passwords: &'a CallPasswords,
    /// The secrets of the call.
    pub secrets: &'a dyn SecretRecorder,
    /// The pool of the call's connection.
    pub key: PoolKey,
    /// The servers and the login.
    pub target: &'a DatabaseTarget,
    /// The addresses to which each endpoint may resolve.
    pub reaches: Vec<AllowedAddresses>,
}

impl LoginRequest<'_> {
    /// Lends a session.
    ///
    /// # Errors
    /// As [`SessionPools::lend`].
    pub async fn lend(&self) -> Result<SqlSession, SqlFailure> {
        let account = self.account();
        if self.passwords.is_changing(&account) {
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
    pub async fn lend_for_change(&self) -> Result<SqlSession, SqlFailure> {
        let account = self.account();
        if !self.passwords.is_changing(&account) {
            // Begin the change before lending: calls that log in now may wait for the same session.
            self.passwords.keep(self.changes.begin(account).await);
        }
        self.lend().await
    }

    /// Logs in and runs a trivial query.
    ///
    /// # Errors
    /// As [`SessionPools::ping`].
    pub async fn ping(&self) -> Result<(), SqlFailure> {
        let account = self.account();
        if self.passwords.is_changing(&account) {
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
    pub async fn prove(&self) -> Result<(), SqlFailure> {
        self.pools.ping(&self.key, self.target, &self.reaches).await?;
        self.passwords.note_proven(&self.account(), &self.target.password);
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
    fn current_target(&self, login: &LoginPermit) -> (PoolKey, Cow<'_, DatabaseTarget>) {
        let newer = login.replacement_password(&self.target.password, self.passwords.began());
        let Some(password) = newer else {
            return (self.key.clone(), Cow::Borrowed(self.target));
        };
        self.secrets.record_secret(&password);
        let target = DatabaseTarget { password: (*password).clone(), ..self.target.clone() };
        (self.pools.key_of_newest(&self.key, &target), Cow::Owned(target))
    }
}
