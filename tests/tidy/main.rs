//! The house's rules as tests. A failure says which rule, where, and what to do.
//!
//! One module a group of rules. They read sources and built files, so that a rule holds for code
//! that nobody remembered to tell about it.

mod components;
mod contract;
mod crates;
mod dependencies;
mod failpoints;
mod sources;
mod statics;
mod stored;
mod style;
