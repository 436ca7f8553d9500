//! `static-roles/{name}`: existing accounts whose credential the engine changes.
//!
//! The engine does not know the old password of an account. Therefore creating a role changes the
//! password, unless the caller hands the password over. An update changes only the role.

use crate::connection::Connection;
use crate::credential::{self, StoredCredential};
use crate::roles::Role;
use crate::statements;
use crate::static_account::StaticAccount;
use crate::static_creation;
use crate::static_role::{CredentialProof, StaticRole};
use crate::static_rotation;
use bulkhead_sdk::database_plugin::StatementAct;
use bulkhead_sdk::rotation::{self, RotationBounds};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::{Map, Value, json};

/// Fields of a static role.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("username", "the account of the rotated credential").required(),
    Field::name_of("db_name", "connection to the account's database").required(),
    Field::text("password", "current password of the account, for an import or for self rotation")
        .secret()
        .aliases(&["self_managed_password"]),
    Field::texts(
        "rotation_statements",
        "statements to change the credential; none: the plugin's own",
    ),
    Field::flag(
        "skip_import_rotation",
        "do not change the password when the role is created; wins over the connection's setting",
    ),
];

/// Fields of the rotation schedule.
pub(crate) const ROTATION_FIELDS: &[Field] = rotation::ROLE_FIELDS;

/// Creates or changes a static role.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let warnings = match StaticRole::find(host, name)? {
        Some(role) => update(host, call, name, role)?,
        None => create(host, call, name)?,
    };
    Ok(Answer::nothing().warn(warnings))
}

/// Shows a static role, and never its credential.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let role = StaticRole::find(host, call.text("name"))?.ok_or_else(Failure::absent)?;
    let mut shown = Map::from_iter([
        ("db_name".to_owned(), json!(role.db_name)),
        ("username".to_owned(), json!(role.username)),
        ("rotation_statements".to_owned(), json!(role.rotation_statements)),
        ("credential_type".to_owned(), json!(role.credential_type)),
        ("credential_verified".to_owned(), json!(role.proof == CredentialProof::Verified)),
        ("skip_import_rotation".to_owned(), json!(role.skip_import_rotation)),
    ]);
    let options = credential::shown(&role.credential_config);
    if !options.is_empty() {
        shown.insert("credential_config".to_owned(), Value::Object(options));
    }
    shown.extend(role.rotation.show_chosen());
    shown.extend(role.times.show_last());
    Answer::data(&shown)
}

/// Removes a static role. The account stays, with its present credential. Warns if that credential
/// is no longer stored anywhere.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let found = StaticRole::find(host, name)?;
    if let Some(role) = &found {
        role.remove(host, name)?;
    }
    let given_up = static_rotation::abandon(host, name)?;
    let lost = found.and_then(|role| role.lost_credential());
    Ok(Answer::nothing().warn(lost.into_iter().chain(given_up)))
}

fn create(host: &dyn Host, call: &Call, name: &str) -> Result<Vec<String>, Failure> {
    static_rotation::refuse_open(host, name)?;
    if Role::find(host, name)?.is_some() {
        return Err(Failure::invalid(format!(
            "Role and Static Role names must be unique: {} is a role",
            quoted(name)
        )));
    }
    let mut role = StaticRole::default();
    call.merge("db_name", &mut role.db_name)?;
    call.merge("username", &mut role.username)?;
    merge(host, call, &mut role)?;
    let connection = role.connection(host, name, &call.mount.path)?;
    check_with(host, &role, &connection)?;
    refuse_root(&role, &connection)?;
    role.skip_import_rotation = match call.is_given("skip_import_rotation") {
        true => call.flag("skip_import_rotation"),
        false => connection.skip_static_role_import_rotation,
    };
    import(host, call, &mut role, &connection)?;
    if !role.skip_import_rotation {
        role.proof = static_creation::create(host, name, &role, &connection)?;
        return Ok(role.doubt().into_iter().collect());
    }
    role.proof = try_import(host, name, &role, &connection)?;
    role.times = role.rotation.changed_at(&role.times, host.clock().now())?;
    role.claim_account(host, name)?;
    role.store(host, name)?;
    Ok(role.doubt().into_iter().collect())
}

/// Verifies the given password by a login of the account.
///
/// # Errors
/// Invalid request if the database refuses the password as wrong.
fn try_import(
    host: &dyn Host,
    name: &str,
    role: &StaticRole,
    connection: &Connection,
) -> Result<CredentialProof, Failure> {
    let account = StaticAccount { host, name, role, connection };
    match account.prove(&role.held)? {
        CredentialProof::Refused => Err(Failure::invalid(format!(
            "the database of connection {} refuses password for user {}; give the user's current \
             password",
            quoted(&role.db_name),
            quoted(&role.username)
        ))),
        proof => Ok(proof),
    }
}

/// Takes the account's present password from the call, if the role starts with that password.
fn import(
    host: &dyn Host,
    call: &Call,
    role: &mut StaticRole,
    connection: &Connection,
) -> Result<(), Failure> {
    let password = call.text("password");
    let needs_it = role.skip_import_rotation || connection.is_self_managed();
    match (needs_it, password.is_empty()) {
        (true, true) => Err(Failure::invalid(
            "password is required: without a rotation at the creation, or at a self_managed \
             connection, the account's present password must be given",
        )),
        (false, false) => Err(Failure::invalid(
            "password is only for skip_import_rotation and for self_managed connections; omit \
             password, and the account gets a new password",
        )),
        (true, false) if !role.has_password() => Err(Failure::invalid(format!(
            "credential_type {} begins with a rotation and cannot import a password; omit password",
            role.credential_type
        ))),
        (true, false) => {
            role.held = StoredCredential::Password(password.to_owned());
            role.targets = connection.targets(host, &role.db_name)?;
            Ok(())
        }
        (false, true) => Ok(()),
    }
}

fn update(
    host: &dyn Host,
    call: &Call,
    name: &str,
    role: StaticRole,
) -> Result<Vec<String>, Failure> {
    refuse_other(call, "username", &role.username)?;
    refuse_other(call, "db_name", &role.db_name)?;
    let before = role.rotation.clone();
    let mut changed = role;
    if call.is_given("skip_import_rotation")
        && call.flag("skip_import_rotation") != changed.skip_import_rotation
    {
        return Err(Failure::invalid(
            "skip_import_rotation counts when a role is created; delete the role and create it \
             again",
        ));
    }
    let takes_password = change_password(host, call, &mut changed)?;
    let moves_due = merge(host, call, &mut changed)?;
    if let Some(connection) = Connection::find(host, &changed.db_name)? {
        check_with(host, &changed, &connection)?;
        if takes_password {
            changed.proof = try_import(host, name, &changed, &connection)?;
        }
    }
    if moves_due {
        changed.times = changed.rotation.changed_at(&changed.times, host.clock().now())?;
    }
    changed.store(host, name)?;
    let doubt = changed.doubt().filter(|_| takes_password);
    Ok(doubt.into_iter().chain(changed.rotation.lost_window(&before)).collect())
}

/// Takes another imported password, before the first rotation. Returns `true` if the call has a
/// password; the caller has to verify the password.
fn change_password(host: &dyn Host, call: &Call, role: &mut StaticRole) -> Result<bool, Failure> {
    let password = call.text("password");
    if password.is_empty() {
        return Ok(false);
    }
    if role.times.last.is_some() {
        return Err(Failure::invalid(
            "updating password not allowed after rotation: the engine knows the current password",
        ));
    }
    role.take(StoredCredential::Password(password.to_owned()), CredentialProof::Unverified);
    if let Some(connection) = Connection::find(host, &role.db_name)? {
        role.targets = connection.targets(host, &role.db_name)?;
    }
    Ok(true)
}

/// Merges the fields that may change at any time into the stored role. Returns `true` if the next
/// rotation may become due at another time.
fn merge(host: &dyn Host, call: &Call, role: &mut StaticRole) -> Result<bool, Failure> {
    if role.db_name.is_empty() {
        return Err(Failure::invalid("db_name is a required field: name the role's connection"));
    }
    if role.username.is_empty() {
        return Err(Failure::invalid(
            "username is a required field to create a static account: name the account",
        ));
    }
    call.merge("rotation_statements", &mut role.rotation_statements)?;
    let moves_due = role.rotation.merge(call, RotationBounds::STATIC_ROLE)?;
    credential::merge(call, &mut role.credential_type, &mut role.credential_config)?;
    let recipe = role.recipe()?;
    recipe.check_kept()?;
    recipe.check(host)?;
    role.credential_config = recipe.options();
    Ok(moves_due)
}

fn check_with(host: &dyn Host, role: &StaticRole, connection: &Connection) -> Result<(), Failure> {
    let statements =
        [("rotation_statements", StatementAct::Rotation, &role.rotation_statements[..])];
    let credential = (role.credential_type.as_str(), &role.credential_config);
    statements::check_role(host, (&role.db_name, connection), credential, &statements).map(drop)
}

/// Refuses the connection's own user, which only rotate-root may rotate. A rotation by a static
/// role would lock the engine out.
fn refuse_root(role: &StaticRole, connection: &Connection) -> Result<(), Failure> {
    if connection.is_self_managed() || connection.setting("username") != role.username {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "user {} is the login of connection {}; use rotate-root/{}",
        quoted(&role.username),
        quoted(&role.db_name),
        role.db_name
    )))
}

/// Refuses another account for an existing role, because the stored credential belongs to the
/// account.
fn refuse_other(call: &Call, field: &str, stored: &str) -> Result<(), Failure> {
    let value = call.text(field);
    if value.is_empty() || value == stored {
        return Ok(());
    }
    let (value, stored) = (quoted(value), quoted(stored));
    Err(Failure::invalid(format!(
        "cannot update static account {field} from {stored} to {value}; delete the role and create \
         it again"
    )))
}

#[cfg(test)]
mod tests;
