//! Types shared by all layers: request, response, client, envelope, failure, durations, sizes,
//! names, password policies, and the description of a component with its route table and field
//! schema.
//!
//! Pure: the crate also builds for the sandbox, and never depends on tokio, hyper, SQL or wasmtime.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! client → component_signature → distinct → duration_histogram → event_counts → failure → glob
//! → hcl → hexadecimal → json → listing → log_level → login → secret → spelling → sync
//! → trace_parent → byte_stream → alphabet → attempt_outcomes → cidr → duration → envelope
//! → metric → name → server_figures → size → stored → write_figures → call_limits → description
//! → password_policy → response → ttl → api_version → coercion → request → fields → field_rights
//! → raw → route
//! ```

pub mod alphabet;
pub mod api_version;
pub mod attempt_outcomes;
pub mod byte_stream;
pub mod call_limits;
pub mod cidr;
pub mod client;
mod coercion;
pub mod component_signature;
pub mod description;
pub mod distinct;
pub mod duration;
pub mod duration_histogram;
pub mod envelope;
pub mod event_counts;
pub mod failure;
pub mod field_rights;
pub mod fields;
pub mod glob;
pub mod hcl;
pub mod hexadecimal;
pub mod json;
pub mod listing;
pub mod log_level;
pub mod login;
pub mod metric;
pub mod name;
pub mod password_policy;
pub mod raw;
pub mod request;
pub mod response;
pub mod route;
pub mod secret;
pub mod server_figures;
pub mod size;
pub mod spelling;
pub mod stored;
pub mod sync;
pub mod trace_parent;
pub mod ttl;
pub mod write_figures;
