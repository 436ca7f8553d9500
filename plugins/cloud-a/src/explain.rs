//! `role/{name}/explain`: lists the constraints of a role that a login meets, and the reason for
//! each failure. It creates no token and requires `sudo` (decision B2).

use crate::login;
use crate::role::Role;
use bulkhead_sdk::explain::LoginConstraints;
use bulkhead_sdk::{Answer, Call, Failure, Host};

/// Explains a login.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    call.demand_sudo()?;
    let name = call.text("name");
    let role = Role::find(host, name)?.ok_or_else(Failure::absent)?;
    let mut constraints = LoginConstraints::for_explanation();
    login::admit(host, call, (name, &role), &mut constraints)?;
    constraints.answer()
}
