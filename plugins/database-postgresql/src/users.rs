//! Creation and change of users. All statements of an operation run in a single transaction, so
//! that a failure leaves nothing behind.
//!
//! This file prevents a user that no revocation finds: PostgreSQL folds a name without quotes to
//! lower case, and a statement may create another user or adopt a user of somebody else. The
//! transaction of a creation therefore commits only if the user of exactly the planned name exists
//! at its end and did not exist at its beginning.

use crate::codes::Code;
use crate::identity::{self, RoleLocation};
use crate::named::{self, NamedRoles};
use crate::settings::{ParsedConnection, PasswordForm};
use crate::{scram, sql_failure};
use bulkhead_sdk::connection::{Denial, choose_login, describe_failure, refuse_self_managed};
use bulkhead_sdk::database_plugin::{
    Account, CreatedUser, Credential, DatabaseTarget, NewUser, Refusal, SqlFailure, SqlHost,
    Statement, StoreTime, is_derived_name,
};
use bulkhead_sdk::statements::{self, FilledStatement, PlaceholderValues, SqlDialect};
use bulkhead_sdk::user_statements::{StatementCredential, run};

const CHANGE_PASSWORD: &str = "ALTER ROLE \"{{username}}\" WITH PASSWORD '{{password}}';";

const SET_EXPIRATION: &str = "ALTER ROLE \"{{name}}\" VALID UNTIL '{{expiration}}';";

/// Statement that fails with [`DIVISION_BY_ZERO`] if the user exists.
const IS_NEW: &str =
    "SELECT 1 / (1 - count(*)) FROM pg_catalog.pg_roles WHERE rolname = '{{name}}'";

/// Statement that fails with [`DIVISION_BY_ZERO`] if the user exists under its folded name only,
/// and with [`LOGARITHM_OF_ZERO`] if the user exists under neither name.
const IS_CREATED: &str = "SELECT CASE WHEN bool_or(rolname = '{{name}}') THEN 0 \
                          WHEN count(*) > 0 THEN 1 / (count(*) - count(*)) \
                          ELSE ln(0.0 * count(*)) END FROM pg_catalog.pg_roles \
                          WHERE rolname IN ('{{name}}', lower('{{name}}'))";

const DIVISION_BY_ZERO: &str = "22012";

const LOGARITHM_OF_ZERO: &str = "2201E";

const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// SQLSTATE of a role that does not exist.
pub(crate) const UNDEFINED_OBJECT: &str = "42704";

/// Returns the roles that `creation` will make for `username`, as far as the text of the statements
/// shows them: the user itself, and roles whose names follow from the user's name.
pub(crate) fn plan_accounts(username: &str, creation: &[String]) -> Vec<Account> {
    let values = PlaceholderValues::sample(username, "password");
    // The creation itself reports statements that cannot be read.
    let prepared = statements::prepare(SqlDialect::Postgres, creation, &values);
    let names = prepared.map(|prepared| named::created(&prepared).names).unwrap_or_default();
    let follows = |name: &&String| is_derived_name(name, username);
    names.iter().filter(follows).map(|name| Account::named(name)).collect()
}

/// Creates `user`. Returns the roles that the creation made.
pub(crate) fn create(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    user: &NewUser,
    creation: &[String],
) -> Result<Vec<Account>, Refusal> {
    let refused = |failure| sql_failure::refusal(failure, &connection.target);
    let plan = CreationPlan::of(host, connection, user, creation);
    let plan = plan.map_err(Refusal::with_nothing_made)?;
    let before = match plan.named.runs_code {
        false => None,
        true => identity::every_oid(host, connection)
            .map_err(|failure| refused(failure).with_nothing_made())?,
    };
    if let Err(failure) = host.transact(&connection.target, &plan.statements) {
        let is_sure = sql_failure::is_nothing_kept(&failure);
        let refusal = plan.refusal(failure, &user.username, &connection.target);
        return Err(if is_sure { refusal.with_nothing_made() } else { refusal });
    }
    let accounts = identity::named(host, connection, &plan.names(&user.username));
    let mut accounts = accounts.map_err(refused)?;
    if let Some(before) = before {
        let appeared = identity::appeared(host, connection, &user.username, &before);
        for account in appeared.map_err(refused)? {
            if !accounts.iter().any(|other| other.name == account.name) {
                accounts.push(account);
            }
        }
    }
    Ok(accounts)
}

/// The statements that create a user: the operator's statements between two checks.
struct CreationPlan {
    statements: Vec<Statement>,
    roles: Vec<StatementRole>,
    named: NamedRoles,
}

/// The purpose of a statement of a creation.
#[derive(Clone, Copy)]
enum StatementRole {
    /// The check that the user is new.
    IsNew,
    /// A statement of the operator, with its index in the operator's list.
    Given(u32),
    /// The check that the user exists.
    IsCreated,
}

impl CreationPlan {
    /// Plans the creation of `user`, without querying the database.
    fn of(
        host: &dyn SqlHost,
        connection: &ParsedConnection,
        user: &NewUser,
        creation: &[String],
    ) -> Result<Self, Refusal> {
        refuse_self_managed(connection.self_managed)?;
        let secret = sent_credential(host, connection, &user.credential)?;
        let values =
            PlaceholderValues { expiration: Some(user.expires), ..secret.values(&user.username) };
        let statements = statements::prepare(SqlDialect::Postgres, creation, &values)?;
        if statements.is_empty() {
            let refusal = Denial::CreationStatementsRequired.refusal();
            return Err(refusal.with("placeholder", "{{name}}"));
        }
        let named = named::created(&statements);
        let mut plan = Self { statements: Vec::new(), roles: Vec::new(), named };
        if !begins_with_creation(&statements, &user.username) {
            plan.check(StatementRole::IsNew, IS_NEW, &values)?;
        }
        for FilledStatement { statement, index } in statements {
            plan.push(StatementRole::Given(index), statement);
        }
        plan.check(StatementRole::IsCreated, IS_CREATED, &values)?;
        Ok(plan)
    }

    /// Returns the names of the roles that the text shows, and of the user itself.
    fn names(&self, username: &str) -> Vec<String> {
        let mut names = self.named.names.clone();
        if !names.iter().any(|name| name == username) {
            names.insert(0, username.to_owned());
        }
        names
    }

    fn push(&mut self, role: StatementRole, statement: Statement) {
        self.roles.push(role);
        self.statements.push(statement);
    }

    fn check(
        &mut self,
        role: StatementRole,
        text: &str,
        values: &PlaceholderValues<'_>,
    ) -> Result<(), Refusal> {
        for filled in statements::prepare(SqlDialect::Postgres, &[text.to_owned()], values)? {
            self.push(role, filled.statement);
        }
        Ok(())
    }

    /// Returns the refusal for a failure. Its index refers to the operator's list.
    fn refusal(&self, failure: SqlFailure, username: &str, at: &DatabaseTarget) -> Refusal {
        let place = failure.statement.and_then(|place| usize::try_from(place).ok());
        let role = place.and_then(|place| self.roles.get(place)).copied();
        let named = |code: Code| code.refusal().with("username", username);
        match (role, failure.sqlstate.as_deref()) {
            (Some(StatementRole::IsNew), Some(DIVISION_BY_ZERO)) => named(Code::UserExists),
            (Some(StatementRole::IsCreated), Some(DIVISION_BY_ZERO)) => named(Code::NameFolded)
                .with("folded", username.to_lowercase())
                .with("placeholder", "\"{{name}}\""),
            (Some(StatementRole::IsCreated), Some(LOGARITHM_OF_ZERO)) => {
                named(Code::UserNotCreated).with("placeholder", "\"{{name}}\"")
            }
            (
                Some(StatementRole::IsNew | StatementRole::IsCreated),
                Some(INSUFFICIENT_PRIVILEGE),
            ) => describe_failure(
                Code::RolesUnseen.refusal(),
                SqlFailure { statement: None, ..failure },
                at,
            ),
            (role, _) => {
                let statement = match role {
                    Some(StatementRole::Given(index)) => Some(index),
                    Some(StatementRole::IsNew | StatementRole::IsCreated) | None => None,
                };
                sql_failure::refusal(SqlFailure { statement, ..failure }, at)
            }
        }
    }
}

/// Tells if the first statement creates the user itself. The server then refuses a user that exists
/// already, and a check would be one more round trip.
fn begins_with_creation(statements: &[FilledStatement], username: &str) -> bool {
    let Some(first) = statements.first() else { return false };
    let mut words = first.statement.text.split_ascii_whitespace();
    let is_next = |word: Option<&str>, of: &[&str]| {
        word.is_some_and(|word| of.iter().any(|one| word.eq_ignore_ascii_case(one)))
    };
    is_next(words.next(), &["create"])
        && is_next(words.next(), &["role", "user"])
        && words.next() == Some(format!("\"{username}\"").as_str())
}

/// Sets a new credential of `username`, as the user itself if `current` is given.
pub(crate) fn change_credential(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    credential: &Credential,
    current: Option<&Credential>,
    operator_statements: &[String],
) -> Result<(), Refusal> {
    let secret = sent_credential(host, connection, credential)?;
    let target = choose_login(&connection.target, connection.self_managed, username, current)?;
    if operator_statements.is_empty() && matches!(secret, StatementCredential::Subject(_)) {
        return Err(Denial::Unsupported.refusal());
    }
    given_or_own(host, &target, operator_statements, CHANGE_PASSWORD, &secret.values(username))
}

/// Changes the time after which `user` can no longer log in with a password.
pub(crate) fn set_expiration(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    user: &CreatedUser,
    expires: StoreTime,
    operator_statements: &[String],
) -> Result<(), Refusal> {
    let recorded = user.accounts.iter().find(|account| account.name == user.username);
    let username = match recorded.filter(|account| !account.identity.is_empty()) {
        Some(account) => match identity::locate(host, connection, account)? {
            RoleLocation::Found(role) => role.name,
            RoleLocation::Gone { .. } => return Err(Denial::UserNotFound.refusal()),
        },
        None => user.username.clone(),
    };
    let values =
        PlaceholderValues { expiration: Some(expires), ..PlaceholderValues::named(&username) };
    given_or_own(host, &connection.target, operator_statements, SET_EXPIRATION, &values)
}

/// Runs the operator's statements, or the plugin's own statement if there are none.
fn given_or_own(
    host: &dyn SqlHost,
    target: &DatabaseTarget,
    operator_statements: &[String],
    own: &str,
    values: &PlaceholderValues<'_>,
) -> Result<(), Refusal> {
    if !operator_statements.is_empty() {
        let prepared = statements::prepare(SqlDialect::Postgres, operator_statements, values)?;
        return run(host, target, prepared)
            .map_err(|failure| sql_failure::refusal(failure, target));
    }
    let prepared = statements::prepare(SqlDialect::Postgres, &[own.to_owned()], values)?;
    run(host, target, prepared).map_err(|failure| match failure.has_sqlstate(&[UNDEFINED_OBJECT]) {
        true => Denial::UserNotFound.refusal(),
        false => sql_failure::refusal(SqlFailure { statement: None, ..failure }, target),
    })
}

/// Returns a text with the same character set as the value that replaces `password` in statements.
/// `None` if this connection cannot set the password.
pub(crate) fn shape_of(connection: &ParsedConnection, password: &str) -> Option<String> {
    match connection.authentication {
        PasswordForm::Password => Some(password.to_owned()),
        PasswordForm::Scram => scram::has_verifier(password).then(|| scram::SHAPE.to_owned()),
    }
}

/// Returns a credential in the form that the connection sends: the password itself or the verifier,
/// or the role's subject, such as `CN=app`. The server checks certificates by the server's own
/// rules, which expect the user name as the common name: `common_name_template` is then
/// `{{.Username}}`.
fn sent_credential(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    credential: &Credential,
) -> Result<StatementCredential, Refusal> {
    match (StatementCredential::of(credential)?, connection.authentication) {
        (StatementCredential::Password(password), PasswordForm::Scram) => {
            let salt = host.random(scram::SALT);
            let verifier = scram::verifier(host, &password, &salt);
            verifier
                .map(StatementCredential::Password)
                .ok_or_else(|| Code::PasswordNotAscii.about("password_policy"))
        }
        (sent, PasswordForm::Password | PasswordForm::Scram) => Ok(sent),
    }
}

#[cfg(test)]
mod tests;
