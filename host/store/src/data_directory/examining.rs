//! Questions about a store that this process does not hold. Nothing is created or changed.

use super::claiming::claimant;
use super::{DataDirectory, place_of};
use crate::identity;
use crate::server_report::DatabaseServerReport;
use bulkhead_place::node_files;
use bulkhead_place::options::{DatabaseChoice, StoreOptions};
use bulkhead_record::fault::StoreFault;

impl DataDirectory {
    /// Checks that the database of a store without a running server can be opened by this version.
    /// Nothing is created or changed.
    ///
    /// # Errors
    /// As [`DataDirectory::hold`].
    pub async fn examine(options: &StoreOptions) -> Result<(), StoreFault> {
        identity::examine(place_of(options)).await
    }

    /// Checks that a start may claim a database that several machines reach: no other node holds
    /// the database, and the database is the one of the directory, with all known commits. Waits
    /// while the claim of another node is neither renewed nor expired. Call this function only if
    /// no server holds the directory. Nothing is created or changed.
    ///
    /// # Errors
    /// As [`DataDirectory::hold`].
    pub async fn examine_claim(options: &StoreOptions) -> Result<(), StoreFault> {
        let DatabaseChoice::Postgres(_) = &options.database else { return Ok(()) };
        let (path, place) = (&options.directory, place_of(options));
        match identity::read_for_start(place).await? {
            None => node_files::check_unmarked(path, &place.name()),
            Some(identity) => {
                let node = node_files::read_node(path)?;
                let node = claimant(options, node, &identity.cluster_name())?;
                place.check_claim(&node).await
            }
        }
    }

    /// Returns whether the database is initialised, by this version or by another.
    ///
    /// # Errors
    /// As [`DataDirectory::hold`].
    pub async fn has_data(options: &StoreOptions) -> Result<bool, StoreFault> {
        Ok(place_of(options).examine().await?.is_some())
    }

    /// Examines the server of the database; `None` without a server. A running server of Bulkhead
    /// is not disturbed.
    ///
    /// # Errors
    /// [`StoreFault`] if the server cannot be reached or does not answer.
    pub async fn examine_server(
        options: &StoreOptions,
    ) -> Result<Option<DatabaseServerReport>, StoreFault> {
        place_of(options).examine_server().await
    }
}
