//! A database plugin, as core hands it to the engine that calls the plugin.
//!
//! Knows the plugin's description and the acts that may be granted to the plugin. Never knows the
//! state of the instances for which the plugin's code is linked: core's services find the plugin,
//! and are part of that state.

use crate::grants::{DialingPlugin, GrantPattern};
use crate::identity::ComponentIdentity;
use bulkhead_wire::description::DatabaseDescription;
use std::any::Any;
use std::sync::{Arc, OnceLock};

/// A database plugin. Calls by engines need its linked code.
pub struct DatabasePlugin {
    identity: Arc<ComponentIdentity>,
    description: DatabaseDescription,
    description_text: String,
    ceiling: Option<Arc<[GrantPattern]>>,
    linked: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl DatabasePlugin {
    /// Makes the plugin without its code.
    ///
    /// # Errors
    /// If the description cannot be written as JSON.
    pub(crate) fn new(
        identity: Arc<ComponentIdentity>,
        description: DatabaseDescription,
        ceiling: Option<Arc<[GrantPattern]>>,
    ) -> Result<Self, String> {
        let description_text =
            serde_json::to_string(&description).map_err(|error| error.to_string())?;
        Ok(Self { identity, description, description_text, ceiling, linked: OnceLock::new() })
    }

    /// Sets the plugin's linked code, unless code was linked before.
    pub(crate) fn set_linked(&self, linked: impl Any + Send + Sync) {
        self.linked.get_or_init(|| Box::new(linked));
    }

    /// Returns true if the code is linked, which calls need.
    #[must_use]
    pub fn is_linked(&self) -> bool {
        self.linked.get().is_some()
    }

    /// Returns the plugin's own description.
    #[must_use]
    pub fn description(&self) -> &DatabaseDescription {
        &self.description
    }

    /// Returns the description as JSON.
    pub(crate) fn description_text(&self) -> &str {
        &self.description_text
    }

    /// Returns the plugin's identity.
    #[must_use]
    pub fn identity(&self) -> &ComponentIdentity {
        &self.identity
    }

    /// Returns a shared pointer to the identity.
    pub(crate) fn shared_identity(&self) -> Arc<ComponentIdentity> {
        Arc::clone(&self.identity)
    }

    /// Returns the acts that the catalog entry allows; `None`: all acts that the plugin asks for.
    #[must_use]
    pub fn ceiling(&self) -> Option<&[GrantPattern]> {
        self.ceiling.as_deref()
    }

    /// Returns the facts that decide the plugin's grants in a nested call.
    pub(crate) fn dials(&self) -> DialingPlugin<'_> {
        let (maker, asks) = (self.identity.maker, &self.description.asks);
        DialingPlugin { maker, asks, ceiling: self.ceiling() }
    }

    /// Returns the code, linked as an `L`; `None` if it is not linked, or as another type.
    pub(crate) fn linked<L: 'static>(&self) -> Option<&L> {
        self.linked.get()?.downcast_ref()
    }
}
