//! The keyring: a database plugin for users with public keys. The comment of a user's role in
//! PostgreSQL holds the key, so that tests can compare the key with the caller's private key.

#![allow(missing_docs, unreachable_pub, reason = "a component of the tests")]

use bulkhead_sdk::database_plugin::{
    Account, ConfiguredConnection, ConnectionSettings, CreatedUser, Credential, DatabasePlugin,
    DatabaseTarget, DatabaseTls, Endpoint, NewUser, PoolLimits, Refusal, SqlFailure, SqlHost,
    Statement, StatementPurpose, StoreTime,
};
use bulkhead_sdk::wire::description::{DatabaseDescription, Field, FieldKind};
use serde_json::Value;
use std::collections::BTreeMap;

pub struct Keyring;

const COMMENT: &str = "SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = $1";

fn refusal(code: &str) -> Refusal {
    Refusal { code: code.to_owned(), ..Refusal::default() }
}

fn failed(failure: SqlFailure) -> Refusal {
    Refusal { vendor_code: failure.sqlstate, ..refusal(&failure.code) }
}

fn text(settings: &ConnectionSettings, name: &str) -> String {
    settings.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn target(settings: &ConnectionSettings) -> DatabaseTarget {
    let port = settings.get("port").and_then(Value::as_u64).unwrap_or_default();
    let port = u16::try_from(port).unwrap_or_default();
    DatabaseTarget {
        driver: "postgres".to_owned(),
        endpoints: vec![Endpoint { host: "127.0.0.1".to_owned(), port }],
        writable: false,
        database: "demo".to_owned(),
        username: text(settings, "username"),
        password: text(settings, "password"),
        tls: DatabaseTls { mode: "disable".to_owned(), ..DatabaseTls::default() },
        pool: PoolLimits { max_connections: 2, connect_timeout: 10_000, max_lifetime: 0 },
        ext: Vec::new(),
    }
}

/// Returns the public key; refuses every other kind of credential.
fn key(credential: &Credential) -> Result<&str, Refusal> {
    match credential {
        Credential::PublicKeyPem(pem) => Ok(pem),
        _ => Err(refusal("unsupported")),
    }
}

fn run(host: &dyn SqlHost, settings: &ConnectionSettings, texts: &[String]) -> Result<(), Refusal> {
    let statements: Vec<Statement> = texts.iter().map(Statement::plain).collect();
    host.transact(&target(settings), &statements).map_err(failed)
}

impl DatabasePlugin for Keyring {
    fn description() -> DatabaseDescription {
        let setting = |name: &str, kind| Field::new(name, kind, "Of the test.");
        let sentence = |code: &str| (code.to_owned(), format!("the keyring says {code}"));
        let codes = [
            "unsupported",
            "unreachable",
            "refused",
            "timed-out",
            "conflict",
            "statement-failed",
            "permission-denied",
            "forbidden-address",
            "invalid-request",
        ];
        DatabaseDescription {
            kind: "database-plugin".to_owned(),
            name: "keyring-database-plugin".to_owned(),
            aliases: Vec::new(),
            version: "1.0.0".to_owned(),
            asks: vec!["sql".to_owned()],
            about: "Keeps the public keys of users.".to_owned(),
            credential_types: vec!["rsa_private_key".to_owned()],
            creation_statements_required: false,
            settings: vec![
                setting("port", FieldKind::Int),
                setting("username", FieldKind::String),
                setting("password", FieldKind::String).secret(),
            ],
            codes: codes.into_iter().map(sentence).collect(),
            warnings: BTreeMap::new(),
        }
    }

    fn configure(settings: &ConnectionSettings) -> Result<ConfiguredConnection, Refusal> {
        let port = target(settings).endpoints.first().map_or(0, |endpoint| endpoint.port);
        Ok(ConfiguredConnection {
            settings: settings.clone(),
            targets: vec![format!("postgres://127.0.0.1:{port}")],
            warnings: Vec::new(),
        })
    }

    fn check_statements(
        _: &ConnectionSettings,
        _: &[String],
        _: &StatementPurpose,
    ) -> Result<Option<u32>, Refusal> {
        Ok(None)
    }

    fn verify(host: &dyn SqlHost, settings: &ConnectionSettings) -> Result<Vec<String>, Refusal> {
        host.ping(&target(settings)).map(|()| Vec::new()).map_err(failed)
    }

    fn plan_username(
        host: &dyn SqlHost,
        _: &ConnectionSettings,
        _: &str,
        role_name: &str,
    ) -> Result<String, Refusal> {
        let random: String = host.random(8).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("v-{role_name}-{random}"))
    }

    fn create_user(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        user: &NewUser,
        _: &[String],
        _: &[String],
    ) -> Result<Vec<Account>, Refusal> {
        let (name, key) = (&user.username, key(&user.credential)?);
        let create = format!("CREATE ROLE \"{name}\"");
        run(host, settings, &[create, format!("COMMENT ON ROLE \"{name}\" IS '{key}'")])?;
        Ok(vec![Account { identity: format!("keyring/{name}"), ..Account::named(name) }])
    }

    fn change_credential(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        username: &str,
        credential: &Credential,
        _: Option<&Credential>,
        _: &[String],
    ) -> Result<(), Refusal> {
        let key = key(credential)?;
        run(host, settings, &[format!("COMMENT ON ROLE \"{username}\" IS '{key}'")])
    }

    fn set_expiration(
        _: &dyn SqlHost,
        _: &ConnectionSettings,
        _: &CreatedUser,
        _: StoreTime,
        _: &[String],
    ) -> Result<(), Refusal> {
        Ok(())
    }

    fn delete_user(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        user: &CreatedUser,
        _: &[String],
    ) -> Result<(), Refusal> {
        run(host, settings, &[format!("DROP ROLE IF EXISTS \"{}\"", user.username)])
    }

    fn check_credential(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        username: &str,
        credential: &Credential,
    ) -> Result<Option<bool>, Refusal> {
        let rows = host.query(&target(settings), COMMENT, &[username]).map_err(failed)?;
        let key = key(credential)?;
        let shown = rows.first().and_then(|row| row.first()).cloned().flatten();
        Ok(Some(shown.as_deref() == Some(key)))
    }
}

bulkhead_sdk::export_database_plugin!(Keyring);
