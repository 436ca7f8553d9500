//! Creation of a static role, together with the first credential of its account.
//!
//! This file prevents the loss of a password that was put in force, if the account cannot log in
//! from here or the reply of the database was lost.

use crate::connection::Connection;
use crate::static_account::{
    AcceptedCredential, CredentialCandidate, StaticAccount, key, note_obstacle,
};
use crate::static_role::{CredentialProof, StaticRole};
use crate::unfinished::{UnfinishedChange, is_refusal};
use bulkhead_sdk::intent::{CandidateSearch, Intent, IntentEndReason};
use bulkhead_sdk::{Context, Failure, Host};

/// Changes the credential of the account and stores the role with the credential as `name`. Returns
/// the result of the login.
///
/// # Errors
/// Errors of host and database. If the database refused the change, nothing is left of the role. If
/// the outcome is unknown, the guard finishes or forgets the role.
pub(crate) fn create(
    host: &dyn Host,
    name: &str,
    role: &StaticRole,
    connection: &Connection,
) -> Result<CredentialProof, Failure> {
    let account = StaticAccount { host, name, role, connection };
    let candidate = account.new_candidate(Some(Box::new(role.clone())))?;
    role.claim_account(host, name)?;
    let intent = Intent::begin(host, &key(name), &role.db_name, candidate)?;
    match account.change(intent) {
        Ok(credential) => {
            let proof = credential.proof;
            account.store(credential).map(|()| proof)
        }
        Err(why) if is_refusal(&why) => match account.withdraw() {
            Ok(true) => Ok(CredentialProof::Verified),
            // A failed withdrawal commits nothing, and the guard repeats the withdrawal.
            Ok(false) | Err(_) => Err(why),
        },
        Err(why) => Err(why),
    }
}

/// Finishes or forgets the creation of a role, called by the guard of the creation.
///
/// # Errors
/// Errors of host and database; the guard rings again.
pub(crate) fn finish(
    host: &dyn Host,
    context: &Context,
    name: &str,
    intent: Intent<CredentialCandidate>,
) -> Result<(), Failure> {
    let change = UnfinishedChange::find(host, &key(name))?.unwrap_or_default();
    let creation = intent.candidates().find_map(|candidate| candidate.creation.clone());
    let Some(role) = creation else { return abandon_creation(host, name, intent) };
    let connection = Connection::find(host, &role.db_name)?.filter(|_| !change.is_unwanted);
    let Some(connection) = connection else {
        role.release_account(host)?;
        return abandon_creation(host, name, intent);
    };
    let account = StaticAccount { host, name, role: &role, connection: &connection };
    let obstacle = |why: &Failure| note_obstacle(host, name, why);
    account.check_candidates(&intent).inspect_err(obstacle)?;
    match account.look(intent).inspect_err(obstacle)? {
        (CandidateSearch::InForce(proven), _) => {
            account.store(AcceptedCredential { proven, proof: CredentialProof::Verified })
        }
        // A candidate may be in force, and the intent has the only copy.
        (CandidateSearch::Nowhere(intent), is_unverified) if is_unverified || change.is_set => {
            role.connection(host, name, &context.mount.path).inspect_err(obstacle)?;
            account.check_own_change().inspect_err(obstacle)?;
            account.store(account.change(intent)?)
        }
        (CandidateSearch::Nowhere(intent), _) => {
            role.release_account(host)?;
            abandon_creation(host, name, intent)
        }
    }
}

/// Ends the intent of a role that does not exist.
pub(crate) fn abandon_creation(
    host: &dyn Host,
    name: &str,
    intent: Intent<CredentialCandidate>,
) -> Result<(), Failure> {
    UnfinishedChange::forget(host, &key(name))?;
    intent.abandon(host, IntentEndReason::Unwanted)
}

impl StaticAccount<'_> {
    /// Forgets a role whose first credential the database refused, and commits, because the call
    /// fails. Returns `true` if the credential is in force nevertheless.
    fn withdraw(&self) -> Result<bool, Failure> {
        let Some(intent) = Intent::<CredentialCandidate>::recover(self.host, &key(self.name))?
        else {
            return Ok(false);
        };
        self.check_candidates(&intent)?;
        let is_in_force = match self.look(intent)? {
            (CandidateSearch::InForce(proven), _) => {
                self.store(AcceptedCredential { proven, proof: CredentialProof::Verified })?;
                true
            }
            // The first of several statements may have changed the password. The guard continues.
            (CandidateSearch::Nowhere(_), true) if self.has_several_statements() => {
                return Ok(false);
            }
            (CandidateSearch::Nowhere(intent), _) => {
                self.role.release_account(self.host)?;
                abandon_creation(self.host, self.name, intent)?;
                false
            }
        };
        self.host.storage().checkpoint()?;
        Ok(is_in_force)
    }

    fn has_several_statements(&self) -> bool {
        let statements = &self.role.rotation_statements;
        let is_list = |text: &String| text.trim().trim_end_matches(';').contains(';');
        statements.len() > 1 || statements.iter().any(is_list)
    }
}

#[cfg(test)]
mod tests;
