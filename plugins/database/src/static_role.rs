//! A stored static role: one account of a database, the account's credential, and the rotation
//! schedule.
//!
//! This file prevents two roles from owning the same account. Each role would change the password
//! without the other. The owner of an account is a separate record, written in the commit that
//! begins a role.

use crate::connection::Connection;
use crate::credential::{CredentialOptions, CredentialRecipe, StoredCredential};
use bulkhead_sdk::rotation::{RotationSettings, RotationTimes};
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::{Failure, Host, stored};
use serde::{Deserialize, Serialize};

/// Prefix of the keys of rotation timers.
const TIMER: &str = "rotate/";

/// Result of the account's login with the credential of its role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CredentialProof {
    /// The account logged in. The default of roles that an earlier release stored.
    #[default]
    Verified,
    /// The database refuses the account for a reason other than the password.
    Unverified,
    /// The database took the credential, and then refused it as a wrong one.
    Refused,
}

/// A static role. No `Debug`: the role holds the credential.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct StaticRole {
    pub(crate) db_name: String,
    pub(crate) username: String,
    pub(crate) rotation_statements: Vec<String>,
    pub(crate) credential_type: String,
    pub(crate) credential_config: CredentialOptions,
    /// `true` if the creation of the role left the account's password unchanged.
    pub(crate) skip_import_rotation: bool,
    pub(crate) rotation: RotationSettings,
    pub(crate) times: RotationTimes,
    /// The newest credential that the database took.
    pub(crate) held: StoredCredential,
    #[serde(default)]
    pub(crate) proof: CredentialProof,
    /// The last verified credential, as long as `held` is not verified. The operator's statements
    /// may have left this credential in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<StoredCredential>,
    /// The servers for which the credential was given or put in force. Empty in records of earlier
    /// releases.
    #[serde(default)]
    pub(crate) targets: Vec<String>,
}

stored!(StaticRole, "static-role", reads_stored_static_roles);

impl StaticRole {
    /// Returns the storage key of the role `name`.
    pub(crate) fn key(name: &str) -> String {
        format!("static-role/{name}")
    }

    /// Returns the role `name`, if the role exists.
    pub(crate) fn find(host: &dyn Host, name: &str) -> Result<Option<Self>, Failure> {
        host.storage().get(&Self::key(name))
    }

    /// Stores the role and schedules the next rotation.
    pub(crate) fn store(&self, host: &dyn Host, name: &str) -> Result<(), Failure> {
        host.storage().put(&Self::key(name), self)?;
        match self.times.due {
            Some(due) => host.clock().schedule(&timer(name), due, &self.db_name),
            None => host.clock().cancel(&timer(name)),
        }
    }

    /// Removes the role, the rotation timer, and the ownership of the account.
    pub(crate) fn remove(&self, host: &dyn Host, name: &str) -> Result<(), Failure> {
        host.storage().delete(&Self::key(name))?;
        host.clock().cancel(&timer(name))?;
        self.release_account(host)
    }

    /// Replaces the credential. Keeps the last verified credential until another is verified.
    pub(crate) fn take(&mut self, credential: StoredCredential, proof: CredentialProof) {
        let before = std::mem::replace(&mut self.held, credential);
        if proof == CredentialProof::Verified {
            self.earlier = None;
        } else if self.proof == CredentialProof::Verified && before != StoredCredential::default() {
            self.earlier = Some(before);
        }
        self.proof = proof;
    }

    /// Returns the warning about a credential that is not verified.
    pub(crate) fn doubt(&self) -> Option<String> {
        let (user, db_name) = (quoted(&self.username), quoted(&self.db_name));
        match self.proof {
            CredentialProof::Verified => None,
            CredentialProof::Unverified => Some(format!(
                "the credential of user {user} could not be verified: connection {db_name} cannot \
                 log in as the user with any password (host, TLS or certificate requirement, \
                 connection limit, expiry or lock); the credential is kept unverified, so check \
                 the credential where the user may log in"
            )),
            CredentialProof::Refused => Some(format!(
                "the database of connection {db_name} took a new credential for user {user}, and \
                 then refused a login with the credential; the credential is kept and not shown. \
                 Check rotation_statements and the user's way of logging in, then rotate the role"
            )),
        }
    }

    /// Returns the warning about a credential if the role holds the only copy. A credential that
    /// was never rotated came from the operator.
    pub(crate) fn lost_credential(&self) -> Option<String> {
        self.times.last.is_some().then(|| {
            format!(
                "the credential of user {} at connection {} stays in force and is not stored any \
                 more; give the user another credential in the database, or take the user over \
                 again by a static role",
                quoted(&self.username),
                quoted(&self.db_name)
            )
        })
    }

    /// Makes the role `name` the owner of the account.
    ///
    /// # Errors
    /// Invalid request if another role owns the account.
    pub(crate) fn claim_account(&self, host: &dyn Host, name: &str) -> Result<(), Failure> {
        let key = self.account(host)?;
        let owner = host.storage().get_plain::<String>(&key)?;
        match owner.filter(|owner| owner != name) {
            Some(owner) => Err(Failure::invalid(format!(
                "static role {} rotates user {} of connection {} already; an account has one owner",
                quoted(&owner),
                quoted(&self.username),
                quoted(&self.db_name)
            ))),
            None => host.storage().put_plain(&key, name),
        }
    }

    /// Ends the ownership of the account. Another role may then own the account.
    pub(crate) fn release_account(&self, host: &dyn Host) -> Result<(), Failure> {
        host.storage().delete(&self.account(host)?)
    }

    /// Returns the key of the owner's record. The key has a digest of the user name, because a user
    /// name may have any characters and any length, and a key may not.
    fn account(&self, host: &dyn Host) -> Result<String, Failure> {
        let digest = host.crypto().digest("sha256", self.username.as_bytes())?;
        Ok(format!("{}{}", accounts(&self.db_name), hexadecimal::text(&digest)))
    }

    /// Returns `true` if the credential is a password.
    pub(crate) fn has_password(&self) -> bool {
        matches!(self.recipe(), Ok(CredentialRecipe::Password { .. }))
    }

    /// Returns the parsed credential type.
    pub(crate) fn recipe(&self) -> Result<CredentialRecipe<'_>, Failure> {
        CredentialRecipe::read(&self.credential_type, &self.credential_config)
    }

    /// Returns the connection, if the role may use the connection.
    ///
    /// # Errors
    /// Invalid request if the connection does not exist; permission denied if the connection does
    /// not admit the role.
    pub(crate) fn connection(
        &self,
        host: &dyn Host,
        name: &str,
        mount: &str,
    ) -> Result<Connection, Failure> {
        Connection::admitting(host, &self.db_name, name, mount)
    }
}

/// Returns the key prefix of the account owners of a connection.
pub(crate) fn accounts(db_name: &str) -> String {
    format!("account/{db_name}/")
}

/// Returns the role that belongs to `timer`.
pub(crate) fn role_of(timer: &str) -> Option<&str> {
    timer.strip_prefix(TIMER)
}

pub(crate) fn timer(name: &str) -> String {
    format!("{TIMER}{name}")
}
