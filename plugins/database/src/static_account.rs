//! The account of a static role at its database: changes the credential, verifies the credential by
//! a login, and stores the result in the role.
//!
//! This file prevents two faults: a password is lost because the login failed for a reason other
//! than the password, and a password is sent to a server for which it was not made.

use crate::connection::{Connection, about};
use crate::credential::StoredCredential;
use crate::figures::{self, OperationOutcome};
use crate::placement::CredentialStatements;
use crate::static_role::{CredentialProof, StaticRole};
use crate::target;
use crate::unfinished::UnfinishedChange;
use bulkhead_sdk::database_plugin::StatementAct;
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::intent::{CandidateSearch, Intent, ProvenCandidate};
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, FailureKind, Host, stored};
use serde::{Deserialize, Serialize};
use std::cell::Cell;

/// Prefix of the intents' keys.
const INTENT: &str = "static/";
/// Returns the key of the intent of the role `name`.
pub(crate) fn key(name: &str) -> String {
    format!("{INTENT}{name}")
}

/// Returns the role that belongs to `intent`.
pub(crate) fn role_of(intent: &str) -> Option<&str> {
    intent.strip_prefix(INTENT)
}

/// A credential that may be in force. No `Debug`: a candidate is a secret.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct CredentialCandidate {
    pub(crate) held: StoredCredential,
    /// The role to create with the credential. `None`: the role is stored already.
    pub(crate) creation: Option<Box<StaticRole>>,
    /// The servers for which the credential was made. Empty in records of earlier releases.
    #[serde(default)]
    pub(crate) targets: Vec<String>,
}

stored!(CredentialCandidate, "static-candidate", reads_stored_candidates);

/// A credential that the database took.
#[must_use = "a credential in force has to be stored"]
pub(crate) struct AcceptedCredential {
    pub(crate) proven: ProvenCandidate<CredentialCandidate>,
    pub(crate) proof: CredentialProof,
}

/// The earlier credential that is in force during an unfinished change.
pub(crate) enum EarlierCredential {
    /// The credential of the role.
    Stored,
    /// The last verified credential, and not the credential of the role.
    Earlier(StoredCredential),
    /// No known credential: the database refused each as wrong.
    Neither,
    /// The database cannot tell, or must not be asked.
    Untold,
}

/// A role with its connection, at which its account is changed.
pub(crate) struct StaticAccount<'a> {
    pub(crate) host: &'a dyn Host,
    pub(crate) name: &'a str,
    pub(crate) role: &'a StaticRole,
    pub(crate) connection: &'a Connection,
}

impl StaticAccount<'_> {
    /// Generates a credential for the servers of the connection.
    pub(crate) fn new_candidate(
        &self,
        creation: Option<Box<StaticRole>>,
    ) -> Result<CredentialCandidate, Failure> {
        let place = CredentialStatements {
            connection: self.connection,
            db_name: &self.role.db_name,
            act: StatementAct::Rotation,
            credential_type: &self.role.credential_type,
            statements: &self.role.rotation_statements,
        };
        let credential = self.role.recipe()?.make(self.host, self.name, &place)?;
        let targets = self.connection.targets(self.host, &self.role.db_name)?;
        Ok(CredentialCandidate { held: credential, creation, targets })
    }

    /// Puts the newest candidate in force and verifies the candidate by a login. Notes a failure
    /// for later callers.
    pub(crate) fn change(
        &self,
        intent: Intent<CredentialCandidate>,
    ) -> Result<AcceptedCredential, Failure> {
        let (proof, is_set) = (Cell::new(CredentialProof::Unverified), Cell::new(false));
        let change = |candidate: &CredentialCandidate| {
            self.put_in_force(candidate).inspect(|()| is_set.set(true))
        };
        let prove = |candidate: &CredentialCandidate, (): &()| {
            proof.set(self.prove(&candidate.held)?);
            Ok(())
        };
        match intent.make(change, prove) {
            Ok(proven) => Ok(AcceptedCredential { proven, proof: proof.get() }),
            Err(why) => {
                let intent = key(self.name);
                UnfinishedChange::note_failure(self.host, &intent, &why, is_set.get());
                Err(why)
            }
        }
    }

    /// As [`change`](Self::change), but fails if the database then refuses the credential as wrong.
    /// The candidates are kept.
    pub(crate) fn change_to_usable(
        &self,
        intent: Intent<CredentialCandidate>,
    ) -> Result<AcceptedCredential, Failure> {
        let credential = self.change(intent)?;
        if credential.proof != CredentialProof::Refused {
            return Ok(credential);
        }
        let why = Failure::invalid(format!(
            "user {} of connection {} cannot log in with the new credential; check \
             rotation_statements and whether the user may log in",
            quoted(&self.role.username),
            quoted(&self.role.db_name)
        ));
        UnfinishedChange::note_failure(self.host, &key(self.name), &why, true);
        Err(why)
    }

    fn put_in_force(&self, candidate: &CredentialCandidate) -> Result<(), Failure> {
        let called = self.connection.for_host(&self.role.db_name);
        let current = self.connection.is_self_managed().then(|| self.role.held.credential());
        let changed = self.host.databases().change_credential(
            &called,
            &self.role.username,
            &candidate.held.credential(),
            current.as_ref(),
            &self.role.rotation_statements,
        );
        changed.map_err(|why| about(&self.role.db_name, why))
    }

    /// Returns `true` if the stored credential was made for the servers of the connection. A server
    /// that the connection was pointed to later must not learn the credential.
    fn may_send_held(&self) -> Result<bool, Failure> {
        let now = self.connection.targets(self.host, &self.role.db_name)?;
        Ok(target::keeps(&self.role.targets, &now))
    }

    /// Refuses a change for which the account would send its own credential to another server.
    pub(crate) fn check_own_change(&self) -> Result<(), Failure> {
        match self.connection.is_self_managed() && !self.may_send_held()? {
            true => Err(self.stored_for_another_server(&self.role.targets)),
            false => Ok(()),
        }
    }

    /// Refuses to send candidates to other servers than the candidates were made for. A candidate
    /// may be in force at the earlier servers of the connection.
    pub(crate) fn check_candidates(
        &self,
        intent: &Intent<CredentialCandidate>,
    ) -> Result<(), Failure> {
        let now = self.connection.targets(self.host, &self.role.db_name)?;
        match intent.candidates().find(|candidate| !target::keeps(&candidate.targets, &now)) {
            Some(candidate) => Err(Failure {
                kind: FailureKind::Unreachable,
                ..self.stored_for_another_server(&candidate.targets)
            }),
            None => Ok(()),
        }
    }

    fn stored_for_another_server(&self, targets: &[String]) -> Failure {
        let (name, db_name) = (quoted(self.name), quoted(&self.role.db_name));
        let targets = targets.join(", ");
        Failure::invalid(format!(
            "the password of static role {name} is for {targets}, and connection {db_name} leads \
             to another server; write the connection with the former server, or delete the role \
             and create it again with the account's password"
        ))
    }

    /// Asks if the account logs in with the credential. `None`: the database cannot tell.
    fn works(&self, stored: &StoredCredential) -> Result<Option<bool>, Failure> {
        let called = self.connection.for_host(&self.role.db_name);
        let (username, credential) = (&self.role.username, stored.credential());
        self.host
            .databases()
            .check_credential(&called, username, &credential)
            .map_err(|why| about(&self.role.db_name, why))
    }

    /// Verifies the credential by a login of the account.
    pub(crate) fn prove(&self, credential: &StoredCredential) -> Result<CredentialProof, Failure> {
        Ok(match self.works(credential)? {
            Some(true) => CredentialProof::Verified,
            Some(false) => CredentialProof::Refused,
            None => CredentialProof::Unverified,
        })
    }

    /// Looks for the earlier credential that is in force.
    pub(crate) fn holding(&self) -> Result<EarlierCredential, Failure> {
        if !self.may_send_held()? {
            return Ok(EarlierCredential::Untold);
        }
        match self.prove(&self.role.held)? {
            CredentialProof::Verified => return Ok(EarlierCredential::Stored),
            CredentialProof::Unverified => return Ok(EarlierCredential::Untold),
            CredentialProof::Refused => {}
        }
        match &self.role.earlier {
            Some(earlier) if self.prove(earlier)? == CredentialProof::Verified => {
                Ok(EarlierCredential::Earlier(earlier.clone()))
            }
            _ => Ok(EarlierCredential::Neither),
        }
    }

    /// Looks for a candidate that is in force. The flag says that the database could not tell of at
    /// least one candidate.
    pub(crate) fn look(
        &self,
        intent: Intent<CredentialCandidate>,
    ) -> Result<(CandidateSearch<CredentialCandidate>, bool), Failure> {
        let is_unverified = Cell::new(false);
        let found = intent.find_in_force(|candidate| {
            let proof = self.prove(&candidate.held)?;
            is_unverified.set(is_unverified.get() || proof == CredentialProof::Unverified);
            Ok(proof == CredentialProof::Verified)
        })?;
        Ok((found, is_unverified.get()))
    }

    /// Stores the credential, and the role with its first credential. A role that was deleted
    /// meanwhile stays deleted.
    pub(crate) fn store(&self, credential: AcceptedCredential) -> Result<(), Failure> {
        let Self { host, name, .. } = *self;
        let AcceptedCredential { proven, proof } = credential;
        proven.confirm(host, |candidate, ()| {
            UnfinishedChange::forget(host, &key(name))?;
            let stored = StaticRole::find(host, name)?;
            let created = candidate.creation.as_deref().cloned();
            let Some(mut role) = stored.or(created) else { return Ok(()) };
            figures::observe_delay(host, role.times.due);
            role.times = role.rotation.rotated_at(host.clock().now())?;
            role.take(candidate.held.clone(), proof);
            role.targets = self.connection.targets(host, &role.db_name)?;
            report_rotation(host, OperationOutcome::Done, name, &role);
            if proof != CredentialProof::Verified {
                let pairs = [("role", name), ("connection", &role.db_name)];
                host.log().write(LogLevel::Warn, "static-role-unverified", &pairs);
            }
            role.store(host, name)
        })
    }
}

/// Notes an error before the change was tried. The error does not count as a refusal.
pub(crate) fn note_obstacle(host: &dyn Host, name: &str, why: &Failure) {
    let why = Failure { kind: FailureKind::Unavailable, ..why.clone() };
    UnfinishedChange::note_failure(host, &key(name), &why, false);
}

/// Reports the outcome of a rotation to log and metrics.
pub(crate) fn report_rotation(
    host: &dyn Host,
    outcome: OperationOutcome,
    name: &str,
    role: &StaticRole,
) {
    figures::count(host, &figures::ROTATIONS, outcome);
    let (level, event) = match outcome {
        OperationOutcome::Done => (LogLevel::Info, "static-role-rotated"),
        OperationOutcome::Failed => (LogLevel::Warn, "rotation-failed"),
        OperationOutcome::Missed => (LogLevel::Warn, "rotation-missed"),
    };
    let due = role.times.due.unwrap_or_default();
    let next = format!("{}s", due.saturating_sub(host.clock().now()) / 1_000);
    let pairs = [("role", name), ("connection", &role.db_name), ("next", &next)];
    host.log().write(level, event, &pairs);
}
