//! Identity of a component: name and version for people, and the digest for all else.

use crate::grants::Publisher;
use bulkhead_wire::hexadecimal;

/// Identity of a component, for logs and failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentIdentity {
    /// The plugin's name.
    pub name: String,
    /// Semantic version.
    pub version: String,
    /// SHA-256 of the component's bytes, hexadecimal.
    pub digest: String,
    /// The maker of the component.
    pub maker: Publisher,
}

impl ComponentIdentity {
    /// Returns the pairs of a log line that name the component.
    #[must_use]
    pub fn log_pairs(&self) -> [(&'static str, String); 2] {
        [("plugin", self.name.clone()), ("version", self.version.clone())]
    }

    /// Returns the title for messages: `plugin database 1.4.2 (sha256 9f2c…)`.
    #[must_use]
    pub fn title(&self) -> String {
        let short: String = self.digest.chars().take(8).collect();
        format!("plugin {} {} (sha256 {short}…)", self.name, self.version)
    }
}

/// Returns the SHA-256, hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    hexadecimal::text(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref())
}
