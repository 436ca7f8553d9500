//! Versions of the database plugin behind the host in memory.

use super::host::TestHost;

impl TestHost {
    /// Adds a newer version of the database plugin.
    pub fn add_version(&self, version: &str) {
        self.databases.add_version(version);
    }

    /// Makes the database plugin a plugin of the server.
    pub fn build_in(&self) {
        self.databases.build_in();
    }

    /// Returns the version of the database plugin that was chosen for `connection`.
    pub fn chosen_version(&self, connection: &str) -> Option<String> {
        self.databases.chosen_version(connection)
    }
}
