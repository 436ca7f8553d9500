//! The real host: each interface of [`Host`] is implemented with the import of the same name.
//! Converts types and decides nothing.

#[cfg(all(feature = "auth-method", not(feature = "secrets-engine")))]
mod absent;
mod crypto;
#[cfg(feature = "secrets-engine")]
mod databases;
mod directories;

#[cfg(all(feature = "auth-method", not(feature = "secrets-engine")))]
use crate::bindings::auth_method::bulkhead::plugin as import;
#[cfg(feature = "secrets-engine")]
use crate::bindings::secrets_engine::bulkhead::plugin as import;
use crate::database_plugin::StoreTime;
use crate::host::{
    Ambient, Cache, Clock, Crypto, Databases, Entity, Entry, Host, Http, Identity, IdentityToken,
    Ldap, Leases, Log, LogLevel, MachineToken, Metrics, Migration, Passwords, Pod, Random,
    RecordPage, Storage, each_face,
};
use crate::http::{HttpTls, Request, Response};
use crate::metric::Metric;
use bulkhead_wire::failure::{Failure, FailureKind};

/// The imports of the component's world.
pub(crate) struct Imports;

impl Host for Imports {}

/// Defines the interfaces as methods without a table, because a component has exactly one host. An
/// unused interface is then not linked, and the component does not import it (decision T33). Calls
/// such as `host.http()` look the same as with a table.
macro_rules! find_directly {
    ($($(#[$doc:meta])* $name:ident: $face:ident,)*) => {
        impl dyn Host + '_ {
            $($(#[$doc])* pub fn $name(&self) -> &dyn $face { &Imports })*
        }
    };
}

each_face!(find_directly);

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

    fn scan_bytes(&self, prefix: &str, after: &str, limit: u32) -> Result<RecordPage, Failure> {
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

#[cfg(feature = "secrets-engine")]
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

    fn pause(&self, milliseconds: u64) {
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
    }

    fn schedule(&self, key: &str, at: StoreTime, lane: &str) -> Result<(), Failure> {
        import::clock::schedule(key, at, lane).map_err(failure)
    }

    fn guard(&self, key: &str, lane: &str) -> Result<(), Failure> {
        import::clock::guard(key, lane).map_err(failure)
    }

    fn widen(&self, lane: &str, places: u32) -> Result<(), Failure> {
        import::clock::widen(lane, places).map_err(failure)
    }

    fn rest(&self, lane: &str) -> Result<Option<u64>, Failure> {
        import::clock::rest(lane).map_err(failure)
    }

    fn cancel(&self, key: &str) -> Result<(), Failure> {
        import::clock::cancel(key).map_err(failure)
    }
}

impl Migration for Imports {
    fn cursor(&self) -> Result<Option<String>, Failure> {
        import::migration::cursor().map_err(failure)
    }

    fn continue_at(&self, cursor: &str) -> Result<(), Failure> {
        import::migration::continue_at(cursor).map_err(failure)
    }
}

impl Identity for Imports {
    fn token(&self, audience: &str, ttl: u64) -> Result<IdentityToken, Failure> {
        let signed = import::identity::token(audience, ttl).map_err(failure)?;
        Ok(IdentityToken { token: signed.token, expires: signed.expires })
    }

    fn entity(&self, id: &str) -> Result<Option<Entity>, Failure> {
        let found = import::identity::find_entity(id).map_err(failure)?;
        Ok(found.map(|found| Entity {
            id: found.id,
            name: found.name,
            metadata: found.metadata.into_iter().collect(),
        }))
    }
}

impl Passwords for Imports {
    fn generate(&self, policy: &str) -> Result<String, Failure> {
        import::passwords::generate(policy).map_err(failure)
    }

    fn generate_from(&self, length: u32, alphabet: &str) -> Result<String, Failure> {
        import::passwords::generate_from(length, alphabet).map_err(failure)
    }
}

impl Http for Imports {
    fn send(&self, request: &Request) -> Result<Response, Failure> {
        let headers = request.headers.iter();
        let headers = headers
            .map(|(name, value)| import::http::Header { name: name.clone(), value: value.clone() });
        let host_request = import::http::Request {
            method: request.method.clone(),
            url: request.url.clone(),
            headers: headers.collect(),
            body: request.body.clone(),
            timeout: request.timeout,
            tls: request.tls.as_ref().map(tls_words),
            secrets: request.secrets.clone(),
            safe: request.safe,
            identity: request.identity.clone(),
            ext: Vec::new(),
        };
        let answer = import::http::send(&host_request).map_err(failure)?;
        let headers =
            answer.headers.into_iter().map(|header| (header.name, header.value)).collect();
        Ok(Response { status: answer.status, headers, body: answer.body })
    }
}

impl Ambient for Imports {
    fn environment(&self, name: &str) -> Result<Option<String>, Failure> {
        import::ambient::environment(name).map_err(failure)
    }

    fn cloud_token(&self, cloud: &str, audience: &str) -> Result<MachineToken, Failure> {
        let given = import::ambient::cloud_token(cloud, audience).map_err(failure)?;
        Ok(MachineToken { token: given.token, expires: given.expires })
    }

    fn pod(&self) -> Result<Option<Pod>, Failure> {
        let found = import::ambient::find_pod().map_err(failure)?;
        Ok(found.map(|found| Pod {
            host: found.host,
            port: found.port,
            namespace: found.namespace,
        }))
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
    fn write(&self, level: LogLevel, event: &str, pairs: &[(&str, &str)]) {
        let level = match level {
            LogLevel::Debug => import::log::Level::Debug,
            LogLevel::Info => import::log::Level::Info,
            LogLevel::Warn => import::log::Level::Warn,
            LogLevel::Error => import::log::Level::Error,
        };
        let pairs: Vec<_> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        import::log::write(level, event, &pairs);
    }
}

impl Metrics for Imports {
    fn count(&self, metric: &Metric, label: &str, amount: u64) {
        import::metrics::count(metric.name(), label, amount);
    }

    fn set(&self, metric: &Metric, label: &str, value: f64) {
        import::metrics::set(metric.name(), label, value);
    }

    fn observe(&self, metric: &Metric, label: &str, value: f64) {
        import::metrics::observe(metric.name(), label, value);
    }
}

fn entry(found: import::storage::Entry) -> Entry<Vec<u8>> {
    Entry { value: found.value, created: found.created, modified: found.modified }
}

fn tls_words(tls: &HttpTls) -> import::http::Tls {
    import::http::Tls {
        root_certificates: tls.root_certificates.clone(),
        client_certificate: tls.client_certificate.clone(),
        client_key: tls.client_key.clone(),
        server_name: tls.server_name.clone(),
        ext: Vec::new(),
    }
}

fn failure(why: import::types::Failure) -> Failure {
    let failure = Failure::new(FailureKind::of_code(&why.code), why.message);
    Failure { retry_after: why.retry_after, ..failure }
}
