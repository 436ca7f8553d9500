//! `role/{name}/service-accounts`: adds and removes admitted accounts of a role.

use crate::role::{IAM, Role, name_in_path, sorted};
use crate::settings::Config;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, Host};

/// Fields of the request.
pub(crate) const FIELDS: &[Field] = &[
    Field::words("add", "accounts to add, by address or number"),
    Field::words("remove", "accounts to remove"),
];

/// Changes the accounts of a role for service accounts.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = name_in_path(call)?;
    let mut role = Role::named(host, name)?;
    let (add, remove) = (sorted(call.list("add")), sorted(call.list("remove")));
    if add.is_empty() && remove.is_empty() {
        return Err(Failure::invalid("must provide at least one value to add or remove"));
    }
    expect_type(&role, IAM, "service_accounts")?;
    let all = role.bound_service_accounts.drain(..).chain(add);
    let accounts = all.filter(|account| !remove.contains(account)).collect::<Vec<_>>();
    role.bound_service_accounts = sorted(accounts);
    role.store(host, name)?;
    Ok(Answer::nothing().warn(role.warnings(&Config::find(host)?)))
}

/// Refuses to edit an attribute that the role's type does not have.
pub(crate) fn expect_type(role: &Role, kind: &str, attribute: &str) -> Result<(), Failure> {
    if role.kind == kind {
        return Ok(());
    }
    let has = &role.kind;
    Err(Failure::invalid(format!(
        "role is type '{has}', cannot edit attribute '{attribute}' (expected role type: '{kind}')"
    )))
}
