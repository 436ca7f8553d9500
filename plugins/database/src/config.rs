//! `config/{name}`: connections. A write is tried out by the connection's plugin before anything is
//! stored; a read shows no secret.

use crate::connection::{Connection, about};
use crate::redaction::shown;
use crate::version::is_version;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::description::DatabaseDescription;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host, Kind};
use serde_json::{Map, Value, json};

/// What belongs to the engine. Everything else that a write gives is a setting of the database
/// plugin.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("plugin_name", "the database plugin to use, such as postgresql-database-plugin")
        .required(),
    Field::text(
        "plugin_version",
        "a semantic version of the plugin; empty leaves it to the catalog",
    ),
    Field::flag("verify_connection", "log in before the connection is stored").or_flag(true),
    Field::words(
        "allowed_roles",
        "roles that may use the connection; * admits any, none is the default",
    ),
    Field::texts(
        "root_rotation_statements",
        "statements that change the password of the connection's own user",
    ),
    Field::text("password_policy", "the policy for passwords of this connection's users"),
    Field::flag(
        "skip_static_role_import_rotation",
        "leave passwords of imported accounts as they are",
    ),
    Field::seconds("rotation_period", "seconds between rotations of the connection's own password"),
    Field::text(
        "rotation_schedule",
        "when to rotate the connection's own password, as a cron expression",
    ),
    Field::seconds("rotation_window", "seconds within which a scheduled rotation must end"),
    Field::flag(
        "disable_automated_rotation",
        "hold back rotations of the connection's own password",
    ),
];

/// Settings of plugins that are secret whatever the plugin says. They stand in the table so that
/// the host keeps them out of logs and audit from the first byte, before any plugin has been asked.
pub(crate) const SECRET_SETTINGS: &[Field] = &[
    Field::text("password", "the password of the connection's own user").secret(),
    Field::text("private_key", "the private key of the connection's own user").secret(),
    Field::text("tls_certificate_key", "the key of the client certificate").secret(),
    Field::text("sslkey", "the key of the client certificate").secret(),
    Field::text("sslpassword", "the password of the client certificate's key").secret(),
    Field::text("service_account_json", "the key file of a service account").secret(),
    Field::text("pem_bundle", "a certificate with its key").secret(),
    Field::text("pem_json", "a certificate with its key, as JSON").secret(),
];

/// Creates or changes a connection.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    refuse_automated_rotation(call)?;
    let name = call.text("name");
    let settings = settings_given(call);
    let mut connection = merged(host, call, &settings)?;
    let plugin = connection.plugin(host, name)?;
    let configured =
        host.databases().configure(&connection.called(name)).map_err(|why| about(name, why))?;
    connection.settings = configured.settings;
    if connection.verify_connection {
        host.databases().verify(&connection.called(name)).map_err(|why| about(name, why))?;
    }
    host.storage().put(&Connection::key(name), &connection)?;

    let mut warnings: Vec<String> =
        configured.warnings.iter().map(|code| sentence(&plugin, code, name)).collect();
    warnings.extend(unknown_settings(&plugin, &settings));
    if connection.allowed_roles.is_empty() {
        let name = quoted(name);
        warnings.push(format!(
            "no role may use connection {name}: name roles in allowed_roles, or \"*\" for all"
        ));
    }
    Ok(Answer::nothing().warn(warnings))
}

/// Shows a connection without its secrets.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let connection = Connection::find(host, name)?.ok_or_else(Failure::absent)?;
    let called = connection.called(name);
    // Without the plugin nobody knows which settings are secret, so none is shown.
    let (details, running, warning) =
        match host.databases().resolve(&called.plugin, &called.version) {
            Ok(found) => (details(&connection, &found.description), found.version, None),
            Err(why) if why.kind == Kind::NotFound => (
                Map::new(),
                String::new(),
                Some(format!("connection_details are left out: {}", why.message)),
            ),
            Err(why) => return Err(why),
        };
    let answer = Answer::data(&json!({
        "plugin_name": connection.plugin_name,
        "plugin_version": connection.plugin_version,
        "running_plugin_version": running,
        "connection_details": details,
        "allowed_roles": connection.allowed_roles,
        "root_credentials_rotate_statements": connection.root_rotation_statements,
        "password_policy": connection.password_policy,
        "verify_connection": connection.verify_connection,
        "skip_static_role_import_rotation": connection.skip_static_role_import_rotation,
        "rotation_schedule": "",
        "rotation_period": 0,
        "rotation_window": 0,
        "disable_automated_rotation": connection.disable_automated_rotation,
    }))?;
    Ok(answer.warn(warning))
}

/// Removes a connection. Its roles and leases stay, because the operator may be about to write it
/// anew.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let live = host.leases().count(name)?;
    host.storage().delete(&Connection::key(name))?;
    host.databases().close(name);
    let stranded = (live > 0).then(|| {
        format!(
            "leases that still need connection {name:?}: {live}; until {}config/{name} is written again, \
             they can be neither renewed nor revoked",
            call.mount.path
        )
    });
    Ok(Answer::nothing().warn(stranded))
}

/// Stored is never silently ignored: a period that nothing acts on would look like protection.
fn refuse_automated_rotation(call: &Call) -> Result<(), Failure> {
    let asked = if call.seconds("rotation_period") > 0 {
        "rotation_period"
    } else if call.seconds("rotation_window") > 0 {
        "rotation_window"
    } else if !call.text("rotation_schedule").is_empty() {
        "rotation_schedule"
    } else {
        return Ok(());
    };
    Err(Failure::invalid(format!(
        "{asked} asks for automated rotation of the connection's own password, which this version cannot do; omit it"
    )))
}

/// The stored connection, or a new one, with what the call gives over it.
fn merged(
    host: &dyn Host,
    call: &Call,
    settings: &Map<String, Value>,
) -> Result<Connection, Failure> {
    let mut connection = Connection::find(host, call.text("name"))?.unwrap_or_default();
    call.merge("plugin_name", &mut connection.plugin_name)?;
    call.merge("plugin_version", &mut connection.plugin_version)?;
    call.merge("verify_connection", &mut connection.verify_connection)?;
    call.merge("allowed_roles", &mut connection.allowed_roles)?;
    call.merge("root_rotation_statements", &mut connection.root_rotation_statements)?;
    call.merge("password_policy", &mut connection.password_policy)?;
    call.merge(
        "skip_static_role_import_rotation",
        &mut connection.skip_static_role_import_rotation,
    )?;
    call.merge("disable_automated_rotation", &mut connection.disable_automated_rotation)?;
    connection.settings.extend(settings.clone());
    // Store time, so that a connection that is removed and written again never meets the sessions
    // of its forerunner.
    connection.generation = connection.generation.saturating_add(1).max(host.clock().now());
    if connection.plugin_name.is_empty() {
        return Err(Failure::invalid(
            "plugin_name is required: name the database plugin of the connection",
        ));
    }
    if !connection.plugin_version.is_empty() && !is_version(&connection.plugin_version) {
        let version = quoted(&connection.plugin_version);
        return Err(Failure::invalid(format!(
            "plugin_version {version} is not a semantic version, such as 1.2.3"
        )));
    }
    Ok(connection)
}

fn settings_given(call: &Call) -> Map<String, Value> {
    let mut settings = call.beyond(FIELDS);
    settings.remove("name");
    settings
}

fn details(connection: &Connection, plugin: &DatabaseDescription) -> Map<String, Value> {
    let always: Vec<&str> = SECRET_SETTINGS.iter().map(Field::name).collect();
    shown(&connection.settings, &plugin.settings, &always)
}

/// The sentence behind a warning's code. A code without a sentence is a mistake of the plugin, and
/// shown as it is.
fn sentence(plugin: &DatabaseDescription, code: &str, connection: &str) -> String {
    let sentence = plugin.warnings.get(code).map_or(code, String::as_str);
    sentence.replace("{connection}", &quoted(connection))
}

/// Settings are kept whatever they are called, so without a word a mistyped one would simply not
/// work.
fn unknown_settings(plugin: &DatabaseDescription, settings: &Map<String, Value>) -> Option<String> {
    let is_known = |name: &str| {
        plugin
            .settings
            .iter()
            .any(|field| field.name == name || field.aliases.iter().any(|alias| alias == name))
    };
    let unknown: Vec<String> =
        settings.keys().filter(|name| !is_known(name)).map(|name| quoted(name)).collect();
    let (names, plugin) = (unknown.join(", "), quoted(&plugin.name));
    (!unknown.is_empty()).then(|| {
        format!("kept, although plugin {plugin} knows no setting {names}; check the spelling")
    })
}

#[cfg(test)]
mod tests {
    use crate::fixture::{empty, issued, orders, ready, with};
    use bulkhead_sdk::{Failure, Kind};
    use serde_json::{Value, json};

    #[test]
    fn a_connection_is_configured_and_verified_before_it_is_stored() {
        let bed = empty();
        let reply = bed.write("config/orders", &orders()).unwrap();
        assert_eq!(bed.host.steps(), ["configure orders", "verify orders"]);
        assert!(reply.warnings.is_empty(), "{:?}", reply.warnings);
        assert!(bed.host.stored("config/orders").is_some());
    }

    #[test]
    fn nothing_is_stored_when_the_plugin_or_the_database_refuses() {
        let refusals = [
            (
                "configure",
                Failure::invalid("connection_url: the port is not a number"),
                Kind::InvalidRequest,
            ),
            (
                "verify",
                Failure::new(Kind::Unreachable, "no answer from db:5432"),
                Kind::Unreachable,
            ),
            (
                "verify",
                Failure::invalid("the database refused user \"root\" (SQLSTATE 28P01)"),
                Kind::InvalidRequest,
            ),
        ];
        for (step, failure, kind) in refusals {
            let bed = empty();
            bed.host.refuse(step, failure.clone());
            let refused = bed.write("config/orders", &orders()).err().unwrap();
            assert_eq!(refused.kind, kind);
            assert_eq!(refused.message, format!("connection \"orders\": {}", failure.message));
            assert_eq!(bed.host.stored("config/orders"), None);
        }
    }

    #[test]
    fn a_change_that_the_database_refuses_leaves_the_connection_as_it_was() {
        let bed = ready();
        let before = bed.host.stored("config/orders");
        bed.host.refuse("verify", Failure::new(Kind::TimedOut, "db:5432 took too long"));
        assert!(bed.write("config/orders", &json!({"password": "wrong"})).is_err());
        assert_eq!(bed.host.stored("config/orders"), before);
    }

    #[test]
    fn a_connection_that_is_not_verified_stays_so_on_updates() {
        let bed = empty();
        bed.write("config/orders", &with(orders(), json!({"verify_connection": false}))).unwrap();
        bed.write("config/orders", &json!({"username": "admin"})).unwrap();
        assert_eq!(bed.host.steps(), ["configure orders", "configure orders"]);
    }

    #[test]
    fn a_read_shows_everything_but_secrets() {
        let bed = empty();
        let more = json!({
            "root_rotation_statements": "ALTER {{username}}", "password_policy": "long", "plugin_version": "v1.0.0",
            "private_key": "hunter2-PEM", "disable_automated_rotation": true, "skip_static_role_import_rotation": "1",
        });
        bed.write("config/orders", &with(orders(), more)).unwrap();
        let reply = bed.read("config/orders").unwrap();
        let expected = json!({
            "plugin_name": "test-database-plugin",
            "plugin_version": "v1.0.0",
            "running_plugin_version": "1.0.0",
            "connection_details": {
                "connection_url": "postgres://{{username}}:{{password}}@db:5432/orders",
                "username": "root",
            },
            "allowed_roles": ["reader", "writer-*"],
            "root_credentials_rotate_statements": ["ALTER {{username}}"],
            "password_policy": "long",
            "verify_connection": true,
            "skip_static_role_import_rotation": true,
            "rotation_schedule": "",
            "rotation_period": 0,
            "rotation_window": 0,
            "disable_automated_rotation": true,
        });
        assert_eq!(Value::Object(reply.data.clone()), expected);
        assert!(!Value::Object(reply.data).to_string().contains("hunter2"));
    }

    #[test]
    fn lists_that_nobody_gave_are_empty_and_not_missing() {
        let bed = empty();
        bed.write("config/bare", &json!({"plugin_name": "test"})).unwrap();
        let data = bed.read("config/bare").unwrap().data;
        assert_eq!(data["allowed_roles"], json!([]));
        assert_eq!(data["root_credentials_rotate_statements"], json!([]));
        assert_eq!(data["connection_details"], json!({}));
        assert_eq!(data["plugin_version"], json!(""));
    }

    #[test]
    fn a_password_inside_a_connection_string_is_hidden_on_reads() {
        let bed = empty();
        let inline = json!({"connection_url": "host=db user=root password=hunter2"});
        bed.write("config/orders", &with(orders(), inline)).unwrap();
        let details = bed.read("config/orders").unwrap().data["connection_details"].clone();
        assert_eq!(details["connection_url"], "host=db user=root password=xxxxx");
    }

    #[test]
    fn without_its_plugin_a_connection_is_read_without_details() {
        let bed = ready();
        bed.host.describe_plugin(|plugin| plugin.name = "another-plugin".to_owned());
        let reply = bed.read("config/orders").unwrap();
        assert_eq!(reply.data["connection_details"], json!({}));
        assert_eq!(reply.data["allowed_roles"], json!(["reader", "writer-*"]));
        assert!(reply.warnings[0].contains("test-database-plugin"), "{:?}", reply.warnings);
    }

    #[test]
    fn an_update_keeps_what_is_absent_clears_what_is_empty_and_grows_the_generation() {
        let bed = ready();
        let before = bed.host.stored("config/orders").unwrap();
        bed.write("config/orders", &json!({"username": "admin", "allowed_roles": []})).unwrap();
        let after = bed.host.stored("config/orders").unwrap();
        assert_eq!(after["settings"]["username"], "admin");
        assert_eq!(after["settings"]["password"], "hunter2-of-root");
        assert_eq!(after["allowed_roles"], json!([]));
        assert_eq!(after["plugin_name"], "test-database-plugin");
        assert!(after["generation"].as_u64() > before["generation"].as_u64());
    }

    #[test]
    fn a_connection_that_is_removed_and_written_again_has_a_generation_of_its_own() {
        let bed = ready();
        bed.write("config/orders", &json!({"username": "admin"})).unwrap();
        let before = bed.host.stored("config/orders").unwrap()["generation"].as_u64();
        bed.delete("config/orders").unwrap();
        bed.host.advance(1);
        bed.write("config/orders", &orders()).unwrap();
        assert!(bed.host.stored("config/orders").unwrap()["generation"].as_u64() > before);
    }

    #[test]
    fn the_engines_own_fields_are_no_settings_of_the_plugin() {
        let bed = ready();
        let settings = bed.host.stored("config/orders").unwrap()["settings"].clone();
        let names: Vec<&String> = settings.as_object().unwrap().keys().collect();
        assert_eq!(names, ["connection_url", "password", "username"]);
    }

    #[test]
    fn warnings_name_unknown_settings_an_empty_list_of_roles_and_what_the_plugin_found() {
        let bed = empty();
        bed.host.warn_when_configured(&["tls-off"]);
        let body = json!({"plugin_name": "test", "usrename": "root", "allowed_roles": []});
        let warnings = bed.write("config/orders", &body).unwrap().warnings;
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert_eq!(warnings[0], "connection \"orders\" does not use TLS");
        assert!(warnings[1].contains("\"usrename\""), "{warnings:?}");
        assert!(warnings[2].contains("allowed_roles"), "{warnings:?}");
        assert_eq!(bed.host.stored("config/orders").unwrap()["settings"]["usrename"], "root");
    }

    #[test]
    fn a_plugin_must_be_named_known_and_of_a_version() {
        let bad = [
            (json!({"username": "root"}), "plugin_name is required"),
            (json!({"plugin_name": ""}), "plugin_name is required"),
            (json!({"plugin_name": "oracle"}), "\"oracle\""),
            (json!({"plugin_name": "test", "plugin_version": "newest"}), "\"newest\""),
        ];
        for (body, expected) in bad {
            let bed = empty();
            let refused = bed.write("config/orders", &body).err().unwrap();
            assert_eq!(refused.kind, Kind::InvalidRequest);
            assert!(refused.message.contains(expected), "{}", refused.message);
            assert_eq!(bed.host.stored("config/orders"), None);
        }
    }

    #[test]
    fn a_plugin_cannot_be_taken_away_from_a_connection() {
        let bed = ready();
        let refused = bed.write("config/orders", &json!({"plugin_name": ""})).err().unwrap();
        assert!(refused.message.contains("plugin_name is required"), "{}", refused.message);
    }

    #[test]
    fn automated_rotation_is_refused_and_not_dropped() {
        let asks = [
            json!({"rotation_period": "24h"}),
            json!({"rotation_schedule": "0 0 * * *"}),
            json!({"rotation_schedule": "0 0 * * *", "rotation_window": "1h"}),
        ];
        for ask in asks {
            let bed = empty();
            let refused = bed.write("config/orders", &with(orders(), ask)).err().unwrap();
            assert_eq!(refused.kind, Kind::InvalidRequest);
            assert!(refused.message.contains("rotation_"), "{}", refused.message);
            assert_eq!(bed.host.stored("config/orders"), None);
        }
        let none = json!({"rotation_period": 0, "rotation_schedule": "", "rotation_window": "0"});
        empty().write("config/orders", &with(orders(), none)).unwrap();
    }

    #[test]
    fn removal_closes_the_sessions_and_counts_the_leases_that_lose_their_connection() {
        let bed = ready();
        issued(&bed);
        issued(&bed);
        let reply = bed.delete("config/orders").unwrap();
        assert!(reply.warnings[0].contains("\"orders\": 2;"), "{:?}", reply.warnings);
        assert_eq!(bed.host.steps(), ["close orders"]);
        assert_eq!(bed.read("config/orders").err().unwrap(), Failure::absent());
        assert!(
            bed.delete("config/orders").unwrap().lease.is_none(),
            "a connection that is gone is success"
        );
    }

    #[test]
    fn a_list_names_the_connections() {
        let bed = ready();
        bed.write("config/billing", &orders()).unwrap();
        assert_eq!(bed.list("config").unwrap().data["keys"], json!(["billing", "orders"]));
        assert_eq!(empty().list("config").err().unwrap(), Failure::absent());
    }
}
