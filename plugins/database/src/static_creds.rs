//! `static-creds/{name}`: what the account of a static role logs in with now. Nothing is changed by
//! asking.

use crate::connection;
use crate::static_role::StaticRole;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::json;

/// Shows the credential, and when it is changed next.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (name, mount) = (call.text("name"), &call.mount.path);
    let unknown = || {
        let shown = quoted(name);
        Failure::invalid(format!(
            "unknown role: {shown} is no static role; write {mount}static-roles/{name} first"
        ))
    };
    let role = StaticRole::find(host, name)?.ok_or_else(unknown)?;
    connection::check_admission(host, &role.db_name, name, mount)?;
    let mut shown = role.held.show();
    shown.insert("username".to_owned(), json!(role.username));
    shown.insert("ttl".to_owned(), json!(role.times.ttl(host.clock().now())));
    shown.extend(role.rotation.show_chosen());
    shown.extend(role.times.show_last());
    Answer::data(&shown)
}
