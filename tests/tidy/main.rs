//! The repository's rules as tests. A failure names the rule, the place and the remedy.
//!
//! Each module is a group of rules. The rules read sources and built files, so they apply to new
//! code automatically.

mod attacks;
mod circles;
mod citations;
mod clients;
mod components;
mod contract;
mod crates;
mod dated_phrases;
mod decisions;
mod dependencies;
mod failpoints;
mod faults;
mod free_acts;
mod frozen_contract;
mod lengths;
mod limits;
mod log_lines;
mod maps;
mod modules;
mod names;
mod packaging;
mod pipelines;
mod prose;
mod rust_text;
mod sources;
mod sql;
mod statics;
mod stored;
mod style;
mod tables;
