//! The house's rules as tests. A failure says which rule, where, and what to do.
//!
//! One module a group of rules. They read sources and built files, so that a rule holds for new
//! code without being told of it.

mod attacks;
mod circles;
mod citations;
mod components;
mod contract;
mod crates;
mod dependencies;
mod failpoints;
mod frozen_contract;
mod lengths;
mod log_lines;
mod modules;
mod prose;
mod rust_text;
mod sources;
mod statics;
mod stored;
mod style;
