//! The catalog: which plugins there are, by type and name.
//!
//! Those of this binary, and those that operators uploaded. A component's description is asked
//! once, when its digest is first seen, and stored; later starts read it and run no plugin code. An
//! uploaded plugin that cannot be loaded is known with the reason, and does not keep the service
//! from starting.

mod bytes;
mod choice;
mod entry;
mod listing;
mod load;
mod official;
mod pin;
mod plugin;
mod registration;
mod reloads;
mod rules;
mod table;
mod uploaded;
mod versions;

pub(crate) use entry::{PluginType, address};
pub(crate) use listing::Listed;
pub use official::Official;
pub(crate) use pin::{Pin, VersionChoice};
pub(crate) use plugin::{Change, EnginePlugin, PluginLoader};
pub(crate) use registration::{Registered, Upload};
pub(crate) use reloads::{Reload, Reloads};
pub(crate) use table::Catalog;
