//! Bridge between a component and a [`DatabasePlugin`]: converts the types of the contract and
//! decides nothing.

use crate::bindings::database_plugin::bulkhead::plugin::{
    clock, crypto, database_types as words, sql,
};
use crate::bindings::database_plugin::exports::bulkhead::plugin::{
    database_accounts, database_users,
};
use crate::database_plugin::{
    Account, ConfiguredConnection, ConnectionSettings, CreatedUser, Credential, DatabasePlugin,
    DatabaseTarget, NewUser, Refusal, SqlFailure, SqlHost, Statement, StatementAct,
    StatementPurpose, StoreTime,
};
use std::marker::PhantomData;

/// A component with the answers of `P`.
pub struct DatabaseComponent<P>(PhantomData<P>);

impl<P: DatabasePlugin> database_users::Guest for DatabaseComponent<P> {
    /// Returns the description; empty if it cannot be serialised, which registration refuses.
    fn describe() -> String {
        serde_json::to_string(&P::description()).unwrap_or_default()
    }

    fn configure(settings: String) -> Result<words::Configured, words::Refusal> {
        P::configure(&read(&settings)?).map(configured).map_err(refusal)
    }

    fn check_statements(
        settings: String,
        statements: Vec<String>,
        purpose: words::Purpose,
    ) -> Result<Option<u32>, words::Refusal> {
        let unknown = || refusal(Refusal::of("unsupported"));
        let act = StatementAct::of_word(&purpose.act).ok_or_else(unknown)?;
        let words::Purpose { credential_type, passwords, .. } = purpose;
        let purpose = StatementPurpose { act, credential_type, passwords };
        P::check_statements(&read(&settings)?, &statements, &purpose).map_err(refusal)
    }

    fn verify(settings: String) -> Result<Vec<String>, words::Refusal> {
        P::verify(&SqlImports, &read(&settings)?).map_err(refusal)
    }

    fn plan_username(
        settings: String,
        display_name: String,
        role_name: String,
    ) -> Result<String, words::Refusal> {
        P::plan_username(&SqlImports, &read(&settings)?, &display_name, &role_name).map_err(refusal)
    }

    fn create_user(
        settings: String,
        user: words::NewUser,
        statements: Vec<String>,
        rollback: Vec<String>,
    ) -> Result<(), words::Refusal> {
        let user = new_user(user);
        P::create_user(&SqlImports, &read(&settings)?, &user, &statements, &rollback)
            .map(drop)
            .map_err(refusal)
    }

    fn change_credential(
        settings: String,
        username: String,
        new: words::Credential,
        current: Option<words::Credential>,
        statements: Vec<String>,
    ) -> Result<(), words::Refusal> {
        let (new, current) = (credential(new), current.map(credential));
        P::change_credential(
            &SqlImports,
            &read(&settings)?,
            &username,
            &new,
            current.as_ref(),
            &statements,
        )
        .map_err(refusal)
    }

    fn set_expiration(
        settings: String,
        username: String,
        expires: StoreTime,
        statements: Vec<String>,
    ) -> Result<(), words::Refusal> {
        let user = CreatedUser::named(&username);
        P::set_expiration(&SqlImports, &read(&settings)?, &user, expires, &statements)
            .map_err(refusal)
    }

    fn delete_user(
        settings: String,
        username: String,
        statements: Vec<String>,
    ) -> Result<(), words::Refusal> {
        let user = CreatedUser::named(&username);
        P::delete_user(&SqlImports, &read(&settings)?, &user, &statements).map_err(refusal)
    }

    fn check_credential(
        settings: String,
        username: String,
        host_credential: words::Credential,
    ) -> Result<Option<bool>, words::Refusal> {
        P::check_credential(&SqlImports, &read(&settings)?, &username, &credential(host_credential))
            .map_err(refusal)
    }
}

impl<P: DatabasePlugin> database_accounts::Guest for DatabaseComponent<P> {
    fn plan_accounts(
        settings: String,
        display_name: String,
        role_name: String,
        creation: Vec<String>,
    ) -> Result<words::CreatedUser, words::Refusal> {
        let settings = read(&settings)?;
        let username = P::plan_username(&SqlImports, &settings, &display_name, &role_name);
        let username = username.map_err(refusal)?;
        let accounts = P::plan_accounts(&settings, &username, &creation).map_err(refusal)?;
        Ok(user_words(username, accounts))
    }

    fn create_accounts(
        settings: String,
        user: words::NewUser,
        statements: Vec<String>,
        rollback: Vec<String>,
    ) -> Result<words::CreatedUser, words::Refusal> {
        let user = new_user(user);
        P::create_user(&SqlImports, &read(&settings)?, &user, &statements, &rollback)
            .map(|accounts| user_words(user.username, accounts))
            .map_err(refusal)
    }

    fn prolong_accounts(
        settings: String,
        user: words::CreatedUser,
        expires: StoreTime,
        statements: Vec<String>,
    ) -> Result<(), words::Refusal> {
        let user = created_user(user);
        P::set_expiration(&SqlImports, &read(&settings)?, &user, expires, &statements)
            .map_err(refusal)
    }

    fn remove_accounts(
        settings: String,
        user: words::CreatedUser,
        statements: Vec<String>,
    ) -> Result<(), words::Refusal> {
        let user = created_user(user);
        P::delete_user(&SqlImports, &read(&settings)?, &user, &statements).map_err(refusal)
    }
}

/// Parses the settings. They come from `configure` through the host, so any other content is a
/// fault of the host.
fn read(settings: &str) -> Result<ConnectionSettings, words::Refusal> {
    serde_json::from_str(settings)
        .map_err(|_| refusal(Refusal { code: "invalid-config".into(), ..Refusal::default() }))
}

fn configured(connection: ConfiguredConnection) -> words::Configured {
    words::Configured {
        settings: serde_json::Value::Object(connection.settings).to_string(),
        targets: connection.targets,
        warnings: connection.warnings,
        ext: Vec::new(),
    }
}

fn refusal(why: Refusal) -> words::Refusal {
    words::Refusal {
        code: why.code,
        setting: why.setting,
        statement: why.statement,
        vendor_code: why.vendor_code,
        ext: why.ext,
    }
}

fn new_user(user: words::NewUser) -> NewUser {
    NewUser {
        username: user.username,
        credential: credential(user.credential),
        expires: user.expires,
    }
}

fn created_user(user: words::CreatedUser) -> CreatedUser {
    let accounts = user.accounts.into_iter();
    let accounts = accounts.map(|words::Account { name, host, identity, .. }| Account {
        name,
        host,
        identity,
    });
    CreatedUser { username: user.username, accounts: accounts.collect() }
}

fn user_words(username: String, accounts: Vec<Account>) -> words::CreatedUser {
    let accounts = accounts.into_iter().map(|Account { name, host, identity }| words::Account {
        name,
        host,
        identity,
        ext: Vec::new(),
    });
    words::CreatedUser { username, accounts: accounts.collect(), ext: Vec::new() }
}

fn credential(given: words::Credential) -> Credential {
    match given {
        words::Credential::Password(text) => Credential::Password(text),
        words::Credential::PublicKeyPem(text) => Credential::PublicKeyPem(text),
        words::Credential::SubjectDn(text) => Credential::SubjectDn(text),
    }
}

/// The real host.
struct SqlImports;

impl SqlHost for SqlImports {
    fn ping(&self, at: &DatabaseTarget) -> Result<(), SqlFailure> {
        sql::ping(&target(at)).map_err(sql_failure)
    }

    fn query(
        &self,
        at: &DatabaseTarget,
        text: &str,
        parameters: &[&str],
    ) -> Result<Vec<Vec<Option<String>>>, SqlFailure> {
        let parameters: Vec<String> =
            parameters.iter().map(|parameter| (*parameter).to_owned()).collect();
        sql::query(&target(at), text, &parameters).map_err(sql_failure)
    }

    fn transact(&self, at: &DatabaseTarget, statements: &[Statement]) -> Result<(), SqlFailure> {
        let statements: Vec<sql::Statement> = statements.iter().map(statement).collect();
        sql::transact(&target(at), &statements).map_err(sql_failure)
    }

    fn execute(&self, at: &DatabaseTarget, one: &Statement) -> Result<(), SqlFailure> {
        sql::execute(&target(at), &statement(one)).map_err(sql_failure)
    }

    fn now(&self) -> StoreTime {
        clock::now()
    }

    fn random(&self, length: u32) -> Vec<u8> {
        crypto::random(length)
    }

    fn pbkdf2_sha256(&self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        crypto::pbkdf2_sha256(password, salt, iterations)
    }
}

fn statement(one: &Statement) -> sql::Statement {
    let ext = match one.may_fail {
        true => vec![("may-fail".to_owned(), String::new())],
        false => Vec::new(),
    };
    sql::Statement { text: one.text.clone(), secret: one.secret, ext }
}

fn target(at: &DatabaseTarget) -> sql::Target {
    let endpoints = at.endpoints.iter();
    sql::Target {
        driver: at.driver.clone(),
        endpoints: endpoints
            .map(|one| sql::Endpoint { host: one.host.clone(), port: one.port })
            .collect(),
        writable: at.writable,
        database: at.database.clone(),
        username: at.username.clone(),
        password: at.password.clone(),
        tls: sql::Tls {
            mode: at.tls.mode.clone(),
            root_certificates: at.tls.root_certificates.clone(),
            client_certificate: at.tls.client_certificate.clone(),
            client_key: at.tls.client_key.clone(),
            server_name: at.tls.server_name.clone(),
            ext: Vec::new(),
        },
        pool: sql::Pool {
            max_connections: at.pool.max_connections,
            connect_timeout: at.pool.connect_timeout,
            max_lifetime: at.pool.max_lifetime,
            ext: Vec::new(),
        },
        ext: at.ext.clone(),
    }
}

fn sql_failure(why: sql::Failure) -> SqlFailure {
    let tls = why.ext.into_iter().find(|(name, _)| name == "tls").map(|(_, reason)| reason);
    SqlFailure {
        tls,
        code: why.code,
        message: why.message,
        statement: why.statement,
        sqlstate: why.sqlstate,
    }
}
