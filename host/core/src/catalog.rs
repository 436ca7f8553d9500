//! The catalog: all plugins, by type and name, both the components of this binary and the uploads
//! of operators.
//!
//! The catalog asks a component for its description only when the digest is new, and stores the
//! answer; later starts read the stored description and run no plugin code. An uploaded plugin
//! stays in the catalog with the reason if loading fails, and does not keep the service from
//! starting.

mod builds;
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
