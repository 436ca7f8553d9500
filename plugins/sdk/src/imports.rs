//! The real host: each face of [`Host`] over the import of its name. Translates words, decides one
//! thing: what kind a database plugin's refusal is.

use crate::bindings::secrets_engine::bulkhead::plugin as import;
use crate::bindings::secrets_engine::bulkhead::plugin::database_types as words;
use crate::database_plugin::{Configured, Credential, NewUser, StoreTime, is_nothing_made};
use crate::host::{
    Cache, Clock, Connection, Databases, Entry, Host, Http, Leases, Level, Log, Page, Passwords,
    Random, Resolved, Storage, Unmade, database_kind,
};
use crate::http::{Request, Response, Tls};
use bulkhead_wire::failure::{Failure, Kind};
use serde_json::Value;

/// The imports of the world `secrets-engine`.
pub(crate) struct Imports;

impl Host for Imports {
    fn storage(&self) -> &dyn Storage {
        self
    }

    fn leases(&self) -> &dyn Leases {
        self
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn databases(&self) -> &dyn Databases {
        self
    }

    fn passwords(&self) -> &dyn Passwords {
        self
    }

    fn http(&self) -> &dyn Http {
        self
    }

    fn cache(&self) -> &dyn Cache {
        self
    }

    fn random(&self) -> &dyn Random {
        self
    }

    fn log(&self) -> &dyn Log {
        self
    }
}

impl Storage for Imports {
    fn entry_bytes(&self, key: &str) -> Result<Option<Entry<Vec<u8>>>, Failure> {
        Ok(import::storage::get(key).map_err(failure)?.map(entry))
    }

    fn put_bytes(&self, key: &str, value: Vec<u8>) -> Result<(), Failure> {
        import::storage::put(key, &value).map_err(failure)
    }

    fn delete(&self, key: &str) -> Result<(), Failure> {
        import::storage::delete(key).map_err(failure)
    }

    fn keys(&self, prefix: &str, after: &str, limit: u32) -> Result<Vec<String>, Failure> {
        import::storage::keys(prefix, after, limit).map_err(failure)
    }

    fn scan_bytes(&self, prefix: &str, after: &str, limit: u32) -> Result<Page, Failure> {
        let found = import::storage::scan(prefix, after, limit).map_err(failure)?;
        Ok(found.into_iter().map(|(key, found)| (key, entry(found))).collect())
    }

    fn revision(&self, prefix: &str) -> Result<u64, Failure> {
        import::storage::revision(prefix).map_err(failure)
    }

    fn checkpoint(&self) -> Result<u64, Failure> {
        import::storage::checkpoint().map_err(failure)
    }
}

impl Leases for Imports {
    fn reserve(&self, tag: &str, lane: &str, internal: &str) -> Result<String, Failure> {
        import::leases::reserve(tag, lane, internal).map_err(failure)
    }

    fn amend(&self, tag: &str, internal: &str) -> Result<(), Failure> {
        import::leases::amend(tag, internal).map_err(failure)
    }

    fn end_issued(&self, handle: &str) -> Result<(), Failure> {
        import::leases::end_issued(handle).map_err(failure)
    }

    fn end(&self, tag: &str) -> Result<(), Failure> {
        import::leases::end(tag).map_err(failure)
    }

    fn count(&self, lane: &str) -> Result<u32, Failure> {
        import::leases::count(lane).map_err(failure)
    }
}

impl Clock for Imports {
    fn now(&self) -> StoreTime {
        import::clock::now()
    }

    fn schedule(&self, key: &str, at: StoreTime, lane: &str) -> Result<(), Failure> {
        import::clock::schedule(key, at, lane).map_err(failure)
    }

    fn guard(&self, key: &str, lane: &str) -> Result<(), Failure> {
        import::clock::guard(key, lane).map_err(failure)
    }

    fn cancel(&self, key: &str) -> Result<(), Failure> {
        import::clock::cancel(key).map_err(failure)
    }
}

impl Databases for Imports {
    fn resolve(&self, plugin: &str, version: &str) -> Result<Resolved, Failure> {
        let found = import::database::resolve(plugin, version).map_err(failure)?;
        let description = serde_json::from_str(&found.description).map_err(|_| {
            Failure::internal(format!("the description of plugin {plugin:?} cannot be read"))
        })?;
        Ok(Resolved { version: found.version, description })
    }

    fn configure(&self, connection: &Connection) -> Result<Configured, Failure> {
        let made = import::database::configure(&host_connection(connection)).map_err(refusal)?;
        let settings = serde_json::from_str(&made.settings).map_err(|_| {
            Failure::internal(format!("plugin {:?} made no settings", connection.plugin))
        })?;
        Ok(Configured { settings, targets: made.targets, warnings: made.warnings })
    }

    fn check_statements(
        &self,
        connection: &Connection,
        statements: &[String],
    ) -> Result<(), Failure> {
        import::database::check_statements(&host_connection(connection), statements)
            .map_err(refusal)
    }

    fn verify(&self, connection: &Connection) -> Result<(), Failure> {
        import::database::verify(&host_connection(connection)).map_err(refusal)
    }

    fn plan_username(
        &self,
        connection: &Connection,
        display_name: &str,
        role_name: &str,
    ) -> Result<String, Failure> {
        import::database::plan_username(&host_connection(connection), display_name, role_name)
            .map_err(refusal)
    }

    fn create_user(
        &self,
        connection: &Connection,
        user: &NewUser,
        statements: &[String],
        rollback: &[String],
    ) -> Result<(), Unmade> {
        let user = words::NewUser {
            username: user.username.clone(),
            credential: credential(&user.credential),
            expires: user.expires,
            ext: Vec::new(),
        };
        import::database::create_user(&host_connection(connection), &user, statements, rollback)
            .map_err(unmade)
    }

    fn change_credential(
        &self,
        connection: &Connection,
        username: &str,
        new: &Credential,
        current: Option<&Credential>,
        statements: &[String],
    ) -> Result<(), Failure> {
        let (new, current) = (credential(new), current.map(credential));
        import::database::change_credential(
            &host_connection(connection),
            username,
            &new,
            current.as_ref(),
            statements,
        )
        .map_err(refusal)
    }

    fn set_expiration(
        &self,
        connection: &Connection,
        username: &str,
        expires: StoreTime,
        statements: &[String],
    ) -> Result<(), Failure> {
        import::database::set_expiration(
            &host_connection(connection),
            username,
            expires,
            statements,
        )
        .map_err(refusal)
    }

    fn delete_user(
        &self,
        connection: &Connection,
        username: &str,
        statements: &[String],
    ) -> Result<(), Failure> {
        import::database::delete_user(&host_connection(connection), username, statements)
            .map_err(refusal)
    }

    fn check_credential(
        &self,
        connection: &Connection,
        username: &str,
        held: &Credential,
    ) -> Result<Option<bool>, Failure> {
        import::database::check_credential(
            &host_connection(connection),
            username,
            &credential(held),
        )
        .map_err(refusal)
    }

    fn close(&self, name: &str) {
        import::database::close(name);
    }
}

impl Passwords for Imports {
    fn generate(&self, policy: &str) -> Result<String, Failure> {
        import::passwords::generate(policy).map_err(failure)
    }
}

impl Http for Imports {
    fn send(&self, request: &Request) -> Result<Response, Failure> {
        let headers = request.headers.iter();
        let headers = headers
            .map(|(name, value)| import::http::Header { name: name.clone(), value: value.clone() });
        let asked = import::http::Request {
            method: request.method.clone(),
            url: request.url.clone(),
            headers: headers.collect(),
            body: request.body.clone(),
            timeout: request.timeout,
            tls: request.tls.as_ref().map(tls_words),
            secrets: request.secrets.clone(),
            safe: request.safe,
            ext: Vec::new(),
        };
        let answer = import::http::send(&asked).map_err(failure)?;
        let headers =
            answer.headers.into_iter().map(|header| (header.name, header.value)).collect();
        Ok(Response { status: answer.status, headers, body: answer.body })
    }
}

impl Cache for Imports {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        import::cache::get(key).map_err(failure)
    }

    fn get_or_lead(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        import::cache::get_or_lead(key).map_err(failure)
    }

    fn put(&self, key: &str, value: &[u8], ttl: u32) -> Result<(), Failure> {
        import::cache::put(key, value, ttl).map_err(failure)
    }

    fn remove(&self, key: &str) -> Result<(), Failure> {
        import::cache::remove(key).map_err(failure)
    }
}

impl Random for Imports {
    fn bytes(&self, length: u32) -> Vec<u8> {
        import::crypto::random(length)
    }
}

impl Log for Imports {
    fn write(&self, level: Level, event: &str, pairs: &[(&str, &str)]) {
        let level = match level {
            Level::Debug => import::log::Level::Debug,
            Level::Info => import::log::Level::Info,
            Level::Warn => import::log::Level::Warn,
            Level::Error => import::log::Level::Error,
        };
        let pairs: Vec<_> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        import::log::write(level, event, &pairs);
    }
}

fn entry(found: import::storage::Entry) -> Entry<Vec<u8>> {
    Entry { value: found.value, created: found.created, modified: found.modified }
}

fn host_connection(connection: &Connection) -> import::database::Connection {
    import::database::Connection {
        plugin: connection.plugin.clone(),
        version: connection.version.clone(),
        name: connection.name.clone(),
        generation: connection.generation,
        settings: Value::Object(connection.settings.clone()).to_string(),
        ext: Vec::new(),
    }
}

fn credential(given: &Credential) -> words::Credential {
    match given {
        Credential::Password(text) => words::Credential::Password(text.clone()),
        Credential::PublicKeyPem(text) => words::Credential::PublicKeyPem(text.clone()),
        Credential::SubjectDn(text) => words::Credential::SubjectDn(text.clone()),
    }
}

fn tls_words(tls: &Tls) -> import::http::Tls {
    import::http::Tls {
        root_certificates: tls.root_certificates.clone(),
        client_certificate: tls.client_certificate.clone(),
        client_key: tls.client_key.clone(),
        server_name: tls.server_name.clone(),
        ext: Vec::new(),
    }
}

fn failure(why: import::types::Failure) -> Failure {
    let failure = Failure::new(Kind::of_code(&why.code), why.message);
    Failure { retry_after: why.retry_after, ..failure }
}

fn refusal(why: import::types::Failure) -> Failure {
    let failure = Failure::new(database_kind(&why.code), why.message);
    Failure { retry_after: why.retry_after, ..failure }
}

fn unmade(why: import::types::Failure) -> Unmade {
    match is_nothing_made(&why.ext) {
        true => Unmade::Surely(refusal(why)),
        false => Unmade::Perhaps(refusal(why)),
    }
}
