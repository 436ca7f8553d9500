//! A database plugin as core hands it to the engine that reaches it.
//!
//! Knows what it says of itself and what may be granted to it. Never knows the state of the
//! instances that its code is linked for: core's services, which find the plugin, are a part of
//! that state.

use crate::grants::{Ask, Dials};
use crate::identity::Identity;
use bulkhead_wire::description::DatabaseDescription;
use std::any::Any;
use std::sync::Arc;

/// A database plugin, ready to be reached by engines.
pub struct DatabasePlugin {
    identity: Arc<Identity>,
    description: DatabaseDescription,
    description_text: String,
    ceiling: Option<Arc<[Ask]>>,
    linked: Box<dyn Any + Send + Sync>,
}

impl DatabasePlugin {
    /// The plugin whose code is `linked`.
    ///
    /// # Errors
    /// When its description cannot be written as JSON.
    pub(crate) fn new(
        identity: Arc<Identity>,
        description: DatabaseDescription,
        ceiling: Option<Arc<[Ask]>>,
        linked: impl Any + Send + Sync,
    ) -> Result<Self, String> {
        let description_text =
            serde_json::to_string(&description).map_err(|error| error.to_string())?;
        Ok(Self { identity, description, description_text, ceiling, linked: Box::new(linked) })
    }

    /// What it said of itself.
    #[must_use]
    pub fn description(&self) -> &DatabaseDescription {
        &self.description
    }

    /// The same, as JSON.
    pub(crate) fn description_text(&self) -> &str {
        &self.description_text
    }

    /// Who it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The same, to keep.
    pub(crate) fn shared_identity(&self) -> Arc<Identity> {
        Arc::clone(&self.identity)
    }

    /// What its entry in the catalog allows; `None`: all that it asks for.
    #[must_use]
    pub fn ceiling(&self) -> Option<&[Ask]> {
        self.ceiling.as_deref()
    }

    /// What its grants in a nested call follow from.
    pub(crate) fn dials(&self) -> Dials<'_> {
        let (maker, asks) = (self.identity.maker, &self.description.asks);
        Dials { maker, asks, ceiling: self.ceiling() }
    }

    /// Its code, linked as an `L`; `None` if it was linked as something else.
    pub(crate) fn linked<L: 'static>(&self) -> Option<&L> {
        self.linked.downcast_ref()
    }
}
