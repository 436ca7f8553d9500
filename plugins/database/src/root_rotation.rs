//! Rotation of a connection's own password. The engine writes the new password down, puts the
//! password in force, and verifies the password by a login. Only then the engine stores the
//! password, as a new generation whose sessions log in with the new password.
//!
//! This file prevents the loss of a connection's own password after any failure of process or
//! database. If neither the stored password nor a candidate logs in, the engine keeps all of these
//! passwords and reports the failure at each attempt. A candidate for another user or other servers
//! is kept for a write that leads back ([`LoginPlace`]).

mod kept;

use crate::connection::{Connection, PASSWORD, about, timer};
use crate::figures::{self, OperationOutcome};
use crate::kept_password;
use crate::login_place::LoginPlace;
use crate::placement::CredentialStatements;
use crate::target;
use crate::unfinished::UnfinishedChange;
use bulkhead_sdk::database_plugin::Credential;
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::intent::{
    self, CandidateSearch, EarlierCandidates, Intent, IntentEndReason, ProvenCandidate,
};
use bulkhead_sdk::rotation::RotationDecision;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, FailureKind, Host, stored};
pub(crate) use kept::try_kept;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cell::Cell;

/// Prefix of the intents' keys.
const INTENT: &str = "root/";

/// A password that may be in force. No `Debug`: a candidate is a secret.
#[derive(Clone, Serialize, Deserialize)]
struct PasswordCandidate {
    /// The user of the password. The connection may be written for another user meanwhile.
    username: String,
    password: String,
    /// The servers for which the password was made. The connection may be pointed elsewhere
    /// meanwhile. Empty in records of earlier releases.
    #[serde(default)]
    targets: Vec<String>,
    /// The user with the servers and their authentication settings. `None` if an earlier release
    /// began the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<LoginPlace>,
    /// No rotation began with the password: a write of the connection had replaced it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_kept: bool,
}

stored!(PasswordCandidate, "root-candidate", reads_stored_root_candidates);

impl PasswordCandidate {
    fn of(
        host: &dyn Host,
        name: &str,
        connection: &Connection,
        password: String,
    ) -> Result<Self, Failure> {
        Ok(Self {
            username: connection.setting("username").to_owned(),
            password,
            targets: connection.targets(host, name)?,
            place: Some(LoginPlace::of(host, name, connection)?),
            is_kept: false,
        })
    }

    /// Keeps the password for a write that leads to its servers again.
    fn keep(&self, host: &dyn Host) -> Result<(), Failure> {
        self.place.as_ref().map_or(Ok(()), |place| place.keep(host, &self.password))
    }
}

/// Keeps the passwords of `intent`, the newest last. Nobody else knows the passwords, and one of
/// them may be in force.
fn keep_all(host: &dyn Host, intent: &Intent<PasswordCandidate>) -> Result<(), Failure> {
    let candidates: Vec<&PasswordCandidate> = intent.candidates().collect();
    candidates.into_iter().rev().try_for_each(|candidate| candidate.keep(host))
}

/// Ends the change of the connection `name` without a new password.
fn abandon(
    host: &dyn Host,
    name: &str,
    intent: Intent<PasswordCandidate>,
    because: IntentEndReason,
) -> Result<(), Failure> {
    UnfinishedChange::forget(host, &key(name))?;
    intent.abandon(host, because)
}

/// A connection whose own user gets a new password.
struct RootRotation<'a> {
    host: &'a dyn Host,
    name: &'a str,
    connection: &'a Connection,
    /// `true` if the database cannot tell whether the user logs in with the new password.
    is_unverified: Cell<bool>,
}

/// Returns the key of the intent of the connection `name`.
fn key(name: &str) -> String {
    format!("{INTENT}{name}")
}

/// Returns the connection that belongs to `intent`.
pub(crate) fn connection_of(intent: &str) -> Option<&str> {
    intent.strip_prefix(INTENT)
}

/// Refuses a second change beside an unfinished change, which continues when this call ends.
pub(crate) fn refuse_open(host: &dyn Host, name: &str) -> Result<(), Failure> {
    let key = key(name);
    if !intent::make_due(host, &key)? {
        return Ok(());
    }
    let what = format!("a rotation of connection {}", quoted(name));
    let otherwise = format!("write config/{name} with the working password");
    Err(UnfinishedChange::refusal(host, &key, &what, &otherwise)?)
}

/// Returns `true` if a change of the password of the connection `name` is not finished.
///
/// # Errors
/// Errors of the storage.
pub(crate) fn is_open(host: &dyn Host, name: &str) -> Result<bool, Failure> {
    intent::is_open(host, &key(name))
}

/// Changes the password of the connection's own user. Returns a warning if the database cannot tell
/// whether the user logs in with the new password.
///
/// # Errors
/// Invalid request if the connection has no password that can be changed; errors of host and
/// database. The guard then finishes a change that was begun.
pub(crate) fn rotate(
    host: &dyn Host,
    name: &str,
    connection: &Connection,
) -> Result<Option<String>, Failure> {
    connection.check_rotatable(name)?;
    let root = RootRotation::new(host, name, connection);
    let intent = Intent::begin(host, &key(name), name, root.new_candidate()?)?;
    root.store(root.change(intent)?)?;
    Ok(root.is_unverified.get().then(|| {
        format!(
            "the new password of user {} of connection {} could not be verified: the database does \
             not let the user log in with any password; check the user, then reset/{name}",
            quoted(root.username()),
            quoted(name)
        )
    }))
}

/// Handles the timer of the connection `name`: rotates the password if the rotation is due.
///
/// # Errors
/// Errors of the rotation; the timer rings again.
pub(crate) fn wake(host: &dyn Host, name: &str) -> Result<(), Failure> {
    let Some(mut connection) = Connection::find(host, name)? else { return Ok(()) };
    if intent::is_open(host, &key(name))? {
        return intent::step_aside(host, &timer(name));
    }
    match connection.rotation.decide(&connection.times, host.clock().now())? {
        RotationDecision::Off => Ok(()),
        RotationDecision::Wait(_) => connection.store(host, name),
        RotationDecision::Missed(next) => {
            report_outcome(host, OperationOutcome::Missed, name);
            connection.times.due = next;
            connection.store(host, name)
        }
        RotationDecision::Rotate => {
            let rotated = rotate(host, name, &connection).map(drop);
            rotated.inspect_err(|_| report_outcome(host, OperationOutcome::Failed, name))
        }
    }
}

/// Handles the guard of the connection `name`: finishes an unfinished change.
///
/// # Errors
/// Errors of the change; the guard rings again.
pub(crate) fn recover(host: &dyn Host, name: &str) -> Result<(), Failure> {
    let Some(intent) = Intent::<PasswordCandidate>::recover(host, &key(name))? else {
        return Ok(());
    };
    let Some(connection) = Connection::find(host, name)? else {
        keep_all(host, &intent)?;
        return abandon(host, name, intent, IntentEndReason::Unwanted);
    };
    let root = RootRotation::new(host, name, &connection);
    let belongs: Vec<bool> =
        intent.candidates().map(|one| root.is_place_of(one)).collect::<Result<_, _>>()?;
    if belongs.contains(&false) {
        return root.replace(intent);
    }
    root.finish(intent).inspect_err(|_| report_outcome(host, OperationOutcome::Failed, name))
}

impl<'a> RootRotation<'a> {
    fn new(host: &'a dyn Host, name: &'a str, connection: &'a Connection) -> Self {
        Self { host, name, connection, is_unverified: Cell::new(false) }
    }

    fn place(&self) -> Result<LoginPlace, Failure> {
        LoginPlace::of(self.host, self.name, self.connection)
    }

    /// Returns `true` if the candidate belongs to the connection's user and servers.
    fn is_place_of(&self, candidate: &PasswordCandidate) -> Result<bool, Failure> {
        match &candidate.place {
            Some(place) => Ok(*place == self.place()?),
            None => {
                let now = self.connection.targets(self.host, self.name)?;
                let is_same_user = candidate.username == self.username();
                Ok(is_same_user && target::keeps(&candidate.targets, &now))
            }
        }
    }

    fn finish(&self, intent: Intent<PasswordCandidate>) -> Result<(), Failure> {
        let intent = match self.place()?.kept(self.host)?.list_secrets()? {
            passwords if passwords.is_empty() => intent,
            passwords => self.add_kept(intent, passwords.into_iter())?,
        };
        if intent.candidates().all(|candidate| candidate.is_kept) {
            return self.search(intent);
        }
        let intent = match intent.find_in_force(|candidate| self.logs_in(candidate))? {
            CandidateSearch::InForce(proven) => return self.store(proven),
            CandidateSearch::Nowhere(intent) => intent,
        };
        let intent = match self.works(self.connection.setting(PASSWORD))? {
            Some(true) if self.is_missed()? => return self.postpone(intent),
            Some(true) => {
                intent.restart(self.host, self.new_candidate()?, EarlierCandidates::Disproven)?
            }
            Some(false) => return Err(self.unknown()),
            None => intent,
        };
        self.store(self.change(intent)?)
    }

    /// Returns `true` if the rotation window of the unfinished change is over.
    fn is_missed(&self) -> Result<bool, Failure> {
        let Connection { rotation, times, .. } = self.connection;
        Ok(matches!(rotation.decide(times, self.host.clock().now())?, RotationDecision::Missed(_)))
    }

    /// Keeps the stored password until the next scheduled rotation.
    fn postpone(&self, intent: Intent<PasswordCandidate>) -> Result<(), Failure> {
        report_outcome(self.host, OperationOutcome::Missed, self.name);
        let mut connection = self.connection.clone();
        connection.times.due = connection.rotation.due_after(self.host.clock().now())?;
        connection.store(self.host, self.name)?;
        abandon(self.host, self.name, intent, IntentEndReason::Unchanged)
    }

    fn new_candidate(&self) -> Result<PasswordCandidate, Failure> {
        let place = CredentialStatements::of_root(self.name, self.connection);
        let password = place.draw(self.host, self.name, &self.connection.password_policy)?;
        PasswordCandidate::of(self.host, self.name, self.connection, password)
    }

    fn username(&self) -> &str {
        self.connection.setting("username")
    }

    /// Puts the newest candidate in force and verifies the candidate by a login.
    fn change(
        &self,
        intent: Intent<PasswordCandidate>,
    ) -> Result<ProvenCandidate<PasswordCandidate>, Failure> {
        let called = self.connection.for_host(self.name);
        let change = |candidate: &PasswordCandidate| {
            let changed = self.host.databases().change_credential(
                &called,
                &candidate.username,
                &Credential::Password(candidate.password.clone()),
                None,
                &self.connection.root_rotation_statements,
            );
            changed.map_err(|why| about(self.name, why))
        };
        let prove =
            |candidate: &PasswordCandidate, (): &()| match self.works(&candidate.password)? {
                Some(false) => Err(Failure::invalid(format!(
                    "the user of connection {} cannot log in with the new password; check \
                     root_rotation_statements",
                    quoted(self.name)
                ))),
                answer => {
                    self.is_unverified.set(answer.is_none());
                    Ok(())
                }
            };
        intent.make(change, prove).inspect_err(|why| self.note(why))
    }

    /// Notes the error of an attempt for later callers.
    fn note(&self, why: &Failure) {
        UnfinishedChange::note_failure(self.host, &key(self.name), why, false);
    }

    /// Asks if the user logs in with the password. `None`: the database cannot tell.
    fn works(&self, password: &str) -> Result<Option<bool>, Failure> {
        kept_password::logs_in(self.host, self.name, self.connection, password)
            .inspect_err(|why| self.note(why))
    }

    /// Returns `true` if the database accepts the candidate.
    fn logs_in(&self, candidate: &PasswordCandidate) -> Result<bool, Failure> {
        Ok(self.works(&candidate.password)? == Some(true))
    }

    /// Stores the password in force, as a new generation. Keeps the password for a later write if
    /// the connection was removed meanwhile, or leads to another user or other servers now.
    fn store(&self, proven: ProvenCandidate<PasswordCandidate>) -> Result<(), Failure> {
        let Self { host, name, .. } = *self;
        proven.confirm(host, |candidate, ()| {
            UnfinishedChange::forget(host, &key(name))?;
            let Some(mut connection) = Connection::find(host, name)? else {
                return candidate.keep(host);
            };
            let now = RootRotation::new(host, name, &connection);
            if !now.is_place_of(candidate)? {
                return candidate.keep(host);
            }
            now.forget_kept()?;
            let password = Value::String(candidate.password.clone());
            connection.settings.insert(PASSWORD.to_owned(), password);
            connection.has_own_password = true;
            connection.has_forced_password = false;
            connection.begin_generation(host);
            connection.times = connection.rotation.rotated_at(host.clock().now())?;
            report_outcome(host, OperationOutcome::Done, name);
            connection.store(host, name)
        })
    }

    /// Reports to the log and to the caller that no known password logs in.
    fn unknown(&self) -> Failure {
        log(self.host, LogLevel::Error, "root-credential-unknown", self.name);
        let (name, user) = (quoted(self.name), quoted(self.username()));
        let why = Failure::new(
            FailureKind::Unreachable,
            format!(
                "user {user} of connection {name} logs in neither with the stored password nor \
                 with a password tried by a rotation; write config/{} with the user's password",
                self.name
            ),
        );
        self.note(&why);
        why
    }
}

/// Reports the outcome of a rotation to log and metrics.
fn report_outcome(host: &dyn Host, outcome: OperationOutcome, name: &str) {
    figures::count(host, &figures::ROOT_ROTATIONS, outcome);
    let (level, event) = match outcome {
        OperationOutcome::Done => (LogLevel::Info, "root-rotated"),
        OperationOutcome::Failed => (LogLevel::Warn, "root-rotation-failed"),
        OperationOutcome::Missed => (LogLevel::Warn, "root-rotation-missed"),
    };
    log(host, level, event, name);
}

fn log(host: &dyn Host, level: LogLevel, event: &str, name: &str) {
    host.log().write(level, event, &[("connection", name)]);
}

#[cfg(test)]
mod tests;
