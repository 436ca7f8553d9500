//! The rotation of static roles: a new credential is written down, put in force, proven by logging
//! in with it, and only then stored; see [`Intent`].
//!
//! The faults this file stops: a password in force that the store does not know, however the
//! process or the database failed; one that the database refuses, tried for ever; and a second
//! rotation for one due time. An unfinished change is taken up by its guard alone, of which there
//! is one at a time; a handler only hastens it.

use crate::connection::{Connection, about};
use crate::credential::Held;
use crate::figures::{self, Outcome};
use crate::placement::Place;
use crate::static_role::StaticRole;
use crate::target;
use bulkhead_sdk::database_plugin::Act;
use bulkhead_sdk::host::Level;
use bulkhead_sdk::intent::{self, Candidates, Ended, Found, Intent, Proven};
use bulkhead_sdk::rotation::Decision;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Context, Failure, Host, Kind, stored};
use serde::{Deserialize, Serialize};

/// What the keys of these intents begin with.
const INTENT: &str = "static/";
/// Candidates that are kept while nothing is known to work. A database that counts failed logins
/// locks the account.
const MOST_CANDIDATES: usize = 5;
/// Attempts with one candidate while nothing is known to work.
const ATTEMPTS: u32 = 3;

/// What may be in force. No `Debug`: it is a secret.
#[derive(Clone, Serialize, Deserialize)]
struct Candidate {
    held: Held,
    /// The role that comes into being with it; `None` where it is stored already.
    creation: Option<Box<StaticRole>>,
    /// The servers that it was made for; none where an earlier release made it.
    #[serde(default)]
    targets: Vec<String>,
}

stored!(Candidate, "static-candidate", reads_stored_candidates);

/// A role with its connection, at which its account is changed.
struct Account<'a> {
    host: &'a dyn Host,
    name: &'a str,
    role: &'a StaticRole,
    connection: &'a Connection,
}

/// The key of the intent of the role `name`.
fn key(name: &str) -> String {
    format!("{INTENT}{name}")
}

/// The role that an intent is about.
pub(crate) fn role_of(intent: &str) -> Option<&str> {
    intent.strip_prefix(INTENT)
}

/// Whether a change of the role `name` is not finished, its creation included.
pub(crate) fn is_open(host: &dyn Host, name: &str) -> Result<bool, Failure> {
    intent::is_open(host, &key(name))
}

/// Refuses what would begin a second change of the role beside one that is not finished, which
/// goes on as soon as this call ends.
pub(crate) fn refuse_open(host: &dyn Host, name: &str) -> Result<(), Failure> {
    if !intent::hasten(host, &key(name))? {
        return Ok(());
    }
    let name = quoted(name);
    Err(Failure::new(
        Kind::Unavailable,
        format!("a rotation of static role {name} is not finished; it goes on now, try again"),
    ))
}

/// Lets a change that is not finished find out at once that its role is gone.
pub(crate) fn forget_open(host: &dyn Host, name: &str) -> Result<(), Failure> {
    intent::hasten(host, &key(name)).map(drop)
}

/// Rotates the credential of `role`, which is stored as `name`.
///
/// # Errors
/// What host or database refused. What was begun is then finished by the guard.
pub(crate) fn rotate(
    host: &dyn Host,
    name: &str,
    role: &StaticRole,
    connection: &Connection,
) -> Result<(), Failure> {
    let account = Account { host, name, role, connection };
    account.check_own_change()?;
    let candidate = account.new_candidate(None)?;
    let intent = Intent::begin(host, &key(name), &role.db_name, candidate)?;
    account.store(account.change(intent)?)
}

/// Gives the account of `role` its first credential, and stores the role with it as `name`.
///
/// # Errors
/// As [`rotate`]. Where the database itself refused, nothing is left of the role; where nothing is
/// known of what it did, the guard finds out, and finishes or forgets the role.
pub(crate) fn create(
    host: &dyn Host,
    name: &str,
    role: &StaticRole,
    connection: &Connection,
) -> Result<(), Failure> {
    let account = Account { host, name, role, connection };
    let candidate = account.new_candidate(Some(Box::new(role.clone())))?;
    role.claim_account(host, name)?;
    let intent = Intent::begin(host, &key(name), &role.db_name, candidate)?;
    match account.change(intent) {
        Ok(proven) => account.store(proven),
        Err(why) if is_refusal(&why) => match account.withdraw() {
            Ok(true) => Ok(()),
            // Of a withdrawal that failed nothing is committed, and the guard makes it.
            Ok(false) | Err(_) => Err(why),
        },
        Err(why) => Err(why),
    }
}

/// Whether the database or its plugin said no, so that asking again tells what is in force.
fn is_refusal(why: &Failure) -> bool {
    matches!(why.kind, Kind::InvalidRequest | Kind::PermissionDenied | Kind::PreconditionFailed)
}

/// The timer of the role `name` rang: its rotation is due.
///
/// # Errors
/// What keeps it from being rotated; the timer rings again.
pub(crate) fn wake(host: &dyn Host, context: &Context, name: &str) -> Result<(), Failure> {
    let Some(mut role) = StaticRole::find(host, name)? else { return Ok(()) };
    // What is unfinished sets the timer anew when it ends.
    if is_open(host, name)? {
        return Ok(());
    }
    match role.rotation.decide(&role.times, host.clock().now())? {
        Decision::Off => Ok(()),
        Decision::Wait(_) => role.store(host, name),
        Decision::Missed(next) => {
            tell(host, Outcome::Missed, name, &role);
            role.times.due = next;
            role.store(host, name)
        }
        Decision::Rotate => role
            .connection(host, name, &context.mount.path)
            .and_then(|connection| rotate(host, name, &role, &connection))
            .inspect_err(|_| tell(host, Outcome::Failed, name, &role)),
    }
}

/// The guard of the role `name` rang: a change was begun and not finished.
///
/// # Errors
/// What keeps it from being finished; the guard rings again.
pub(crate) fn recover(
    host: &dyn Host,
    context: &Context,
    name: &str,
    attempt: u32,
) -> Result<(), Failure> {
    let Some(intent) = Intent::<Candidate>::recover(host, &key(name))? else { return Ok(()) };
    if let Some(role) = StaticRole::find(host, name)? {
        return finish(host, context, intent, (name, &role), attempt)
            .inspect_err(|_| tell(host, Outcome::Failed, name, &role));
    }
    let creation = intent.candidates().find_map(|candidate| candidate.creation.clone());
    let Some(role) = creation else { return intent.give_up(host, Ended::Unwanted) };
    let Some(connection) = Connection::find(host, &role.db_name)? else {
        role.give_up_account(host)?;
        return intent.give_up(host, Ended::Unwanted);
    };
    let account = Account { host, name, role: &role, connection: &connection };
    account.end_creation(intent).map(drop)
}

/// Finishes the change of a role that is stored.
fn finish(
    host: &dyn Host,
    context: &Context,
    intent: Intent<Candidate>,
    (name, role): (&str, &StaticRole),
    attempt: u32,
) -> Result<(), Failure> {
    let gone = || {
        let db_name = quoted(&role.db_name);
        Failure::new(Kind::Unreachable, format!("connection {db_name} is gone; write it again"))
    };
    let connection = Connection::find(host, &role.db_name)?.ok_or_else(gone)?;
    let account = Account { host, name, role, connection: &connection };
    let (intent, is_known_to_hold) = match account.check_candidates(&intent) {
        Ok(()) => match account.look(intent)? {
            Found::InForce(proven) => return account.store(proven),
            Found::Nowhere(intent) => (intent, false),
        },
        // Made while the connection led elsewhere, and in force nowhere that counts.
        Err(_) if account.holds()? => (intent, true),
        Err(waits) => return Err(waits),
    };
    role.connection(host, name, &context.mount.path)?;
    let holds = is_known_to_hold || account.holds()?;
    if holds
        && let Decision::Missed(next) = role.rotation.decide(&role.times, host.clock().now())?
    {
        tell(host, Outcome::Missed, name, role);
        let mut role = role.clone();
        role.times.due = next;
        role.store(host, name)?;
        return intent.give_up(host, Ended::Unchanged);
    }
    account.store(account.try_again(intent, holds, attempt)?)
}

impl Account<'_> {
    /// Changes the credential once more. What is in force is known where the old one `holds`: then
    /// the candidate may be one that the database refuses, and another is made.
    fn try_again(
        &self,
        intent: Intent<Candidate>,
        holds: bool,
        attempt: u32,
    ) -> Result<Proven<Candidate>, Failure> {
        self.check_own_change()?;
        let is_tried = attempt.is_multiple_of(ATTEMPTS);
        let earlier = match (holds, intent.candidates().count() < MOST_CANDIDATES && is_tried) {
            (true, _) => Candidates::Disproven,
            (false, true) => Candidates::Kept,
            (false, false) => return self.change(intent),
        };
        self.change(intent.restart(self.host, self.new_candidate(None)?, earlier)?)
    }

    /// Makes a credential for the servers of the connection.
    fn new_candidate(&self, creation: Option<Box<StaticRole>>) -> Result<Candidate, Failure> {
        let place = Place {
            connection: self.connection,
            db_name: &self.role.db_name,
            act: Act::Rotation,
            credential_type: &self.role.credential_type,
            statements: &self.role.rotation_statements,
        };
        let held = self.role.recipe()?.make(self.host, self.name, &place)?;
        let targets = self.connection.targets(self.host, &self.role.db_name)?;
        Ok(Candidate { held, creation, targets })
    }

    /// Puts the newest candidate in force, and proves it by logging in.
    fn change(&self, intent: Intent<Candidate>) -> Result<Proven<Candidate>, Failure> {
        let called = self.connection.for_host(&self.role.db_name);
        let current = self.connection.is_self_managed().then(|| self.role.held.credential());
        let change = |candidate: &Candidate| {
            let changed = self.host.databases().change_credential(
                &called,
                &self.role.username,
                &candidate.held.credential(),
                current.as_ref(),
                &self.role.rotation_statements,
            );
            changed.map_err(|why| about(&self.role.db_name, why))
        };
        let prove = |candidate: &Candidate, (): &()| match self.works(&candidate.held)? {
            Some(false) => Err(Failure::invalid(format!(
                "user {} of connection {} cannot log in with its new credential; check \
                 rotation_statements and whether the user may log in",
                quoted(&self.role.username),
                quoted(&self.role.db_name)
            ))),
            Some(true) | None => Ok(()),
        };
        intent.make(change, prove)
    }

    /// Whether the credential in force is for the servers of the connection: a connection that was
    /// pointed elsewhere must not be told it.
    fn may_send_held(&self) -> Result<bool, Failure> {
        let now = self.connection.targets(self.host, &self.role.db_name)?;
        Ok(target::keeps(&self.role.targets, &now))
    }

    /// Refuses a change that the account makes by its own credential at another server.
    fn check_own_change(&self) -> Result<(), Failure> {
        match self.connection.is_self_managed() && !self.may_send_held()? {
            true => Err(self.stored_for_another_server(&self.role.targets)),
            false => Ok(()),
        }
    }

    /// Refuses to look for candidates at servers that they were not made for: one of them may be in
    /// force where the connection led before.
    fn check_candidates(&self, intent: &Intent<Candidate>) -> Result<(), Failure> {
        let now = self.connection.targets(self.host, &self.role.db_name)?;
        match intent.candidates().find(|candidate| !target::keeps(&candidate.targets, &now)) {
            Some(candidate) => Err(Failure {
                kind: Kind::Unreachable,
                ..self.stored_for_another_server(&candidate.targets)
            }),
            None => Ok(()),
        }
    }

    fn stored_for_another_server(&self, known: &[String]) -> Failure {
        let (name, db_name) = (quoted(self.name), quoted(&self.role.db_name));
        let known = known.join(", ");
        Failure::invalid(format!(
            "the password of static role {name} is for {known}, and connection {db_name} leads to \
             another server; write the connection so that it leads there again, or delete the role \
             and create it anew with the account's password"
        ))
    }

    /// Whether the account logs in with the credential; `None` where the database cannot tell.
    fn works(&self, held: &Held) -> Result<Option<bool>, Failure> {
        let called = self.connection.for_host(&self.role.db_name);
        let (username, credential) = (&self.role.username, held.credential());
        self.host
            .databases()
            .check_credential(&called, username, &credential)
            .map_err(|why| about(&self.role.db_name, why))
    }

    /// Whether the credential of before the change is in force, as far as that may be tried.
    fn holds(&self) -> Result<bool, Failure> {
        Ok(self.may_send_held()? && self.works(&self.role.held)? == Some(true))
    }

    fn look(&self, intent: Intent<Candidate>) -> Result<Found<Candidate>, Failure> {
        intent.look(|candidate| Ok(self.works(&candidate.held)? == Some(true)))
    }

    /// Stores what is in force, with the role where it comes into being. A role that was deleted
    /// meanwhile stays so.
    fn store(&self, proven: Proven<Candidate>) -> Result<(), Failure> {
        let Self { host, name, .. } = *self;
        proven.confirm(host, |candidate, ()| {
            let stored = StaticRole::find(host, name)?;
            let created = candidate.creation.as_deref().cloned();
            let Some(mut role) = stored.or(created) else { return Ok(()) };
            figures::observe_delay(host, role.times.due);
            role.times = role.rotation.rotated_at(host.clock().now())?;
            role.held = candidate.held.clone();
            role.targets = self.connection.targets(host, &role.db_name)?;
            tell(host, Outcome::Done, name, &role);
            role.store(host, name)
        })
    }

    /// The database refused the first credential of a role: forgets the role, and commits that,
    /// because the call fails. `true` where the credential is in force all the same.
    fn withdraw(&self) -> Result<bool, Failure> {
        let Some(intent) = Intent::<Candidate>::recover(self.host, &key(self.name))? else {
            return Ok(false);
        };
        let is_in_force = self.end_creation(intent)?;
        self.host.storage().checkpoint()?;
        Ok(is_in_force)
    }

    /// Ends a creation: with the role where a candidate is in force, and without it where none is.
    fn end_creation(&self, intent: Intent<Candidate>) -> Result<bool, Failure> {
        self.check_candidates(&intent)?;
        match self.look(intent)? {
            Found::InForce(proven) => self.store(proven).map(|()| true),
            Found::Nowhere(intent) => {
                self.role.give_up_account(self.host)?;
                intent.give_up(self.host, Ended::Unwanted).map(|()| false)
            }
        }
    }
}

/// Says in the log and in the figures what came of a rotation.
fn tell(host: &dyn Host, outcome: Outcome, name: &str, role: &StaticRole) {
    figures::count(host, &figures::ROTATIONS, outcome);
    let (level, event) = match outcome {
        Outcome::Done => (Level::Info, "static-role-rotated"),
        Outcome::Failed => (Level::Warn, "rotation-failed"),
        Outcome::Missed => (Level::Warn, "rotation-missed"),
    };
    let due = role.times.due.unwrap_or_default();
    let next = format!("{}s", due.saturating_sub(host.clock().now()) / 1_000);
    let pairs = [("role", name), ("connection", &role.db_name), ("next", &next)];
    host.log().write(level, event, &pairs);
}

#[cfg(test)]
mod tests;
