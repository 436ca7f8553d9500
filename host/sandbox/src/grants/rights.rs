//! Sources of grants: the three layers of a mount, and the layers of a database plugin.

use super::ask::GrantPattern;
use super::line::Grant;

/// The origin of a component. Rights depend on the origin, and thus on the bytes: an uploaded
/// component with an official component's name gets no official rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publisher {
    /// Part of this binary.
    Official,
    /// Uploaded by a caller.
    Uploaded,
}

/// The lines of a mount by layer.
#[derive(Clone, Copy, Debug)]
pub struct GrantLayers<'a> {
    /// The mount's path, for refusals.
    pub mount: &'a str,
    /// Origin of the component.
    pub maker: Publisher,
    /// Lines that the component asks for.
    pub asked: &'a [GrantPattern],
    /// Lines that the component's entry in the catalog allows. `None`: all lines that the component
    /// asks for.
    pub ceiling: Option<&'a [GrantPattern]>,
    /// Lines granted to the mount. `None`: the operator set no grants; an official component then
    /// has all lines that the component asks for, and an uploaded component has none.
    pub granted: Option<&'a [Grant]>,
}

/// The database plugin of a nested call, which dials the servers that a connection names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DialingPlugin<'a> {
    /// Origin of the plugin.
    pub(crate) maker: Publisher,
    /// Lines that the plugin asks for.
    pub(crate) asks: &'a [String],
    /// Lines that the plugin's entry in the catalog allows. `None`: all lines that the plugin asks
    /// for.
    pub(crate) ceiling: Option<&'a [GrantPattern]>,
}

/// The world of the component, which determines the acts that need no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComponentKind {
    Engine,
    DatabasePlugin,
    /// A seal plugin, outside of any mount. The name of the seal stands in place of the mount.
    SealPlugin,
    Described,
}
