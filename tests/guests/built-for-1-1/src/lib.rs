//! A database plugin that is built against version 1.1 of the contract, without the export
//! `database-accounts` of later versions. `wit/` of this folder is a copy of the released contract
//! without comments, and never changes.
//!
//! Its users are roles of PostgreSQL. The plugin describes itself as an earlier version of the
//! guest `keyring`, so that tests can exchange the versions. As in the guest of version 1.0, the
//! names of all interfaces have the earlier version.

#![allow(
    clippy::all,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    reason = "half of it is generated from wit/"
)]

wit_bindgen::generate!({ path: "wit", world: "database-plugin" });

use bulkhead::plugin::database_types::{Configured, Credential, NewUser, Purpose, Refusal};
use bulkhead::plugin::{crypto, sql};
use exports::bulkhead::plugin::database_users::Guest;
use serde_json::Value;

struct Second;

fn refusal(failure: sql::Failure) -> Refusal {
    Refusal {
        code: failure.code,
        setting: None,
        statement: None,
        vendor_code: failure.sqlstate,
        ext: Vec::new(),
    }
}

fn target(settings: &str) -> sql::Target {
    let settings: Value = serde_json::from_str(settings).unwrap_or_default();
    let text = |name: &str| settings[name].as_str().unwrap_or_default().to_owned();
    let port = settings["port"].as_u64().and_then(|port| port.try_into().ok()).unwrap_or_default();
    sql::Target {
        driver: "postgres".into(),
        endpoints: vec![sql::Endpoint { host: "127.0.0.1".into(), port }],
        writable: false,
        database: "demo".into(),
        username: text("username"),
        password: text("password"),
        tls: sql::Tls {
            mode: "disable".into(),
            root_certificates: None,
            client_certificate: None,
            client_key: None,
            server_name: None,
            ext: Vec::new(),
        },
        pool: sql::Pool {
            max_connections: 2,
            connect_timeout: 10_000,
            max_lifetime: 0,
            ext: Vec::new(),
        },
        ext: Vec::new(),
    }
}

fn run(settings: &str, text: String) -> Result<(), Refusal> {
    let statement = sql::Statement { text, secret: true, ext: Vec::new() };
    sql::transact(&target(settings), &[statement]).map_err(refusal)
}

impl Guest for Second {
    fn describe() -> String {
        let setting = |name: &str, kind: &str, marks: &str| {
            format!(r#"{{"name":"{name}","kind":"{kind}","about":"Of the test."{marks}}}"#)
        };
        let settings = [
            setting("port", "int", ""),
            setting("username", "string", ""),
            setting("password", "string", ",\"secret\":true"),
        ];
        let head = r#""kind":"database-plugin","name":"keyring-database-plugin","version":"0.9.0""#;
        let marks = r#""asks":["sql"],"credential_types":["password"],"codes":{},"warnings":{}"#;
        let statements = r#""creation_statements_required":false"#;
        format!(
            r#"{{{head},"about":"Is built for 1.1.",{marks},{statements},"settings":[{}]}}"#,
            settings.join(",")
        )
    }

    fn configure(settings: String) -> Result<Configured, Refusal> {
        let port = target(&settings).endpoints[0].port;
        let targets = vec![format!("postgres://127.0.0.1:{port}")];
        Ok(Configured { settings, targets, warnings: Vec::new(), ext: Vec::new() })
    }

    fn check_statements(_: String, _: Vec<String>, _: Purpose) -> Result<Option<u32>, Refusal> {
        Ok(Some(0))
    }

    fn verify(settings: String) -> Result<Vec<String>, Refusal> {
        sql::ping(&target(&settings)).map(|()| Vec::new()).map_err(refusal)
    }

    fn plan_username(_: String, _: String, role: String) -> Result<String, Refusal> {
        let random: String = crypto::random(8).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("v-{role}-{random}"))
    }

    fn create_user(
        settings: String,
        user: NewUser,
        _: Vec<String>,
        _: Vec<String>,
    ) -> Result<(), Refusal> {
        let NewUser { username, credential: Credential::Password(password), .. } = user else {
            return Ok(());
        };
        run(&settings, format!("CREATE ROLE \"{username}\" LOGIN PASSWORD '{password}'"))
    }

    fn change_credential(
        _: String,
        _: String,
        _: Credential,
        _: Option<Credential>,
        _: Vec<String>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    fn set_expiration(
        settings: String,
        username: String,
        _: u64,
        _: Vec<String>,
    ) -> Result<(), Refusal> {
        run(&settings, format!("COMMENT ON ROLE \"{username}\" IS 'prolonged'"))
    }

    fn delete_user(settings: String, username: String, _: Vec<String>) -> Result<(), Refusal> {
        run(&settings, format!("DROP ROLE IF EXISTS \"{username}\""))
    }

    fn check_credential(_: String, _: String, _: Credential) -> Result<Option<bool>, Refusal> {
        Ok(None)
    }
}

export!(Second);
