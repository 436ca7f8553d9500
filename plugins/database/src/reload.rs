//! `reload/{plugin_name}`: resets every connection of a database plugin, as after another version
//! of it was registered.

use crate::connection::{Connection, about};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::json;

/// Milliseconds that must be left for another login to be tried.
const FOR_A_LOGIN: u64 = 35_000;

/// What is reloaded.
pub(crate) const FIELDS: &[Field] =
    &[Field::name_of("plugin_name", "the database plugin, as its connections name it")];

/// Closes the sessions of all of them, and then logs in anew where a connection is one that is
/// verified: what cannot is named, and stays closed.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let mut reloaded: Vec<(String, Connection)> = Vec::new();
    let plugin = call.text("plugin_name");
    host.storage().scan::<Connection>(&Connection::key(""), |name, entry| {
        if entry.value.plugin_name == plugin {
            reloaded.push((name.to_owned(), entry.value));
        }
        Ok(())
    })?;
    for (name, _) in &reloaded {
        host.databases().close(name);
    }
    let verified = reloaded.iter().filter(|(_, connection)| connection.is_verified());
    let warnings: Vec<String> =
        verified.filter_map(|(name, connection)| verify(host, call, name, connection)).collect();
    let names: Vec<&str> = reloaded.iter().map(|(name, _)| name.as_str()).collect();
    Ok(Answer::data(&json!({ "connections": names, "count": names.len() }))?.warn(warnings))
}

/// What a login found, where it found anything.
fn verify(host: &dyn Host, call: &Call, name: &str, connection: &Connection) -> Option<String> {
    if call.deadline.saturating_sub(host.clock().now()) < FOR_A_LOGIN {
        return Some(format!("connection {name:?} is closed; no time was left to log in anew"));
    }
    let tried = host.databases().verify(&connection.for_host(name));
    tried.err().map(|why| about(name, why).message)
}

#[cfg(test)]
mod tests {
    use crate::fixture::{orders, ready, with};
    use bulkhead_sdk::{Failure, Kind};
    use serde_json::{Value, json};

    #[test]
    fn every_connection_of_the_plugin_is_closed_and_tried_and_no_other() {
        let bed = ready();
        bed.write("config/billing", &orders()).unwrap();
        bed.write("config/other", &with(orders(), json!({"plugin_name": "test"}))).unwrap();
        bed.host.steps();
        bed.host.refuse("verify", Failure::new(Kind::Unreachable, "no answer from db:5432"));
        let reply = bed.write("reload/test-database-plugin", &json!({})).unwrap();
        assert_eq!(
            Value::Object(reply.data),
            json!({"connections": ["billing", "orders"], "count": 2})
        );
        assert_eq!(reply.warnings, ["connection \"billing\": no answer from db:5432"]);
        assert_eq!(bed.host.steps(), ["close billing", "close orders", "verify orders"]);
    }

    #[test]
    fn a_plugin_without_connections_reloads_none() {
        let reply = ready().write("reload/oracle", &json!({})).unwrap();
        assert_eq!(Value::Object(reply.data), json!({"connections": [], "count": 0}));
    }
}
