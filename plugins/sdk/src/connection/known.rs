//! Which parameters of a `connection_url` a plugin knows.
//!
//! The attack this file stops: parameters that look honoured and are not.

use super::faults::Fault;
use super::parameters::{CONNECTION_URL, Parameters};
use crate::database_plugin::Refusal;

/// The names of parameters, by what becomes of them.
pub struct KnownParameters {
    /// They are read.
    pub honoured: &'static [&'static str],
    /// Clients write them, and they change nothing here.
    pub indifferent: &'static [&'static str],
    /// They ask for something that would not happen.
    pub unsupported: &'static [&'static str],
}

impl KnownParameters {
    /// # Errors
    /// For the first parameter that is unsupported or unknown.
    pub fn check(&self, parameters: &Parameters) -> Result<(), Refusal> {
        for (place, (keyword, _)) in parameters.named.iter().enumerate() {
            if let Some(known) = self.unsupported.iter().find(|known| *known == keyword) {
                let refusal = Fault::ParameterUnsupported.about(CONNECTION_URL);
                return Err(refusal.with("parameter", *known));
            }
            if !self.honoured.iter().chain(self.indifferent).any(|known| known == keyword) {
                return Err(parameters.unknown(place));
            }
        }
        Ok(())
    }
}

/// The refusal of a known parameter's value; `accepted` says what it may be.
#[must_use]
pub fn refused_value(parameter: &str, accepted: &str) -> Refusal {
    let refusal = Fault::ParameterValue.about(CONNECTION_URL);
    refusal.with("parameter", parameter).with("accepted", accepted)
}
