//! Parameters of a `connection_url` that a plugin knows.
//!
//! The attack this file stops: parameters that look honoured but are ignored.

use super::faults::Fault;
use super::parameters::{CONNECTION_URL, ConnectionParameters};
use crate::database_plugin::Refusal;

/// Names of parameters, by treatment.
pub struct KnownParameters {
    /// Parameters that the plugin applies.
    pub honoured: &'static [&'static str],
    /// Parameters of other clients that have no effect here.
    pub indifferent: &'static [&'static str],
    /// Parameters for features that the plugin lacks. A URL with such a parameter is refused.
    pub unsupported: &'static [&'static str],
}

impl KnownParameters {
    /// Refuses parameters that the plugin cannot honour.
    ///
    /// # Errors
    /// For the first parameter that is unsupported or unknown.
    pub fn check(&self, parameters: &ConnectionParameters) -> Result<(), Refusal> {
        for (place, (keyword, _)) in parameters.named.iter().enumerate() {
            if let Some(parameter) = self.unsupported.iter().find(|parameter| *parameter == keyword)
            {
                let refusal = Fault::ParameterUnsupported.about(CONNECTION_URL);
                return Err(refusal.with("parameter", *parameter));
            }
            if !self.honoured.iter().chain(self.indifferent).any(|parameter| parameter == keyword) {
                return Err(parameters.unknown(place));
            }
        }
        Ok(())
    }
}

/// Returns the refusal of a known parameter's value; `accepted` describes the valid values.
#[must_use]
pub fn refused_value(parameter: &str, accepted: &str) -> Refusal {
    let refusal = Fault::ParameterValue.about(CONNECTION_URL);
    refusal.with("parameter", parameter).with("accepted", accepted)
}
