//! Rotation of static roles. The engine writes a new credential down, puts the credential in force,
//! verifies the credential by a login, and only then stores the credential; see [`Intent`].
//!
//! This file prevents three faults: a password in force that the store does not know, after any
//! failure of process or database; endless attempts with a candidate that the database refuses; and
//! a second rotation for the same due time. Only the guard continues an unfinished change. A change
//! has a single guard at a time, and request handlers can only wake the guard early.

use crate::connection::Connection;
use crate::figures::OperationOutcome;
use crate::static_account::{
    AcceptedCredential, CredentialCandidate, EarlierCredential, StaticAccount, key, note_obstacle,
    report_rotation,
};
use crate::static_creation;
use crate::static_role::{CredentialProof, StaticRole, timer};
use crate::unfinished::UnfinishedChange;
use bulkhead_sdk::intent::{self, CandidateSearch, EarlierCandidates, Intent, IntentEndReason};
use bulkhead_sdk::rotation::RotationDecision;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Context, Failure, FailureKind, Host};

/// Maximum number of candidates while no credential is known to work. A database that counts failed
/// logins would lock the account.
const MOST_CANDIDATES: usize = 5;
/// Maximum number of refusals of a candidate, by timers and requests together, while no credential
/// is known to work.
const MOST_REFUSALS: u32 = 3;

/// Returns `true` if a change of the role `name`, or its creation, is unfinished.
pub(crate) fn is_open(host: &dyn Host, name: &str) -> Result<bool, Failure> {
    intent::is_open(host, &key(name))
}

/// Refuses a second change of the role beside an unfinished change, which continues when this call
/// ends.
pub(crate) fn refuse_open(host: &dyn Host, name: &str) -> Result<(), Failure> {
    let key = key(name);
    if !intent::make_due(host, &key)? {
        return Ok(());
    }
    let what = format!("a rotation of static role {}", quoted(name));
    Err(UnfinishedChange::refusal(host, &key, &what, "delete the role to give the change up")?)
}

/// Marks an unfinished change of a deleted role as unwanted, and wakes the guard of the change.
/// Returns the warning about the change.
pub(crate) fn abandon(host: &dyn Host, name: &str) -> Result<Option<String>, Failure> {
    let is_open = is_open(host, name)?;
    if is_open {
        UnfinishedChange::note(host, &key(name), |change| change.is_unwanted = true)?;
    }
    intent::make_due(host, &key(name))?;
    Ok(is_open.then(|| {
        format!(
            "a change of static role {} was not finished and is given up: the user may have a \
             credential the engine did not store; give the user another credential in the database",
            quoted(name)
        )
    }))
}

/// Rotates the credential of `role`, which is stored as `name`. Returns the result of the login.
///
/// # Errors
/// Errors of host and database. The guard finishes the change then.
pub(crate) fn rotate(
    host: &dyn Host,
    name: &str,
    role: &StaticRole,
    connection: &Connection,
) -> Result<CredentialProof, Failure> {
    let account = StaticAccount { host, name, role, connection };
    account.check_own_change()?;
    let candidate = account.new_candidate(None)?;
    let intent = Intent::begin(host, &key(name), &role.db_name, candidate)?;
    let credential = account.change_to_usable(intent)?;
    let proof = credential.proof;
    account.store(credential).map(|()| proof)
}

/// Handles the timer of the role `name`: rotates the credential if the rotation is due.
///
/// # Errors
/// Errors of the rotation; the timer rings again.
pub(crate) fn wake(host: &dyn Host, context: &Context, name: &str) -> Result<(), Failure> {
    let Some(mut role) = StaticRole::find(host, name)? else { return Ok(()) };
    if is_open(host, name)? {
        return intent::step_aside(host, &timer(name));
    }
    match role.rotation.decide(&role.times, host.clock().now())? {
        RotationDecision::Off => Ok(()),
        RotationDecision::Wait(_) => role.store(host, name),
        RotationDecision::Missed(next) => {
            report_rotation(host, OperationOutcome::Missed, name, &role);
            role.times.due = next;
            role.store(host, name)
        }
        RotationDecision::Rotate => role
            .connection(host, name, &context.mount.path)
            .and_then(|connection| rotate(host, name, &role, &connection).map(drop))
            .inspect_err(|_| report_rotation(host, OperationOutcome::Failed, name, &role)),
    }
}

/// Handles the guard of the role `name`: finishes an unfinished change.
///
/// # Errors
/// Errors of the change; the guard rings again.
pub(crate) fn recover(host: &dyn Host, context: &Context, name: &str) -> Result<(), Failure> {
    let Some(intent) = Intent::<CredentialCandidate>::recover(host, &key(name))? else {
        return Ok(());
    };
    match StaticRole::find(host, name)? {
        Some(role) => finish(host, context, intent, (name, &role))
            .inspect_err(|_| report_rotation(host, OperationOutcome::Failed, name, &role)),
        None => static_creation::finish(host, context, name, intent),
    }
}

/// Finishes the change of a stored role.
fn finish(
    host: &dyn Host,
    context: &Context,
    intent: Intent<CredentialCandidate>,
    (name, role): (&str, &StaticRole),
) -> Result<(), Failure> {
    let gone = || {
        let db_name = quoted(&role.db_name);
        Failure::new(
            FailureKind::Unreachable,
            format!("connection {db_name} is gone; write the connection again"),
        )
    };
    let connection = Connection::find(host, &role.db_name)?.ok_or_else(gone)?;
    let account = StaticAccount { host, name, role, connection: &connection };
    let obstacle = |why: &Failure| note_obstacle(host, name, why);
    let (intent, holding) = match account.find_in_force(intent).inspect_err(obstacle)? {
        InForce::Candidate(credential) => return account.store(credential),
        InForce::Before(intent, holding) => (intent, holding),
    };
    role.connection(host, name, &context.mount.path).inspect_err(obstacle)?;
    let holds = matches!(holding, EarlierCredential::Stored | EarlierCredential::Earlier(_));
    let role = &note_holding(host, name, role, holding)?;
    let account = StaticAccount { role, ..account };
    if holds
        && let RotationDecision::Missed(next) =
            role.rotation.decide(&role.times, host.clock().now())?
    {
        report_rotation(host, OperationOutcome::Missed, name, role);
        let mut role = StaticRole::find(host, name)?.unwrap_or_else(|| role.clone());
        role.times.due = next;
        role.store(host, name)?;
        UnfinishedChange::forget(host, &key(name))?;
        return intent.abandon(host, IntentEndReason::Unchanged);
    }
    account.store(account.try_again(intent, holds)?)
}

/// Commits the result of a look for the earlier credential, so that no dead credential is shown.
/// Returns the role with the credential that is in force.
fn note_holding(
    host: &dyn Host,
    name: &str,
    role: &StaticRole,
    holding: EarlierCredential,
) -> Result<StaticRole, Failure> {
    let mut role = role.clone();
    let is_dead = match holding {
        EarlierCredential::Untold => return Ok(role),
        EarlierCredential::Stored => false,
        EarlierCredential::Neither => true,
        EarlierCredential::Earlier(earlier) => {
            role.take(earlier, CredentialProof::Verified);
            host.storage().put(&StaticRole::key(name), &role)?;
            host.storage().checkpoint()?;
            false
        }
    };
    if UnfinishedChange::note(host, &key(name), |change| change.is_dead = is_dead)? {
        host.storage().checkpoint()?;
    }
    Ok(role)
}

/// The credential that is in force during an unfinished change.
enum InForce {
    /// A candidate.
    Candidate(AcceptedCredential),
    /// No candidate; an earlier credential as far as is known.
    Before(Intent<CredentialCandidate>, EarlierCredential),
}

impl StaticAccount<'_> {
    fn find_in_force(&self, intent: Intent<CredentialCandidate>) -> Result<InForce, Failure> {
        if let Err(waits) = self.check_candidates(&intent) {
            // The candidates were made for other servers, and are not in force at these.
            return match self.holding()? {
                holding @ (EarlierCredential::Stored | EarlierCredential::Earlier(_)) => {
                    Ok(InForce::Before(intent, holding))
                }
                EarlierCredential::Neither | EarlierCredential::Untold => Err(waits),
            };
        }
        match self.look(intent)?.0 {
            CandidateSearch::InForce(proven) => Ok(InForce::Candidate(AcceptedCredential {
                proven,
                proof: CredentialProof::Verified,
            })),
            CandidateSearch::Nowhere(intent) => Ok(InForce::Before(intent, self.holding()?)),
        }
    }

    /// Changes the credential again. If the earlier credential `holds`, the database may refuse the
    /// candidate for good, and a new candidate is generated.
    fn try_again(
        &self,
        intent: Intent<CredentialCandidate>,
        holds: bool,
    ) -> Result<AcceptedCredential, Failure> {
        self.check_own_change()?;
        let key = key(self.name);
        let refusals = UnfinishedChange::find(self.host, &key)?.unwrap_or_default().refusals;
        let has_room = intent.candidates().count() < MOST_CANDIDATES;
        let earlier = match (holds, has_room && refusals >= MOST_REFUSALS) {
            (true, _) => EarlierCandidates::Disproven,
            (false, true) => EarlierCandidates::Kept,
            (false, false) => return self.change_to_usable(intent),
        };
        let candidate = self.new_candidate(None)?;
        UnfinishedChange::note(self.host, &key, |change| change.refusals = 0)?;
        self.change_to_usable(intent.restart(self.host, candidate, earlier)?)
    }
}

#[cfg(test)]
mod tests;
