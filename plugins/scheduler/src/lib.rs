//! The scheduler's ACL API: roles, and the policies, tokens and bootstrap that clients need to use
//! roles.
//!
//! The component answers plain HTTP and authenticates callers by its own tokens; it neither needs
//! nor sees a token of the server. Each noun of the URL has a file. In addition, `request` parses,
//! `api` routes, `reply` answers, `caller` authenticates, and `index` numbers.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! content_hash → index → names → policy_rules → refusal → body → prefix → query → pages → policy
//! → region_config → reply → request → role → authority → token → caller → given_token
//! → token_records → replica → system → forward → replication_round → replicate → bootstrap
//! → config → policies → region → roles → tokens → api
//! ```

mod api;
mod authority;
mod body;
mod bootstrap;
mod caller;
mod config;
mod content_hash;
#[cfg(test)]
mod fixture;
mod forward;
mod given_token;
mod index;
mod names;
mod pages;
mod policies;
mod policy;
mod policy_rules;
mod prefix;
mod query;
mod refusal;
mod region;
mod region_config;
mod replica;
mod replicate;
mod replication_round;
mod reply;
mod request;
mod role;
mod roles;
mod system;
mod token;
mod token_records;
mod tokens;

use bulkhead_sdk::raw::{RawAccess, RawCaller, RawEngine, RawReply, RawRequest};
use bulkhead_sdk::table::{Row, delete, read, write};
use bulkhead_sdk::{Context, Failure, Host, Metric, MountedPlugin, SecretsEngine};
use request::ApiRequest;

/// The scheduler engine.
pub struct Scheduler;

impl MountedPlugin for Scheduler {
    const NAME: &'static str = "scheduler";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Serves the ACL API of a workload scheduler.";
    const INDEXED: bool = true;
    // Each replicated policy and token costs a request. A run without these limits replicates, too,
    // but 50 times slower.
    const ASKS: &'static [&'static str] =
        &["http", "limit:http-calls=1000", "limit:http-bytes=64MiB"];
    const METRICS: &'static [Metric] = replication_round::METRICS;
    const TABLE: &'static [Row] = &[
        read("config", config::read)
            .about("Shows the region and the authoritative region, without the token."),
        write("config", config::write)
            .about("Sets the mount's region and the authoritative region.")
            .fields(&[config::FIELDS]),
        delete("config", config::delete)
            .about("Makes the region authoritative, with the present records."),
        write("bootstrap-reset", bootstrap::permit_again)
            .about("Allows another bootstrap of the scheduler's ACL system.")
            .sudo(),
    ];

    fn wake(host: &dyn Host, context: &Context, key: &str, attempt: u32) -> Result<(), Failure> {
        match replicate::table_of(key) {
            Some(table) => replicate::run(host, context, table, attempt),
            None => token_records::expire(host, key),
        }
    }
}

impl SecretsEngine for Scheduler {
    const RAW: Option<RawAccess> = Some(RawAccess {
        headers: &["x-nomad-token", "x-scheduler-token", "authorization", "x-bulkhead-hop"],
        secret_headers: &["x-nomad-token", "x-scheduler-token", "authorization"],
        body_limit: 1 << 20,
        paths: api::SHOWN_PATHS,
        identifies: true,
    });
}

impl RawEngine for Scheduler {
    fn serve(host: &dyn Host, request: &RawRequest) -> Result<RawReply, Failure> {
        match ApiRequest::read(host, request) {
            Ok(read) => api::serve(&read),
            Err(redirect) => Ok(redirect),
        }
    }

    fn identify(host: &dyn Host, request: &RawRequest) -> Result<Option<RawCaller>, Failure> {
        match ApiRequest::read(host, request) {
            Ok(read) => caller::identify(&read),
            Err(_redirect) => Ok(None),
        }
    }
}

bulkhead_sdk::export_secrets_engine!(Scheduler);
