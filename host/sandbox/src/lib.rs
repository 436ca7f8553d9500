//! The sandbox of plugins: a component, its limits, and the resources that it may use.
//!
//! Knows wasmtime, the WIT bindings, limits and grants, and translates the imports for sockets to
//! `bulkhead-outbound`. Never knows tokens, policies,
//! leases or the URLs of our API: the crate calls the layers above only through the trait
//! [`HostServices`].
//!
//! The modules form groups in this order. A module imports from its own group and from groups to
//! the left, and imports have no cycle.
//!
//! ```text
//! limits → grants → component → shares → state → imports → call
//! ```
//!
//! - **limits** knows numbers and their names in grant lines, and never the calls that are counted.
//! - **grants** knows the acts that a mount may do; never the work of an import.
//! - **component** knows bytes: digests, structure, compiled code, and the wasmtime engine that
//!   compiles and runs the code; never a call.
//! - **shares** knows the counted resources that calls share: instance slots, permits to compute,
//!   memory, caches, connections, and the use by a call and its nested calls; never the guest's use
//!   of its share.
//! - **state** knows the data of one call, how its instance is made and entered, and how the call
//!   ended; never the list of imports.
//! - **imports** is the host's side of `wit/`, one file for each interface, and the linkers that
//!   offer the interfaces; never knows how a call began.
//! - **call** is the sandbox itself: admission, loading, describing, reuse, and one call from its
//!   beginning to its end; and the calls of a seal plugin, which need no open store.
//!
//! Start reading at `call.rs`: one call, from fresh instance to answer.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! limits → bindings → sealed_file → fair_queue → metrics → target_calls → counted_events
//! → fault_counts → grants
//! → contract → structure → wasmtime_engine → engine_start → cache → held_memory → memory
//! → secrets → slow_work → crypto_words → compiled → identity → key_ring
//! → component → database_plugin → compartment → compile → admission → cpu_permits
//! → host_services → nested_refusal → caller_presence → call_tree → closing → context
//! → call_spans → detached → effect → resources → output → state → instance → trap_report
//! → outcome → wasi
//! → nested_answer → linkers → linked_database_plugin → instance_cache → imports → sandbox
//! → describe → load → call → seal_settings → seal_plugin
//! ```

// Limits.
mod limits;

// Grants.
pub mod grants;

// Component.
mod bindings;
pub mod compile;
pub mod compiled;
pub mod component;
pub mod contract;
mod database_plugin;
#[cfg(test)]
mod encoding;
mod engine_start;
mod identity;
mod sealed_file;
pub mod structure;
mod wasmtime_engine;

// Shares.
mod admission;
mod cache;
mod call_tree;
mod caller_presence;
mod closing;
mod compartment;
mod counted_events;
mod cpu_permits;
mod fair_queue;
mod fault_counts;
mod held_memory;
mod key_ring;
mod memory;
mod metrics;
mod secrets;
mod slow_work;
mod target_calls;

// State.
mod call_spans;
mod context;
mod detached;
mod effect;
mod host_services;
mod instance;
mod nested_answer;
mod nested_refusal;
mod outcome;
mod output;
mod resources;
mod state;
mod trap_report;

// Imports.
mod crypto_words;
mod imports;
mod linked_database_plugin;
mod linkers;
mod wasi;

// Call.
mod call;
mod describe;
mod instance_cache;
mod load;
mod sandbox;
mod seal_plugin;
mod seal_settings;

pub use admission::{CallPriority, SlotPermit, SlotRequest};
pub use call::{CallOutcome, CallScope};
pub use call_tree::{CallTree, SideEffect};
pub use caller_presence::{CallerPresence, PresentCaller};
pub use closing::CallKind;
pub use compartment::Compartment;
pub use component::{ComponentSource, Publisher, compilation_key, precompile};
pub use counted_events::{CodeSource, PluginSwap};
pub use database_plugin::DatabasePlugin;
pub use detached::LogSink;
pub use engine_start::check_engine;
pub use fair_queue::{FairPermit, FairSemaphore};
pub use fault_counts::TrapReading;
pub use grants::{Grant, GrantLayers, GrantPattern, Grants};
pub use host_services::{
    ConnectionChoice, HostServices, IdentityToken, ReservationRequest, TimerGuard, VisibleEntity,
};
pub use instance_cache::InstanceReuse;
pub use limits::{MountLimits, ReuseBounds};
pub use load::MountablePlugin;
pub use metrics::{MetricReading, MetricReadings};
pub use outcome::Termination;
pub use sandbox::{InstanceReading, MountStop, Sandbox, SandboxRuntime};
pub use seal_plugin::{OpenedKey, SEAL_KEY_BYTES, SealPlugin, SealSurroundings, WrappedKey};
pub use secrets::SecretSet;
pub use target_calls::{TargetCallReading, TargetInterface};
pub use wasmtime_engine::open_page_map;
