//! `reload/{plugin_name}`: resets every connection of a database plugin, and lets the connections
//! have the version that pins and their settings choose now.

use crate::connection::{Connection, about};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, FailureKind, Host};
use serde_json::json;

/// Minimum time left for another login, in milliseconds.
const FOR_A_LOGIN: u64 = 35_000;

/// Fields of a reload.
pub(crate) const FIELDS: &[Field] =
    &[Field::name_of("plugin_name", "the database plugin, as its connections name it")];

/// Chooses the versions of all connections of the plugin again, and closes their sessions. Then
/// logs in to each verified connection. Warns of each connection that keeps its version because no
/// other can be chosen, and of each connection without a successful login; the sessions of that
/// connection stay closed.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let mut reloaded: Vec<(String, Connection)> = Vec::new();
    let plugin = call.text("plugin_name");
    host.storage().scan::<Connection>(&Connection::key(""), |name, entry| {
        if entry.value.plugin_name == plugin {
            reloaded.push((name.to_owned(), entry.value));
        }
        Ok(())
    })?;
    let mut warnings = Vec::new();
    for (name, connection) in &reloaded {
        warnings.extend(connection.choose_again(host, name));
        host.databases().close(name);
    }
    // Stores the choices before the logins, for the same reason as in `reset`. A failed login is a
    // warning.
    host.storage().checkpoint()?;
    for (name, _) in reloaded.iter().filter(|(_, connection)| connection.is_verified()) {
        // An earlier login may have taken long. A checkpoint after a single read cannot conflict.
        let Some(connection) = Connection::find(host, name)? else { continue };
        host.storage().checkpoint()?;
        warnings.extend(verify(host, call, name, &connection));
    }
    if reloaded.is_empty() {
        warnings.push(unused(host, plugin)?);
    }
    let names: Vec<&str> = reloaded.iter().map(|(name, _)| name.as_str()).collect();
    Ok(Answer::data(&json!({ "connections": names, "count": names.len() }))?.warn(warnings))
}

/// Returns the warning about a plugin that no connection uses, for example a misspelt name.
fn unused(host: &dyn Host, plugin: &str) -> Result<String, Failure> {
    let shown = quoted(plugin);
    let why = match host.databases().resolve(plugin, "") {
        Ok(_) => {
            "the catalog has the plugin, and a connection is reloaded by the name under which \
                  it asked for its plugin"
                .to_owned()
        }
        Err(why) if [FailureKind::NotFound, FailureKind::PermissionDenied].contains(&why.kind) => {
            why.message
        }
        Err(why) => return Err(why),
    };
    Ok(format!("no connections were found with plugin_name {shown}: {why}"))
}

/// Logs in to the connection. Returns a warning if the login failed or no time was left.
fn verify(host: &dyn Host, call: &Call, name: &str, connection: &Connection) -> Option<String> {
    if call.deadline.saturating_sub(host.clock().now()) < FOR_A_LOGIN {
        return Some(format!("connection {name:?} is closed; no time was left to log in again"));
    }
    let tried = host.databases().verify(&connection.for_host(name));
    tried.err().map(|why| about(name, why).message)
}

#[cfg(test)]
mod tests {
    use crate::fixture::{orders, ready, with};
    use bulkhead_sdk::{Failure, FailureKind};
    use serde_json::{Value, json};

    #[test]
    fn reload_closes_and_tries_only_connections_of_plugin() {
        let bed = ready();
        bed.write("config/billing", &orders()).unwrap();
        bed.write("config/other", &with(orders(), json!({"plugin_name": "test"}))).unwrap();
        bed.host.steps();
        bed.host.refuse("verify", Failure::new(FailureKind::Unreachable, "no answer from db:5432"));
        let reply = bed.write("reload/test-database-plugin", &json!({})).unwrap();
        assert_eq!(
            Value::Object(reply.data),
            json!({"connections": ["billing", "orders"], "count": 2})
        );
        assert_eq!(reply.warnings, ["connection \"billing\": no answer from db:5432"]);
        assert_eq!(
            bed.host.steps(),
            [
                "close billing",
                "close orders",
                "checkpoint",
                "checkpoint",
                "checkpoint",
                "verify orders"
            ]
        );
    }

    #[test]
    fn reload_of_unknown_or_unused_plugin_warns() {
        let nothing = json!({"connections": [], "count": 0});
        for (plugin, why) in
            [("oracle", "there is no database plugin"), ("test", "the catalog has the")]
        {
            let reply = ready().write(&format!("reload/{plugin}"), &json!({})).unwrap();
            assert_eq!(Value::Object(reply.data), nothing);
            let [warning] = reply.warnings.as_slice() else { panic!("{:?}", reply.warnings) };
            let expected = format!("no connections were found with plugin_name \"{plugin}\"");
            assert!(warning.starts_with(&expected) && warning.contains(why), "{warning}");
        }
        let reply = ready().write("reload/test-database-plugin", &json!({})).unwrap();
        assert_eq!(reply.warnings, Vec::<String>::new());
    }

    #[test]
    fn reload_reselects_versions_and_reports_unchanged_connections() {
        let bed = ready();
        bed.write("config/fixed", &with(orders(), json!({"plugin_version": "1.0.0"}))).unwrap();
        bed.host.add_version("2.0.0");
        let reply = bed.write("reload/test-database-plugin", &json!({})).unwrap();
        assert_eq!(reply.warnings, Vec::<String>::new());
        assert_eq!(bed.host.chosen_version("orders").unwrap(), "2.0.0");
        assert_eq!(bed.host.chosen_version("fixed").unwrap(), "1.0.0");
        bed.host.refuse("choose", Failure::invalid("version 1.0.0 is pinned"));
        let reply = bed.write("reload/test-database-plugin", &json!({})).unwrap();
        assert_eq!(
            reply.warnings,
            ["connection \"fixed\": version 1.0.0 is pinned; the version stays"]
        );
    }
}
