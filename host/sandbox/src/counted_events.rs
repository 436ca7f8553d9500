//! Events that the store's sandbox counts: changes of versions, and loads of compiled code.

use bulkhead_wire::event_counts::CountedEvent;

/// The outcome of a change of a mount's plugin version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginSwap {
    /// Another version serves.
    Done,
    /// The version before serves on.
    Refused,
    /// The version before serves again, because the new version crashed.
    RolledBack,
}

impl CountedEvent<3> for PluginSwap {
    const COUNTED: [Self; 3] = [Self::Done, Self::Refused, Self::RolledBack];
}

impl PluginSwap {
    /// Returns the value of the label.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::RolledBack => "rolled-back",
        }
    }
}

/// The source of a component's compiled code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeSource {
    /// The store.
    Stored,
    /// The compiler, because the store has no code of this build.
    Compiled,
}

impl CountedEvent<2> for CodeSource {
    const COUNTED: [Self; 2] = [Self::Stored, Self::Compiled];
}

impl CodeSource {
    /// Returns the value of the label.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Compiled => "compiled",
        }
    }
}
