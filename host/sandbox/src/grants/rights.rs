//! Where grants come from: the three layers of a mount, and those of a database plugin that it
//! reaches.

use super::ask::Ask;
use super::line::Grant;

/// Who made a component. Rights follow from it, and so from bytes: a component that bears an
/// official's name has none of its rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// It is part of this binary.
    Official,
    /// A caller brought it.
    Uploaded,
}

/// Where the lines of a mount come from.
#[derive(Clone, Copy, Debug)]
pub struct Rights<'a> {
    /// The mount's path, for refusals.
    pub mount: &'a str,
    /// Who made its component.
    pub maker: Maker,
    /// What the component asks for.
    pub asked: &'a [Ask],
    /// What its entry in the catalog allows; `None`: all that it asks for.
    pub ceiling: Option<&'a [Ask]>,
    /// What the mount is granted; `None` where its operator said nothing: what an official
    /// component asks for, and of another's nothing.
    pub granted: Option<&'a [Grant]>,
}

/// The database plugin of a nested call, which dials what a connection names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dials<'a> {
    /// Who made it.
    pub(crate) maker: Maker,
    /// What it asks for, in lines.
    pub(crate) asks: &'a [String],
    /// What its own entry in the catalog allows; `None`: all that it asks for.
    pub(crate) ceiling: Option<&'a [Ask]>,
}

/// Which world the grants are for: what needs no line follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Engine,
    DatabasePlugin,
    Described,
}
