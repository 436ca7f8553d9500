//! The catalog: all plugins, by type and name, both the components of this binary and the uploads
//! of operators.
//!
//! The catalog asks a component for its description only when the digest is new, and stores the
//! answer; later starts read the stored description and run no plugin code. The machine code of an
//! uploaded plugin is loaded before its first call. An uploaded plugin stays in the catalog with
//! the reason if loading fails, and does not keep the service from starting.

mod builds;
mod bytes;
mod choice;
mod connection;
mod databases;
mod entry;
mod folder;
mod image_layout;
mod listing;
mod load;
mod loading;
mod missing;
mod official;
mod origin;
mod pin;
mod plugin;
mod plugin_directory;
mod registration;
mod reloads;
mod rules;
mod signatures;
mod table;
mod uploaded;
mod versions;

pub(crate) use connection::{MountConnection, connections_of, forget_connections};
pub(crate) use entry::is_last_version;
pub use entry::{PluginType, address};
pub use listing::ListedPlugin;
pub(crate) use loading::CompilationOutcome;
pub use official::{OfficialComponent, OfficialSeal};
pub use origin::ComponentOrigin;
pub use pin::{Pin, VersionChoice};
pub use plugin::{ApiSuccessor, CatalogChange, EnginePlugin, Plugin, PluginLoader};
pub use plugin_directory::PluginDirectory;
pub use registration::{ComponentUpload, RegistrationResult};
pub use reloads::{ReloadHistory, ReloadRecord};
pub use signatures::{SignaturePolicy, SignatureRules, TrustedKey};
pub(crate) use table::Catalog;
