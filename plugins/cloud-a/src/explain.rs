//! `role/{name}/explain`: which constraints of a role a login meets, and why not the others. It
//! makes no token, and asks for `sudo` (decision B2).

use crate::login;
use crate::role::Role;
use bulkhead_sdk::explain::Constraints;
use bulkhead_sdk::{Answer, Call, Failure, Host};

/// Explains.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    call.demand_sudo()?;
    let name = call.text("name");
    let role = Role::find(host, name)?.ok_or_else(Failure::absent)?;
    let mut constraints = Constraints::listing();
    login::admit(host, call, (name, &role), &mut constraints)?;
    constraints.answer()
}
